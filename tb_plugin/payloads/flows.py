"""Flows: which event leads to which other one, as arrows between places of the timeline."""

from __future__ import annotations

from msgspec import Struct, field


class Flows(Struct, frozen=True, tag_field="kind", tag="flows"):
    """A Flows holds arrows and the events that they join, each as columns of equal length.

    An event (a point) has its number (``event``), its ``lane`` (place in the ordered list of all lanes of the trace), the
    ``row`` of that lane and times; ``name`` and ``category`` index ``names`` and ``categories``. An arrow leads ``from`` one
    place in those columns ``to`` another; ``arrow`` indexes ``kinds``.
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
    """Place in ``names`` of what the trace calls each arrow, -1 where it says nothing."""
    total: int
    """Arrows that answer the question, also those that are not here."""
    hidden: int
    """How many of these are not here, because there are too many."""
