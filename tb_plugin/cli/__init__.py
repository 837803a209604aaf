"""The command ``torch-trace``.

Results go to stdout and progress to stderr. ``--help`` must not import numpy or pyarrow. Each command is therefore
imported when it runs, and option choices are repeated in this module.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence

from tb_plugin import __version__
from tb_plugin.cli.exit_codes import BUG, NOTHING, OK, USAGE
from tb_plugin.cli.terminal import ROWS_IN_TEXT, Parser, complain_of_bug, print_error, warnings_on_stderr
from tb_plugin.errors import BadRequest, UserError
from tb_plugin.service.workers.block_pandas import leave_out_pandas

FRAMES, WEIGHTS, FOLDS = ("both", "python", "operators"), ("host", "device"), ("none", "framework")
# Choices of torch-trace stacks: FRAMES, WEIGHTS and FOLDS of views/stacks/options.py, SUFFIXES of
# service/answers/stack_export.py.
FORMATS = ("folded", "speedscope")
# Choices of torch-trace sql: ``cli/sql.py``.
SQL_FORMATS = ("table", "json", "csv", "parquet")
EXPORT_FORMATS = ("parquet", "arrow", "chrome")
_WINDOW = "open only these steps (7, 7-9) or times (0ns-500ns) of a trace that does not fit in memory"
_PATH = "a trace file or a log directory, as a path or URL"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns the exit code. Without ``argv``, may change process-wide state."""
    arguments = _parser(sys.argv[1:] if argv is None else argv).parse_args(argv)
    _end_in_order()
    if argv is None:
        leave_out_pandas()
        gc.disable()
    try:
        with warnings_on_stderr():
            command = importlib.import_module(f"tb_plugin.cli.{arguments.command}")
            gc.freeze()  # imported modules are never garbage
            gc.enable()
            return int(getattr(command, arguments.command)(arguments))
    except UserError as error:
        print_error(f"torch-trace: {error}")
        return USAGE if isinstance(error, BadRequest) else NOTHING
    except BrokenPipeError:
        # The reader of the pipe, such as head, has closed it. Python would report this again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # top level of the command: a bug must not exit with a gate's code
        complain_of_bug(error)
        return BUG


def _end_in_order() -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    for name in ("SIGHUP", "SIGTERM"):
        number = getattr(signal, name, None)
        # Not if nohup ignores the signal, or if a handler is already set.
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda signum, frame: sys.exit(128 + signum))


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    parser = Parser(prog="torch-trace", description="Show where a PyTorch training run spends its time.")
    parser.add_argument("--version", action="version", version=f"torch-trace {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (what, add_options) in _COMMANDS.items():
        command = commands.add_parser(name, help=what)
        if name in argv:  # other options are not needed
            add_options(command)
            command.set_defaults(command=name)
    return parser


def _add_view(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help=_PATH)
    parser.add_argument("--port", type=_whole, default=0, metavar="N", help="port of the page (default: any free port)")
    parser.add_argument(
        "--no-browser", dest="browser", action="store_false", help="only print the address, for a remote machine"
    )


def _add_report(parser: argparse.ArgumentParser) -> None:
    _add_path(parser)
    parser.add_argument("--view", action="append", metavar="V", help="show only this view (repeatable)")
    parser.add_argument(
        "--brief", action="store_true", help="print at most 8 kB, as Markdown or JSON: the bottleneck and its fixes"
    )
    _add_selection(parser)
    _add_output(parser)
    _add_html(parser)


def _add_diff(parser: argparse.ArgumentParser) -> None:
    for path, side, prefix in (("base", "baseline", "base-"), ("exp", "experiment", "")):
        whose = f" of the {side}"
        parser.add_argument(path, metavar=path.upper(), help=f"the {side}: {_PATH}")
        _add_place(parser, prefix, whose)
        _add_steps(parser, prefix, whose)
        _add_capture(parser, prefix, whose)
    parser.add_argument(
        "--per", choices=("step", "total"), default="step", help="mean of the selected steps, or their sum"
    )
    parser.add_argument(
        "--fail-on",
        action="append",
        default=[],
        metavar="GATE",
        help=(
            "exit with code 1 if experiment minus baseline is beyond this limit, such as 'step_time>5%%' (repeatable)"
        ),
    )
    parser.add_argument("--strict", action="store_true", help="gates also fail on changes within noise")
    _add_output(parser)
    _add_html(parser)


def _add_stacks(parser: argparse.ArgumentParser) -> None:
    _add_path(parser)
    _add_selection(parser)
    parser.add_argument(
        "--of",
        choices=FRAMES,
        default="both",
        help="frames to include: Python calls, operators with their runtime calls, or both",
    )
    parser.add_argument(
        "--weight",
        choices=WEIGHTS,
        default="host",
        help="host: CPU self time; device: time of the launched device work",
    )
    parser.add_argument(
        "--thread",
        action="append",
        default=[],
        help="only this thread (pid:tid, id or name); all: include idle threads (repeatable)",
    )
    parser.add_argument(
        "--fold",
        choices=FOLDS,
        default="none",
        help="framework: attribute internal framework calls to the call that entered the framework",
    )
    parser.add_argument("--format", choices=FORMATS, default="folded", help="format of the file")
    parser.add_argument("--output", default="", metavar="FILE", help="write to this file instead of stdout")


def _add_sql(parser: argparse.ArgumentParser) -> None:
    _add_path(parser)
    parser.add_argument(
        "query", metavar="QUERY", help="one SELECT; 'select * from columns' lists all tables and columns"
    )
    parser.add_argument("--window", default="", help=_WINDOW)
    parser.add_argument("--format", choices=SQL_FORMATS, default="table", help="format of the output")
    parser.add_argument("--output", default="", metavar="FILE", help="write to this file instead of stdout")


def _add_whatif(parser: argparse.ArgumentParser) -> None:
    _add_path(parser)
    parser.add_argument(
        "--scale",
        action="append",
        default=[],
        metavar="KIND:NAME=FACTOR",
        help="time of an operator, module, kernel or class, such as operator:aten::mm=0.5; "
        "or communication, copies, data_loading, launches, such as copies=0 (repeatable)",
    )
    parser.add_argument(
        "--on",
        action="append",
        default=[],
        metavar="RANK",
        help="with several ranks: change the work of this rank only (repeatable)",
    )
    _add_steps(parser)
    parser.add_argument("--window", default="", help=_WINDOW)
    _add_output(parser)


def _add_export(parser: argparse.ArgumentParser) -> None:
    _add_path(parser)
    parser.add_argument("--window", default="", help=_WINDOW)
    parser.add_argument(
        "--format",
        choices=EXPORT_FORMATS,
        required=True,
        help="parquet, arrow: one file per table of torch-trace sql; chrome: one JSON for Perfetto, with all ranks",
    )
    parser.add_argument("--table", action="append", default=[], metavar="T", help="only this table (repeatable)")
    parser.add_argument(
        "--output",
        required=True,
        metavar="FILE_OR_FOLDER",
        help="a folder for tables; for one table or for Chrome JSON, a file (.gz: compressed)",
    )


def _add_summarize(parser: argparse.ArgumentParser) -> None:
    _add_path(parser)
    parser.add_argument(
        "--to",
        default="",
        metavar="URL",
        help="write the summaries to this folder or URL, in the same subfolders (default: next to the traces)",
    )
    parser.add_argument(
        "--workers",
        type=_whole,
        metavar="N",
        help="number of processes; 0: only this process (default: depends on cores and memory, at most 4)",
    )
    parser.add_argument(
        "--scheduler",
        default="",
        metavar="URL",
        help="scheduler of a Dask cluster, tcp://HOST:PORT or tls://HOST:PORT (default: TORCH_TRACE_SCHEDULER)",
    )
    for name, what in (("ca-file", "CA certificate"), ("cert", "client certificate"), ("key", "client key")):
        parser.add_argument(f"--tls-{name}", default="", metavar="FILE", help=f"{what}, for a scheduler at tls://")


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help=_PATH)


def _add_mcp(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="LOGDIR", nargs="?", default=".", help="a log directory, as a path or URL")


def _add_nothing(parser: argparse.ArgumentParser) -> None:
    pass


def _add_path(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help=_PATH)
    _add_place(parser)


def _add_place(parser: argparse.ArgumentParser, prefix: str = "", whose: str = "") -> None:
    for name in ("run", "worker", "span"):
        parser.add_argument(f"--{prefix}{name}", help=f"only this {name}{whose}")


def _add_selection(parser: argparse.ArgumentParser) -> None:
    _add_steps(parser)
    parser.add_argument("--phase", default="", help="only this phase (a name in the Phases view)")
    parser.add_argument(
        "--pattern",
        default="",
        help=(
            "RE2 pattern; range names that differ only in text that matches this pattern form one phase (default \\d+)"
        ),
    )
    parser.add_argument("--window", default="", help=_WINDOW)
    _add_capture(parser)


def _add_steps(parser: argparse.ArgumentParser, prefix: str = "", whose: str = "") -> None:
    what = f"only these steps{whose} (5,7-9), or a server mode (decode)"
    parser.add_argument(f"--{prefix}steps", default="", help=what)


def _add_capture(parser: argparse.ArgumentParser, prefix: str = "", whose: str = "") -> None:
    parser.add_argument(
        f"--{prefix}capture",
        default="",
        metavar="TRACE",
        help=f"captures of the CUDA graphs{whose}: RUN/WORKER/SPAN in the log directory, a path, a URL, or none "
        "(default: captures in the folder of the trace, if PATH is a directory)",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("text", "markdown", "json"), default="text", help="format of the output")
    parser.add_argument(
        "--top",
        type=_positive,
        metavar="N",
        help=f"rows per table (default: {ROWS_IN_TEXT} in text and Markdown, all in JSON)",
    )


def _add_html(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--html", default="", metavar="FILE", help="write one HTML file that works offline")
    parser.add_argument(
        "--redact", action="store_true", help="replace paths, hosts and users in the HTML file, for sharing"
    )


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not a whole number")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return int(text)


_COMMANDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "view": ("open a trace file or folder in the browser", _add_view),
    "report": ("print metrics and findings of profiles", _add_report),
    "diff": ("compare two profiles; fail if a change exceeds a limit", _add_diff),
    "stacks": ("write stacks for a flame graph or for speedscope", _add_stacks),
    "sql": ("run a SQL query over the events of profiles", _add_sql),
    "whatif": ("compute step times if work were shorter, longer or gone", _add_whatif),
    "export": ("write profiles as Parquet, Arrow or Chrome JSON", _add_export),
    "summarize": ("compute rank summaries, so that the page Ranks opens without the traces", _add_summarize),
    "mcp": ("answer questions of agents on stdin and stdout (Model Context Protocol)", _add_mcp),
    "skill": ("print instructions for agents, as Markdown", _add_nothing),
    "doctor": ("list which files were found or skipped, and why", _add_doctor),
}
