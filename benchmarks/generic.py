"""CPU of reading Chrome's trace JSON of any tool beside Kineto's: ``python -m benchmarks.generic --events 1000000``.

Three traces of as many events are read in turn, each by a process of its own, from the file to the model: one of Kineto,
one of whole ranges with arguments, one of begin and end marks. What is printed last of the two others is the median of their
ratios to Kineto's in the same round; more than 1.3 would be too much.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import corpus

MOST = 1.3
"""What a generic trace may cost of what Kineto's does."""
THREADS = 8
DEPTH = 6
ONE_RUN = """
import resource, sys, time
from tb_plugin import registry
from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.storage.files import FileSource
from tb_plugin.model.trace.assemble import assemble
path, reader = sys.argv[1], next(reader for reader in registry.readers() if reader.id == sys.argv[2])
begun = time.process_time()
table = assemble(reader.read(FileSource({"trace.json": path}), ReadOptions(), no_progress))
print(time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, len(table))
"""


def ranges(events: int, seed: int = 1) -> Iterator[tuple[int, str, int, int, dict[str, object]]]:
    """Returns invented ranges by thread: thread, name, begin, duration (microseconds) and arguments. They nest."""
    draw = random.Random(seed)
    names = [
        f"{what}::{verb}{i}" for what in ("Scheduler", "Parser", "Cache") for verb in ("run", "wait") for i in range(40)
    ]
    each = max(1, events // THREADS)
    for thread in range(THREADS):
        at, made = draw.randrange(1000), 0
        while made < each:
            length = draw.randrange(200, 2000)
            for depth in range(min(DEPTH, each - made)):
                arguments = {"queue": draw.randrange(64), "url": f"https://example.invalid/{draw.randrange(2000)}"}
                yield thread, draw.choice(names), at + 10 * depth, length - 20 * depth, arguments
                made += 1
            at += length + draw.randrange(50)


def as_whole(events: int) -> Iterator[dict[str, object]]:
    """Returns whole ranges."""
    for thread, name, at, length, arguments in ranges(events):
        common = {"pid": 1, "tid": thread, "ts": at, "tts": at // 2, "cat": "toplevel", "name": name}
        yield {**common, "ph": "X", "dur": length, "tdur": length // 2, "args": arguments}


def as_marks(events: int) -> Iterator[dict[str, object]]:
    """Returns begin and end marks, half as many ranges as events."""
    open_ends: list[tuple[int, int, str]] = []
    for thread, name, at, length, arguments in ranges(events // 2):
        while open_ends and (open_ends[-1][0] != thread or open_ends[-1][1] <= at):
            of, end, which = open_ends.pop()
            yield {"ph": "E", "pid": 1, "tid": of, "ts": end, "cat": "toplevel", "name": which}
        yield {"ph": "B", "pid": 1, "tid": thread, "ts": at, "cat": "toplevel", "name": name, "args": arguments}
        open_ends.append((thread, at + length, name))
    for of, end, which in reversed(open_ends):
        yield {"ph": "E", "pid": 1, "tid": of, "ts": end, "cat": "toplevel", "name": which}


def written(path: Path, events: Iterator[dict[str, object]]) -> Path:
    """Writes events to a file, unless it is there."""
    if not path.exists():
        with path.open("w") as stream:
            stream.write('{"traceEvents": [')
            for number, event in enumerate(events):
                stream.write((",\n" if number else "\n") + json.dumps(event))
            stream.write("\n]}\n")
    return path


def cost(path: Path, reader: str) -> tuple[float, int, int]:
    """Returns seconds of CPU, megabytes at the peak, and rows of the model."""
    output = subprocess.check_output([sys.executable, "-c", ONE_RUN, str(path), reader], text=True).split()
    return float(output[0]), int(output[1]), int(output[2])


def main() -> int:
    """Prints what each read took, and the ratios; 1 where one is too high."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--source", choices=corpus.available(), default=corpus.available()[0])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "torch-trace-bench")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    folder = corpus.made(options.folder, options.events, options.source)
    kineto = next(path for path in sorted(folder.rglob("*.json*")) if path.is_file())
    whole = written(options.folder / f"whole.{options.events}.json", as_whole(options.events))
    marks = written(options.folder / f"marks.{options.events}.json", as_marks(options.events))
    ratios: dict[str, list[float]] = {"whole": [], "marks": []}
    for _ in range(options.rounds):
        base = cost(kineto, "kineto")
        print(f"kineto: {base[0]:.2f} s, {base[1]} MB, {base[2]:,} rows", flush=True)
        for name, path in (("whole", whole), ("marks", marks)):
            took = cost(path, "chrome")
            ratios[name].append(took[0] / base[0])
            print(f"{name}: {took[0]:.2f} s, {took[1]} MB, {took[2]:,} rows, {ratios[name][-1]:.2f}", flush=True)
    medians = {name: statistics.median(found) for name, found in ratios.items()}
    print(", ".join(f"{name}: median {ratio:.2f}" for name, ratio in medians.items()))
    return int(max(medians.values()) > MOST)


if __name__ == "__main__":
    sys.exit(main())
