"""Invent profiles of a training on two Ascend NPUs whose right answers are known, for tests on machines without an NPU.

Two ranks play a small training through that never ran anywhere: rank 0 has the first half of a model, rank 1 the second
one, and both sum the gradients that they share. What happens is kept as plain records (`Process`), in integer nanoseconds;
writers (`WRITERS`) turn these records into files. The writer `text` makes what torch_npu of November 2025 leaves in a folder
`rank_<r>_<time>_ascend_pt`; a writer of another export starts from the same records. The truth (`truth_document`) is counted
from the records too, and never from reading a written file back.

Nothing here was recorded, and no number says anything about real hardware. The layout of files follows recordings of
other trainings; what those do not have (frequency, collection of garbage, AI CPU, workspaces, blocks that are older than the
window, several steps) follows the manuals. It is one long file on purpose: people copy it to a machine that has nothing
but Python.

Planted: the cores of rank 1 run at 1200 instead of 1800 MHz during its forward and backward pass in the last step, so that
rank 0 waits for it; a sum of gradients goes over the link in packets of 4096 bytes; three kernels are bound by what they
read from memory (MTE2); casts, changes of layout and a kernel on the AI CPU stand beside the products.

In one file: the plan and all that is written of it are read together.

usage: python samples/synthetic_ascend.py OUT_DIR [--steps 2] [--seed 0] [--export text] [--truth FILE]
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import random
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

RANKS, SLOW_RANK = 2, 1
EPOCH_NS = 1_763_985_600_000_000_000  # 2025-11-24 12:00 UTC: when the profilers of both ranks were started
SPAN = "20251124120000000"
FIRST_STEP = 12
GRID_NS = 10  # what the counters of the device resolve
NORMAL_MHZ, SLOW_MHZ = 1800, 1200
CUBE_CORES, VECTOR_CORES = 24, 48
COMPUTE, PIPELINE, SUMS, COPIES = 2, 5, 6, 3  # streams
GROUPS = {"pp": "3985310405473756128", "embd": "3985310491373102170"}
"""Groups of both ranks, and the numbers under which the communication library knows them ..."""
LIBRARY_NAMES = {"default_group": "group_name_0", "pp": "group_name_19", "embd": "group_name_20"}
"""... which it makes of these names."""
KIB, MIB = 1 << 10, 1 << 20
OLDER_BYTES = 600 * MIB  # what PyTorch's allocator had given before the window
SEGMENT_BYTES = 64 * MIB  # what it asks the device for at a time
GRAPH_BYTES, GRAPH_POOL_BYTES = 24 * MIB, 64 * MIB
PROCESS_BYTES = 900 * MIB  # of the process, beside both allocators
BEFORE = {"PTA": (OLDER_BYTES, 10 * SEGMENT_BYTES), "GE": (GRAPH_BYTES, GRAPH_POOL_BYTES)}
"""What the allocators had given and reserved before the window."""
SAMPLED_EVERY_NS = 5_000_000  # the driver's own counters; a real driver is asked every 20 ms
NO_MODEL = 4294967295

Json = dict[str, Any]


@dataclass(frozen=True)
class Config:
    steps: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError("there is at least 1 step")


# ---------------------------------------------------------------------------------------------------- what is played


@dataclass
class HostOp:
    """A call of the framework; the program's own ranges and steps are calls as well."""

    name: str
    thread: int
    start_ns: int
    parent: int  # its place among the calls, -1 = none
    step: int
    shapes: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    stack: tuple[str, ...] = ()
    sequence: int = -1
    forward_thread: int = 0
    end_ns: int = 0


@dataclass
class Queued:
    """A task that the program's thread hands to the thread of the queue."""

    correlation: int
    name: str
    thread: int
    start_ns: int
    end_ns: int
    taken_ns: int
    done_ns: int


@dataclass
class Call:
    """A call of CANN on the thread of the queue."""

    name: str
    level: str
    start_ns: int
    end_ns: int
    connection: int


@dataclass
class Task:
    """Work of a stream."""

    name: str
    type: str
    core: str  # as kernel_details has it; empty: a copy or another task that is no kernel
    task_type: str
    stream: int
    number: int
    connection: int
    op: int
    step: int | None
    start_ns: int
    end_ns: int
    wait_ns: int
    mhz: int
    shapes: tuple[str, str] = ("", "")
    bound: str = ""
    bytes: int = 0


@dataclass
class Collective:
    """An operation of a group on one rank: it begins, waits for the other one, moves bytes, and idles a little."""

    name: str
    type: str
    group: str
    op: int
    step: int
    connection: int
    count: int
    bytes: int
    packet_bytes: int
    start_ns: int
    ready_ns: int = 0  # when both ranks were there
    moved_ns: int = 0
    end_ns: int = 0
    wait_before_ns: int = 0
    last_rank: int = 0


@dataclass
class Block:
    """Memory that an allocator gave. None: before the window, or not within it."""

    name: str
    bytes: int
    allocator: str
    start_ns: int | None
    end_ns: int | None = None


@dataclass
class Frame:
    """A Python function or a module's forward."""

    name: str
    start_ns: int
    end_ns: int
    number: int
    parent: int
    module: int | None = None


@dataclass
class Step:
    number: int
    start_ns: int
    end_ns: int


@dataclass
class Process:
    """Everything that one rank did. Times are nanoseconds since 1970."""

    rank: int
    device: int
    pid: int
    steps: list[Step] = field(default_factory=list)
    ops: list[HostOp] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    queue: list[Queued] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    collectives: list[Collective] = field(default_factory=list)
    forward_backward: list[tuple[int, int]] = field(default_factory=list)  # places of two calls
    collections: list[tuple[int, int]] = field(default_factory=list)  # of garbage: start, end
    frequency: list[tuple[int, int]] = field(default_factory=list)  # from when on, MHz
    blocks: list[Block] = field(default_factory=list)
    end_ns: int = 0

    @property
    def main(self) -> int:
        return self.pid

    @property
    def queue_thread(self) -> int:
        return self.pid + 311

    @property
    def backward_thread(self) -> int:
        return self.pid + 540

    @property
    def threads(self) -> tuple[int, int, int]:
        return self.main, self.queue_thread, self.backward_thread

    @property
    def kernels(self) -> list[Task]:
        """Tasks that are kernels, in the order of their begin."""
        return sorted((task for task in self.tasks if task.core), key=lambda task: task.start_ns)


@dataclass(frozen=True)
class Kernel:
    """What one kernel is, and how long it takes at the normal frequency."""

    name: str
    type: str
    core: str
    ns: int
    inputs: str
    outputs: str
    bound: str = ""

    @property
    def task_type(self) -> str:
        return self.core


CAST = Kernel("aclnnCast_CastAiCore_Cast", "Cast", "AI_VECTOR_CORE", 62_000, "512,1024", "512,1024")
LAYOUT = Kernel("trans_TransData_0", "TransData", "AI_VECTOR_CORE", 88_000, "512,1024", "64,32,16,16")
EMBEDDING = Kernel(
    "aclnnEmbedding_GatherV2AiCore_GatherV2",
    "GatherV2",
    "AI_VECTOR_CORE",
    240_000,
    "32000,1024;512",
    "512,1024",
    "mte2",
)
PRODUCT = Kernel(
    "aclnnAddmm_MatMulCommon_MatMulV2", "MatMulV2", "AI_CORE", 610_000, "512,1024;1024,1024", "512,1024", "mac"
)
GELU = Kernel("aclnnGelu_GeluAiCore_Gelu", "Gelu", "AI_VECTOR_CORE", 96_000, "512,1024", "512,1024")
MASK = Kernel("aclnnDropoutGenMaskV2_DSAGenBitMask_DSAGenBitMask", "DSAGenBitMask", "DSA_SQE", 12_000, "N/A", "65536")
SOFTMAX = Kernel(
    "aclnnLogSoftmax_LogSoftmaxV2AiCore_LogSoftmaxV2", "LogSoftmaxV2", "AI_VECTOR_CORE", 74_000, "512,1024", "512,1024"
)
LOSS = Kernel("aclnnNLLLoss_NLLLossAiCore_NLLLoss", "NLLLoss", "MIX_AIV", 41_000, "512,1024;512;1024", ";")
SOFTMAX_BACK = Kernel(
    "aclnnLogSoftmaxBackward_LogSoftmaxGrad_LogSoftmaxGrad", "LogSoftmaxGrad", "AI_VECTOR_CORE", 83_000,
    "512,1024;512,1024", "512,1024",
)  # fmt: skip
GELU_BACK = Kernel(
    "aclnnGeluBackward_GeluGradAiCore_GeluGrad", "GeluGrad", "AI_VECTOR_CORE", 112_000, "512,1024;512,1024", "512,1024"
)
PRODUCT_BACK = Kernel(
    "aclnnMm_MatMulCommon_MatMulV2", "MatMulV2", "AI_CORE", 580_000, "512,1024;1024,1024", "512,1024", "mac"
)
WEIGHT_BACK = Kernel(
    "aclnnMm_MatMulCommon_MatMulV3", "MatMulV3", "MIX_AIC", 640_000, "1024,512;512,1024", "1024,1024", "mac"
)
EMBEDDING_BACK = Kernel(
    "aclnnEmbeddingDenseBackward_EmbeddingDenseGradV2_EmbeddingDenseGradV2", "EmbeddingDenseGradV2", "AI_VECTOR_CORE",
    430_000, "512,1024;512", "32000,1024", "mte2",
)  # fmt: skip
SUM_BACK = Kernel(
    "aclnnReduceSum_ReduceSumOpAiCore_ReduceSum", "ReduceSum", "AI_VECTOR_CORE", 390_000, "512,1024", "1024"
)
ADAM = Kernel(
    "aclnnApplyAdamWV2_ApplyAdamWV2_ApplyAdamWV2", "ApplyAdamWV2", "AI_VECTOR_CORE", 520_000,
    "1024,1024;1024,1024;1024,1024;1024,1024;1", "1024,1024;1024,1024;1024,1024", "mte2",
)  # fmt: skip
NONZERO = Kernel("aclnnNonzeroV2_NonZeroAiCpu_NonZero", "NonZero", "AI_CPU", 150_000, "1024", "2,1024")


class Player:
    """One rank in play: clocks of its threads and streams, and the records that it leaves."""

    def __init__(self, config: Config, rank: int) -> None:
        self.config = config
        self.p = Process(rank, 4 * rank, 41_200 + 1_700 * rank)
        begin = EPOCH_NS + 2_000_000 + 130_000 * rank
        self.now = dict.fromkeys((self.p.main, self.p.queue_thread, self.p.backward_thread), begin)
        self.free = dict.fromkeys((COMPUTE, PIPELINE, SUMS, COPIES), begin)
        self.used: set[int] = set()  # streams that have had a task
        self.open: dict[int, list[int]] = defaultdict(list)
        self.frames: list[int] = [0]
        self.modules: dict[str, int] = {}
        self.random = random.Random(f"{config.seed}/{rank}")
        self.mhz = NORMAL_MHZ
        self.step: int | None = None
        self.last = {"correlation": 8_000, "connection": 900, "task": 300, "sequence": 1_300, "frame": 0}
        self.counted: dict[str, int] = defaultdict(int)
        self.p.frequency.append((EPOCH_NS + 500_000, NORMAL_MHZ))

    # ------------------------------------------------------------------------------------------------ small things

    def number(self, what: str) -> int:
        self.last[what] += 1
        return self.last[what]

    def about(self, ns: int) -> int:
        return round(ns * self.random.uniform(0.9, 1.15) / GRID_NS) * GRID_NS

    def spend(self, thread: int, ns: int) -> int:
        """Lets a thread pass some time; returns when that began."""
        begin = self.now[thread]
        self.now[thread] = begin + self.about(ns)
        return begin

    @contextmanager
    def op(
        self, name: str, thread: int | None = None, shapes: Iterable[str] = (), types: Iterable[str] = (), **more: Any
    ) -> Iterator[int]:
        thread = self.p.main if thread is None else thread
        begin = self.spend(thread, 1_400)
        outer = self.open[thread]
        step = self.step if self.step is not None else -1
        made = HostOp(name, thread, begin, outer[-1] if outer else -1, step, tuple(shapes), tuple(types), **more)
        place = len(self.p.ops)
        self.p.ops.append(made)
        outer.append(place)
        yield place
        outer.pop()
        made.end_ns = self.spend(thread, 900) + GRID_NS

    @contextmanager
    def frame(self, name: str, is_module: bool = False) -> Iterator[None]:
        main = self.p.main
        module = self.modules.setdefault(name, len(self.modules)) if is_module else None
        made = Frame(name, self.spend(main, 600), 0, self.number("frame"), self.frames[-1], module)
        self.p.frames.append(made)
        self.frames.append(made.number)
        yield
        self.frames.pop()
        made.end_ns = self.spend(main, 300) + GRID_NS

    def frequency(self, mhz: int) -> None:
        """The cores change their frequency when what was launched so far is done."""
        self.mhz = mhz
        self.p.frequency.append((self.free[COMPUTE], mhz))

    # ------------------------------------------------------------------------------------------------ tasks

    def hand_over(self, name: str, thread: int, calls: Iterable[tuple[str, str]]) -> tuple[int, int]:
        """Puts a task into the queue; its thread calls CANN. Returns the calls' connection and when the last is done."""
        put = self.spend(thread, 1_700)
        made = Queued(self.number("correlation"), name, thread, put, self.now[thread], 0, 0)
        queue = self.p.queue_thread
        self.now[queue] = max(self.now[queue], made.end_ns + 1_200)
        made.taken_ns = self.spend(queue, 500)
        connection = self.number("connection")
        for call, level in calls:
            begin = self.spend(queue, 5_200)
            self.p.calls.append(Call(call, level, begin, self.now[queue] - GRID_NS, connection))
        made.done_ns = self.spend(queue, 400) + GRID_NS
        self.p.queue.append(made)
        return connection, self.p.calls[-1].end_ns

    def run(self, stream: int, ready: int, ns: int) -> tuple[int, int, int]:
        """Lets a stream work; returns begin, end and how long it had nothing before (0 for its first task)."""
        begin = max(self.free[stream], ready)
        wait = begin - self.free[stream] if stream in self.used else 0
        self.used.add(stream)
        self.free[stream] = begin + ns
        return begin, begin + ns, wait

    def launch(self, api: str, kernels: Iterable[Kernel], thread: int | None = None) -> None:
        """Calls a function of the operator library: a call of its own, with its kernels one after the other."""
        thread = self.p.main if thread is None else thread
        with self.op(api, thread) as op:
            for kernel in kernels:
                calls = [(f"AscendCL@{api}", "acl"), ("Node@launch", "node")]
                connection, launched = self.hand_over(f"Dequeue@{api}", thread, calls)
                slowed = kernel.ns if kernel.core in ("AI_CPU", "DSA_SQE") else kernel.ns * NORMAL_MHZ // self.mhz
                begin, end, wait = self.run(COMPUTE, launched + 2_500, self.about(slowed))
                self.p.tasks.append(
                    Task(
                        kernel.name, kernel.type, kernel.core, kernel.task_type, COMPUTE, self.number("task"), connection,
                        op, self.step, begin, end, wait, self.mhz, (kernel.inputs, kernel.outputs), kernel.bound,
                    )
                )  # fmt: skip
                if kernel in (LAYOUT, NONZERO):
                    self.p.blocks.append(Block(f"cann::{kernel.name}", 2 * MIB, "GE", launched, end))
                if kernel.core in ("AI_CORE", "MIX_AIC"):
                    self.p.blocks.append(Block("", 16 * MIB, "WORKSPACE", launched, end))

    def copy(self, name: str, size: int, waits: bool) -> None:
        """Copies between host and device, of which the program waits for the end where it wants a value."""
        with self.op(name) as op:
            connection, launched = self.hand_over(
                f"Dequeue@{name}", self.p.main, [("AscendCL@aclrtMemcpyAsync", "acl")]
            )
            ready = max(launched + 2_000, self.free[COMPUTE] if waits else 0)
            begin, end, wait = self.run(COPIES, ready, self.about(4_000 + size // 24))
            self.p.tasks.append(
                Task(
                    "MEMCPY_ASYNC", "", "", "PCIE_DMA_SQE", COPIES, self.number("task"), connection, op, self.step, begin,
                    end, wait, self.mhz, bytes=size,
                )
            )  # fmt: skip
            if waits:
                self.now[self.p.main] = max(self.now[self.p.main], end + 3_000)
            else:
                self.free[COMPUTE] = max(self.free[COMPUTE], end)

    def communicate(
        self, kind: str, api: str, group: str, size: int, thread: int, packet: int = 0, holds: bool = True
    ) -> Generator[int, tuple[int, int], int]:
        """Runs an operation of the group; says when this rank is there, and is told when both were and who was last.

        ``holds``: what is computed next waits for it. Returns its end.
        """
        stream = PIPELINE if group == "pp" else SUMS
        with self.op(api, thread, [f"{size // 4}"], ["float"]) as op:
            connection, launched = self.hand_over(
                f"Dequeue@{api}", thread, [(f"AscendCL@{api}", "acl"), ("Node@launch", "node")]
            )
            self.p.calls.append(Call(f"hccl@{kind}", "hccl", launched + 100, launched + 8_300, connection))
            self.now[self.p.queue_thread] = max(self.now[self.p.queue_thread], launched + 9_000)
            count = self.counted[group]
            self.counted[group] += 1
            made = Collective(
                f"hcom_{kind}__{GROUPS[group][-3:]}_{count}_1", f"hcom_{kind}_", group, op, self.step or 0, connection,
                size // 4, size, packet or size, 0,
            )  # fmt: skip
        # A moment after what it waits for: arrows are known by the time at which work begins, and two must not begin at once.
        begin = max(self.free[stream], self.free[COMPUTE], launched + 6_000) + 340
        made.wait_before_ns = begin - self.free[stream] if stream in self.used else 0
        self.used.add(stream)
        made.start_ns = begin
        made.ready_ns, made.last_rank = yield begin
        rate = 2 if packet else 18  # bytes a nanosecond
        made.moved_ns = made.ready_ns + size // rate // GRID_NS * GRID_NS
        made.end_ns = made.moved_ns + 1_200
        self.free[stream] = made.end_ns
        if holds:
            self._hold(made)
        self.p.collectives.append(made)
        return made.end_ns

    def _hold(self, made: Collective) -> None:
        """The stream that computes waits for an operation of a group."""
        connection, queue = self.number("connection"), self.p.queue_thread
        self.p.calls.append(
            Call("Runtime@StreamWaitEvent", "runtime", self.spend(queue, 900), self.now[queue] - GRID_NS, connection)
        )
        begin = self.free[COMPUTE]
        end = self.free[COMPUTE] = max(begin, made.end_ns)
        number = self.number("task")
        self.p.tasks.append(
            Task(
                "EVENT_WAIT",
                "",
                "",
                "EVENT_WAIT_SQE",
                COMPUTE,
                number,
                connection,
                -1,
                self.step,
                begin,
                end,
                0,
                self.mhz,
            )
        )

    # ------------------------------------------------------------------------------------------------ memory

    def allocate(self, name: str, size: int, thread: int | None = None) -> Block:
        block = Block(name, size, "PTA", self.spend(self.p.main if thread is None else thread, 300))
        self.p.blocks.append(block)
        return block

    def release(self, block: Block, thread: int | None = None) -> None:
        block.end_ns = self.spend(self.p.main if thread is None else thread, 200)


class Training:
    """The program of a rank: its half of the forward and the backward pass, sums, and the optimizer."""

    def __init__(self, player: Player) -> None:
        self.x = player
        self.is_first = player.p.rank == 0
        self.older = Block("", 3 * MIB, "PTA", None)  # gradients of the step before the window
        player.p.blocks.append(self.older)

    def everything(self) -> Generator[int, tuple[int, int], None]:
        x = self.x
        main = x.p.main
        # The end of a step that nobody recorded: its kernel belongs to no step.
        with x.op("Optimizer.zero_grad#AdamW.zero_grad"):
            x.launch(
                "aclnnInplaceZero",
                [Kernel("aclnnInplaceZero_ZerosLike", "ZerosLike", "AI_VECTOR_CORE", 25_000, "1024", "1024")],
            )
        x.spend(main, 60_000)
        for index in range(x.config.steps):
            x.step = FIRST_STEP + index
            slow = x.p.rank == SLOW_RANK and index == x.config.steps - 1
            with x.frame("train.py(31): train_step"), x.op(f"ProfilerStep#{x.step}") as place:
                yield from self.one_step(slow, index)
            x.p.steps.append(Step(x.step, x.p.ops[place].start_ns, x.p.ops[place].end_ns))
            x.spend(main, 30_000)
        x.p.end_ns = max(*x.now.values(), *x.free.values()) + 1_000_000

    def one_step(self, slow: bool, index: int) -> Generator[int, tuple[int, int], None]:
        x, main, kept = self.x, self.x.p.main, list[Block]()
        with x.op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", stack=("train.py(22): batches",)):
            x.spend(main, 900_000)
        if self.is_first:
            if index == x.config.steps - 1:
                begin = x.spend(main, 1_300_000)
                x.p.collections.append((begin, x.now[main]))
            with x.op("aten::to", shapes=["512", "", "", ""], types=["long int", "Scalar", "", ""]):
                kept.append(x.allocate("aten::to", 4 * KIB))
                x.copy("acl_memcpy_host_to_device", 4 * KIB, waits=False)
            with x.frame("nn.Module: Embedding_0", True), x.op(
                "aten::embedding", shapes=["32000,1024", "512"], types=["float", "long int"], sequence=x.number("sequence")
            ) as embedding:  # fmt: skip
                kept.append(x.allocate("aten::embedding", 2 * MIB))
                x.launch("aclnnEmbedding", [EMBEDDING])
        else:
            yield from x.communicate("receive", "c10d::recv_", "pp", 2 * MIB, main)
        if slow:
            x.frequency(SLOW_MHZ)
        with x.frame("nn.Module: Linear_0", True):
            linear = self.linear(kept)
        if self.is_first:
            activation = self.plain("aten::gelu", "aclnnGelu", [GELU], kept)
            yield from x.communicate("send", "c10d::send", "pp", 2 * MIB, main, holds=False)
            yield from x.communicate("receive", "c10d::recv_", "pp", 2 * MIB, main)
        else:
            self.plain("aten::native_dropout", "aclnnDropoutGenMaskV2", [MASK], kept)
            activation = self.plain("aten::log_softmax", "aclnnLogSoftmax", [SOFTMAX], kept)
            self.plain("aten::nll_loss", "aclnnNLLLoss", [LOSS], kept)
        back = x.p.backward_thread
        x.now[back] = max(x.now[back], x.now[main] + 20_000)
        name, api, kernel = (
            ("GeluBackward0", "aclnnGeluBackward", GELU_BACK)
            if self.is_first
            else ("LogSoftmaxBackward0", "aclnnLogSoftmaxBackward", SOFTMAX_BACK)
        )
        self.backward(name, activation, [(api, [kernel])], kept)
        if self.is_first:
            self.backward("AddmmBackward0", linear, [("aclnnMm", [PRODUCT_BACK]), ("aclnnMm", [WEIGHT_BACK])], kept)
        else:
            self.backward("AddmmBackward0", linear, [("aclnnMm", [PRODUCT_BACK])], kept)
            yield from x.communicate("send", "c10d::send", "pp", 2 * MIB, back, holds=False)
            with x.op("aten::mm", back, ["1024,512", "512,1024"], ["float", "float"], forward_thread=1):
                x.launch("aclnnMm", [WEIGHT_BACK], back)
        if slow:
            x.frequency(NORMAL_MHZ)
        yield from x.communicate("allReduce", "c10d::allreduce_", "embd", 16 * MIB, back, holds=False)
        if self.is_first:
            self.backward("EmbeddingBackward0", embedding, [("aclnnEmbeddingDenseBackward", [EMBEDDING_BACK])], kept)
        else:
            with x.op("aten::sum", back, ["512,1024"], ["float"], forward_thread=1):
                x.launch("aclnnReduceSum", [SUM_BACK], back)
        yield from x.communicate("allReduce", "c10d::allreduce_", "embd", 32 * KIB, back, packet=4 * KIB)
        x.now[main] = max(x.now[main], x.now[back] + 15_000)
        self.optimize(kept)

    def linear(self, kept: list[Block]) -> int:
        x = self.x
        sequence = x.number("sequence")
        with x.op("aten::linear", shapes=["512,1024", "1024,1024", "1024"], types=["float", "float", "float"]):
            with x.op("aten::to", shapes=["512,1024", "", "", ""], types=["float", "Scalar", "", ""]):
                kept.append(x.allocate("aten::to", MIB))
                x.launch("aclnnCast", [CAST])
            with x.op(
                "aten::addmm", shapes=["1024", "512,1024", "1024,1024", "", ""],
                types=["float", "float", "float", "Scalar", "Scalar"], sequence=sequence,
                stack=("model.py(17): forward", "train.py(34): train_step"),
            ) as place:  # fmt: skip
                kept.append(x.allocate("aten::addmm", 2 * MIB))
                x.launch("aclnnAddmm", [LAYOUT, PRODUCT])
        return place

    def plain(self, name: str, api: str, kernels: list[Kernel], kept: list[Block]) -> int:
        x = self.x
        with x.op(name, shapes=["512,1024"], types=["float"], sequence=x.number("sequence")) as place:
            kept.append(x.allocate(name, 2 * MIB))
            x.launch(api, kernels)
        return place

    def backward(self, name: str, forward: int, launches: list[tuple[str, list[Kernel]]], kept: list[Block]) -> None:
        """Runs a node of the backward pass, for a call of the forward one."""
        x, back = self.x, self.x.p.backward_thread
        sequence = x.p.ops[forward].sequence
        with x.op(
            f"autograd::engine::evaluate_function: {name}",
            back,
            ["512,1024"],
            ["float"],
            sequence=sequence,
            forward_thread=1,
        ) as place:
            for api, kernels in launches:
                kept.append(x.allocate(name, 4 * MIB, back))
                x.launch(api, kernels, back)
        x.p.forward_backward.append((forward, place))

    def optimize(self, kept: list[Block]) -> None:
        x, main = self.x, self.x.p.main
        if self.older.end_ns is None:
            x.release(self.older)
        # The norm of the gradients: the program waits for the device, and the device then for the program.
        with (
            x.op("aten::item", shapes=[""], types=["float"]),
            x.op("aten::_local_scalar_dense", shapes=[""], types=["float"]),
        ):
            x.copy("acl_memcpy_device_to_host", 4, waits=True)
        x.spend(main, 180_000)
        with x.op("Optimizer.step#AdamW.step", stack=("train.py(41): train_step",)):
            with x.op("npu::npu_apply_adam_w", shapes=["1024,1024", "1024,1024"], types=["float", "float"]):
                if x.step == FIRST_STEP:  # states of the optimizer: nobody gives them back
                    x.allocate("npu::npu_apply_adam_w", 4 * MIB)
                    x.allocate("npu::npu_apply_adam_w", 4 * MIB)
                x.launch("aclnnApplyAdamWV2", [ADAM])
            with x.op("aten::nonzero", shapes=["1024"], types=["float"]):
                kept.append(x.allocate("aten::nonzero", 16 * KIB))
                x.launch("aclnnNonzeroV2", [NONZERO])
        for block in kept:
            x.release(block)
        x.spend(main, 8_000)


def play(config: Config) -> list[Process]:
    """Plays both ranks through, each up to its next operation of a group, at which they meet."""
    players = [Player(config, rank) for rank in range(RANKS)]
    programs = [Training(player).everything() for player in players]
    there = [next(program) for program in programs]
    while there:
        ready = max(there)
        last = there.index(ready)
        there = [at for program in programs if (at := _resumed(program, (ready, last))) is not None]
        if len(there) not in (0, RANKS):
            raise AssertionError("one rank has an operation more than the other")
    return [player.p for player in players]


def _resumed(program: Generator[int, tuple[int, int], None], answer: tuple[int, int]) -> int | None:
    try:
        return program.send(answer)
    except StopIteration:
        return None


# ---------------------------------------------------------------------------------------------------- what follows from it


Range = tuple[int, int]


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Returns the union of ranges: sorted, none touches another."""
    found: list[Range] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def without(ranges: list[Range], others: list[Range]) -> list[Range]:
    """Returns what of merged ranges lies in none of the others."""
    found = []
    for start, end in ranges:
        for begin, stop in others:
            if begin < end and stop > start:
                if begin > start:
                    found.append((start, begin))
                start = max(start, stop)
        if start < end:
            found.append((start, end))
    return found


def bars_of(process: Process) -> dict[str, list[Range]]:
    """Returns the bars of the overlap analysis: lanes that each are free of overlaps."""
    computing = merged((task.start_ns, task.end_ns) for task in process.kernels)
    communication = merged((one.start_ns, one.end_ns) for one in process.collectives)
    busy = merged([*computing, *communication])
    return {
        "Computing": computing,
        "Communication": communication,
        "Communication(Not Overlapped)": without(communication, computing),
        "Free": without([(busy[0][0], busy[-1][1])], busy),
    }


def device_range(process: Process, step: Step) -> Range:
    """Returns the range of the device that is a step: from its first kernel on."""
    of_step = [one for one in (*process.kernels, *process.collectives) if one.step == step.number]
    return min(one.start_ns for one in of_step), max(step.end_ns, *(one.end_ns for one in of_step))


def times_of(process: Process, step: Step) -> Json:
    """Returns where the time of a step went on the device; a bar belongs to the step in which it begins."""
    first, last = device_range(process, step)
    bars = {lane: [bar for bar in bars if first <= bar[0] <= last] for lane, bars in bars_of(process).items()}
    total = {lane: sum(end - start for start, end in bars[lane]) for lane in bars}
    every = [bar for lane in bars.values() for bar in lane]
    bubble = sum(
        one.end_ns - one.start_ns
        for one in process.collectives
        if one.step == step.number and one.type.startswith("hcom_receive")
    )
    alone = total["Communication(Not Overlapped)"]
    begun = min(start for lane in ("Computing", "Communication") for start, _ in bars[lane])
    return {
        "computing_ns": total["Computing"],
        "not_overlapped_ns": alone,
        "overlapped_ns": total["Communication"] - alone,
        "communication_ns": total["Communication"],
        "free_ns": total["Free"],
        "stage_ns": max(end for _, end in every) - min(start for start, _ in every) - bubble,
        "bubble_ns": bubble,
        "not_overlapped_exclude_receive_ns": max(0, alone - bubble),
        "preparing_ns": begun - step.start_ns,
        "_bars": bars,
    }


@dataclass(frozen=True)
class Level:
    """What an allocator had given after one change: the number of the block says which."""

    at: int
    block: int
    allocated: int
    reserved: int


def levels_of(process: Process, allocator: str) -> list[Level]:
    """Returns the totals of an allocator after each allocation and each release, in order of time."""
    base, pool = BEFORE.get(allocator, (0, 0))
    changes = []
    for number, block in enumerate(process.blocks):
        if block.allocator == allocator:
            changes += [(block.start_ns, number, block.bytes)] if block.start_ns is not None else []
            changes += [(block.end_ns, number, -block.bytes)] if block.end_ns is not None else []
    levels, allocated, reserved = [], base, pool
    for at, number, change in sorted(changes):
        allocated += change
        reserved = max(reserved, -(-allocated // SEGMENT_BYTES) * SEGMENT_BYTES)
        levels.append(Level(at, number, allocated, reserved))
    return levels


def together(process: Process) -> Iterator[tuple[str, Level, dict[str, Range]]]:
    """Yields each change of one of both allocators that are counted together, with what both have since (given, reserved)."""
    latest = dict(BEFORE)
    changes = [(level.at, level.block, name, level) for name in BEFORE for level in levels_of(process, name)]
    for _, _, name, level in sorted(changes, key=lambda change: change[:3]):
        latest[name] = (level.allocated, level.reserved)
        yield name, level, dict(latest)


def host_times(process: Process) -> list[tuple[int, int]]:
    """Returns of each call how long it took itself, and with the calls in it."""
    total = [op.end_ns - op.start_ns for op in process.ops]
    own = list(total)
    for place, op in enumerate(process.ops):
        if op.parent >= 0:
            own[op.parent] -= total[place]
    return list(zip(own, total, strict=True))


def device_times(process: Process, on_cores: bool = False) -> list[tuple[int, int]]:
    """Returns of each call how long the work took that it launched itself, and with the calls in it.

    ``on_cores``: of the kernels of one kind of core alone. Recordings count AI_CORE and AI_VECTOR_CORE, and no MIX_AIV.
    """
    own = [0] * len(process.ops)
    for task in process.tasks:
        if task.op >= 0 and (not on_cores or task.core in ("AI_CORE", "AI_VECTOR_CORE")):
            own[task.op] += task.end_ns - task.start_ns
    for one in process.collectives if not on_cores else ():
        own[one.op] += one.end_ns - one.start_ns
    total = list(own)
    for place in reversed(range(len(total))):  # a call stands before the calls in it
        if process.ops[place].parent >= 0:
            total[process.ops[place].parent] += total[place]
    return list(zip(own, total, strict=True))


# ---------------------------------------------------------------------------------------------------- the writer of texts


def us(ns: int) -> str:
    """Microseconds with all digits."""
    return f"{ns // 1000}.{ns % 1000:03d}"


def stamp(ns: int | None) -> str:
    """A time as the tables write it: with a TAB, so that a spreadsheet leaves it as it is."""
    return "" if ns is None else f"{us(ns)}\t"


def noisy(parts: Iterable[int]) -> float:
    """A sum of microseconds as somebody makes it who adds floats up."""
    total = 0.0
    for part in parts:
        total += part / 1000
    return total


def _csv(titles: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows([list(titles), *rows])
    return out.getvalue()


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def folder_of(process: Process) -> str:
    """Returns the name of the folder of a rank."""
    return f"rank_{process.rank}_{SPAN}_ascend_pt"


def settings(process: Process) -> Json:
    """Returns what profiler_info says."""
    return {
        "config": {
            "common_config": {
                "activities": ["ProfilerActivity.CPU", "ProfilerActivity.NPU"],
                "schedule": {"wait": 0, "active": len(process.steps), "warmup": 1, "repeat": 1, "skip_first": FIRST_STEP - 1},
                "record_shapes": True, "profile_memory": True, "with_stack": True, "with_flops": False, "with_modules": True,
            },
            "experimental_config": {
                "_profiler_level": "Level2", "_aic_metrics": "ACL_AICORE_PIPE_UTILIZATION", "_l2_cache": True,
                "_msprof_tx": False, "_mstx": False, "_data_simplification": True, "record_op_args": False,
                "_export_type": ["text"], "_host_sys": [], "_op_attr": False, "_gc_detect_threshold": 1.0,
                "_mstx_domain_include": [], "_mstx_domain_exclude": [], "_sys_io": False, "_sys_interconnection": False,
            },
        },
        "start_info": {"syscnt_enable": True, "freq": 100, "start_cnt": EPOCH_NS // 10, "start_monotonic": EPOCH_NS % 10**15},
        "end_info": {"collectionTimeEnd": process.end_ns, "MonotonicTimeEnd": process.end_ns % 10**15},
        "torch_npu_version": "2.7.1", "cann_version": "8.3.RC1", "rank_id": str(process.rank),
    }  # fmt: skip


def metadata(process: Process) -> Json:
    """Returns what profiler_metadata says; the first line says that nothing of this was recorded."""
    return {
        "SYNTHETIC": "invented by samples/synthetic_ascend.py, never ran anywhere",
        "distributed_args": {
            "tensor_model_parallel_size": 1, "pipeline_model_parallel_size": 2, "data_parallel_size": 1,
            "context_parallel_size": 1, "expert_model_parallel_size": 1, "sequence_parallel": False, "rank": process.rank,
            "world_size": RANKS,
        },
        "ENV_VARIABLES": {"TASK_QUEUE_ENABLE": "2", "ASCEND_LAUNCH_BLOCKING": "", "PYTORCH_NPU_ALLOC_CONF": ""},
        "parallel_group_info": {
            library_name: {"group_name": name, "group_rank": process.rank, "global_ranks": list(range(RANKS))}
            for name, library_name in LIBRARY_NAMES.items()
        },
    }  # fmt: skip


_PMU = (
    "aicore_time(us)", "aic_total_cycles", "aic_mac_time(us)", "aic_mac_ratio", "aic_scalar_time(us)", "aic_scalar_ratio",
    "aic_mte1_time(us)", "aic_mte1_ratio", "aic_mte2_time(us)", "aic_mte2_ratio", "aic_fixpipe_time(us)", "aic_fixpipe_ratio",
    "aic_icache_miss_rate", "aiv_time(us)", "aiv_total_cycles", "aiv_vec_time(us)", "aiv_vec_ratio", "aiv_scalar_time(us)",
    "aiv_scalar_ratio", "aiv_mte2_time(us)", "aiv_mte2_ratio", "aiv_mte3_time(us)", "aiv_mte3_ratio", "aiv_icache_miss_rate",
    "cube_utilization(%)",
)  # fmt: skip
_CUBE_RATIOS = (("mac", 0.62), ("scalar", 0.11), ("mte1", 0.48), ("mte2", 0.39), ("fixpipe", 0.07))
_VECTOR_RATIOS = {"": (("vec", 0.46), ("scalar", 0.08), ("mte2", 0.41), ("mte3", 0.3)),
                  "mte2": (("vec", 0.12), ("scalar", 0.05), ("mte2", 0.94), ("mte3", 0.21))}  # fmt: skip


def counters(task: Task) -> dict[str, str]:
    """Returns what the counters of the cores say of a kernel; none count where no core of theirs ran."""
    if task.core in ("AI_CPU", "DSA_SQE"):
        return dict.fromkeys(_PMU, "N/A")
    is_cube = task.core in ("AI_CORE", "MIX_AIC")
    prefix, cores = ("aic", CUBE_CORES) if is_cube else ("aiv", VECTOR_CORES)
    time = task.end_ns - task.start_ns - 1_200
    made = {title: "0" if title.endswith("cycles") else "0.0" for title in _PMU}
    made["aicore_time(us)" if is_cube else "aiv_time(us)"] = us(time)
    cycles = time * task.mhz // 1000 * cores
    made[f"{prefix}_total_cycles"] = str(cycles)
    for pipe, ratio in _CUBE_RATIOS if is_cube else _VECTOR_RATIOS["mte2" if task.bound == "mte2" else ""]:
        made[f"{prefix}_{pipe}_time(us)"] = us(round(time * ratio))
        made[f"{prefix}_{pipe}_ratio"] = str(ratio)
    made[f"{prefix}_icache_miss_rate"] = "0.013"
    duration = task.end_ns - task.start_ns
    made["cube_utilization(%)"] = f"{100 * cycles * 1000 / (task.mhz * cores * duration):.3f}" if is_cube else "0"
    return made


def kernel_details(process: Process) -> str:
    titles = (
        "Step Id", "Device_id", "Model ID", "Task ID", "Stream ID", "Name", "Type", "OP State", "Accelerator Core",
        "Start Time(us)", "Duration(us)", "Wait Time(us)", "Block Dim", "Mix Block Dim", "HF32 Eligible", "Input Shapes",
        "Input Data Types", "Input Formats", "Output Shapes", "Output Data Types", "Output Formats", "Context ID", *_PMU,
    )  # fmt: skip
    rows = []
    for task in process.kernels:
        blocks = {"AI_CORE": CUBE_CORES, "MIX_AIC": CUBE_CORES, "AI_VECTOR_CORE": VECTOR_CORES, "MIX_AIV": VECTOR_CORES}
        shapes = [text if text == "N/A" else f'"{text}"' for text in task.shapes]
        types = ["N/A" if text == "N/A" else ";".join(["FLOAT"] * (text.count(";") + 1)) for text in task.shapes]
        forms = ["N/A" if text == "N/A" else ";".join(["ND"] * (text.count(";") + 1)) for text in task.shapes]
        head = [
            "" if task.step is None else task.step, process.device, NO_MODEL, task.number, task.stream, task.name, task.type,
            "static" if task.core == "AI_CPU" else "dynamic", task.core, stamp(task.start_ns),
            us(task.end_ns - task.start_ns), us(task.wait_ns), blocks.get(task.core, 0), 0, "NO",
        ]  # fmt: skip
        facts = [text for of in (0, 1) for text in (shapes[of], types[of], forms[of])]
        rows.append((task.start_ns, [*head, *facts, "N/A", *counters(task).values()]))
    for one in process.collectives:
        head = [
            one.step, process.device, NO_MODEL, "N/A", "N/A", one.name, one.type, "N/A", "COMMUNICATION", stamp(one.start_ns),
            us(one.end_ns - one.start_ns), us(one.wait_before_ns), 0,
        ]  # fmt: skip
        rows.append((one.start_ns, [*head, *["N/A"] * (len(titles) - len(head))]))
    return _csv(titles, (row for _, row in sorted(rows, key=lambda row: row[0])))


def operator_details(process: Process) -> str:
    titles = ["Name", "Input Shapes", "Call Stack"]
    for which in ("Host {}", "Device {}"):
        titles += [which.format("Self Duration(us)"), which.format("Total Duration(us)")]
    titles += ["Device Self Duration With AICore(us)", "Device Total Duration With AICore(us)"]
    rows = []
    times = zip(host_times(process), device_times(process), device_times(process, on_cores=True), strict=True)
    for op, parts in zip(process.ops, times, strict=True):
        if not op.name.startswith("ProfilerStep#"):
            numbers = [str(ns / 1000) for part in parts for ns in part]
            rows.append([op.name, ";\n".join(op.shapes), "".join(f"{frame};\n" for frame in op.stack), *numbers])
    return _csv(titles, rows)


def _mb(size: int) -> str:
    return str(size / MIB)


def memory_record(process: Process) -> str:
    """The process as a whole first, then the allocators; after each change of one of two, their sum."""
    device, rows = f"NPU:{process.device}", []
    for at, size in process_levels(process):
        rows.append(["APP", stamp(at), "", _mb(size), "", "", device])
    stream = str(897_357_296 + process.rank)
    for name, level, sides in together(process):
        active = _mb(level.allocated) if name == "PTA" else ""
        rows.append(
            [name, stamp(level.at), _mb(level.allocated), _mb(level.reserved), active, stream if active else "", device]
        )
        sums = [sum(one[of] for one in sides.values()) for of in (0, 1)]
        rows.append(["PTA+GE", stamp(level.at), _mb(sums[0]), _mb(sums[1]), _mb(sides["PTA"][0]), stream, device])
    for level in levels_of(process, "WORKSPACE"):
        rows.append(["WORKSPACE", stamp(level.at), _mb(level.allocated), _mb(level.reserved), "", stream, device])
    titles = ("Component", "Timestamp(us)", *(f"Total {what}(MB)" for what in ("Allocated", "Reserved", "Active")))
    return _csv([*titles, "Stream Ptr", "Device Type"], rows)


def sampled(process: Process) -> list[int]:
    """Returns when the driver is asked."""
    return list(range(EPOCH_NS + 500_000, process.end_ns, SAMPLED_EVERY_NS))


def process_levels(process: Process) -> list[tuple[int, int]]:
    """Returns what the process has of the device whenever the driver is asked."""
    found = []
    for at in sampled(process):
        before = [level.reserved for level in levels_of(process, "PTA") if level.at <= at]
        found.append((at, PROCESS_BYTES + GRAPH_POOL_BYTES + (before[-1] if before else BEFORE["PTA"][1])))
    return found


def operator_memory(process: Process) -> str:
    device, stream = f"NPU:{process.device}", str(897_357_296 + process.rank)
    given: dict[tuple[int, bool], Level] = {}
    for allocator in ("PTA", "GE"):
        for level in levels_of(process, allocator):
            given[level.block, process.blocks[level.block].start_ns == level.at] = level
    rows = []
    for number, block in enumerate(process.blocks):
        if block.allocator == "WORKSPACE":
            continue
        start, end = block.start_ns, block.end_ns
        is_graph = block.allocator == "GE"
        active = end - 510 if end is not None and not is_graph else None
        totals = []
        for is_begin in (True, False):
            at = given.get((number, is_begin))
            totals += [_mb(at.allocated), _mb(at.reserved), "" if is_graph else _mb(at.allocated)] if at else [""] * 3
        whole = start is not None and end is not None
        size = block.bytes if start is not None else -block.bytes
        rows.append((
            start is None, start or end,
            [block.name, str(size / KIB), stamp(start), stamp(end), stamp(active),
             us(end - start) if whole else "", us(active - start) if whole and active else "",
             *totals, "" if is_graph else stream, device],
        ))  # fmt: skip
    titles = ["Name", "Size(KB)", "Allocation Time(us)", "Release Time(us)", "Active Release Time(us)", "Duration(us)",
              "Active Duration(us)"]  # fmt: skip
    for when in ("Allocation", "Release"):
        titles += [f"{when} Total {what}(MB)" for what in ("Allocated", "Reserved", "Active")]
    return _csv([*titles, "Stream Ptr", "Device Type"], (row for *_, row in sorted(rows, key=lambda row: row[:2])))


def component_levels(process: Process) -> dict[str, list[tuple[int, int]]]:
    """Returns what each component reserves when it is looked at; -1 KB where a release was seen and nothing else."""
    sizes = {"SLOG": 0, "HCCL": 404 * MIB, "RUNTIME": 92 * MIB, "GE": GRAPH_POOL_BYTES, "AICPU": 0, "TDT": -1024}
    levels = {name: [(at, size) for at in sampled(process)] for name, size in sizes.items()}
    return {**levels, "APP": process_levels(process)}


def npu_module_mem(process: Process) -> str:
    rows = [
        [process.device, name, stamp(at), _mb(size), f"NPU:{process.device}"]
        for name, levels in component_levels(process).items()
        for at, size in levels
    ]
    return _csv(["Device_id", "Component", "Timestamp(us)", "Total Reserved(MB)", "Device"], rows)


def step_trace_time(process: Process) -> str:
    rows = []
    for step in process.steps:
        times = times_of(process, step)
        computing, communication, alone, free = (
            noisy(end - start for start, end in bars) for bars in times.pop("_bars").values()
        )
        bubble = times["bubble_ns"] / 1000
        rows.append([
            process.device, step.number, computing, alone, communication - alone, communication, free,
            times["stage_ns"] / 1000, bubble, max(0, alone - bubble), times["preparing_ns"] / 1000,
        ])  # fmt: skip
    titles = ("Device_id", "Step", "Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free",
              "Stage", "Bubble", "Communication(Not Overlapped and Exclude Receive)", "Preparing")  # fmt: skip
    return _csv(titles, rows)


def _grouped(rows: Iterable[tuple[tuple[str, ...], int]]) -> dict[tuple[str, ...], list[int]]:
    found: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for key, ns in rows:
        found[key].append(ns)
    return dict(sorted(found.items(), key=lambda item: (-sum(item[1]), item[0])))


def _in_us(ns: float) -> float:
    return round(ns / 1000, 3)


def op_statistic(process: Process) -> str:
    found = _grouped(((task.type, task.core), task.end_ns - task.start_ns) for task in process.kernels)
    whole = sum(sum(times) for times in found.values())
    rows = [
        [
            process.device,
            *key,
            len(t),
            *map(_in_us, (sum(t), min(t), sum(t) / len(t), max(t))),
            round(100 * sum(t) / whole, 3),
        ]
        for key, t in found.items()
    ]
    times = [f"{what} Time(us)" for what in ("Total", "Min", "Avg", "Max")]
    return _csv(["Device_id", "OP Type", "Core Type", "Count", *times, "Ratio(%)"], rows)


def api_statistic(process: Process) -> str:
    found = _grouped(((c.level, c.name.partition("@")[2]), c.end_ns - c.start_ns) for c in process.calls)
    rows = []
    for key, t in found.items():
        mean = sum(t) / len(t)
        variance = round(sum((one - mean) ** 2 for one in t) / len(t) / 1e6, 3)
        rows.append(["host", *key, _in_us(sum(t)), len(t), *map(_in_us, (mean, min(t), max(t))), variance])
    return _csv(
        ["Device_id", "Level", "API Name", "Time(us)", "Count", "Avg(us)", "Min(us)", "Max(us)", "Variance"], rows
    )


def l2_cache(process: Process) -> str:
    rows = []
    for task in process.kernels:
        if task.core in ("AI_CORE", "MIX_AIC", "MIX_AIV", "AI_VECTOR_CORE"):
            hit = "N/A" if not rows else "0.214" if task.bound == "mte2" else "0.871"
            rows.append([process.device, task.stream, task.number, hit, "0.0931", task.name])
    return _csv(["Device_id", "Stream Id", "Task Id", "Hit Rate", "Victim Rate", "Op Name"], rows)


def data_preprocess(process: Process) -> str:
    rows = []
    for task in process.kernels:
        if task.core == "AI_CPU":
            whole = task.end_ns - task.start_ns
            parts = (whole * 6 // 10, whole // 10, whole * 8 // 10, whole // 5, whole)
            times = [_in_us(part // GRID_NS * GRID_NS) for part in parts]
            rows.append([process.device, stamp(task.start_ns), task.name, *times, task.stream, task.number])
    times = [f"{what}_time(us)" for what in ("Compute", "Memcpy", "Task", "Dispatch", "Total")]
    return _csv(["Device_id", "Timestamp(us)", "Node", *times, "Stream ID", "Task ID"], rows)


_BANDS = ("RDMA", "HCCS", "PCIE", "SDMA", "SIO")


def _packets(one: Collective) -> list[Range]:
    """When each packet of an operation is on its way."""
    count = one.bytes // one.packet_bytes
    edges = [one.ready_ns + (one.moved_ns - one.ready_ns) * part // count for part in range(count + 1)]
    return list(pairwise(edges))


def _bands(found: Iterable[Collective], is_total: bool) -> Json:
    made: Json = {}
    for band in _BANDS:
        size, time, packets = 0.0, 0.0, dict[str, list[float]]()
        for one in found if band in ("HCCS", "SDMA") else ():
            size += one.bytes / 1e6
            time += (one.moved_ns - one.ready_ns) / 1e6
            if band == "HCCS":
                spread = packets.setdefault(str(one.packet_bytes / 1e6), [0, 0.0])
                spread[0] += one.bytes // one.packet_bytes
                spread[1] += (one.moved_ns - one.ready_ns) / 1e6
        rate = {} if is_total else {"Bandwidth(GB/s)": round(size / time, 4) if time else 0, "Large Packet Ratio": 0}
        made[band] = {"Transit Size(MB)": size, "Transit Time(ms)": time, **rate, "Size Distribution": packets}
    return made


def _times(found: list[Collective]) -> Json:
    elapse, transit, wait = (
        sum(part) / 1e6
        for part in (
            [one.end_ns - one.start_ns for one in found],
            [one.moved_ns - one.ready_ns for one in found],
            [one.ready_ns - one.start_ns for one in found],
        )
    )
    ratio = wait / (wait + transit) if wait + transit else 0
    return {
        "Elapse Time(ms)": elapse, "Transit Time(ms)": transit, "Wait Time(ms)": wait, "Synchronization Time(ms)": wait,
        "Idle Time(ms)": elapse - transit - wait, "Wait Time Ratio": ratio, "Synchronization Time Ratio": ratio,
    }  # fmt: skip


def _by_class(process: Process, of: Callable[[list[Collective]], Json]) -> str:
    made: Json = {}
    for step in process.steps:
        found: dict[str, list[Collective]] = {"p2p": [], "collective": []}
        for one in process.collectives:
            if one.step == step.number:
                found["p2p" if one.group == "pp" else "collective"].append(one)
        made[f"step{step.number}"] = {name: of(some) for name, some in found.items()}
    return _json(made)


def communication(process: Process) -> str:
    def of(some: list[Collective]) -> Json:
        made = {
            f"{one.name}@{GROUPS[one.group]}": {
                "Communication Time Info": {"Start Timestamp(us)": one.start_ns / 1000, **_times([one])},
                "Communication Bandwidth Info": _bands([one], False),
            }
            for one in some
        }
        total = {"Communication Time Info": _times(some), "Communication Bandwidth Info": _bands(some, True)}
        return {**made, "Total Op Info": total}

    return _by_class(process, of)


def communication_matrix(process: Process) -> str:
    here, there = process.rank, 1 - process.rank

    def link(some: list[Collective], share: int, kind: str) -> Json:
        size, time = (
            sum(part) / 1e6 / share for part in zip(*((o.bytes, o.moved_ns - o.ready_ns) for o in some), strict=True)
        )
        name = {"Op Name": some[0].name} if len(some) == 1 else {}
        rate = round(size / time, 4)
        return {
            "Transport Type": kind,
            "Transit Size(MB)": size,
            "Transit Time(ms)": time,
            "Bandwidth(GB/s)": rate,
            **name,
        }

    def of(some: list[Collective]) -> Json:
        made: Json = {}
        for kind in dict.fromkeys(one.type for one in some):
            # By the bandwidth of the link, the best first.
            alike = sorted((one for one in some if one.type == kind), key=lambda o: (o.moved_ns - o.ready_ns) / o.bytes)
            pair = f"{there}-{here}" if "receive" in kind else f"{here}-{there}"
            for which, chosen in (("top1", alike[:1]), ("bottom1", alike[-1:]), ("total", alike)):
                links = {f"{here}-{here}": link(chosen, 16, "LOCAL")} if kind == "hcom_allReduce_" else {}
                made[f"{kind[5:-1].lower()}-{which}@{GROUPS[alike[0].group]}"] = {
                    **links,
                    pair: link(chosen, 1, "HCCS"),
                }
        return made

    return _by_class(process, of)


# ---------------------------------------------------------------------------------------------------- the trace view


class TraceView:
    """Events as the producer writes them: a bare list, times as texts."""

    SORT: ClassVar = {
        "Python GC": 1, "CANN": 7, "Ascend Hardware": 13, "AI Core Freq": 14, "Communication": 15, "HBM": 17, "NPU MEM": 19,
        "Overlap Analysis": 23,
    }  # fmt: skip

    def __init__(self, process: Process) -> None:
        self.p = process
        self.events: list[Json] = []

    def text(self) -> str:
        """Returns the file."""
        self._host()
        self._cann()
        self._streams()
        self._groups()
        self._counters()
        for tid, (lane, bars) in enumerate(bars_of(self.p).items()):
            for start, end in bars:
                self._add("X", lane, self._pid("Overlap Analysis"), tid, start, end - start)
        return _json([*self._names(), *self.events])

    def _pid(self, name: str) -> int:
        return self.p.pid << 10 | self.SORT[name] << 5 | self.p.device

    def _add(self, ph: str, name: str, pid: int, tid: int, at: int, dur: int | None = None, **more: Any) -> None:
        took = {} if dur is None else {"dur": dur / 1000}
        self.events.append({"ph": ph, "name": name, "pid": pid, "tid": tid, "ts": us(at), **took, **more})

    def _arrow(
        self, cat: str, name: str, number: int | str, source: tuple[int, int, int], target: tuple[int, int, int]
    ) -> None:
        for ph, (pid, tid, at) in (("s", source), ("f", target)):
            self._add(ph, name, pid, tid, at, bp="e", id=number, cat=cat)

    def _names(self) -> list[Json]:
        npu = f"NPU {self.p.device}"
        rows: list[tuple[str, int, str, int, dict[int, str]]] = [
            ("Python", self.p.pid, "CPU", 0, {t: f"Thread {t}" for t in self.p.threads}),
            ("Python GC", self._pid("Python GC"), "CPU", 1, {self.p.main: f"Thread {self.p.main}"}),
            ("CANN", self._pid("CANN"), "CPU", 7, {self.p.queue_thread: f"Thread {self.p.queue_thread}"}),
            ("Ascend Hardware", self._pid("Ascend Hardware"), npu, 13, {n: f"Stream {n}" for n in (COMPUTE, COPIES)}),
            ("Communication", self._pid("Communication"), npu, 15, {
                0: "Group 0 Communication", 1: "Plane 0", 2: "Group 1 Communication", 3: "Plane 0"}),
            ("Overlap Analysis", self._pid("Overlap Analysis"), npu, 23, dict(enumerate(bars_of(self.p)))),
            *((name, self._pid(name), npu, self.SORT[name], {}) for name in ("AI Core Freq", "HBM", "NPU MEM")),
        ]  # fmt: skip
        made: list[Json] = []
        for name, pid, label, sort, threads in rows:
            facts = [
                ("process_name", "name", name),
                ("process_labels", "labels", label),
                ("process_sort_index", "sort_index", sort),
            ]
            made += [
                {"ph": "M", "name": what, "pid": pid, "tid": 0, "args": {key: value}} for what, key, value in facts
            ]
            for order, (tid, thread) in enumerate(threads.items()):
                facts = [("thread_name", "name", thread), ("thread_sort_index", "sort_index", order)]
                made += [
                    {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {key: value}}
                    for what, key, value in facts
                ]
        return made

    def _host(self) -> None:
        p = self.p
        for op in p.ops:
            args: Json = {"Sequence number": op.sequence, "Fwd thread id": op.forward_thread}
            if op.shapes:
                args |= {"Input Dims": ";\r\n".join(op.shapes), "Input type": ";\r\n".join(op.types)}
            if op.stack:
                args["Call stack"] = ";\r\n".join(op.stack)
            self._add("X", op.name, p.pid, op.thread, op.start_ns, op.end_ns - op.start_ns, cat="cpu_op", args=args)
        for frame in p.frames:
            args = {"Python id": frame.number, "Python parent id": frame.parent}
            if frame.module is not None:
                args["Python module id"] = frame.module
            self._add(
                "X",
                frame.name,
                p.pid,
                p.main,
                frame.start_ns,
                frame.end_ns - frame.start_ns,
                cat="python_function",
                args=args,
            )
        for one in p.queue:
            args = {"correlation_id": one.correlation}
            self._add(
                "X", "Enqueue", p.pid, one.thread, one.start_ns, one.end_ns - one.start_ns, cat="enqueue", args=args
            )
            self._add(
                "X", one.name, p.pid, p.queue_thread, one.taken_ns, one.done_ns - one.taken_ns, cat="dequeue", args=args
            )
            target = (p.pid, p.queue_thread, one.taken_ns)
            self._arrow(
                "async_task_queue", "enqueue_to_dequeue", one.correlation, (p.pid, one.thread, one.start_ns), target
            )
        for source, target in p.forward_backward:
            ends = [(p.pid, p.ops[place].thread, p.ops[place].start_ns) for place in (source, target)]
            self._arrow("fwdbwd", "fwdbwd", p.ops[source].sequence, ends[0], ends[1])
        for start, end in p.collections:
            self._add("X", "GC", self._pid("Python GC"), p.main, start, end - start, cat="GC")

    def _cann(self) -> None:
        p = self.p
        for call in p.calls:
            args = {
                "Thread Id": p.queue_thread, "Mode": "ACL_RTS", "level": call.level, "id": call.name.partition("@")[2],
                "item_id": "0", "connection_id": call.connection,
            }  # fmt: skip
            self._add(
                "X", call.name, self._pid("CANN"), p.queue_thread, call.start_ns, call.end_ns - call.start_ns, args=args
            )

    def _launched(self, connection: int, op: int, pid: int, tid: int, start: int) -> None:
        """Both arrows to work of the device: from the call of the framework, and from the last call of CANN for it."""
        p = self.p
        if op < 0:
            return
        end = (pid, tid, start)
        self._arrow("async_npu", "torch_to_npu", start, (p.pid, p.ops[op].thread, p.ops[op].start_ns), end)
        call = [one for one in p.calls if one.connection == connection and one.level in ("node", "acl")][-1]
        source = (self._pid("CANN"), p.queue_thread, call.start_ns)
        self._arrow("HostToDevice", f"HostToDevice{connection}", str(connection), source, end)

    def _streams(self) -> None:
        pid = self._pid("Ascend Hardware")
        for task in self.p.tasks:
            args: Json = {
                "Model Id": NO_MODEL, "Task Type": task.task_type, "Physic Stream Id": task.stream, "Task Id": task.number,
                "Batch Id": 0, "Subtask Id": NO_MODEL, "connection_id": task.connection,
            }  # fmt: skip
            if task.bytes:
                args |= {"data size(Byte)": task.bytes, "memcpy direction": "H2D" if task.bytes > 4 else "D2H"}
            self._add("X", task.name, pid, task.stream, task.start_ns, task.end_ns - task.start_ns, args=args)
            self._launched(task.connection, task.op, pid, task.stream, task.start_ns)

    def _groups(self) -> None:
        pid = self._pid("Communication")
        for one in self.p.collectives:
            tid = 2 * list(GROUPS).index(one.group)
            args: Json = {
                "connection_id": one.connection, "model id": NO_MODEL, "data_type": "FP32", "alg_type": "MESH-RING",
                "count": one.count,
            }  # fmt: skip
            self._add("X", one.name, pid, tid, one.start_ns, one.end_ns - one.start_ns, args=args)
            self._launched(one.connection, one.op, pid, tid, one.start_ns)
            if one.ready_ns > one.start_ns:
                args = {
                    "notify_id": "7",
                    "task type": "Notify_Wait",
                    "src rank": 1 - self.p.rank,
                    "dst rank": self.p.rank,
                }
                self._add("X", "Notify_Wait", pid, tid + 1, one.start_ns, one.ready_ns - one.start_ns, args=args)
            for start, end in _packets(one):
                args = {
                    "task type": "Memcpy", "src rank": self.p.rank, "dst rank": 1 - self.p.rank, "transport type": "SDMA",
                    "size(Byte)": one.packet_bytes, "data type": "FP32", "link type": "HCCS",
                }  # fmt: skip
                self._add("X", "Memcpy", pid, tid + 1, start, end - start, args=args)

    def _counters(self) -> None:
        for at, mhz in self.p.frequency:
            self._add("C", "AI Core Freq", self._pid("AI Core Freq"), 0, at, args={"MHz": mhz})
        for at, size in process_levels(self.p):
            self._add("C", "APP/HBM", self._pid("NPU MEM"), 0, at, args={"KB": size / KIB})
            self._add("C", "HBM 0/Read", self._pid("HBM"), 0, at, args={"Read(MB/s)": 1234.5})


TEXTS: dict[str, Callable[[Process], str]] = {
    "trace_view.json": lambda process: TraceView(process).text(),
    "kernel_details.csv": kernel_details,
    "operator_details.csv": operator_details,
    "operator_memory.csv": operator_memory,
    "memory_record.csv": memory_record,
    "npu_module_mem.csv": npu_module_mem,
    "step_trace_time.csv": step_trace_time,
    "op_statistic.csv": op_statistic,
    "api_statistic.csv": api_statistic,
    "communication.json": communication,
    "communication_matrix.json": communication_matrix,
    "l2_cache.csv": l2_cache,
    "data_preprocess.csv": data_preprocess,
}


def texts(process: Process) -> dict[str, bytes]:
    """Returns the files of the text export by their place in the folder of the rank."""
    made = {
        f"profiler_info_{process.rank}.json": json.dumps(settings(process), indent=4),
        "profiler_metadata.json": json.dumps(metadata(process)),
        **{f"ASCEND_PROFILER_OUTPUT/{name}": make(process) for name, make in TEXTS.items()},
    }
    return {name: text.encode() for name, text in made.items()}


# ---------------------------------------------------------------------------------------------------- the databases

_LEVELS = {"runtime": 5000, "hccl": 5500, "node": 10000, "model": 15000, "acl": 20000}
_OPERATOR, _QUEUE, _FRAME = 50001, 50002, 50003
_NONE = 2**32 - 1
_DATA_TYPES = ("INT8", "INT16", "INT32", "FP16", "FP32")
_SCHEMA = {
    "STRING_IDS": "id INTEGER PRIMARY KEY, value TEXT",
    "META_DATA": "name TEXT, value TEXT",
    "NPU_INFO": "id INTEGER, name TEXT",
    "HOST_INFO": "hostUid TEXT, hostName TEXT",
    "RANK_DEVICE_MAP": "rankId INTEGER, deviceId INTEGER",
    "ENUM_HCCL_DATA_TYPE": "id INTEGER PRIMARY KEY, name TEXT",
    "ENUM_HCCL_TRANSPORT_TYPE": "id INTEGER PRIMARY KEY, name TEXT",
    "ENUM_HCCL_LINK_TYPE": "id INTEGER PRIMARY KEY, name TEXT",
    "ENUM_MODULE": "id INTEGER PRIMARY KEY, name TEXT",
    "PYTORCH_API": (
        "startNs INTEGER, endNs INTEGER, globalTid INTEGER, connectionId INTEGER, name INTEGER, sequenceNumber INTEGER, "
        "fwdThreadId INTEGER, inputDtypes INTEGER, inputShapes INTEGER, callchainId INTEGER, type INTEGER"
    ),
    "CONNECTION_IDS": "id INTEGER, connectionId INTEGER",
    "PYTORCH_CALLCHAINS": "id INTEGER, stack INTEGER, stackDepth INTEGER",
    "GC_RECORD": "startNs INTEGER, endNs INTEGER, globalTid INTEGER",
    "CANN_API": (
        "startNs INTEGER, endNs INTEGER, type INTEGER, globalTid INTEGER, connectionId INTEGER PRIMARY KEY, name INTEGER"
    ),
    "TASK": (
        "startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER, globalTaskId INTEGER, globalPid INTEGER, "
        "taskType INTEGER, contextId INTEGER, streamId INTEGER, taskId INTEGER, modelId INTEGER"
    ),
    "COMPUTE_TASK_INFO": (
        "name INTEGER, globalTaskId INTEGER PRIMARY KEY, blockNum INTEGER, mixBlockNum INTEGER, taskType INTEGER, "
        "opType INTEGER, inputFormats INTEGER, inputDataTypes INTEGER, inputShapes INTEGER, outputFormats INTEGER, "
        "outputDataTypes INTEGER, outputShapes INTEGER, opState INTEGER, hf32Eligible INTEGER, waitNs INTEGER"
    ),
    "TASK_PMU_INFO": "globalTaskId INTEGER, name INTEGER, value NUMERIC",
    "MEMCPY_INFO": "globalTaskId INTEGER, size INTEGER, memcpyOperation INTEGER",
    "COMMUNICATION_OP": (
        "opName INTEGER, startNs INTEGER, endNs INTEGER, connectionId INTEGER, groupName INTEGER, opId INTEGER PRIMARY KEY, "
        "relay INTEGER, retry INTEGER, dataType INTEGER, algType INTEGER, count NUMERIC, opType INTEGER, deviceId INTEGER, "
        "waitNs INTEGER"
    ),
    "COMMUNICATION_TASK_INFO": (
        "name INTEGER, globalTaskId INTEGER, taskType INTEGER, planeId INTEGER, groupName INTEGER, notifyId INTEGER, "
        "rdmaType INTEGER, srcRank INTEGER, dstRank INTEGER, transportType INTEGER, size INTEGER, dataType INTEGER, "
        "linkType INTEGER, opId INTEGER"
    ),
    "OVERLAP_ANALYSIS": "id INTEGER PRIMARY KEY, deviceId INTEGER, startNs INTEGER, endNs INTEGER, type INTEGER",
    "STEP_TIME": "id INTEGER, startNs INTEGER, endNs INTEGER",
    "OP_MEMORY": (
        "name INTEGER, size INTEGER, allocationTime INTEGER, releaseTime INTEGER, activeReleaseTime INTEGER, "
        "duration INTEGER, activeDuration INTEGER, allocationTotalAllocated INTEGER, allocationTotalReserved INTEGER, "
        "allocationTotalActive INTEGER, releaseTotalAllocated INTEGER, releaseTotalReserved INTEGER, "
        "releaseTotalActive INTEGER, streamPtr INTEGER, deviceId INTEGER"
    ),
    "MEMORY_RECORD": (
        "component INTEGER, timestamp INTEGER, totalAllocated INTEGER, totalReserved INTEGER, totalActive INTEGER, "
        "streamPtr INTEGER, deviceId INTEGER"
    ),
    "NPU_MEM": "type INTEGER, ddr NUMERIC, hbm NUMERIC, timestampNs INTEGER, deviceId INTEGER",
    "NPU_MODULE_MEM": "moduleId INTEGER, timestampNs INTEGER, totalReserved NUMERIC, deviceId INTEGER",
    "AICORE_FREQ": "deviceId INTEGER, timestampNs NUMERIC, freq INTEGER",
    "HBM": "deviceId INTEGER, timestampNs INTEGER, bandwidth NUMERIC, hbmId INTEGER, type INTEGER",
}  # fmt: skip
_ANALYSIS = {
    "StepTraceTime": (
        "deviceId INTEGER, step TEXT, computing NUMERIC, communication_not_overlapped NUMERIC, overlapped NUMERIC, "
        "communication NUMERIC, free NUMERIC, stage NUMERIC, bubble NUMERIC, "
        "communication_not_overlapped_and_exclude_receive NUMERIC, preparing NUMERIC"
    ),
    "CommAnalyzerTime": (
        "hccl_op_name TEXT, group_name TEXT, start_timestamp NUMERIC, elapse_time NUMERIC, transit_time NUMERIC, "
        "wait_time NUMERIC, synchronization_time NUMERIC, idle_time NUMERIC, step TEXT, type TEXT"
    ),
    "CommAnalyzerBandwidth": (
        "hccl_op_name TEXT, group_name TEXT, transport_type TEXT, transit_size NUMERIC, transit_time NUMERIC, "
        "bandwidth NUMERIC, large_packet_ratio NUMERIC, package_size NUMERIC, count NUMERIC, total_duration NUMERIC, "
        "step TEXT, type TEXT"
    ),
    "CommAnalyzerMatrix": (
        "hccl_op_name TEXT, group_name TEXT, src_rank TEXT, dst_rank TEXT, transport_type TEXT, transit_size NUMERIC, "
        "transit_time NUMERIC, bandwidth NUMERIC, step TEXT, type TEXT, op_name TEXT"
    ),
}  # fmt: skip
Tables = dict[str, list[tuple[Any, ...]]]


def _sqlite(rows: Tables, schema: dict[str, str]) -> bytes:
    """A database; small pages, for each of two dozen tables has one at least."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("PRAGMA page_size = 512")
    for table, columns in schema.items():
        connection.execute(f"CREATE TABLE {table} ({columns})")
        for row in rows.get(table, ()):
            connection.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)
    content = connection.serialize()
    connection.close()
    return content


class DatabaseRows:
    """The rows of a rank's database; texts are numbers of one table of texts."""

    def __init__(self, process: Process) -> None:
        self.p = process
        self.rows: Tables = defaultdict(list)
        self._words: dict[str, int] = {}

    def tables(self) -> Tables:
        """Returns all tables."""
        self._about()
        self._host()
        self._calls()
        self._tasks()
        self._groups()
        self._memory()
        self._counters()
        self.rows["STRING_IDS"] = [(number, text) for text, number in self._words.items()]
        return self.rows

    def _word(self, text: str) -> int:
        return self._words.setdefault(text, len(self._words))

    def _thread(self, thread: int) -> int:
        return self.p.pid << 32 | thread

    def _about(self) -> None:
        p, rows = self.p, self.rows
        rows["META_DATA"] = [("SCHEMA_VERSION", "1.1.0"), *((key, _plain(value)) for key, value in metadata(p).items())]
        rows["NPU_INFO"] = [(p.device, "Ascend910B")]
        rows["HOST_INFO"] = [("1", "invented")]
        rows["RANK_DEVICE_MAP"] = [(p.rank, p.device)]
        rows["ENUM_HCCL_DATA_TYPE"] = list(enumerate(_DATA_TYPES))
        rows["ENUM_HCCL_TRANSPORT_TYPE"] = [(0, "SDMA"), (1, "RDMA")]
        rows["ENUM_HCCL_LINK_TYPE"] = [(0, "ON_CHIP"), (1, "HCCS")]
        rows["STEP_TIME"] = [(step.number, step.start_ns, step.end_ns) for step in p.steps]

    def _host(self) -> None:
        """Calls, and by which connections they are joined to what they launched and to the queue."""
        p, rows, word = self.p, self.rows, self._word
        launched: dict[int, list[int]] = defaultdict(list)
        for one in (*p.tasks, *p.collectives):
            if one.op >= 0:
                launched[one.op].append(one.connection)
        queued = 1_000_000
        for place, op in enumerate(p.ops):
            chain = place if op.stack else None
            for depth, frame in enumerate(op.stack):
                rows["PYTORCH_CALLCHAINS"].append((place, word(frame), depth))
            for connection in dict.fromkeys(launched.get(place, ())):
                rows["CONNECTION_IDS"].append((place, connection))
            types, shapes = (word(";\r\n".join(of)) if op.shapes else None for of in (op.types, op.shapes))
            own = place if place in launched else None
            rows["PYTORCH_API"].append((
                op.start_ns, op.end_ns, self._thread(op.thread), own, word(op.name), op.sequence, op.forward_thread, types,
                shapes, chain, _OPERATOR,
            ))  # fmt: skip
        for number, queue in enumerate(p.queue):
            for end, (name, thread, start, stop) in enumerate(
                (
                    ("Enqueue", queue.thread, queue.start_ns, queue.end_ns),
                    (queue.name, p.queue_thread, queue.taken_ns, queue.done_ns),
                )
            ):
                identity = queued + 2 * number + end
                rows["CONNECTION_IDS"].append((identity, queued + queue.correlation))
                rows["PYTORCH_API"].append(
                    (start, stop, self._thread(thread), identity, word(name), *[None] * 5, _QUEUE)
                )
        for frame in p.frames:
            rows["PYTORCH_API"].append(
                (frame.start_ns, frame.end_ns, self._thread(p.main), None, word(frame.name), *[None] * 5, _FRAME)
            )
        rows["GC_RECORD"] = [(start, end, self._thread(p.main)) for start, end in p.collections]

    def _calls(self) -> None:
        """Calls of CANN. Each has a connection of its own here; that of a task is its first call's."""
        first = {call.connection: place for place, call in reversed(list(enumerate(self.p.calls)))}
        thread = self._thread(self.p.queue_thread)
        for place, call in enumerate(self.p.calls):
            connection = call.connection if first[call.connection] == place else 2_000_000 + place
            name = self._word(call.name.partition("@")[2])
            self.rows["CANN_API"].append((call.start_ns, call.end_ns, _LEVELS[call.level], thread, connection, name))

    def _task(self, start: int, end: int, connection: int, task: str, stream: int, number: int) -> int:
        """Adds a task and returns its number in the whole database."""
        known = len(self.rows["TASK"])
        self.rows["TASK"].append((
            start, end, self.p.device, connection, known, self.p.pid, self._word(task), _NONE, stream, number, NO_MODEL,
        ))  # fmt: skip
        return known

    def _tasks(self) -> None:
        rows, word = self.rows, self._word
        blocks = {"AI_CORE": CUBE_CORES, "MIX_AIC": CUBE_CORES, "AI_VECTOR_CORE": VECTOR_CORES, "MIX_AIV": VECTOR_CORES}
        for task in self.p.tasks:
            what = task.task_type if task.core else task.name  # a copy has no name but its type
            known = self._task(task.start_ns, task.end_ns, task.connection, what, task.stream, task.number)
            if task.bytes:
                direction = "H2D" if task.bytes > 4 else "D2H"
                rows["MEMCPY_INFO"].append((known, task.bytes, word(direction)))
            if not task.core:
                continue
            facts = []
            for text in task.shapes:
                count = text.count(";") + 1
                many = ["N/A"] * 2 if text == "N/A" else [";".join([each] * count) for each in ("ND", "FLOAT")]
                facts += [word(each) for each in (*many, text if text == "N/A" else f'"{text}"')]
            state = word("static" if task.core == "AI_CPU" else "dynamic")
            rows["COMPUTE_TASK_INFO"].append((
                word(task.name), known, blocks.get(task.core, 0), 0, word(task.core), word(task.type), *facts, state,
                word("NO"), task.wait_ns,
            ))  # fmt: skip
            for title, text in counters(task).items():
                if text != "N/A" and title != "cube_utilization(%)":
                    rows["TASK_PMU_INFO"].append((known, *self._counted(title, text)))

    def _counted(self, title: str, text: str) -> tuple[int, float]:
        """The name of a counter here, where times are nanoseconds, and its value."""
        name = title.removesuffix("(us)")
        if name == title:
            return self._word(name), float(text)
        name = {"aicore_time": "aic_total_time", "aiv_time": "aiv_total_time"}.get(name, name)
        return self._word(name), round(float(text) * 1000)

    def _groups(self) -> None:
        p, rows, word = self.p, self.rows, self._word
        for number, one in enumerate(p.collectives):
            group = word(GROUPS[one.group])
            rows["COMMUNICATION_OP"].append((
                word(one.name), one.start_ns, one.end_ns, one.connection, group, number, 0, 0, _DATA_TYPES.index("FP32"),
                word("MESH-RING"), one.count, word(one.type), p.device, one.wait_before_ns,
            ))  # fmt: skip
            stream = PIPELINE if one.group == "pp" else SUMS
            tasks = (
                [("Notify_Wait", "Notify Wait", one.start_ns, one.ready_ns, 0)] if one.ready_ns > one.start_ns else []
            )
            tasks += [("Memcpy", "SDMA", start, end, one.packet_bytes) for start, end in _packets(one)]
            for place, (name, task, start, end, size) in enumerate(tasks):
                known = self._task(start, end, one.connection, task, stream, 10_000 + 100 * number + place)
                here, there = p.rank, 1 - p.rank
                ranks = (here, there) if size else (there, here)
                rows["COMMUNICATION_TASK_INFO"].append((
                    word(one.name), known, word(name), 0, group, 7, 65535, *ranks, 0, size, _DATA_TYPES.index("FP32"), 1,
                    number,
                ))  # fmt: skip
        for what, bars in enumerate(bars_of(p).values()):
            for start, end in bars:
                rows["OVERLAP_ANALYSIS"].append((len(rows["OVERLAP_ANALYSIS"]), p.device, start, end, what))

    def _memory(self) -> None:
        p, rows, word = self.p, self.rows, self._word
        stream = 897_357_296 + p.rank
        given: dict[tuple[int, bool], Level] = {}
        for allocator in ("PTA", "GE"):
            for level in levels_of(p, allocator):
                given[level.block, p.blocks[level.block].start_ns == level.at] = level
        for number, block in enumerate(p.blocks):
            if block.allocator == "WORKSPACE":
                continue
            is_graph = block.allocator == "GE"
            start, end = block.start_ns, block.end_ns
            active = end - 510 if end is not None and not is_graph else None
            totals: list[int | None] = []
            for is_begin in (True, False):
                at = given.get((number, is_begin))
                totals += [at.allocated, at.reserved, None if is_graph else at.allocated] if at else [None] * 3
            whole = end - start if start is not None and end is not None else None
            held = active - start if start is not None and active is not None else None
            name = block.name.removeprefix("cann::") if is_graph else block.name
            size = block.bytes if start is not None else -block.bytes
            rows["OP_MEMORY"].append(
                (
                    word(name) if name else None,
                    size,
                    start,
                    end,
                    active,
                    whole,
                    held,
                    *totals,
                    None if is_graph else stream,
                    p.device,
                )
            )
        record = rows["MEMORY_RECORD"]
        for name, level, sides in together(p):
            active = level.allocated if name == "PTA" else None
            record.append((word(name), level.at, level.allocated, level.reserved, active, stream, p.device))
            sums = [sum(one[of] for one in sides.values()) for of in (0, 1)]
            record.append((word("PTA+GE"), level.at, *sums, sides["PTA"][0], stream, p.device))
        for level in levels_of(p, "WORKSPACE"):
            record.append((word("WORKSPACE"), level.at, level.allocated, level.reserved, None, stream, p.device))
        rows["NPU_MEM"] = [(word("app"), 0, size, at, p.device) for at, size in process_levels(p)]
        for number, (name, levels) in enumerate(component_levels(p).items()):
            rows["ENUM_MODULE"].append((number, name))
            rows["NPU_MODULE_MEM"] += [(number, at, size, p.device) for at, size in levels]

    def _counters(self) -> None:
        p = self.p
        self.rows["AICORE_FREQ"] = [(p.device, at, mhz) for at, mhz in p.frequency]
        read = self._word("read")
        self.rows["HBM"] = [(p.device, at, round(1234.5 * MIB), 0, read) for at, _ in process_levels(p)]


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def analysis(process: Process) -> Tables:
    """Returns what the tool works out of the rows: times of steps, and what communication.json and its matrix say."""
    rows: Tables = defaultdict(list)
    table = list(csv.reader(io.StringIO(step_trace_time(process), newline="")))
    rows["StepTraceTime"] = [(int(device), step, *map(float, times)) for device, step, *times in table[1:]]
    for step, classes in json.loads(communication(process)).items():
        for kind, found in classes.items():
            for name, said in found.items():
                op, _, group = name.partition("@")
                of = said["Communication Time Info"]
                times = [of[f"{key} Time(ms)"] for key in ("Elapse", "Transit", "Wait", "Synchronization", "Idle")]
                if group:
                    rows["CommAnalyzerTime"].append((op, group, of["Start Timestamp(us)"], *times, step, kind))
                for band, told in said["Communication Bandwidth Info"].items() if group else ():
                    sums = tuple(
                        told[key]
                        for key in ("Transit Size(MB)", "Transit Time(ms)", "Bandwidth(GB/s)", "Large Packet Ratio")
                    )
                    # A kind of link whose parts have the packets has one row without any.
                    packets = told["Size Distribution"] or ({"0": (0, 0)} if told["Transit Size(MB)"] else {})
                    rows["CommAnalyzerBandwidth"] += [
                        (op, group, band, *sums, float(size), count, took, step, kind)
                        for size, (count, took) in packets.items()
                    ]
    for step, classes in json.loads(communication_matrix(process)).items():
        for kind, found in classes.items():
            for name, links in found.items():
                op, _, group = name.partition("@")
                for pair, told in links.items():
                    size, took, rate = (
                        told[key] for key in ("Transit Size(MB)", "Transit Time(ms)", "Bandwidth(GB/s)")
                    )
                    rows["CommAnalyzerMatrix"].append((
                        op, group, *pair.split("-"), told["Transport Type"], size, took, rate, step, kind,
                        told.get("Op Name", ""),
                    ))  # fmt: skip
    return rows


def databases(process: Process) -> dict[str, bytes]:
    """Returns the files of the export as databases by their place in the folder of the rank."""
    info = settings(process)
    info["config"]["experimental_config"]["_export_type"] = ["db"]
    return {
        f"profiler_info_{process.rank}.json": json.dumps(info, indent=4).encode(),
        f"ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler_{process.rank}.db": _sqlite(
            DatabaseRows(process).tables(), _SCHEMA
        ),
        "ASCEND_PROFILER_OUTPUT/analysis.db": _sqlite(analysis(process), _ANALYSIS),
    }


WRITERS: dict[str, Callable[[Process], dict[str, bytes]]] = {"text": texts, "db": databases}
"""By export: what makes the files of a rank of its records."""


# ---------------------------------------------------------------------------------------------------- truth


def _summed(rows: Iterable[tuple[str, dict[str, int]]]) -> Json:
    found: dict[str, dict[str, int]] = {}
    for name, numbers in rows:
        of = found.setdefault(name, {"calls": 0, **dict.fromkeys(numbers, 0)})
        of["calls"] += 1
        for key, value in numbers.items():
            of[key] += value
    return dict(sorted(found.items()))


def _lasting(tasks: Iterable[Task | Collective], key: Callable[[Any], str]) -> Json:
    return _summed((key(task), {"total_ns": task.end_ns - task.start_ns}) for task in tasks)


def _memory_of(process: Process) -> Json:
    levels = {allocator: levels_of(process, allocator) for allocator in ("PTA", "GE", "WORKSPACE")}
    both = [sum(one[0] for one in sides.values()) for *_, sides in together(process)]
    blocks = [block for block in process.blocks if block.allocator != "WORKSPACE"]
    return {
        "peak_allocated_bytes": {
            **{name: max(level.allocated for level in some) for name, some in levels.items()}, "PTA+GE": max(both),
        },
        "peak_reserved_bytes": {
            **{name: max(level.reserved for level in some) for name, some in levels.items()},
            "APP": max(size for _, size in process_levels(process)),
        },
        "records": {**{name: len(some) for name, some in levels.items()}, "PTA+GE": len(both), "APP": len(sampled(process))},
        "blocks": len(blocks),
        "older_than_the_window": sum(block.start_ns is None for block in blocks),
        "held_at_the_end": sum(block.end_ns is None for block in blocks),
        "of_the_graph_engine": sum(block.allocator == "GE" for block in blocks),
        "peak_of_components_bytes": {
            name: max((size for _, size in levels if size >= 0), default=None)
            for name, levels in component_levels(process).items()
        },
    }  # fmt: skip


_TOLD = ("name", "type", "group", "step", "start_ns", "bytes", "packet_bytes", "last_rank")


def truth_of(process: Process) -> Json:
    """Returns what is true of a rank, in nanoseconds since 1970."""
    host, device, cores = host_times(process), device_times(process), device_times(process, on_cores=True)
    names = ("host_self_ns", "host_total_ns", "device_self_ns", "device_total_ns", "cores_self_ns", "cores_total_ns")
    ops = process.ops
    launches = sorted(
        (one for one in (*process.tasks, *process.collectives) if one.op >= 0), key=lambda one: (one.start_ns, one.name)
    )
    return {
        "rank": process.rank,
        "device": process.device,
        "pid": process.pid,
        "steps": [
            {
                **asdict(step),
                "device_start_ns": device_range(process, step)[0],
                "device_end_ns": device_range(process, step)[1],
                **{key: value for key, value in times_of(process, step).items() if key != "_bars"},
            }
            for step in process.steps
        ],
        "kernels": _lasting(process.kernels, lambda task: task.name),
        "kernels_by_type": _lasting(process.kernels, lambda task: task.type),
        "kernels_by_core": _lasting(process.kernels, lambda task: task.core),
        "kernels_bound_by_reading": sorted({task.name for task in process.kernels if task.bound == "mte2"}),
        "kernels_outside_steps": sum(task.step is None for task in process.kernels),
        "operators": _summed(
            (op.name, dict(zip(names, (*host[place], *device[place], *cores[place]), strict=True)))
            for place, op in enumerate(ops)
            if not op.name.startswith("ProfilerStep#")
        ),
        "launches": [
            {"name": one.name, "start_ns": one.start_ns, "dur_ns": one.end_ns - one.start_ns, "operator": ops[one.op].name,
             "operator_start_ns": ops[one.op].start_ns}
            for one in launches
        ],
        "collectives": [
            {
                **{key: getattr(one, key) for key in _TOLD},
                "elapse_ns": one.end_ns - one.start_ns,
                "wait_ns": one.ready_ns - one.start_ns,
                "transit_ns": one.moved_ns - one.ready_ns,
                "idle_ns": one.end_ns - one.moved_ns,
            }
            for one in process.collectives
        ],
        "waited_for_ns": {
            str(other): sum(one.ready_ns - one.start_ns for one in process.collectives if one.last_rank == other)
            for other in range(RANKS)
            if other != process.rank
        },
        "memory": _memory_of(process),
        "frequency_mhz": [list(change) for change in process.frequency],
        "collections_of_garbage": [list(one) for one in process.collections],
    }  # fmt: skip


def truth_document(config: Config, run: str, processes: list[Process] | None = None) -> Json:
    """Returns the truth of a run."""
    return {
        "run": run, "synthetic": True, "made_by": "samples/synthetic_ascend.py, not recorded", "config": asdict(config),
        "slow_rank": SLOW_RANK, "ranks": {str(p.rank): truth_of(p) for p in processes or play(config)},
    }  # fmt: skip


def write(processes: list[Process], out_dir: Path, exports: Iterable[str] = ("text",)) -> list[Path]:
    """Writes the folders of all ranks."""
    paths = []
    for process in processes:
        for export in exports:
            for name, content in WRITERS[export](process).items():
                paths.append(out_dir / folder_of(process) / name)
                paths[-1].parent.mkdir(parents=True, exist_ok=True)
                paths[-1].write_bytes(content)
    return paths


def main(arguments: list[str] | None = None) -> None:
    """Writes a run, and its truth where it is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("out_dir", type=Path, help="folder of the run; created")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--export", action="append", choices=sorted(WRITERS), help="repeatable; text without it")
    parser.add_argument("--truth", type=Path, default=None, help="write the truth to this JSON file")
    chosen = parser.parse_args(arguments)
    config = Config(chosen.steps, chosen.seed)
    processes = play(config)
    paths = write(processes, chosen.out_dir, chosen.export or ("text",))
    print(f"{len(paths)} files, {sum(path.stat().st_size for path in paths):,} bytes, in {chosen.out_dir}")
    if chosen.truth is not None:
        chosen.truth.parent.mkdir(parents=True, exist_ok=True)
        chosen.truth.write_text(json.dumps(truth_document(config, chosen.out_dir.name, processes)) + "\n")
        print(chosen.truth)


if __name__ == "__main__":
    main()
