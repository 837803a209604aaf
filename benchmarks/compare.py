"""Ours beside torch-tb-profiler 0.4.3, interleaved: ``python -m benchmarks.compare`` (see README.md here)."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import corpus
from benchmarks.measure import Cost, measure

ROOT = Path(__file__).resolve().parents[1]
PEER = "torch-tb-profiler==0.4.3"
PEER_VENV = ROOT / ".venv-bench"
MB = 1e6


def main() -> int:
    options = _options()
    folder = Path(options.folder)
    print(f"Preparing {options.events:,} events ...", flush=True)
    trace = corpus.make(folder, options.events, options.source)
    commands = {"torch-trace": [sys.executable, str(ROOT / "benchmarks" / "ours.py"), str(trace.parent)]}
    if not options.no_peer:
        commands["torch-tb-profiler"] = [_peer_python(), str(ROOT / "benchmarks" / "peer.py"), str(trace.parent)]
    environment = {"TORCH_TRACE_CACHE": "off", "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    events = 0
    for round_number in range(1, options.rounds + 1):
        for name, command in commands.items():
            cost = measure(command, environment)
            costs[name].append(cost)
            events = max(events, json.loads(cost.output.splitlines()[-1]).get("events", 0))
            print(f"  round {round_number}: {name:18} {cost.cpu_s:6.2f} s CPU", flush=True)
    _print(trace, events, costs)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--source", choices=("auto", "v100", "synthetic"), default="auto")
    parser.add_argument("--no-peer", action="store_true", help="only ours")
    default = Path(tempfile.gettempdir()) / "torch-trace-bench"
    parser.add_argument("--folder", default=str(default), help="where the large traces are kept")
    return parser.parse_args()


def _peer_python() -> str:
    python = PEER_VENV / "bin" / "python"
    if (
        not python.exists()
        or subprocess.run([python, "-c", "import torch_tb_profiler"], capture_output=True).returncode
    ):
        print(f"Installing {PEER} into {PEER_VENV.name} ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", PEER_VENV], check=True)
        pip = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, PEER, "setuptools<81"], check=True)
    return str(python)


def _print(trace: Path, events: int, costs: dict[str, list[Cost]]) -> None:
    print(f"\n{trace.parent.name}: {events:,} events, {trace.stat().st_size / MB:,.1f} MB compressed")
    print(f"{_processor()}, {os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}")
    header = ("median of", "CPU s", "wall s", "largest process MB", "process tree MB")
    print(f"\n{header[0]:20}" + "".join(f"{title:>20}" for title in header[1:]))
    medians = {}
    for name, runs in costs.items():
        medians[name] = [
            statistics.median(run.cpu_s for run in runs),
            statistics.median(run.wall_s for run in runs),
            statistics.median(run.largest_bytes for run in runs) / MB,
            statistics.median(run.tree_bytes for run in runs) / MB,
        ]
        cells = [f"{medians[name][0]:.2f}", f"{medians[name][1]:.2f}", *(f"{m:,.0f}" for m in medians[name][2:])]
        low, high = min(run.cpu_s for run in runs), max(run.cpu_s for run in runs)
        spread = f"   (CPU {low:.2f} to {high:.2f})"
        print(f"{f'{name} x{len(runs)}':20}" + "".join(f"{cell:>20}" for cell in cells) + spread)
    if len(medians) == 2:
        ours, peer = medians.values()
        ratios = [f"{b / a:.1f}x" for a, b in zip(ours, peer, strict=True)]
        print(f"{'peer / ours':20}" + "".join(f"{ratio:>20}" for ratio in ratios))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


if __name__ == "__main__":
    sys.exit(main())
