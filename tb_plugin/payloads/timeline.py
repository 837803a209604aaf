"""The timeline: lanes and levels of detail.

Its events come in tiles (docs/http.md).
"""

from __future__ import annotations

from msgspec import Struct


class TimelineTrack(Struct, frozen=True):
    """A track is one lane: a host thread, its Python calls, or a device stream."""

    id: str
    """Process, thread and content; the same in every trace of the job."""
    title: str
    subtitle: str
    is_device: bool
    rows: int
    """Deepest row + 1."""
    events: int


class TimelineLevel(Struct, frozen=True):
    """A level merges events of one row that are shorter than ``cell_ns`` and start in the same cell."""

    cell_ns: int
    tile_ns: int
    """Tile i of the level has the events that overlap ``[i * tile_ns, (i + 1) * tile_ns)``."""


class Timeline(Struct, frozen=True, tag_field="kind", tag="timeline"):
    """A timeline lists lanes in order, and levels of tiles. Times are ns since the start of the trace."""

    start_ns: int
    end_ns: int
    tracks: list[TimelineTrack]
    groups: list[int]
    """Tiles hold groups of lanes: group g has the lanes ``groups[g]`` to ``groups[g + 1] - 1``."""
    levels: list[TimelineLevel]
    """From single events to the whole trace in one tile."""
    categories: list[str]
    """Names of the numbers in ``category`` of tiles."""
    has_modules: bool
    busy: list[float]
    """Busy share of the devices (or the host) in equal slices of the whole trace."""
    busy_is_device: bool
    is_range_trace: bool
    """Whether only names are known, so that colours by name are more useful than by kind."""
    total_events: int
