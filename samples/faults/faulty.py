"""What a program with a fault is: an override of what the healthy one does.

A fault is planted at a random strength. `mended`, the same program does it right and keeps what surrounds the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

from .hardware import Row, mixed, named, share
from .machine import Machine
from .model import Shape
from .program import Program

WAITING = ("cudaStreamSynchronize", "cudaDeviceSynchronize")
PROGRAMS: dict[str, type[Faulty]] = {}
"""The programs with a fault, by its name."""


@dataclass(frozen=True)
class Pace:
    """How long the host and the device take for one step of the healthy program."""

    host_ns: int
    device_ns: int


class Faulty(Program):
    """A program with a fault."""

    name: ClassVar[str] = ""
    also: ClassVar[tuple[str, ...]] = ()
    """Other faults that it has by its nature: their rules may speak as well."""
    costs: ClassVar[bool] = True
    """Whether the mended program is faster."""
    ddp_only: ClassVar[bool] = False
    host_bound: ClassVar[bool] = False
    """The device starves even without the fault: only there does it cost anything."""
    starved: ClassVar[float] = 1.0
    """How much longer the host then takes than in other such programs."""

    def __init__(self, machine: Machine, shape: Shape, ddp: bool, pace: Pace, mended: bool) -> None:
        super().__init__(machine, shape, ddp)
        self.pace, self.mended = pace, mended
        self.planted: dict[str, int | str] = {}

    @staticmethod
    def fit(shape: Shape, draw: Callable[[str], float], device_ns: int) -> Shape:
        """Returns the shape at which the fault has its strength."""
        return shape

    @staticmethod
    def mend(shape: Shape) -> Shape:
        """Returns the shape of the mended program."""
        return shape

    def drawn(self, name: str, low: float, high: float) -> float:
        """Returns a number of this training from low to high."""
        return low + (high - low) * share(named(mixed(self.m.root, 0), name))

    def part(self, name: str) -> float:
        """Returns what a fault takes of a step of the healthy program, in nanoseconds."""
        return strength_of(lambda what: self.drawn(what, 0, 1), name) * self.pace.device_ns

    def count(self, figure: str, more: int = 1) -> None:
        """Adds to a figure of the truth, over all steps."""
        before = self.planted.get(figure, 0)
        assert isinstance(before, int)
        self.planted[figure] = before + more

    def count_work(self, rows: Iterable[Row]) -> None:
        """Adds work of the device to the truth: how much it is, and its time."""
        work = [row for row in rows if row.category != "cuda_sync"]
        self.count("calls", len(work))
        self.count("device_ns", sum(row.end - row.start for row in work))

    def count_copies(self, rows: Iterable[Row]) -> None:
        """Adds copies to the truth, and their bytes."""
        copies = [row for row in rows if row.category == "gpu_memcpy"]
        self.count_work(copies)
        self.count("bytes", sum(row.args["bytes"] for row in copies))

    def count_calls(self, first: int, *names: str) -> None:
        """Adds the time of calls of the driver since a row of the machine to the truth."""
        self.count("call_ns", sum(row.end - row.start for row in self.m.rows[first:] if row.name in names))

    def counted(self, run: Callable[[], None]) -> Callable[[], None]:
        """Returns what runs it and adds its work of the device to the truth."""

        def counting() -> None:
            first = len(self.m.device_rows)
            run()
            self.count_work(self.m.device_rows[first:])

        return counting

    def every(self, count: int, number: int) -> bool:
        """Whether a layer is one of so many that are spread evenly over all."""
        return (number + 1) * count // self.shape.layers > number * count // self.shape.layers


def strength_of(draw: Callable[[str], float], name: str) -> float:
    """Returns the share of a step that a fault takes, 3 to 30 %."""
    return 0.03 + 0.27 * draw(f"{name}: strength")


def fault(name: str) -> Callable[[type[Faulty]], type[Faulty]]:
    """Returns a decorator that registers a fault under the id of the rule that has to find it."""

    def register(program: type[Faulty]) -> type[Faulty]:
        program.name = name
        PROGRAMS[name] = program
        return program

    return register
