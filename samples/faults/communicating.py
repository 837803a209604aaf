"""Faults of the gradients' way to the other ranks."""

from __future__ import annotations

from .faulty import Faulty, fault
from .hardware import COMM, COMPUTE, GAP, US


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
        with m.frame(self.line):
            for _ in range(1 if self.mended else count):
                self.all_reduce(elements * count if self.mended else elements)
            m.wait(COMPUTE, COMM)
        if not self.mended:
            self.planted["line"] = self.line
            self.count_work(m.device_rows[first:])
        super().optimize()
