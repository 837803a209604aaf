"""Tables: a page of rows that the server sorted, filtered and cut."""

from __future__ import annotations

from msgspec import Struct

from tb_plugin.payloads.base import Metric, Scalar


class Column(Struct, frozen=True):
    """A column has a metric, and says how a table may use it."""

    metric: Metric
    hidden: bool = False
    """Not shown unless chosen in the column chooser."""
    share: bool = False
    """Draw a bar in the cell: the value's share of ``Table.totals``."""


class Sort(Struct, frozen=True):
    """A sort names the column that rows are ordered by."""

    key: str
    descending: bool


class Table(Struct, frozen=True, tag_field="kind", tag="table"):
    """A table is one page of rows, each with a value per column key; ``totals`` are sums over all rows, unfiltered."""

    name: str
    title: str
    columns: list[Column]
    rows: list[dict[str, Scalar]]
    row_key: list[str]
    """Column keys that together name a row; used for selection and for detail requests."""
    name_column: str
    """The column that search looks at first and that opens the row."""
    total_rows: int
    matched_rows: int
    offset: int
    limit: int
    sort: Sort | None
    totals: dict[str, Scalar] = {}
    extremes: dict[str, list[int | float]] = {}
    """Smallest (other than 0) and largest magnitude of each numeric column over all rows: they choose the units."""
