"""What is invented: steps, ranks, groups, and what goes wrong."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from .dialects import DIALECTS

CELL_NS = 137
CLASSES = ("compute", "communication", "memcpy", "memset")  # in order of priority: the first one present wins
NO_OPERATOR = "(no operator)"
BASE_NS = 1_790_857_026_000_000_000  # what Kineto would write in the quarter the samples were made
ORIGIN_NS = 4_343_762_354_588_917  # of the first cell, relative to BASE_NS
NO_SEQUENCE = -1
NODE = 8  # devices of one machine
BATCH, LENGTH, WIDTH, VOCABULARY = 16, 1024, 1024, 16000
TOKENS = BATCH * LENGTH
PACE = 1.15  # of the invented device: the durations written below, times this


def us(micros: float) -> int:
    """Microseconds as a whole number of cells, at least one."""
    return max(1, round(micros * 1000 / CELL_NS))


@dataclass(frozen=True)
class Config:
    steps: int = 6
    ranks: int = 1
    streams: int = 2
    scale: int = 1
    arch: str = "cuda"
    seed: int = 0
    slow_rank: int | None = None
    slow_factor: float = 1.25
    epoch_us: bool = False
    layers: int = 4  # transformer blocks at scale 1
    tensor_parallel: int = (
        1  # neighbouring ranks that share each layer; ranks at the same place form a data-parallel group
    )
    missing_rank: int | None = None  # the rank whose profiler loses the kernels of some collectives ...
    missing_share: float = 0.1  # ... this share of them, evenly spread
    late_rank: int | None = None  # the rank whose recording begins late ...
    late_steps: int = 1  # ... after this number of steps
    absent_ranks: tuple[int, ...] = ()  # ranks that take part but whose trace nobody kept

    def __post_init__(self) -> None:
        object.__setattr__(self, "absent_ranks", tuple(self.absent_ranks))  # JSON knows only lists
        if self.arch not in DIALECTS:
            raise ValueError(f"arch is one of {sorted(DIALECTS)}, not {self.arch!r}")
        if min(self.steps, self.ranks, self.streams, self.scale, self.layers, self.tensor_parallel) < 1:
            raise ValueError("steps, ranks, streams, scale, layers and tensor_parallel are at least 1")
        if self.ranks % self.tensor_parallel:
            raise ValueError("tensor_parallel divides ranks")
        if not 0 <= self.missing_share <= 1 or not 0 < self.late_steps < max(2, self.steps):
            raise ValueError("missing_share is 0 to 1, late_steps less than steps")
        named = {self.slow_rank, self.missing_rank, self.late_rank, *self.absent_ranks} - {None}
        if not named <= set(range(self.ranks)) or len(self.absent_ranks) >= self.ranks:
            raise ValueError("a rank that is named exists, and one at least is not absent")


@dataclass(frozen=True)
class Group:
    """A process group: its name and number as PyTorch counts them, its description and its ranks in the job."""

    number: int
    description: str
    ranks: tuple[int, ...]

    @property
    def name(self) -> str:
        return str(self.number)

    @property
    def stride(self) -> int:
        return self.ranks[1] - self.ranks[0] if len(self.ranks) > 1 else 1


Meeting = Generator[tuple[Group, int], int, None]
"""A program that waits for others: it yields a group and when it could start, and is sent when all of the group can."""


def groups_of(config: Config) -> list[Group]:
    """All ranks; where layers are shared also the groups of neighbours (tp) and of ranks at the same place (dp)."""
    tp, everyone = config.tensor_parallel, tuple(range(config.ranks))
    found = [("default_pg", everyone)]
    if tp > 1:
        found += [("tp", everyone[first : first + tp]) for first in range(0, config.ranks, tp)]
        found += [("dp", everyone[place::tp]) for place in range(tp)]
    return [Group(number, description, ranks) for number, (description, ranks) in enumerate(found)]
