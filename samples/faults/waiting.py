"""Faults that keep the device waiting for the host."""

# ruff: noqa: SIM117 (a `with` inside a `with` is an event inside an event)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from .faulty import WAITING, Faulty, fault, strength_of
from .hardware import COMPUTE, FLOAT, MS, PAGEABLE, PINNED
from .model import Shape


@fault("synchronising_calls")
class SynchronisingCalls(Faulty):
    """One line waits for the device in each step, once or a few times, and then works on the host while nothing runs."""

    also = ("python_bound",)
    line = "train.py(57): check_activations"

    def block(self, number: int) -> None:
        super().block(number)
        calls = min(self.shape.layers, 1 + int(self.drawn("synchronising_calls: calls", 0, 4)))
        if not self.every(calls, number):
            return
        with self.m.frame(SynchronisingCalls.line):
            if not self.mended:
                before, first = self.m.now, len(self.m.rows)
                if self.drawn("synchronising_calls: kind", 0, 1) < 0.6:
                    self.m.item()
                else:
                    with self.m.frame("torch/cuda/__init__.py(1083): synchronize"):
                        self.m.synchronize()
                self.planted["line"] = SynchronisingCalls.line
                self.count("calls", 1)
                self.count("host_ns", self.m.now - before)
                self.count_calls(first, *WAITING)
            self.m.spend(self.part("synchronising_calls") / calls)


@fault("data_loading")
class DataLoading(Faulty):
    """The loader works in the main process, for so long that the device runs dry in each step."""

    def next_batch(self) -> None:
        if self.mended:
            super().next_batch()
            return
        m, samples, before = self.m, 4, self.m.now
        # The device has nothing to do when the recording begins: it would wait all the time for the first batch.
        hidden = self.pace.device_ns - self.pace.host_ns if self.step else 0
        loading = hidden + self.part("data_loading")
        with m.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
            with m.frame("torch/utils/data/dataloader.py(788): _next_data"):
                with m.frame("torch/utils/data/_utils/fetch.py(52): fetch"):
                    for _ in range(samples):
                        with m.frame("dataset.py(33): __getitem__"):
                            m.spend(loading / samples)
        self.count("calls", 1)
        self.count("host_ns", m.now - before)


class _BatchCopies(Faulty):
    """The batch is copied where it is needed, at once."""

    pinned: ClassVar[bool] = True

    def to_device(self) -> None:
        if self.mended:
            super().to_device()
            return
        m, before, first, calls = self.m, self.m.now, len(self.m.device_rows), len(self.m.rows)
        with m.frame("train.py(29): to_device"):
            self.copy_batch(COMPUTE, self.pinned)
        self.planted["line"] = "train.py(29): to_device"
        self.count("host_ns", m.now - before)
        self.count_calls(calls, "cudaMemcpyAsync", *WAITING)
        self.count_copies(m.device_rows[first:])


@fault("pageable_copies")
class PageableCopies(_BatchCopies):
    """The batch is copied from pageable memory, on the stream of the computation: the host waits as well."""

    also = (
        "exposed_copies",
        "synchronising_calls",
    )
    pinned = False

    @staticmethod
    def fit(shape: Shape, draw: Callable[[str], float], device_ns: int) -> Shape:
        return _with_input(shape, strength_of(draw, "pageable_copies") * device_ns * PAGEABLE)


@fault("exposed_copies")
class ExposedCopies(_BatchCopies):
    """The batch is copied from pinned memory, but on the stream of the computation: nothing overlaps the copy."""

    @staticmethod
    def fit(shape: Shape, draw: Callable[[str], float], device_ns: int) -> Shape:
        return _with_input(shape, strength_of(draw, "exposed_copies") * device_ns * PINNED)


def _with_input(shape: Shape, size: float) -> Shape:
    """A shape whose batch has so many bytes."""
    return replace(shape, features=max(64, round(size / (2 * shape.tokens) / 64) * 64))


@fault("launch_bound")
class LaunchBound(Faulty):
    """Many short kernels, each launched on its own: the host cannot keep up. Mended, graphs launch the same kernels."""

    also = (
        "small_batch",
        "python_bound",
        "unfused_kernels",
    )
    host_bound = True
    starved = 1.06

    def passes(self) -> None:
        if not self.mended:
            before, first = self.m.now, len(self.m.device_rows)
            super().passes()
            self.count("calls", len(self.m.device_rows) - first)
            self.count("host_ns", self.m.now - before)
            return
        with self.m.frame("train.py(42): training_step"):
            with self.m.annotation("forward"), self.m.graph():
                self.forward()
            with self.m.annotation("backward"), self.m.graph():
                self.backward()


@fault("python_bound")
class PythonBound(Faulty):
    """Python of our own works between the layers, for so long that the device runs dry."""

    line = "model.py(81): update_mask"

    def block(self, number: int) -> None:
        if not self.mended:
            before = self.m.now
            with self.m.frame(PythonBound.line):
                # In the first step no backward pass of the step before runs meanwhile: two thirds of a step.
                hidden = self.pace.device_ns / (1 if self.step else 3) - self.pace.host_ns
                self.m.spend((hidden + self.part("python_bound")) / self.shape.layers)
            self.planted["line"] = PythonBound.line
            self.count("calls", 1)
            self.count("host_ns", self.m.now - before)
        super().block(number)


@fault("driver_memory_calls")
class DriverMemoryCalls(Faulty):
    """Memory goes back to the driver and is taken from it again in each step; to give back waits for the device."""

    also = (
        "reserved_oscillation",
        "synchronising_calls",
    )
    line = "train.py(59): empty_cache"

    def block(self, number: int) -> None:
        super().block(number)
        pairs = min(self.shape.layers, 1 + int(self.drawn("driver_memory_calls: pairs", 0, 4)))
        if self.mended or not self.every(pairs, number):
            return
        m, before, first = self.m, self.m.now, len(self.m.rows)
        each = self.part("driver_memory_calls") / pairs / 2
        size = 512 << 20
        with m.frame(DriverMemoryCalls.line), m.frame("torch/cuda/memory.py(225): empty_cache"):
            m.shrink(size, each)
        with m.frame(DriverMemoryCalls.line), m.op("aten::empty", (), (), ()):
            m.grow(size, each)
        self.planted["line"] = DriverMemoryCalls.line
        self.count("calls", 2)
        self.count("host_ns", m.now - before)
        self.count_calls(first, "cudaMalloc", "cudaFree")


@fault("garbage_collection")
class GarbageCollection(Faulty):
    """Python collects garbage for a few milliseconds in some of the steps, of a program whose device starves."""

    also = (
        "launch_bound",
        "small_batch",
        "python_bound",
        "step_outliers",
    )
    host_bound = True

    def block(self, number: int) -> None:
        first = int(self.drawn("garbage_collection: first", 0, 2))
        if number == self.shape.layers // 2 and not self.mended and self.step % 2 == first:
            before = self.m.now
            ns = max(1.5 * MS, 2 * self.part("garbage_collection"))
            self.m.instant("python_function", "Python GC", ns)
            self.count("calls", 1)
            self.count("host_ns", self.m.now - before)
        super().block(number)


@fault("repeated_copies")
class RepeatedCopies(Faulty):
    """The same constant is copied to the device again and again, from pageable memory. Mended, once before the loop."""

    also = (
        "pageable_copies",
        "synchronising_calls",
        "exposed_copies",
    )
    line = "model.py(78): position_bias"

    def block(self, number: int) -> None:
        copies = 2 + int(self.drawn("repeated_copies: copies", 0, self.shape.layers - 1))
        if not self.mended and self.every(copies, number):
            m, before, first, calls = self.m, self.m.now, len(self.m.device_rows), len(self.m.rows)
            rows = max(8, round(self.part("repeated_copies") / copies * PAGEABLE / (256 * 4)))
            dims = (rows, 256)
            with m.frame(RepeatedCopies.line), m.op("aten::to", dims, (), (), dtype=FLOAT, before=900, after=300):
                with m.op("aten::_to_copy", dims, dtype=FLOAT, before=900, after=300):
                    with m.op("aten::copy_", dims, dims, dtype=FLOAT, before=1_500, after=700):
                        m.copy("HtoD", rows * 256 * 4, COMPUTE, False)
                        m.synchronize(COMPUTE)
            self.planted["line"] = RepeatedCopies.line
            self.count("host_ns", m.now - before)
            self.count_calls(calls, "cudaMemcpyAsync", *WAITING)
            self.count_copies(m.device_rows[first:])
        super().block(number)
