"""Invent timelines of MegEngine trainings on GPUs whose right answers are known, for machines without a GPU.

A small training is played: an interpreter that dispatches, a worker that executes, streams of a device. It is written as
MegEngine's profiler does with CUPTI: `<pid>.chrome_timeline.json`, and `<pid>.memory_flow.svg` with its tensors.
The truth is counted in integer nanoseconds while the training is played. Nothing was recorded: rows of the host follow
recordings of MegEngine 1.13, rows of devices and CUPTI the source of its writer.

Faults (`--fault`) are planted in every step, and the truth says what each costs (the same program is played without it):
`wait` reads a value in the middle of the step, `reshapes` reshapes to the same shape, thrice a block, `serial_all_reduce`
sums gradients on the stream that computes, `host_bound` takes ten times as long in Python.
"""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path

from events import write_pieces, write_truth

from .config import FAULTS, Config
from .files import drawing, text
from .process import Process
from .program import play
from .truth import truth_document, truth_of

__all__ = ["FAULTS", "Config", "drawing", "main", "play", "text", "truth_document", "truth_of", "write"]


def write(processes: list[Process], out_dir: Path, compressed: bool = True) -> list[Path]:
    """Writes timeline and memory flow of every process."""
    paths = []
    for process in processes:
        timeline = f"{process.pid}.chrome_timeline.json{'.gz' if compressed else ''}"
        paths.append(write_pieces(out_dir / timeline, [text(process)]))
        paths.append(write_pieces(out_dir / f"{process.pid}.memory_flow.svg", [drawing(process)]))
    return paths


def main(arguments: list[str] | None = None) -> None:
    """Writes a run, and its truth where it is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("out_dir", type=Path, help="folder of the run; created")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--blocks", type=int, default=2, help="convolutions, each with its norm")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--fault", dest="faults", action="append", default=[], choices=FAULTS, help="planted in every step; repeatable"
    )
    parser.add_argument(
        "--no-cupti", dest="cupti", action="store_false", help="without calls and kernels of CUDA (enable_cupti=0)"
    )
    parser.add_argument("--no-backtrace", dest="backtrace", action="store_false", help="without with_backtrace")
    parser.add_argument("--scopes", action="store_true", help="with_scopes: methods of tensors as scopes")
    parser.add_argument(
        "--as-recorded",
        dest="wait_params",
        action="store_false",
        help="waits without the place in Python, as 1.13 on a CPU",
    )
    parser.add_argument("--plain", action="store_true", help="write .json, not .json.gz")
    parser.add_argument("--truth", type=Path, default=None, help="write the truth to this JSON file")
    chosen = parser.parse_args(arguments)
    config = Config(**{each.name: getattr(chosen, each.name) for each in fields(Config)})
    processes = play(config)
    for path in write(processes, chosen.out_dir, not chosen.plain):
        print(f"{path}  {path.stat().st_size:,} bytes")
    write_truth(chosen.truth, truth_document(config, chosen.out_dir.name, processes))
