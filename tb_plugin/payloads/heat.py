"""Heat maps of many rows: numbers packed row by row, with what the rows can be grouped by."""

from __future__ import annotations

from msgspec import Struct

from tb_plugin.payloads.base import Metric


class Grouping(Struct, frozen=True):
    """A grouping says which of its groups each row is in, and at which place of it; -1 where that is not known."""

    key: str
    title: str
    groups: list[str]
    of: list[int]
    """Position in ``groups``, of each row."""
    place: list[int]
    """Place within the group, of each row."""


class Heat(Struct, frozen=True, tag_field="kind", tag="heat"):
    """A heat holds one number for each row and column, row by row in ``values``.

    Where that were too much for one answer a column stands for ``merged`` steps, and its value is the largest of them.
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
    """Labels of the columns; of several steps the first and the last, as a choice of steps has it (``5-9``)."""
    merged: int
    values: list[int | float | None]
    means: list[int | float | None]
    """Mean of each row over all of its steps, none of them merged."""
    worst: list[int]
    """The row with the largest value in each column, -1 where no row has one."""
    groupings: list[Grouping]
    choices: list[Metric]
    """The measures that may be asked for."""
