"""Heat maps with many rows, packed row by row, and their groupings."""

from __future__ import annotations

from msgspec import Struct

from tb_plugin.payloads.base import Metric


class Grouping(Struct, frozen=True):
    """A grouping gives the group of each row and its position in it; -1 if unknown."""

    key: str
    title: str
    groups: list[str]
    of: list[int]
    """Position in ``groups``, of each row."""
    place: list[int]
    """Place within the group, of each row."""


class Heat(Struct, frozen=True, tag_field="kind", tag="heat"):
    """A heat has one number per row and column, row by row in ``values``.

    If there are too many steps, a column covers ``merged`` steps and its value is their maximum.
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
    """Labels of the columns; a column of several steps reads ``5-9``, as in a step selection."""
    merged: int
    values: list[int | float | None]
    means: list[int | float | None]
    """Mean of each row over all its steps, before merging."""
    worst: list[int]
    """The row with the largest value in each column, -1 if none has a value."""
    groupings: list[Grouping]
    choices: list[Metric]
    """The available measures."""
