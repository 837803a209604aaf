"""Invented trainings whose faults are planted: what of their snapshots is to be found is known, and nothing else is."""

from __future__ import annotations

import pickle
import random
from dataclasses import dataclass, field
from typing import Any

from tb_plugin.model.snapshot.assemble import assemble
from tb_plugin.model.snapshot.table import Snapshot
from tests.snapshots import read
from tests.synthetic_memory import generator as synthetic

MIB = 1 << 20


Frames = list[dict[str, Any]]


def frames(line: int, name: str = "work") -> Frames:
    """A stack of its own for a line of the program."""
    found: Frames = synthetic.stack(("program.py", line, name))
    return found


def model_of(allocator: Any) -> Snapshot:
    """The snapshot of an allocator, read as any file is."""
    return assemble(read(pickle.dumps(allocator.snapshot(), protocol=4)))


@dataclass
class Program:
    """A training with constant shapes: nothing of it leaks or fragments, though much of it looks alike.

    Its optimizer state comes in the first step, a cache fills and stops, batches are prefetched so that each outlives its
    step, and a cycle of references piles up and is collected.
    """

    seed: int
    steps: int = 8
    annotated: bool = True
    capacity: int = 64 << 30
    others: int = 12
    """Lines that allocate in each step and release in it."""
    allocator: Any = field(init=False)

    def __post_init__(self) -> None:
        self.allocator = synthetic.Allocator(self.capacity, self.seed)
        self.random = random.Random(self.seed * 7919 + 1)
        self.sizes = [self.random.choice((1, 7, 300, 900, 3000, 9000)) * 1024 for _ in range(self.others)]
        self.parameters = [self.random.randint(2, 12) * MIB for _ in range(10)]
        self.batch = self.random.randint(1, 4) * MIB
        self.cache_steps = self.random.randint(0, self.steps // 2)
        self.cycle_steps = self.random.randint(2, 3)
        self.order = self.random.sample(range(self.others), self.others)
        self.prefetched: list[int] = []
        self.cycle: list[int] = []

    def allocate(self, size: int, line: int) -> int:
        address: int = self.allocator.allocate(size, frames(line))
        return address

    def size_of(self, address: int) -> int:
        """As the allocator rounded it."""
        size: int = self.allocator._live[address][1].size
        return size

    def start(self) -> None:
        for i, size in enumerate(self.parameters):
            self.allocate(size, 10 + i)

    def step(self, number: int, *inside: Any) -> None:
        """One step; ``inside`` are called in the middle of it."""
        allocator = self.allocator
        if self.annotated:
            allocator.time_us += 10
            allocator.annotate(f"ProfilerStep#{number}", "START")
        self.prefetched.append(self.allocate(self.batch, 40))
        held = [self.allocate(size, 100 + i) for i, size in enumerate(self.sizes)]
        for call in inside:
            call()
        if number < self.cache_steps:
            self.allocate(200_000, 41)
        self.cycle.append(self.allocate(70_000, 42))
        if number == 0:
            for i, size in enumerate(self.parameters):
                self.allocate(2 * size, 60 + i)
        for i in self.order:
            allocator.free(held[i])
        if len(self.prefetched) > 2:
            allocator.free(self.prefetched.pop(0))
        if len(self.cycle) >= self.cycle_steps:
            while self.cycle:
                allocator.free(self.cycle.pop())
        if self.annotated:
            allocator.annotate(f"ProfilerStep#{number}", "END")

    def run(self, *inside: Any) -> Program:
        self.start()
        for number in range(self.steps):
            self.step(number, *inside)
        return self

    @property
    def snapshot(self) -> Snapshot:
        return model_of(self.allocator)
