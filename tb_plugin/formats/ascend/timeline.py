"""Rows of ``trace_view.json``: kinds of events, and launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import asdict, replace

from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.formats.ascend.arguments import MODULE_NAME, as_shapes, as_stack, as_types, kind_of_task
from tb_plugin.formats.ascend.lanes import Lane, Lanes
from tb_plugin.lib.arrays import Bool, Int32, Int64, UInt8
from tb_plugin.lib.groupby import number_groups
from tb_plugin.model.trace.extra_columns import OpenColumn
from tb_plugin.model.trace.links import rows_starting_at
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.steps.windows import STEP_NAME
from tb_plugin.model.trace.table import ArrowEnds, CounterEvents, DeviceArgs, Flows, OperatorArgs, PythonArgs

_KIND_BY_CATEGORY = {
    "cpu_op": EventKind.OPERATOR,
    "user_annotation": EventKind.ANNOTATION,
    "mstx": EventKind.ANNOTATION,
    "enqueue": EventKind.RUNTIME,
    "dequeue": EventKind.RUNTIME,
    "python_function": EventKind.PYTHON,
}
_LAUNCH, _HOST_TO_DEVICE, _FORWARD = "torch_to_npu", "HostToDevice", "fwdbwd"
# arrows whose id is the start time of their task, so ids may repeat; files write them as start-end pairs
IN_PAIRS = frozenset({_LAUNCH})
SHAPES, TYPES, STACK = "Input Dims", "Input type", "Call stack"
SEQUENCE, THREAD, CONNECTION = "Sequence number", "Fwd thread id", "connection_id"
_PYTHON = {"Python id": "python_id", "Python parent id": "parent_id", "Python module id": "module_id"}
HIT_RATE = "Hit Rate(%)"  # series of a cache counter
TASK_BYTES = "size(Byte)"
_BYTES = ("data size(Byte)", TASK_BYTES)
DIRECTION = "memcpy direction"


class Timeline:
    """Rows of a trace view or a database, with the Lane and the device (-1 = host) of each row."""

    def __init__(self, columns: Mapping[str, Any], lane: UInt8, device: Int32, interner: Interner) -> None:
        self._columns = columns
        self._others: dict[str, OpenColumn] = {column.key: column for column in columns["others"]}
        self._interner = interner
        self.count = len(columns["start_ns"])
        self.lane, self.device = lane, device
        self.on_device = (self.lane >= Lane.STREAM) & (self.lane <= Lane.ANALYSIS)
        self.kind = self._kinds()

    def sections(self) -> dict[str, Any]:
        """Returns the columns and sections of a RawTrace that follow from lanes and arguments."""
        connection = self._integers(CONNECTION, self.count)
        linked = np.isin(self.kind, (EventKind.RUNTIME, EventKind.KERNEL, EventKind.MEMCPY)) & (
            (self.lane == Lane.CANN) | self.on_device
        )
        return {
            "kind": self.kind,
            # 0 means no connection: the host did not request this work.
            "correlation": np.where(linked & (connection > 0), connection, MISSING),
            "device": self.device,
            "operators": self._operators(),
            "python": self._python(),
            "device_args": self._device_args(),
            "others": tuple(self._others.values()),
        }

    def _kinds(self) -> UInt8:
        columns, texts = self._columns, self._interner.texts
        kind = self._columns["kind"].copy()
        plain = (kind == EventKind.ANNOTATION) | (kind == EventKind.PYTHON)
        category = self._table(columns["category"], lambda text: _KIND_BY_CATEGORY.get(text, EventKind.UNKNOWN))
        is_step = self._table(columns["name"], lambda text: STEP_NAME.match(text) is not None) == 1
        is_module = self._table(columns["name"], lambda text: text.startswith(MODULE_NAME)) == 1
        host = np.where(is_step & (category == EventKind.OPERATOR), EventKind.ANNOTATION, category)
        host = np.where(is_module & (category == EventKind.PYTHON), EventKind.MODULE, host)
        task = np.full(self.count, EventKind.KERNEL, np.uint8)
        stated = self._others.get("Task Type")
        if stated is not None and stated.is_text:
            task[stated.row] = [kind_of_task(texts[value]) for value in stated.value.tolist()]
        made = np.select(
            [self.lane == lane for lane in (Lane.HOST, Lane.GC, Lane.CANN, Lane.STREAM, Lane.GROUP)],
            [host, np.uint8(EventKind.PYTHON), np.uint8(EventKind.RUNTIME), task, np.uint8(EventKind.KERNEL)],
            np.where(self.on_device, EventKind.DEVICE_ANNOTATION, EventKind.UNKNOWN),
        )
        return np.where(plain, made, kind).astype(np.uint8)

    def _table(self, ids: Int32, convert: Callable[[str], Any]) -> UInt8:
        table = np.zeros(len(self._interner.texts) + 1, np.uint8)
        for each in np.unique(ids).tolist():
            table[each] = int(convert(self._interner.texts[each]))
        return table[ids]

    def _integers(self, key: str, count: int) -> Int64:
        """Returns an argument of each row as an integer; -1 = missing."""
        found = np.full(count, MISSING, np.int64)
        column = self._others.get(key)
        if column is not None and not column.is_text:
            found[column.row] = column.value.astype(np.int64)
        elif column is not None:
            texts = self._interner.texts
            found[column.row] = [
                int(t) if (t := texts[v]).isdecimal() and len(t) < 19 else MISSING for v in column.value
            ]
        return found

    def arrows(self, ends: ArrowEnds) -> tuple[ArrowEnds, Flows, Int64]:
        """Returns the other arrows, those from forward to backward operators, and external ids."""
        name = self._table(ends.name, lambda text: 1 if text == _LAUNCH else 2 if text == _FORWARD else 0)
        host_to_device = self._table(ends.name, lambda text: text.startswith(_HOST_TO_DEVICE)) == 1
        external = np.full(self.count, MISSING, np.int64)
        launched = np.flatnonzero(name == 1)
        if len(launched):
            source = self._rows_at(ends.start_pid, ends.start_tid, ends.start_time_ns, launched, self.lane == Lane.HOST)
            target = self._rows_at(ends.end_pid, ends.end_tid, ends.end_time_ns, launched, self.on_device)
            both = (source != MISSING) & (target != MISSING)
            external[source[both]] = source[both] + 1
            external[target[both]] = source[both] + 1
        flows = Flows(**{key: getattr(ends, key)[name == 2] for key in Flows.__struct_fields__})
        is_chosen = (name == 0) & ~host_to_device
        columns = {key: column[is_chosen] if len(column) else column for key, column in asdict(ends).items()}
        return replace(ends, **columns), flows, external

    def _rows_at(self, pid: Int32, tid: Int32, time: Int64, some: Int64, among: Bool) -> Int32:
        """Returns the rows that start on these threads at exactly these times."""
        columns, width = self._columns, len(self._interner.texts) + 1
        key = np.concatenate(
            (columns["pid"].astype(np.int64) * width + columns["tid"], pid[some] * np.int64(width) + tid[some])
        )
        track = number_groups(key)[0].astype(np.int32)
        rows = np.flatnonzero(among)
        # If several rows start at the same time, the shortest one is the innermost.
        rows = rows[np.lexsort((-columns["dur_ns"][rows], columns["start_ns"][rows]))]
        return rows_starting_at(track[: self.count], columns["start_ns"], rows, track[self.count :], time[some])

    def _take(self, key: str) -> OpenColumn | None:
        return self._others.pop(key, None)

    def _operators(self) -> OperatorArgs:
        stated: dict[str, Any] = {
            "shapes": self._texts(SHAPES, as_shapes), "types": self._texts(TYPES, as_types),
            "stack": self._texts(STACK, as_stack),
        }  # fmt: skip
        numbers: dict[str, Any] = {"sequence": self._numbers(SEQUENCE), "forward_thread": self._numbers(THREAD)}
        filled = [column != MISSING for column in (*stated.values(), *numbers.values())]
        row = np.flatnonzero(np.logical_or.reduce(filled)).astype(np.int32)
        none = np.full(len(row), MISSING, np.int32)
        columns = {key: column[row] for key, column in (stated | numbers).items()}
        return OperatorArgs(row=row, strides=none, concrete=none, **columns)

    def _python(self) -> PythonArgs:
        numbers = {name: self._numbers(key) for key, name in _PYTHON.items()}
        row = np.flatnonzero(numbers["python_id"] != MISSING).astype(np.int32)
        return PythonArgs(row=row, **{name: column[row] for name, column in numbers.items()})

    def _device_args(self) -> DeviceArgs:
        """Returns device arguments. The stream of a task is its thread. Communication operations have no stream."""
        row = np.flatnonzero(self.on_device & (self.lane != Lane.ANALYSIS)).astype(np.int32)
        size = np.full(self.count, MISSING, np.int64)
        for key in _BYTES:
            size = np.maximum(size, self._numbers(key))
        direction = self._texts(DIRECTION, str)
        stream = np.where(self.lane == Lane.STREAM, self._columns["tid"], MISSING)[row]
        return device_args(row, stream.astype(np.int32), size[row], direction[row])

    def _numbers(self, key: str) -> Int64:
        found = self._integers(key, self.count)
        self._take(key)
        return found

    def _texts(self, key: str, form: Callable[[str], str]) -> Int32:
        found = np.full(self.count, MISSING, np.int32)
        column = self._take(key)
        if column is None or not column.is_text:
            return found
        values, place = np.unique(column.value, return_inverse=True)
        formed = [
            self._interner.text(text) if (text := form(self._interner.texts[v])) else MISSING for v in values.tolist()
        ]
        found[column.row] = np.array(formed, np.int32)[place]
        return found


def view_columns(columns: Mapping[str, Any], lanes: Lanes, interner: Interner) -> dict[str, Any]:
    """Returns the columns and sections of a trace view. ``columns`` come from ``Collection.raw``."""
    timeline = Timeline(columns, *lanes.of(columns["pid"], columns["tid"]), interner)
    arrows, flows, external = timeline.arrows(columns["arrows"])
    pid, tid = lanes.drawn(columns["pid"], columns["tid"], interner.text)
    start_pid, start_tid = lanes.drawn(arrows.start_pid, arrows.start_tid, interner.text)
    end_pid, end_tid = lanes.drawn(arrows.end_pid, arrows.end_tid, interner.text)
    return {
        **{key: columns[key] for key in ("start_ns", "dur_ns", "name", "category", "nth", "asynchronous")},
        **timeline.sections(),
        "pid": pid,
        "tid": tid,
        "external_id": external,
        "arrows": replace(arrows, start_pid=start_pid, start_tid=start_tid, end_pid=end_pid, end_tid=end_tid),
        "flows": flows,
    }


def in_percent(counters: CounterEvents, texts: Sequence[str]) -> CounterEvents:
    """Converts hit rates from fractions of 1 to percent, the unit in their names."""
    known = np.unique(counters.series)
    named = known[[texts[each] == HIT_RATE for each in known.tolist()]] if len(known) else known
    rates = np.isin(counters.series, named)
    if not rates.any() or counters.value[rates].max() > 1:
        return counters
    return replace(counters, value=np.where(rates, counters.value * 100, counters.value))


def device_args(row: Int32, stream: Int32, size: Int64, direction: Int32) -> DeviceArgs:
    """Returns arguments of device work. Arguments that only CUDA kernels have are missing."""
    word, number = np.full(len(row), MISSING, np.int32), np.full(len(row), MISSING, np.int64)
    nothing = np.full(len(row), np.nan)
    return DeviceArgs(row, stream, word, word, number, number, nothing, nothing, size, direction)
