"""Device rows of a database: tasks, communication operations, and bars."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.formats.ascend.arguments import kind_of_task
from tb_plugin.formats.ascend.database.cells import Columns
from tb_plugin.formats.ascend.database.names import Names
from tb_plugin.formats.ascend.database.rows import Rows, connection_ids, devices_in, distinct_pairs, rows_with_times
from tb_plugin.formats.ascend.database.safe_open import Database
from tb_plugin.formats.ascend.lanes import Lane
from tb_plugin.formats.ascend.timeline import CONNECTION, DIRECTION, TASK_BYTES
from tb_plugin.lib.arrays import Bool, Int32, Int64, UInt8
from tb_plugin.model.trace.links import first_with_key
from tb_plugin.model.trace.schema import MISSING, EventKind

# numeric columns of kernel_details.csv -> names in databases, oldest first
DESCRIBED_NUMBERS = {"Block Dim": ("blockDim", "blockNum"), "Mix Block Dim": ("mixBlockDim", "mixBlockNum")}
# columns that refer to texts -> columns of kernel_details.csv
DESCRIBED_NAMES = {
    "opType": "Type", "opState": "OP State", "taskType": "Accelerator Core", "hf32Eligible": "HF32 Eligible",
    "inputShapes": "Input Shapes", "inputDataTypes": "Input Data Types", "inputFormats": "Input Formats",
    "outputShapes": "Output Shapes", "outputDataTypes": "Output Data Types", "outputFormats": "Output Formats",
    "attrInfo": "Attributes",
}  # fmt: skip
_BARS = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")
# enum column -> argument in a trace view, and the table with its texts
_ENUMS = {
    "transportType": ("transport type", "ENUM_HCCL_TRANSPORT_TYPE"), "linkType": ("link type", "ENUM_HCCL_LINK_TYPE"),
    "rdmaType": ("rdma type", "ENUM_HCCL_RDMA_TYPE"), "dataType": ("data type", "ENUM_HCCL_DATA_TYPE"),
}  # fmt: skip
_INTEGER_ARGUMENTS = {"notifyId": "notify_id", "srcRank": "src rank", "dstRank": "dst rank"}
_UNKNOWN = (
    "these tasks have no type, so they are displayed but not analyzed. Kernel and communication "
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


class Operations(msgspec.Struct, frozen=True, eq=False):
    """Communication operations. All columns have equal length."""

    read: Columns
    start_ns: Int64
    dur_ns: Int64
    device: Int64
    row: Int32


def device_rows(database: Database, rows: Rows) -> tuple[Tasks, Operations]:
    """Adds the rows of all devices."""
    read, start, dur = rows_with_times(
        database.read(
            "COMMUNICATION_OP",
            needs="startNs endNs opName",
            whole="connectionId groupName opId dataType algType count opType deviceId waitNs",
        ),
        database.log,
    )
    connection, names = connection_ids(read.integers("connectionId")), read.integers("groupName")
    tasks = _task_rows(database, rows, connection)
    found, first, place = np.unique(names, return_index=True, return_inverse=True)
    order = np.argsort(start[first], kind="stable")  # of groups, by their first operation
    group, device = np.argsort(order)[place], _devices(read, connection, tasks)
    row = rows.add(
        start_ns=start,
        dur_ns=dur,
        name=rows.name_ids(read.integers("opName")),
        kind=EventKind.KERNEL,
        lane=Lane.GROUP,
        pid=rows.numbers(device),
        tid=rows.numbers(group, "Group {} Communication"),
        device=device,
    )
    rows.fact(CONNECTION, row, connection)
    rows.word("data_type", row, read.integers("dataType"), _enum(database, rows, "ENUM_HCCL_DATA_TYPE"))
    rows.word("alg_type", row, read.integers("algType"))
    rows.fact("count", row, read.integers("count"))
    rows.word("group name", row, names)
    _plane_rows(database, rows, tasks, {name: index for index, name in enumerate(found[order].tolist())})
    _bar_rows(database, rows)
    return tasks, Operations(read, start, dur, device, row)


def _task_rows(database: Database, rows: Rows, operations: Int64) -> Tasks:
    """Adds the tasks on streams. ``operations`` contains the connection ids of communication operations."""
    described = database.read(
        "COMPUTE_TASK_INFO",
        needs="globalTaskId name",
        whole=" ".join(("waitNs", *(key for keys in DESCRIBED_NUMBERS.values() for key in keys), *DESCRIBED_NAMES)),
    )
    read = database.read(
        "TASK",
        needs="startNs endNs",
        whole="deviceId connectionId globalTaskId taskType contextId streamId taskId modelId",
    )
    read, start, dur = rows_with_times(read, database.log)
    number, what = read.integers("globalTaskId"), read.integers("taskType")
    place = first_with_key(described.integers("globalTaskId") + 1, np.arange(described.rows), number + 1)
    connection, is_described = connection_ids(read.integers("connectionId")), place != MISSING
    name = rows.name_ids(what)
    kind = _kinds(rows, name, is_described, connection, operations)
    # A task without a type is not treated as a kernel, because it would be counted as computation.
    unknown = (rows.names.ids(what) == MISSING) & ~is_described
    if unknown.any():
        kind[unknown] = EventKind.DEVICE_ANNOTATION
        database.log.add("unknown_tasks", "note", count=int(unknown.sum()), text=_UNKNOWN)
    name = np.where(is_described, np.append(rows.name_ids(described.integers("name")), MISSING)[place], name)
    device, stream = devices_in(read), rows.numbers(read.integers("streamId"))
    row = rows.add(
        start_ns=start,
        dur_ns=dur,
        name=name,
        kind=kind,
        lane=Lane.STREAM,
        pid=rows.numbers(device),
        tid=stream,
        device=device,
    )
    # Copies are recorded only at the highest profiler level.
    copies = database.read("MEMCPY_INFO", needs="globalTaskId", whole="size memcpyOperation")
    copy = first_with_key(copies.integers("globalTaskId") + 1, np.arange(copies.rows), number + 1)
    rows.fact(TASK_BYTES, row, np.append(np.maximum(copies.integers("size"), MISSING), MISSING)[copy])
    rows.word(DIRECTION, row, np.append(copies.integers("memcpyOperation"), MISSING)[copy])
    rows.word("Task Type", row, what)
    rows.fact(CONNECTION, row, connection)
    for key, title in (("modelId", "Model Id"), ("taskId", "Task Id")):
        rows.fact(title, row, read.integers(key))
    return Tasks(read, start, dur, device, row, described, place)


def _plane_rows(database: Database, rows: Rows, tasks: Tasks, groups: dict[int, int]) -> None:
    """Adds the tasks of communication operations, on one track per plane. ``groups``: index of each group."""
    read = database.read(
        "COMMUNICATION_TASK_INFO",
        needs="globalTaskId",
        whole=" ".join(("taskType planeId groupName size opId", *_ENUMS, *_INTEGER_ARGUMENTS)),
        number="bandwidth",
    )
    number = tasks.read.integers("globalTaskId")
    task = first_with_key(number + 1, np.arange(len(number)), read.integers("globalTaskId") + 1)
    known = np.flatnonzero(task != MISSING)
    if lost := read.rows - len(known):
        database.log.add("lost_task", "dropped", count=lost, text="communication tasks without a time were skipped")
    read, task = read.take(known), task[known]
    device, what = tasks.device[task], read.integers("taskType")
    group, plane, place = distinct_pairs(read.integers("groupName"), read.integers("planeId"))
    # If there are several groups, each group has separate tracks.
    has_one_group = len(np.unique(group)) < 2
    tracks = [
        rows.text(f"Plane {number}" if has_one_group else f"Group {groups.get(name, len(groups))} Plane {number}")
        for name, number in zip(group.tolist(), plane.tolist(), strict=True)
    ]
    row = rows.add(
        start_ns=tasks.start_ns[task],
        dur_ns=tasks.dur_ns[task],
        name=rows.name_ids(what),
        kind=EventKind.DEVICE_ANNOTATION,
        lane=Lane.PLANE,
        pid=rows.numbers(device),
        tid=np.array(tracks, np.int32)[place],
        device=device,
    )
    rows.fact(TASK_BYTES, row, np.maximum(read.integers("size"), MISSING))
    rows.word("task type", row, what)
    rows.fact("stream id", row, tasks.read.integers("streamId")[task])
    rows.fact("task id", row, tasks.read.integers("taskId")[task])
    rows.fact("bandwidth(GB/s)", row, read.number("bandwidth") / 1e9)
    for key, title in _INTEGER_ARGUMENTS.items():
        rows.fact(title, row, read.integers(key))
    for key, (title, table) in _ENUMS.items():
        rows.word(title, row, read.integers(key), _enum(database, rows, table))


def _bar_rows(database: Database, rows: Rows) -> None:
    """Adds the bars for computing time, communication time and free time, if the database contains them."""
    read = database.read("OVERLAP_ANALYSIS", needs="startNs endNs type", whole="deviceId")
    read, start, dur = rows_with_times(read, database.log)
    what = read.integers("type")
    known = np.flatnonzero((what >= 0) & (what < len(_BARS)))
    name = np.array([rows.text(title) for title in _BARS], np.int32)[what[known]]
    device = devices_in(read)[known]
    rows.add(
        start_ns=start[known],
        dur_ns=dur[known],
        name=name,
        kind=EventKind.DEVICE_ANNOTATION,
        lane=Lane.ANALYSIS,
        pid=rows.numbers(device),
        tid=name,
        device=device,
    )


def _kinds(rows: Rows, task: Int32, is_described: Bool, connection: Int64, operations: Int64) -> UInt8:
    """Returns the kind of each task, by task type. A task with a description is always a kernel.

    A kernel without a description becomes an annotation if a kernel with a description, or a communication
    operation, has the same connection id. Such a task contains other tasks, so its time would be counted twice.
    """
    distinct, place = np.unique(task, return_inverse=True)
    kind = np.array([kind_of_task(rows.interner.texts[each]) for each in distinct.tolist()], np.uint8)[place]
    covered = np.concatenate((connection[is_described], operations))
    whole = (kind == EventKind.KERNEL) & ~is_described & np.isin(connection, covered[covered != MISSING])
    return np.where(is_described, EventKind.KERNEL, np.where(whole, EventKind.DEVICE_ANNOTATION, kind)).astype(np.uint8)


def _devices(read: Columns, connection: Int64, tasks: Tasks) -> Int64:
    """Returns the device of each operation: its own, or that of a task with its connection id, or the only one."""
    if read.has("deviceId"):
        return devices_in(read)
    of_tasks = connection_ids(tasks.read.integers("connectionId"))
    task = first_with_key(of_tasks, np.arange(len(of_tasks)), connection)
    fallback = int(tasks.device[0]) if len(np.unique(tasks.device)) == 1 else 0
    return np.append(tasks.device, fallback)[task]


def _enum(database: Database, rows: Rows, table: str) -> Names:
    return Names(database, rows.interner, table, "name")
