"""Scatters: one dot for each thing, by two of its numbers."""

from __future__ import annotations

from msgspec import Struct

from tb_plugin.payloads.base import Metric


class Dots(Struct, frozen=True):
    """A Dots is one group of dots; ``category`` names its colour and shape, ``label`` what each dot stands for."""

    title: str
    category: str
    label: list[str]
    x: list[int | float]
    y: list[int | float]


class Scatter(Struct, frozen=True, tag_field="kind", tag="scatter"):
    """A scatter holds groups of dots over two axes. The same numbers stand in the table ``table`` of its view."""

    name: str
    title: str
    subtitle: str
    x_metric: Metric
    y_metric: Metric
    groups: list[Dots]
    table: str
