"""Exclusion of impossible times and sizes from a trace."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from tb_plugin.lib.arrays import Int64
from tb_plugin.model.trace.extra_columns import AllocatorTotals, ReportedMemory
from tb_plugin.model.trace.order import MOST, far_from, is_summable
from tb_plugin.model.trace.report import Issue, ReadReport
from tb_plugin.model.trace.schema import MISSING, taken_since
from tb_plugin.model.trace.table import CounterEvents, DeviceArgs, MemoryEvents

# Larger values of blocks per multiprocessor or occupancy are invalid. Sums over a trace stay finite.
_MAX_RATE = 1e18
_IMPOSSIBLE = {
    "impossible_time": "Events with impossible times (a year off, negative, a device event at 0) are excluded.",
    "impossible_size": "Allocator events with impossible sizes are excluded, or only their impossible totals.",
}


def set_aside(report: ReadReport, code: str, quarantined: int, partly: int = 0) -> ReadReport:
    """Adds an issue: ``quarantined`` events are excluded, ``partly`` only lose some values."""
    if not quarantined + partly:
        return report
    issue = Issue(code, "quarantined", _IMPOSSIBLE[code], quarantined + partly)
    return replace(
        report,
        events_loaded=report.events_loaded - quarantined,
        events_quarantined=report.events_quarantined + quarantined,
        issues=(*report.issues, issue),
    )


def without_impossible_numbers(args: DeviceArgs) -> DeviceArgs:
    """Replaces impossible numbers in the columns by -1 or NaN (not recorded)."""
    rates = (args.blocks_per_sm, args.occupancy)
    blocks, occupancy = (np.where(np.abs(rate) > _MAX_RATE, np.nan, rate) for rate in rates)
    sizes = np.where(is_summable(args.bytes), args.bytes, MISSING)
    return replace(args, bytes=sizes, blocks_per_sm=blocks, occupancy=occupancy)


def memory_of(
    memory: MemoryEvents, stated: ReportedMemory, origin: int
) -> tuple[MemoryEvents, ReportedMemory, int, int, int]:
    """Returns plausible events by time, their reported data, and how many had impossible times, sizes and totals."""
    far = far_from(memory.time_ns, origin)
    big = ~far
    big[~far] = ~is_summable(memory.bytes[~far])
    order = np.flatnonzero(~far & ~big)
    order = order[np.argsort(memory.time_ns[order], kind="stable")]
    kept = taken_since(memory, order, origin)
    totals = kept.total_allocated, kept.total_reserved
    over = [np.abs(total.astype(np.float64)) > MOST for total in totals]
    allocated, reserved = (np.where(wrong, MISSING, total) for wrong, total in zip(over, totals, strict=True))
    return (
        replace(kept, total_allocated=allocated, total_reserved=reserved),
        _reported_memory(stated, order, origin),
        int(far.sum()),
        int(big.sum()),
        int((over[0] | over[1]).sum()),
    )


def _reported_memory(stated: ReportedMemory, order: Int64, origin: int) -> ReportedMemory:
    if not len(stated.name):
        return stated
    pooled = stated.pooled_ns[order]
    known = (pooled != MISSING) & ~far_from(pooled, origin)
    return ReportedMemory(stated.name[order], stated.allocator[order], np.where(known, pooled - origin, MISSING))


def totals_of(totals: AllocatorTotals, origin: int) -> tuple[AllocatorTotals, int]:
    """Returns the totals by time, and the number that were excluded because of impossible times."""
    far = far_from(totals.time_ns, origin)
    rows = np.flatnonzero(~far)
    rows = rows[np.argsort(totals.time_ns[rows], kind="stable")]
    return taken_since(totals, rows, origin), int(far.sum())


def counters_of(counters: CounterEvents, origin: int) -> tuple[CounterEvents, int]:
    """Returns the counter values by time, and the number of events excluded because of impossible times."""
    time = counters.time_ns
    bad = far_from(time, origin)
    order = np.flatnonzero(~bad)
    order = order[np.argsort(time[order], kind="stable")]
    return taken_since(counters, order, origin), len(np.unique(counters.event[bad]))
