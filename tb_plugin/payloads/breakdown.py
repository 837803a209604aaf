"""Breakdowns: parts that add up exactly to a total."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tb_plugin.payloads.base import Link, Metric, Unit


class Slice(Struct, frozen=True):
    """One part of a total. ``category`` selects its colour."""

    metric: Metric
    category: str
    value: int | float
    link: Link | None = None


class Breakdown(Struct, frozen=True, tag_field="kind", tag="breakdown"):
    """A total and its parts, which add up exactly because they are integers.

    In a waterfall, the parts lead from ``start`` to ``start + total`` and may be negative.
    """

    name: str
    title: str
    subtitle: str
    unit: Unit
    total: int | float
    parts: list[Slice]
    style: Literal["bar", "donut", "table", "waterfall"] = "bar"
    start: int | float = 0
