"""The traces that are measured: real ones repeated to a size, and a made-up run of eight ranks."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.repeat import repeat

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
REAL = {
    "v100": "kineto/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz",
    "h100": "tracelens/h100/Falconsai_nsfw_image_detection__1016002.json.gz",
    "cpu": "torch213/compile_cold_stack.pt.trace.json.gz",
    "rocm": "tracelens/mi300/resnet_act_checkpoint.json.gz",
}
"""See README.md for what each of them is."""
RANKS = "ranks"
SOURCES = (*REAL, RANKS)
START = "start"
"""A handful of events: what a tool costs before it has anything to do."""


def available() -> list[str]:
    """Sources that can be made here: the real ones lie outside of the repository."""
    return [source for source in SOURCES if source == RANKS or (DATA / REAL[source]).is_file()]


def made(folder: Path, events: int, source: str) -> Path:
    """The folder of a run of about ``events`` events in all its files, made once, in a process of its own.

    Making it takes gigabytes, and Linux counts what a process has taken against the programs that it starts.
    """
    run = _folder(folder, events, source)
    if not run.is_dir():
        command = [sys.executable, "-m", "benchmarks.corpus", str(folder), str(events), source]
        subprocess.run(command, check=True, cwd=ROOT)
    return run


def _folder(folder: Path, events: int, source: str) -> Path:
    return folder / (source if source == START else f"{source}_{events}")


def make(folder: Path, events: int, source: str) -> Path:
    """What ``made`` does, in this process, whether it is there or not."""
    run = _folder(folder, events, source)
    work = folder / f"{run.name}.unfinished"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    if source == START:
        with gzip.open(work / "worker0.1700000000000.pt.trace.json.gz", "wt") as target:
            target.write(_handful())
    elif source == RANKS:
        small = folder / "ranks"
        if not small.is_dir():
            command = [sys.executable, str(ROOT / "samples" / "synthetic.py"), f"{small}.unfinished", "--ranks", "8"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            Path(f"{small}.unfinished").rename(small)
        repeat(sorted(small.glob("*.gz")), work, events)
    else:
        (path,) = repeat([DATA / REAL[source]], work, events)
        # A name that every tool takes.
        path.rename(work / "worker0.1700000000000.pt.trace.json.gz")
    work.rename(run)
    return run


def files(run: Path) -> list[Path]:
    """Its traces."""
    return sorted(run.glob("*.pt.trace.json.gz"))


def _handful() -> str:
    """One step with an operator that launches a kernel."""
    common = {"ph": "X", "pid": 1, "tid": 1}
    device = {"pid": 0, "tid": 7, "args": {"device": 0, "stream": 7, "correlation": 1, "External id": 1}}
    events = [
        {
            **common,
            "cat": "user_annotation",
            "name": "ProfilerStep#1",
            "ts": 100,
            "dur": 100,
            "args": {"External id": 2},
        },
        {**common, "cat": "cpu_op", "name": "aten::mm", "ts": 110, "dur": 50, "args": {"External id": 1}},
        {**common, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 120, "dur": 5, "args": {"correlation": 1}},
        {**common, **device, "cat": "kernel", "name": "gemm", "ts": 130, "dur": 20},
    ]
    return json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "none"}], "traceEvents": events})


if __name__ == "__main__":
    make(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
