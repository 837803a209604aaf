"""One rank in play: clocks of its threads and streams, and the records that it leaves."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from events import MIB

from .kernels import LAYOUT, NONZERO, Kernel
from .records import (
    COMPUTE,
    COPIES,
    EPOCH_NS,
    GRID_NS,
    GROUPS,
    NORMAL_MHZ,
    PIPELINE,
    SUMS,
    Block,
    Call,
    Collective,
    Config,
    Frame,
    HostOp,
    Process,
    Queued,
    Task,
)


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
