"""Active-memory timeline: memory blocks of a device over time."""

from __future__ import annotations

from msgspec import Struct


class BandsEnvelope(Struct, frozen=True):
    """Peak memory of a private pool on one stream. The blocks of this pool are drawn inside the envelope."""

    name: str
    height_bytes: list[int]
    """One value per column: maximum up to then of the active or reserved bytes."""


class Bands(Struct, frozen=True, tag_field="kind", tag="bands"):
    """A tile of the active-memory timeline: at most 512 columns and their blocks.

    In the segment layer, segments replace blocks. A segment counts as allocated while it exists.

    The unit of the x axis is either nanoseconds since the first event, or states of the allocator history. State 0
    is before the first event, and state e + 1 is after event e. Column i of tile t starts at ``(t * 512 + i) *
    width`` and is ``width`` units wide. A column shows the state with the most active bytes among its states. A
    column without any state shows the previous state. Blocks are in stacking order, lowest first.
    """

    name: str
    title: str
    level: int
    levels: int
    """Number of levels of detail. On the last level, one tile covers the whole history."""
    tile: int
    width: int
    """Axis units per column: 2 to the power of ``level``."""
    extent: int
    has_times: bool
    peak_bytes: int
    """Maximum over the whole history of the active bytes, or of the envelopes."""
    peak_event: int
    """First event at which the peak is reached; -1 = before the first event."""
    event: list[int]
    """One per column: the last event before the displayed state; -1 = the state is before the first event."""
    time_ns: list[int]
    """One per column: time of ``event``. If that is -1, the time of the first event."""
    active_bytes: list[int]
    """One per column: total bytes of allocated blocks (or segments)."""
    rest_bytes: list[int]
    """One per column: bytes of blocks that are neither listed nor inside an envelope. They are drawn on top."""
    block: list[int]
    first: list[int]
    end: list[int]
    """One per block: column after the last column of the block."""
    size_bytes: list[int]
    begin: list[int]
    freed: list[int]
    """One per block: event that requested the release, after which it may stay active; -1 = none."""
    life_ns: list[int]
    """One per block: time from allocation to release request; -1 = unknown."""
    stack: list[int]
    category: list[int]
    stack_number: list[int]
    """One per stack: stack number; -1 = no stack."""
    lines: list[str]
    """One per stack: the innermost frame of user code; "" = no frames."""
    modules: list[str]
    """One per stack: ``nn.Module`` whose forward pass was running; "" = unknown."""
    categories: list[str]
    """Categories of the listed blocks; "" = no category."""
    hidden: int
    has_private_pools: bool
    envelopes: list[BandsEnvelope]
    """Envelopes of private pools. They are drawn below all other blocks, in this order. Empty unless requested."""
    envelope: list[int]
    """One per block: index in ``envelopes``; -1 = not in an envelope. Empty if there are no envelopes."""
