"""Active-memory timeline: memory blocks of a device over time."""

from __future__ import annotations

from msgspec import Struct


class BandsEnvelope(Struct, frozen=True):
    """Peak memory of a private pool on one stream. The blocks of the pool are drawn inside it."""

    name: str
    height_bytes: list[int]
    """One value per column: the maximum of active or reserved bytes so far."""


class Bands(Struct, frozen=True, tag_field="kind", tag="bands"):
    """A tile of the active-memory timeline: at most 512 columns and their blocks.

    In the segment layer, segments replace blocks; a segment is allocated while it exists.

    The x axis is either the state of the allocator history (state 0 is before the first event, state e + 1 after
    event e), or nanoseconds since the first event. Column i of tile t covers ``width`` units of the axis from ``(t
    * 512 + i) * width``. It shows the covered state with the most active bytes, or the previous state if it covers
    none. Blocks are in stacking order, lowest first.
    """

    name: str
    title: str
    level: int
    levels: int
    """Number of levels of detail. On the last one, a single tile covers the whole history."""
    tile: int
    width: int
    """Axis units per column: 2 to the power of ``level``."""
    extent: int
    """Length of the history in axis units."""
    has_times: bool
    peak_bytes: int
    """Maximum of active bytes, or of the envelopes, over the whole history."""
    peak_event: int
    """Event that first reached the peak; -1 = before the first event."""
    event: list[int]
    """One per column: the event before the displayed state; -1 = before the first event."""
    time_ns: list[int]
    """One per column: time of that event; for -1, time of the first event."""
    active_bytes: list[int]
    """One per column: total bytes of allocated blocks (or segments)."""
    rest_bytes: list[int]
    """One per column: bytes of blocks that are neither listed nor in an envelope, drawn on top."""
    block: list[int]
    """One per block: its number on the device."""
    first: list[int]
    """One per block: its first column."""
    end: list[int]
    """One per block: the column after its last one."""
    size_bytes: list[int]
    begin: list[int]
    """One per block: the event that allocated it; -1 = before the history."""
    freed: list[int]
    """One per block: the event that requested its release; -1 = none.

    The block may stay active afterwards.
    """
    life_ns: list[int]
    """One per block: time between allocation and release request; -1 = unknown."""
    stack: list[int]
    """One per block: index in ``lines``."""
    category: list[int]
    """One per block: index in ``categories``."""
    stack_number: list[int]
    """One per stack: its number; -1 = no stack."""
    lines: list[str]
    """One per stack: the innermost frame of user code; "" = no frames."""
    modules: list[str]
    """One per stack: the ``nn.Module`` whose forward was running; "" = unknown."""
    categories: list[str]
    """Categories of the listed blocks; "" = no category."""
    hidden: int
    """Number of blocks in these columns that are not listed."""
    has_private_pools: bool
    envelopes: list[BandsEnvelope]
    """Envelopes of private pools, drawn below all other blocks in this order. Empty unless requested."""
    envelope: list[int]
    """One per block: index in ``envelopes``; -1 = in no envelope. Empty without envelopes."""
