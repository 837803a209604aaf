"""What decides what the files of a job say, and its groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]

CAUSES = ("kernel", "work", "device", "input", "host", "copy", "communication")
PATTERNS = ("persistent", "rotating", "periodic", "single")


DESCRIPTIONS = {
    "megatron": {
        "world": "default_pg", "tp": "TENSOR_MODEL_PARALLEL_GROUP", "cp": "CONTEXT_PARALLEL_GROUP",
        "dp": "DATA_PARALLEL_GROUP_WITH_CP", "ep": "EXPERT_MODEL_PARALLEL_GROUP", "pp": "PIPELINE_MODEL_PARALLEL_GROUP",
    },
    "mesh": {
        "world": "default_pg", "tp": "mesh_tp", "cp": "mesh_cp", "dp": "mesh_dp", "ep": "mesh_ep", "pp": "mesh_pp",
    },
}  # fmt: skip


KERNEL_OF = {"norm": 0, "gemm": 1, "attention": 2, "add": 3, "gemm_backward": 4, "attention_backward": 5, "adam": 7}


@dataclass(frozen=True)
class Straggler:
    """A rank that is later than the others: why, when, and how much in a step."""

    rank: int
    cause: str = "kernel"
    """kernel: each call of one kernel takes longer; work: more calls of it; device: every kernel takes longer; input: the
    loader; host: nothing is launched for a while; copy: the batch takes longer to the device; communication: the collectives
    of the rank's group of the kind ``group`` take longer."""
    pattern: str = "persistent"
    """persistent: every step; rotating: the next rank in each step; periodic: every ``period``-th step, ``step`` first;
    single: in step ``step``."""
    amount_ns: int = 2_000_000
    """Of a step, about: it is spread over the calls in whole nanoseconds, or whole calls."""
    kernel: str = "gemm"
    """One of KERNEL_OF."""
    group: str = "tp"
    period: int = 4
    step: int = 0

    def at(self, step: int, ranks: int) -> int | None:
        """Returns the rank that is late in a step."""
        if self.pattern == "rotating":
            return (self.rank + step) % ranks
        if self.pattern == "periodic" and step % self.period != self.step % self.period:
            return None
        if self.pattern == "single" and step != self.step:
            return None
        return self.rank


@dataclass(frozen=True)
class Job:
    """Everything that decides what the files say."""

    ranks: int = 8
    steps: int = 4
    layers: int = 4
    """Of a stage of the pipeline."""
    kernels: int = 12
    """Of a layer's forward part; its backward part has as many again."""
    tp: int = 1
    cp: int = 1
    ep: int = 1
    """Expert groups lie within data-parallel ones."""
    pp: int = 1
    microbatches: int = 1
    sharded: bool = False
    """Gradients are scattered and weights gathered, instead of an all-reduce."""
    coalesced: bool = False
    """The gradients of all layers are one batch: many calls, one kernel that says nothing about them."""
    seed: int = 0
    node: int = 8
    """Ranks of a machine."""
    jitter_ns: int = 2_000
    """Standard deviation of the ends of one collective on its ranks."""
    noise: float = 0.003
    """Standard deviation of the duration of kernels, by segment and rank; of loader and copies too."""
    offset_ns: int = 0
    """Clocks are wrong by up to this much, either way ..."""
    drift_ppb: int = 0
    """... and drift by up to this much, either way."""
    bases: bool = True
    """Each file counts from a base time of its own, as Kineto's do."""
    stragglers: tuple[Straggler, ...] = ()
    missing: tuple[tuple[int, float], ...] = ()
    """Ranks whose profiler lost the kernels of this share of their collectives."""
    late: tuple[tuple[int, int], ...] = ()
    """Number of steps before the recording begins, by rank."""
    absent: tuple[int, ...] = ()
    """Ranks that take part, but whose trace nobody kept."""
    slow_links: tuple[tuple[int, int, float], ...] = ()
    """Two nodes and how many times as long data takes between them."""
    sequence: bool = True
    """Kernels state the number of their collective in its group."""
    naming: str = "megatron"
    """How groups are described: a key of DESCRIPTIONS."""
    old_names: bool = False
    """Kernels have the names that NCCL gave them before 2.18 (the only ones that some tools know)."""

    def __post_init__(self) -> None:
        for name in ("missing", "late", "slow_links"):
            object.__setattr__(self, name, tuple(tuple(each) for each in getattr(self, name)))
        object.__setattr__(self, "absent", tuple(self.absent))
        object.__setattr__(self, "stragglers", tuple(self.stragglers))
        if (
            min(
                self.ranks, self.steps, self.layers, self.kernels, self.tp, self.cp, self.ep, self.pp, self.microbatches
            )
            < 1
        ):
            raise ValueError("ranks, steps, layers, kernels, tp, cp, ep, pp and microbatches are at least 1")
        if self.ranks % (self.tp * self.cp * self.pp) or self.dp % self.ep:
            raise ValueError("tp * cp * pp divides ranks, ep what is left")
        named = {s.rank for s in self.stragglers} | {r for r, _ in (*self.missing, *self.late)} | set(self.absent)
        if not named <= set(range(self.ranks)) or len(set(self.absent)) >= self.ranks:
            raise ValueError("a rank that is named exists, and one at least is not absent")
        for one in self.stragglers:
            if one.cause not in CAUSES or one.pattern not in PATTERNS or one.kernel not in KERNEL_OF:
                raise ValueError(f"no such straggler: {one}")

    @property
    def dp(self) -> int:
        """Returns how many data-parallel copies there are."""
        return self.ranks // (self.tp * self.cp * self.pp)

    @property
    def stage_ranks(self) -> int:
        """Returns the ranks of a stage: neighbours."""
        return self.ranks // self.pp


@dataclass(frozen=True)
class Groups:
    """The groups of one kind: members are ranks of the job, one row a group."""

    kind: str
    members: Int64
    first_number: int

    @cached_property
    def of_rank(self) -> Int64:
        """Returns the group of each rank."""
        found = np.empty(self.members.size, np.int64)
        found[self.members] = np.arange(len(self.members))[:, None]
        return found


def groups_of(job: Job) -> dict[str, Groups]:
    """Returns the groups by kind, in the order in which they were made; kinds with one rank a group are left out."""
    grid = np.arange(job.ranks).reshape(job.pp, job.dp, job.cp, job.tp)
    found: dict[str, Groups] = {}
    number = 0
    for kind, axes, size in (
        ("world", (0, 1, 2, 3), job.ranks),
        ("tp", (0, 1, 2, 3), job.tp),
        ("cp", (0, 1, 3, 2), job.cp),
        ("dp", (0, 3, 1, 2), job.dp * job.cp),
        ("ep", (0, 2, 3, 1), job.ep),
        ("pp", (1, 2, 3, 0), job.pp),
    ):
        if size > 1 or kind == "world":
            found[kind] = Groups(kind, grid.transpose(axes).reshape(-1, size), number)
            number += len(found[kind].members)
    return found
