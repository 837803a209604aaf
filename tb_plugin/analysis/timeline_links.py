"""Timeline range around an event, for all links.

``timelineAt`` in the page is its twin.
"""

from __future__ import annotations

from tb_plugin.model.trace.table import TraceTable

ROOM_NS = 500
"""Minimum room on each side, to show the surroundings of a short event."""


def around(start_ns: int, dur_ns: int) -> dict[str, str]:
    """Returns the time range in which this takes half of the picture; tested with ``tests/around_cases.json``."""
    room = max(dur_ns // 2, ROOM_NS)
    return {"start_ns": str(max(0, start_ns - room)), "end_ns": str(start_ns + dur_ns + room)}


def at_event(trace: TraceTable, row: int) -> dict[str, str]:
    """Returns the timeline state that shows an event, and the idle causes around it."""
    gaps = {"gaps": "1"} if len(trace.devices) else {}
    return {"event": str(row), **around(int(trace.start_ns[row]), int(trace.dur_ns[row])), **gaps}
