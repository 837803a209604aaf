"""Flows: arrows between related events."""

from __future__ import annotations

from msgspec import Struct, field


class Flows(Struct, frozen=True, tag_field="kind", tag="flows"):
    """A Flows has arrows and their events, each as columns of equal length.

    An event (a point) has its number (``event``), its ``lane`` (position in the ordered list of all lanes of the
    trace), the ``row`` of that lane and times; ``name`` and ``category`` index ``names`` and ``categories``. An arrow
    leads ``from`` one position in those columns ``to`` another; ``arrow`` indexes ``kinds``.
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
    """Position in ``names`` of the label of each arrow, -1 without a label."""
    total: int
    """Number of matching arrows, with omitted ones."""
    hidden: int
    """Number of arrows omitted because there are too many."""
