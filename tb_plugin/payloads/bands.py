"""Bands: blocks of a device's memory over a part of its history."""

from __future__ import annotations

from msgspec import Struct


class BandsEnvelope(Struct, frozen=True):
    """A BandsEnvelope is the peak of a private pool on a stream; its blocks are stacked in it from below."""

    name: str
    height_bytes: list[int]
    """By column: the largest active or reserved bytes so far."""


class Bands(Struct, frozen=True, tag_field="kind", tag="bands"):
    """A Bands is a tile of the active-memory timeline: at most 512 columns and their blocks.

    In the layer of segments, segments take the place of blocks and count as allocated while they exist.

    Column i of tile t on a level covers ``width`` units of the axis from ``(t * 512 + i) * width``: states of the
    history (state 0 is before the first event, state e + 1 is after event e), or nanoseconds since the first event of
    the snapshot. It shows one exact state: the first covered state with the most active bytes, or the state before if
    none is covered. Blocks are in stacking order, the lowest first.
    """

    name: str
    title: str
    level: int
    levels: int
    """On the level ``levels - 1`` one tile covers everything."""
    tile: int
    width: int
    """Units of the axis that a column covers: 2 to the power of ``level``."""
    extent: int
    """Units of the axis from 0 to the end of the history."""
    has_times: bool
    """Whether events have times."""
    peak_bytes: int
    """The highest drawn value in the whole history: most active bytes, and for envelopes their own height."""
    peak_event: int
    """The event after which it was first reached; -1 is before the first one."""
    event: list[int]
    """By column: the event before its state; -1 is before the first one."""
    time_ns: list[int]
    """By column: time of that event, or of the first event if the state is before it."""
    active_bytes: list[int]
    """By column: bytes of all allocated blocks (or segments)."""
    rest_bytes: list[int]
    """By column: bytes of blocks that are neither listed nor in an envelope; they are drawn on top."""
    block: list[int]
    """By block: its row among the blocks of the device."""
    first: list[int]
    """By block: its first column."""
    end: list[int]
    """By block: the column after its last one."""
    size_bytes: list[int]
    begin: list[int]
    """By block: the event that allocated it; -1 = allocated before the history."""
    freed: list[int]
    """By block: the event that requested its release, after which it may be active but not allocated; -1 = none."""
    life_ns: list[int]
    """By block: time between these events; -1 = unknown."""
    stack: list[int]
    """By block: place in ``lines``."""
    category: list[int]
    """By block: place in ``categories``."""
    stack_number: list[int]
    """By stack: its number; -1 = no stack."""
    lines: list[str]
    """By stack: the innermost frame outside the framework and the standard library; empty without frames."""
    modules: list[str]
    """By stack: the module whose forward was running; empty if unknown."""
    categories: list[str]
    """Categories that occur; the empty text means none."""
    hidden: int
    """Number of unlisted blocks in these columns."""
    has_private_pools: bool
    envelopes: list[BandsEnvelope]
    """Envelopes of private pools, stacked below everything else in this order; empty unless requested."""
    envelope: list[int]
    """By block: its position in ``envelopes``; -1 = above them. Empty without envelopes."""
