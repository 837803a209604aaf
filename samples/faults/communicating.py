"""Faults of the gradients' way to the other ranks."""

# ruff: noqa: SIM117 (a `with` inside a `with` is an event inside an event)

from __future__ import annotations

from .faulty import Faulty, fault
from .hardware import COMM, COMPUTE, GAP, PEER, SECOND, US, Kernel
from .kernels import CLASSES
from .model import Node


class _Communicating(Faulty):
    ddp_only = True


@fault("communication")
class Communication(_Communicating):
    """All-reduces begin when the backward pass has ended. Mended, they overlap it."""

    def reduce(self, elements: int) -> None:
        if self.mended:
            super().reduce(elements)
        else:
            self.bucket += elements

    def after_backward(self) -> None:
        if self.mended:
            super().after_backward()
            return
        first = len(self.m.device_rows)
        while self.bucket:
            elements = min(self.bucket, self.bucket_bytes // 2)
            self.all_reduce(elements)
            self.bucket -= elements
        self.count_work(self.m.device_rows[first:])
        self.m.wait(COMPUTE, COMM)


@fault("serial_collectives")
class SerialCollectives(_Communicating):
    """All-reduces run on the stream of the computation: nothing overlaps them. Mended, on a stream of their own."""

    also = ("communication",)

    def all_reduce(self, elements: int, stream: int = COMM) -> None:
        first = len(self.m.device_rows)
        super().all_reduce(elements, stream if self.mended else COMPUTE)
        if not self.mended:
            self.count_work(self.m.device_rows[first:])


@fault("small_collectives")
class SmallCollectives(_Communicating):
    """One all-reduce for each of many small gradients, after the backward pass. Mended, one for all of them."""

    also = ("communication",)
    line = "train.py(61): average_adapters"

    def optimize(self) -> None:
        m, elements = self.m, 16 * self.shape.width
        count = max(8, round(self.part("small_collectives") / (15 * US + GAP)))
        first = len(m.device_rows)
        with m.frame(SmallCollectives.line):
            for _ in range(1 if self.mended else count):
                self.all_reduce(elements * count if self.mended else elements)
            m.wait(COMPUTE, COMM)
        if not self.mended:
            self.planted["line"] = SmallCollectives.line
            self.count_work(m.device_rows[first:])
        super().optimize()


BROADCAST = "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
REDUCE = "ncclDevKernel_Reduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@fault("data_parallel")
class DataParallel(Faulty):
    """One process runs two devices with DataParallel. Mended, DDP runs a process for each; this is the first one's trace."""

    also = ("communication", "serial_collectives", "one_stream")

    def begin(self) -> None:
        super().begin()
        self.ddp = self.mended

    def forward(self) -> None:
        if self.mended:
            super().forward()
            return
        m = self.m
        tapes: list[list[Node]] = []
        with m.module("DataParallel", 0, "torch/nn/parallel/data_parallel.py(173): forward"):
            with m.annotation("DataParallel.forward"):
                with m.op("Scatter", (2 * self.shape.batch, self.shape.features)):
                    m.copy("PtoP", self.shape.input_bytes)
                self._both("Broadcast", BROADCAST)
                for device in range(2):
                    self.tape = []
                    with m.on((m.main, m.replica)[device], device), m.at("replica"):
                        self.body()
                    tapes.append(self.tape)
                with m.op("Gather", (self.shape.tokens, CLASSES)):
                    m.wait(COMPUTE, SECOND + COMPUTE)
                    m.copy("PtoP", self.shape.tokens * CLASSES * 2)
        self.tape = []
        self.loss()
        self.tapes = [tapes[0] + self.tape, tapes[1]]

    def run_tape(self) -> None:
        if self.mended:
            super().run_tape()
            return
        self.m.wait(SECOND + COMPUTE, COMPUTE)
        for device, tape in enumerate(self.tapes):
            self.tape = tape
            if device:
                with self.m.on(self.m.replica_autograd, device):
                    super().run_tape()
            else:
                super().run_tape()
        self._both("ReduceAddCoalesced", REDUCE)

    def _both(self, name: str, kernel: str) -> None:
        """All parameters, or their gradients, go from one device to the other."""
        m = self.m
        m.wait(COMPUTE, SECOND + COMPUTE)
        m.wait(SECOND + COMPUTE, COMPUTE)
        first = len(m.device_rows)
        with m.op(name, (self.weights // 2,)):
            for device in range(2):
                m.launch(Kernel(kernel, 15 * US + self.weights / PEER, 24, 544), SECOND * device + COMPUTE)
        self.count_work(m.device_rows[first:])
