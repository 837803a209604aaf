"""Metrics of segments, blocks and gaps after one event."""

from __future__ import annotations

from collections.abc import Mapping

from tb_plugin.analysis.metrics import define
from tb_plugin.analysis.snapshot.finding_metrics import GAP, HISTORY, WITHOUT_BLOCK
from tb_plugin.payloads import Metric

AT = "after the selected event"

MOMENTS: tuple[Mapping[str, Metric], ...] = (
    define(
        AT,
        "text",
        {
            "segment_kind": (
                "Kind",
                "small: blocks up to 1 MiB. large: larger blocks. expandable: grows and shrinks by pages.",
            ),
        },
    ),
    define(
        AT,
        "bytes",
        {
            "segment_bytes": ("Reserved", "Bytes of the segments."),
            "allocated_now_bytes": ("Allocated", "Bytes of blocks that the program has not released."),
            "pending_now_bytes": ("Pending free", "Bytes of released blocks that a stream still uses."),
            "free_now_bytes": ("Free", f"{WITHOUT_BLOCK}."),
            "widest_gap_bytes": ("Largest gap", f"{GAP}."),
            "stuck_bytes": ("Stuck", "Free bytes in segments (or pages) that contain a block."),
            "rounding_bytes": ("Rounding loss", "Block size minus requested bytes, for blocks allocated at the end."),
            "returnable_bytes": ("Returnable", "Bytes returnable to the driver if this block were released."),
            "unknown_place_bytes": ("Outside", "Bytes of blocks without a known segment."),
            "gap_from_bytes": ("Gap of at least", "Smallest gap size in the range: half of the largest."),
            "gaps_bytes": ("Free in such gaps", "Bytes of gaps in this size range."),
            "in_way_bytes": ("Blocking bytes", "Bytes of the blocks that separate the free memory."),
            "gap_without_bytes": ("Gap without them", "Size of the gap without the blocking blocks."),
            "pool_free_bytes": ("Free in its pool", "Free bytes in the request's stream, pool and size class."),
            "pool_gap_bytes": ("Largest gap in its pool", f"{GAP} in the request's stream, pool and size class."),
        },
    ),
    define(
        AT,
        "ratio",
        {
            "scattered_ratio": ("Scattered", "1 - largest gap / free bytes."),
            "unusable_ratio": ("Too small", "Share of free bytes in gaps smaller than the request."),
        },
    ),
    define(
        AT,
        "count",
        {
            "segments_now": ("Segments", "Live segments; an expandable segment counts once."),
            "blocks_now": ("Blocks", "Allocated blocks plus blocks waiting to be freed."),
            "gaps_now": ("Gaps", "Free ranges between blocks."),
            "in_way_blocks": (
                "Blocking blocks",
                "Neighbouring blocks that separate free memory for the request.",
            ),
            "age_events": ("Age", "Events since the allocation; empty if before the history."),
        },
    ),
    define(
        AT,
        "bool",
        {
            "is_pending": ("Pending free", "Released, but still in use by a stream."),
            "fits_joined": ("Fits in one piece", "The request would fit if free memory were contiguous."),
        },
    ),
    define(
        HISTORY,
        "count",
        {
            "next_event": ("Next", "Next event of this kind."),
            "previous_event": ("Previous", "Previous event of this kind."),
        },
    ),
    define(
        HISTORY,
        "bytes",
        {
            "request_bytes": ("Request", "Selected size, else that of the failed request or largest block."),
            "pool_reserved_bytes": ("Reserved", "Segment bytes after each event, in total or per stream and pool."),
        },
    ),
)
