"""The profiler of one invented process.

In one file: all methods share the clocks and open events of the process.
"""

# ruff: noqa: SIM117 (a `with` inside a `with` is an event inside an event: the nesting is the picture)

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from events import MIB, Json, strides

from .config import CELL_NS, NO_SEQUENCE, NODE, ORIGIN_NS, PACE, Config, Group, Meeting, groups_of, us
from .dialects import DIALECTS


@dataclass
class Row:
    """One event as it will be written; times in nanoseconds from BASE_NS."""

    ph: str
    cat: str
    name: str
    pid: int | str
    tid: int | str
    start_ns: int
    dur_ns: int = 0
    args: Json | None = None
    flow: int = 0


@dataclass
class Activity:
    """A kernel, copy or fill on the device, with everything the truth needs to know about its launch."""

    kind: str  # one of CLASSES
    name: str
    start: int
    cells: int
    stream: int
    correlation: int
    owners: tuple[str, ...]  # open operators, outermost first
    modules: tuple[str, ...]  # open modules, outermost first
    backward: bool
    launched: bool
    step: int
    args: Json
    external_id: int | None

    @property
    def end(self) -> int:
        return self.start + self.cells


@dataclass
class OpenOp:
    name: str
    start: int
    external_id: int
    sequence: int


@dataclass
class HostThread:
    tid: int
    now: int = 0
    ops: list[OpenOp] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)  # Python ids
    rows: list[Row] = field(default_factory=list)
    frame_rows: list[Row] = field(default_factory=list)


@dataclass
class OperatorTruth:
    calls: int = 0
    host_self: int = 0
    host_total: int = 0
    host_runtime: int = 0
    device_self: int = 0
    device_total: int = 0


@dataclass
class ModuleTruth:
    calls: int = 0
    host_total: int = 0
    forward_device: int = 0
    backward_device: int = 0


@dataclass
class Gradient:
    """One node of the autograd tape: what backward has to run for a forward operator."""

    name: str
    sequence: int
    modules: tuple[str, ...]
    run: Callable[[], None]
    flow: int
    frees: list[tuple[int, int]]
    parameters: list[tuple[int, str]]  # bytes and shape of the gradients accumulated right after


class Recorder:
    """The profiler of one invented process: a clock per thread, a queue per stream, and the running counts."""

    def __init__(self, config: Config, rank: int) -> None:
        self.config = config
        self.dialect = DIALECTS[config.arch]
        self.rank = rank
        self.device = rank % NODE
        self.groups = [group for group in groups_of(config) if rank in group.ranks]
        self.began = 0  # cell in which the recording begins
        self.random = random.Random(config.seed * 1009 + rank)
        self.pid = 41_000 + rank
        self.main = HostThread(tid=self.pid, now=us(500 + 20 * rank))
        self.autograd = HostThread(tid=self.pid + 170)
        self.streams = self.dialect.stream_ids[: config.streams]
        self.compute = self.streams[0]
        self.comm = self.streams[min(1, len(self.streams) - 1)]
        self.copies = self.streams[2] if len(self.streams) > 2 else self.compute
        self.side = self.streams[3] if len(self.streams) > 3 else self.compute
        self.free_at = dict.fromkeys(self.streams, 0)
        self.activities: list[Activity] = []
        self.runtime_rows: list[Row] = []
        self.memory_rows: list[Row] = []
        self.annotation_activities: dict[tuple[str, int], list[Activity]] = {}
        self.open_annotations: list[tuple[int, str, int]] = []
        self.modules_open: tuple[str, ...] = ()
        self.in_backward = False
        self.step = -1
        self.step_windows: list[tuple[str, int, int]] = []
        self.operators: dict[str, OperatorTruth] = {}
        self.modules: dict[str, ModuleTruth] = {}
        self.collectives: list[Json] = []
        self.last_collective = {group.name: 0 for group in self.groups}
        every = 1 / config.missing_share if rank == config.missing_rank and config.missing_share else 0.0
        self.lost_every, self.until_lost = every, random.Random(config.seed * 31 + rank).uniform(0, every)
        self.counts = dict.fromkeys(
            ("cpu_ops", "user_annotations", "python_functions", "runtime_calls", "memory_events", "fwdbwd_links"), 0
        )
        self.last_external_id = 0
        self.last_correlation = 8_192 * (rank + 1)
        self.last_sequence = 0
        self.last_flow = 0
        self.last_python_id = 0
        self.last_address = 0x7F20_0000_0000
        self.allocated = {"gpu": 512 * MIB, "cpu": 0}
        self.peak = dict(self.allocated)
        self.head: Json = {}  # what the file says at its top besides, or instead (None = not at all)

    # -- host ---------------------------------------------------------------------------------------------

    def ns(self, cell: int) -> int:
        return ORIGIN_NS + cell * CELL_NS

    def spend(self, thread: HostThread, cells: int, in_runtime: bool = False) -> None:
        """Let time pass on one thread, charged to the operator open there."""
        thread.now += cells
        if thread.ops:
            truth = self.operators[thread.ops[-1].name]
            truth.host_self += cells
            truth.host_runtime += cells if in_runtime else 0

    def next_id(self) -> int:
        self.last_external_id += 1
        return self.last_external_id

    @contextmanager
    def op(
        self, thread: HostThread, name: str, *dims: list[int], sequence: int = NO_SEQUENCE,
        link: tuple[str, int] | None = None, forward_thread: int = 0, before: float = 3, after: float = 2,
        extra: Json | None = None,
    ) -> Iterator[None]:  # fmt: skip
        """An open operator; `dims` are its inputs' shapes, `link` the end of a forward-backward flow it carries."""
        opened = OpenOp(name, thread.now, self.next_id(), sequence)
        args: Json = {"External id": opened.external_id, "Record function id": 0}
        if sequence != NO_SEQUENCE:
            args |= {"Sequence number": sequence, "Fwd thread id": forward_thread}
        if dims:
            args |= {
                "Concrete Inputs": [""] * len(dims),
                "Input type": ["c10::BFloat16" if d else "Scalar" for d in dims],
                "Input Strides": [strides(d) for d in dims],
                "Input Dims": list(dims),
            }
        row = Row("X", "cpu_op", name, self.pid, thread.tid, self.ns(opened.start), args=args | (extra or {}))
        thread.rows.append(row)
        if link is not None:
            thread.rows.append(
                Row(link[0], "fwdbwd", "fwdbwd", self.pid, thread.tid, self.ns(opened.start), flow=link[1])
            )
        self.counts["cpu_ops"] += 1
        truth = self.operators.setdefault(name, OperatorTruth())
        thread.ops.append(opened)
        self.spend(thread, us(before))
        yield
        self.spend(thread, us(after))
        thread.ops.pop()
        truth.calls += 1
        truth.host_total += thread.now - opened.start
        row.dur_ns = (thread.now - opened.start) * CELL_NS

    @contextmanager
    def annotation(self, thread: HostThread, name: str) -> Iterator[None]:
        external_id, start = self.next_id(), thread.now
        row = Row("X", "user_annotation", name, self.pid, thread.tid, self.ns(start))
        row.args = {"External id": external_id, "Record function id": 0}
        thread.rows.append(row)
        self.counts["user_annotations"] += 1
        self.open_annotations.append((thread.tid, name, external_id))
        self.spend(thread, us(1))
        yield
        self.spend(thread, us(1))
        self.open_annotations.pop()
        row.dur_ns = (thread.now - start) * CELL_NS

    @contextmanager
    def frame(self, name: str, module_id: int | None = None) -> Iterator[None]:
        """A Python frame of the main thread (the profiler sees no Python on the autograd thread)."""
        thread = self.main
        self.last_python_id += 1
        python_id, start = self.last_python_id, thread.now
        args: Json = {"Python parent id": thread.frames[-1] if thread.frames else None, "Python id": python_id}
        if module_id is not None:
            args["Python module id"] = module_id
        row = Row("X", "python_function", name, self.pid, thread.tid, self.ns(start), args=args)
        thread.frame_rows.append(row)
        thread.frames.append(python_id)
        self.counts["python_functions"] += 1
        self.spend(thread, us(1.5))
        yield
        self.spend(thread, us(1))
        thread.frames.pop()
        row.dur_ns = self.ns(thread.now) - row.start_ns

    @contextmanager
    def module(self, kind: str, number: int) -> Iterator[None]:
        """A call of one nn.Module instance, with the two frames every module call brings along."""
        instance = f"{kind}_{number}"
        truth = self.modules.setdefault(instance, ModuleTruth())
        start, outer = self.main.now, self.modules_open
        source = "model.py" if kind in {"GPT", "Block", "Attention", "MLP"} else f"torch/nn/modules/{kind.lower()}.py"
        with ExitStack() as frames:
            frames.enter_context(self.frame(f"nn.Module: {instance}", number))
            self.modules_open = (*outer, instance)
            frames.enter_context(self.frame("torch/nn/modules/module.py(1782): _call_impl"))
            frames.enter_context(self.frame(f"{source}({40 + len(kind)}): forward"))
            yield
            self.modules_open = outer
        truth.calls += 1
        truth.host_total += self.main.now - start

    def sequence(self) -> int:
        self.last_sequence += 1
        return self.last_sequence

    def flow(self) -> int:
        self.last_flow += 1
        self.counts["fwdbwd_links"] += 1
        return self.last_flow

    # -- memory -------------------------------------------------------------------------------------------

    def _memory(self, thread: HostThread, device: str, address: int, size: int) -> None:
        self.allocated[device] += size
        self.peak[device] = max(self.peak[device], self.allocated[device])
        self.counts["memory_events"] += 1
        gpu = device == "gpu"
        args = {
            "Total Reserved": -(-self.peak[device] // (32 * MIB)) * 32 * MIB if gpu else 0,
            "Total Allocated": self.allocated[device], "Bytes": size, "Addr": address,
            "Device Id": self.device if gpu else -1, "Device Type": 1 if gpu else 0, "finished": False,
        }  # fmt: skip
        self.memory_rows.append(
            Row("i", "cpu_instant_event", "[memory]", self.pid, thread.tid, self.ns(thread.now), args=args)
        )

    def allocate(self, thread: HostThread, size: int, device: str = "gpu") -> tuple[int, int]:
        self.last_address += -(-size // 512) * 512
        self._memory(thread, device, self.last_address, size)
        self.spend(thread, us(0.6))
        return self.last_address, size

    def release(self, thread: HostThread, block: tuple[int, int], device: str = "gpu") -> None:
        self._memory(thread, device, block[0], -block[1])
        self.spend(thread, us(0.4))

    # -- device -------------------------------------------------------------------------------------------

    def call(self, thread: HostThread, word: str, cells: int, linked: bool = False, hip: Json | None = None) -> int:
        """A runtime or driver call of that length; returns its correlation. `hip` is what only ROCm writes on it."""
        category, name, number = self.dialect.calls[word]
        self.last_correlation += 1
        start = self.ns(thread.now)
        args: Json = {"External id": thread.ops[-1].external_id} if thread.ops else {}
        args |= {self.dialect.call_id_key: number, "correlation": self.last_correlation}
        if self.config.arch == "rocm" and hip is not None:
            args |= hip
        self.runtime_rows.append(Row("X", category, name, self.pid, thread.tid, start, cells * CELL_NS, args))
        if linked:
            self.runtime_rows.append(Row("s", "ac2g", "ac2g", self.pid, thread.tid, start, flow=self.last_correlation))
        self.counts["runtime_calls"] += 1
        self.spend(thread, cells, in_runtime=True)
        return self.last_correlation

    def queue(
        self, thread: HostThread, kind: str, name: str, cells: int, stream: int, correlation: int, args: Json,
        ready: int = 0,
    ) -> Activity:  # fmt: skip
        """Put work on a stream: it starts when launched, when the stream is free and when `ready`."""
        start = max(thread.now + us(2), self.free_at[stream], ready)
        owners = tuple(opened.name for opened in thread.ops)
        activity = Activity(
            kind, name, start, cells, stream, correlation, owners, self.modules_open, self.in_backward, True, self.step,
            args, thread.ops[-1].external_id if thread.ops else None,
        )  # fmt: skip
        self.free_at[stream] = activity.end
        self.activities.append(activity)
        for tid, annotation, external_id in self.open_annotations:
            if tid == thread.tid:  # CUPTI keeps one stack of annotations for each thread
                self.annotation_activities.setdefault((annotation, external_id), []).append(activity)
        return activity

    def kernel(
        self, thread: HostThread, key: str, micros: float, blocks: int, threads: int = 256, word: str = "launch",
        stream: int | None = None,
    ) -> Activity:  # fmt: skip
        cells = self.cells(micros)
        name, grid, block = self.dialect.kernels[key], [blocks, 1, 1], [threads, 1, 1]
        hip: Json = {"kernel": name, "grid": grid, "block": block, "shared memory": 0}
        correlation = self.call(thread, word, us(5), linked=True, hip=hip)
        args = self.kernel_args(grid, block, key.startswith(("gemm", "attention")))
        where = self.compute if stream is None else stream
        return self.queue(thread, "compute", name, cells, where, correlation, args)

    def graph(self, thread: HostThread, key: str, micros: float, nodes: int) -> None:
        """One launch, many kernels: all carry the correlation of the graph launch and none an operator."""
        correlation = self.call(thread, "graph", us(18), linked=True)
        for node in range(nodes):
            args = self.kernel_args([512, 1, 1], [256, 1, 1], False)
            args |= {"graph id": 3, "graph node id": 12_884_901_888 + node}
            self.queue(
                thread, "compute", self.dialect.kernels[key], self.cells(micros), self.compute, correlation, args
            )
            self.free_at[self.compute] += us(1.2)

    def memcpy(self, thread: HostThread, way: str, size: int, micros: float, stream: int) -> Activity:
        direction = {"HtoD": "1", "DtoH": "2", "DtoD": "3"}[way]
        hip: Json = {"src": "0x7f0e4a7e8000", "dst": "0x7f0e79800400", "bytes": str(size), "kind": direction}
        correlation = self.call(thread, "memcpy", us(7), linked=True, hip=hip)
        cells = self.cells(micros)
        args: Json = {"bytes": size}
        if self.config.arch == "cuda":
            args |= {"context": 1, "memory bandwidth (GB/s)": size / (cells * CELL_NS)}
        else:
            args["kind"] = way
        return self.queue(thread, "memcpy", self.dialect.copies[way], cells, stream, correlation, args)

    def memset(self, thread: HostThread, size: int, micros: float) -> None:
        correlation = self.call(thread, "memset", us(5), linked=True)
        cells = self.cells(micros)
        args: Json = {"bytes": size}
        if self.config.arch == "cuda":
            args |= {"context": 1, "memory bandwidth (GB/s)": size / (cells * CELL_NS)}
        else:
            args["kind"] = "Device"
        self.queue(thread, "memset", "Memset (Device)", cells, self.compute, correlation, args)

    def cells(self, micros: float) -> int:
        """A device duration: the planned one, a little different every time, longer on the slow rank."""
        slow = self.config.slow_factor if self.rank == self.config.slow_rank else 1.0
        return us(micros * PACE * slow * self.random.uniform(0.94, 1.06))

    def compute_done(self) -> int:
        """When everything queued so far outside the communication stream is done."""
        return max(self.free_at[stream] for stream in {self.compute, self.side, self.copies})

    def kernel_args(self, grid: list[int], block: list[int], heavy: bool) -> Json:
        if self.config.arch == "rocm":
            return {"grid": grid, "block": block, "kind": "Dispatch Kernel"}
        per_sm = grid[0] * grid[1] * grid[2] / 132
        warps = per_sm * block[0] / 32
        registers = 168 if heavy else 32
        resident = min(64, 65_536 // (registers * 32)) if heavy else 64
        return {
            "queued": 0, "context": 1, "registers per thread": registers, "shared memory": 164_864 if heavy else 0,
            "blocks per SM": round(per_sm, 6), "warps per SM": round(warps, 6), "grid": grid, "block": block,
            "est. achieved occupancy %": round(min(1.0, warps / 64, resident / 64) * 100),
        }  # fmt: skip

    # -- collectives --------------------------------------------------------------------------------------

    def group(self, description: str) -> Group:
        """The group of that description that this rank is in; without such groups the one of all ranks."""
        return next((group for group in self.groups if group.description == description), self.groups[0])

    def allreduce(
        self, thread: HostThread, elements: int, micros: float, group: Group, dtype: str = "Float", wait: bool = False
    ) -> Meeting:
        """An all-reduce. It yields when it could start and is sent when all ranks of the group can.

        With `wait` the work that follows on the device needs the result.
        """
        self.last_collective[group.name] += 1
        sequence = self.last_collective[group.name]
        shared: Json = {
            "Collective name": "allreduce", "dtype": dtype, "In msg nelems": elements, "Out msg nelems": elements,
            "Group size": len(group.ranks), "In split size": "[]", "Out split size": "[]",
            "Process Group Name": group.name, "Process Group Description": group.description,
            "Process Group Ranks": str(list(group.ranks)),
        }  # fmt: skip
        more: Json = {
            "Rank": group.ranks.index(self.rank), "Global rank start": group.ranks[0],
            "Global rank stride": group.stride, "Seq": sequence, "Is asynchronized op": not wait,
            "Comms Id": 13_835_058_055_282_163_712 + 77 + group.number,
        }  # fmt: skip
        with self.op(thread, "c10d::allreduce_", [elements], before=12, after=6):
            with self.op(thread, "record_param_comms", [elements], extra=shared | more, before=6, after=4):
                with self.annotation(thread, "nccl:all_reduce"):
                    self.call(thread, "record", us(2))
                    self.call(thread, "wait", us(2))
                    correlation = self.call(thread, "collective", us(9), linked=True)
                    ready = max(thread.now + us(2), self.free_at[self.comm], self.compute_done())
                    everyone_ready = yield group, ready
                    end = everyone_ready + us(micros)
                    recorded = self._recorded()
                    if recorded:
                        kernel_args = self.kernel_args([24, 1, 1], [544, 1, 1], True) | shared | {"Seq": sequence}
                        name = self.dialect.kernels["allreduce"].replace(
                            "_f32_", "_bf16_" if dtype != "Float" else "_f32_"
                        )
                        self.queue(
                            thread, "communication", name, end - ready, self.comm, correlation, kernel_args, ready
                        )  # fmt: skip
                    self.free_at[self.comm] = end
                    if wait:
                        self.free_at[self.compute] = max(self.free_at[self.compute], end)
                    self.call(thread, "record", us(2))
        self.collectives.append(
            {
                "seq": sequence, "name": "allreduce", "group": group.name, "step": self.step,
                "bytes": elements * (4 if dtype == "Float" else 2), "recorded": recorded,
                "start_ns": self.ns(ready), "dur_ns": (end - ready) * CELL_NS,
                "wait_ns": (everyone_ready - ready) * CELL_NS, "transfer_ns": (end - everyone_ready) * CELL_NS,
            }
        )  # fmt: skip

    def _recorded(self) -> bool:
        """Whether the profiler keeps the kernel of the next collective."""
        if not self.lost_every:
            return True
        self.until_lost -= 1
        if self.until_lost >= 0:
            return True
        self.until_lost += self.lost_every
        return False

    def forget(self) -> None:
        """The recording begins now, between two steps: nothing of before is in it but the Python frames that are open."""
        self.began = self.main.now
        self.activities.clear()
        self.runtime_rows.clear()
        self.memory_rows.clear()
        self.annotation_activities.clear()
        self.step_windows.clear()
        self.operators.clear()
        self.modules.clear()
        self.collectives.clear()
        self.counts = dict.fromkeys(self.counts, 0)
        self.peak = dict(self.allocated)
        for thread in (self.main, self.autograd):
            thread.rows.clear()
            thread.frame_rows[:] = [
                row for row in thread.frame_rows if row.args and row.args["Python id"] in thread.frames
            ]
            for row in thread.frame_rows:
                row.start_ns = self.ns(self.began)
        self.counts["python_functions"] = len(self.main.frame_rows)
