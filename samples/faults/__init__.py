"""Invent trainings with faults whose cost is known: the program is run on a simulated machine, and run again without them.

Nothing here was recorded, and no number says anything about real hardware. Standard library only.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

from events import write_pieces

from . import communicating, computing, repeating, scaling, stepping, waiting
from .faulty import PROGRAMS, Faulty, Pace
from .hardware import COMPUTE, DEVICE_BYTES, MS, mixed, named, share
from .kernels import BF16_FLOPS, SEQUENCE
from .kineto import BASE_NS, ORIGIN_NS, text_of
from .machine import Machine
from .model import Shape
from .program import Program

__all__ = ["ALSO", "COSTLESS", "FAULTS", "Config", "Training", "main", "run", "write"]
_MODULES = (waiting, computing, repeating, communicating, scaling, stepping)  # each registers its faults
FAULTS = {name: (program.__doc__ or "").strip() for name, program in PROGRAMS.items()}
"""What each fault is, by its name."""
ALSO = {name: program.also for name, program in PROGRAMS.items()}
"""Other faults that one has by its nature: their rules may speak as well."""
COSTLESS = frozenset(name for name, program in PROGRAMS.items() if not program.costs)
"""Those without which a step takes as long."""


@dataclass(frozen=True)
class Config:
    """A training: `mended`, the faults are done right, and all else stays."""

    seed: int = 0
    steps: int = 6
    fault: str | tuple[str, ...] = ()
    size: float = 1.0
    ddp: bool = False
    host_bound: bool = False
    mended: bool = False

    def __post_init__(self) -> None:
        names = (self.fault,) if isinstance(self.fault, str) else tuple(self.fault)
        object.__setattr__(self, "fault", tuple(name for name in names if name))
        if unknown := set(self.faults) - FAULTS.keys():
            raise ValueError(f"a fault is one of {', '.join(FAULTS)}, not {', '.join(sorted(unknown))}")
        if self.steps < 1 or self.size <= 0:
            raise ValueError("there is at least one step, and it has a size")

    @property
    def faults(self) -> tuple[str, ...]:
        return tuple(self.fault)


@dataclass(frozen=True, eq=False)
class Training:
    """A training as it went."""

    config: Config
    shape: Shape
    planted: dict[str, int | str]
    """The truth about the faults: counts and nanoseconds over all steps, and the line of Python."""
    steps: tuple[tuple[int, int], ...]
    """Begin and end of each step, from the trace's begin; a step ends with the last work that it launched."""
    machine: Machine
    ddp: bool

    @property
    def step_time_ns(self) -> float:
        """From the begin of the first step to the end of the last, by the number of steps."""
        return (self.steps[-1][1] - self.steps[0][0]) / len(self.steps)

    @property
    def sample_time_ns(self) -> float:
        """The time of a step by the samples in its batch: what compares programs with batches of two sizes."""
        return self.step_time_ns / self.shape.batch

    def text(self) -> str:
        """Returns the trace that the profiler would have written."""
        return text_of(self.machine, self.ddp)

    @property
    def file_name(self) -> str:
        return f"worker0.{BASE_NS + ORIGIN_NS + self.machine.now}.pt.trace.json"

    @cached_property
    def mended(self) -> Training:
        """The same program without its faults, run again."""
        return run(replace(self.config, mended=True))


def run(config: Config) -> Training:
    """Runs a training."""
    kinds = tuple(PROGRAMS[name] for name in config.faults)
    ddp = config.ddp or any(kind.ddp_only for kind in kinds)
    host_bound = config.host_bound or any(kind.host_bound for kind in kinds)
    shape, pace, slowness, base = _plan(config.seed, config.size, ddp, host_bound, config.faults)
    if config.mended:
        for kind in kinds:
            shape = kind.mend(shape)
    machine = Machine(config.seed, slowness)
    program = type("Program", (*kinds, Faulty), {})(machine, shape, ddp, pace, config.mended)
    program.base_bytes = base
    program.run(config.steps)
    return Training(config, shape, program.planted, tuple(machine.steps), machine, program.ddp)


_DISPATCH = 1.6
"""The pace of the host of a program that is not bound by it."""


@lru_cache(maxsize=1_024)
def _plan(
    seed: int, size: float, ddp: bool, host_bound: bool, faults: tuple[str, ...]
) -> tuple[Shape, Pace, float, int]:
    """How large the program is, how long its healthy form takes, how slow the host is, and what memory it always holds."""

    def draw(name: str) -> float:
        return share(named(mixed(mixed(seed, 0), 0), name))

    slowness = _DISPATCH
    if host_bound:
        layers, width = 8 + int(draw("layers") * 7), (512, 768)[int(draw("width") * 2)]
        behind = (1.12 + 0.4 * draw("behind")) * max((PROGRAMS[name].starved for name in faults), default=1.0)
        step_ns = size * layers * 30 * 21_000 / behind
    else:
        layers, width = 4 + int(draw("layers") * 5), (1_024, 1_536, 2_048)[int(draw("width") * 3)]
        step_ns = size * (24 + 24 * draw("step")) * MS
    # Most of such a step are matrix products: three passes over 12 weights a layer and a pair.
    tokens = 0.68 * step_ns * BF16_FLOPS / (6 * 12 * layers * width * width)
    grain = (1 if host_bound else 8) * SEQUENCE
    shape = Shape(layers, width, max(grain, round(tokens / grain) * grain))
    for name in faults:
        shape = PROGRAMS[name].fit(shape, draw, round(step_ns))
    host_ns, device_ns, peak = _measured(seed, shape, ddp, slowness)
    if host_bound:
        slowness *= behind * device_ns / host_ns
        host_ns, device_ns, peak = _measured(seed, shape, ddp, slowness)
    return shape, Pace(host_ns, device_ns), slowness, max(0, round(0.58 * DEVICE_BYTES) - peak)


@lru_cache(maxsize=1_024)
def _measured(seed: int, shape: Shape, ddp: bool, slowness: float) -> tuple[int, int, int]:
    """One step of the healthy program: the time of the host, of the device where it never waits, and the memory it takes."""
    machine = Machine(seed, slowness)
    program = Program(machine, shape, ddp)
    machine.begin_step(0)
    began = machine.now
    program.train_step()
    rows = [row for row in machine.device_rows if row.track == COMPUTE and row.category != "cuda_sync"]
    return machine.now - began, sum(row.end - row.start + 900 for row in rows), machine.peak


def write(training: Training, folder: Path, compressed: bool = True) -> Path:
    """Writes the trace."""
    return write_pieces(folder / (training.file_name + (".gz" if compressed else "")), [training.text()])


def main(arguments: list[str] | None = None) -> None:
    """Runs one training and writes its trace; says what the faults cost."""
    listed = "\n".join(f"  {name}: {what}" for name, what in FAULTS.items())
    parser = argparse.ArgumentParser(
        prog="synthetic_faults.py",
        description="Invents the trace of a training with faults.",
        epilog=f"faults:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("out_dir", type=Path, help="folder of the run; created")
    parser.add_argument("--fault", action="append", default=[], choices=sorted(FAULTS), metavar="NAME")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--size", type=float, default=1.0, help="how many times as long a step takes")
    parser.add_argument("--ddp", action="store_true", help="one of eight processes of DistributedDataParallel")
    parser.add_argument("--host-bound", action="store_true", help="the device starves")
    parser.add_argument("--mended", action="store_true", help="the same program without the faults")
    parser.add_argument("--plain", action="store_true", help="write .json, not .json.gz")
    chosen = parser.parse_args(arguments)
    config = Config(
        chosen.seed, chosen.steps, tuple(chosen.fault), chosen.size, chosen.ddp, chosen.host_bound, chosen.mended
    )
    training = run(config)
    path = write(training, chosen.out_dir, not chosen.plain)
    print(f"{path}  {path.stat().st_size:,} bytes; a step takes {training.step_time_ns / MS:.3f} ms")
    if config.faults and not config.mended:
        print(f"without the faults {training.mended.step_time_ns / MS:.3f} ms; planted: {training.planted}")
