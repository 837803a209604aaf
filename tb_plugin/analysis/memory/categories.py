"""Categories of a trace's memory blocks."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.backward import forward_operators, in_backward
from tb_plugin.analysis.memory.owners import Owners
from tb_plugin.analysis.memory.tables import BEFORE, LOST, MemoryScene
from tb_plugin.analysis.memory.trace_devices import Device
from tb_plugin.analysis.memory_categories import ORDER, Lives, When, categories_of, category_slices, passes_of
from tb_plugin.analysis.range_patterns import OPTIMIZER
from tb_plugin.lib.arrays import Bool, Int8, Int64
from tb_plugin.lib.groupby import group, sum_by
from tb_plugin.lib.intervals import Ranges, contains, union
from tb_plugin.lib.model_cache import MEMO
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Breakdown, Metric, Slice

UNKNOWN = ORDER.index("unknown")
DERIVED = "Derived from allocation and release times."
REST = "Recorded total minus the categories above: unreleased memory from before the recording."


def category_bar(scene: MemoryScene, device: Device, at: int, when: str) -> dict[str, Breakdown]:
    """Returns the allocated bytes by category after event ``at``; empty without a forward pass, totals or addresses."""
    if not (device.has_addresses and device.has_totals):
        return {}
    codes = MEMO.get(device, block_categories, lambda: block_categories(scene.trace, scene.owners, device))
    if not codes.any_pass:
        return {}
    blocks, total = device.blocks, device.level(at)

    def sizes_of(chosen: Bool) -> Int64:
        return sum_by(codes.of[chosen], blocks.size[chosen], len(ORDER))

    sizes = sizes_of(blocks.live_at(at))
    # Older blocks with a recorded release, if the recorded total covers them.
    older = sizes_of(blocks.live(at) & (blocks.allocation == MISSING) & (codes.of != UNKNOWN))
    if older.sum() <= total - sizes.sum():
        sizes += older
    parts = category_slices("live", dict(zip(ORDER, sizes.tolist(), strict=True)), DERIVED)
    if rest := total - int(sizes.sum()):
        whose = BEFORE if rest > 0 else LOST
        parts.append(Slice(Metric("outside", whose.strip("()"), "bytes", REST), "idle", rest))
    title = f"Live {when} by category"
    return {"live_categories": Breakdown("live_categories", title, device.name, "bytes", total, parts, "bar")}


class Categorised(msgspec.Struct, frozen=True, eq=False):
    """Category of each memory block of a device, as an index into ``memory_categories.ORDER``."""

    of: Int8
    any_pass: bool
    """Whether a forward pass was found. If none was found, all categories are unknown."""


def block_categories(trace: TraceTable, owners: Owners, device: Device) -> Categorised:
    lives = lives_of(trace, owners, device)
    return Categorised(categories_of(lives), passes_of(lives) > 0)


def lives_of(trace: TraceTable, owners: Owners, device: Device) -> Lives:
    blocks = device.blocks
    operators = np.flatnonzero(trace.kind == EventKind.OPERATOR)
    backward = in_backward(trace, operators, forward_operators(trace, operators))
    steps, clears = (_annotated(trace, what) for what in ("step", "zero_grad"))
    own = owners.operator[device.record]
    row = np.where(own == MISSING, MISSING, owners.operators[own] if len(owners.operators) else MISSING)
    time = device.time_ns
    passes, turns = _passes(trace, operators, backward, union(
        np.concatenate((steps.start, clears.start)), np.concatenate((steps.end, clears.end))
    ))  # fmt: skip
    # Between two backward operators, no call may be active on the thread.
    engine = operators[backward[operators]]
    turn = group(np.searchsorted(passes, trace.start_ns[engine], side="right"))
    hull = union(turn.min(trace.start_ns[engine]), turn.max(trace.ends(engine)))
    number = np.searchsorted(passes, time, side="right")
    opened = (
        np.concatenate(([-1], passes))[number] > np.concatenate(([-1], turns))[np.searchsorted(turns, time, "right")]
    )
    when = np.select(
        [
            contains(clears, time),
            contains(steps, time),
            backward[row] | ((row == MISSING) & contains(hull, time)),
            opened,
        ],
        [When.CLEAR, When.STEP, When.BACKWARD, When.FORWARD],
        When.BETWEEN,
    ).astype(np.int8)

    def at(values: npt.NDArray[np.signedinteger], event: Int64, none: int) -> npt.NDArray[np.int64]:
        return np.append(values, none)[event].astype(np.int64)

    begin, end = (at(when, event, When.NEVER).astype(np.int8) for event in (blocks.allocation, blocks.release))
    begin_pass, end_pass = at(number, blocks.allocation, 0), at(number, blocks.release, 0)
    root = np.append(owners.root, MISSING)[own].astype(np.int64)
    until = np.append(trace.ends(owners.operators), -1)[root]
    released = at(time, blocks.release, 0)
    whole = (blocks.allocation != MISSING) & (blocks.release != MISSING)
    call = np.searchsorted(steps.start, time, side="right")
    same_call = at(call, blocks.allocation, -1) == at(call, blocks.release, -2)
    same_pass = begin_pass == end_pass
    return Lives(
        bytes=blocks.size,
        begin=begin,
        end=end,
        begin_pass=begin_pass,
        end_pass=end_pass,
        in_operator=whole & (released <= at(until, blocks.allocation, -1)),
        in_stage=whole & (begin == end) & same_pass & (same_call | (begin != When.STEP)),
    )


def _annotated(trace: TraceTable, method: str) -> Ranges:
    is_method = trace.strings.where(lambda text: (found := OPTIMIZER.match(text)) is not None and found[1] == method)
    rows = np.flatnonzero((trace.kind == EventKind.ANNOTATION) & is_method[trace.name])
    return union(trace.start_ns[rows], trace.ends(rows))


def _passes(trace: TraceTable, operators: Int64, backward: Bool, optimizer: Ranges) -> tuple[Int64, Int64]:
    linked = trace.forward[operators]
    rows = np.concatenate((np.flatnonzero(trace.kind == EventKind.MODULE), np.unique(linked[linked != MISSING])))
    rows = rows[~backward[rows]]
    starts = np.unique(trace.start_ns[rows[~contains(optimizer, trace.start_ns[rows])]])
    turns = np.unique(np.concatenate((trace.start_ns[operators[backward[operators]]], optimizer.start)))
    before = np.searchsorted(turns, starts, side="right")
    first = np.concatenate(([True], before[1:] != before[:-1]))[: len(starts)]
    return starts[first], turns
