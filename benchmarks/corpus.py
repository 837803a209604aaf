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
V100 = SHARED / "data" / "kineto" / "resnet50_num_workers_0" / "worker0.1623143089861.pt.trace.json.gz"
SYNTHETIC_EVENTS_PER_STEP = 65_000
SYNTHETIC_SCALE = 40


def make(folder: Path, events: int, source: str) -> Path:
    """The file of about ``events`` events, made once. ``source`` is v100, synthetic or auto (the first there is)."""
    if source == "auto":
        source = "v100" if V100.exists() and SCALER.exists() else "synthetic"
    run = folder / f"{source}_{events}"
    finished = sorted(run.glob("*.pt.trace.json.gz"))
    if finished:
        return finished[0]
    shutil.rmtree(run, ignore_errors=True)
    work = folder / "unfinished"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    if source == "v100":
        _repeat_v100(work, events)
    else:
        _generate(work, events)
    work.rename(run)
    return next(run.glob("*.pt.trace.json.gz"))


def _repeat_v100(work: Path, events: int) -> None:
    with gzip.open(V100) as stream:
        per_copy = len(json.load(stream)["traceEvents"])
    plain = work / V100.name.removesuffix(".gz")
    copies = max(1, round(events / per_copy))
    subprocess.run([sys.executable, SCALER, V100, plain, str(copies)], check=True, stdout=subprocess.DEVNULL)
    with plain.open("rb") as source, gzip.open(f"{plain}.gz", "wb", compresslevel=6) as target:
        shutil.copyfileobj(source, target, 1 << 22)
    plain.unlink()


def _generate(work: Path, events: int) -> None:
    steps = max(2, round(events / SYNTHETIC_EVENTS_PER_STEP))
    script = ROOT / "samples" / "synthetic.py"
    command = [sys.executable, script, work, "--steps", str(steps), "--scale", str(SYNTHETIC_SCALE)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
