"""The timeline of a whole trace: what there is to see. Its events come in tiles (docs/http.md)."""

from __future__ import annotations

from msgspec import Struct


class TimelineTrack(Struct, frozen=True):
    """A track is one lane: a host thread, its Python calls, or a device stream."""

    id: str
    """Process, thread and what stands on it: the same in every trace of the job."""
    title: str
    subtitle: str
    is_device: bool
    rows: int
    """Deepest row + 1."""
    events: int


class TimelineLevel(Struct, frozen=True):
    """A level merges events of one row that are each shorter than ``cell_ns`` and start in the same cell of so many ns."""

    cell_ns: int
    tile_ns: int
    """Tile i of the level holds what touches ``[i * tile_ns, (i + 1) * tile_ns)``."""


class Timeline(Struct, frozen=True, tag_field="kind", tag="timeline"):
    """A timeline names the lanes in their order, and what can be asked for. Times are ns since the start of the trace."""

    start_ns: int
    end_ns: int
    tracks: list[TimelineTrack]
    groups: list[int]
    """Tiles hold groups of lanes: group g has the lanes ``groups[g]`` to ``groups[g + 1] - 1``."""
    levels: list[TimelineLevel]
    """From single events to the whole trace in one tile."""
    categories: list[str]
    """What ``category`` in tiles numbers."""
    has_modules: bool
    busy: list[float]
    """Share of each of so many equal slices of the whole trace in which the devices work; without one, the host."""
    busy_is_device: bool
    only_ranges: bool
    """Nothing is known of the events but their names: colours by name tell more than those by kind."""
    total_events: int
