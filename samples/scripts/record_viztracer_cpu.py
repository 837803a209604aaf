#!/usr/bin/env python3
"""Records samples/viztracer_cpu: a small program without PyTorch, traced by VizTracer. Usage: record_viztracer_cpu.py FOLDER

Function calls on two threads, arguments of calls, a counter, an instant and ranges that
the program named (``log_event``).
"""

from __future__ import annotations

import gzip
import sys
import tempfile
import threading
from pathlib import Path

from viztracer import VizTracer
from viztracer.vizcounter import VizCounter


def load(size: int) -> list[int]:
    return [(i * 7919) % 1009 for i in range(size)]


def quicksort(values: list[int]) -> list[int]:
    if len(values) < 2:
        return values
    pivot, rest = values[0], values[1:]
    low, high = [v for v in rest if v < pivot], [v for v in rest if v >= pivot]
    return [*quicksort(low), pivot, *quicksort(high)]


def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def background() -> None:
    for n in range(6):
        fibonacci(n)


def main(folder: Path) -> None:
    tracer = VizTracer(log_func_args=True, log_gc=False, verbose=0, file_info=False)
    tracer.start()
    counter = VizCounter(tracer, "batch")
    thread = threading.Thread(target=background, name="background")
    thread.start()
    for batch in range(3):
        counter.size = 40 + batch
        with tracer.log_event("load"):
            values = load(40 + batch)
        with tracer.log_event("sort"):
            quicksort(values)
        tracer.log_instant("batch done", {"batch": batch})
    thread.join()
    tracer.stop()
    with tempfile.TemporaryDirectory() as scratch:
        plain = Path(scratch) / "result.json"
        tracer.save(str(plain))
        run = folder / "viztracer_cpu"
        run.mkdir(parents=True, exist_ok=True)
        text = plain.read_bytes().replace(
            sys.base_prefix.encode(), b"/usr"
        )  # names of calls hold the folders of a machine
        (run / "result.json.gz").write_bytes(gzip.compress(text, 9, mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
