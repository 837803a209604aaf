"""The healthy program: a training loop, on one device or on one of eight (DDP).

What the faults change are methods of their own here and in `model.py`; `faulty.py` overrides them.
"""

# ruff: noqa: SIM117 (a `with` inside a `with` is an event inside an event)

from __future__ import annotations

from events import Json

from .hardware import BF16, COMM, COMPUTE, COPY, DEVICE_BYTES, LONG, MIB, US, Dims, Kernel
from .kernels import ADAMW, ALL_REDUCE, SEQUENCE, WORLD, bandwidth_kernel
from .model import Model


class Program(Model):
    """One training."""

    # -- communication -----------------------------------------------------------------------------------

    @property
    def bucket_bytes(self) -> int:
        """The size at which a bucket goes out: a small part of all, so that little is left at the end."""
        return min(25 * MIB, self.weights // 20)

    def reduce(self, elements: int) -> None:
        """DDP's hook: a bucket that is full goes out."""
        if not self.ddp:
            return
        self.bucket += elements
        if self.bucket * 2 >= self.bucket_bytes:
            self.all_reduce(self.bucket)
            self.bucket = 0

    def after_backward(self) -> None:
        """What is left of the gradients goes out; the optimizer's work waits for all of them."""
        if not self.ddp:
            return
        if self.bucket:
            self.all_reduce(self.bucket)
            self.bucket = 0
        self.m.wait(COMPUTE, COMM)

    def all_reduce(self, elements: int, stream: int = COMM) -> None:
        """An all-reduce of gradients over NCCL, after all work that the device has been given."""
        m = self.m
        self.collectives += 1
        shared: Json = {
            "Collective name": "allreduce", "dtype": "BFloat16", "In msg nelems": elements, "Out msg nelems": elements,
            "Group size": WORLD, "In split size": "[]", "Out split size": "[]", "Process Group Name": "0",
            "Process Group Description": "default_pg", "Process Group Ranks": str(list(range(WORLD))),
        }  # fmt: skip
        more = {"Rank": 0, "Seq": self.collectives, "Is asynchronized op": True, "Comms Id": 13_835_058_055_282_163_789}
        with m.op("c10d::allreduce_", (elements,), before=3_000, after=1_500):
            with m.op("record_param_comms", (elements,), extra=shared | more), m.annotation("nccl:all_reduce"):
                if stream != COMPUTE:
                    m.wait(stream, COMPUTE)
                ns = 14 * US + elements * 2 / self.network
                kernel = Kernel(ALL_REDUCE, ns, 24, 544, shared | {"Seq": self.collectives})
                m.launch(kernel, stream, "cudaLaunchKernelExC")

    # -- a step ------------------------------------------------------------------------------------------

    def next_batch(self) -> None:
        """The loader's workers have the batch ready, in pinned memory."""
        with self.m.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
            with self.m.frame("torch/utils/data/dataloader.py(1476): _next_data"):
                self.m.spend(45 * US)

    def to_device(self) -> None:
        """The batch of the next step is copied while this one is computed; this step's was copied in the last one."""
        m = self.m
        m.wait(COMPUTE, COPY)
        with m.frame("train.py(31): prefetch"):
            self.copy_batch(COPY, True)

    def copy_batch(self, stream: int, pinned: bool) -> None:
        """``batch.to(device, non_blocking=True)``."""
        m, dims = self.m, (self.shape.batch, SEQUENCE, self.shape.features)
        for shape, dtype, size in ((dims, BF16, self.shape.input_bytes), (dims[:1], LONG, self.shape.batch * 8)):
            with m.op("aten::to", shape, (), (), dtype=dtype, before=900, after=300):
                with m.op("aten::_to_copy", shape, dtype=dtype, before=900, after=300):
                    with m.op("aten::copy_", shape, shape, dtype=dtype, before=1_500, after=700):
                        m.copy("HtoD", size, stream, pinned)
                        if not pinned:
                            m.synchronize(stream)

    def zero_grad(self) -> None:
        with self.m.annotation("Optimizer.zero_grad#AdamW.zero_grad"):
            with self.m.frame("torch/optim/optimizer.py(971): zero_grad"):
                for block in self.gradients:
                    self.m.release(block)
                self.gradients.clear()
                self.updated.clear()
                self.m.spend(30 * US)

    def optimize(self) -> None:
        """Fused AdamW: a few kernels for all parameters. Reads weight, gradient and two moments, writes three of them."""
        m, dims = self.m, (4 * self.shape.width, self.shape.width)
        with m.annotation("Optimizer.step#AdamW.step"), m.frame("torch/optim/adamw.py(235): step"):
            m.spend(120 * US)
            self.update(dims)

    def update(self, dims: Dims) -> None:
        parts = 4
        with self.m.op("aten::_fused_adamw_", dims, before=30_000, after=6_000):
            for _ in range(parts):
                self.m.launch(bandwidth_kernel(ADAMW, self.weights / 2 * 22 / parts, 512))

    def log(self) -> None:
        """The program notes how it gets on."""
        with self.m.frame("train.py(66): log_metrics"):
            self.m.spend(60 * US)

    def passes(self) -> None:
        """Forward and backward."""
        with self.m.frame("train.py(42): training_step"):
            with self.m.annotation("forward"):
                self.forward()
            with self.m.annotation("backward"):
                self.backward()

    def train_step(self) -> None:
        """The loop's body."""
        self.next_batch()
        self.to_device()
        self.zero_grad()
        self.passes()
        self.optimize()
        self.log()

    def begin(self) -> None:
        """What was there before the recording: weights, moments, gradients, the allocator's segments."""
        m = self.m
        m.allocated = self.base_bytes
        m.reserved = round(DEVICE_BYTES * 0.66) // (2 * MIB) * 2 * MIB

    def run(self, steps: int) -> None:
        """Trains so many steps and waits for the device at the end."""
        m = self.m
        self.steps = steps
        m.begin_step(-1)
        self.begin()
        with m.frame("train.py(88): <module>"), m.frame("train.py(75): train"):
            for number in range(steps):
                self.step = number
                m.begin_step(number)
                self.run_step(number)
            m.begin_step(steps)
            with m.frame("train.py(84): finish"):
                m.synchronize()

    def run_step(self, number: int) -> None:
        m = self.m
        begin, first = m.now, len(m.device_rows)
        with m.annotation(f"ProfilerStep#{number + 10}"):
            self.train_step()
        m.steps.append((begin, max(m.now, m.end_of_work(first, len(m.device_rows)))))
        with m.frame("torch/profiler/profiler.py(918): step"):
            m.spend(25 * US)
