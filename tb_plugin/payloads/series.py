"""Series: values over a common x axis."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tb_plugin.payloads.base import Metric


class Line(Struct, frozen=True):
    """One series of values. ``category`` selects the colour."""

    metric: Metric
    category: str
    values: list[int | float | None]


class Series(Struct, frozen=True, tag_field="kind", tag="series"):
    """Lines, stacked bars or areas over x.

    For bars, ``x`` contains labels. Otherwise ``x`` contains numbers or bin edges.
    """

    name: str
    title: str
    subtitle: str
    x_metric: Metric
    x: list[int | float | str]
    lines: list[Line]
    style: Literal["stacked_bars", "lines", "histogram", "stacked_area"]
