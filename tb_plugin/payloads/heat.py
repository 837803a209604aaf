"""Heat maps with many rows, and groupings of the rows."""

from __future__ import annotations

from msgspec import Struct

from tb_plugin.payloads.base import Metric


class Grouping(Struct, frozen=True):
    """A way to group the rows of a heat map."""

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
    """Mean of each row over all steps."""
    worst: list[int]
    """One per column: index of the row that has the largest value; -1 = no values."""
    groupings: list[Grouping]
    choices: list[Metric]
    """Measures that the user can choose."""
