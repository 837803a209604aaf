"""Vendor tables and allocator records of a profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame, Params, Part, answer_view
from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.model.trace.extra_columns import SINCE_1970, ReportedColumn
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Column, Metric, Table, Unit, View
from tb_plugin.views.stated import VIEW

Columns = tuple[tuple[str, str, Unit, str], ...]

# Units in profiles -> units of pages of the same size.
_UNITS: Mapping[str, Unit] = {"ns": "ns", "bytes": "bytes", "B/s": "bytes_per_second"}
# key without "stated_", title, unit and field of each column
_DEVICE: Columns = (
    ("device_type", "Device type", "number", "device_type"),
    ("device_id", "Device", "number", "device_id"),
)
_BLOCKS: Columns = (
    ("block_name", "Name", "text", "name"), ("allocator", "Allocator", "text", "allocator"),
    ("bytes", "Size", "bytes", "bytes"), ("start_ns", "Allocated", "ns", "start_ns"),
    ("end_ns", "Released", "ns", "end_ns"), *_DEVICE,
)  # fmt: skip
_TOTALS: Columns = (
    ("allocator", "Allocator", "text", "allocator"), ("time_ns", "Time", "ns", "time_ns"),
    ("allocated", "Allocated", "bytes", "allocated"), ("reserved", "Reserved", "bytes", "reserved"),
    ("active", "Active", "bytes", "active"), *_DEVICE,
)  # fmt: skip
ROW = Metric("stated_row", "Row", "count", "Row number in the reported table.")


class VendorTables(DeclaredView, entry=VIEW):
    def part_key(self, params: Params) -> tuple[object, ...]:
        return (params.steps,)

    def part(self, trace: TraceTable, params: Params) -> Part:
        frames = {frame.name: frame for frame in _frames(trace)}
        return Part(select_rows(trace, params.steps).coverage, {}, frames, {}, tuple(frames))

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        return answer_view(self, parts[0], params)


def _frames(trace: TraceTable) -> Iterator[Frame]:
    for table in trace.reported_tables:
        yield _frame(table.name, table.title, [_column_parts(trace, c) for c in table.columns])
    for name, title, source, columns in (
        ("allocator_blocks", "Allocator blocks", trace.blocks, _BLOCKS),
        ("allocator_totals", "Totals of allocators", trace.totals, _TOTALS),
    ):
        parts = [
            (f"stated_{key}", head, unit, _values(trace, getattr(source, field), unit))
            for key, head, unit, field in columns
        ]
        if len(parts[0][3]):
            yield _frame(name, title, parts)


def _values(trace: TraceTable, values: npt.NDArray[np.signedinteger], unit: Unit) -> pa.Array:
    return trace.strings.take(values) if unit == "text" else pa.array(values, mask=values == MISSING)


def _column_parts(trace: TraceTable, column: ReportedColumn) -> tuple[str, str, Unit, pa.Array]:
    """Returns key, title, unit and values of a column. The title contains units that the page does not format.

    Wall-clock times become relative to the first event, because browsers lose digits of times since 1970.
    """
    unit = _unit(column.values)
    if column.unit == SINCE_1970 and pa.types.is_integer(column.values.type):
        first = (trace.base_time_ns or 0) + trace.origin_ns
        return column.key, column.title, "ns", pc.subtract(column.values, pa.scalar(first))
    own = _UNITS.get(column.unit) if unit == "number" else None
    if own is not None:
        return column.key, column.title, own, column.values
    return column.key, f"{column.title} ({column.unit})" if column.unit else column.title, unit, column.values


def _unit(values: pa.Array) -> Unit:
    if pa.types.is_boolean(values.type):
        return "bool"
    return "number" if pa.types.is_integer(values.type) or pa.types.is_floating(values.type) else "text"


def _frame(name: str, title: str, columns: Sequence[tuple[str, str, Unit, pa.Array]]) -> Frame:
    metrics = [Metric(key, head, unit, "Reported by the profiler.") for key, head, unit, _ in columns]
    data = {key: values for key, _, _, values in columns}
    data[ROW.key] = pa.array(np.arange(len(columns[0][3]) if columns else 0))
    all_columns = [*map(Column, metrics), Column(ROW, hidden=True)]
    named = next((key for key, _, unit, _ in columns if unit == "text"), ROW.key)
    return Frame(name, title, all_columns, pa.table(data), (ROW.key,), named)
