"""What reading Ascend's profiles costs beside Kineto's of as many events: ``python -m benchmarks.ascend --events 1000000``.

A recorded profile (the AlexNet of January 2025, or ``samples/synthetic_ascend`` where that is not there) is repeated in
time: its trace view, kernels and memory again and again, later, with ids and numbers of steps of their own. Both traces are
read in turn, each by a process of its own, from the files to the model; what is printed last is the median of the ratios of
CPU time an event, 1.3 at most. ``--megabytes 1000`` reads a trace view of this size alone, whole and (``--budget-mb``) as the
window that fits; ``--tables-mb`` makes the tables of kernels and blocks as large as that.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks import corpus
from benchmarks.measure import Cost, measure

MOST = 1.3
"""What a profile may cost of what Kineto's trace of as many events does."""
ALEXNET = corpus.DATA / "ascend" / "logdir" / "alexnet_text_level1" / "rank_0_20250109074804023_ascend_pt"
SYNTHETIC = corpus.ROOT / "samples" / "synthetic_ascend" / "rank_0_20251124120000000_ascend_pt"
OUTPUT = "ASCEND_PROFILER_OUTPUT"
GAP_NS = 1_000_000
_TIMED = {
    "kernel_details.csv": ("Start Time(us)",),
    "operator_memory.csv": ("Allocation Time(us)", "Release Time(us)", "Active Release Time(us)"),
    "memory_record.csv": ("Timestamp(us)",),
}
"""Tables that grow with the trace -> their columns of times."""
_STEP = "Step Id"
_KEYS = "Sequence number|Python id|Python parent id|correlation_id|connection_id"
_NUMBERS = re.compile(
    r'("ts": ?")(\d+(?:\.\d{3})?)(?=\s*")'
    rf'|("id": ?"?|"(?:{_KEYS})": ?|ProfilerStep#|"name": ?"HostToDevice)(\d+)'
)
_EPOCH = 10**18
"""Ids above it are the times of kernels."""


def source() -> Path:
    """Returns the profile that is repeated."""
    return ALEXNET if ALEXNET.is_dir() else SYNTHETIC


def made(folder: Path, events: int, of: Path, also: Mapping[str, int] | None = None) -> Path:
    """Returns a profile of about so many events in its trace view, made once; ``also`` are bytes of larger tables."""
    text = (of / OUTPUT / "trace_view.json").read_text(encoding="utf-8")
    count = len(json.loads(text))
    copies = max(1, round(events / count))
    name = "_".join((of.parent.name, str(events), *(f"{key}{size}" for key, size in (also or {}).items())))
    root = folder / f"{name}_20250109074804023_ascend_pt"
    if root.is_dir():
        return root
    work = folder / f"{name}.unfinished"
    shutil.rmtree(work, ignore_errors=True)
    (work / OUTPUT).mkdir(parents=True)
    for path in of.glob("profiler_*.json"):
        shutil.copyfile(path, work / path.name)
    with (work / OUTPUT / "trace_view.json").open("w", encoding="utf-8", newline="") as out:
        out.writelines(repeated(text, copies))
    period, step = _period(text), _steps(text)
    for path in sorted((of / OUTPUT).glob("*.csv")):
        table = path.read_text(encoding="utf-8-sig")
        times = _TIMED.get(path.name)
        again = copies if times else 1
        if size := (also or {}).get(path.name):
            again = max(again, round(size / len(table)))
        with (work / OUTPUT / path.name).open("w", encoding="utf-8", newline="") as out:
            out.writelines(_rows(table, times or (), again, period, step))
    work.rename(root)
    return root


def repeated(text: str, copies: int) -> Iterator[str]:
    """Returns a trace view in pieces, one for each copy. Names of processes and threads stand in every copy."""
    body = text.strip().removeprefix("[").removesuffix("]")
    period, step = _period(text), _steps(text)
    literals, numbers, keys, last = [], [], [], 0
    for match in _NUMBERS.finditer(body):
        key, number = (match[1], match[2]) if match[1] else (match[3], match[4])
        literals.append(body[last : match.start()] + key)
        numbers.append(_ns(number) if match[1] else int(number))
        keys.append(_kind(key, numbers[-1]))
        last = match.end()
    most: dict[str, int] = {}
    for kind, value in zip(keys, numbers, strict=True):
        most[kind] = max(most.get(kind, 0), value + 1)
    by = [period if kind in ("time", "epoch") else step if kind == "step" else most[kind] for kind in keys]
    pieces = [""] * (2 * len(literals))
    pieces[0::2] = literals
    yield "["
    for copy in range(copies):
        moved = [number + copy * shift for number, shift in zip(numbers, by, strict=True)]
        pieces[1::2] = [
            f"{value // 1000}.{value % 1000:03d}" if kind == "time" else str(value)
            for kind, value in zip(keys, moved, strict=True)
        ]
        yield ", " if copy else ""
        yield "".join(pieces)
        yield body[last:]
    yield "]"


def _kind(key: str, number: int) -> str:
    if '"ts"' in key:
        return "time"
    if key == "ProfilerStep#":
        return "step"
    return "epoch" if number >= _EPOCH else key.strip('" :')


def _period(text: str) -> int:
    times = [_ns(time) for time in re.findall(r'"ts": ?"(\d+(?:\.\d{3})?)\s*"', text)]
    return max(times) - min(times) + GAP_NS


def _steps(text: str) -> int:
    numbers = [int(number) for number in re.findall(r"ProfilerStep#(\d+)", text)]
    return max(numbers, default=0) - min(numbers, default=0) + 1


def _rows(table: str, times: tuple[str, ...], copies: int, period: int, step: int) -> Iterator[str]:
    """Returns a table in pieces."""
    titles, *rows = csv.reader(io.StringIO(table, newline=""))
    at = [titles.index(title) for title in times if title in titles]
    numbered = titles.index(_STEP) if _STEP in titles and times else -1
    for copy in range(copies):
        out = io.StringIO(newline="")
        writer = csv.writer(out, lineterminator="\n")
        writer.writerows([] if copy else [titles])
        for row in rows:
            moved = list(row)
            for place in at:
                moved[place] = _later(row[place], copy * period)
            if numbered >= 0 and row[numbered].isdecimal():
                moved[numbered] = str(int(row[numbered]) + copy * step)
            writer.writerow(moved)
        yield out.getvalue()


def _later(cell: str, ns: int) -> str:
    bare = cell.strip()
    if not bare or bare == "N/A":
        return cell
    value = _ns(bare) + ns
    return f"{value // 1000}.{value % 1000:03d}{cell[len(cell.rstrip()) :]}"


def _ns(us: str) -> int:
    whole, _, rest = us.partition(".")
    return int(whole) * 1000 + int((rest + "000")[:3])


def read(path: Path, budget_mb: int) -> None:
    """Reads a profile as a worker process does; with a budget, the window from the first step on that fits into it."""
    from tb_plugin import registry
    from tb_plugin.formats.base import FileSize, ReadOptions, no_progress
    from tb_plugin.formats.format_entry import as_windowed_reader
    from tb_plugin.model.trace.assemble import assemble
    from tb_plugin.model.trace.window import WindowRequest, choose
    from tb_plugin.service.workers.memory_estimate import peak_memory_bytes, room_bytes
    from tb_plugin.storage.files import FileSource

    is_ascend = path.is_dir()
    reader = next(each for each in registry.readers() if each.id == ("ascend" if is_ascend else "kineto"))
    files = [file for file in sorted(path.rglob("*")) if file.is_file()] if is_ascend else [path]
    source = FileSource({str(file.relative_to(path.parent)): str(file) for file in files})
    need = peak_memory_bytes(reader, {name: FileSize(source.size(name)) for name in source.names()})
    told: dict[str, float] = {"need_mb": round(need / 1e6)}
    window = None
    if budget_mb:
        able, budget = as_windowed_reader(reader), budget_mb * 1_000_000
        assert able is not None
        begun = time.process_time()
        survey = able.survey(source, ReadOptions(), no_progress)
        told |= {"survey_s": round(time.process_time() - begun, 1), "steps": len(survey.label)}
        window = choose(survey, WindowRequest(), room_bytes(able, budget), need, budget)
    begun = time.process_time()
    table = assemble(reader.read(source, ReadOptions(window=window), no_progress))
    told |= {"read_s": round(time.process_time() - begun, 2), "rows": len(table)}
    told |= {"events": table.report.events_in_file, "steps_read": len(table.steps.label)}
    print(json.dumps(told))


def cost(path: Path, budget_mb: int = 0) -> tuple[Cost, dict[str, float]]:
    """Returns what reading takes, and what the process told."""
    command = [sys.executable, "-m", "benchmarks.ascend", "--read", str(path), "--budget-mb", str(budget_mb)]
    found = measure(command, {}, 1800, 40e9)
    return found, json.loads(found.output.strip().splitlines()[-1])


def main() -> int:
    """Prints what each read took; 1 where Ascend's is too slow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=0)
    parser.add_argument("--budget-mb", type=int, default=0)
    parser.add_argument("--tables-mb", type=int, default=0, help="of kernel_details.csv and operator_memory.csv, each")
    parser.add_argument("--source", choices=corpus.available(), default=corpus.available()[0])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "torch-trace-bench")
    parser.add_argument("--read", type=Path)
    options = parser.parse_args()
    if options.read is not None:
        read(options.read, options.budget_mb)
        return 0
    options.folder.mkdir(parents=True, exist_ok=True)
    of = source()
    if options.megabytes or options.tables_mb:
        view = of / OUTPUT / "trace_view.json"
        events = round(options.megabytes * 1e6 / view.stat().st_size * len(json.loads(view.read_text())))
        sizes = dict.fromkeys(("kernel_details.csv", "operator_memory.csv"), options.tables_mb * 1_000_000)
        path = made(options.folder, events, of, sizes if options.tables_mb else None)
        for budget in dict.fromkeys((0, options.budget_mb)):
            took, told = cost(path, budget)
            what = "window" if budget else "whole"
            print(f"{what}: {took.cpu_s:.1f} s CPU, peak {took.largest_bytes / 1e6:.0f} MB, {told}", flush=True)
        return 0
    theirs = made(options.folder, options.events, of)
    kineto = corpus.files(corpus.made(options.folder, options.events, options.source))[0]
    ratios = []
    for _ in range(options.rounds):
        (base, base_told), (took, told) = cost(kineto), cost(theirs)
        per_event = [side.cpu_s / all_of["events"] * 1e6 for side, all_of in ((base, base_told), (took, told))]
        ratios.append(per_event[1] / per_event[0])
        for name, side, all_of, each in (
            ("kineto", base, base_told, per_event[0]),
            ("ascend", took, told, per_event[1]),
        ):
            print(
                f"{name}: {side.cpu_s:.2f} s CPU, {each:.2f} us an event, peak {side.largest_bytes / 1e6:.0f} MB, {all_of}",
                flush=True,
            )
    print(f"median ratio of CPU an event: {statistics.median(ratios):.2f}")
    return int(statistics.median(ratios) > MOST)


if __name__ == "__main__":
    sys.exit(main())
