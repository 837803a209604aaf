"""A MemoryFlow as one Arrow file that any process maps: a column each, what is no column in the header."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pyarrow as pa

from tb_plugin.errors import CacheFileLost
from tb_plugin.model.column_file import kept, one_list, read_columns, write_columns
from tb_plugin.model.memory_flow.table import MemoryFlow
from tb_plugin.model.trace.arrow import report_of
from tb_plugin.model.trace.strings import StringTable

VERSION = 1
"""Part of every cache key: raise it when the meaning or the set of columns changes."""
COLUMNS = (
    *("address", "size", "start_ns", "end_ns", "operator", "name", "layout"),
    *("region_address", "region_size", "region_offset"),
)
_AGAIN = "It is made anew from its file: ask again."


def write(flow: MemoryFlow, path: str) -> None:
    """Writes the file. Raises OSError."""
    columns = {name: one_list(pa.array(getattr(flow, name))) for name in COLUMNS}
    columns["is_released"] = one_list(pa.array(flow.is_released.astype(np.int8)))
    columns["strings"] = one_list(flow.strings.array)
    write_columns(columns, {"version": VERSION, "last_ns": flow.last_ns, "report": asdict(flow.report)}, path)


def read(path: str) -> MemoryFlow:
    """Maps the file. Raises KeptLost when it is gone, damaged or of another version."""
    with kept("The kept columns are", path, _AGAIN):
        table, header = read_columns(path)
        if header["version"] != VERSION:
            raise CacheFileLost("The kept columns are of another version.", path, _AGAIN)
        arrays = {name: table[name].chunk(0).values for name in table.column_names}
        strings = StringTable(arrays.pop("strings"))
        columns = {name: array.to_numpy(zero_copy_only=True) for name, array in arrays.items()}
        is_released = columns.pop("is_released").astype(np.bool_)
        report = report_of(header["report"])
        return MemoryFlow(**columns, is_released=is_released, strings=strings, last_ns=header["last_ns"], report=report)
