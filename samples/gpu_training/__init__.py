"""Invent Kineto GPU traces whose right answers are known, for tests on machines without a GPU.

A data-parallel transformer training is planned step by step and written as modern Kineto writes it. Next to each trace stands
the truth: the figures that an analysis has to find, in integer nanoseconds. They come from the plan, not from the file:

* Time is a grid: each interval of the plan starts and ends on a cell of CELL_NS nanoseconds, so a busy time is a count of
  painted cells. CELL_NS is a prime, so that times in microseconds have every possible third digit. (Rows of
  gpu_user_annotation reach 1 ns beyond their kernels on both sides, as in Kineto.)
* Host times come from one clock per thread. Only `spend` advances it, and charges the operator that is open.
* The operators and modules that are open at a launch own its kernel.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from events import Json, resumed, write_pieces, write_truth

from .config import BASE_NS, CELL_NS, CLASSES, NO_OPERATOR, Config, Meeting, us
from .dialects import DIALECTS
from .kineto import trace_text
from .program import Training
from .recorder import Activity, Recorder
from .truth import truth_of

__all__ = ["CELL_NS", "CLASSES", "NO_OPERATOR", "Config", "Worker", "generate", "main", "truth_document", "write"]


@dataclass(frozen=True)
class Worker:
    name: str
    file_name: str
    recorder: Recorder
    truth: Json

    def text(self) -> Iterator[str]:
        """The trace, piece by piece, so that a large one is never held as one string."""
        yield from trace_text(self.recorder, self.file_name)


def _leftover(recorder: Recorder) -> None:
    """A kernel whose launch happened before the recording began: the profiler has no call for it."""
    args = recorder.kernel_args([216, 1, 1], [128, 1, 1], False)
    recorder.last_correlation += 1
    recorder.activities.append(
        Activity(
            "compute", recorder.dialect.kernels["leftover"], us(90), us(35), recorder.compute,
            recorder.last_correlation, (), (), False, False, -1, args, None,
        )
    )  # fmt: skip


def _meet(programs: list[Meeting]) -> None:
    """Runs the ranks in turn. When all ranks of a group wait for a collective, each gets the start of the last one."""
    waiting = [next(program, None) for program in programs]
    while any(waiting):
        groups = dict.fromkeys(arrival[0] for arrival in waiting if arrival is not None)
        met = 0
        for group in groups:
            arrivals = [
                arrival for rank in group.ranks if (arrival := waiting[rank]) is not None and arrival[0] == group
            ]
            if len(arrivals) == len(group.ranks):
                met += 1
                last = max(ready for _, ready in arrivals)
                for rank in group.ranks:
                    waiting[rank] = resumed(programs[rank], last)
        if not met:
            raise AssertionError("every rank of a group runs the same collectives")


def generate(config: Config) -> list[Worker]:
    """Plan one run; the workers hold their trace as text on demand and their truth."""
    recorders = [Recorder(config, rank) for rank in range(config.ranks)]
    trainings = [Training(recorder) for recorder in recorders]
    with ExitStack() as frames:
        for recorder in recorders:
            _leftover(recorder)
            frames.enter_context(recorder.frame("train.py(88): <module>"))
            frames.enter_context(recorder.frame("train.py(80): train"))
        for number in range(config.steps):
            if config.late_rank is not None and number == config.late_steps:
                recorders[config.late_rank].forget()
            _meet([training.run_step(number) for training in trainings])
    workers = []
    for recorder in (recorder for recorder in recorders if recorder.rank not in config.absent_ranks):
        name = f"rank{recorder.rank}" if config.ranks > 1 else "worker0"
        written_at = BASE_NS + recorder.ns(recorder.main.now)
        workers.append(Worker(name, f"{name}.{written_at}.pt.trace.json", recorder, truth_of(recorder)))
    return workers


def write(workers: list[Worker], out_dir: Path, compressed: bool = True) -> list[Path]:
    """Writes the trace of every worker."""
    ending = ".gz" if compressed else ""
    return [write_pieces(out_dir / (worker.file_name + ending), worker.text()) for worker in workers]


def truth_document(workers: list[Worker], run: str) -> Json:
    config = workers[0].recorder.config
    return {
        "run": run, "synthetic": True, "config": asdict(config), "cell_ns": CELL_NS,
        "base_time_ns": BASE_NS, "priority": list(CLASSES),
        "workers": {worker.name: worker.truth for worker in workers},
    }  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("out_dir", type=Path, help="folder of the run; created")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--streams", type=int, default=2, choices=(1, 2, 3, 4), help="compute, comm, copy, side")
    parser.add_argument("--scale", type=int, default=1, help="times as many layers, and steps as many times as long")
    parser.add_argument("--arch", choices=sorted(DIALECTS), default="cuda")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slow-rank", type=int, default=None, help="rank whose kernels take longer")
    parser.add_argument("--layers", type=int, default=4, help="transformer blocks at scale 1")
    parser.add_argument("--tensor-parallel", type=int, default=1, help="neighbouring ranks that share each layer")
    parser.add_argument(
        "--missing-rank", type=int, default=None, help="rank that lacks the kernels of some collectives"
    )
    parser.add_argument("--missing-share", type=float, default=0.1, help="share of its collectives that it lacks")
    parser.add_argument("--late-rank", type=int, default=None, help="rank whose recording begins late")
    parser.add_argument("--late-steps", type=int, default=1, help="number of steps before the late start")
    parser.add_argument(
        "--absent-rank", dest="absent_ranks", type=int, action="append", default=[], help="rank without a trace"
    )
    parser.add_argument("--slow-factor", type=float, default=1.25, help="how many times as long its kernels take")
    parser.add_argument("--epoch-us", action="store_true", help="epoch times, no baseTimeNanoseconds (early 2024)")
    parser.add_argument("--plain", action="store_true", help="write .json, not .json.gz")
    parser.add_argument("--truth", type=Path, default=None, help="write the truth to this JSON file")
    chosen = parser.parse_args(arguments)
    config = Config(**{each.name: getattr(chosen, each.name) for each in fields(Config)})
    workers = generate(config)
    for path in write(workers, chosen.out_dir, not chosen.plain):
        print(f"{path}  {path.stat().st_size:,} bytes")
    write_truth(chosen.truth, truth_document(workers, chosen.out_dir.name), indent=1)
