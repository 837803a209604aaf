"""Writes allocator snapshots of any size, byte for byte as ``pickle`` would, without ever holding their objects.

The events of one training step are made once and written again and again with other times, as a training repeats itself:
blocks that live through a part of a step, at addresses that come back, each with a list of frames of its own that its
releases share, as PyTorch writes them.

    python -m benchmarks.snapshots out.pickle --events 10_000_000
"""

from __future__ import annotations

import argparse
import random
import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np

BASE = 0x7F0000000000
_BATCH = 1000
_START_US = 1_795_194_000_000_000


class Writer:
    """Writes opcodes of protocol 4 and counts what they memoize."""

    def __init__(self) -> None:
        self.out = bytearray()
        self.count = 0
        self._texts: dict[str, int] = {}

    def raw(self, code: bytes) -> None:
        """Writes an opcode that memoizes nothing."""
        self.out += code

    def memoized(self, code: bytes) -> int:
        """Writes an opcode and memoizes its object; returns the number."""
        self.out += code + b"\x94"
        self.count += 1
        return self.count - 1

    def ref(self, number: int) -> None:
        """Writes a reference."""
        self.out += b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number)

    def text(self, value: str) -> None:
        """Writes a text, or a reference to it."""
        if value in self._texts:
            self.ref(self._texts[value])
            return
        data = value.encode()
        self._texts[value] = self.memoized(b"\x8c" + bytes([len(data)]) + data)

    def number(self, value: int) -> None:
        """Writes a whole number as ``pickle`` does."""
        if 0 <= value < 256:
            self.out += b"K" + bytes([value])
        elif 0 <= value < 65536:
            self.out += b"M" + struct.pack("<H", value)
        elif -(2**31) <= value < 2**31:
            self.out += b"J" + struct.pack("<i", value)
        else:
            data = value.to_bytes((value.bit_length() // 8) + 1, "little", signed=True)
            self.out += b"\x8a" + bytes([len(data)]) + data

    def pair(self, first: int, second: int) -> None:
        """Writes a tuple of two numbers."""
        self.number(first)
        self.number(second)
        self.memoized(b"\x86")


def write(path: Path, events: int, blocks: int = 1000, stacks: int = 400, depth: int = 8, seed: int = 1) -> int:
    """Writes a snapshot with about ``events`` events; returns how many. Each step makes and releases ``blocks`` blocks."""
    rng = random.Random(seed)
    with path.open("wb") as out:
        return _write(out, events, blocks, stacks, depth, rng)


def _write(out: BinaryIO, events: int, blocks: int, stacks: int, depth: int, rng: random.Random) -> int:
    writer = Writer()
    writer.raw(b"\x80\x04")
    writer.memoized(b"}")
    writer.raw(b"(")
    frames = [_frame(i) for i in range(stacks)]
    persistent = [(BASE + i * (4 << 20), 4 << 20) for i in range(64)]
    first = BASE + len(persistent) * (4 << 20)
    plan = _plan(blocks, first, rng)
    top = max(address + size for _, address, size, _ in plan)
    writer.text("segments")
    writer.memoized(b"]")
    writer.raw(b"(")
    _segment(writer, BASE, len(persistent) * (4 << 20), persistent)
    _segment(writer, first, top - first, [])
    writer.raw(b"e")
    writer.text("device_traces")
    writer.memoized(b"]")
    writer.memoized(b"]")
    writer.raw(b"(")
    numbers = _first_events(writer, frames)
    done = _first_count = len(frames)
    chains = [[numbers[(i * 7 + k * 13) % stacks] for k in range(depth)] for i in range(stacks)]
    template, times, links = _step(writer, plan, chains)
    memoized = _memoized(template)
    out.write(writer.out)
    base, clock = writer.count, _START_US + _first_count
    array = np.frombuffer(bytes(template), np.uint8)
    offsets = np.array([place for place, _ in links], np.int64)
    relative = np.array([number for _, number in links], np.int64)
    places = np.array(times, np.int64)
    while done < events:
        step = array.copy()
        moment = clock + np.arange(len(places), dtype=np.int64) * 3
        for byte in range(7):
            step[places + byte] = (moment >> (8 * byte)) & 0xFF
        number = base + relative
        for byte in range(4):
            step[offsets + byte] = (number >> (8 * byte)) & 0xFF
        out.write(b"\x95" + struct.pack("<Q", len(step)))
        out.write(step.tobytes())
        base += memoized
        clock += 3 * len(places) + 500
        done += len(places)
    tail = Writer()
    tail._texts, tail.count = writer._texts, base
    tail.raw(b"ea")
    for key in ("allocator_settings", "external_annotations"):
        tail.text(key)
        tail.memoized(b"}" if key == "allocator_settings" else b"]")
    tail.raw(b"u.")
    out.write(tail.out)
    return done


def _frame(i: int) -> tuple[str, str, int]:
    return f"layer_{i % 97}_forward", f"/home/user/project/model/block_{i % 31}.py", 10 + i


def _plan(blocks: int, first: int, rng: random.Random) -> list[tuple[str, int, int, int]]:
    """What happens in a step: (action, address, size, block), in order. Blocks live at addresses of their own."""
    at, made = first, []
    for block in range(blocks):
        size = 512 * rng.choice([1, 2, 8, 64, 1024, 8192, rng.randint(1, 20_000)])
        made.append((at, size, block))
        at += size
    plan: list[tuple[str, int, int, int]] = []
    live: list[tuple[int, int, int]] = []
    for address, size, block in made:
        plan.append(("alloc", address, size, block))
        live.append((address, size, block))
        if rng.random() < 0.5 and len(live) > 1:
            plan += _release(live.pop(-2))
    while live:
        plan += _release(live.pop())
    return plan


def _release(block: tuple[int, int, int]) -> list[tuple[str, int, int, int]]:
    address, size, number = block
    return [("free_requested", address, size, number), ("free_completed", address, size, number)]


def _segment(writer: Writer, address: int, size: int, blocks: list[tuple[int, int]]) -> None:
    writer.memoized(b"}")
    writer.raw(b"(")
    used = sum(length for _, length in blocks)
    for key, value in (
        ("device", 0), ("address", address), ("total_size", size), ("allocated_size", used), ("active_size", used),
        ("requested_size", used), ("stream", 0),
    ):  # fmt: skip
        writer.text(key)
        writer.number(value)
    writer.text("segment_type")
    writer.text("large")
    writer.text("segment_pool_id")
    writer.pair(0, 0)
    writer.text("is_expandable")
    writer.raw(b"\x89")
    writer.text("frames")
    writer.memoized(b"]")
    writer.text("blocks")
    writer.memoized(b"]")
    writer.raw(b"(")
    for at, length, state in [(*block, "active_allocated") for block in blocks] or [(address, size, "inactive")]:
        writer.memoized(b"}")
        writer.raw(b"(")
        for key, value in (("address", at), ("size", length), ("requested_size", length if blocks else 0)):
            writer.text(key)
            writer.number(value)
        writer.text("state")
        writer.text(state)
        writer.text("frames")
        writer.memoized(b"]")
        writer.raw(b"u")
    writer.raw(b"eu")


def _open_event(writer: Writer, action: str, address: int, size: int) -> int:
    """Writes an event up to its frames; returns where the seven bytes of its time are."""
    writer.memoized(b"}")
    writer.raw(b"(")
    writer.text("action")
    writer.text(action)
    for key, value in (("addr", address), ("size", size), ("stream", 0)):
        writer.text(key)
        writer.number(value)
    writer.text("time_us")
    writer.number(_START_US)
    place = len(writer.out) - 7
    for key in ("compile_context", "user_metadata"):
        writer.text(key)
        writer.text("")
    writer.text("pool_id")
    writer.pair(0, 0)
    writer.text("frames")
    return place


def _first_events(writer: Writer, frames: list[tuple[str, str, int]]) -> list[int]:
    """Writes an event for each frame, which brings it into the memo; returns the numbers of the frames."""
    numbers = []
    for i, (name, file, line) in enumerate(frames):
        _open_event(writer, "snapshot", 0, 0)
        writer.memoized(b"]")
        numbers.append(writer.memoized(b"}"))
        writer.raw(b"(")
        for key, text in (("name", name), ("filename", file)):
            writer.text(key)
            writer.text(text)
        writer.text("line")
        writer.number(line)
        writer.raw(b"uau")
        if (i + 1) % _BATCH == 0:
            writer.raw(b"e(")
    # All words of a step are in the memo before it is made once.
    for action in ("alloc", "free_requested", "free_completed"):
        _open_event(writer, action, 0, 0)
        writer.memoized(b"]")
        writer.raw(b"u")
    return numbers


def _step(
    writer: Writer, plan: list[tuple[str, int, int, int]], chains: list[list[int]]
) -> tuple[bytearray, list[int], list[tuple[int, int]]]:
    """A step's bytes, places of its times, and places of references with the number counted from the step's first."""
    step = Writer()
    step._texts, step.count = writer._texts, 10**9  # numbers of their own take five bytes
    times: list[int] = []
    links: list[tuple[int, int]] = []
    lists: dict[int, int] = {}
    for i, (action, address, size, block) in enumerate(plan):
        times.append(_open_event(step, action, address, size))
        if action == "alloc":
            lists[block] = step.memoized(b"]")
            step.raw(b"(")
            for number in chains[block % len(chains)]:
                step.ref(number)
            step.raw(b"e")
        else:
            step.ref(lists[block])
            links.append((len(step.out) - 4, lists[block] - 10**9))
        step.raw(b"u")
        if (i + 1) % _BATCH == 0:
            step.raw(b"e(")
    return step.out, times, links


def _memoized(step: bytearray) -> int:
    """How many objects a step memoizes."""
    import pickletools

    return sum(op.name == "MEMOIZE" for op, _, _ in pickletools.genops(bytes(step) + b"."))


def main() -> None:
    """Writes one file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--events", type=int, default=1_000_000)
    asked = parser.parse_args()
    count = write(asked.path, asked.events)
    print(f"{asked.path}: {count:,} events, {asked.path.stat().st_size / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
