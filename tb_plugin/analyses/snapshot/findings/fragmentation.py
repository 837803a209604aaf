"""Fragmentation: reserved memory that was not in use when most was reserved, and why."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tb_plugin.analyses.grouping import group
from tb_plugin.analyses.snapshot.free import Free, free_of
from tb_plugin.analyses.snapshot.growth import FEWEST_GROWING, WARM_UP
from tb_plugin.analyses.snapshot.held import Held, levels_of, ooms_of
from tb_plugin.analyses.snapshot.metrics import METRICS
from tb_plugin.analyses.snapshot.steps import steps_of
from tb_plugin.analyses.snapshot.words import stack_words
from tb_plugin.analyses.wording import noun, references_of
from tb_plugin.payloads import Link, Notice
from tb_plugin.trace.schema import MISSING

UNUSED_SHARE = 0.2
"""Constant shapes leave less: rests of segments and what the last block of a size needed."""
UNUSED_BYTES = 64 << 20
"""Less is the rest of a few segments of 20 MiB, whatever a program does."""
SEVERE_UNUSED = 0.4
ROUNDED = 512
"""The caching allocator gives multiples of so many bytes. Other sizes are those of a profile that was converted to a
snapshot: its segment is the range of all addresses, and nothing that is reserved."""
VARYING_SHARE = 0.2
"""So much of what steps allocate has other sizes each time, or the sizes are not the cause."""
VARYING_BYTES = 0.01
"""By less than this of their mean the bytes of a stack do not vary from step to step."""


def fragmentation(held: Held) -> Iterator[Notice]:
    """Yields one notice where a large part of the reserved memory was in use at no time."""
    levels = levels_of(held)
    reserved = int(levels.reserved.max())
    most = np.flatnonzero(levels.reserved == reserved)
    event = int(most[levels.active[most].argmax()]) - 1
    # More may have been in use in less memory: then it was not for lack of a place that more was reserved.
    wasted = reserved - int(levels.active.max())
    if not reserved or wasted < UNUSED_BYTES or wasted < UNUSED_SHARE * reserved:
        return
    if (held.block("size") % ROUNDED).any():
        return
    free = free_of(held, event)
    unused = int(levels.reserved[event + 1] - levels.active[event + 1])
    pinned, small = int(free.free[free.is_pinned].sum()), int(free.free[free.is_small].sum())
    pinned_segments = int((free.is_pinned & (free.free > 0)).sum())
    varying = varying_ratio(held)
    stack = _pinning(held, free)
    line = stack_words(held.snapshot).line[stack].as_py() if stack is not None else None
    figures = [
        METRICS.figure("unused_ratio", unused / reserved),
        METRICS.figure("unused_bytes", unused),
        METRICS.figure("reserved_then_bytes", reserved),
        METRICS.figure("pinned_bytes", pinned),
        METRICS.figure("pinned_segments", pinned_segments),
        METRICS.figure("largest_gap_bytes", free.largest()),
        METRICS.figure("small_unused_bytes", small),
        METRICS.figure("varying_ratio", varying),
        METRICS.figure("pinning_line", line),
    ]
    text = "{unused_ratio} of the reserved memory is not in use when most is reserved: {unused_bytes} of "
    text += "{reserved_then_bytes}. {pinned_bytes} of it cannot be given back, for blocks lie in the same "
    text += f"{{pinned_segments}} {noun(pinned_segments, 'segment')}; the largest gap is {{largest_gap_bytes}}. "
    cause = "rest"
    if varying is not None and varying >= VARYING_SHARE:
        cause = "varying"
        text += (
            "Sizes change from step to step ({varying_ratio} of the allocated bytes): gaps do not fit what comes next."
        )
    elif 2 * small >= unused:
        cause = "small"
        text += "{small_unused_bytes} of it lies in segments for blocks of up to 1 MiB, which larger blocks cannot use."
    elif 2 * pinned >= unused and line is not None:
        cause = "pinned"
        text += "Blocks that stay pin the segments, most of it those of {pinning_line}."
    else:
        text += "Most of it lies where nothing is allocated: other streams, pools or sizes cannot use it."
    recorder = held.snapshot.recorder
    grows = held.snapshot.settings.get("expandable_segments") is True
    todos = [recorder.todo(f"snapshot_fragmentation.{cause}")]
    todos += [] if grows else [recorder.todo("snapshot_fragmentation")]
    yield Notice(
        "snapshot_fragmentation",
        "high" if unused >= SEVERE_UNUSED * reserved or len(ooms_of(held)) else "medium",
        text,
        " ".join(filter(None, todos)),
        figures,
        "unused_ratio",
        UNUSED_SHARE,
        Link("segments", {"device": held.name, "at": str(event)}, "Show its segments then"),
        references_of(recorder, "snapshot_fragmentation"),
    )


def varying_ratio(held: Held) -> float | None:
    """Returns the share of the allocated bytes whose stacks allocate other bytes each step; None without enough steps."""
    steps = steps_of(held)
    count = len(steps) - WARM_UP
    if count < FEWEST_GROWING:
        return None
    step = steps.of(held.block("begin").astype(np.int64)) - WARM_UP
    rows = np.flatnonzero((step >= 0) & (step < count))
    if not len(rows):
        return None
    stack, size = held.block("stack")[rows].astype(np.int64), held.block("size")[rows]
    pairs = group(stack, step[rows])
    of, total = stack[pairs.first], pairs.sum(size).astype(np.float64)
    stacks = group(of)
    whole = stacks.sum_real(total)
    # Steps in which a stack allocated nothing are as far from the mean as that is.
    mean = whole / count
    deviation = stacks.sum_real(np.abs(total - mean[stacks.of])) + (count - stacks.count()) * mean
    varies = deviation > VARYING_BYTES * whole
    return float(whole[varies].sum() / whole.sum()) if whole.sum() else None


def _pinning(held: Held, free: Free) -> int | None:
    """The stack whose blocks live longest in the ranges with most of the pinned bytes; None where none is known."""
    if not len(free.block):
        return None
    life = held.block("freed")[free.block] - held.block("begin")[free.block]
    order = np.lexsort((-life, free.block_range))
    ranges = free.block_range[order]
    first = order[np.diff(ranges, prepend=-1) > 0]
    stack = held.block("stack")[free.block[first]].astype(np.int64)
    groups = group(stack)
    held_back = groups.sum(free.free[free.block_range[first]])
    held_back[stack[groups.first] == MISSING] = 0
    return int(stack[groups.first[held_back.argmax()]]) if held_back.max() else None
