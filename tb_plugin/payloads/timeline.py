"""The timeline: lanes and levels of detail.

Its events are sent in tiles (docs/http.md).
"""

from __future__ import annotations

from msgspec import Struct


class TimelineTrack(Struct, frozen=True):
    """One lane: a host thread, its Python calls, or a device stream."""

    id: str
    """Process, thread and content; equal in all traces of the job."""
    title: str
    subtitle: str
    is_device: bool
    rows: int
    """Number of rows: the maximum nesting depth."""
    events: int


class TimelineLevel(Struct, frozen=True):
    """A level of detail. Events shorter than ``cell_ns`` that start in the same cell of a row are merged."""

    cell_ns: int
    tile_ns: int
    """Tile i contains the events that overlap ``[i * tile_ns, (i + 1) * tile_ns)``."""


class Timeline(Struct, frozen=True, tag_field="kind", tag="timeline"):
    """Lanes in display order, and levels of detail. Times are nanoseconds since the start of the trace."""

    start_ns: int
    end_ns: int
    tracks: list[TimelineTrack]
    groups: list[int]
    """Each tile covers a group of lanes: group g is ``tracks[groups[g]:groups[g + 1]]``."""
    levels: list[TimelineLevel]
    """From single events to the whole trace in one tile."""
    categories: list[str]
    """Names of the values of ``category`` in tiles."""
    has_modules: bool
    busy: list[float]
    """Busy fraction of the devices (or the host) in equal time slices of the whole trace."""
    busy_is_device: bool
    is_range_trace: bool
    """Whether event kinds are unknown, so that the page colours events by name."""
    total_events: int
