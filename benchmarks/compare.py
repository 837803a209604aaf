"""Ours beside the other tools, interleaved: ``python -m benchmarks.compare`` (see README.md here)."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import corpus
from benchmarks.measure import Cost, measure

ROOT = Path(__file__).resolve().parents[1]
VENVS = ROOT / ".venv-bench"
MB = 1e6
OURS = "torch-trace"
CACHED = "torch-trace, cached overview"
PEERS = {
    "orjson": ("orjson==3.13.0", "isal==1.9.1"),
    "torch_tb_profiler": ("torch-tb-profiler==0.4.3", "setuptools<81"),
    "hta": ("HolisticTraceAnalysis==0.5.0",),
}
"""Functions of peers.py, and what each needs in an environment of its own."""


@dataclass(frozen=True)
class Runner:
    """A command that is measured, and its environment."""

    command: list[str]
    environment: dict[str, str]


def main() -> int:
    options = _options()
    for source in options.source:
        for events in options.events:
            _compare(source, events, options)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--source", choices=("auto", *corpus.SOURCES), nargs="+", default=["auto"])
    parser.add_argument("--peers", choices=tuple(PEERS), nargs="*", default=list(PEERS), help="none: only ours")
    default = Path(tempfile.gettempdir()) / "torch-trace-bench"
    parser.add_argument("--folder", default=str(default), help="where the large traces are kept")
    return parser.parse_args()


def _compare(source: str, events: int, options: argparse.Namespace) -> None:
    print(f"Preparing {events:,} events of {source} ...", file=sys.stderr, flush=True)
    trace = corpus.make(Path(options.folder), events, source)
    cache = Path(options.folder) / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    plain = {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    ours = [sys.executable, str(ROOT / "benchmarks" / "ours.py"), str(trace.parent)]
    cached = Runner([*ours, "overview"], {**plain, "TORCH_TRACE_CACHE": str(cache)})
    runners = {OURS: Runner([*ours, "all"], {**plain, "TORCH_TRACE_CACHE": ""})}
    runners[CACHED] = cached
    for name in options.peers:
        script = str(ROOT / "benchmarks" / "peers.py")
        runners[name] = Runner([_peer_python(name), script, name, str(trace.parent)], {"PYTHONWARNINGS": "ignore"})
    measure(cached.command, cached.environment)  # fills the cache
    costs: dict[str, list[Cost]] = {name: [] for name in runners}
    failed: dict[str, str] = {}
    seen = 0
    for number in range(1, options.rounds + 1):
        for name, runner in runners.items():
            if name in failed:
                continue
            try:
                cost = measure(runner.command, runner.environment)
            except RuntimeError as error:
                if name in (OURS, CACHED):
                    raise
                failed[name] = str(error).strip().splitlines()[-1]
                continue
            costs[name].append(cost)
            seen = max(seen, json.loads(cost.output.splitlines()[-1]).get("events", 0) if name == OURS else 0)
            print(f"  round {number}: {name:30} {cost.cpu_s:6.2f} s CPU", file=sys.stderr, flush=True)
    _print(trace, seen, costs, failed)


def _peer_python(name: str) -> str:
    folder = VENVS / name
    python = folder / "bin" / "python"
    done = folder / "installed"
    if not done.exists() or done.read_text() != " ".join(PEERS[name]):
        print(f"Installing {' '.join(PEERS[name])} into {folder} ...", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, *PEERS[name]], check=True)
        done.write_text(" ".join(PEERS[name]))
    return str(python)


def _print(trace: Path, events: int, costs: dict[str, list[Cost]], failed: dict[str, str]) -> None:
    """A section of Markdown: medians, and each tool's multiple of ours."""
    print(f"\n### {trace.parent.name}: {events:,} events, {trace.stat().st_size / MB:,.1f} MB compressed\n")
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    print(f"{today}, {_processor()}, {os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}\n")
    print("| | runs | CPU s | wall s | largest process MB | process tree MB | CPU / ours | largest / ours |")
    print("|---|---|---|---|---|---|---|---|")
    base = _medians(costs[OURS])
    for name, runs in costs.items():
        if not runs:
            continue
        cpu, wall, largest, tree = _medians(runs)
        low, high = min(run.cpu_s for run in runs), max(run.cpu_s for run in runs)
        title = " ".join(PEERS[name][:1]) if name in PEERS else name
        print(
            f"| {title} | {len(runs)} | {cpu:.2f} ({low:.2f} to {high:.2f}) | {wall:.2f} | {largest:,.0f} | {tree:,.0f} "
            f"| {cpu / base[0]:.2f} | {largest / base[2]:.2f} |"
        )
    for name, why in failed.items():
        print(f"| {PEERS[name][0]} | failed | {why[:120].replace('|', '/')} | | | | | |")
    sys.stdout.flush()


def _medians(runs: list[Cost]) -> tuple[float, float, float, float]:
    return (
        statistics.median(run.cpu_s for run in runs),
        statistics.median(run.wall_s for run in runs),
        statistics.median(run.largest_bytes for run in runs) / MB,
        statistics.median(run.tree_bytes for run in runs) / MB,
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


if __name__ == "__main__":
    sys.exit(main())
