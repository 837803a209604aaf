"""Figures, breakdowns, series, scatter plots and heat maps."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tb_plugin.payloads.base import Figure, Link, Metric, Unit


class Figures(Struct, frozen=True, tag_field="kind", tag="figures"):
    """Numbers with names, about one subject."""

    name: str
    title: str
    subtitle: str
    figures: list[Figure]
    style: Literal["headline", "list"] = "list"


class Interval(Struct, frozen=True):
    """95 % interval of a change, in the unit of the change. The change is within noise if the interval contains 0."""

    low: int
    high: int

    @property
    def is_significant(self) -> bool:
        """Returns whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


class Slice(Struct, frozen=True):
    """One slice of a total. ``category`` selects the colour."""

    metric: Metric
    category: str
    value: int | float
    link: Link | None = None
    interval: Interval | None = None
    """For changes; None = noise is unknown."""


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
    interval: Interval | None = None
    """Interval of ``total``, for changes; None = noise is unknown."""


class Line(Struct, frozen=True):
    """One series of values. ``category`` selects the colour."""

    metric: Metric
    category: str
    values: list[int | float | None]


class Series(Struct, frozen=True, tag_field="kind", tag="series"):
    """Lines, stacked bars or areas over x. For bars, ``x`` contains labels. Otherwise ``x`` contains numbers or bin edges."""

    name: str
    title: str
    subtitle: str
    x_metric: Metric
    x: list[int | float | str]
    lines: list[Line]
    style: Literal["stacked_bars", "lines", "histogram", "stacked_area"]
    sql: str = ""
    """Query that reproduces the numbers (docs/reference/sql.md); "" = none."""


class Dots(Struct, frozen=True):
    """One group of dots. ``category`` selects their colour and shape.

    ``label`` contains the key of each dot's row, with U+001E between the values of several key columns.
    """

    title: str
    category: str
    label: list[str]
    x: list[int | float]
    y: list[int | float]
    share: list[float] = []
    """Area of each dot, relative to the largest (0..1); [] = equal areas."""


class Limit(Struct, frozen=True):
    """A line that no dot should cross."""

    title: str
    x: list[float]
    y: list[float]


class Scatter(Struct, frozen=True, tag_field="kind", tag="scatter"):
    """Groups of dots over two axes. The table ``table`` of the view contains the same numbers."""

    name: str
    title: str
    subtitle: str
    x_metric: Metric
    y_metric: Metric
    groups: list[Dots]
    table: str
    is_log: bool = False
    """Both axes are logarithmic."""
    limits: list[Limit] = []
    noun: str = "Step"
    """What a dot is."""


class Grouping(Struct, frozen=True):
    key: str
    title: str
    groups: list[str]
    of: list[int]
    """One per row: index in ``groups``; -1 = unknown."""
    place: list[int]
    """One per row: position of the row within its group; -1 = unknown."""


class Heat(Struct, frozen=True, tag_field="kind", tag="heat"):
    """A heat map. ``values`` contains one number per cell, row by row.

    If there are too many steps, each column shows the maximum over ``merged`` steps.
    """

    name: str
    title: str
    subtitle: str
    metric: Metric
    category: str
    row_metric: Metric
    x_metric: Metric
    rows: list[str]
    x: list[str]
    """Column labels. If a column covers several steps, its label is a range such as ``5-9``."""
    merged: int
    values: list[int | float | None]
    means: list[int | float | None]
    worst: list[int]
    """One per column: index of the row that has the largest value; -1 = no values."""
    groupings: list[Grouping]
    choices: list[Metric]
