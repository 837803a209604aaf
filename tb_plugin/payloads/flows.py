"""Flows: arrows between related events."""

from __future__ import annotations

from msgspec import Struct, field


class Flows(Struct, frozen=True, tag_field="kind", tag="flows"):
    """Arrows and the events that they connect, as columns.

    Event columns: ``event`` is the event number. ``lane`` is an index in the lanes of the trace. ``row`` is the row
    within the lane. ``name`` and ``category`` are indices in ``names`` and ``categories``.

    Arrow columns: ``from`` and ``to`` are indices in the event columns. ``arrow`` is an index in ``kinds``.
    """

    names: list[str]
    categories: list[str]
    kinds: list[str]
    event: list[int]
    lane: list[int]
    row: list[int]
    start_ns: list[int]
    dur_ns: list[int]
    name: list[int]
    category: list[int]
    from_: list[int] = field(name="from")
    to: list[int]
    arrow: list[int]
    label: list[int]
    """One per arrow: index of the label in ``names``; -1 = no label."""
    total: int
    hidden: int
