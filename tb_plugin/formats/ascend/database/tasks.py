"""Tasks on device streams, and overlap bars computed by the vendor's tool."""

from __future__ import annotations

from itertools import chain

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.formats.ascend.arguments import kind_of_task
from tb_plugin.formats.ascend.database.cells import Columns
from tb_plugin.formats.ascend.database.host import Host, connection_ids
from tb_plugin.formats.ascend.database.names import Names
from tb_plugin.formats.ascend.database.rows import Rows, names_or_numbers, rows_with_times
from tb_plugin.formats.ascend.database.safe_open import Database
from tb_plugin.model.trace.links import first_with_key
from tb_plugin.model.trace.schema import MISSING, EventKind

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]

MOST_DEVICE = 4096  # larger numbers are not devices
# numeric columns of kernel_details.csv -> names in databases, oldest first
FULLY_DESCRIBED = {"Block Dim": ("blockDim", "blockNum"), "Mix Block Dim": ("mixBlockDim", "mixBlockNum")}
# columns that refer to texts -> columns of kernel_details.csv
DESCRIBED_NAMES = {
    "opType": "Type", "opState": "OP State", "taskType": "Accelerator Core", "hf32Eligible": "HF32 Eligible",
    "inputShapes": "Input Shapes", "inputDataTypes": "Input Data Types", "inputFormats": "Input Formats",
    "outputShapes": "Output Shapes", "outputDataTypes": "Output Data Types", "outputFormats": "Output Formats",
    "attrInfo": "Attributes",
}  # fmt: skip
_TASK_INTEGERS = {"modelId": "Model Id", "taskId": "Task Id"}
_BARS = {0: "Computing", 1: "Communication", 2: "Communication(Not Overlapped)", 3: "Free"}

_UNKNOWN = (
    "these tasks have no type, so they are displayed but not analysed. Kernel and communication "
    "times are too short, and idle times are too long"
)


class Tasks(msgspec.Struct, frozen=True, eq=False):
    """Device tasks. All columns have equal length."""

    read: Columns
    start_ns: Int64
    dur_ns: Int64
    device: Int64
    row: Int32
    described: Columns  # facts about kernels, one row each
    place: Int32  # row of each task in ``described``, -1 for none


def task_rows(database: Database, rows: Rows, names: Names, host: Host, operations: Int64) -> Tasks:
    """Adds the tasks on streams. ``operations`` contains the connection ids of communication operations."""
    described = database.read(
        "COMPUTE_TASK_INFO",
        needs="globalTaskId name",
        whole=" ".join(("waitNs", *chain(*FULLY_DESCRIBED.values()), *DESCRIBED_NAMES)),
    )
    read = database.read(
        "TASK",
        needs="startNs endNs",
        whole="deviceId connectionId globalTaskId taskType contextId streamId taskId modelId",
    )
    read, start, dur = rows_with_times(read, database.log)
    place = first_with_key(
        described.integers("globalTaskId") + 1, np.arange(described.rows), read.integers("globalTaskId") + 1
    )
    connection = connection_ids(read.integers("connectionId"))
    typed = names.ids(read.integers("taskType"))
    task = names_or_numbers(rows, typed, read.integers("taskType"))
    kind = _kinds(rows, task, place != MISSING, connection, operations)
    # A task without a type is not treated as a kernel, because it would be counted as computation.
    unknown = (typed == MISSING) & (place == MISSING)
    if unknown.any():
        kind[unknown] = EventKind.DEVICE_ANNOTATION
        database.log.add("unknown_tasks", "note", count=int(unknown.sum()), text=_UNKNOWN)
    name = task.copy()
    known = np.flatnonzero(place != MISSING)
    name[known] = names_or_numbers(rows, names.ids(described.integers("name")), described.integers("name"))[
        place[known]
    ]
    device = devices_in(read)
    stream = rows.numbers(read.integers("streamId"))
    linked = np.isin(kind, (EventKind.KERNEL, EventKind.MEMCPY))
    row = rows.add(
        start_ns=start,
        dur_ns=dur,
        name=name,
        category=rows.text(""),
        kind=kind,
        pid=rows.numbers(device),
        tid=stream,
        correlation=np.where(linked, connection, MISSING),
        external_id=np.where(linked, operator_of_connection(host, connection), MISSING),
        device=device,
    )
    rows.work(row, stream, *_copied(database, names, read.integers("globalTaskId")))
    rows.fact("Task Type", row, names.cells(read.integers("taskType")))
    rows.fact("connection_id", row, connection)
    for key, title in _TASK_INTEGERS.items():
        rows.fact(title, row, read.integers(key))
    return Tasks(read, start, dur, device, row, described, place)


def bar_rows(database: Database, rows: Rows) -> None:
    """Adds the bars for computing time, communication time and free time, if the database contains them."""
    read = database.read("OVERLAP_ANALYSIS", needs="startNs endNs type", whole="deviceId")
    read, start, dur = rows_with_times(read, database.log)
    what = read.integers("type")
    read = read.take(known := np.flatnonzero(np.isin(what, list(_BARS))))
    name = np.zeros(len(_BARS), np.int32)
    name[list(_BARS)] = [rows.text(title) for title in _BARS.values()]
    device = devices_in(read)
    rows.add(
        start_ns=start[known],
        dur_ns=dur[known],
        name=name[what[known]],
        category=rows.text(""),
        kind=EventKind.DEVICE_ANNOTATION,
        pid=rows.numbers(device),
        tid=name[what[known]],
        device=device,
    )


def operator_of_connection(host: Host, connection: Int64) -> Int64:
    """Returns the external id of each connection's operator; -1 = none."""
    requested = first_with_key(host.enqueued_by.integers("connectionId"), host.enqueued_by.integers("row"), connection)
    return np.where(requested != MISSING, requested.astype(np.int64) + 1, MISSING)


def devices_in(read: Columns) -> Int64:
    """Returns device numbers. Missing and invalid numbers become 0."""
    device = read.integers("deviceId")
    return np.where((device >= 0) & (device <= MOST_DEVICE), device, 0)


def _copied(database: Database, names: Names, number: Int64) -> tuple[Int64, Int32]:
    """Returns the number of copied bytes and the copy direction (string id) of each task; -1 = unknown.

    These are recorded only at the highest profiler level.
    """
    read = database.read("MEMCPY_INFO", needs="globalTaskId", whole="size memcpyOperation")
    place = first_with_key(read.integers("globalTaskId") + 1, np.arange(read.rows), number + 1)
    size = np.append(read.integers("size"), MISSING)[place]
    return np.maximum(size, MISSING), np.append(names.ids(read.integers("memcpyOperation")), MISSING)[place].astype(
        np.int32
    )


def _kinds(
    rows: Rows, task: Int32, is_described: npt.NDArray[np.bool_], connection: Int64, operations: Int64
) -> npt.NDArray[np.uint8]:
    """Returns the kind of each task, by task type. A task with a description is always a kernel.

    A kernel without a description becomes an annotation if a kernel with a description, or a communication
    operation, has the same connection id. Such a task contains other tasks, so its time would be counted twice.
    """
    distinct, place = np.unique(task, return_inverse=True)
    kind = np.array([kind_of_task(rows.interner.texts[each]) for each in distinct.tolist()], np.uint8)[place]
    covered = np.concatenate((connection[is_described], operations))
    whole = (kind == EventKind.KERNEL) & ~is_described & np.isin(connection, covered[covered != MISSING])
    return np.where(is_described, EventKind.KERNEL, np.where(whole, EventKind.DEVICE_ANNOTATION, kind)).astype(np.uint8)
