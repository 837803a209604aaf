"""The timeline of a window: what to draw, as columns."""

from __future__ import annotations

from msgspec import Struct


class TimelineTrack(Struct, frozen=True):
    """One group of rows: a host thread, its Python calls, or a device stream. ``rows`` = deepest row + 1."""

    title: str
    subtitle: str
    is_device: bool
    rows: int


class Timeline(Struct, frozen=True, tag_field="kind", tag="timeline"):
    """What touches ``[start_ns, end_ns)``, as columns of equal length, sorted by (track, row, start).

    Events on one row that are each shorter than ``resolution_ns`` and start in the same cell of so many nanoseconds come
    merged, whatever the window: ``count`` > 1, ``busy_ns`` is the time that they cover, name and category are those of
    the longest, and ``event`` is -1. Otherwise ``event`` is the row of the event in the trace table (for details).
    ``name`` and ``category`` index ``names`` and ``categories``.
    """

    start_ns: int
    end_ns: int
    window_start_ns: int
    """Start of the whole trace (0) and its end: the range one can navigate in."""
    window_end_ns: int
    resolution_ns: int
    tracks: list[TimelineTrack]
    names: list[str]
    categories: list[str]
    track: list[int]
    row: list[int]
    start: list[int]
    dur: list[int]
    name: list[int]
    category: list[int]
    event: list[int]
    count: list[int]
    busy_ns: list[int]
    total_events: int
    """Events in all of the columns: the sum of ``count``."""
