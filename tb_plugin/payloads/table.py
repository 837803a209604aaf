"""Tables: one page of rows, sorted and filtered by the server."""

from __future__ import annotations

from msgspec import Struct

from tb_plugin.payloads.base import Metric, Scalar


class Column(Struct, frozen=True):
    metric: Metric
    hidden: bool = False
    """True if the column is hidden until the user selects it in the column chooser."""
    share: bool = False
    """True if each cell shows a bar: the value divided by the total of the column in ``Table.totals``."""


class Sort(Struct, frozen=True):
    key: str
    descending: bool


class Table(Struct, frozen=True, tag_field="kind", tag="table"):
    """One page of rows, with one value per column key. ``totals`` contains the sums over all rows, before filtering."""

    name: str
    title: str
    columns: list[Column]
    rows: list[dict[str, Scalar]]
    row_key: list[str]
    """Keys of the columns that together identify a row. They are used to select a row and to request its details."""
    name_column: str
    """Key of the column that contains the row name. The search tries this column first."""
    total_rows: int
    matched_rows: int
    offset: int
    limit: int
    sort: Sort | None
    totals: dict[str, Scalar] = {}
    extremes: dict[str, list[int | float]] = {}
    """Smallest non-zero and largest absolute value of each numeric column, which determine its unit."""
    sql: str = ""
    """Query that reproduces the table, for the view ``sql``; "" = none."""
