"""Kernels and communication operations, in the columns of kernel_details.csv."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.formats.ascend.csv_table import trimmed_cells
from tb_plugin.formats.ascend.database.cells import Columns
from tb_plugin.formats.ascend.database.groups import Operations
from tb_plugin.formats.ascend.database.names import Names
from tb_plugin.formats.ascend.database.safe_open import Database
from tb_plugin.formats.ascend.database.tasks import DESCRIBED_NAMES, FULLY_DESCRIBED, Tasks
from tb_plugin.formats.ascend.database.typed_table import TypedTable, absent_below_zero
from tb_plugin.formats.ascend.kernel_details import (
    DEVICE,
    DURATION,
    NAME,
    START,
    WAIT,
    Kernels,
    kernels_of,
    unquoted_shapes,
)
from tb_plugin.model.trace.extra_columns import OpenColumn
from tb_plugin.model.trace.links import first_with_key
from tb_plugin.model.trace.schema import MISSING

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]

_TASK_COLUMNS = {"modelId": "Model ID", "taskId": "Task ID", "streamId": "Stream ID", "contextId": "Context ID"}
_NONE = 2**32 - 1  # the largest 32-bit number means none; for models, it means a stand-alone operator
_GROUPS = "COMMUNICATION"  # core type of communication operations, as in the newest CSV files
_TOTALS = {"aic_total_time": "aicore_time(us)", "aiv_total_time": "aiv_time(us)"}
MOST_COUNTERS = 512


class KernelRows(msgspec.Struct, frozen=True, eq=False):
    kernels: Kernels
    row: Int32


def _named(names: Names, read: Columns, column: str) -> pa.Array:
    """Returns the names in a column. If a number has no text, the number becomes the name."""
    number = read.integers(column)
    return pc.coalesce(names.cells(number), absent_below_zero(number).cast(pa.string()))


def kernel_rows(
    database: Database,
    names: Names,
    interner: Interner,
    tasks: Tasks,
    operations: Operations,
    placed_operations: tuple[Int32, Int64],
) -> KernelRows:
    """Returns kernels and communication operations.

    ``placed_operations`` contains the rows and the devices of the operations.
    """
    task = np.flatnonzero(tasks.place != MISSING)
    descriptions, read = tasks.described.take(tasks.place[task].astype(np.int64)), tasks.read.take(task)
    row, device = placed_operations
    count = len(row)
    none = np.full(count, MISSING)
    columns = {
        DEVICE: pa.array(np.concatenate((tasks.device[task], device))),
        NAME: trimmed_cells(
            pa.concat_arrays([_named(names, descriptions, "name"), _named(names, operations.read, "opName")])
        ),
    }
    for key, title in _TASK_COLUMNS.items():
        number = read.integers(key)
        number = number if key == "modelId" else np.where(number == _NONE, MISSING, number)
        columns[title] = absent_below_zero(np.concatenate((number, none)))
    for title, keys in FULLY_DESCRIBED.items():
        key = next((key for key in keys if descriptions.has(key)), keys[0])
        columns[title] = absent_below_zero(np.concatenate((descriptions.integers(key), none)))
    of_groups = {
        "opType": names.cells(operations.read.integers("opType")),
        "taskType": pa.array([_GROUPS] * count, pa.string()),
    }
    for key, title in DESCRIBED_NAMES.items():
        cells = names.cells(descriptions.integers(key))
        cells = unquoted_shapes(cells) if title.endswith("Shapes") else cells
        columns[title] = pa.concat_arrays((cells, of_groups.get(key, pa.nulls(count, pa.string()))))
    waited = np.concatenate((descriptions.integers("waitNs"), operations.read.integers("waitNs")))
    times = {
        WAIT: absent_below_zero(waited),
        START: pa.array(np.concatenate((tasks.start_ns[task], operations.start_ns))),
        DURATION: pa.array(np.concatenate((tasks.dur_ns[task], operations.dur_ns))),
    }
    good = np.flatnonzero(np.asarray(columns[NAME].is_valid()))
    taken = pa.array(good)
    table = TypedTable(
        {title: column.take(taken) for title, column in columns.items()},
        {title: column.take(taken) for title, column in times.items()},
        database.log,
    )
    kernels = kernels_of(table, interner, database.log)
    number = np.concatenate((read.integers("globalTaskId"), none))[good]
    kernels = replace(kernels, facts=(*kernels.facts, *_counted(database, names, number)))
    return KernelRows(kernels, np.concatenate((tasks.row[task], row))[good].astype(np.int32))


def _counted(database: Database, names: Names, number: Int64) -> list[OpenColumn]:
    read = database.read("TASK_PMU_INFO", needs="globalTaskId name", number="value")
    value, what = read.number("value"), read.integers("name")
    place = first_with_key(number + 1, np.arange(len(number)), read.integers("globalTaskId") + 1)
    kept = np.flatnonzero((place != MISSING) & np.isfinite(value))
    # Sorted by counter and kernel. The first of several values is used.
    kept = kept[np.lexsort((place[kept], what[kept]))]
    first = np.ones(len(kept), np.bool_)
    first[1:] = (what[kept][1:] != what[kept][:-1]) | (place[kept][1:] != place[kept][:-1])
    kept = kept[first]
    distinct, begin = np.unique(what[kept], return_index=True)
    if len(distinct) > MOST_COUNTERS:
        database.log.add("many_columns", "dropped", count=len(distinct) - MOST_COUNTERS)
    facts: list[OpenColumn] = []
    for title, rows in zip(names.cells(distinct).to_pylist(), np.split(kept, begin[1:]), strict=False):
        if title is not None and len(facts) < MOST_COUNTERS:
            facts.append(_fact(title, place[rows], value[rows]))
    return facts


def _fact(name: str, row: Int32, value: npt.NDArray[np.float64]) -> OpenColumn:
    """Returns a column with the name and unit of the CSV file, in which times are in microseconds."""
    if name.endswith("_time"):
        return OpenColumn(_TOTALS.get(name, f"{name}(us)"), row, value / 1000)
    is_count = name.endswith("_cycles") and bool((np.abs(value) < 2.0**53).all())
    return OpenColumn(name, row, value.astype(np.int64) if is_count else value)
