"""Exclusion of impossible times and sizes from a trace."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tb_plugin.model.trace.extra_columns import AllocatorTotals, ReportedMemory, totals_from
from tb_plugin.model.trace.order import MOST, far_from, is_summable
from tb_plugin.model.trace.report import Issue, ReadReport
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import CounterEvents, DeviceArgs, MemoryEvents

Int64 = npt.NDArray[np.int64]

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
    columns = {f: getattr(memory, f)[order] for f in memory.__struct_fields__}
    columns["time_ns"] = columns["time_ns"] - origin
    wrong = np.zeros(len(order), np.bool_)
    for key in ("total_allocated", "total_reserved"):
        over = np.abs(columns[key].astype(np.float64)) > MOST
        columns[key] = np.where(over, MISSING, columns[key])
        wrong |= over
    return (
        MemoryEvents(**columns),
        _reported_memory(stated, order, origin),
        int(far.sum()),
        int(big.sum()),
        int(wrong.sum()),
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
    kept = AllocatorTotals(**{f: getattr(totals, f)[~far] for f in totals.__struct_fields__})
    return totals_from(kept, origin), int(far.sum())


def counters_of(counters: CounterEvents, origin: int) -> tuple[CounterEvents, int]:
    """Returns the counter values by time, and the number of events excluded because of impossible times."""
    time = counters.time_ns
    bad = far_from(time, origin)
    order = np.flatnonzero(~bad)
    order = order[np.argsort(time[order], kind="stable")]
    columns = {f: getattr(counters, f)[order] for f in counters.__struct_fields__}
    columns["time_ns"] = columns["time_ns"] - origin
    return CounterEvents(**columns), len(np.unique(counters.event[bad]))
