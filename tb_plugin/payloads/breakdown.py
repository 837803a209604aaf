"""Breakdowns: slices that add up exactly to a total."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tb_plugin.payloads.base import Link, Metric, Unit


class Slice(Struct, frozen=True):
    """One slice of a total. ``category`` selects the colour."""

    metric: Metric
    category: str
    value: int | float
    link: Link | None = None


class Breakdown(Struct, frozen=True, tag_field="kind", tag="breakdown"):
    """A total and its slices. They are integers and add up exactly.

    In a waterfall, the slices may be negative. They lead from ``start`` to ``start + total``.
    """

    name: str
    title: str
    subtitle: str
    unit: Unit
    total: int | float
    parts: list[Slice]
    style: Literal["bar", "donut", "table", "waterfall"] = "bar"
    start: int | float = 0
