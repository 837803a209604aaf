"""Large traces from small ones."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
SCALER = SHARED / "tools" / "scale_trace.py"
DATA = SHARED / "data"
REAL = {
    "v100": DATA / "kineto" / "resnet50_num_workers_0" / "worker0.1623143089861.pt.trace.json.gz",
    "h100": DATA / "hta" / "ns_resolution_trace" / "rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
    "cpu": DATA / "torch213" / "compile_cold_stack.pt.trace.json.gz",
    "rocm": DATA / "tracelens" / "mi300" / "resnet_act_checkpoint.json.gz",
}
"""Real traces to repeat: V100 of 2021; H100 with nanoseconds; PyTorch 2.13 on CPU with stacks; MI300X."""
SOURCES = (*REAL, "synthetic")
SYNTHETIC_EVENTS_PER_STEP = 65_000
SYNTHETIC_SCALE = 40


def make(folder: Path, events: int, source: str) -> Path:
    """The file of about ``events`` events, made once. ``source`` is one of SOURCES, or auto (the first there is)."""
    if source == "auto":
        source = "v100" if REAL["v100"].exists() and SCALER.exists() else "synthetic"
    run = folder / f"{source}_{events}"
    finished = sorted(run.glob("*.pt.trace.json.gz"))
    if finished:
        return finished[0]
    shutil.rmtree(run, ignore_errors=True)
    work = folder / "unfinished"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    if source in REAL:
        _repeat(REAL[source], work, events)
    else:
        _generate(work, events)
    work.rename(run)
    return next(run.glob("*.pt.trace.json.gz"))


def _repeat(trace: Path, work: Path, events: int) -> None:
    with gzip.open(trace) as stream:
        per_copy = len(json.load(stream)["traceEvents"])
    # A name that the old plugin takes as well.
    plain = work / f"worker0.{1_700_000_000_000}.pt.trace.json"
    copies = max(1, round(events / per_copy))
    subprocess.run([sys.executable, SCALER, trace, plain, str(copies)], check=True, stdout=subprocess.DEVNULL)
    with plain.open("rb") as source, gzip.open(f"{plain}.gz", "wb", compresslevel=6) as target:
        shutil.copyfileobj(source, target, 1 << 22)
    plain.unlink()


def _generate(work: Path, events: int) -> None:
    steps = max(2, round(events / SYNTHETIC_EVENTS_PER_STEP))
    script = ROOT / "samples" / "synthetic.py"
    command = [sys.executable, script, work, "--steps", str(steps), "--scale", str(SYNTHETIC_SCALE)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
