"""Host rows of a database, and the operators that requested device tasks."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.formats.ascend.arguments import MODULE_NAME, as_shapes, as_types
from tb_plugin.formats.ascend.database.cells import Columns
from tb_plugin.formats.ascend.database.names import Names
from tb_plugin.formats.ascend.database.rows import Rows, names_or_numbers, rows_with_times
from tb_plugin.formats.ascend.database.safe_open import Database
from tb_plugin.model.trace.extra_columns import ReportedSteps
from tb_plugin.model.trace.links import first_with_key
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.steps.windows import STEP_NAME
from tb_plugin.model.trace.table import ArrowEnds, OperatorArgs, PythonArgs

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]

NO_CONNECTION = 2**32 - 1
_TIMES = "startNs endNs"
OPERATOR, _QUEUE, _PYTHON, _MSTX = 50001, 50002, 50003, 50004
_KINDS = {
    OPERATOR: EventKind.OPERATOR,
    _QUEUE: EventKind.RUNTIME,
    _PYTHON: EventKind.PYTHON,
    _MSTX: EventKind.ANNOTATION,
}
_CATEGORIES = {OPERATOR: "cpu_op", _QUEUE: "dequeue", _PYTHON: "python_function", _MSTX: "mstx"}
_LEVELS = {5000: "runtime", 5500: "hccl", 10000: "node", 15000: "model", 20000: "acl"}
# name prefixes of CANN calls in a trace view, by called layer
_PREFIXES = {5000: "Runtime", 5500: "Hccl", 10000: "Node", 15000: "Model", 20000: "AscendCL"}
_ENQUEUE, _ARROW = "Enqueue", "enqueue_to_dequeue"
_COLLECTION, _COLLECTION_LANE = "Python GC", 1
_SHAPE = re.compile(r"[0-9,;\s\[\]-]*")
MOST_STACK_BYTES = 256 * 1024 * 1024  # limit for the text of distinct call stacks; real profiles have a few MB


class Host(msgspec.Struct, frozen=True, eq=False):
    """Data about the host rows that other tables need."""

    operators: OperatorArgs
    arrows: ArrowEnds
    pid: str  # process id on the host, "" for none
    enqueued_by: Columns  # ``row`` of the requesting operator per ``connectionId``
    python: PythonArgs  # rows of Python calls, without ids, which the database does not contain


def host_rows(database: Database, rows: Rows, names: Names) -> Host:
    """Adds the host rows, and returns the data that other tables need."""
    read = database.read(
        "PYTORCH_API",
        needs=_TIMES,
        whole="globalTid connectionId name sequenceNumber fwdThreadId inputDtypes inputShapes callchainId type",
    )
    read, start, dur = rows_with_times(read, database.log)
    what = read.integers("type")
    name = names_or_numbers(rows, names.ids(read.integers("name")), read.integers("name"))
    kind = np.select([what == each for each in _KINDS], list(_KINDS.values()), EventKind.UNKNOWN).astype(np.uint8)
    texts = rows.interner.texts
    kind[_rows_named(name, texts, what == OPERATOR, lambda text: STEP_NAME.match(text) is not None)] = (
        EventKind.ANNOTATION
    )
    kind[_rows_named(name, texts, what == _PYTHON, lambda text: text.startswith(MODULE_NAME))] = EventKind.MODULE
    begins = np.zeros(read.rows, np.bool_)
    begins[_rows_named(name, texts, what == _QUEUE, lambda text: text.startswith(_ENQUEUE))] = True
    category = np.select([what == each for each in _CATEGORIES], [rows.text(each) for each in _CATEGORIES.values()], -1)
    category = np.where(category == -1, rows.text(""), category)
    category[begins] = rows.text("enqueue")
    pid, tid = _threads(rows, read.integers("globalTid"))
    row = rows.add(start_ns=start, dur_ns=dur, name=name, category=category, kind=kind, pid=pid, tid=tid)
    connections, arrows = _connections(database, rows, read, row, begins, (start, pid, tid))
    if not (what == _MSTX).any():
        _marks(database, rows, names)
    _calls(database, rows, names)
    host_pid = texts[pid[0]] if len(pid) else ""
    _collections(database, rows, host_pid)
    calls = row[what == _PYTHON]
    none = np.full(len(calls), MISSING)
    return Host(
        _operators(database, rows, names, read, row), arrows, host_pid, connections, PythonArgs(calls, none, none, none)
    )


def reported_steps(database: Database) -> ReportedSteps | None:
    """Returns the steps recorded in the database, or None."""
    read, start, dur = rows_with_times(database.read("STEP_TIME", needs=_TIMES, whole="id"), database.log)
    if not read.rows:
        return None
    order = np.argsort(start, kind="stable")
    number = read.integers("id")[order].tolist()
    labels = tuple(str(each if each != MISSING else place) for place, each in enumerate(number))
    return ReportedSteps(labels, start[order], (start + dur)[order])


def _rows_named(
    name: Int32, texts: list[str], among: npt.NDArray[np.bool_], holds: Callable[[str], bool]
) -> npt.NDArray[np.intp]:
    """Returns the rows in ``among`` for whose name ``holds`` returns True. Tests each distinct name once."""
    found = [each for each in np.unique(name[among]).tolist() if holds(texts[each])]
    return np.flatnonzero(among & np.isin(name, found))


def _threads(rows: Rows, global_tid: Int64) -> tuple[Int32, Int32]:
    process, thread = global_tid >> 32, global_tid & (2**32 - 1)
    for both in np.unique(global_tid).tolist():
        pid, tid = str(both >> 32), str(both & (2**32 - 1))
        rows.process_names[pid] = "Python (CPU)"
        rows.thread_names[pid, tid] = f"Thread {tid}"
    return rows.numbers(process), rows.numbers(thread)


def _marks(database: Database, rows: Rows, names: Names) -> None:
    """Adds the annotations made by the program (mstx)."""
    read = database.read("MSTX_EVENTS", needs=_TIMES, whole="globalTid message")
    read, start, dur = rows_with_times(read, database.log)
    pid, tid = _threads(rows, read.integers("globalTid"))
    rows.add(
        start_ns=start,
        dur_ns=dur,
        name=names_or_numbers(rows, names.ids(read.integers("message")), read.integers("message")),
        category=rows.text("mstx"),
        kind=EventKind.ANNOTATION,
        pid=pid,
        tid=tid,
    )


def _calls(database: Database, rows: Rows, names: Names) -> None:
    read = database.read("CANN_API", needs=_TIMES, whole="type globalTid connectionId name")
    read, start, dur = rows_with_times(read, database.log)
    layer = read.integers("type")
    both, place = np.unique(np.stack((layer, read.integers("name"))), axis=1, return_inverse=True)
    plain = names_or_numbers(rows, names.ids(both[1]), both[1])
    full = [
        rows.text(f"{_PREFIXES[what]}@{rows.interner.texts[name]}" if what in _PREFIXES else rows.interner.texts[name])
        for what, name in zip(both[0].tolist(), plain.tolist(), strict=True)
    ]
    pid, tid = _threads(rows, read.integers("globalTid"))
    connection = connection_ids(read.integers("connectionId"))
    row = rows.add(
        start_ns=start,
        dur_ns=dur,
        name=np.array(full, np.int32)[place.reshape(-1)],
        category=rows.text(""),
        kind=EventKind.RUNTIME,
        pid=pid,
        tid=tid,
        correlation=connection,
    )
    rows.fact("connection_id", row, connection)
    levels = [pc.if_else(pa.array(layer == each), word, pa.scalar(None, pa.string())) for each, word in _LEVELS.items()]
    rows.fact("level", row, pc.coalesce(*levels))


def _collections(database: Database, rows: Rows, host_pid: str) -> None:
    read, start, dur = rows_with_times(database.read("GC_RECORD", needs=_TIMES, whole="globalTid"), database.log)
    if not read.rows:
        return
    pid = lane_pid(host_pid, _COLLECTION_LANE, 0)
    rows.process_names[pid], rows.process_order[pid] = f"{_COLLECTION} (CPU)", _COLLECTION_LANE
    rows.add(
        start_ns=start,
        dur_ns=dur,
        name=rows.text("GC"),
        category=rows.text("GC"),
        kind=EventKind.PYTHON,
        pid=rows.text(pid),
        tid=rows.numbers(read.integers("globalTid") & (2**32 - 1)),
    )


def lane_pid(host_pid: str, order: int, device: int) -> str:
    """Returns the process id that a trace view uses for counters and garbage collections."""
    return str(((int(host_pid) if host_pid else 0) << 10) | (order << 5) | device)


def connection_ids(connection: Int64) -> Int64:
    """Returns connection ids. Ids that mean "none" (0 or the largest 32-bit number) become -1."""
    return np.where((connection > 0) & (connection != NO_CONNECTION), connection, MISSING)


def _connections(
    database: Database,
    rows: Rows,
    read: Columns,
    row: Int32,
    begins: npt.NDArray[np.bool_],
    at: tuple[Int64, Int32, Int32],
) -> tuple[Columns, ArrowEnds]:
    """Returns the operator of each connection, and the arrows from enqueue calls to dequeue calls."""
    what, identity = read.integers("type"), read.integers("connectionId")
    table = database.read("CONNECTION_IDS", needs="id connectionId")
    number, value = table.integers("id"), table.integers("connectionId")
    operators = np.flatnonzero((what == OPERATOR) & (identity >= 0))
    operator = first_with_key(identity[operators] + 1, operators, number + 1)
    known = np.flatnonzero((operator != MISSING) & (value > 0))
    known = known[~_is_autograd(value[known], read.integers("sequenceNumber")[operator[known]])]
    connections = Columns(
        {"connectionId": pa.array(value[known]), "row": pa.array(row[operator[known]].astype(np.int64))}, len(known)
    )
    queue = np.flatnonzero(what == _QUEUE)
    entry = first_with_key(number + 1, np.arange(len(number)), identity[queue] + 1)
    key = np.where(entry != MISSING, value[entry] if len(value) else MISSING, identity[queue])
    rows.fact("correlation_id", row[queue], key)
    first, then = queue[begins[queue]], queue[~begins[queue]]
    tail = first_with_key(key[begins[queue]] + 1, first, key[~begins[queue]] + 1)
    head, tail = then[tail != MISSING], tail[tail != MISSING]
    start, pid, tid = at
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
    return connections, arrows


def _is_autograd(value: Int64, sequence: Int64) -> npt.NDArray[np.bool_]:
    """Returns a boolean mask of the connections between a forward and a backward operator.

    Both operators have the same sequence number. The connection id of a device task may equal a sequence number by
    chance, because CANN and PyTorch count separately.
    """
    _, place, count = np.unique(np.stack((value, sequence)), axis=1, return_inverse=True, return_counts=True)
    shared: npt.NDArray[np.bool_] = (sequence >= 0) & (count[place.reshape(-1)] > 1)
    return shared


def _operators(database: Database, rows: Rows, names: Names, read: Columns, row: Int32) -> OperatorArgs:
    place = np.flatnonzero(read.integers("type") == OPERATOR)
    read = read.take(place)
    shapes, types = _arguments(rows, names, read)
    stack = _stacks(database, rows, names, read.integers("callchainId"))
    sequence, thread = read.integers("sequenceNumber"), read.integers("fwdThreadId")
    none = np.full(len(place), MISSING, np.int32)
    return OperatorArgs(
        row=row[place],
        shapes=shapes,
        types=types,
        strides=none,
        concrete=none,
        stack=stack,
        sequence=np.maximum(sequence, MISSING),
        forward_thread=np.maximum(thread, MISSING),
    )


def _arguments(rows: Rows, names: Names, read: Columns) -> tuple[Int32, Int32]:
    """Returns input shapes and types. torch_npu of 2025 swapped the two columns."""
    shapes, types = (names.ids(read.integers(key)) for key in ("inputShapes", "inputDtypes"))
    if not _are_shapes(rows, shapes) and _are_shapes(rows, types):
        shapes, types = types, shapes
    return _formed(rows, shapes, as_shapes), _formed(rows, types, as_types)


def _are_shapes(rows: Rows, ids: Int32) -> bool:
    return all(_SHAPE.fullmatch(rows.interner.texts[each]) for each in np.unique(ids[ids != MISSING]).tolist())


def _formed(rows: Rows, ids: Int32, convert: Callable[[str], str]) -> Int32:
    distinct, place = np.unique(ids, return_inverse=True)
    texts = [convert(rows.interner.texts[each]) if each != MISSING else "" for each in distinct.tolist()]
    found: Int32 = np.array([rows.text(text) if text else MISSING for text in texts], np.int32)[place]
    return found


def _stacks(database: Database, rows: Rows, names: Names, chain: Int64) -> Int32:
    """Returns the string ids of call stacks, innermost frame first. Stops at MOST_STACK_BYTES."""
    used_chains = np.unique(chain[chain >= 0])
    read = database.read("PYTORCH_CALLCHAINS", needs="id stack", whole="stackDepth")
    kept = np.flatnonzero(np.isin(read.integers("id"), used_chains))
    number, frame, depth = (read.integers(key)[kept] for key in ("id", "stack", "stackDepth"))
    order = np.lexsort((depth, number))
    number, frame = number[order], frame[order]
    if not len(number):
        return np.full(len(chain), MISSING, np.int32)
    fits = int(np.searchsorted(np.cumsum(names.bytes_of(frame) + 1), MOST_STACK_BYTES, side="right"))
    if fits < len(number):
        number, frame = number[:fits], frame[:fits]
        database.log.add("long_texts", "note", text="call stacks beyond the first 256 MB were skipped")
    found, first = np.unique(number, return_index=True)
    offsets = pa.array(np.append(first, len(number)), pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, pc.fill_null(names.cells(frame), "")), ";").to_pylist()
    ids = np.array([rows.text(text) if text else MISSING for text in joined] + [MISSING], np.int32)
    place = np.minimum(np.searchsorted(found, chain), len(found))
    hit = np.append(found, -2)[place] == chain
    return np.where(hit, ids[place], MISSING).astype(np.int32)
