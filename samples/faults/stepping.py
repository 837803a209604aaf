"""Faults of whole steps: steps unlike the others, batches that are too small, memory."""

from __future__ import annotations

from dataclasses import replace

from .faulty import WAITING, Faulty, fault
from .hardware import COMPUTE, DEVICE_BYTES, LONG, MIB, US, Dims, Kernel
from .kernels import bandwidth_kernel, elementwise, product_of
from .model import Shape

GATHER = (
    "void at::native::_scatter_gather_elementwise_kernel<128, 4, at::native::_cuda_scatter_gather_internal_kernel"
    "<false, at::native::OpaqueType<2> > >(int, at::native::_cuda_scatter_gather_internal_kernel<false>)"
)
SORT = (
    "void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<at_cuda_detail::cub::DeviceRadixSortPolicy<long, long, int>>"
    "(int*, int*, int*, long*, long const*, long*, long const*, int, int, int)"
)
INDEX_PUT = (
    "void at::native::(anonymous namespace)::indexing_backward_kernel<c10::BFloat16, 4>(long const*, long const*, "
    "c10::BFloat16 const*, c10::BFloat16*, long, long, long, long, bool)"
)


@fault("slow_first_step")
class SlowFirstStep(Faulty):
    """The first step recorded compiles and fills the allocator, and takes several times as long. Mended, warmed up."""

    also = ("step_outliers", "driver_memory_calls", "compilation")

    def passes(self) -> None:
        if self.step == 0 and not self.mended:
            m, before = self.m, self.m.now
            with m.frame("torch/_dynamo/convert_frame.py(1126): _compile"):
                m.spend(self.pace.device_ns * self.drawn("slow_first_step: steps", 2, 6))
            for _ in range(6):
                with m.op("aten::empty", (), (), ()):
                    m.grow(64 * MIB, 350 * US)
            self.count("host_ns", m.now - before)
        super().passes()


@fault("step_outliers")
class StepOutliers(Faulty):
    """Every now and then a step saves a checkpoint, and the device waits."""

    also = ("synchronising_calls",)
    line = "train.py(71): save_checkpoint"

    def log(self) -> None:
        super().log()
        if self.mended or self.step % 6 != min(3, self.steps - 1):
            return
        m, before = self.m, self.m.now
        with m.frame(StepOutliers.line), m.frame("torch/serialization.py(943): save"):
            m.synchronize()
            m.spend(self.pace.device_ns * self.drawn("step_outliers: steps", 0.6, 3))
        self.planted["line"] = StepOutliers.line
        self.planted["step"] = self.step
        self.count("calls")
        self.count("host_ns", m.now - before)


@fault("profiler_overhead")
class ProfilerOverhead(Faulty):
    """The profiler takes time of its own, while the device starves."""

    also = ("launch_bound", "small_batch", "python_bound")
    host_bound = True

    def block(self, number: int) -> None:
        if not self.mended:
            before = self.m.now
            name = ("Instrumentation", "Activity Buffer Request", "Resource")[number % 3]
            self.m.instant("overhead", name, self.part("profiler_overhead") / self.shape.layers, 0)
            self.count("calls")
            self.count("host_ns", self.m.now - before)
        super().block(number)


@fault("deterministic_sync")
class DeterministicSync(Faulty):
    """The backward of a gather waits for the device, as deterministic algorithms make it. Mended, it does not wait."""

    also = ("synchronising_calls", "launch_bound")  # after a wait the host has to catch up

    def block(self, number: int) -> None:
        super().block(number)
        calls = min(self.shape.layers, 1 + int(self.drawn("deterministic_sync: calls", 0, 4)))
        if not self.every(calls, number):
            return
        dims = self.tokens3()
        size = self.activation

        def scatter() -> None:
            m, before, first = self.m, self.m.now, len(self.m.rows)
            with m.op("aten::gather_backward", dims, dims, (), dims, ()):
                with m.op("aten::new_zeros", dims, ()), m.op("aten::zero_", dims):
                    m.fill(size)
                with m.op("aten::scatter_add_", dims, (), dims, dims):
                    self._put(dims, self.part("deterministic_sync") / calls)
            if not self.mended:
                self.count("calls")
                self.count("host_ns", m.now - before)
                self.count_calls(first, *WAITING)

        m = self.m
        with m.module("PatchDropout", number, "model.py(70): forward"), m.frame("<built-in method gather of type>"):
            tie = m.next_sequence()
            with m.op("aten::gather", dims, (), dims, (), forward=tie):
                m.launch(bandwidth_kernel(GATHER, 2 * size, 128))
            self.record("GatherBackward0", tie, scatter, size)
        if not self.mended:
            self.planted["module"] = "PatchDropout"

    def _put(self, dims: Dims, host_ns: float) -> None:
        """What scatter becomes: indices are made on the host, and the gradient is put where they say."""
        m, ends = self.m, self.activation
        with m.op("aten::_index_put_impl_", dims, (), dims, ()):
            if not self.mended:
                with m.op("aten::nonzero", dims, dtype=LONG):
                    m.copy("DtoH", 8, pinned=False)
                    m.synchronize(COMPUTE)
            for axis in range(3):
                with m.op("aten::arange", (), (), dtype=LONG, before=host_ns / 3 / m.pace):
                    m.launch(elementwise("arange_cuda_out", 8 * dims[axis]))
            m.launch(Kernel(SORT, 9 * US + product_of(dims[:2]) / 400, max(1, dims[0]), 384))
            m.launch(bandwidth_kernel(INDEX_PUT, 4 * ends, 128))


class _Memory(Faulty):
    """A step takes as long, but memory is another one."""

    costs = False
    share = 0.58

    def begin(self) -> None:
        super().begin()
        if self.mended:
            return
        shift = round((self.share - 0.58) * DEVICE_BYTES)
        self.m.allocated = max(0, self.m.allocated + shift)
        self.m.reserved = round((self.share + 0.015) * DEVICE_BYTES) // (2 * MIB) * 2 * MIB

    def run(self, steps: int) -> None:
        super().run(steps)
        if not self.mended:
            self.planted["peak_bytes"] = self.m.peak


@fault("small_batch")
class SmallBatch(_Memory):
    """The batch is so small that the device starves. Mended, twice the batch: compare the time of a sample."""

    also = ("launch_bound", "python_bound", "memory_unused")
    costs = True
    host_bound = True
    starved = 1.7
    share = 0.25

    @staticmethod
    def mend(shape: Shape) -> Shape:
        return replace(shape, tokens=2 * shape.tokens)

    def begin(self) -> None:
        super().begin()
        if not self.mended:
            self.planted["batch"] = self.shape.batch


@fault("memory_unused")
class MemoryUnused(_Memory):
    """Most of the device's memory is never used."""

    share = 0.25


@fault("memory_limit")
class MemoryLimit(_Memory):
    """Memory is used to the last twentieth."""

    share = 0.955


@fault("reserved_oscillation")
class ReservedOscillation(Faulty):
    """Segments are taken from the driver in each step and given back at its end. Mended, the allocator keeps them."""

    also = ("driver_memory_calls",)
    segments = 4

    def passes(self) -> None:
        self._swing(True)
        super().passes()
        self._swing(False)

    def _swing(self, grows: bool) -> None:
        if self.mended:
            return
        m, before, first = self.m, self.m.now, len(self.m.rows)
        each = self.part("reserved_oscillation") / self.segments / 2
        for _ in range(self.segments):
            if grows:
                with m.op("aten::empty", (), (), ()):
                    m.grow(1_024 * MIB, each)
            else:
                with m.frame("torch/cuda/memory.py(225): empty_cache"):
                    m.shrink(1_024 * MIB, each)
            self.count("calls")
        self.count("host_ns", m.now - before)
        self.count_calls(first, "cudaMalloc", "cudaFree")
