"""The operator table that some profiles report instead of operator times."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from tb_plugin.model.trace.extra_columns import ReportedColumn, ReportedTable

NAME = "operator_calls"
_TEXT, _INT = pa.large_string(), pa.int64()
# Shapes and stacks as in OperatorArgs; null = not reported.
TEXTS = {"name": "Name", "input_shape": "Input shapes", "call_stack": "Call stack"}
# Whole nanoseconds, null = not reported; host self includes runtime calls.
TIMES = {
    "host_self_ns": "Host self", "host_total_ns": "Host total", "device_self_ns": "Device self",
    "device_total_ns": "Device total", "core_self_ns": "Device self, counted cores",
    "core_total_ns": "Device total, counted cores",
}  # fmt: skip
SCHEMA = pa.schema([*((key, _TEXT) for key in TEXTS), *((key, _INT) for key in TIMES)])


def as_reported_table(table: pa.Table) -> ReportedTable:
    columns = [
        ReportedColumn(key, title, "ns" if key in TIMES else "", table[key].combine_chunks())
        for key, title in {**TEXTS, **TIMES}.items()
    ]
    return ReportedTable(NAME, "Calls of operators", tuple(columns))


def reported_operators(tables: Iterable[ReportedTable]) -> pa.Table | None:
    """Returns the operator table of a trace. None if the profile does not contain an operator table."""
    found = next((table for table in tables if table.name == NAME), None)
    if found is None:
        return None
    return pa.table({each.key: each.values for each in found.columns if each.key in SCHEMA.names}).cast(SCHEMA)
