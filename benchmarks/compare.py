"""Ours beside the other tools, interleaved: ``python -m benchmarks.compare`` (see README.md here)."""

from __future__ import annotations

import argparse
import compileall
import json
import os
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import corpus
from benchmarks.measure import Failed, measure
from benchmarks.report import Result, placed, section
from benchmarks.tools import CACHED, HERE, OURS, PEERS, ROOT, TOOLS, command_of

DOCUMENT = ROOT / "docs" / "benchmarks.md"
MEMORY_SHARE = 0.85
"""Of the machine's memory: a tool that takes more is stopped before the system stops something else."""


def main() -> int:
    options = _options()
    # As pip does with every package, the peers' too: where Python may not write, each start would compile ours again.
    compileall.compile_dir(ROOT / "tb_plugin", quiet=2)
    heading = datetime.now(UTC).strftime("%-d %B %Y, %H:%M UTC")
    wanted = [(corpus.START, 0), *((source, events) for source in options.source for events in sorted(options.events))]
    results: list[Result] = []
    for source, events in wanted:
        results.append(_measured(source, events, options))
        text = section(heading, results)
        if options.write:
            # After each trace: what was measured is kept when a later one ends the run.
            DOCUMENT.write_text(placed(DOCUMENT.read_text(encoding="utf-8"), text), encoding="utf-8")
    print(text)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", choices=corpus.SOURCES, nargs="+", default=corpus.available())
    parser.add_argument("--events", type=int, nargs="+", default=[100_000, 1_000_000, 5_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", choices=PEERS, nargs="*", default=list(PEERS), help="none: only ours")
    parser.add_argument("--peers-until", type=int, default=sys.maxsize, metavar="EVENTS", help="larger: only ours")
    parser.add_argument(
        "--requests", type=int, nargs="*", default=[1_000_000], help="sizes at which requests are timed"
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="the longest that one run may take")
    parser.add_argument("--no-write", dest="write", action="store_false", help="leave docs/benchmarks.md as it is")
    default = Path(tempfile.gettempdir()) / "torch-trace-bench"
    parser.add_argument("--folder", type=Path, default=default, help="where the large traces are kept")
    return parser.parse_args()


def _measured(source: str, events: int, options: argparse.Namespace) -> Result:
    _say(f"Preparing {source} {events:,} ...")
    options.folder.mkdir(parents=True, exist_ok=True)
    run = corpus.made(options.folder, events, source)
    traces = corpus.files(run)
    result = Result(
        source,
        packed_bytes=sum(trace.stat().st_size for trace in traces),
        text_bytes=sum(_text_bytes(trace) for trace in traces),
    )
    cache = options.folder / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    names = [OURS, CACHED, *(options.peers if events <= options.peers_until else ())]
    limits = (60 * options.minutes, MEMORY_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    measure(*command_of(TOOLS[CACHED], run, cache), *limits)  # fills the cache
    for number in range(1, options.rounds + 1):
        for name in names:
            if name in result.failed:
                continue
            try:
                cost = measure(*command_of(TOOLS[name], run, cache), *limits)
            except Failed as error:
                if name in (OURS, CACHED):
                    raise
                result.failed[name] = str(error)
                _say(f"  {name} fails: {error}")
                continue
            result.costs.setdefault(name, []).append(cost)
            if name == OURS:
                result.events = json.loads(cost.output.splitlines()[-1])["events"]
            _say(f"  round {number}: {name:20} {cost.cpu_s:7.2f} s CPU {cost.largest_bytes / 1e6:8,.0f} MB")
    if events in options.requests:
        _say("  requests ...")
        command = [sys.executable, str(HERE / "latency.py"), str(run)]
        output = measure(command, {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}, *limits).output
        result.requests = json.loads(output.splitlines()[-1])
    shutil.rmtree(cache, ignore_errors=True)
    return result


def _text_bytes(trace: Path) -> int:
    """Length of the text in a gzip file: the last four bytes say it, up to 4 GiB."""
    with trace.open("rb") as stream:
        stream.seek(-4, os.SEEK_END)
        return int.from_bytes(stream.read(), "little")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
