"""Metrics of segments, blocks and gaps after one event."""

from __future__ import annotations

from collections.abc import Mapping

from tb_plugin.analysis.metrics import define
from tb_plugin.analysis.snapshot.finding_metrics import GAP, HISTORY, WITHOUT_BLOCK
from tb_plugin.payloads import Metric

AT = "after the chosen event"

MOMENTS: tuple[Mapping[str, Metric], ...] = (
    define(
        AT,
        "text",
        {
            "segment_kind": (
                "Kind",
                "small: of blocks up to 1 MiB, large: of larger ones; expandable segments grow and shrink by pages. Told "
                "by the size where the snapshot does not state it.",
            ),
        },
    ),
    define(
        AT,
        "bytes",
        {
            "segment_bytes": ("Reserved", "Bytes of the segments: what the allocator holds from the driver."),
            "allocated_now_bytes": ("Allocated", "Bytes of blocks whose release nobody asked for."),
            "pending_now_bytes": (
                "Pending free",
                "Bytes of blocks whose release was asked for, and that a stream may still use.",
            ),
            "free_now_bytes": ("Free", f"{WITHOUT_BLOCK}."),
            "widest_gap_bytes": (
                "Largest gap",
                f"{GAP}: no larger request fits into what is held.",
            ),
            "stuck_bytes": (
                "Stuck",
                "Free bytes that cannot be given back to the driver, because a block lies in the same segment (of "
                "expandable ones: in the same page of 2 MiB, or 20 MiB for large blocks).",
            ),
            "rounding_bytes": (
                "Lost to rounding",
                "Size less requested bytes of allocated blocks, of those that are left at the end: of others nobody "
                "recorded what was requested.",
            ),
            "returnable_bytes": (
                "Would go back",
                "Bytes that could be given back to the driver if this one block went away.",
            ),
            "unknown_place_bytes": ("Outside", "Bytes of blocks that lie in no known segment; they are not drawn."),
            "gap_from_bytes": ("Gap of at least", "Lower bound of the sizes, up to twice as much."),
            "gaps_bytes": ("Free in such gaps", "Bytes of the free ranges of such a size."),
            "in_way_bytes": ("In the way", "Bytes of the blocks of the run."),
            "gap_without_bytes": (
                "Room without them",
                "Bytes of the free range that would be there without these blocks.",
            ),
            "pool_free_bytes": (
                "Free in its pool",
                "Free bytes in segments of the stream, pool and size class of the request: no others can serve it.",
            ),
            "pool_gap_bytes": (
                "Its largest gap",
                f"{GAP} of the stream, pool and size class of the request.",
            ),
        },
    ),
    define(
        AT,
        "ratio",
        {
            "scattered_ratio": ("Scattered", "Share of the free bytes that lie outside of the largest gap."),
            "unusable_ratio": (
                "Too small",
                "Share of the free bytes in gaps that are smaller than the request.",
            ),
        },
    ),
    define(
        AT,
        "count",
        {
            "segments_now": ("Segments", "Live segments; an expandable one counts once however often it has grown."),
            "blocks_now": ("Blocks", "Blocks that are allocated or pending free."),
            "gaps_now": ("Gaps", "Free ranges between blocks."),
            "in_way_blocks": ("Blocks in the way", "Blocks of the run."),
            "age_events": ("Age", "Events since it was allocated; empty: it was there before the history."),
        },
    ),
    define(
        AT,
        "bool",
        {
            "is_pending": ("Pending free", "Its release was asked for; a stream may still use it."),
            "fits_joined": (
                "Fits in one piece",
                "Whether the request fits into what the driver and the allocator have free, were it one range.",
            ),
        },
    ),
    define(
        HISTORY,
        "count",
        {
            "next_event": ("Next", "Number of the next event of a kind; empty: there is none."),
            "previous_event": ("Previous", "Number of the event of a kind before this one; empty: there is none."),
        },
    ),
    define(
        HISTORY,
        "bytes",
        {
            "request_bytes": (
                "Request",
                "The size that gaps are measured against: as chosen, else what was asked for when memory ran out, else the "
                "largest block that is there.",
            ),
            "pool_reserved_bytes": (
                "Reserved",
                "Bytes of the segments after each event, of all or of one stream and pool.",
            ),
        },
    ),
)
