"""Whole tables on their way to other programs: CSV for spreadsheets, Arrow for data frames."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

import pyarrow as pa

from tb_plugin.payloads import Column

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def as_arrow(data: pa.Table) -> bytes:
    """Returns an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema) as writer:
        writer.write_table(data)
    return bytes(sink.getvalue())


def as_csv(columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> bytes:
    """Returns CSV in UTF-8, units in the header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([_header(column.metric.title, column.metric.unit) for column in columns])
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    return text.getvalue().encode()


def _header(title: str, unit: str) -> str:
    return title if unit in ("text", "code", "count", "number", "bool") else f"{title} [{unit}]"


def _cell(value: object) -> object:
    # A name from a trace must not become a formula in somebody's spreadsheet.
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
