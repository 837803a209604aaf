"""Flows: arrows between related events."""

from __future__ import annotations

from msgspec import Struct, field


class Flows(Struct, frozen=True, tag_field="kind", tag="flows"):
    """Arrows and the events that they connect, as columns of equal length.

    An event has a number (``event``), the index of its ``lane`` among all lanes of the trace, the ``row`` within
    the lane, and times. ``name`` and ``category`` are indices in ``names`` and ``categories``. An arrow leads
    ``from`` one index in the event columns ``to`` another; ``arrow`` is an index in ``kinds``.
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
    """One per arrow: index of its label in ``names``; -1 = no label."""
    total: int
    """Number of matching arrows, including omitted ones."""
    hidden: int
    """Number of omitted arrows, because there are too many."""
