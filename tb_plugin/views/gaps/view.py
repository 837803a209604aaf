"""Idle time of devices and streams, with the cause.

In a device gap, no stream of the device is busy. A stream gap is the time between two consecutive pieces of work on
a stream. The launch of the next work explains a gap: either the launch was late because its thread was busy, or the
launch was early and the work waited on the device.
"""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from tb_plugin.analysis.base import Frame, Params, Part, bounds_of, int_param
from tb_plugin.analysis.busy_intervals import covered_work
from tb_plugin.analysis.idle.account import idle_account
from tb_plugin.analysis.idle.causes import TITLES, Cause, word_of
from tb_plugin.analysis.idle.host_activity import host_of
from tb_plugin.analysis.launches.unrecorded_work import device_occupied
from tb_plugin.analysis.metrics import SHARED, define
from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.timeline.lanes import lanes_of
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import stable_order
from tb_plugin.lib.intervals import Ranges
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Column, Metric
from tb_plugin.views.gaps import VIEW

WINDOW_WORDS = "the window"
METRICS = SHARED.adding(
    define(WINDOW_WORDS, "ns", {"host_doing_ns": ("Host activity time", "Time of the host activity in the gap.")}),
    define(
        "",
        "text",
        {
            "gap_of": ("Gap of", "device: all streams idle. stream: only this stream idle."),
            "why": (
                "Reason",
                "host busy: late launch, busy host. host waits: late launch, host waiting for a device. launched "
                "before: launched in time. nothing recorded: unknown launch or host work.",
            ),
        },
    ),
    define(
        "",
        "code",
        {
            "host_doing": ("Host activity", "Longest host activity on the launching thread during the gap."),
            "host_operator": ("In operator", "Operator around this host activity."),
        },
    ),
)


SHORTEST_NS = 10_000
# Longest first; figures cover all.
LISTED = 2_000

HOST_BUSY, HOST_WAITS, LAUNCHED, UNKNOWN = "host busy", "host waits", "launched before", "nothing recorded"
# Causes after the launch returned.
_DEVICE_CAUSES = (Cause.LAUNCH_LATENCY, Cause.KERNEL_LATENCY, Cause.DEPENDENCY, Cause.UNEXPLAINED)
DEVICE, STREAM = "device", "stream"

_NEXT = Metric("event", "Event", "count", "Timeline number of the event after the gap.")
_COLUMNS = (
    "gap_of",
    "lane",
    "device",
    "stream",
    "start_ns",
    "dur_ns",
    "event",
    "name",
    "cause",
    "cause_key",
    "why",
    "host_doing",
    "host_operator",
    "host_doing_ns",
)


class Gaps(DeclaredView, entry=VIEW):
    selects = "steps"
    own = ("start_ns", "end_ns", "min_ns")

    def part(self, trace: TraceTable, params: Params) -> Part:
        """Returns the gaps of at least ``min_ns`` that overlap ``[start_ns, end_ns)``. Raises BadRequest."""
        coverage = select_rows(trace, params.steps).coverage
        start, end = bounds_of(trace, params)
        shortest = int_param(params, "min_ns")
        every = _all_gaps(trace)
        found = every.take(
            (every.end_ns - every.start_ns >= (SHORTEST_NS if shortest is None else shortest))
            & (every.start_ns < end)
            & (every.end_ns > start)
        )
        frames = {"gaps": _frame(trace, found.take(_longest(found)))}
        return Part(coverage, {}, frames, {}, ("gaps",))


class _Found(msgspec.Struct, frozen=True, eq=False):
    start_ns: Int64
    end_ns: Int64
    next: Int64
    of_device: Bool

    def take(self, chosen: Int64 | Bool) -> _Found:
        return _Found(*(getattr(self, name)[chosen] for name in self.__struct_fields__))


@cached_by_argument
def _all_gaps(trace: TraceTable) -> _Found:
    rows = covered_work(trace)
    rows = rows[stable_order(trace.track[rows])]
    track, start, end = trace.track[rows], trace.start_ns[rows], trace.ends(rows)
    # Latest end so far per stream: a running maximum of positions, which increase with the stream number.
    by_end = np.lexsort((end, track))
    place = np.empty(len(rows), np.int64)
    place[by_end] = np.arange(len(rows))
    reach = end[by_end][np.maximum.accumulate(place)]
    at = np.flatnonzero((track[1:] == track[:-1]) & (start[1:] > reach[:-1])) + 1
    device = trace.device[rows]
    order = stable_order(device)
    _, first = np.unique(device[order], return_index=True)
    parts = np.split(order, first[1:]) if len(rows) else []
    busy = device_occupied(trace)
    begin, close, after = reach[at - 1], start[at], rows[at]
    of_device = np.zeros(len(begin), np.bool_)
    for ranges, part in zip(busy.values(), parts, strict=True):
        first_ns, last_ns, next_row = _of_device(ranges, start[part], rows[part])
        # A gap belongs to both if the next row also ends a gap of its stream with the same start.
        mine = _place(after, next_row)
        same = (mine != MISSING) & (np.append(begin, 0)[mine] == first_ns)
        of_device[mine[same]] = True
        begin, close = np.append(begin, first_ns[~same]), np.append(close, last_ns[~same])
        after, of_device = np.append(after, next_row[~same]), np.append(of_device, ~same[~same])
    return _Found(begin, close, after, of_device)


def _place(values: Int64, wanted: Int64) -> Int64:
    """Returns the index of each ``wanted`` number in ``values`` (-1 = not found). ``values`` must be distinct."""
    order = np.argsort(values, kind="stable")
    at = np.searchsorted(values[order], wanted)
    found = np.append(order, MISSING)[at]
    return np.where(np.append(values, MISSING)[found] == wanted, found, MISSING)


def _of_device(busy: Ranges, start: Int64, rows: Int64) -> tuple[Int64, Int64, Int64]:
    order = np.lexsort((rows, start))
    return busy.end[:-1], busy.start[1:], rows[order][np.searchsorted(start[order], busy.start[1:], side="left")]


def _longest(found: _Found) -> Int64:
    order: Int64 = np.lexsort((found.next, found.start_ns, found.start_ns - found.end_ns, ~found.of_device))[:LISTED]
    return order


def _frame(trace: TraceTable, gaps: _Found) -> Frame:
    length = gaps.end_ns - gaps.start_ns
    track, device = trace.track[gaps.next], trace.device[gaps.next]
    launch = trace.launch[gaps.next]
    did = _host_did(trace, gaps)
    cause = _causes(trace, gaps)
    titles = pa.array([*(TITLES[each][0] for each in Cause), None], pa.string())
    words = pa.array([*(word_of(each) for each in Cause), None], pa.string())
    ids = pa.array([*(each.id for each in trace.devices), None], pa.string())
    streams = pa.array([each.tid for each in trace.tracks], pa.string())
    data = pa.table(
        {
            "gap_of": pa.array(np.where(gaps.of_device, DEVICE, STREAM), pa.string()),
            "lane": pa.array(lanes_of(trace).places(trace, gaps.next)),
            "device": ids.take(pa.array(np.where(device == MISSING, len(ids) - 1, device))),
            "stream": streams.take(pa.array(track)),
            "start_ns": pa.array(gaps.start_ns),
            "dur_ns": pa.array(length),
            "event": pa.array(gaps.next),
            "name": trace.strings.take(trace.name[gaps.next]),
            "cause": titles.take(pa.array(cause)),
            "cause_key": words.take(pa.array(cause)),
            "why": _why(gaps, did, cause),
            "host_doing": trace.strings.take(did.name),
            "host_operator": trace.strings.take(did.operator),
            "host_doing_ns": pa.array(did.time_ns, mask=launch == MISSING),
        }
    )
    return Frame(
        name="gaps",
        title="Gaps",
        columns=[
            Column(_NEXT if key == "event" else METRICS.metric(key, window=WINDOW_WORDS), hidden=key == "cause_key")
            for key in _COLUMNS
        ],
        data=data,
        row_key=("gap_of", "lane", "start_ns"),
        name_column="name",
    )


def _causes(trace: TraceTable, gaps: _Found) -> Int64:
    device = trace.device[gaps.next]
    cause = np.full(len(device), len(Cause), np.int64)
    for number in np.unique(device).tolist():
        mine = np.flatnonzero(device == number)
        parts = idle_account(trace, number).by_cause(gaps.start_ns[mine], gaps.end_ns[mine])
        spent = np.stack([parts[each] for each in Cause])
        cause[mine] = np.where(spent.any(axis=0), spent.argmax(axis=0), len(Cause))
    return cause


class _HostActivity(msgspec.Struct, frozen=True, eq=False):
    """Longest activity of the launching thread during each gap. Names are string ids (-1 = none)."""

    launched: Bool
    late: Bool
    """Whether the launch started in the second half of the gap. If it did, only activity before the launch is used."""
    waits: Bool
    name: Int64
    operator: Int64
    time_ns: Int64


def _host_did(trace: TraceTable, gaps: _Found) -> _HostActivity:
    launch = trace.launch[gaps.next]
    begun = np.clip(trace.start_ns[launch], gaps.start_ns, gaps.end_ns) if len(trace) else gaps.end_ns
    launched = launch != MISSING
    late = launched & (2 * (begun - gaps.start_ns) >= gaps.end_ns - gaps.start_ns)
    until = np.where(late, begun, gaps.end_ns)
    host = host_of(trace)
    name, time, longest = host.main_activity_before(gaps.next, gaps.start_ns, until)
    around = np.append(trace.operator, np.int32(MISSING))[longest]
    operator = np.append(trace.name, np.int32(MISSING))[around].astype(np.int64)
    return _HostActivity(launched, late, np.append(host.waits, False)[longest], name, operator, time)


def _why(gaps: _Found, did: _HostActivity, cause: Int64) -> pa.Array:
    silent = did.name == MISSING
    of_stream = (did.launched & ~did.late, ~did.launched | silent, did.waits)
    of_device = (
        np.isin(cause, _DEVICE_CAUSES) | ((cause == Cause.GRAPH) & ~did.late),
        (cause == Cause.NOT_RECORDED) | ((cause == Cause.PYTHON) & silent),
        cause == Cause.SYNCHRONISATION,
    )
    cases = [np.where(gaps.of_device, *both) for both in zip(of_device, of_stream, strict=True)]
    says = (LAUNCHED, UNKNOWN, HOST_WAITS, HOST_BUSY)
    return pa.array(says, pa.string()).take(pa.array(np.select(cases, range(3), default=3)))
