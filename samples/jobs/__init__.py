"""Invent the traces of a training on 2 to 4,096 ranks, with what went wrong in it known to the nanosecond.

`synthetic.py` makes a few ranks that look like recordings in every respect; this one makes many, fast, of which the
collectives are what matters. One plan is made of the whole job (small arrays: one number for each operation and rank), by
playing host, compute stream and communication streams of all ranks through at once: a kernel starts when its launch and its
stream are ready, a collective ends on all ranks of its group when the last one came and the data moved, later work waits for
what it needs. Then any rank is written alone, one step at a time, out of (job, rank), or handed over as columns.

The truth comes from the plan and never from reading a file back; what a straggler costs comes from playing the same job
without it. Nothing here was recorded, and no number says anything about real hardware.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from events import write_truth

from .calls import calls
from .job import CAUSES, DESCRIPTIONS, PATTERNS, Job, Straggler
from .kineto import text_of, write
from .playing import Plan, plan
from .truth import truth

__all__ = ["CAUSES", "PATTERNS", "Job", "Plan", "Straggler", "calls", "main", "plan", "text_of", "truth", "write"]


def _straggler(text: str) -> Straggler:
    rank, cause, pattern, us = (*text.split(":"), *("kernel", "persistent", "2000")[len(text.split(":")) - 1 :])[:4]
    return Straggler(int(rank), cause, pattern, int(float(us) * 1000))


def _pair(text: str) -> tuple[int, float]:
    rank, value = text.split(":")
    return int(rank), float(value)


def _link(text: str) -> tuple[int, int, float]:
    first, second, factor = text.split(":")
    return int(first), int(second), float(factor)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Invent the traces of a training on many ranks, with a known truth.")
    parser.add_argument("out_dir", type=Path)
    for name, default in (
        ("ranks", 8), ("steps", 4), ("layers", 4), ("kernels", 12), ("tp", 1), ("cp", 1), ("ep", 1), ("pp", 1),
        ("microbatches", 1), ("node", 8), ("seed", 0), ("drift-ppb", 0), ("jitter-ns", 2_000),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--offset-us", type=float, default=0)
    parser.add_argument("--noise", type=float, default=0.003)
    parser.add_argument("--sharded", action="store_true")
    parser.add_argument("--coalesced", action="store_true")
    parser.add_argument("--naming", choices=sorted(DESCRIPTIONS), default="megatron")
    several: Mapping[str, Callable[[str], Any]] = {
        "straggler": _straggler, "missing": _pair, "late": _pair, "absent": int, "slow-link": _link, "only": int,
    }  # fmt: skip
    for name, kind in several.items():
        parser.add_argument(f"--{name}", type=kind, action="append", default=[])
    parser.add_argument("--one-base", action="store_true", help="all files count from one base time")
    parser.add_argument("--old-names", action="store_true", help="kernels are called as NCCL called them before 2.18")
    parser.add_argument("--no-sequence", action="store_true", help="kernels state no number of their collective")
    parser.add_argument("--plain", action="store_true", help="write .json, not .json.gz")
    parser.add_argument("--truth", type=Path, default=None, help="write the truth to this JSON file")
    parser.add_argument("--matches", action="store_true", help="with the numbers of all calls in it")
    given = parser.parse_args(arguments)
    job = Job(
        given.ranks, given.steps, given.layers, given.kernels, given.tp, given.cp, given.ep, given.pp, given.microbatches,
        given.sharded, given.coalesced, given.seed, given.node, given.jitter_ns, given.noise,
        round(given.offset_us * 1000), given.drift_ppb,
        stragglers=tuple(given.straggler), missing=tuple(given.missing), late=tuple((r, int(s)) for r, s in given.late),
        absent=tuple(given.absent), slow_links=tuple(given.slow_link), sequence=not given.no_sequence, naming=given.naming,
        bases=not given.one_base, old_names=given.old_names,
    )  # fmt: skip
    made = plan(job)
    paths = write(job, given.out_dir, given.only or None, not given.plain, made)
    print(f"{len(paths)} files, {sum(path.stat().st_size for path in paths):,} bytes in {given.out_dir}")
    if given.truth is not None:
        write_truth(given.truth, truth(job, made, given.matches))
