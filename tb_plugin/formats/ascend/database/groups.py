"""Communication operations, and the tasks of their planes."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.formats.ascend.database.cells import Columns
from tb_plugin.formats.ascend.database.host import Host, connection_ids
from tb_plugin.formats.ascend.database.names import Names
from tb_plugin.formats.ascend.database.rows import Rows, names_or_numbers, rows_with_times
from tb_plugin.formats.ascend.database.safe_open import Database
from tb_plugin.formats.ascend.database.tasks import Tasks, devices_in, operator_of_connection
from tb_plugin.model.trace.links import first_with_key
from tb_plugin.model.trace.schema import MISSING, EventKind

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]

# enum column -> argument in a trace view, and the table with its texts
_ENUMS = {
    "transportType": ("transport type", "ENUM_HCCL_TRANSPORT_TYPE"), "linkType": ("link type", "ENUM_HCCL_LINK_TYPE"),
    "rdmaType": ("rdma type", "ENUM_HCCL_RDMA_TYPE"), "dataType": ("data type", "ENUM_HCCL_DATA_TYPE"),
}  # fmt: skip
_INTEGER_ARGUMENTS = {"notifyId": "notify_id", "srcRank": "src rank", "dstRank": "dst rank"}


class Operations(msgspec.Struct, frozen=True, eq=False):
    """Communication operations. All columns except ``groups`` have equal length."""

    read: Columns
    start_ns: Int64
    dur_ns: Int64
    name: Int32
    connection: Int64
    group: Int64  # index of the group, in order of its first operation
    groups: Int64  # database numbers of the group names, in this order


def operations_in(database: Database, rows: Rows, names: Names) -> Operations:
    """Returns the communication operations of all groups."""
    read = database.read(
        "COMMUNICATION_OP",
        needs="startNs endNs opName",
        whole="connectionId groupName opId dataType algType count opType deviceId waitNs",
    )
    read, start, dur = rows_with_times(read, database.log)
    name = names_or_numbers(rows, names.ids(read.integers("opName")), read.integers("opName"))
    found, first, place = np.unique(read.integers("groupName"), return_index=True, return_inverse=True)
    order = np.argsort(start[first], kind="stable")
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    return Operations(
        read, start, dur, name, connection_ids(read.integers("connectionId")), number[place], found[order]
    )


def operation_rows(
    database: Database, rows: Rows, names: Names, host: Host, tasks: Tasks, operations: Operations
) -> tuple[Int32, Int64]:
    """Adds the operations as rows. Returns the indices of these rows, and the device of each."""
    read, interner = operations.read, rows.interner
    device = _devices(operations, tasks)
    row = rows.add(
        start_ns=operations.start_ns,
        dur_ns=operations.dur_ns,
        name=operations.name,
        category=rows.text(""),
        kind=EventKind.KERNEL,
        pid=rows.numbers(device),
        tid=rows.numbers(operations.group, "Group {} Communication"),
        correlation=operations.connection,
        external_id=operator_of_connection(host, operations.connection),
        device=device,
    )
    rows.work(row)
    rows.fact("connection_id", row, operations.connection)
    rows.fact("data_type", row, _words(database, interner, "ENUM_HCCL_DATA_TYPE", read.integers("dataType")))
    rows.fact("alg_type", row, names.cells(read.integers("algType")))
    rows.fact("count", row, read.integers("count"))
    rows.fact("group name", row, names.cells(read.integers("groupName")))
    return row, device


def plane_rows(database: Database, rows: Rows, names: Names, tasks: Tasks, operations: Operations) -> None:
    """Adds the tasks of communication operations, on one track per plane."""
    read = database.read(
        "COMMUNICATION_TASK_INFO",
        needs="globalTaskId",
        whole=" ".join(("taskType planeId groupName size opId", *_ENUMS, *_INTEGER_ARGUMENTS)),
        number="bandwidth",
    )
    number = tasks.read.integers("globalTaskId")
    task = first_with_key(number + 1, np.arange(len(number)), read.integers("globalTaskId") + 1)
    known = np.flatnonzero(task != MISSING)
    if missing_tasks := read.rows - len(known):
        database.log.add(
            "lost_task", "dropped", count=missing_tasks, text="communication tasks without a time were skipped"
        )
    read, task = read.take(known), task[known]
    start, dur = tasks.start_ns[task], tasks.dur_ns[task]
    device, plane = tasks.device[task], read.integers("planeId")
    row = rows.add(
        start_ns=start,
        dur_ns=dur,
        name=names_or_numbers(rows, names.ids(read.integers("taskType")), read.integers("taskType")),
        category=rows.text(""),
        kind=EventKind.DEVICE_ANNOTATION,
        pid=rows.numbers(device),
        tid=_planes(rows, read.integers("groupName"), plane, operations),
        device=device,
    )
    rows.work(row, size=read.integers("size"))
    rows.fact("task type", row, names.cells(read.integers("taskType")))
    rows.fact("stream id", row, tasks.read.integers("streamId")[task])
    rows.fact("task id", row, tasks.read.integers("taskId")[task])
    rows.fact("bandwidth(GB/s)", row, read.number("bandwidth") / 1e9)
    for key, title in _INTEGER_ARGUMENTS.items():
        rows.fact(title, row, read.integers(key))
    for key, (title, table) in _ENUMS.items():
        rows.fact(title, row, _words(database, rows.interner, table, read.integers(key)))


def _planes(rows: Rows, group: Int64, plane: Int64, operations: Operations) -> Int32:
    """Returns the track of each task. If there are several groups, each group has separate tracks."""
    if len(np.unique(group)) < 2:
        return rows.numbers(plane, "Plane {}")
    order = {name: place for place, name in enumerate(operations.groups.tolist())}
    both, place = np.unique(np.stack((group, plane)), axis=1, return_inverse=True)
    words = [
        f"Group {order.get(name, len(order))} Plane {number}"
        for name, number in zip(both[0].tolist(), both[1].tolist(), strict=True)
    ]
    found: Int32 = np.array([rows.text(word) for word in words], np.int32)[place.reshape(-1)]
    return found


def _devices(operations: Operations, tasks: Tasks) -> Int64:
    """Returns the device of each operation.

    If the table has no device column, uses the device of a task with the same connection id, otherwise the only
    device.
    """
    if operations.read.has("deviceId"):
        return devices_in(operations.read)
    connection = connection_ids(tasks.read.integers("connectionId"))
    task = first_with_key(connection, np.arange(len(connection)), operations.connection)
    fallback = int(tasks.device[0]) if len(np.unique(tasks.device)) == 1 else 0
    return np.where(task != MISSING, np.append(tasks.device, fallback)[task], fallback)


def _words(database: Database, interner: Interner, table: str, number: Int64) -> pa.Array:
    return Names(database, interner, table, "name").cells(number)
