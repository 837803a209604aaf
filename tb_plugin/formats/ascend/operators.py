"""``operator_details.csv``: operator calls with durations but no start times."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from tb_plugin.formats.ascend.arguments import as_shapes, as_stack
from tb_plugin.formats.ascend.csv_table import CsvTable
from tb_plugin.formats.ascend.reported_tables import reported_table
from tb_plugin.model.trace.extra_columns import ReportedTable
from tb_plugin.model.trace.reported_operators import SCHEMA, as_reported_table

Int64 = npt.NDArray[np.int64]

_TIMES = {
    "host_self_ns": "Host Self Duration(us)", "host_total_ns": "Host Total Duration(us)",
    "device_self_ns": "Device Self Duration(us)", "device_total_ns": "Device Total Duration(us)",
    "core_self_ns": "Device Self Duration With AICore(us)", "core_total_ns": "Device Total Duration With AICore(us)",
}  # fmt: skip
_TEXTS = ("Name", "Input Shapes", "Call Stack")


def operators_of(name: str, table: CsvTable) -> ReportedTable:
    """Returns the operator calls. Times are in nanoseconds; null = missing. All other columns are unchanged."""
    columns = {
        "name": pc.fill_null(table.texts("Name"), ""),
        "input_shape": _formed(table.texts("Input Shapes"), as_shapes),
        "call_stack": _formed(table.texts("Call Stack"), as_stack),
        **{key: _nullable(*table.nanoseconds(title)) for key, title in _TIMES.items()},
    }
    calls = as_reported_table(pa.table(columns).cast(SCHEMA))
    known = {*_TEXTS, *_TIMES.values()}
    keys = {each.key for each in calls.columns}
    more = reported_table(name, table, [title for title in table.titles if title not in known])
    return replace(calls, columns=(*calls.columns, *(each for each in more.columns if each.key not in keys)))


def _formed(cells: pa.Array, form: Callable[[str], str]) -> pa.Array:
    """Converts texts with ``form``. Empty results become null. Each distinct text is converted once."""
    encoded = cells.dictionary_encode()
    formed = pa.array([form(text) or None for text in encoded.dictionary.to_pylist()], pa.large_string())
    return formed.take(encoded.indices)


def _nullable(values: Int64, has_value: npt.NDArray[np.bool_]) -> pa.Array:
    return pa.array(values, mask=~has_value)
