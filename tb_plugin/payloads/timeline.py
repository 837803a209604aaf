"""The timeline: lanes and levels of detail.

Events are sent in separate tiles (see docs/http.md).
"""

from __future__ import annotations

from msgspec import Struct


class TimelineTrack(Struct, frozen=True):
    """One lane: a host thread, the Python calls of a thread, or a device stream."""

    id: str
    """Identifies the lane by process, thread and content. Equal in all traces of a job."""
    title: str
    subtitle: str
    is_device: bool
    rows: int
    events: int


class TimelineLevel(Struct, frozen=True):
    """A level of detail. Events shorter than ``cell_ns`` are merged if they start in the same cell of a row."""

    cell_ns: int
    tile_ns: int
    """Tile i contains the events that overlap ``[i * tile_ns, (i + 1) * tile_ns)``."""


class Timeline(Struct, frozen=True, tag_field="kind", tag="timeline"):
    """Lanes in display order, and levels of detail. Times are nanoseconds since the start of the trace."""

    start_ns: int
    end_ns: int
    tracks: list[TimelineTrack]
    groups: list[int]
    """Tiles cover groups of lanes: group g is ``tracks[groups[g]:groups[g + 1]]``."""
    levels: list[TimelineLevel]
    """The first level contains single events. The last level contains the whole trace in one tile."""
    categories: list[str]
    kernels: list[str]
    """Kernels with the most time. They get different colours."""
    has_modules: bool
    has_communication: bool
    busy: list[float]
    """Busy fraction of the devices (or of the host) in time slices of equal length over the whole trace."""
    busy_is_device: bool
    is_range_trace: bool
    """True if the kinds of events are unknown. The page then colours events by name."""
    total_events: int
