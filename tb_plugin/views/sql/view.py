"""Rows of a SQL query."""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from tb_plugin.analysis.base import Frame, Params, Part
from tb_plugin.analysis.metrics import SHARED, define
from tb_plugin.analysis.selection import chosen_steps, select_rows
from tb_plugin.analysis.skipped_workers import left_out
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Column, CoverageInfo, Figures, Line, Metric, Notices, Payload, Series, Unit
from tb_plugin.sql.engine import SqlAnswer, SqlSource, run_sql
from tb_plugin.sql.tables import COLUMNS, NAMES, table_of
from tb_plugin.views.sql import VIEW

METRICS = SHARED.adding(
    define(
        "the whole recording",
        "count",
        {
            "sql_rows": ("Rows", "Rows of the query, at most 100,000."),
            "sql_row": ("Row", "Number of the row, from 0."),
        },
    ),
    define("the whole recording", "bool", {"sql_is_cut": ("Cut", "The query has more rows.")}),
)
# Used if `query` is empty.
DEFAULT = f"select * from {COLUMNS}"
# Units by the end of a column's name.
_UNITS: dict[str, Unit] = {"_ns": "ns", "_bytes": "bytes", "_ratio": "ratio", "_share": "ratio"}
# Rows that the chart shows.
BARS = 30
# Columns that are no amounts.
_NO_AMOUNTS = ("sql_row", "event", "parent", "operator_event", "launch_event", "start_ns", "call_start_ns", "time_ns")


class Sql(DeclaredView, entry=VIEW):
    own = ("query",)

    def part(self, trace: TraceTable, params: Params) -> Part:
        """Returns the answer without the table of ranks, which the service computes."""
        chosen_steps(trace, params.steps)  # raises BadRequest for an unknown step
        answer = run_sql([SqlSource({}, partial(table_of, trace))], NAMES, query_of(params), is_guarded=True)
        return part_of(answer, select_rows(trace, None).coverage, params)


def query_of(params: Params) -> str:
    return params.get("query").strip() or DEFAULT


def part_of(answer: SqlAnswer, coverage: CoverageInfo, params: Params) -> Part:
    """Returns the payloads of an answer. ``params`` may name skipped workers."""
    frame = _rows(answer.table)
    summary = METRICS.measured(sql_rows=answer.table.num_rows, sql_is_cut=answer.is_cut)
    payloads: dict[str, Payload] = {"summary": Figures("summary", "Query", "", summary)}
    if skipped := left_out(params, METRICS):
        payloads["data_quality"] = Notices("data_quality", "About these numbers", "data", skipped)
    if (chart := _chart(frame)) is not None:
        payloads["chart"] = chart
    return Part(coverage, {}, {"rows": frame}, payloads, (*payloads, "rows"))


def _rows(table: pa.Table) -> Frame:
    columns = [
        Column(Metric(name, _title(name, unit), unit, "Column of the query."))
        for name in table.column_names
        for unit in [_unit(name, table.schema.field(name).type)]
    ]
    # The number of the row identifies it: the columns of a query may hold anything.
    columns += METRICS.columns("sql_row", hidden=("sql_row",))
    data = table.append_column("sql_row", pa.array(range(table.num_rows), pa.int64()))
    named = next((column.metric.key for column in columns if column.metric.unit == "code"), table.column_names[0])
    return Frame("rows", "Rows", columns, data, ("sql_row",), named)


def _title(name: str, unit: Unit) -> str:
    """Returns the title of a column. The page shows times in other units than nanoseconds, with the unit."""
    return name.removesuffix("_ns") if unit == "ns" else name


def _unit(name: str, kind: pa.DataType) -> Unit:
    if pa.types.is_boolean(kind):
        return "bool"
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return "code"
    return next((unit for end, unit in _UNITS.items() if name.endswith(end)), "number")


def _chart(frame: Frame) -> Series | None:
    """Returns the first numbers by the first texts, if the texts name the rows. None otherwise."""
    texts = [column.metric for column in frame.columns if column.metric.unit == "code"]
    numbers = [column.metric for column in frame.columns if _is_drawn(column.metric)]
    numbers.sort(key=lambda metric: metric.unit not in ("ns", "bytes"))
    data = frame.data.slice(0, BARS)
    if not texts or not numbers or data.num_rows < 2:
        return None
    names, values = (data[metrics[0].key].to_pylist() for metrics in (texts, numbers))
    if len(set(names)) < len(names) or any((value or 0) < 0 for value in values):
        return None
    first = f"First {BARS} rows" if frame.data.num_rows > BARS else ""
    labels: list[int | float | str] = ["(none)" if name is None else name for name in names]
    return Series(
        "chart", numbers[0].title, first, texts[0], labels, [Line(numbers[0], "kernel", [*values])], "stacked_bars"
    )


def _is_drawn(metric: Metric) -> bool:
    return metric.unit not in ("code", "bool") and metric.key not in _NO_AMOUNTS
