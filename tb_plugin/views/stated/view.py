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

# Units in profiles -> units of pages of the same size.
_UNITS: Mapping[str, Unit] = {"ns": "ns", "bytes": "bytes", "B/s": "bytes_per_second"}
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
    blocks, totals = trace.blocks, trace.totals
    if len(blocks.start_ns):
        yield _frame(
            "allocator_blocks",
            "Allocator blocks",
            [
                ("stated_block_name", "Name", "text", trace.strings.take(blocks.name)),
                ("stated_allocator", "Allocator", "text", trace.strings.take(blocks.allocator)),
                ("stated_bytes", "Size", "bytes", _null_if_missing(blocks.bytes)),
                ("stated_start_ns", "Allocated", "ns", _null_if_missing(blocks.start_ns)),
                ("stated_end_ns", "Released", "ns", _null_if_missing(blocks.end_ns)),
                ("stated_device_type", "Device type", "number", _null_if_missing(blocks.device_type)),
                ("stated_device_id", "Device", "number", _null_if_missing(blocks.device_id)),
            ],
        )
    if len(totals.time_ns):
        yield _frame(
            "allocator_totals",
            "Totals of allocators",
            [
                ("stated_allocator", "Allocator", "text", trace.strings.take(totals.allocator)),
                ("stated_time_ns", "Time", "ns", pa.array(totals.time_ns)),
                ("stated_allocated", "Allocated", "bytes", _null_if_missing(totals.allocated)),
                ("stated_reserved", "Reserved", "bytes", _null_if_missing(totals.reserved)),
                ("stated_active", "Active", "bytes", _null_if_missing(totals.active)),
                ("stated_device_type", "Device type", "number", _null_if_missing(totals.device_type)),
                ("stated_device_id", "Device", "number", _null_if_missing(totals.device_id)),
            ],
        )


def _null_if_missing(values: npt.NDArray[np.signedinteger]) -> pa.Array:
    return pa.array(values, mask=values == MISSING)


def _column_parts(trace: TraceTable, column: ReportedColumn) -> tuple[str, str, Unit, pa.Array]:
    """Returns key, title, unit and values of a column. If the page has no format for the unit, the unit is part of
    the title.

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
