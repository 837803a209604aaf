"""Export of tables as CSV or Arrow.

Tables of many ranks have millions of rows. They are therefore written column by column in blocks, and never
converted to Python objects.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import FLAGS
from tb_plugin.lib.arrays import Int64
from tb_plugin.payloads import Column

# Rows per block.
ROWS = 16_384
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_END = "\r\n"


def as_arrow(data: pa.Table, rows: Int64) -> bytes:
    """Returns the given rows as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema) as writer:
        for piece in _pieces(data.unify_dictionaries(), rows):
            writer.write_table(piece)
    return bytes(sink.getvalue())


def as_csv(columns: Sequence[Column], data: pa.Table, rows: Int64) -> bytes:
    """Returns the given rows as CSV in UTF-8. The header contains the units.

    The output is the same as from Python's csv module.
    """
    sink = io.BytesIO()
    header = [_header(column.metric.title, column.metric.unit) for column in columns]
    sink.write(",".join(_written(header)).encode() + _END.encode())
    for piece in _pieces(data.select([column.metric.key for column in columns]), rows):
        texts = [_texts(column.combine_chunks()) for column in piece.columns]
        if len(texts) == 1:  # a reader would skip an empty line
            texts = [pc.if_else(pc.equal(texts[0], ""), _text('""'), texts[0])]
        lines = pc.binary_join_element_wise(pc.binary_join_element_wise(*texts, _text(",")), _text(""), _text(_END))
        sink.write(_bytes_of(lines))
    return sink.getvalue()


def _pieces(data: pa.Table, rows: Int64) -> Iterator[pa.Table]:
    in_order = bool((np.diff(rows) == 1).all())
    if not in_order:
        data = data.combine_chunks()  # otherwise each block would do it
    for start in range(0, len(rows), ROWS):
        some = rows[start : start + ROWS]
        yield data.slice(int(some[0]), len(some)) if in_order else data.take(pa.array(some))


def _texts(values: Any) -> Any:
    kind = values.type
    if pa.types.is_integer(kind):
        return pc.fill_null(values.cast(pa.large_string()), "")
    if pa.types.is_boolean(kind):
        return pc.fill_null(pc.if_else(values, _text(str(True)), _text(str(False))), "")
    if pa.types.is_floating(kind):  # the shortest decimal form, as in Python
        return pa.array(["" if value is None else str(value) for value in values.to_pylist()], pa.large_string())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        values = values.dictionary_encode()
    elif not pa.types.is_dictionary(kind):
        return pa.array(_written(map(_cell, values.to_pylist())), pa.large_string())
    distinct: list[object] = values.dictionary.to_pylist()
    if pa.types.is_dictionary(kind):
        distinct = [FLAGS.get(str(value), value) for value in distinct]
    written = pa.array([*_written(map(_cell, distinct)), ""], pa.large_string())
    return written.take(pc.fill_null(values.indices.cast(pa.int64()), len(distinct)))


def _text(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def _written(values: Iterable[object]) -> list[str]:
    lines: list[str] = []
    csv.writer(SimpleNamespace(write=lines.append), lineterminator=_END).writerows((value, "") for value in values)
    return [line[: -len("," + _END)] for line in lines]


def _bytes_of(texts: Any) -> memoryview:
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64, len(texts) + 1, 8 * texts.offset)
    return memoryview(data)[int(ends[0]) : int(ends[-1])]


def _header(title: str, unit: str) -> str:
    return title if unit in ("text", "code", "count", "number", "bool") else f"{title} [{unit}]"


def _cell(value: object) -> object:
    # A spreadsheet must not interpret a name from a trace as a formula.
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
