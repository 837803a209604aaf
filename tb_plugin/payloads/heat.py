"""Heat maps with many rows, and groupings of the rows."""

from __future__ import annotations

from msgspec import Struct

from tb_plugin.payloads.base import Metric


class Grouping(Struct, frozen=True):
    """A grouping of the rows of a heat map."""

    key: str
    title: str
    groups: list[str]
    of: list[int]
    """One per row: index in ``groups``; -1 = unknown."""
    place: list[int]
    """One per row: position within its group; -1 = unknown."""


class Heat(Struct, frozen=True, tag_field="kind", tag="heat"):
    """A heat map. ``values`` holds one number per row and column, row by row.

    If there are too many steps, each column covers ``merged`` steps and shows their maximum.
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
    """Column labels. A column of several steps is labelled ``5-9``, as in a step selection."""
    merged: int
    values: list[int | float | None]
    means: list[int | float | None]
    """Mean of each row over all steps."""
    worst: list[int]
    """One per column: the row with the largest value; -1 = no values."""
    groupings: list[Grouping]
    choices: list[Metric]
    """Available measures."""
