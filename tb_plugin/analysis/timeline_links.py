"""Timeline range of an event, for links.

``timelineAt`` in the page must compute the same range.
"""

from __future__ import annotations

from tb_plugin.model.trace.table import TraceTable

ROOM_NS = 500
"""Minimum margin on each side, so that short events are shown with their surroundings."""


def range_around(start_ns: int, dur_ns: int) -> dict[str, str]:
    """Returns the time range in which the event fills half of the width, as URL parameters.

    ``tests/around_cases.json`` tests it together with ``timelineAt``.
    """
    room = max(dur_ns // 2, ROOM_NS)
    return {"start_ns": str(max(0, start_ns - room)), "end_ns": str(start_ns + dur_ns + room)}


def at_event(trace: TraceTable, row: int) -> dict[str, str]:
    """Returns the URL parameters of the timeline that show an event, with idle gaps."""
    gaps = {"gaps": "1"} if len(trace.devices) else {}
    return {"event": str(row), **range_around(int(trace.start_ns[row]), int(trace.dur_ns[row])), **gaps}
