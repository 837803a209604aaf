"""Random programs, and a machine that runs them by its own scheduling rules: as recorded, or with changed durations.

The machine shares no code with the simulation of Torch Trace. A kernel starts when its launch has arrived, when its stream is
free, and when the streams that it waits for are done. Times are whole nanoseconds.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.builders import TraceBuilder, Work, kernel, memcpy, trace

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
KERNELS = {"sgemm_nn": "gemm", "flash_fwd_kernel": "attention", "vectorized_elementwise_kernel": "elementwise"}
OPERATORS = ("aten::linear", "aten::addmm", "aten::mm", "aten::relu", "aten::sum")


@dataclass(frozen=True)
class Faster:
    """A change: work of a kind and name takes ``factor`` times as long; with 0 it is gone."""

    kind: str
    name: str = ""
    factor: float = 1.0

    @property
    def text(self) -> str:
        return f"{self.kind}:{self.name}={self.factor:g}" if self.name else f"{self.kind}={self.factor:g}"

    def of_host(self, ns: int, operators: Sequence[str], word: str) -> int:
        mine = self.kind == "operator" and self.name in operators
        mine |= (self.kind, word) in (("data_loading", "loader"), ("launches", "launch"))
        return round(ns * self.factor) if mine else ns

    def of_device(self, ns: int, operators: Sequence[str], name: str) -> int:
        mine = self.kind == "operator" and self.name in operators
        mine |= self.kind == "kernel" and self.name in (name, "*") and not name.startswith("Mem")
        mine |= self.kind == "class" and KERNELS.get(name) == self.name
        mine |= self.kind == "copies" and name.startswith("Mem")
        return round(ns * self.factor) if mine else ns


@dataclass(frozen=True)
class Instruction:
    """One thing that the program does; ``inside`` are the instructions of an operator."""

    what: str
    name: str = ""
    ns: int = 0
    call_ns: int = 0
    latency_ns: int = 0
    gap_ns: int = 0
    stream: int = 7
    blocking: bool = False
    inside: tuple[Instruction, ...] = ()


@dataclass(frozen=True)
class Program:
    steps: tuple[tuple[Instruction, ...], ...]


def random_program(seed: int, steps: int = 3, size: int = 1, waits: bool = True) -> Program:
    """A training whose steps alike: bound by the host or by the device, with one or two streams.

    ``size`` multiplies its operators. Without ``waits``, the host never waits for the device, which is slower.
    """
    rng = random.Random(seed)
    pace = rng.choice((0.4, 1.0, 1.0, 2.5))  # kernel time relative to the time of a call on the host
    if not waits:
        pace = max(pace, 1.5)
    streams = rng.choice((1, 1, 2))
    sync_share, loads = rng.choice((0.0, 0.02, 0.08)), rng.random() < 0.6
    usual = [2_000 + rng.randrange(4_000), 500 + rng.randrange(1_500)]  # latency of launches, gap between kernels

    def us(low: float, high: float) -> int:
        return round(rng.uniform(low, high) * 1000)

    def near(ns: int) -> int:
        return round(ns * rng.uniform(0.9, 1.1))

    def launch(stream: int = 7) -> Instruction:
        name = rng.choice((*KERNELS, "sgemm_nn"))
        dur = {"sgemm_nn": 60, "flash_fwd_kernel": 90, "vectorized_elementwise_kernel": 12}[name] * pace
        return Instruction("launch", name, us(0.6 * dur, 1.4 * dur), us(2, 5), near(usual[0]), near(usual[1]), stream)

    def copy() -> Instruction:
        blocking = rng.random() < 0.4 and waits
        way = "Memcpy DtoH (Device -> Pageable)" if blocking else "Memcpy HtoD (Pinned -> Device)"
        stream = 9 if streams > 1 and not blocking and rng.random() < 0.5 else 7
        return Instruction("copy", way, us(5, 80), us(3, 6), near(usual[0]), near(usual[1]), stream, blocking)

    def operator(depth: int = 0) -> Instruction:
        name = OPERATORS[0] if depth == 0 and rng.random() < 0.4 else rng.choice(OPERATORS[1:])
        inner = [operator(depth + 1)] if name == OPERATORS[0] else [launch() for _ in range(rng.choice((1, 1, 2)))]
        return Instruction("operator", name, us(4, 20), us(1, 8), inside=tuple(inner))

    def beside() -> list[Instruction]:
        """Work on a second stream: after the first one or at any time, awaited at once, later or never."""
        found = [Instruction("join", stream=9)] if rng.random() < 0.7 else []
        found += [Instruction("operator", "aten::sum", us(4, 10), us(1, 4), inside=(launch(9),))]
        found += [operator() for _ in range(rng.randrange(4))]
        return [*found, *([Instruction("join", stream=7)] if rng.random() < 0.7 else [])]

    def one_step() -> tuple[Instruction, ...]:
        found: list[Instruction] = [Instruction("loader", ns=us(20, 900))] if loads else []
        found += [Instruction("operator", "aten::copy_", us(4, 8), us(1, 3), inside=(copy(),))]
        for _ in range(rng.randrange(8, 20) * size):
            found += [operator()] if streams == 1 or rng.random() < 0.8 else beside()
            if rng.random() < 0.3:
                found += [Instruction("host", ns=us(1, 60))]
            if rng.random() < sync_share and waits:
                found += [Instruction("wait", ns=us(1, 4))]
        if rng.random() < 0.5 and waits:
            found += [Instruction("operator", "aten::item", us(2, 4), us(1, 2), inside=(copy_back(),))]
        return tuple(found)

    def copy_back() -> Instruction:
        way = "Memcpy DtoH (Device -> Pageable)"
        return Instruction("copy", way, us(1, 3), us(3, 6), near(usual[0]), near(usual[1]), 7, True)

    # all steps do the same, with other durations
    shape = one_step()

    def varied(each: Instruction) -> Instruction:
        return Instruction(
            each.what, each.name, near(each.ns), near(each.call_ns), near(each.latency_ns), near(each.gap_ns), each.stream,
            each.blocking, tuple(map(varied, each.inside)),
        )  # fmt: skip

    return Program(tuple(tuple(map(varied, shape)) for _ in range(steps)))


def random_change(seed: int) -> Faster:
    rng = random.Random(seed * 7919 + 1)
    kind = rng.choice(("operator", "operator", "kernel", "kernel", "class", "copies", "data_loading", "launches"))
    name = {"operator": OPERATORS, "kernel": tuple(KERNELS), "class": tuple(KERNELS.values())}.get(kind, ("",))
    factors = (0.0, 0.5) if kind in ("data_loading", "launches") else (0.0, 0.5, 0.5, 2.0)
    return Faster(kind, rng.choice(name), rng.choice(factors))


@dataclass
class Machine:
    """Runs a program and records it."""

    change: Faster = Faster("")
    now: int = 0
    free: dict[int, int] = field(default_factory=lambda: {7: 0, 9: 0})
    ready: dict[int, int] = field(default_factory=lambda: {7: 0, 9: 0})
    builder: TraceBuilder = field(default_factory=trace)
    operators: list[str] = field(default_factory=list)
    records_waits: bool = False
    """Whether the profiler records which event a stream waits for."""
    queue_size: int = 0
    """Launches that may wait for the device; the next launch blocks. 0 = no limit."""
    queued: list[int] = field(default_factory=list)
    """Starts of the work that waited at the last launch."""

    def run(self, program: Program) -> Machine:
        for number, step in enumerate(program.steps):
            begin = self.now
            for each in step:
                self._run(each)
            self.builder.step(number, begin / 1000, (self.now - begin) / 1000)
        return self

    @property
    def end_ns(self) -> int:
        return max(self.now, *self.free.values())

    def _spend(self, ns: int, word: str = "") -> None:
        self.now += self.change.of_host(ns, self.operators, word)

    def _run(self, each: Instruction) -> None:
        begin = self.now
        match each.what:
            case "host":
                self._spend(each.ns)
                self.builder.python("train.py(3): step", begin / 1000, (self.now - begin) / 1000)
            case "loader":
                self._spend(each.ns, "loader")
                self.builder.annotation(LOADER, begin / 1000, (self.now - begin) / 1000)
            case "operator":
                self.operators.append(each.name)
                if self.change == Faster("operator", each.name, 0.0):
                    self.operators.pop()
                    return
                self.builder.op(each.name, begin / 1000, 0)
                row = self.builder.events[-1]
                self._spend(each.ns)
                for inner in each.inside:
                    self._run(inner)
                self._spend(each.call_ns)
                row["dur"] = (self.now - begin) / 1000
                self.operators.pop()
            case "wait":
                self.now = max(self.now, *self.free.values()) + each.ns
                self.builder.call(begin / 1000, (self.now - begin) / 1000, name="cudaDeviceSynchronize")
            case "join":
                self.ready[each.stream] = max(self.free.values())
                self._spend(1_000)
                if self.records_waits:
                    self._record_wait(each.stream, begin)
                else:
                    self.builder.call(begin / 1000, (self.now - begin) / 1000, name="cudaStreamWaitEvent")
            case _:
                self._launch(each)

    def _record_wait(self, stream: int, begin: int) -> None:
        (other,) = {7, 9} - {stream}
        record, at = begin + 1, (begin + 300) / 1000
        self.builder.call(begin / 1000, 0.3, corr=record, name="cudaEventRecord")
        self.builder.call(at, 0.7, corr=record + 1, name="cudaStreamWaitEvent")
        ids = {"correlation": record + 1, "wait_on_stream": other, "wait_on_cuda_event_record_corr_id": record}
        self.builder.event("cuda_sync", "Stream Wait Event", at, 0.7, 0, stream, device=0, stream=stream, **ids)

    def _launch(self, each: Instruction) -> None:
        begin = self.now
        self.queued = sorted(start for start in self.queued if start > self.now)
        if 0 < self.queue_size <= len(self.queued):
            self.now = self.queued[-self.queue_size]
        self._spend(each.call_ns, "launch")
        took = self.change.of_device(each.ns, self.operators, each.name)
        stream, is_copy = each.stream, each.what == "copy"
        work: list[Work] = []
        if took:
            start = max(self.now + each.latency_ns, self.free[stream] + each.gap_ns, self.ready[stream] + each.gap_ns)
            self.free[stream] = start + took
            self.queued.append(start)
            made = memcpy if is_copy else kernel
            work = [made(name=each.name, dur=took / 1000, at=start / 1000, stream=stream)]
        if each.blocking:
            self.now = max(self.now, self.free[stream] + 1_500)
        name = "cudaMemcpyAsync" if is_copy else "cudaLaunchKernel"
        self.builder.launches(*work, at=begin / 1000, dur=(self.now - begin) / 1000, name=name)
