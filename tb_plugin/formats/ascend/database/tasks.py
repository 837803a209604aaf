"""Tasks of a device's streams, and bars that a tool worked out of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from tb_plugin.formats.ascend.arguments import kind_of_task
from tb_plugin.formats.ascend.database.cells import Columns
from tb_plugin.formats.ascend.database.host import Host, connected
from tb_plugin.formats.ascend.database.names import Names
from tb_plugin.formats.ascend.database.rows import Rows, names_or_numbers, timed
from tb_plugin.formats.ascend.database.safe_open import Database
from tb_plugin.model.trace.links import first_with_key
from tb_plugin.model.trace.schema import MISSING, EventKind

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]

MOST_DEVICE = 4096
"""Numbers beyond it are those of no device."""
FULLY_DESCRIBED = {"Block Dim": ("blockDim", "blockNum"), "Mix Block Dim": ("mixBlockDim", "mixBlockNum")}
"""Columns of kernel_details.csv that are plain numbers -> what the database called them, oldest first."""
DESCRIBED_NAMES = {
    "opType": "Type", "opState": "OP State", "taskType": "Accelerator Core", "hf32Eligible": "HF32 Eligible",
    "inputShapes": "Input Shapes", "inputDataTypes": "Input Data Types", "inputFormats": "Input Formats",
    "outputShapes": "Output Shapes", "outputDataTypes": "Output Data Types", "outputFormats": "Output Formats",
    "attrInfo": "Attributes",
}  # fmt: skip
"""Columns of what is known of kernels that are numbers of texts -> those of kernel_details.csv."""
_TASK_WHOLE = {"modelId": "Model Id", "taskId": "Task Id"}
_BARS = {0: "Computing", 1: "Communication", 2: "Communication(Not Overlapped)", 3: "Free"}

_UNKNOWN = (
    "what these tasks are is unknown, for the texts of their types are not there: they are drawn and count as no work, "
    "so that times of kernels and communication are too short and idle times too long"
)


@dataclass(frozen=True, eq=False)
class Tasks:
    """The tasks: all columns are of equal length."""

    read: Columns
    start_ns: Int64
    dur_ns: Int64
    device: Int64
    row: Int32
    described: Columns
    """What is known of kernels, a row for each."""
    place: Int32
    """The row of each task there, -1 = none."""


def task_rows(database: Database, rows: Rows, names: Names, host: Host, operations: Int64) -> Tasks:
    """Adds the tasks of streams. ``operations`` are the numbers of connections of what groups do."""
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
    read, start, dur = timed(read, database.log)
    place = first_with_key(
        described.whole("globalTaskId") + 1, np.arange(described.rows), read.whole("globalTaskId") + 1
    )
    connection = connected(read.whole("connectionId"))
    typed = names.ids(read.whole("taskType"))
    task = names_or_numbers(rows, typed, read.whole("taskType"))
    kind = _kinds(rows, task, place != MISSING, connection, operations)
    # What a task without a type does nobody knows; counted as a kernel it would be computation.
    unknown = (typed == MISSING) & (place == MISSING)
    if unknown.any():
        kind[unknown] = EventKind.DEVICE_ANNOTATION
        database.log.add("unknown_tasks", "note", count=int(unknown.sum()), text=_UNKNOWN)
    name = task.copy()
    known = np.flatnonzero(place != MISSING)
    name[known] = names_or_numbers(rows, names.ids(described.whole("name")), described.whole("name"))[place[known]]
    device = devices_in(read)
    stream = rows.numbers(read.whole("streamId"))
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
    rows.work(row, stream, *_copied(database, names, read.whole("globalTaskId")))
    rows.fact("Task Type", row, names.cells(read.whole("taskType")))
    rows.fact("connection_id", row, connection)
    for key, title in _TASK_WHOLE.items():
        rows.fact(title, row, read.whole(key))
    return Tasks(read, start, dur, device, row, described, place)


def bar_rows(database: Database, rows: Rows) -> None:
    """Adds the bars of computing, communication and neither, where a tool worked them out."""
    read = database.read("OVERLAP_ANALYSIS", needs="startNs endNs type", whole="deviceId")
    read, start, dur = timed(read, database.log)
    what = read.whole("type")
    read = read.only(known := np.flatnonzero(np.isin(what, list(_BARS))))
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
    """Returns the external id of the operator that is behind each connection, -1 where none is."""
    asked = first_with_key(host.asked.whole("connectionId"), host.asked.whole("row"), connection)
    return np.where(asked != MISSING, asked.astype(np.int64) + 1, MISSING)


def devices_in(read: Columns) -> Int64:
    """Returns the numbers of devices; 0 where a row names none that can be."""
    device = read.whole("deviceId")
    return np.where((device >= 0) & (device <= MOST_DEVICE), device, 0)


def _copied(database: Database, names: Names, number: Int64) -> tuple[Int64, Int32]:
    """How many bytes tasks copy and whereto (string ids), -1 = unknown; recorded at the highest level alone."""
    read = database.read("MEMCPY_INFO", needs="globalTaskId", whole="size memcpyOperation")
    place = first_with_key(read.whole("globalTaskId") + 1, np.arange(read.rows), number + 1)
    size = np.append(read.whole("size"), MISSING)[place]
    return np.maximum(size, MISSING), np.append(names.ids(read.whole("memcpyOperation")), MISSING)[place].astype(
        np.int32
    )


def _kinds(
    rows: Rows, task: Int32, is_described: npt.NDArray[np.bool_], connection: Int64, operations: Int64
) -> npt.NDArray[np.uint8]:
    """What tasks are, by their types. A kernel that is described is one.

    One that is not, and has the connection of one that is or of an operation of a group, is a whole of which that is told:
    counted too, its time would count twice.
    """
    distinct, place = np.unique(task, return_inverse=True)
    kind = np.array([kind_of_task(rows.interner.texts[each]) for each in distinct.tolist()], np.uint8)[place]
    told = np.concatenate((connection[is_described], operations))
    whole = (kind == EventKind.KERNEL) & ~is_described & np.isin(connection, told[told != MISSING])
    return np.where(is_described, EventKind.KERNEL, np.where(whole, EventKind.DEVICE_ANNOTATION, kind)).astype(np.uint8)
