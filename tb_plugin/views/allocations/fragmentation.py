"""The finding about memory that is reserved but never in use."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tb_plugin.analysis.memory.growth import WARM_UP, varying_share
from tb_plugin.analysis.memory.growth import steps_of as moments_to_steps
from tb_plugin.analysis.phrases import plural, references_of
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, levels_of, ooms_of
from tb_plugin.analysis.snapshot.labels import pool_texts, stack_words
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.analysis.snapshot.moment import Moment, moment_at
from tb_plugin.analysis.snapshot.steps import steps_of
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import group, sum_by
from tb_plugin.model.snapshot.assemble import ROUNDED
from tb_plugin.model.snapshot.table import NEVER
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Link, Notice
from tb_plugin.rules._base import Check, percent

# Share of reserved memory. Constant shapes leave less unused: only the remainders of segments.
UNUSED_SHARE = 0.2
# In any program, a few segments of 20 MiB may leave less than this unused.
UNUSED_BYTES = 64 << 20
SEVERE_UNUSED = 0.4
# Share of the allocated bytes whose sizes change between steps.
VARYING_SHARE = 0.2


# Sentence by cause.
CAUSES = {
    "pool": ("{pool_unused_bytes} are in one pool ({pool_name}). Requests for other pools cannot use this memory."),
    "varying": "Block sizes change from step to step ({varying_sizes_ratio} of the allocated bytes), so new blocks do "
    "not fit the gaps.",
    "small": "{small_unused_bytes} are in segments for blocks of up to 1 MiB, which larger blocks cannot use.",
    "pinned": "Blocks that are never released pin the segments, mostly blocks from {pinning_line}.",
    "mixed": (
        "The segments with unused memory contain short-lived blocks, but none of these segments is ever "
        "completely free."
    ),
    "rest": (
        "Most of the unused memory is in empty segments. Requests from other streams or pools, or of "
        "other sizes, cannot use them."
    ),
}


CHECK = Check(
    "snapshot_fragmentation",
    detects="Much of the reserved memory is unused at the peak of reserved memory.",
    threshold=f"Peak reserved memory exceeds peak active memory by at least {percent(UNUSED_SHARE)} of itself and 64 MiB.",
    severity=f"High if `unused_ratio` is at least {percent(SEVERE_UNUSED)} or memory ran out, else medium.",
    notes="""
        The rule runs only if all block sizes are multiples of 512 bytes. Otherwise the file is a profile that was
        converted to a snapshot. The finding names the first of these causes that applies. `pool`: at least half of
        `unused_bytes` is in one private pool. `varying`: `varying_sizes_ratio` is at least 0.2. `small`: at least half of
        `unused_bytes` is in small segments. `pinned`: at least half is in segments with a block that is never released.
        `mixed`: at least half is in segments with short-lived blocks. `rest`: the unused memory belongs to other
        streams, pools or sizes.
    """,
    cases=("", "pool", "varying", "small", "pinned", "mixed", "rest"),
)


def fragmentation(device: DeviceLevels) -> Iterator[Notice]:
    levels = levels_of(device)
    event = levels.most_reserved()
    reserved = int(levels.reserved[event + 1])
    # More may be in use while less is reserved: then the larger reservation was not needed.
    wasted = reserved - int(levels.active.max())
    if not reserved or wasted < max(UNUSED_BYTES, UNUSED_SHARE * reserved) or (device.block("size") % ROUNDED).any():
        return
    moment = moment_at(device, event)
    segments = moment.rows
    free = segments.size - sum_by(moment.row, moment.size, len(segments))
    is_pinned = free < segments.size
    unused = int(levels.reserved[event + 1] - levels.active[event + 1])
    pinned, small = int(free[is_pinned].sum()), int(free[~segments.is_large].sum())
    pinned_segments = int((is_pinned & (free > 0)).sum())
    varying = _varying_ratio(device)
    stack, staying = _pinning(moment, free)
    pool, pool_bytes = _largest_private_pool(moment, free)
    line = stack_words(device.snapshot).line[stack].as_py() if stack is not None else None
    figures = METRICS.figures(
        {
            "unused_ratio": unused / reserved,
            "unused_bytes": unused,
            "reserved_then_bytes": reserved,
            "pinned_bytes": pinned,
            "pinned_segments": pinned_segments,
            "largest_gap_bytes": moment.largest_gap,
            "small_unused_bytes": small,
            "varying_sizes_ratio": varying,
            "pinning_line": line,
            "event_number": event,
        }
    )
    when = "before the first recorded event" if event == MISSING else "at event {event_number}"
    text = f"{{unused_ratio}} of the peak reserved memory is unused {when}: {{unused_bytes}} of "
    text += "{reserved_then_bytes}. {pinned_bytes} cannot be returned to the driver because {pinned_segments} "
    text += f"{plural(pinned_segments, 'segment is', 'segments are')} partly in use. The largest gap is "
    text += "{largest_gap_bytes}. "
    if pool is not None and 2 * pool_bytes >= unused:
        figures += [METRICS.figure("pool_name", pool), METRICS.figure("pool_unused_bytes", pool_bytes)]
        cause = "pool"
    elif varying >= VARYING_SHARE:
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


def _varying_ratio(device: DeviceLevels) -> float:
    moments = steps_of(device).moments[WARM_UP:]
    blocks = device.table
    step = moments_to_steps(moments, blocks.begin)
    rows = np.flatnonzero((step >= 0) & (step < len(moments) - 1))
    return varying_share(blocks.size[rows], step[rows], len(moments) - 1)


def _pinning(moment: Moment, free: Int64) -> tuple[int | None, int]:
    device, row = moment.levels, moment.row
    stays = np.flatnonzero(device.block("freed")[moment.block] == NEVER)
    order = stays[np.lexsort((device.block("begin")[moment.block[stays]], row[stays]))]
    first = order[np.diff(row[order], prepend=-1) > 0]
    stack, kept = device.block("stack")[moment.block[first]].astype(np.int64), free[row[first]]
    known = stack != MISSING
    if not known.any():
        return None, int(kept.sum())
    groups = group(stack[known])
    return int(stack[known][groups.first[groups.sum(kept[known]).argmax()]]), int(kept.sum())


def _largest_private_pool(moment: Moment, free: Int64) -> tuple[str | None, int]:
    snapshot = moment.levels.snapshot
    is_private = np.array([pair != (0, 0) for pair in snapshot.pools] + [False], np.bool_)
    rows = np.flatnonzero(is_private[moment.rows.pool])
    if not len(rows):
        return None, 0
    by_pool = np.bincount(moment.rows.pool[rows], free[rows]).astype(np.int64)
    most = int(by_pool.argmax())
    return pool_texts(snapshot, np.array([most]))[0].as_py(), int(by_pool[most])
