"""Flows: which event leads to which other one, as arrows between places of the timeline."""

from __future__ import annotations

from msgspec import Struct, field


class Flows(Struct, frozen=True, tag_field="kind", tag="flows"):
    """Arrows and the events that they join, each as columns of equal length.

    Of the events (points): the number of the ``event``, its ``lane`` (place in the ordered list of all lanes of the
    trace), ``row`` of that lane and times; ``name`` and ``category`` index ``names`` and ``categories``. Of the arrows:
    ``from`` and ``to`` are places in those columns, ``arrow`` indexes ``kinds``.
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
    total: int
    """Arrows that answer the question, also those that are not here."""
    hidden: int
    """Of these how many are not here: there are too many."""
