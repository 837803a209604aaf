"""Tables that a profile brings ready-made, as they are: times of steps, statistics by operator and call, caches, links."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.readers.ascend.csv_table import CsvTable
from tb_plugin.trace.open import StatedColumn, StatedTable

_UNIT = re.compile(r"(?P<title>.*?)\s*\((?P<unit>us|ms|KB|MB|GB/s|MB/s|%|MHz|bytes)\)\Z")
_KEY = re.compile(r"[^A-Za-z0-9]+")
_TITLES = {
    "step_trace_time.csv": "Times of steps",
    "op_statistic.csv": "Kernels by type",
    "api_statistic.csv": "Calls by name",
    "npu_module_mem.csv": "Memory of components",
    "data_preprocess.csv": "Work of AI CPUs",
    "l2_cache.csv": "L2 cache",
    "task_time.csv": "Tasks",
    "static_op_mem.csv": "Static memory",
}


def stated_table(name: str, table: CsvTable, titles: Sequence[str] | None = None) -> StatedTable:
    """Returns the table of a file, of these columns or all: numbers where all cells are numbers."""
    last = PurePosixPath(name).name
    columns = []
    for title in table.titles if titles is None else titles:
        match = _UNIT.match(title)
        columns.append(
            StatedColumn(
                _KEY.sub("_", title).strip("_").lower() or "column",
                match["title"] if match else title,
                match["unit"] if match else "",
                _numbers(table.texts(title)),
            )
        )
    return StatedTable(last.partition(".")[0], _TITLES.get(last, last), tuple(columns))


def _numbers(cells: pa.Array) -> pa.Array:
    for kind in (pa.int64(), pa.float64()):
        try:
            return pc.cast(cells, kind)
        except pa.ArrowInvalid:
            continue
    return cells
