"""Host threads, compute streams and communication streams of all ranks, played through at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from .job import KERNEL_OF, Groups, Int64, Job, Straggler, groups_of
from .program import BASES_NS, COLLECTIVE, DTYPES, KERNELS, RECV, SEGMENT, SEND, STREAMS, WAIT, Op, kernels_of, program

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


LINKS = {True: (8_000, 200), False: (20_000, 40)}
"""Within a node or between nodes: latency (ns) and bandwidth (bytes a nanosecond, which is 10^9 a second)."""


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
