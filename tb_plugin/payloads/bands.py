"""Bands: the blocks of a device's memory over a part of its history, one on top of the other."""

from __future__ import annotations

from msgspec import Struct


class BandsEnvelope(Struct, frozen=True):
    """A BandsEnvelope is the most that a private pool ever held on a stream; its blocks lie in it, from below."""

    name: str
    height_bytes: list[int]
    """By column: the largest of its active and reserved bytes until then."""


class Bands(Struct, frozen=True, tag_field="kind", tag="bands"):
    """A Bands is a tile of the active-memory timeline: at most 512 columns, and the blocks that are there in them.

    Of the layer of segments, what is said of blocks holds for segments: they are allocated as long as they are there.

    Column i of tile t on a level covers ``width`` units of the axis from ``(t * 512 + i) * width``: states of the history
    (state 0 is before the first event, state e + 1 is after event e), or nanoseconds since the first event of the snapshot.
    It shows one state exactly: of those that it covers, the first at which most is active; where it covers none, the one
    before it. Blocks stand in the order in which they lie on each other, the lowest first.
    """

    name: str
    title: str
    level: int
    levels: int
    """On the level ``levels - 1`` one tile holds everything."""
    tile: int
    width: int
    """Units of the axis that a column covers: 2 to the power of ``level``."""
    extent: int
    """Units of the axis from 0 to the end of the history."""
    has_times: bool
    """Whether events state times."""
    peak_bytes: int
    """The highest that anything is drawn in the whole history: most active bytes, and of envelopes their own height."""
    peak_event: int
    """The event after which it was first reached; -1 is before the first one."""
    event: list[int]
    """By column: the event after which its state is; -1 is before the first one."""
    time_ns: list[int]
    """By column: time of that event; of the first event, where it is before it."""
    active_bytes: list[int]
    """By column: bytes of all blocks (or segments) that are there."""
    rest_bytes: list[int]
    """By column: bytes of those that are not listed and lie in no envelope; they lie on top."""
    block: list[int]
    """By block: its row among the blocks of the device."""
    first: list[int]
    """By block: the first column in which it is there."""
    end: list[int]
    """By block: the column behind the last one in which it is there."""
    size_bytes: list[int]
    begin: list[int]
    """By block: the event that allocated it; -1 = it was there before the history."""
    freed: list[int]
    """By block: the event that asked for its release, from which on it may be active without being allocated; -1 = none."""
    life_ns: list[int]
    """By block: time from the one to the other; -1 = not known."""
    stack: list[int]
    """By block: place in ``lines``."""
    category: list[int]
    """By block: place in ``categories``."""
    stack_number: list[int]
    """By stack: its number; -1 = no stack."""
    lines: list[str]
    """By stack: the innermost frame outside of the framework and of Python's standard library; empty: it has no frames."""
    modules: list[str]
    """By stack: the module whose forward it was in; empty: no frame tells one."""
    categories: list[str]
    """Categories that occur; the empty text stands for none."""
    hidden: int
    """How many blocks are there in a column and not listed."""
    has_private_pools: bool
    envelopes: list[BandsEnvelope]
    """Those of private pools lie on each other below everything else, in this order; empty unless they are asked for."""
    envelope: list[int]
    """By block: its place in ``envelopes``; -1 = it lies on top of them. Empty without envelopes."""
