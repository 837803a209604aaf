"""Tables: a page of rows, sorted, filtered and cut by the server."""

from __future__ import annotations

from msgspec import Struct

from tb_plugin.payloads.base import Metric, Scalar


class Column(Struct, frozen=True):
    """A column has a metric and display options."""

    metric: Metric
    hidden: bool = False
    """Hidden unless selected in the column chooser."""
    share: bool = False
    """Whether the cell has a bar: the value's share of ``Table.totals``."""


class Sort(Struct, frozen=True):
    """A sort names the sorted column."""

    key: str
    descending: bool


class Table(Struct, frozen=True, tag_field="kind", tag="table"):
    """A table is one page of rows, each with a value per column key; ``totals`` are sums over all rows, unfiltered."""

    name: str
    title: str
    columns: list[Column]
    rows: list[dict[str, Scalar]]
    row_key: list[str]
    """Column keys that together identify a row; used for selection and detail requests."""
    name_column: str
    """The column that search matches first and that opens the row."""
    total_rows: int
    matched_rows: int
    offset: int
    limit: int
    sort: Sort | None
    totals: dict[str, Scalar] = {}
    extremes: dict[str, list[int | float]] = {}
    """Smallest non-zero and largest magnitude of each numeric column over all rows, for choosing units."""
