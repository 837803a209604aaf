"""Vendor tables of a profile, and operator calls without start times."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from tb_plugin.formats._chrome.times import EXACT_BELOW_US, INT64_MAX
from tb_plugin.formats.ascend.arguments import as_shapes, as_stack
from tb_plugin.formats.ascend.csv_table import CsvTable
from tb_plugin.model.trace.extra_columns import SINCE_1970, ReportedColumn, ReportedTable
from tb_plugin.model.trace.reported_operators import SCHEMA, as_reported_table

_UNIT = re.compile(r"(?P<title>.*?)\s*\((?P<unit>us|ms|KB|MB|GB/s|MB/s|%|MHz|bytes)\)\Z")
_KEY = re.compile(r"[^A-Za-z0-9]+")
_OPERATOR_TIMES = {
    "host_self_ns": "Host Self Duration(us)", "host_total_ns": "Host Total Duration(us)",
    "device_self_ns": "Device Self Duration(us)", "device_total_ns": "Device Total Duration(us)",
    "core_self_ns": "Device Self Duration With AICore(us)", "core_total_ns": "Device Total Duration With AICore(us)",
}  # fmt: skip
_OPERATOR_TEXTS = ("Name", "Input Shapes", "Call Stack")
_TITLES = {
    "op_statistic.csv": "Kernels by type",
    "api_statistic.csv": "Calls by name",
    "npu_module_mem.csv": "Memory by component",
    "data_preprocess.csv": "AI CPU work",
    "l2_cache.csv": "L2 cache",
    "task_time.csv": "Tasks",
    "static_op_mem.csv": "Static memory",
}


def reported_table(name: str, table: CsvTable, titles: Sequence[str] | None = None) -> ReportedTable:
    """Returns the table in a file, with the columns ``titles`` (None = all)."""
    last = PurePosixPath(name).name
    columns = [_column(title, table) for title in (table.titles if titles is None else titles)]
    return ReportedTable(last.partition(".")[0], _TITLES.get(last, last), tuple(columns))


def _column(title: str, table: CsvTable) -> ReportedColumn:
    """Returns a column. Microseconds since 1970 become nanoseconds, because a float cannot represent all their digits."""
    match = _UNIT.match(title)
    key = _KEY.sub("_", title).strip("_").lower() or "column"
    bare, unit = (match["title"], match["unit"]) if match else (title, "")
    cells = table.texts(title)
    if unit == "us" and _is_clock_time(cells):
        time, has_value = table.nanoseconds(title)
        return ReportedColumn(f"{key.removesuffix('_us')}_ns", bare, SINCE_1970, pa.array(time, mask=~has_value))
    return ReportedColumn(key, bare, unit, _numbers(cells))


def _numbers(cells: pa.Array) -> pa.Array:
    """Converts texts to numbers, unless one is no number or has too many digits for a float."""
    for kind in (pa.int64(), pa.float64()):
        try:
            found = pc.cast(cells, kind)
        except pa.ArrowInvalid:
            continue
        return found if pa.types.is_integer(kind) or _has_all_digits(cells) else cells
    return cells


def _has_all_digits(cells: pa.Array) -> bool:
    """Returns True if floats represent all numbers exactly. A number of at most 15 digits always passes."""
    digits = pc.utf8_length(pc.replace_substring_regex(cells, "[^0-9]", ""))
    long = cells.filter(pc.fill_null(pc.greater(digits, 15), False))
    return all(Decimal(repr(float(text))) == Decimal(text) for text in long.to_pylist())


def _is_clock_time(cells: pa.Array) -> bool:
    """Returns True for times in microseconds since 1970. Durations this large (a hundred days) do not occur."""
    try:
        floats = pc.cast(cells, pa.float64())
    except pa.ArrowInvalid:
        return False
    most = pc.max(floats).as_py()
    return most is not None and EXACT_BELOW_US <= most < INT64_MAX / 1000


def operator_calls(name: str, table: CsvTable) -> ReportedTable:
    """Returns the calls in ``operator_details.csv``, with times in nanoseconds and all other columns."""
    found = {key: table.nanoseconds(title) for key, title in _OPERATOR_TIMES.items()}
    columns = {
        "name": pc.fill_null(table.texts("Name"), ""),
        "input_shape": _formed(table.texts("Input Shapes"), as_shapes),
        "call_stack": _formed(table.texts("Call Stack"), as_stack),
        **{key: pa.array(times, mask=~has_value) for key, (times, has_value) in found.items()},
    }
    calls = as_reported_table(pa.table(columns).cast(SCHEMA))
    known = {*_OPERATOR_TEXTS, *_OPERATOR_TIMES.values()}
    keys = {each.key for each in calls.columns}
    more = reported_table(name, table, [title for title in table.titles if title not in known])
    return replace(calls, columns=(*calls.columns, *(each for each in more.columns if each.key not in keys)))


def _formed(cells: pa.Array, form: Callable[[str], str]) -> pa.Array:
    """Converts texts with ``form``. Empty results become null. Each distinct text is converted once."""
    encoded = cells.dictionary_encode()
    formed = pa.array([form(text) or None for text in encoded.dictionary.to_pylist()], pa.large_string())
    return formed.take(encoded.indices)
