"""Kernels and communication operations, in the columns of kernel_details.csv."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.formats.ascend.csv_table import trimmed_cells
from tb_plugin.formats.ascend.database.cells import Columns
from tb_plugin.formats.ascend.database.device import DESCRIBED_NAMES, DESCRIBED_NUMBERS, Operations, Tasks
from tb_plugin.formats.ascend.database.names import Names
from tb_plugin.formats.ascend.database.safe_open import Database
from tb_plugin.formats.ascend.database.typed_table import TypedTable
from tb_plugin.formats.ascend.kernel_details import DEVICE, DURATION, NAME, START, WAIT, Kernels, kernels_of
from tb_plugin.lib.arrays import Float64, Int32, Int64
from tb_plugin.model.trace.extra_columns import OpenColumn
from tb_plugin.model.trace.links import first_with_key
from tb_plugin.model.trace.schema import MISSING

_TASK_COLUMNS = {"modelId": "Model ID", "taskId": "Task ID", "streamId": "Stream ID", "contextId": "Context ID"}
_NONE = 2**32 - 1  # the largest 32-bit number means none; for models, it means a stand-alone operator
_GROUPS = "COMMUNICATION"  # core type of communication operations, as in the newest CSV files
_TOTALS = {"aic_total_time": "aicore_time(us)", "aiv_total_time": "aiv_time(us)"}
MOST_COUNTERS = 512


def kernels_in(
    database: Database, names: Names, interner: Interner, tasks: Tasks, operations: Operations
) -> tuple[Kernels, Int32]:
    """Returns kernels and communication operations, and their rows."""
    task = np.flatnonzero(tasks.place != MISSING)
    described, read = tasks.described.take(tasks.place[task].astype(np.int64)), tasks.read.take(task)
    count = len(operations.row)
    none = np.full(count, MISSING)
    numbers = {title: read.integers(key) for key, title in _TASK_COLUMNS.items()}
    numbers = {
        title: values if title == "Model ID" else np.where(values == _NONE, MISSING, values)
        for title, values in numbers.items()
    }
    for title, keys in DESCRIBED_NUMBERS.items():
        numbers[title] = described.integers(next((key for key in keys if described.has(key)), keys[0]))
    of_groups = {
        "opType": names.cells(operations.read.integers("opType")),
        "taskType": pa.array([_GROUPS] * count, pa.string()),
    }
    named = [_named(names, described, "name"), _named(names, operations.read, "opName")]
    columns = {
        DEVICE: pa.array(np.concatenate((tasks.device[task], operations.device))),
        NAME: trimmed_cells(pa.concat_arrays(named)),
        **{title: _nullable(np.concatenate((values, none))) for title, values in numbers.items()},
        **{
            title: pa.concat_arrays(
                (names.cells(described.integers(key)), of_groups.get(key, pa.nulls(count, pa.string())))
            )
            for key, title in DESCRIBED_NAMES.items()
        },
    }
    times = {
        WAIT: _nullable(np.concatenate((described.integers("waitNs"), operations.read.integers("waitNs")))),
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
    kernels = replace(kernels, facts=(*kernels.facts, *_hardware_counters(database, names, number)))
    return kernels, np.concatenate((tasks.row[task], operations.row))[good].astype(np.int32)


def _hardware_counters(database: Database, names: Names, number: Int64) -> list[OpenColumn]:
    """Returns one column per hardware counter. ``number``: global task id of each kernel."""
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


def _fact(name: str, row: Int32, value: Float64) -> OpenColumn:
    """Returns a column with the name and unit of the CSV file, in which times are in microseconds."""
    if name.endswith("_time"):
        return OpenColumn(_TOTALS.get(name, f"{name}(us)"), row, value / 1000)
    is_count = name.endswith("_cycles") and bool((np.abs(value) < 2.0**53).all())
    return OpenColumn(name, row, value.astype(np.int64) if is_count else value)


def _named(names: Names, read: Columns, column: str) -> pa.Array:
    """Returns the names in a column. If a number has no text, the number becomes the name."""
    number = read.integers(column)
    return pc.coalesce(names.cells(number), _nullable(number).cast(pa.string()))


def _nullable(values: Int64) -> pa.Array:
    return pa.array(values, mask=values == MISSING)
