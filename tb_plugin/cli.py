"""The command ``torch-trace``: parse arguments, ask the workspace, print. Numbers go to stdout, progress to stderr."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from tb_plugin import __version__
from tb_plugin.analyses import ANALYSES
from tb_plugin.analyses.base import Params
from tb_plugin.errors import BadRequest, Cancelled, TorchTraceError, UserError
from tb_plugin.format import MarkdownPrinter, Printer, TextPrinter, format_time, format_value
from tb_plugin.payloads import Profile, Table, View
from tb_plugin.service.catalog import Entry, Place
from tb_plugin.service.pool import InlineWorkers, Pool, Workers, default_size
from tb_plugin.service.workspace import DETAIL_VIEWS, Workspace, navigation, open_catalog
from tb_plugin.storage.cache import open_store

SCHEMA_VERSION = 1
TABLES = {
    "overview": ("steps",),
    "operators": ("operators", "operators_by_shape"),
    "kernels": ("kernels", "kernels_by_launch"),
    "modules": ("modules",),
}
"""Tables that the JSON always has, empty when the trace has nothing for them."""
GROUP_VIEW = "distributed"
GROUP_TABLES = ("workers", "collectives", "operations", "process_groups", "devices")
GROUP_FACTS = {
    "compute_ns": "compute_ns",
    "overlap_ns": "overlap_ns",
    "exposed_communication_ns": "exposed_communication_ns",
    "wait_ns": "wait_ns",
    "transfer_ns": "transfer_ns",
    "other_ns": "step_other_ns",
    "bounded": "bounded",
}
"""Numbers of a worker in a group, and their columns of the table of workers."""
_OK, _USAGE, _NOTHING = 0, 2, 3


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code: 0 something was reported, 2 usage, 3 nothing readable."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run_command(arguments))
    except UserError as error:
        _complain(error)
        return _USAGE if isinstance(error, BadRequest) else _NOTHING
    except BrokenPipeError:
        # The reader of a pipe, such as head, has seen enough. Python would complain again while it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _OK
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="torch-trace", description="Where the time of a PyTorch training went.")
    parser.add_argument("--version", action="version", version=f"torch-trace {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    report = commands.add_parser("report", help="print the numbers of profiles")
    report.add_argument("path", metavar="PATH", help="a trace file, a log directory, or a URL of one")
    for name in ("run", "worker", "span"):
        report.add_argument(f"--{name}", help=f"only this {name}")
    report.add_argument("--view", action="append", metavar="V", help="only this view (repeatable)")
    report.add_argument("--steps", default="", help="only these profiler steps, such as 5,7-9")
    report.add_argument("--format", choices=("text", "markdown", "json"), default="text")
    report.add_argument("--top", type=_positive, default=10, metavar="N", help="rows per table, except in JSON (10)")
    report.set_defaults(run_command=_report)
    doctor = commands.add_parser("doctor", help="say what was found, what not, and why")
    doctor.add_argument("path", metavar="PATH", help="a trace file, a log directory, or a URL of one")
    doctor.set_defaults(run_command=_doctor)
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return int(text)


def _report(arguments: argparse.Namespace) -> int:
    _check_views(arguments.view)
    workspace, entries, failed = _open(arguments)
    try:
        if arguments.format == "json":
            return _report_json(workspace, entries, failed, arguments)
        printer = MarkdownPrinter() if arguments.format == "markdown" else TextPrinter()
        return _report_text(workspace, entries, failed, arguments, printer)
    finally:
        workspace.close()


def _report_json(
    workspace: Workspace, entries: list[Entry], failed: list[dict[str, str]], arguments: argparse.Namespace
) -> int:
    profiles: list[dict[str, Any]] = []
    errors: list[UserError] = []
    for entry in _loaded(workspace, entries, failed, errors):
        try:
            numbers = workspace.numbers(_place(entry), arguments.view, arguments.steps)
        except TorchTraceError as error:
            _fail(entry, error, failed, errors)
            continue
        parts = msgspec.json.decode(numbers, type=dict[str, dict[str, msgspec.Raw]])
        for view, names in TABLES.items():
            if arguments.view is None or view in arguments.view:
                for name in names:
                    parts["tables"].setdefault(name, msgspec.Raw(b"[]"))
        found, summary = entry.found, entry.summary
        read = summary.read if summary else None
        profiles.append(
            {"run": found.run, "worker": found.worker, "span": found.span, "path": found.url, "read": read} | parts
        )
    groups = _groups(workspace, entries, errors, arguments)
    document = {"schema_version": SCHEMA_VERSION, "profiles": profiles, "groups": groups, "failed": failed}
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    sys.stdout.flush()
    return _exit_code(len(profiles), errors)


def _groups(
    workspace: Workspace, entries: list[Entry], errors: list[UserError], arguments: argparse.Namespace
) -> list[dict[str, Any]]:
    """What the workers of each run and span did together."""
    groups = []
    for place in _group_places(entries, arguments.view):
        try:
            tables = {name: _group_rows(workspace, place, name, arguments.steps) for name in GROUP_TABLES}
        except UserError as error:
            errors.append(error)
            continue
        workers = {
            row["worker"]: {fact: row[column] for fact, column in GROUP_FACTS.items()} for row in tables.pop("workers")
        }
        groups.append({"run": place.run, "span": place.span, "workers": workers, "tables": tables})
    return groups


def _group_places(entries: list[Entry], wanted: list[str] | None) -> list[Place]:
    """Runs and spans in which any worker communicated."""
    if wanted is not None and GROUP_VIEW not in wanted:
        return []
    with_it = (e for e in entries if any(view.id == GROUP_VIEW and view.available for view in navigation(e)))
    return list(dict.fromkeys(Place(entry.found.run, None, entry.found.span) for entry in with_it))


def _group_rows(workspace: Workspace, place: Place, table: str, steps: str) -> list[dict[str, Any]]:
    answer = workspace.group(place, GROUP_VIEW, Params(table=table, limit=None), steps)
    return msgspec.json.decode(answer, type=Table).rows


def _report_text(
    workspace: Workspace,
    entries: list[Entry],
    failed: list[dict[str, str]],
    arguments: argparse.Namespace,
    printer: Printer,
) -> int:
    reported = 0
    errors: list[UserError] = []
    for entry in _loaded(workspace, entries, failed, errors):
        try:
            views = [_view(workspace, entry, view, arguments) for view in _text_views(entry, arguments.view)]
        except TorchTraceError as error:
            _fail(entry, error, failed, errors)
            continue
        found = entry.found
        when = f", {format_time(found.time_unix_ms)}" if found.time_unix_ms else ""
        printer.heading(f"{found.run} / {found.worker} / span {found.span}{when}", 1)
        printer.line(found.url)
        for view in views:
            printer.view(view)
        reported += 1
    for place in _group_places(entries, arguments.view):
        try:
            answer = workspace.group(place, GROUP_VIEW, Params(limit=arguments.top), arguments.steps)
        except UserError as error:
            errors.append(error)
            continue
        printer.heading(f"{place.run} / all workers / span {place.span}", 1)
        printer.view(msgspec.json.decode(answer, type=View))
    for failure in failed:
        Console(stderr=True, soft_wrap=True).print(
            f"{failure['path']}: {failure['reason']}", markup=False, highlight=False
        )
    return _exit_code(reported, errors)


def _doctor(arguments: argparse.Namespace) -> int:
    arguments.run = arguments.worker = arguments.span = None
    workspace, entries, failed = _open(arguments)
    printer = TextPrinter()
    readable = 0
    try:
        catalog = workspace.runs()
        printer.line(f"{catalog.logdir}: {catalog.scanned_files} files, {len(entries)} profiles.")
        for entry in _loaded(workspace, entries, failed, []):
            readable += 1
            _diagnose(entry, printer)
        rows = [(failure["path"], failure["reason"]) for failure in failed]
        known = {path for path, _ in rows}
        rows += [(skipped.path, skipped.reason) for skipped in catalog.skipped if skipped.path not in known]
        if rows:
            printer.heading("Not taken", 2)
            printer.rows([("file", False), ("why", False)], rows)
        elif not entries:
            printer.line("No file ends in .json or .json.gz: nothing here looks like a profiler trace.")
    finally:
        workspace.close()
    return _OK if readable else _NOTHING


def _diagnose(entry: Entry, printer: Printer) -> None:
    """What was read of one profile, what was irregular, and which views it cannot fill."""
    found, summary = entry.found, entry.summary
    if summary is None:
        return
    read = summary.read
    printer.heading(f"{found.run} / {found.worker} / span {found.span}", 2)
    size = format_value(found.size_bytes, "bytes")
    state = "complete" if read.complete else "INCOMPLETE: the file ends before its last bracket"
    printer.line(f"{found.url} ({read.format}, {size}, {state})")
    counts = ("seen", "kept", "repaired", "dropped", "quarantined", "unknown", "other")
    printer.line("events: " + ", ".join(f"{getattr(read, f'events_{name}'):,} {name}" for name in counts))
    if read.issues:
        rows = [(i.text, i.outcome, f"{i.count:,}", _text(i.first_offset)) for i in read.issues]
        printer.rows([("issue", False), ("outcome", False), ("count", True), ("first at byte", True)], rows)
    for view in navigation(entry):
        if not view.available and view.enable:
            printer.line(f"{view.title}: {view.why} {view.enable}")


def _open(arguments: argparse.Namespace) -> tuple[Workspace, list[Entry], list[dict[str, str]]]:
    """Scans the path once: the chosen profiles, and why nothing was taken. Raises UserError."""
    catalog = open_catalog([("", arguments.path)])
    catalog.scan()
    for problem in catalog.problems():
        raise problem
    entries = catalog.entries()
    failed = []
    if not entries:
        failed = [{"path": path, "reason": reason} for path, reason in catalog.skipped()]
    else:
        entries = catalog.matching(Place(arguments.run, arguments.worker, arguments.span))
    workers: Workers = InlineWorkers(_bar.update)
    if len(entries) > 1:
        # Only several profiles are worth the start of processes; here all of them may parse.
        size = min(default_size(), len(entries))
        workers = Pool(size, heavy=size)
    return Workspace(catalog, workers, open_store()), entries, failed


def _loaded(
    workspace: Workspace, entries: list[Entry], failed: list[dict[str, str]], errors: list[UserError]
) -> Iterator[Entry]:
    """Loads the profiles, several at once, and gives them in order; failures go to ``failed`` and ``errors``."""
    if len(entries) > 1:
        for entry in entries:
            workspace.profile(_place(entry))
    for number, entry in enumerate(entries, 1):
        try:
            with _bar.shown(f"[{number}/{len(entries)}] {entry.found.names[0]}"):
                loaded = workspace.load(_place(entry), _bar.update)
        except TorchTraceError as error:
            _fail(entry, error, failed, errors)
            continue
        yield loaded


class _Bar:
    """One progress bar on stderr; nothing where stderr is no terminal."""

    def __init__(self) -> None:
        self._progress: Progress | None = None

    @contextmanager
    def shown(self, title: str) -> Iterator[None]:
        with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as self._progress:
            self._progress.add_task(escape(title), total=1.0)
            try:
                yield
            finally:
                self._progress = None

    def update(self, fraction: float) -> None:
        if self._progress is not None and self._progress.tasks:
            self._progress.update(self._progress.tasks[0].id, completed=fraction)


_bar = _Bar()


def _view(workspace: Workspace, entry: Entry, view: str, arguments: argparse.Namespace) -> View:
    answer = workspace.view(_place(entry), view, Params(limit=arguments.top), arguments.steps)
    if isinstance(answer, Profile):
        raise Cancelled("The file changed while it was read.")
    return msgspec.json.decode(answer, type=View)


def _fail(entry: Entry, error: TorchTraceError, failed: list[dict[str, str]], errors: list[UserError]) -> None:
    reason = f"{error.what} {error.do}".rstrip() if isinstance(error, UserError) else str(error)
    failed.append({"path": entry.found.url, "reason": reason})
    if isinstance(error, UserError):
        errors.append(error)


def _exit_code(reported: int, errors: list[UserError]) -> int:
    if reported:
        return _OK
    return _USAGE if errors and all(isinstance(error, BadRequest) for error in errors) else _NOTHING


def _check_views(wanted: list[str] | None) -> None:
    known = [analysis.id for analysis in ANALYSES if analysis.id not in DETAIL_VIEWS]
    for view in wanted or ():
        if view not in known:
            raise BadRequest(f"There is no view {view}.", "--view", f"There are: {', '.join(known)}.")


def _complain(error: UserError) -> None:
    Console(stderr=True, soft_wrap=True).print(f"torch-trace: {error}", markup=False, highlight=False)


def _place(entry: Entry) -> Place:
    return Place(*entry.key)


def _text_views(entry: Entry, wanted: list[str] | None) -> list[str]:
    views = [view.id for view in navigation(entry) if view.available and view.id not in ("timeline", GROUP_VIEW)]
    return [view for view in views if wanted is None or view in wanted]


def _text(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
