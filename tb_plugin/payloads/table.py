"""Tables: one page of rows, sorted and filtered by the server."""

from __future__ import annotations

from msgspec import Struct

from tb_plugin.payloads.base import Metric, Scalar


class Column(Struct, frozen=True):
    """A metric with display options."""

    metric: Metric
    hidden: bool = False
    """Hidden unless selected in the column chooser."""
    share: bool = False
    """Whether cells show a bar: the value divided by its total in ``Table.totals``."""


class Sort(Struct, frozen=True):
    """The column that rows are sorted by."""

    key: str
    descending: bool


class Table(Struct, frozen=True, tag_field="kind", tag="table"):
    """One page of rows, with one value per column key. ``totals`` are sums over all rows, unfiltered."""

    name: str
    title: str
    columns: list[Column]
    rows: list[dict[str, Scalar]]
    row_key: list[str]
    """Keys of the columns that together identify a row, for selection and detail requests."""
    name_column: str
    """The column that search matches first and that opens the row."""
    total_rows: int
    matched_rows: int
    offset: int
    limit: int
    sort: Sort | None
    totals: dict[str, Scalar] = {}
    extremes: dict[str, list[int | float]] = {}
    """Smallest non-zero and largest absolute value of each numeric column, over all rows.

    They determine the displayed unit.
    """
