"""Invent allocator snapshots whose right answers are known, for machines without a GPU.

A model of PyTorch's caching allocator runs invented trainings and writes what ``torch.cuda.memory._dump_snapshot`` would:
the history of events, and the segments and blocks at the end. It follows the allocator's rules as its documentation
and source state them: sizes are rounded to 512 bytes; up to 1 MiB comes from segments of 2 MiB, up to 10 MiB from
segments of 20 MiB, more from segments of its own size; the smallest free block that fits is taken, split where enough
is left, and merged with its neighbours when it is free again; before memory runs out, all free segments go back.

Nothing here was recorded: stacks and sizes are made up. Needs nothing but Python.

usage: python samples/synthetic_memory.py fragmented|leaking|out_of_memory OUT.pickle.gz [--seed 0] [--steps 12]
"""

from __future__ import annotations

import argparse
import gzip
import io
import pickle
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from events import MIB, Json

START_US = 1_795_400_000_000_000
BASE = 0x7F2000000000
HOME = "/home/user/train"


class OutOfMemory(Exception):
    """The device has no memory left."""


@dataclass(eq=False)
class Block:
    """A part of a segment."""

    address: int
    size: int
    requested: int = 0
    state: str = "inactive"
    frames: list[Json] = field(default_factory=list)


@dataclass(eq=False)
class Segment:
    """Memory that the driver gave."""

    address: int
    size: int
    stream: int
    is_small: bool
    pool: tuple[int, int]
    frames: list[Json]
    is_expandable: bool = False
    blocks: list[Block] = field(default_factory=list)


class Allocator:
    """A caching allocator that writes down what it does."""

    def __init__(self, capacity: int, seed: int = 0, device: int = 0, max_entries: int | None = None) -> None:
        self.capacity = capacity
        self.device = device
        self.random = random.Random(seed)
        self.time_us = START_US
        self.segments: list[Segment] = []
        self.trace: list[Json] = []
        self.annotations: list[Json] = []
        self.max_entries = max_entries
        self.purposes: list[str] = []
        """What each allocation of the history is for, in order: the truth, which no snapshot states."""
        self._next = BASE + (device << 40)
        self._live: dict[int, tuple[Segment, Block]] = {}

    @property
    def reserved(self) -> int:
        """Returns the bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    def allocate(
        self,
        size: int,
        frames: list[Json],
        stream: int = 0,
        pool: tuple[int, int] = (0, 0),
        purpose: str = "unknown",
        **about: str,
    ) -> int:
        """Returns the address of a new block. Raises OutOfMemory."""
        rounded = max(512, -(-size // 512) * 512)
        found = self._fitting(rounded, stream, pool) or self._grown(rounded, stream, pool, frames)
        if found is None:
            self._event("oom", size, frames, stream, pool, device_free=self.capacity - self.reserved)
            raise OutOfMemory(f"{size:,} bytes")
        segment, block = found
        left = block.size - rounded
        if left >= 512 if segment.is_small else left > MIB:
            segment.blocks.insert(segment.blocks.index(block) + 1, Block(block.address + rounded, left))
            block.size = rounded
        block.requested, block.state, block.frames = size, "active_allocated", frames
        self._live[block.address] = found
        self.purposes.append(purpose)
        self._event("alloc", block.size, frames, stream, pool, addr=block.address, **about)
        return block.address

    def free(self, address: int, wait: bool = False) -> None:
        """Releases a block; ``wait``: another stream still uses it, until ``complete``."""
        segment, block = self._live[address]
        self._event("free_requested", block.size, block.frames, segment.stream, segment.pool, addr=address)
        block.state = "active_pending_free"
        if not wait:
            self.complete(address)

    def complete(self, address: int) -> None:
        """Gives a released block back to the cache, merged with free neighbours."""
        segment, block = self._live.pop(address)
        self._event("free_completed", block.size, block.frames, segment.stream, segment.pool, addr=address)
        block.state, block.requested, block.frames = "inactive", 0, []
        blocks, at = segment.blocks, segment.blocks.index(block)
        for left in (at, at - 1):
            if 0 <= left < len(blocks) - 1 and blocks[left].state == blocks[left + 1].state == "inactive":
                blocks[left].size += blocks.pop(left + 1).size

    def empty_cache(self) -> None:
        """Gives all segments back to the driver in which nothing is used."""
        for segment in [one for one in self.segments if all(block.state == "inactive" for block in one.blocks)]:
            self._event(
                "segment_free", segment.size, segment.frames, segment.stream, segment.pool, addr=segment.address
            )
            self.segments.remove(segment)

    def annotate(self, name: str, stage: str) -> None:
        """Writes the begin (START) or end (END) of an annotation."""
        self.annotations.append({"name": name, "stage": stage, "device": self.device, "time_us": self.time_us})

    def _fitting(self, size: int, stream: int, pool: tuple[int, int]) -> tuple[Segment, Block] | None:
        fitting = [
            (block.size, block.address, segment, block)
            for segment in self.segments
            if (segment.stream, segment.pool, segment.is_small) == (stream, pool, size <= MIB)
            for block in segment.blocks
            if block.state == "inactive" and block.size >= size
        ]
        return min(fitting, key=lambda one: one[:2])[2:] if fitting else None

    def _grown(self, size: int, stream: int, pool: tuple[int, int], frames: list[Json]) -> tuple[Segment, Block] | None:
        total = 2 * MIB if size <= MIB else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
        if self.reserved + total > self.capacity:
            self.empty_cache()
        if self.reserved + total > self.capacity:
            return None
        segment = Segment(self._next, total, stream, size <= MIB, pool, frames)
        segment.blocks.append(Block(self._next, total))
        self._next += total + 4 * MIB
        self.segments.append(segment)
        self._event("segment_alloc", total, frames, stream, pool, addr=segment.address)
        return segment, segment.blocks[0]

    def _event(
        self, action: str, size: int, frames: list[Json], stream: int, pool: tuple[int, int], **more: Any
    ) -> None:
        self.time_us += self.random.randint(1, 60)
        about = {"time_us": self.time_us, "compile_context": "", "user_metadata": "", "pool_id": pool}
        self.trace.append({"action": action, "size": size, "stream": stream, **about, **more, "frames": frames})

    def snapshot(self) -> Json:
        """Returns what PyTorch would pickle."""
        self._event("snapshot", 0, [], 0, (0, 0), addr=0)
        trace = self.trace if self.max_entries is None else self.trace[-self.max_entries :]
        return {
            "segments": [self._told(segment) for segment in self.segments],
            "device_traces": [[] for _ in range(self.device)] + [trace],
            "allocator_settings": {
                "PYTORCH_CUDA_ALLOC_CONF": "",
                "max_split_size": -1,
                "garbage_collection_threshold": 0.0,
                "expandable_segments": False,
            },
            "external_annotations": self.annotations,
        }

    def _told(self, segment: Segment) -> Json:
        used = [block for block in segment.blocks if block.state == "active_allocated"]
        active = sum(block.size for block in segment.blocks if block.state != "inactive")
        blocks = [
            {"address": b.address, "size": b.size, "requested_size": b.requested, "state": b.state, "frames": b.frames}
            for b in segment.blocks
        ]
        return {
            "device": self.device,
            "address": segment.address,
            "total_size": segment.size,
            "allocated_size": sum(block.size for block in used),
            "active_size": active,
            "requested_size": sum(block.requested for block in used),
            "stream": segment.stream,
            "segment_type": "small" if segment.is_small else "large",
            "segment_pool_id": segment.pool,
            "is_expandable": segment.is_expandable,
            "frames": segment.frames,
            "blocks": blocks,
        }


_FRAMES: dict[tuple[str, int, str], Json] = {}


def stack(*calls: tuple[str, int, str]) -> list[Json]:
    """Returns frames, innermost first; each is one object however often it is named, as PyTorch writes them."""
    outer = (("train.py", 88, "main"), ("train.py", 120, "<module>"))
    inside = (("torch/nn/modules/module.py", 1773, "_wrapped_call_impl"),) if len(calls) > 1 else ()
    found = []
    for file, line, name in (*calls[:1], *inside, *calls[1:], *outer):
        path = f"{HOME}/{file}" if not file.startswith("torch/") else f"/usr/lib/python3/site-packages/{file}"
        found.append(_FRAMES.setdefault((file, line, name), {"filename": path, "line": line, "name": name}))
    return found


class Training:
    """An invented training of a transformer: parameters, activations that the backward releases, an optimizer."""

    layers = 6

    def __init__(self, allocator: Allocator) -> None:
        self.allocator = allocator
        sizes = [4 * MIB, 4 * MIB, 16 * MIB, 4096]
        self.parameters = [
            allocator.allocate(
                size,
                stack(("model.py", 20 + i, "__init__"), ("model.py", 12, "Block.__init__")),
                purpose="parameter",
            )
            for _ in range(self.layers)
            for i, size in enumerate(sizes)
        ]
        self.sizes = sizes * self.layers
        self.moments: list[int] = []

    def step(self, number: int, tokens: int, keep: int = 0) -> None:
        """Runs a step on so many tokens; ``keep`` bytes of it are forgotten by the program and never released."""
        allocator = self.allocator
        allocator.annotate(f"ProfilerStep#{number}", "START")
        batch = allocator.allocate(tokens * 8, stack(("data.py", 31, "to_device")), purpose="input")
        saved = [list(self._forward(layer, tokens)) for layer in range(self.layers)]
        loss = allocator.allocate(4, stack(("train.py", 61, "loss")), purpose="activation")
        if keep:
            allocator.allocate(keep, stack(("train.py", 64, "remember_loss")), purpose="activation")
        gradients = []
        engine = ("torch/autograd/graph.py", 829, "_engine_run_backward")
        for layer in reversed(range(self.layers)):
            work = allocator.allocate(tokens * 2048, stack(engine), purpose="autograd_detail")
            gradients += [
                allocator.allocate(size, stack(engine), purpose="gradient")
                for size in self.sizes[: len(self.sizes) // self.layers]
            ]
            for address in saved[layer]:
                allocator.free(address)
            allocator.free(work)
        allocator.free(loss)
        if not self.moments:
            self.moments = [
                allocator.allocate(2 * size, stack(("optim.py", 40, "init_state")), purpose="optimizer_state")
                for size in self.sizes
            ]
        scratch = allocator.allocate(16 * MIB, stack(("optim.py", 52, "step")), stream=7, user_metadata="foreach")
        allocator.free(scratch, wait=True)
        for address in gradients:
            allocator.free(address)
        allocator.complete(scratch)
        allocator.free(batch)
        allocator.time_us += 900
        allocator.annotate(f"ProfilerStep#{number}", "END")

    def _forward(self, layer: int, tokens: int) -> Iterator[int]:
        allocator = self.allocator
        for name, line, width in (("attention", 44, 3072), ("softmax", 47, 512), ("mlp", 58, 4096)):
            yield allocator.allocate(
                tokens * width,
                stack(("model.py", line, name), ("model.py", 70, f"Block.forward[{layer % 2}]")),
                purpose="activation",
            )
        mask = allocator.allocate(
            tokens * 64 + 100, stack(("model.py", 49, "mask"), ("model.py", 70, "Block.forward")), purpose="temporary"
        )
        allocator.free(mask)


def fragmented_run(seed: int, steps: int) -> Allocator:
    """Returns the allocator after a training on sequences of all lengths, with small caches between: memory in pieces."""
    allocator = Allocator(16 << 30, seed)
    training = Training(allocator)
    for number in range(steps):
        tokens = allocator.random.randint(900, 9000)
        training.step(number, tokens)
        # A cache of the longest sequences: blocks that stay between those that go.
        allocator.allocate(tokens * 300, stack(("cache.py", 18, "store"), ("train.py", 70, "evaluate")))
    return allocator


def leaking_run(seed: int, steps: int) -> Allocator:
    """Returns the allocator after a training that keeps 3 MiB of every step."""
    allocator = Allocator(16 << 30, seed)
    training = Training(allocator)
    for number in range(steps):
        training.step(number, 4096, keep=3 * MIB)
    return allocator


def out_of_memory_run(seed: int, steps: int) -> Allocator:
    """Returns the allocator after a training whose batches grow until the device has no memory left."""
    allocator = Allocator(1200 * MIB, seed)
    training = Training(allocator)
    try:
        for number in range(steps):
            training.step(number, 2048 + 1024 * number)
    except OutOfMemory:
        pass
    return allocator


RUNS = {"fragmented": fragmented_run, "leaking": leaking_run, "out_of_memory": out_of_memory_run}


def main() -> None:
    """Writes one snapshot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", choices=RUNS)
    parser.add_argument("path", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=12)
    asked = parser.parse_args()
    made = pickle.dumps(RUNS[asked.scene](asked.seed, asked.steps).snapshot(), protocol=4)
    if asked.path.suffix == ".gz":
        packed = io.BytesIO()
        with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream:
            stream.write(made)
        made = packed.getvalue()
    asked.path.parent.mkdir(parents=True, exist_ok=True)
    asked.path.write_bytes(made)


if __name__ == "__main__":
    main()
