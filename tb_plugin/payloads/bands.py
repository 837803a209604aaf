"""Bands: the blocks of a device's memory over a part of its history, one on top of the other."""

from __future__ import annotations

from msgspec import Struct


class Bands(Struct, frozen=True, tag_field="kind", tag="bands"):
    """A Bands is a tile of the active-memory timeline: at most 512 columns, and the blocks that are there in them.

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
    """Most active bytes of the whole history."""
    peak_event: int
    """The event after which it was first reached; -1 is before the first one."""
    event: list[int]
    """By column: the event after which its state is; -1 is before the first one."""
    time_ns: list[int]
    """By column: time of that event; of the first event, where it is before it."""
    active_bytes: list[int]
    """By column: bytes of all blocks that are there."""
    rest_bytes: list[int]
    """By column: bytes of those that are not listed; they lie on top."""
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
    categories: list[str]
    """Categories that occur; the empty text stands for none."""
    hidden: int
    """How many blocks are there in a column and not listed."""
