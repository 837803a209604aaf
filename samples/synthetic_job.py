"""Invent the traces of a training on 2 to 4,096 ranks, with what went wrong in it known to the nanosecond.

`synthetic.py` makes a few ranks that look like recordings in every respect; this one makes many, fast, of which the
collectives are what matters. One plan is made of the whole job (small arrays: one number for each operation and rank), by
playing host, compute stream and communication streams of all ranks through at once: a kernel starts when its launch and its
stream are ready, a collective ends on all ranks of its group when the last one came and the data moved, later work waits for
what it needs. Then any rank is written alone, one step at a time, out of (job, rank), or handed over as columns.

The truth comes from the plan and never from reading a file back; what a straggler costs comes from playing the same job
without it. Nothing here was recorded, and no number says anything about real hardware.

usage: python samples/synthetic_job.py OUT_DIR [--ranks 8] [--steps 4] [--layers 4] [--kernels 12] [--tp N] [--cp N]
       [--ep N] [--pp N] [--microbatches M] [--sharded] [--straggler RANK:CAUSE[:PATTERN[:MICROSECONDS]] ...]
       [--missing RANK:SHARE ...] [--late RANK:STEPS ...] [--absent RANK ...] [--slow-link NODE:NODE:FACTOR ...]
       [--offset-us N] [--drift-ppb N] [--jitter-ns N] [--no-sequence] [--naming megatron|mesh] [--only RANK ...] [--plain]
       [--seed N] [--truth FILE] [--matches]
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Json = dict[str, Any]

BASE_NS = 1_790_857_026_000_000_000
"""The base time of a file is this or up to ten seconds earlier."""
BEGIN_NS = 4_343_762_000_000_000
"""From the base time to the begin of the job."""
CALL_NS = 6_000
"""Of the host thread for one kernel: an operator and the launch in it. No kernel is shorter, so only the first one of a
segment can wait for its launch."""
LAUNCH_NS = 5_000
"""From the begin of the operator to the earliest start of its kernel."""
COMM_CALL_NS = 20_000
COMM_LAUNCH_NS = 13_000
WAIT_NS = 3_000
COPY_NS = 120_000
LOADER_NS = 400_000
BETWEEN_NS = 20_000
SEGMENT, COLLECTIVE, SEND, RECV, WAIT = "segment", "collective", "send", "recv", "wait"
MOST_LISTED = 30
"""PyTorch writes so many numbers of a list of ranks or sizes, then dots."""
CAUSES = ("kernel", "work", "device", "input", "host", "copy", "communication")
PATTERNS = ("persistent", "rotating", "periodic", "single")

KERNELS: tuple[tuple[str, str, int], ...] = (
    ("aten::native_layer_norm", "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>", 14_000),
    ("aten::mm", "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTN", 60_000),
    ("aten::_flash_attention_forward", "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4> >", 90_000),
    ("aten::add", "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16> >", 10_000),
    ("aten::mm", "nvjet_hsh_256x128_64x4_2x1_v_bz_coopB_TNN", 80_000),
    ("aten::_flash_attention_backward", "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Traits<64> >", 150_000),
    ("aten::native_layer_norm_backward", "void at::native::layer_norm_grad_input_kernel_vectorized<float>", 18_000),
    ("aten::_fused_adamw_", "void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4> >", 70_000),
    ("aten::_grouped_mm", "void cutlass::device_kernel<GroupedGemmKernel<c10::BFloat16> >", 75_000),
)  # fmt: skip
"""Operator, kernel and its nanoseconds."""
PHASES = {"forward": (0, 1, 2, 1, 3), "backward": (6, 4, 5, 4, 3), "optimizer": (7, 3), "expert": (8, 3)}
"""The kernels of a segment, again and again until there are enough."""
KERNEL_OF = {"norm": 0, "gemm": 1, "attention": 2, "add": 3, "gemm_backward": 4, "attention_backward": 5, "adam": 7}

STREAMS = {"tp": 20, "cp": 24, "ep": 28, "dp": 32, "world": 36, "down": 40, "up": 44}
COMPUTE_STREAM = 7
DESCRIPTIONS = {
    "megatron": {
        "world": "default_pg", "tp": "TENSOR_MODEL_PARALLEL_GROUP", "cp": "CONTEXT_PARALLEL_GROUP",
        "dp": "DATA_PARALLEL_GROUP_WITH_CP", "ep": "EXPERT_MODEL_PARALLEL_GROUP", "pp": "PIPELINE_MODEL_PARALLEL_GROUP",
    },
    "mesh": {
        "world": "default_pg", "tp": "mesh_tp", "cp": "mesh_cp", "dp": "mesh_dp", "ep": "mesh_ep", "pp": "mesh_pp",
    },
}  # fmt: skip
DTYPES = {"BFloat16": 2, "Float": 4}
NCCL = {
    "allreduce": ("c10d::allreduce_", "ncclDevKernel_AllReduce_Sum_{t}_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
    "_allgather_base": ("c10d::_allgather_base_", "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
    "_reduce_scatter_base": (
        "c10d::_reduce_scatter_base_", "ncclDevKernel_ReduceScatter_Sum_{t}_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    ),
    "all_to_allv": ("c10d::alltoall_base_", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"),
    "send": ("c10d::send", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"),
    "recv": ("c10d::recv_", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"),
}  # fmt: skip
"""Dispatcher's operator and kernel by the name that PyTorch states of a collective."""
LINKS = {True: (8_000, 200), False: (20_000, 40)}
"""Within a node or between nodes: latency (ns) and bandwidth (bytes a nanosecond, which is 10^9 a second)."""


# ----------------------------------------------------------------------------------------------------- the job


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
    """Ranks whose recording begins after so many steps."""
    absent: tuple[int, ...] = ()
    """Ranks that take part, but whose trace nobody kept."""
    slow_links: tuple[tuple[int, int, float], ...] = ()
    """Two nodes and how many times as long data takes between them."""
    sequence: bool = True
    """Kernels state the number of their collective in its group."""
    naming: str = "megatron"
    """How groups are described: a key of DESCRIPTIONS."""

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
class Op:
    """What every rank of a stage does at one place of a step."""

    kind: str
    phase: str = ""
    """Of a segment."""
    collective: str = ""
    """As PyTorch states it."""
    group: str = ""
    """Kind of group; of point-to-point calls "pp"."""
    elements: int = 0
    """Of the larger buffer on a rank; of all_to_allv the mean that a rank sends."""
    dtype: str = "BFloat16"
    waited: bool = True
    """The compute stream waits for it at once."""
    stream: str = ""
    microbatch: int = -1
    of: tuple[int, ...] = ()
    """Of a wait: the places of what it waits for."""
    parts: tuple[int, ...] = ()
    """Of a coalesced batch: the elements of its calls."""

    @property
    def calls(self) -> tuple[int, ...]:
        """Returns the elements of each call."""
        return self.parts or (self.elements,)


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


def program(job: Job, stage: int) -> list[Op]:
    """Returns what the ranks of a stage do in a step, in the order of their host threads: as many microbatches ahead as there
    are stages behind it, then one forward and one backward by turns."""
    ops: list[Op] = []
    last, pending, held = job.pp - 1, list[int](), list[int]()
    width, copies = 1 << 20, job.dp * job.cp

    def meet(collective: str, group: str, elements: int, dtype: str = "BFloat16") -> None:
        ops.append(Op(COLLECTIVE, collective=collective, group=group, elements=elements, dtype=dtype, stream=group))

    def message(kind: str, stream: str, microbatch: int) -> None:
        ops.append(Op(kind, "", kind, "pp", width * 2, waited=kind == RECV, stream=stream, microbatch=microbatch))

    def layers(backward: bool, gradients: bool = False) -> None:
        for layer in range(job.layers):
            ops.append(Op(SEGMENT, "backward" if backward else "forward"))
            size = width << (layer % 4)
            if job.cp > 1:
                meet("_reduce_scatter_base" if backward else "_allgather_base", "cp", size * job.cp // 4)
            if job.ep > 1:
                meet("all_to_allv", "ep", size // 2)
                ops.append(Op(SEGMENT, "expert"))
                meet("all_to_allv", "ep", size // 2)
            if job.tp > 1:
                meet("allreduce", "tp", size)
            if gradients and copies > 1:
                held.append(size * 2 // copies * copies)
                if not job.coalesced or layer == job.layers - 1:
                    pending.append(len(ops))
                    name, parts = "_reduce_scatter_base" if job.sharded else "allreduce", tuple(held)
                    ops.append(
                        Op(
                            COLLECTIVE,
                            "",
                            name,
                            "dp",
                            sum(held),
                            "Float",
                            False,
                            "dp",
                            parts=parts if job.coalesced else (),
                        )
                    )
                    held.clear()

    def forward(microbatch: int) -> None:
        if stage > 0:
            message(RECV, "down", microbatch)
        layers(False)
        if stage < last:
            message(SEND, "down", microbatch)

    def backward(microbatch: int) -> None:
        if stage < last:
            message(RECV, "up", microbatch)
        layers(True, microbatch == job.microbatches - 1)
        if stage > 0:
            message(SEND, "up", microbatch)

    ahead = min(last - stage, job.microbatches)
    for microbatch in range(job.microbatches):
        forward(microbatch)
        if microbatch >= ahead:
            backward(microbatch - ahead)
    for microbatch in range(job.microbatches - ahead, job.microbatches):
        backward(microbatch)
    if pending:
        ops.append(Op(WAIT, stream="dp", of=tuple(pending)))
    if job.ranks > 1:
        meet("allreduce", "world", 1, "Float")
    ops.append(Op(SEGMENT, "optimizer"))
    if job.sharded and pending:
        meet("_allgather_base", "dp", width * 2 // copies * copies)
    return ops


def kernels_of(job: Job, op: Op) -> Int64:
    """Returns the kernels of a segment, as positions in KERNELS."""
    count = {"optimizer": max(2, job.kernels // 2), "expert": max(1, job.kernels // 4)}.get(op.phase, job.kernels)
    return np.resize(np.array(PHASES[op.phase], np.int64), count)


BASES_NS = np.array([ns for *_, ns in KERNELS], np.int64)


# ---------------------------------------------------------------------------------------------------- the plan


@dataclass(eq=False)
class Stage:
    """What is planned of the ranks of a stage; arrays are (step, place in the program, rank of the stage), in nanoseconds."""

    first_rank: int
    ops: list[Op]
    calls: Int64
    """How often each kernel is called in a step, where nothing is planted."""
    host: Int64
    """When the host thread begins with it."""
    start: Int64
    """On the device."""
    end: Int64
    pace: npt.NDArray[np.float32]
    """How much longer the kernels of a segment take than they should, as a share."""
    splits: dict[tuple[int, int], Int64] = field(default_factory=dict)
    """Of all_to_allv by (step, place): (group, from, to) elements."""
    lost: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Kernels that the profiler lost."""
    transfer: dict[tuple[int, int], Int64] = field(default_factory=dict)
    """Of collectives by (step, place): for each group of the stage, what it takes when all are there."""


@dataclass(eq=False)
class Plan:
    """The whole job as it went, in nanoseconds from its begin, by a clock that is right."""

    job: Job
    groups: dict[str, Groups]
    stages: list[Stage]
    begin: Int64
    """(step, rank): ProfilerStep# on the host ..."""
    finish: Int64
    """... and its end."""
    loaded: Int64
    """When the batch was there."""
    copied: Int64
    """(step, rank, 3): host call, start and end of the copy of the batch."""
    synced: Int64
    """When the host begins to wait for the device."""
    clock: Int64
    """(rank, 2): offset in ns and drift in parts per 10^9."""
    base: Int64
    """Base time of each rank's file."""

    def stage_of(self, rank: int) -> tuple[Stage, int]:
        """Returns the stage of a rank and its place in it."""
        stage, place = divmod(rank, self.job.stage_ranks)
        return self.stages[stage], place

    def local(self, rank: int, time: Int64) -> Int64:
        """Returns what the file of a rank says for times of the job: by its own clock, less its base time."""
        offset, drift = self.clock[rank].tolist()
        return time + BEGIN_NS + offset + time * drift // 1_000_000_000 + BASE_NS - int(self.base[rank])


def plan(job: Job) -> Plan:
    """Plays the job through."""
    return _Play(job).play()


class _Play:
    """Host threads, compute streams and communication streams of all ranks, as far as they came."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.groups = groups_of(job)
        self.host = np.zeros(job.ranks, np.int64)
        self.device = np.zeros(job.ranks, np.int64)
        self.streams = {name: np.zeros(job.ranks, np.int64) for name in STREAMS}
        self.sent: dict[tuple[str, int, int], tuple[int, Int64]] = {}
        rng = np.random.default_rng([job.seed, 1])
        self.stages = []
        for number in range(job.pp):
            ops = program(job, number)
            shape = (job.steps, len(ops), job.stage_ranks)
            pace = (job.noise * np.clip(rng.standard_normal(shape, np.float32), -3, 3)).astype(np.float32)
            arrays = [np.zeros(shape, np.int64) for _ in range(3)]
            calls = sum(
                (np.bincount(kernels_of(job, op), minlength=len(KERNELS)) for op in ops if op.kind == SEGMENT), start=0
            )
            self.stages.append(
                Stage(number * job.stage_ranks, ops, np.asarray(calls), *arrays, pace, lost=np.zeros(shape, np.bool_))
            )
        self.rng = np.random.default_rng([job.seed, 2])
        clock = np.random.default_rng([job.seed, 3])
        offset = clock.integers(-job.offset_ns, job.offset_ns + 1, job.ranks)
        drift = clock.integers(-job.drift_ppb, job.drift_ppb + 1, job.ranks)
        base = BASE_NS - (clock.integers(0, 10_000_000_000, job.ranks) // 1_000 * 1_000 if job.bases else 0)
        times = [np.zeros((job.steps, job.ranks), np.int64) for _ in range(4)]
        self.plan = Plan(
            job, self.groups, self.stages, times[0], times[1], times[2], np.zeros((job.steps, job.ranks, 3), np.int64),
            times[3], np.stack((offset, drift), 1), np.broadcast_to(base, job.ranks).astype(np.int64),
        )  # fmt: skip

    def play(self) -> Plan:
        for step in range(self.job.steps):
            self._begin(step)
            self._run(step)
            self._finish(step)
        for rank, share in self.job.missing:
            stage, place = self.plan.stage_of(rank)
            calls = np.array([op.kind in (COLLECTIVE, SEND, RECV) for op in stage.ops])
            drawn = np.random.default_rng([self.job.seed, 4, rank]).random((self.job.steps, len(stage.ops))) < share
            stage.lost[:, :, place] = drawn & calls
        return self.plan

    def _extra(self, step: int, *causes: str) -> Iterator[tuple[Straggler, int]]:
        for one in self.job.stragglers:
            if one.cause in causes and (rank := one.at(step, self.job.ranks)) is not None:
                yield one, rank

    def _noisy(self, ns: int) -> Int64:
        drawn = np.clip(self.rng.standard_normal(self.job.ranks), -3, 3)
        return (ns * (1 + self.job.noise * drawn)).astype(np.int64)

    def _begin(self, step: int) -> None:
        made = self.plan
        made.begin[step] = self.host
        loading, copying = self._noisy(LOADER_NS), self._noisy(COPY_NS)
        for one, rank in self._extra(step, "input"):
            loading[rank] += one.amount_ns
        self.host += loading
        made.loaded[step] = self.host
        for one, rank in self._extra(step, "host"):
            self.host[rank] += one.amount_ns
        for one, rank in self._extra(step, "copy"):
            copying[rank] += one.amount_ns
        start = np.maximum(self.device, self.host + LAUNCH_NS)
        made.copied[step] = np.stack((self.host, start, start + copying), 1)
        self.device = start + copying
        self.host += CALL_NS

    def _finish(self, step: int) -> None:
        self.plan.synced[step] = self.host
        self.host = np.maximum(self.host + 5_000, self.device + 4_000)
        self.host += 3_000
        self.plan.finish[step] = self.host
        self.host += BETWEEN_NS

    def _run(self, step: int) -> None:
        """Each stage goes on until it needs what another one has not sent yet; a collective of all waits for all."""
        at = [0] * len(self.stages)
        ends = [len(stage.ops) for stage in self.stages]
        while at != ends:
            before = list(at)
            for number, stage in enumerate(self.stages):
                while at[number] < ends[number] and self._step(step, number, stage, at[number]):
                    at[number] += 1
            if at == before:
                ops = [stage.ops[place] for stage, place in zip(self.stages, at, strict=True)]
                if any(op.group != "world" for op in ops):
                    raise RuntimeError("the program of the job waits for itself")
                self._meet_all(step, at)
                at = [place + 1 for place in at]

    def _step(self, step: int, number: int, stage: Stage, place: int) -> bool:
        op = stage.ops[place]
        mine = slice(stage.first_rank, stage.first_rank + self.job.stage_ranks)
        if op.group == "world" or (op.kind == RECV and self._key(op, number) not in self.sent):
            return False
        stage.host[step, place] = self.host[mine]
        if op.kind == SEGMENT:
            self._segment(step, stage, place, mine)
        elif op.kind == WAIT:
            stage.start[step, place] = self.device[mine]
            self.device[mine] = np.maximum(self.device[mine], self.streams[op.stream][mine])
            stage.end[step, place] = self.device[mine]
            self.host[mine] += WAIT_NS * len(op.of)
        elif op.kind == COLLECTIVE:
            members = self.groups[op.group].members
            members = members[(members[:, 0] >= mine.start) & (members[:, 0] < mine.stop)]
            self._meet(step, stage, place, members)
        else:
            self._point_to_point(step, number, stage, place, mine)
        return True

    def _segment(self, step: int, stage: Stage, place: int, mine: slice) -> None:
        _, ns = segment_ns(self.job, stage, step, place)
        total, calls = ns.sum(1), np.full(len(ns), ns.shape[1], np.int64)
        for rank, kernel, more in more_calls(self.job, stage, step, place):
            total[rank] += more * int(BASES_NS[kernel])
            calls[rank] += more
        start = np.maximum(self.device[mine], self.host[mine] + LAUNCH_NS)
        stage.start[step, place] = start
        self.device[mine] = stage.end[step, place] = start + total
        self.host[mine] += calls * CALL_NS

    def _ready(self, op: Op, ranks: Int64 | slice) -> Int64:
        ready = np.maximum(self.device[ranks], self.host[ranks] + COMM_LAUNCH_NS)
        self.host[ranks] += COMM_CALL_NS
        return np.maximum(ready, self.streams[op.stream][ranks])

    def _jitter(self, shape: tuple[int, ...]) -> Int64:
        return (self.job.jitter_ns * np.clip(self.rng.standard_normal(shape), -3, 3)).astype(np.int64)

    def _meet(self, step: int, stage: Stage, place: int, members: Int64) -> None:
        op = stage.ops[place]
        arrived = self._ready(op, members)
        transfer = self._transfer(step, stage, place, members)
        end = arrived.max(1) + transfer
        end = np.maximum(end[:, None] + self._jitter(members.shape), arrived + 1_000)
        stage.start[step, place, members - stage.first_rank] = arrived
        stage.end[step, place, members - stage.first_rank] = end
        stage.transfer[step, place] = transfer
        self.streams[op.stream][members] = end
        if op.waited:
            self.device[members] = np.maximum(self.device[members], end)

    def _meet_all(self, step: int, at: list[int]) -> None:
        everyone = np.arange(self.job.ranks)[None, :]
        for stage, place in zip(self.stages, at, strict=True):
            stage.host[step, place] = self.host[stage.first_rank : stage.first_rank + self.job.stage_ranks]
        op = self.stages[0].ops[at[0]]
        arrived = self._ready(op, everyone)
        transfer = self._transfer(step, self.stages[0], at[0], everyone)
        end = np.maximum(arrived.max(1) + transfer + self._jitter(everyone.shape), arrived + 1_000)[0]
        for stage, place in zip(self.stages, at, strict=True):
            mine = slice(stage.first_rank, stage.first_rank + self.job.stage_ranks)
            stage.start[step, place], stage.end[step, place] = arrived[0, mine], end[mine]
            stage.transfer[step, place] = transfer
        self.streams[op.stream][:] = end
        self.device = np.maximum(self.device, end)

    def _transfer(self, step: int, stage: Stage, place: int, members: Int64) -> Int64:
        op, size = stage.ops[place], members.shape[1]
        latency, per_ns = self._links(members)
        moved = op.elements * DTYPES[op.dtype]
        if op.collective == "all_to_allv":
            splits = self._splits(step, stage, place, len(members), size)
            others = splits * (1 - np.eye(size, dtype=np.int64))
            busiest = np.maximum(others.sum(2).max(1), others.sum(1).max(1)) * DTYPES[op.dtype]
            found = latency + (busiest / per_ns).astype(np.int64)
        else:
            factor = (2 if op.collective == "allreduce" else 1) * (size - 1) / size
            found = latency + (moved * factor / per_ns).astype(np.int64)
        for one, rank in self._extra(step, "communication"):
            if op.group == one.group and rank // self.job.stage_ranks * self.job.stage_ranks == stage.first_rank:
                calls = sum(other.group == op.group and other.kind == COLLECTIVE for other in stage.ops)
                found[(members == rank).any(1)] += one.amount_ns // calls
        return found

    def _splits(self, step: int, stage: Stage, place: int, groups: int, size: int) -> Int64:
        """Tokens go where the router sends them, and come back the same way."""
        before = (step, place - 2)
        if before in stage.splits and stage.ops[place - 1].phase == "expert":
            splits = stage.splits[before].transpose(0, 2, 1)
        else:
            splits = self.rng.integers(1, 2 * max(1, stage.ops[place].elements // size), (groups, size, size))
        stage.splits[step, place] = splits
        return splits

    def _links(self, members: Int64) -> tuple[Int64, npt.NDArray[np.float64]]:
        """Latency and bandwidth of each group: those of its slowest link."""
        nodes = members // self.job.node
        inside = (nodes == nodes[:, :1]).all(1)
        latency = np.where(inside, LINKS[True][0], LINKS[False][0])
        per_ns = np.where(inside, float(LINKS[True][1]), float(LINKS[False][1]))
        for first, second, factor in self.job.slow_links:
            hit = (nodes == first).any(1) & (nodes == second).any(1) & (~inside | (first == second))
            per_ns = np.where(hit, per_ns / factor, per_ns)
        return latency, per_ns

    def _key(self, op: Op, number: int) -> tuple[str, int, int]:
        """Direction, the lower stage and the microbatch of a message."""
        lower = number if (op.kind == SEND) == (op.stream == "down") else number - 1
        return op.stream, lower, op.microbatch

    def _point_to_point(self, step: int, number: int, stage: Stage, place: int, mine: slice) -> None:
        op = stage.ops[place]
        ready = self._ready(op, mine)
        if op.kind == SEND:
            self.sent[self._key(op, number)] = (place, ready)
            return
        sent_at, sent = self.sent.pop(self._key(op, number))
        sender = self.stages[number + (1 if op.stream == "up" else -1)]
        theirs = slice(sender.first_rank, sender.first_rank + self.job.stage_ranks)
        sent = np.maximum(sent, self.streams[op.stream][theirs])
        pairs = np.stack((np.arange(theirs.start, theirs.stop), np.arange(mine.start, mine.stop)), 1)
        latency, per_ns = self._links(pairs)
        transfer = latency + (op.elements * DTYPES[op.dtype] / per_ns).astype(np.int64)
        end = np.maximum(sent, ready) + transfer
        for where, at, start, ranks in ((sender, sent_at, sent, theirs), (stage, place, ready, mine)):
            finished = np.maximum(end + self._jitter(end.shape), start + 1_000)
            where.start[step, at], where.end[step, at] = start, finished
            where.transfer[step, at] = transfer
            self.streams[op.stream][ranks] = finished
        self.device[mine] = np.maximum(self.device[mine], stage.end[step, place])


def segment_ns(job: Job, stage: Stage, step: int, place: int, rank: int | None = None) -> tuple[Int64, Int64]:
    """Returns the kernels of a segment and how long each takes on the ranks of the stage (or on one): (rank, kernel)."""
    kernels = kernels_of(job, stage.ops[place])
    base = BASES_NS[kernels]
    first = stage.first_rank if rank is None else rank
    pace = stage.pace[step, place] if rank is None else stage.pace[step, place, rank - stage.first_rank][None]
    ns = base + (base * pace[:, None].astype(np.float64)).astype(np.int64)
    for one in job.stragglers:
        late = one.at(step, job.ranks)
        if late is None or not 0 <= late - first < len(ns):
            continue
        if one.cause == "kernel":
            named = kernels == KERNEL_OF[one.kernel]
            ns[late - first, named] += one.amount_ns // max(1, int(stage.calls[KERNEL_OF[one.kernel]]))
        elif one.cause == "device":
            ns[late - first] += base * one.amount_ns // int((stage.calls * BASES_NS).sum())
    return kernels, ns


def more_calls(job: Job, stage: Stage, step: int, place: int) -> list[tuple[int, int, int]]:
    """Returns what ranks with more work do at the end of a segment: place in the stage, kernel, calls."""
    found = []
    for one in job.stragglers:
        late = one.at(step, job.ranks)
        if one.cause == "work" and late is not None and 0 <= late - stage.first_rank < job.stage_ranks:
            kernel = KERNEL_OF[one.kernel]
            having = [
                i for i, op in enumerate(stage.ops) if op.kind == SEGMENT and (kernels_of(job, op) == kernel).any()
            ]
            if place in having:
                whole, rest = divmod(one.amount_ns // int(BASES_NS[kernel]), len(having))
                found.append((late - stage.first_rank, kernel, whole + (having.index(place) < rest)))
    return found


# ------------------------------------------------------------------------------------------ the calls of one rank


@dataclass(frozen=True)
class Told:
    """What a rank says of the collective at one place of its program, the same in every step."""

    place: int
    part: int
    """Which of the calls of a coalesced batch it is."""
    name: str
    """Of the group."""
    description: str
    ranks: str
    """As PyTorch writes them: the first ones where there are many."""
    size: int
    in_group: int
    """Place of the rank in it."""
    first: int
    stride: int
    in_elements: int
    out_elements: int
    order: int
    """How many of the group are before it in a step ..."""
    a_step: int
    """... and how many there are in a step."""
    source: int
    destination: int
    group: int
    """Row of the group among those of its kind in the stage; of a message its pair of ranks."""


def listed(numbers: Iterable[int]) -> str:
    """Returns a list as PyTorch writes it: no more than MOST_LISTED numbers."""
    given = [str(number) for number in numbers]
    return "[" + ", ".join(given[:MOST_LISTED]) + (", ...]" if len(given) > MOST_LISTED else "]")


def told(made: Plan, rank: int) -> list[Told]:
    """Returns what a rank says of its collectives and messages, in the order of its program."""
    job = made.job
    stage, place_in_stage = made.stage_of(rank)
    kinds = [op.group for op in stage.ops if op.kind in (COLLECTIVE, SEND, RECV)]
    seen: dict[str, int] = {}
    found = []
    for place, op in enumerate(stage.ops):
        if op.kind not in (COLLECTIVE, SEND, RECV):
            continue
        groups = made.groups[op.group]
        row = int(groups.of_rank[rank])
        members = groups.members[row]
        in_group = int(np.flatnonzero(members == rank)[0])
        source = destination = -1
        if op.kind == SEND:
            source, destination = rank, rank + job.stage_ranks * (1 if op.stream == "down" else -1)
        elif op.kind == RECV:
            source, destination = rank - job.stage_ranks * (1 if op.stream == "down" else -1), rank
        stated = groups.first_number + row, listed(members.tolist())
        stride = int(members[1] - members[0]) if len(members) > 1 else 1
        group = place_in_stage if op.kind != COLLECTIVE else _row_in_stage(made, stage, op, row)
        for part, elements in enumerate(op.calls):
            own = elements // len(members)
            inside = own if op.collective == "_allgather_base" else elements
            outside = own if op.collective == "_reduce_scatter_base" else elements
            found.append(
                Told(
                    place, part, str(stated[0]), DESCRIPTIONS[job.naming][op.group], stated[1], len(members), in_group,
                    int(members[0]), stride, inside, outside, seen.get(op.group, 0), kinds.count(op.group), source,
                    destination, group,
                )
            )  # fmt: skip
        seen[op.group] = seen.get(op.group, 0) + 1
    return found


def _row_in_stage(made: Plan, stage: Stage, op: Op, row: int) -> int:
    """Groups of a kind lie in the stages one after the other."""
    if op.group == "world":
        return row
    a_stage = len(made.groups[op.group].members) // made.job.pp
    return row - stage.first_rank // made.job.stage_ranks * a_stage


def first_step(job: Job, rank: int) -> int:
    """Returns the first step that the file of a rank has."""
    return max((steps for late, steps in job.late if late == rank), default=0)


def match_numbers(made: Plan) -> list[dict[int, tuple[int, int]]]:
    """Returns for each stage, of each place with a collective or message, the number of its first match in step 0, and how
    many there are in a step in all: a match is numbered by step, place and group, the same on all ranks that have it."""
    job, given, total = made.job, [], 0
    ends: dict[tuple[str, int, int], int] = {}
    for number, stage in enumerate(made.stages):
        mine: dict[int, int] = {}
        for place, op in enumerate(stage.ops):
            if op.kind in (SEND, RECV):
                lower = number if (op.kind == SEND) == (op.stream == "down") else number - 1
                key, count = (op.stream, lower, op.microbatch), job.stage_ranks
            elif op.kind == COLLECTIVE:
                key = ("world", 0, 0) if op.group == "world" else (f"{number}", place, 0)
                count = 1 if op.group == "world" else len(made.groups[op.group].members) // job.pp * len(op.calls)
            else:
                continue
            if key not in ends:
                ends[key] = total
                total += count
            mine[place] = ends[key]
        given.append(mine)
    return [{place: (first, total) for place, first in mine.items()} for mine in given]


def calls(made: Plan, rank: int) -> dict[str, Any]:
    """Returns what the file of a rank has of its collectives, as columns in order of their start: numbers as int64 arrays,
    texts and lists as Python lists. Times count as in the file; ``true_start_ns`` and ``true_end_ns`` are those of the job.

    ``match`` numbers what belongs together on all ranks; calls of one ``batch`` (-1 = none) share a kernel and its times.
    ``waited_ns`` is how long the rank waited for the last one, ``transfer_ns`` what the collective takes when all are there
    (the jitter of the ends left out).
    """
    job = made.job
    stage, at = made.stage_of(rank)
    numbers = match_numbers(made)[rank // job.stage_ranks]
    steps = np.arange(first_step(job, rank), job.steps)
    last = _last_arrivals(made)
    waits = {place: wait for wait, op in enumerate(stage.ops) for place in op.of}
    rows: dict[str, list[Any]] = {name: [] for name in _CALL_COLUMNS}
    for one in told(made, rank):
        op = stage.ops[one.place]
        kept = steps[~stage.lost[steps, one.place, at]]
        count = len(kept)
        first, a_step = numbers[one.place]
        start, end, host = (x[kept, one.place, at] for x in (stage.start, stage.end, stage.host))
        latest = last[rank // job.stage_ranks][kept, one.place, at]
        sent: list[Any] = [None] * count
        received: list[Any] = [None] * count
        inside = np.full(count, one.in_elements)
        if op.collective == "all_to_allv":
            splits = [stage.splits[step, one.place][one.group] for step in kept.tolist()]
            sent = [each[one.in_group].tolist() for each in splits]
            received = [each[:, one.in_group].tolist() for each in splits]
            inside = np.array([sum(each) for each in sent], np.int64)
        moved = np.full(count, one.out_elements) if op.collective == "_allgather_base" else inside
        needed = stage.host[kept, waits[one.place], at] if one.place in waits else host + COMM_CALL_NS - WAIT_NS
        numbers_of: dict[str, Int64] = {
            "step": kept, "elements": moved, "comm_bytes": moved * DTYPES[op.dtype],
            "group_size": np.full(count, one.size),
            "sequence": kept * one.a_step + one.order + 1 if job.sequence else np.full(count, -1),
            "source_rank": np.full(count, one.source), "destination_rank": np.full(count, one.destination),
            "start_ns": made.local(rank, start), "dur_ns": made.local(rank, end) - made.local(rank, start),
            "issued_ns": made.local(rank, host), "needed_ns": made.local(rank, needed),
            "true_start_ns": start, "true_end_ns": end, "waited_ns": latest - start,
            "transfer_ns": np.array([stage.transfer[step, one.place][one.group] for step in kept.tolist()], np.int64),
            "match": kept * a_step + first + one.group * len(op.calls) + one.part,
            "batch": np.full(count, -1) if not op.parts else kept * a_step + first + one.group,
            "asynchronous": np.full(count, int(not op.waited)),
        }  # fmt: skip
        texts: dict[str, list[Any]] = {
            "collective": [op.collective] * count, "dtype": [op.dtype] * count, "group": [one.name] * count,
            "group_description": [one.description] * count, "group_ranks": [one.ranks] * count,
            "stream": [f"stream {STREAMS[op.stream]}"] * count, "sent_splits": sent, "received_splits": received,
        }  # fmt: skip
        for name in _CALL_COLUMNS:
            rows[name].extend(texts[name] if name in texts else numbers_of[name].tolist())
    order = np.lexsort((-np.array(rows["dur_ns"], np.int64), np.array(rows["start_ns"], np.int64)))
    return {
        name: [values[i] for i in order.tolist()] if name in _TEXTS else np.array(values, np.int64)[order]
        for name, values in rows.items()
    }


_TEXTS = (
    "collective", "dtype", "group", "group_description", "group_ranks", "stream", "sent_splits", "received_splits",
)  # fmt: skip
_CALL_COLUMNS = (
    "step", "elements", "comm_bytes", "group_size", "sequence", "source_rank", "destination_rank", "start_ns", "dur_ns",
    "issued_ns", "needed_ns", "true_start_ns", "true_end_ns", "waited_ns", "transfer_ns", "match", "batch",
    "asynchronous", *_TEXTS,
)  # fmt: skip


def _last_arrivals(made: Plan) -> list[Int64]:
    """Returns for each stage (step, place, rank of the stage): when the last one of the collective came."""
    kept = made.__dict__.get("last_arrivals")
    if kept is None:
        kept = made.__dict__["last_arrivals"] = [np.zeros_like(stage.start) for stage in made.stages]
        for stages, places, members in meetings(made):
            start = np.concatenate([s.start[:, p] for s, p in zip(stages, places, strict=True)], 1)
            latest = np.zeros_like(start)
            latest[:, members] = start[:, members].max(2)[:, :, None]
            for i, (stage, place) in enumerate(zip(stages, places, strict=True)):
                width = made.job.stage_ranks
                kept[made.stages.index(stage)][:, place] = latest[:, i * width : (i + 1) * width]
    return kept


def meetings(made: Plan) -> Iterator[tuple[list[Stage], list[int], Int64]]:
    """Yields all collectives and messages of a step: the stages that take part, the place in the program of each, and the
    members of each group as positions in the ranks of these stages, one stage after the other."""
    job, width = made.job, made.job.stage_ranks
    sends: dict[tuple[str, int, int], tuple[Stage, int]] = {}
    everywhere: list[tuple[Stage, int]] = []
    for number, stage in enumerate(made.stages):
        for place, op in enumerate(stage.ops):
            if op.kind == SEND:
                sends[op.stream, number + (1 if op.stream == "down" else -1), op.microbatch] = stage, place
            elif op.kind == COLLECTIVE and op.group == "world":
                everywhere.append((stage, place))
            elif op.kind == COLLECTIVE:
                members = made.groups[op.group].members
                members = members[(members[:, 0] >= stage.first_rank) & (members[:, 0] < stage.first_rank + width)]
                yield [stage], [place], members - stage.first_rank
    for number, stage in enumerate(made.stages):
        for place, op in enumerate(stage.ops):
            if op.kind == RECV:
                sender, sent = sends[op.stream, number, op.microbatch]
                yield [sender, stage], [sent, place], np.stack((np.arange(width), np.arange(width) + width), 1)
    if everywhere:
        yield [s for s, _ in everywhere], [p for _, p in everywhere], np.arange(job.ranks)[None, :]


# --------------------------------------------------------------------------------------------------- the files


class _Writer:
    """Text of one rank's trace, a step at a time."""

    def __init__(self, made: Plan, rank: int) -> None:
        self.made, self.rank, self.job = made, rank, made.job
        self.stage, self.at = made.stage_of(rank)
        self.told: dict[int, list[Told]] = {}
        for one in told(made, rank):
            self.told.setdefault(one.place, []).append(one)
        self.pid, self.device = 40_000 + rank, rank % made.job.node
        self.number = 1
        thread = f'"pid": {self.pid}, "tid": {self.pid}'
        stream = f'"pid": {self.device}, "tid": {COMPUTE_STREAM}'
        shape = (
            '"context": 1, "registers per thread": 64, "shared memory": 0, "blocks per SM": 4.0, "warps per SM": 16.0'
        )
        shape += ', "grid": [528, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %%": 25'
        # An operator, the launch in it, its arrow's begin, the kernel, the arrow's end.
        self.kernels = [
            f'{{"ph": "X", "cat": "cpu_op", "name": "{operator}", {thread}, "ts": %d.%03d, "dur": 5.000, '
            f'"args": {{"External id": %d, "Record function id": 0, "Ev Idx": %d}}}},\n'
            f'{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", {thread}, "ts": %d.%03d, "dur": 3.000, '
            f'"args": {{"External id": %d, "cbid": 211, "correlation": %d}}}},\n'
            f'{{"ph": "s", "id": %d, {thread}, "ts": %d.%03d, "cat": "ac2g", "name": "ac2g"}},\n'
            f'{{"ph": "X", "cat": "kernel", "name": "{kernel}", {stream}, "ts": %d.%03d, "dur": %d.%03d, '
            f'"args": {{"External id": %d, "device": {self.device}, "stream": {COMPUTE_STREAM}, "correlation": %d, '
            f'"queued": 0, {shape}}}}},\n'
            f'{{"ph": "f", "id": %d, {stream}, "ts": %d.%03d, "cat": "ac2g", "name": "ac2g", "bp": "e"}},\n'
            for operator, kernel, _ in KERNELS
        ]
        self.shape = shape.replace("%%", "%")

    def head(self) -> str:
        job = self.job
        properties = {
            "id": self.device, "name": "Synthetic H100 (not a recording)", "totalGlobalMem": 85_018_279_936,
            "computeMajor": 9, "computeMinor": 0, "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048,
            "regsPerBlock": 65_536, "warpSize": 32, "sharedMemPerBlock": 49_152, "numSms": 132,
        }  # fmt: skip
        mine = [
            {
                "pg_name": str(groups.first_number + row), "pg_desc": DESCRIPTIONS[job.naming][kind],
                "backend_config": "cuda:nccl", "pg_size": groups.members.shape[1], "ranks": groups.members[row].tolist(),
            }
            for kind, groups in self.made.groups.items()
            for row in [int(groups.of_rank[self.rank])]
        ]  # fmt: skip
        distributed = {
            "backend": "nccl", "rank": self.rank, "world_size": job.ranks, "pg_count": len(mine), "pg_config": mine,
            "nccl_version": "2.27.5",
        }  # fmt: skip
        head: Json = {
            "schemaVersion": 1, "deviceProperties": [properties], "cupti_version": 26, "cuda_runtime_version": 12080,
            "cuda_driver_version": 12080, "distributedInfo": distributed, "trace_id": f"{job.seed:016X}{self.rank:016X}",
            "host_name": f"synthetic-{self.rank // job.node}", "record_shapes": 1,
            "synthetic": "made by samples/synthetic_job.py, not recorded", "displayTimeUnit": "ms",
            "baseTimeNanoseconds": int(self.made.base[self.rank]),
        }  # fmt: skip
        text = "{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items())
        names = [
            (self.pid, 0, "process_name", {"name": "python"}),
            (self.pid, 0, "process_labels", {"labels": "CPU"}),
            (self.pid, self.pid, "thread_name", {"name": f"thread {self.pid} (python)"}),
            (self.device, 0, "process_name", {"name": "python"}),
            (self.device, 0, "process_labels", {"labels": f"GPU {self.device}"}),
        ]
        streams = {COMPUTE_STREAM, *(STREAMS[self.stage.ops[place].stream] for place in self.told)}
        names += [(self.device, stream, "thread_name", {"name": f"stream {stream} "}) for stream in sorted(streams)]
        begin = self._us(self.made.begin[first_step(job, self.rank), self.rank] - 1_000)
        return text + ',\n"traceEvents": [\n' + "".join(
            f'{{"ph": "M", "name": "{name}", "pid": {pid}, "tid": {tid}, "ts": {begin}, "args": {json.dumps(args)}}},\n'
            for pid, tid, name, args in names
        )  # fmt: skip

    def tail(self) -> str:
        begin = self.made.begin[first_step(self.job, self.rank), self.rank] - 1_000
        end = self.made.finish[-1, self.rank] + 40_000
        tool = "PyTorch Profiler"
        return (
            f'{{"ph": "X", "cat": "Trace", "name": "{tool} (0)", "pid": "Spans", "tid": "{tool}", '
            f'{self._lasting(begin, end)}, "args": {{"Op count": 0}}}},\n'
            f'{{"ph": "i", "s": "g", "name": "Iteration Start: {tool}", "pid": "Traces", "tid": "Trace {tool}", '
            f'"ts": {self._us(begin)}}},\n'
            f'{{"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": {self._us(end)}}}\n'
            f'],\n"traceName": "/tmp/{file_name(self.made, self.rank)}"\n}}\n'
        )

    def text(self) -> Iterator[str]:
        yield self.head()
        for step in range(first_step(self.job, self.rank), self.job.steps):
            yield "".join(self._step(step))
        yield self.tail()

    def _us(self, time: Any) -> str:
        ns = int(self.made.local(self.rank, np.int64(time)))
        return f"{ns // 1000}.{ns % 1000:03d}"

    def _lasting(self, start: Any, end: Any) -> str:
        first, last = (int(self.made.local(self.rank, np.int64(time))) for time in (start, end))
        return f'"ts": {first // 1000}.{first % 1000:03d}, "dur": {(last - first) // 1000}.{(last - first) % 1000:03d}'

    def _numbers(self, count: int) -> int:
        self.number += count
        return self.number - count

    def _host(self, category: str, name: str, start: int, ns: int, args: str, external: int) -> str:
        more = f", {args}" if args else ""
        return (
            f'{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": {self.pid}, "tid": {self.pid}, '
            f'{self._lasting(start, start + ns)}, "args": {{"External id": {external}{more}}}}},\n'
        )

    def _arrow(self, phase: str, number: int, time: int, stream: int | None = None) -> str:
        where = f'"pid": {self.pid}, "tid": {self.pid}' if stream is None else f'"pid": {self.device}, "tid": {stream}'
        end = "" if stream is None else ', "bp": "e"'
        return f'{{"ph": "{phase}", "id": {number}, {where}, "ts": {self._us(time)}, "cat": "ac2g", "name": "ac2g"{end}}},\n'

    def _step(self, step: int) -> Iterator[str]:
        made, rank = self.made, self.rank
        begin, finish = int(made.begin[step, rank]), int(made.finish[step, rank])
        number = self._numbers(2)
        yield self._host(
            "user_annotation", f"ProfilerStep#{step}", begin, finish - begin, f'"Ev Idx": {number}', number
        )
        loader = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        loaded = int(made.loaded[step, rank])
        yield self._host("user_annotation", loader, begin, loaded - begin, f'"Ev Idx": {number + 1}', number + 1)
        yield from self._copy(step)
        yield from self._segments(step)
        last = int(made.copied[step, rank, 2])
        for place, op in enumerate(self.stage.ops):
            if op.kind == WAIT:
                for i, of in enumerate(op.of):
                    yield from self._wait(step, of, int(self.stage.host[step, place, self.at]) + i * WAIT_NS)
            elif op.kind == SEGMENT:
                last = max(last, int(self.stage.end[step, place, self.at]))
            else:
                yield from self._collective(step, place, op)
        yield from self._sync(step)
        start = int(made.copied[step, rank, 1])
        yield (
            f'{{"ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#{step}", "pid": {self.device}, '
            f'"tid": {COMPUTE_STREAM}, {self._lasting(start, last)}, "args": {{"External id": {number}}}}},\n'
        )

    def _copy(self, step: int) -> Iterator[str]:
        host, start, end = (int(time) for time in self.made.copied[step, self.rank])
        number = self._numbers(1)
        yield self._host("cpu_op", "aten::to", host, 5_000, f'"Ev Idx": {number}', number)
        yield self._host(
            "cuda_runtime", "cudaMemcpyAsync", host + 1_000, 3_000, f'"cbid": 41, "correlation": {number}', number
        )
        yield self._arrow("s", number, host + 1_000)
        yield (
            f'{{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": {self.device}, '
            f'"tid": {COMPUTE_STREAM}, {self._lasting(start, end)}, "args": {{"External id": {number}, '
            f'"device": {self.device}, "stream": {COMPUTE_STREAM}, "correlation": {number}, "bytes": 4194304, '
            f'"context": 1, "memory bandwidth (GB/s)": {4194304 / (end - start)}}}}},\n'
        )
        yield self._arrow("f", number, start, COMPUTE_STREAM)

    def _sync(self, step: int) -> Iterator[str]:
        host, until = int(self.made.synced[step, self.rank]), int(self.made.finish[step, self.rank]) - 1_000
        number = self._numbers(1)
        yield self._host("cpu_op", "aten::item", host, until - host, f'"Ev Idx": {number}', number)
        call = f'"cbid": 131, "correlation": {number}'
        yield self._host("cuda_runtime", "cudaStreamSynchronize", host + 1_000, until - host - 2_000, call, number)

    def _segments(self, step: int) -> Iterator[str]:
        """All kernels of a step that compute, by one pass over arrays."""
        kinds, hosts, starts, lasting = [], [], [], []
        for place, op in enumerate(self.stage.ops):
            if op.kind != SEGMENT:
                continue
            kernels, ns = segment_ns(self.job, self.stage, step, place, self.rank)
            ns = ns[0]
            for at, kernel, more in more_calls(self.job, self.stage, step, place):
                if at == self.at:
                    kernels = np.append(kernels, np.full(more, kernel))
                    ns = np.append(ns, np.full(more, BASES_NS[kernel]))
            kinds.append(kernels)
            lasting.append(ns)
            hosts.append(self.stage.host[step, place, self.at] + np.arange(len(ns)) * CALL_NS)
            starts.append(self.stage.start[step, place, self.at] + np.cumsum(ns) - ns)
        kernels = np.concatenate(kinds)
        begin = np.concatenate(starts)
        host = self.made.local(self.rank, np.concatenate(hosts))
        start, end = self.made.local(self.rank, begin), self.made.local(self.rank, begin + np.concatenate(lasting))
        number = (self._numbers(len(kernels)) + np.arange(len(kernels))).tolist()
        parts = []
        for time in (host, host + 1_000, start, end - start):
            whole, rest = np.divmod(time, 1_000)
            parts += [whole.tolist(), rest.tolist()]
        templates = self.kernels
        for kernel, n, h, hr, c, cr, s, sr, d, dr in zip(kernels.tolist(), number, *parts, strict=True):
            yield templates[kernel] % (h, hr, n, n, c, cr, n, n, n, c, cr, s, sr, d, dr, n, n, n, s, sr)

    def _about(self, op: Op, one: Told, step: int) -> str:
        """The metadata of a collective, as its call and its kernel state it."""
        inside, outside = one.in_elements, one.out_elements
        sent = received = "[]"
        if op.collective == "all_to_allv":
            splits = self.stage.splits[step, one.place][one.group]
            given, taken = splits[one.in_group].tolist(), splits[:, one.in_group].tolist()
            inside, outside, sent, received = sum(given), sum(taken), listed(given), listed(taken)
        ends = (
            f', "Dst Rank": {one.destination}'
            if op.kind == SEND
            else f', "Src Rank": {one.source}'
            if op.kind == RECV
            else ""
        )
        sequence = f', "Seq": {step * one.a_step + one.order + 1}' if self.job.sequence else ""
        return (
            f'"Collective name": "{op.collective}", "dtype": "{op.dtype}", "In msg nelems": {inside}, '
            f'"Out msg nelems": {outside}, "Group size": {one.size}, "In split size": "{sent}", '
            f'"Out split size": "{received}", "Process Group Name": "{one.name}", '
            f'"Process Group Description": "{one.description}", '
            f'"Process Group Ranks": "{one.ranks}"{ends}{sequence}'
        )

    def _collective(self, step: int, place: int, op: Op) -> Iterator[str]:
        stream = STREAMS[op.stream]
        host, start, end = (
            int(times[step, place, self.at]) for times in (self.stage.host, self.stage.start, self.stage.end)
        )
        operator, kernel = NCCL[op.collective]
        asynchronous = "false" if op.waited else "true"
        every = self.told[place]
        for one in every:
            about, number = self._about(op, one, step), self._numbers(2)
            whose = f'"Rank": {one.in_group}, "Global rank start": {one.first}, "Global rank stride": {one.stride}'
            stated = f'"Record function id": 0, {about}, {whose}, "Is asynchronized op": {asynchronous}'
            at, width = (host, 15_000) if not op.parts else (host + one.part * 4_000 // len(every), 4_000 // len(every))
            yield self._host("cpu_op", operator, at, width, f'"Record function id": 0, "Ev Idx": {number}', number)
            inner = width // 8
            yield self._host(
                "cpu_op",
                "record_param_comms",
                at + inner,
                width - 2 * inner,
                f'{stated}, "Ev Idx": {number + 1}',
                number + 1,
            )
        launch = number + 1
        if op.parts:  # what closes the batch launches for all, and its kernel says nothing of them
            launch, about = self._numbers(1), ""
            yield self._host("user_annotation", "nccl:coalesced", host + 5_000, 9_000, f'"Ev Idx": {launch}', launch)
        call = f'"cbid": 430, "correlation": {launch}'
        yield self._host("cuda_runtime", "cudaLaunchKernelExC", host + 6_000, 6_000, call, launch)
        yield self._arrow("s", launch, host + 6_000)
        if not self.stage.lost[step, place, self.at]:
            kernel = kernel.format(t={"BFloat16": "bf16", "Float": "f32"}[op.dtype])
            yield (
                f'{{"ph": "X", "cat": "kernel", "name": "{kernel}", "pid": {self.device}, "tid": {stream}, '
                f'{self._lasting(start, end)}, "args": {{"External id": {launch}, "device": {self.device}, '
                f'"stream": {stream}, "correlation": {launch}, "queued": 0, {self.shape}{about and ", " + about}}}}},\n'
            )
            yield self._arrow("f", launch, start, stream)
        if op.waited:
            yield from self._wait(step, place, host + COMM_CALL_NS - WAIT_NS)

    def _wait(self, step: int, place: int, host: int) -> Iterator[str]:
        """The host makes the compute stream wait for a collective."""
        one, number = self.told[place][0], self._numbers(1)
        sequence = f', "Seq": {step * one.a_step + one.order + 1}' if self.job.sequence else ""
        about = (
            f'"Record function id": 0, "Collective name": "wait", "dtype": "Byte", "In msg nelems": 0, "Out msg nelems": 0, '
            f'"Group size": {one.size}, "In split size": "[]", "Out split size": "[]", "Process Group Name": "{one.name}", '
            f'"Process Group Description": "{one.description}", "Process Group Ranks": "{one.ranks}", "Rank": {one.in_group}'
            f'{sequence}, "Ev Idx": {number}'
        )
        yield self._host("cpu_op", "record_param_comms", host, 2_500, about, number)
        call = f'"cbid": 147, "correlation": {number}'
        yield self._host("cuda_runtime", "cudaStreamWaitEvent", host + 500, 1_500, call, number)


def file_name(made: Plan, rank: int) -> str:
    """Returns what the file of a rank is called, as PyTorch's handler for TensorBoard would."""
    return f"rank{rank}.{BASE_NS + BEGIN_NS + int(made.finish[-1].max())}.pt.trace.json"


def text_of(made: Plan, rank: int) -> Iterator[str]:
    """Returns the text of a rank's trace in pieces of one step."""
    return _Writer(made, rank).text()


def write(
    job: Job, folder: Path, ranks: Iterable[int] | None = None, compressed: bool = True, made: Plan | None = None
) -> list[Path]:
    """Writes the traces of ranks (of all that are not absent); gzip without a time, so that equal jobs give equal files."""
    made = made or plan(job)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for rank in range(job.ranks) if ranks is None else ranks:
        if rank in job.absent:
            continue
        path = folder / (file_name(made, rank) + (".gz" if compressed else ""))
        with path.open("wb") as raw:
            if compressed:
                with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=1) as packed:
                    for part in text_of(made, rank):
                        packed.write(part.encode())
            else:
                for part in text_of(made, rank):
                    raw.write(part.encode())
        paths.append(path)
    return paths


# ------------------------------------------------------------------------------------------------------ the truth


def truth(job: Job, made: Plan | None = None, matches: bool = False) -> Json:
    """Returns what an analysis has to find, in integer nanoseconds by a right clock.

    * ``ranks``: clock, base time; how long each waited in collectives, by kind of group; how many calls its file has.
    * ``last``: by kind of group, of each rank that ever was last, for each step the time from the arrival of the one before
      it to its own, summed over its collectives.
    * ``stragglers``: what was planted, who it was in each step, and ``gain_ns``: how much earlier than it did each step would
      have ended on its last rank, had the step before ended when it did, without the straggler.
    * ``bandwidths``: by group, collective and bytes: calls and what they take in all when everyone is there.
    * ``traffic``: [from, to, bytes] of messages and uneven exchanges; what a rank keeps is not in it.
    * ``matches``, where asked for: of each rank the numbers of its calls in order of their start.

    Everything that happened is in it, also what no file says (lost kernels, absent ranks, steps before a recording).
    """
    made = made or plan(job)
    waited: dict[str, Int64] = {}
    last: dict[str, Int64] = {}
    moved: dict[tuple[str, str, str, int, int], list[int]] = {}
    traffic: dict[tuple[int, int], int] = {}
    for stages, places, members in meetings(made):
        op, width = stages[0].ops[places[0]], job.stage_ranks
        ranks = np.concatenate([np.arange(s.first_rank, s.first_rank + width) for s in stages])[members]
        start = np.concatenate([s.start[:, p] for s, p in zip(stages, places, strict=True)], 1)[:, members]
        order = np.sort(start, 2)
        waits = waited.setdefault(op.group, np.zeros((job.steps, job.ranks), np.int64))
        lead = last.setdefault(op.group, np.zeros((job.steps, job.ranks), np.int64))
        for step in range(job.steps):
            np.add.at(waits[step], ranks, order[step, :, -1:] - start[step])
            if start.shape[2] > 1:
                np.add.at(
                    lead[step],
                    ranks[np.arange(len(ranks)), start[step].argmax(1)],
                    order[step, :, -1] - order[step, :, -2],
                )
            _count_moved(made, stages[0], places[0], step, ranks, moved, traffic)
    result: Json = {
        "job": asdict(job),
        "ranks": {
            str(rank): {
                "clock_offset_ns": int(made.clock[rank, 0]), "clock_drift_ppb": int(made.clock[rank, 1]),
                "base_time_ns": int(made.base[rank]), "first_step": first_step(job, rank), "absent": rank in job.absent,
                "waited_ns": {kind: int(times[:, rank].sum()) for kind, times in waited.items()},
                "lost_calls": int(made.stage_of(rank)[0].lost[first_step(job, rank) :, :, made.stage_of(rank)[1]].sum()),
            }
            for rank in range(job.ranks)
        },
        "groups": {
            kind: {
                "first_name": groups.first_number, "description": DESCRIPTIONS[job.naming][kind],
                "ranks": groups.members.tolist(),
            }
            for kind, groups in made.groups.items()
        },
        "steps": [
            {"begin_ns": int(made.begin[step].min()), "end_ns": int(made.finish[step].max())} for step in range(job.steps)
        ],
        "last": {
            kind: {str(rank): times[:, rank].tolist() for rank in np.flatnonzero(times.any(0)).tolist()}
            for kind, times in last.items()
        },
        "stragglers": [_planted(made, i) for i in range(len(job.stragglers))],
        "bandwidths": [
            {
                "kind": kind, "group": name, "collective": collective, "bytes": size, "group_size": n, "calls": count,
                "transfer_ns": ns,
            }
            for (kind, name, collective, size, n), (count, ns) in sorted(moved.items())
        ],
        "traffic": [[*pair, size] for pair, size in sorted(traffic.items())],
    }  # fmt: skip
    if matches:
        result["matches"] = {str(r): calls(made, r)["match"].tolist() for r in range(job.ranks) if r not in job.absent}
    return result


def _count_moved(
    made: Plan,
    stage: Stage,
    place: int,
    step: int,
    ranks: Int64,
    moved: dict[tuple[str, str, str, int, int], list[int]],
    traffic: dict[tuple[int, int], int],
) -> None:
    op, groups = stage.ops[place], made.groups[stage.ops[place].group]
    width = DTYPES[op.dtype]
    if op.kind == SEND:
        for sender, receiver in ranks.tolist():
            traffic[sender, receiver] = traffic.get((sender, receiver), 0) + op.elements * width
    elif op.collective == "all_to_allv":
        for group, splits in zip(ranks.tolist(), stage.splits[step, place].tolist(), strict=True):
            for sender, row in zip(group, splits, strict=True):
                for receiver, elements in zip(group, row, strict=True):
                    if sender != receiver:
                        traffic[sender, receiver] = traffic.get((sender, receiver), 0) + elements * width
        return
    for row, ns in zip(ranks.tolist(), stage.transfer[step, place].tolist(), strict=True):
        name = str(groups.first_number + int(groups.of_rank[row[0]]))
        if op.kind == SEND:
            name = f"{row[0]}-{row[1]}"
        into = moved.setdefault((op.group, name, op.collective, op.elements * width, len(row)), [0, 0])
        into[0] += 1
        into[1] += ns


def _planted(made: Plan, number: int) -> Json:
    job = made.job
    one = job.stragglers[number]
    without = plan(replace(job, stragglers=job.stragglers[:number] + job.stragglers[number + 1 :]))
    later = made.finish.max(1) - without.finish.max(1)
    return {
        **asdict(one), "late": [one.at(step, job.ranks) for step in range(job.steps)],
        "operator": KERNELS[KERNEL_OF[one.kernel]][0], "kernel_name": KERNELS[KERNEL_OF[one.kernel]][1],
        "gain_ns": np.diff(later, prepend=0).tolist(),
    }  # fmt: skip


# ----------------------------------------------------------------------------------------------- the command line


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
    )  # fmt: skip
    made = plan(job)
    paths = write(job, given.out_dir, given.only or None, not given.plain, made)
    print(f"{len(paths)} files, {sum(path.stat().st_size for path in paths):,} bytes in {given.out_dir}")
    if given.truth is not None:
        given.truth.parent.mkdir(parents=True, exist_ok=True)
        given.truth.write_text(json.dumps(truth(job, made, given.matches)) + "\n")
        print(given.truth)


if __name__ == "__main__":
    main()
