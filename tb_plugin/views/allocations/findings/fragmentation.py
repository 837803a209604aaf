"""Fragmentation: memory that is reserved but never in use."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tb_plugin.analysis.phrases import plural, references_of
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, levels_of, ooms_of
from tb_plugin.analysis.snapshot.free_memory import Free, free_of
from tb_plugin.analysis.snapshot.growth import FEWEST_GROWING, WARM_UP
from tb_plugin.analysis.snapshot.labels import pool_texts, stack_words
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.analysis.snapshot.steps import steps_of
from tb_plugin.lib.groupby import group
from tb_plugin.model.snapshot.table import NEVER
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Link, Notice
from tb_plugin.rules._base import percent
from tb_plugin.rules._checks import Check

# Share of reserved memory. Constant shapes leave less unused: only the remainders of segments.
UNUSED_SHARE = 0.2
# In any program, a few segments of 20 MiB may leave less than this unused.
UNUSED_BYTES = 64 << 20
SEVERE_UNUSED = 0.4
# Block sizes of the caching allocator are multiples of this. Other sizes come from a profile that was converted to a
# snapshot: its segment is the whole address range, not reserved memory.
ROUNDING_BYTES = 512
# Share of the allocated bytes whose sizes change between steps.
VARYING_SHARE = 0.2
# Share of the mean. Below this, the bytes of a stack count as constant between steps.
MIN_DEVIATION = 0.01


# Sentence by cause.
CAUSES = {
    "pool": "{pool_unused_bytes} are in one pool ({pool_name}), which serves no other requests.",
    "varying": "Block sizes change from step to step ({varying_ratio} of the allocated bytes), so new blocks do "
    "not fit the gaps.",
    "small": "{small_unused_bytes} are in segments for blocks of up to 1 MiB, which larger blocks cannot use.",
    "pinned": "Blocks that are never released pin the segments, mostly blocks from {pinning_line}.",
    "mixed": "These segments contain short-lived blocks, but no segment is ever completely free.",
    "rest": ("Most of the unused memory is in empty segments that other streams, pools or sizes cannot use."),
}


CHECK = Check(
    "snapshot_fragmentation",
    detects="Much of the reserved memory is unused at the peak of reserved memory.",
    threshold=f"The unused part is at least {percent(UNUSED_SHARE)} of the reserved memory, and at least 64 MiB.",
    severity=f"High if `unused_ratio` is at least {percent(SEVERE_UNUSED)} or memory ran out, else medium.",
    notes="""
        The rule runs only if all block sizes are multiples of 512 bytes. Otherwise the file is a profile that was
        converted to a snapshot. The cause is the first of these that applies. `pool`: at least half of `unused_bytes`
        is in one private pool. `varying`: `varying_ratio` is at least 0.2. `small`: at least half is in small segments.
        `pinned`: at least half is in segments with a block that is never released. `mixed`: at least half is in
        segments with short-lived blocks. `rest`: other streams, pools or sizes.
    """,
    cases=("", "pool", "varying", "small", "pinned", "mixed", "rest"),
)


def fragmentation(device: DeviceLevels) -> Iterator[Notice]:
    """Yields a finding if a large part of the reserved memory was never in use."""
    levels = levels_of(device)
    event = levels.most_reserved()
    reserved = int(levels.reserved[event + 1])
    # More may be in use while less is reserved: then the larger reservation was not needed.
    wasted = reserved - int(levels.active.max())
    if (
        not reserved
        or wasted < max(UNUSED_BYTES, UNUSED_SHARE * reserved)
        or (device.block("size") % ROUNDING_BYTES).any()
    ):
        return
    free = free_of(device, event)
    unused = int(levels.reserved[event + 1] - levels.active[event + 1])
    pinned, small = int(free.free[free.is_pinned].sum()), int(free.free[free.is_small].sum())
    pinned_segments = int((free.is_pinned & (free.free > 0)).sum())
    varying = varying_ratio(device)
    stack, staying = _pinning(device, free)
    pool, pool_bytes = _private(device, free)
    line = stack_words(device.snapshot).line[stack].as_py() if stack is not None else None
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
        METRICS.figure("event_number", event),
    ]
    when = "before the first recorded event" if event == MISSING else "at event {event_number}"
    text = f"{{unused_ratio}} of the peak reserved memory is unused {when}: {{unused_bytes}} of "
    text += "{reserved_then_bytes}. {pinned_bytes} cannot be returned to the driver because {pinned_segments} "
    text += f"{plural(pinned_segments, 'segment is', 'segments are')} partly in use. The largest gap is "
    text += "{largest_gap_bytes}. "
    if pool is not None and 2 * pool_bytes >= unused:
        figures += [METRICS.figure("pool_name", pool), METRICS.figure("pool_unused_bytes", pool_bytes)]
        cause = "pool"
    elif varying is not None and varying >= VARYING_SHARE:
        cause = "varying"
    elif 2 * small >= unused:
        cause = "small"
    elif 2 * staying >= unused and line is not None:
        cause = "pinned"
    else:
        cause = "mixed" if 2 * pinned >= unused else "rest"
    text += CAUSES[cause]
    recorder = device.snapshot.recorder
    grows = device.snapshot.settings.get("expandable_segments") is True
    todos = [recorder.todo(CHECK.advice_key(cause))]
    todos += [] if grows else [recorder.todo(CHECK.advice_key())]
    yield Notice(
        CHECK.id,
        "high" if unused >= SEVERE_UNUSED * reserved or len(ooms_of(device)) else "medium",
        text,
        " ".join(filter(None, todos)),
        figures,
        "unused_ratio",
        UNUSED_SHARE,
        Link("segments", {"device": device.name, "at": str(event)}, "Show the segments at that event"),
        references_of(recorder, CHECK.id),
    )


def varying_ratio(device: DeviceLevels) -> float | None:
    """Returns the share of allocated bytes that come from stacks whose bytes per step vary.

    None if there are too few steps.
    """
    steps = steps_of(device)
    count = len(steps) - WARM_UP
    if count < FEWEST_GROWING:
        return None
    step = steps.of(device.block("begin").astype(np.int64)) - WARM_UP
    rows = np.flatnonzero((step >= 0) & (step < count))
    if not len(rows):
        return None
    stack, size = device.block("stack")[rows].astype(np.int64), device.block("size")[rows]
    pairs = group(stack, step[rows])
    of, total = stack[pairs.first], pairs.sum(size).astype(np.float64)
    stacks = group(of)
    whole = stacks.sum_real(total)
    # A step without allocations of a stack deviates from the mean by the whole mean.
    mean = whole / count
    deviation = stacks.sum_real(np.abs(total - mean[stacks.of])) + (count - stacks.count()) * mean
    varies = deviation > MIN_DEVIATION * whole
    return float(whole[varies].sum() / whole.sum()) if whole.sum() else None


def _pinning(device: DeviceLevels, free: Free) -> tuple[int | None, int]:
    """Returns the stack whose blocks keep the most free bytes reserved until the end (None if unknown), and those
    bytes summed over all stacks.

    The free bytes of a range are attributed to the oldest block in it.
    """
    stays = np.flatnonzero(device.block("freed")[free.block] == NEVER)
    order = stays[np.lexsort((device.block("begin")[free.block[stays]], free.block_range[stays]))]
    first = order[np.diff(free.block_range[order], prepend=-1) > 0]
    stack, kept = device.block("stack")[free.block[first]].astype(np.int64), free.free[free.block_range[first]]
    known = stack != MISSING
    if not known.any():
        return None, int(kept.sum())
    groups = group(stack[known])
    return int(stack[known][groups.first[groups.sum(kept[known]).argmax()]]), int(kept.sum())


def _private(device: DeviceLevels, free: Free) -> tuple[str | None, int]:
    is_private = np.array([pair != (0, 0) for pair in device.snapshot.pools] + [False], np.bool_)
    rows = np.flatnonzero(is_private[free.pool])
    if not len(rows):
        return None, 0
    by_pool = np.bincount(free.pool[rows], free.free[rows]).astype(np.int64)
    most = int(by_pool.argmax())
    return pool_texts(device.snapshot, np.array([most]))[0].as_py(), int(by_pool[most])
