"""Where the timeline opens for an event: the one rule of all links into it (``timelineAt`` in the page is its twin)."""

from __future__ import annotations

from tb_plugin.model.trace.table import TraceTable

ROOM_NS = 500
"""Least room on each side: what is around a short event tells what it is."""


def around(start_ns: int, dur_ns: int) -> dict[str, str]:
    """Returns the part of the axis in which this takes half of the picture; the same cases as ``tests/around_cases.json``."""
    room = max(dur_ns // 2, ROOM_NS)
    return {"start_ns": str(max(0, start_ns - room)), "end_ns": str(start_ns + dur_ns + room)}


def at_event(trace: TraceTable, row: int) -> dict[str, str]:
    """Returns the state of the timeline that shows an event, and why the device waits before and after it."""
    gaps = {"gaps": "1"} if len(trace.devices) else {}
    return {"event": str(row), **around(int(trace.start_ns[row]), int(trace.dur_ns[row])), **gaps}
