"""What follows from the records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from events import Json

from .records import BEFORE, SEGMENT_BYTES, Process, Step

Range = tuple[int, int]


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Returns the union of ranges: sorted, none touches another."""
    found: list[Range] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def without(ranges: list[Range], others: list[Range]) -> list[Range]:
    """Returns what of merged ranges lies in none of the others."""
    found = []
    for start, end in ranges:
        for begin, stop in others:
            if begin < end and stop > start:
                if begin > start:
                    found.append((start, begin))
                start = max(start, stop)
        if start < end:
            found.append((start, end))
    return found


def bars_of(process: Process) -> dict[str, list[Range]]:
    """Returns the bars of the overlap analysis: lanes that each are free of overlaps."""
    computing = merged((task.start_ns, task.end_ns) for task in process.kernels)
    communication = merged((one.start_ns, one.end_ns) for one in process.collectives)
    busy = merged([*computing, *communication])
    return {
        "Computing": computing,
        "Communication": communication,
        "Communication(Not Overlapped)": without(communication, computing),
        "Free": without([(busy[0][0], busy[-1][1])], busy),
    }


def device_range(process: Process, step: Step) -> Range:
    """Returns the range of the device that is a step: from its first kernel on."""
    of_step = [one for one in (*process.kernels, *process.collectives) if one.step == step.number]
    return min(one.start_ns for one in of_step), max(step.end_ns, *(one.end_ns for one in of_step))


def times_of(process: Process, step: Step) -> Json:
    """Returns where the time of a step went on the device; a bar belongs to the step in which it begins."""
    first, last = device_range(process, step)
    bars = {lane: [bar for bar in bars if first <= bar[0] <= last] for lane, bars in bars_of(process).items()}
    total = {lane: sum(end - start for start, end in bars[lane]) for lane in bars}
    every = [bar for lane in bars.values() for bar in lane]
    bubble = sum(
        one.end_ns - one.start_ns
        for one in process.collectives
        if one.step == step.number and one.type.startswith("hcom_receive")
    )
    alone = total["Communication(Not Overlapped)"]
    begun = min(start for lane in ("Computing", "Communication") for start, _ in bars[lane])
    return {
        "computing_ns": total["Computing"],
        "not_overlapped_ns": alone,
        "overlapped_ns": total["Communication"] - alone,
        "communication_ns": total["Communication"],
        "free_ns": total["Free"],
        "stage_ns": max(end for _, end in every) - min(start for start, _ in every) - bubble,
        "bubble_ns": bubble,
        "not_overlapped_exclude_receive_ns": max(0, alone - bubble),
        "preparing_ns": begun - step.start_ns,
        "_bars": bars,
    }


@dataclass(frozen=True)
class Level:
    """What an allocator had given after one change: the number of the block says which."""

    at: int
    block: int
    allocated: int
    reserved: int


def levels_of(process: Process, allocator: str) -> list[Level]:
    """Returns the totals of an allocator after each allocation and each release, in order of time."""
    base, pool = BEFORE.get(allocator, (0, 0))
    changes = []
    for number, block in enumerate(process.blocks):
        if block.allocator == allocator:
            changes += [(block.start_ns, number, block.bytes)] if block.start_ns is not None else []
            changes += [(block.end_ns, number, -block.bytes)] if block.end_ns is not None else []
    levels, allocated, reserved = [], base, pool
    for at, number, change in sorted(changes):
        allocated += change
        reserved = max(reserved, -(-allocated // SEGMENT_BYTES) * SEGMENT_BYTES)
        levels.append(Level(at, number, allocated, reserved))
    return levels


def together(process: Process) -> Iterator[tuple[str, Level, dict[str, Range]]]:
    """Yields each change of one of both allocators that are counted together, with what both have since (given, reserved)."""
    latest = dict(BEFORE)
    changes = [(level.at, level.block, name, level) for name in BEFORE for level in levels_of(process, name)]
    for _, _, name, level in sorted(changes, key=lambda change: change[:3]):
        latest[name] = (level.allocated, level.reserved)
        yield name, level, dict(latest)


def host_times(process: Process) -> list[tuple[int, int]]:
    """Returns of each call how long it took itself, and with the calls in it."""
    total = [op.end_ns - op.start_ns for op in process.ops]
    own = list(total)
    for place, op in enumerate(process.ops):
        if op.parent >= 0:
            own[op.parent] -= total[place]
    return list(zip(own, total, strict=True))


def device_times(process: Process, on_cores: bool = False) -> list[tuple[int, int]]:
    """Returns of each call how long the work took that it launched itself, and with the calls in it.

    ``on_cores``: of the kernels of one kind of core alone. Recordings count AI_CORE and AI_VECTOR_CORE, and no MIX_AIV.
    """
    own = [0] * len(process.ops)
    for task in process.tasks:
        if task.op >= 0 and (not on_cores or task.core in ("AI_CORE", "AI_VECTOR_CORE")):
            own[task.op] += task.end_ns - task.start_ns
    for one in process.collectives if not on_cores else ():
        own[one.op] += one.end_ns - one.start_ns
    total = list(own)
    for place in reversed(range(len(total))):  # a call stands before the calls in it
        if process.ops[place].parent >= 0:
            total[process.ops[place].parent] += total[place]
    return list(zip(own, total, strict=True))
