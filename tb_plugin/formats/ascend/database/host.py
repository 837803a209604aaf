"""Host rows of a database, and the operators that requested device tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.formats.ascend.database.cells import Columns
from tb_plugin.formats.ascend.database.rows import Rows, connection_ids, distinct_pairs, lane_pid, rows_with_times
from tb_plugin.formats.ascend.database.safe_open import Database
from tb_plugin.formats.ascend.lanes import Lane
from tb_plugin.formats.ascend.timeline import CONNECTION, SEQUENCE, SHAPES, STACK, THREAD, TYPES
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import number_groups
from tb_plugin.model.trace.extra_columns import ReportedSteps
from tb_plugin.model.trace.links import first_with_key
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import ArrowEnds
from tb_plugin.model.trace.tree import innermost_at, nest

_TIMES = "startNs endNs"
_OPERATOR, _QUEUE, _PYTHON, _MSTX = 50001, 50002, 50003, 50004
_CATEGORIES = {_OPERATOR: "cpu_op", _QUEUE: "dequeue", _PYTHON: "python_function", _MSTX: "mstx"}
# name of each called layer, and its prefix of CANN calls in a trace view
_LAYERS = {
    5000: ("runtime", "Runtime"), 5500: ("hccl", "Hccl"), 10000: ("node", "Node"), 15000: ("model", "Model"),
    20000: ("acl", "AscendCL"),
}  # fmt: skip
_ENQUEUE, _ARROW = "Enqueue", "enqueue_to_dequeue"
_COLLECTION, _COLLECTION_LANE = "Python GC", 1
_SHAPE = re.compile(r"[0-9,;\s\[\]-]*")
MOST_STACK_BYTES = 256 * 1024 * 1024  # limit for the text of distinct call stacks; real profiles have a few MB


class Host(msgspec.Struct, frozen=True, eq=False):
    """Data about the host rows that other tables need."""

    arrows: ArrowEnds
    pid: str  # process id on the host, "" for none
    connection: Int64  # connection ids of operators
    operator: Int64  # row of the operator of each connection
    python_rows: Int32  # Python calls


def host_rows(database: Database, rows: Rows) -> Host:
    """Adds the host rows, and returns the data that other tables need."""
    read = database.read(
        "PYTORCH_API",
        needs=_TIMES,
        whole="globalTid connectionId name sequenceNumber fwdThreadId inputDtypes inputShapes callchainId type",
    )
    read, start, dur = rows_with_times(read, database.log)
    what, name = read.integers("type"), rows.name_ids(read.integers("name"))
    starts = [each for each in np.unique(name).tolist() if rows.interner.texts[each].startswith(_ENQUEUE)]
    is_enqueue = (what == _QUEUE) & np.isin(name, starts)
    category = np.full(read.rows, rows.text(""), np.int32)
    for api, text in _CATEGORIES.items():
        category[what == api] = rows.text(text)
    category[is_enqueue] = rows.text("enqueue")
    pid, tid = _threads(rows, read.integers("globalTid"))
    row = rows.add(start_ns=start, dur_ns=dur, name=name, category=category, lane=Lane.HOST, pid=pid, tid=tid)
    _arguments(database, rows, read, row)
    table = database.read("CONNECTION_IDS", needs="id connectionId")
    number, value = table.integers("id"), table.integers("connectionId")
    connection, operator = _connections(read, row, number, value)
    key = _queue_keys(read, number, value)
    rows.fact("correlation_id", row, key)
    tail = np.full(read.rows, MISSING, np.int32)
    is_dequeue = (what == _QUEUE) & ~is_enqueue
    tail[is_dequeue] = first_with_key(key[is_enqueue] + 1, np.flatnonzero(is_enqueue), key[is_dequeue] + 1)
    head = np.flatnonzero(tail != MISSING)
    tail = tail[head]
    arrows = ArrowEnds(
        name=np.full(len(head), rows.text(_ARROW), np.int32),
        start_time_ns=start[tail],
        start_pid=pid[tail],
        start_tid=tid[tail],
        end_time_ns=start[head],
        end_pid=pid[head],
        end_tid=tid[head],
        to_next=np.zeros(len(head), np.bool_),
        start_row=row[tail],
        end_row=row[head],
    )
    if not (what == _MSTX).any():
        _marks(database, rows)
    _calls(database, rows)
    host_pid = rows.interner.texts[pid[0]] if len(pid) else ""
    _collections(database, rows, host_pid)
    return Host(arrows, host_pid, connection, operator, row[what == _PYTHON])


def reported_steps(database: Database) -> ReportedSteps | None:
    """Returns the steps recorded in the database, or None."""
    read, start, dur = rows_with_times(database.read("STEP_TIME", needs=_TIMES, whole="id"), database.log)
    if not read.rows:
        return None
    order = np.argsort(start, kind="stable")
    number = read.integers("id")[order].tolist()
    labels = tuple(str(each if each != MISSING else place) for place, each in enumerate(number))
    return ReportedSteps(labels, start[order], (start + dur)[order])


def operators_of(columns: Mapping[str, Any], host: Host) -> Int64:
    """Returns the external id of all rows; -1 = none. A device task has the same id as the operator that requested it.

    The operator has the same connection id as the task. Otherwise it is the operator that enqueued the task.
    """
    external = np.full(len(columns["kind"]), MISSING, np.int64)
    tasks = np.flatnonzero(np.isin(columns["kind"], (EventKind.KERNEL, EventKind.MEMCPY)))
    operator = first_with_key(host.connection, host.operator, columns["correlation"][tasks]).astype(np.int64)
    unknown = np.flatnonzero(operator == MISSING)
    operator[unknown] = _enqueuing_operators(columns, host.arrows, tasks[unknown])
    known = operator != MISSING
    external[tasks[known]] = operator[known] + 1
    external[operator[known]] = operator[known] + 1
    return external


def _enqueuing_operators(columns: Mapping[str, Any], arrows: ArrowEnds, tasks: Int64) -> Int64:
    """Returns the row of the operator that enqueued each task; -1 = none.

    The call that launches a task runs inside a dequeue range. An arrow leads to this range from the enqueue range,
    which is inside the operator.
    """
    found = np.full(len(tasks), MISSING, np.int64)
    kind, correlation = columns["kind"], columns["correlation"]
    calls = np.flatnonzero((kind == EventKind.RUNTIME) & (correlation > 0))
    call = first_with_key(correlation[calls], calls, correlation[tasks])
    width = int(max(columns["pid"].max(initial=0), columns["tid"].max(initial=0))) + 1
    track = number_groups(columns["pid"].astype(np.int64) * width + columns["tid"])[0].astype(np.int32)
    known = np.flatnonzero(call != MISSING)
    if not len(known) or not len(arrows.end_row):
        return found
    taken = _around(columns, track, np.unique(arrows.end_row).astype(np.int64), call[known].astype(np.int64))
    known, taken = known[taken != MISSING], taken[taken != MISSING]
    put = first_with_key(arrows.end_row.astype(np.int64) + 1, arrows.start_row.astype(np.int64), taken + 1)
    found[known] = _around(columns, track, np.flatnonzero(kind == EventKind.OPERATOR), put.astype(np.int64))
    return found


def _around(columns: Mapping[str, Any], track: Int32, rows: Int64, inner: Int64) -> Int64:
    """Returns the innermost of ``rows`` on the same thread that is open at the start of each inner row; -1 = none."""
    start, dur = columns["start_ns"], columns["dur_ns"]
    rows = rows[np.lexsort((-dur[rows], start[rows]))]
    if not len(rows) or not len(inner):
        return np.full(len(inner), MISSING, np.int64)
    begin, end = start[rows], start[rows] + dur[rows]
    found = innermost_at(track[rows], begin, end, nest(track[rows], begin, end).parent, track[inner], start[inner])
    return np.where(found != MISSING, rows[found], MISSING)


def _threads(rows: Rows, global_tid: Int64) -> tuple[Int32, Int32]:
    process, thread = global_tid >> 32, global_tid & (2**32 - 1)
    for both in np.unique(global_tid).tolist():
        pid, tid = str(both >> 32), str(both & (2**32 - 1))
        rows.process_names[pid] = "Python (CPU)"
        rows.thread_names[pid, tid] = f"Thread {tid}"
    return rows.numbers(process), rows.numbers(thread)


def _marks(database: Database, rows: Rows) -> None:
    """Adds the annotations made by the program (mstx)."""
    read = database.read("MSTX_EVENTS", needs=_TIMES, whole="globalTid message")
    read, start, dur = rows_with_times(read, database.log)
    pid, tid = _threads(rows, read.integers("globalTid"))
    name, category = rows.name_ids(read.integers("message")), rows.text("mstx")
    rows.add(start_ns=start, dur_ns=dur, name=name, category=category, lane=Lane.HOST, pid=pid, tid=tid)


def _calls(database: Database, rows: Rows) -> None:
    read = database.read("CANN_API", needs=_TIMES, whole="type globalTid connectionId name")
    read, start, dur = rows_with_times(read, database.log)
    layer, texts = read.integers("type"), rows.interner.texts
    layers, names, place = distinct_pairs(layer, read.integers("name"))
    full = [
        rows.text(f"{_LAYERS[what][1]}@{texts[name]}" if what in _LAYERS else texts[name])
        for what, name in zip(layers.tolist(), rows.name_ids(names).tolist(), strict=True)
    ]
    pid, tid = _threads(rows, read.integers("globalTid"))
    name = np.array(full, np.int32)[place]
    row = rows.add(start_ns=start, dur_ns=dur, name=name, lane=Lane.CANN, pid=pid, tid=tid)
    rows.fact(CONNECTION, row, connection_ids(read.integers("connectionId")))
    level = np.full(read.rows, MISSING, np.int32)
    for number, (text, _) in _LAYERS.items():
        level[layer == number] = rows.text(text)
    rows.fact("level", row, level, is_text=True)


def _collections(database: Database, rows: Rows, host_pid: str) -> None:
    read, start, dur = rows_with_times(database.read("GC_RECORD", needs=_TIMES, whole="globalTid"), database.log)
    if not read.rows:
        return
    pid = lane_pid(host_pid, _COLLECTION_LANE, 0)
    rows.process_names[pid], rows.process_order[pid] = f"{_COLLECTION} (CPU)", _COLLECTION_LANE
    tid, name = rows.numbers(read.integers("globalTid") & (2**32 - 1)), rows.text("GC")
    rows.add(start_ns=start, dur_ns=dur, name=name, category=name, lane=Lane.GC, pid=rows.text(pid), tid=tid)


def _connections(read: Columns, row: Int32, number: Int64, value: Int64) -> tuple[Int64, Int64]:
    """Returns connection ids, and the row of the operator of each. ``number``: id of the row, ``value``: its ids."""
    identity = read.integers("connectionId")
    operators = np.flatnonzero((read.integers("type") == _OPERATOR) & (identity >= 0))
    operator = first_with_key(identity[operators] + 1, operators, number + 1)
    known = np.flatnonzero((operator != MISSING) & (value > 0))
    known = known[~_is_autograd(value[known], read.integers("sequenceNumber")[operator[known]])]
    return value[known], row[operator[known]].astype(np.int64)


def _queue_keys(read: Columns, number: Int64, value: Int64) -> Int64:
    """Returns the number that an enqueue call shares with its dequeue call; -1 for other rows."""
    identity = read.integers("connectionId")
    entry = first_with_key(number + 1, np.arange(len(number)), identity + 1)
    key = np.where(entry != MISSING, value[entry] if len(value) else MISSING, identity)
    return np.where(read.integers("type") == _QUEUE, key, MISSING)


def _is_autograd(value: Int64, sequence: Int64) -> Bool:
    """Returns a boolean mask of the connections between a forward and a backward operator.

    Both operators have the same sequence number. The connection id of a device task may equal a sequence number by
    chance, because CANN and PyTorch count separately.
    """
    _, _, place = distinct_pairs(value, sequence)
    shared: Bool = (sequence >= 0) & (np.bincount(place)[place] > 1)
    return shared


def _arguments(database: Database, rows: Rows, read: Columns, row: Int32) -> None:
    """Adds the arguments of operators. torch_npu of 2025 swapped the columns of shapes and types."""
    place = np.flatnonzero(read.integers("type") == _OPERATOR)
    read, row = read.take(place), row[place]
    shapes, types = (rows.names.ids(read.integers(key)) for key in ("inputShapes", "inputDtypes"))
    if not _are_shapes(rows, shapes) and _are_shapes(rows, types):
        shapes, types = types, shapes
    stack = _stacks(database, rows, read.integers("callchainId"))
    for key, ids in ((SHAPES, shapes), (TYPES, types), (STACK, stack)):
        rows.fact(key, row, ids, is_text=True)
    for key, column in ((SEQUENCE, "sequenceNumber"), (THREAD, "fwdThreadId")):
        rows.fact(key, row, np.maximum(read.integers(column), MISSING))


def _are_shapes(rows: Rows, ids: Int32) -> bool:
    return all(_SHAPE.fullmatch(rows.interner.texts[each]) for each in np.unique(ids[ids != MISSING]).tolist())


def _stacks(database: Database, rows: Rows, chain: Int64) -> Int32:
    """Returns the string ids of call stacks, innermost frame first. Stops at MOST_STACK_BYTES."""
    used_chains = np.unique(chain[chain >= 0])
    read = database.read("PYTORCH_CALLCHAINS", needs="id stack", whole="stackDepth")
    kept = np.flatnonzero(np.isin(read.integers("id"), used_chains))
    number, frame, depth = (read.integers(key)[kept] for key in ("id", "stack", "stackDepth"))
    order = np.lexsort((depth, number))
    number, frame = number[order], frame[order]
    if not len(number):
        return np.full(len(chain), MISSING, np.int32)
    fits = int(np.searchsorted(np.cumsum(rows.names.bytes_of(frame) + 1), MOST_STACK_BYTES, side="right"))
    if fits < len(number):
        number, frame = number[:fits], frame[:fits]
        database.log.add("long_texts", "note", text="call stacks beyond the first 256 MB were skipped")
    found, first = np.unique(number, return_index=True)
    offsets = pa.array(np.append(first, len(number)), pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, pc.fill_null(rows.names.cells(frame), "")), ";")
    ids = np.array([rows.text(text) if text else MISSING for text in joined.to_pylist()] + [MISSING], np.int32)
    place = np.minimum(np.searchsorted(found, chain), len(found))
    hit = np.append(found, -2)[place] == chain
    return np.where(hit, ids[place], MISSING).astype(np.int32)
