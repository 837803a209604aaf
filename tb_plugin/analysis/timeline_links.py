"""Timeline range of an event, for links.

``eventWindow`` in the frontend must compute the same range.
"""

from __future__ import annotations

from tb_plugin.model.trace.table import TraceTable

ROOM_NS = 500
"""Minimum margin before and after the event in nanoseconds, so that a short event is shown with its surroundings."""


def range_around(start_ns: int, dur_ns: int) -> dict[str, str]:
    """Returns a range twice as long as the event, as ``eventWindow`` does (``tests/around_cases.json``)."""
    room = max(dur_ns // 2, ROOM_NS)
    return {"start_ns": str(max(0, start_ns - room)), "end_ns": str(start_ns + dur_ns + room)}


def at_event(trace: TraceTable, row: int) -> dict[str, str]:
    """Returns URL parameters with which the timeline shows an event, and the idle gaps."""
    gaps = {"gaps": "1"} if len(trace.devices) else {}
    return {"event": str(row), **range_around(int(trace.start_ns[row]), int(trace.dur_ns[row])), **gaps}
