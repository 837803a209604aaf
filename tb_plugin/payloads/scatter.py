"""Scatter plots: one dot per item."""

from __future__ import annotations

from msgspec import Struct

from tb_plugin.payloads.base import Metric


class Dots(Struct, frozen=True):
    """One group of dots. ``category`` selects their colour and shape. ``label`` contains the name of each dot."""

    title: str
    category: str
    label: list[str]
    x: list[int | float]
    y: list[int | float]


class Scatter(Struct, frozen=True, tag_field="kind", tag="scatter"):
    """Groups of dots over two axes. The table ``table`` of the view contains the same numbers."""

    name: str
    title: str
    subtitle: str
    x_metric: Metric
    y_metric: Metric
    groups: list[Dots]
    table: str
