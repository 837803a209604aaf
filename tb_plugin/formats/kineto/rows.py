"""Columns of duration events."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.devices import (
    LANES_BY_STREAM,
    kind_of,
    kind_of_event,
    needs_name,
)
from tb_plugin.formats._chrome.columns import Column, Values, int64s
from tb_plugin.formats._chrome.events import ABSENT, ChromeEvent
from tb_plugin.formats._chrome.extra_args import Others, OthersPiece
from tb_plugin.formats._chrome.interning import Ids, Interner, as_text
from tb_plugin.formats.classify import rows_matching_name
from tb_plugin.formats.kineto.decoding import INTERNAL, KNOWN_FIELDS, Learned, argument_values
from tb_plugin.formats.kineto.events import NO_ARGS, Args
from tb_plugin.formats.kineto.sections import Sections, python_values, spread_column
from tb_plugin.lib.arrays import Bool, Int16, Int32, Int64, UInt8
from tb_plugin.model.trace.extra_columns import ALLOCATED, DEVICE_NUMBER, DEVICE_TYPE, REQUESTED, RESERVED
from tb_plugin.model.trace.order import FAR
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind

_KINDS = len(EventKind)
_NOT_LOOKED_UP = 255


def _flags(*kinds: EventKind) -> Bool:
    flags = np.zeros(_KINDS, np.bool_)
    flags[list(kinds)] = True
    return flags


_WITH_OPERATOR_ARGS = _flags(EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.UNKNOWN)
_WITH_PYTHON_ARGS = _flags(EventKind.PYTHON)
_ON_DEVICE = _flags(*DEVICE_WORK, EventKind.DEVICE_ANNOTATION, EventKind.SYNC)
_WITH_DEVICE_ARGS = _flags(*DEVICE_WORK, EventKind.SYNC, EventKind.UNKNOWN)
_WITH_COLLECTIVE_ARGS = _flags(EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.KERNEL, EventKind.UNKNOWN)
_CALLS = _flags(EventKind.RUNTIME)
_FAILURES = _flags(EventKind.INSTANT)
_ANY = _flags(*EventKind)
_Field = tuple[str, str, Any]  # field of ``Args``, name in the file, default
_CALL_FIELDS: tuple[_Field, ...] = (
    ("stream", "stream", None),
    ("grid", "grid", ABSENT),
    ("block", "block", ABSENT),
    ("bytes", "bytes", -1),
)
"""Arguments of device work that HIP also adds to runtime calls."""
_GRAPH_NODE = "graph node id"  # only work of a CUDA graph has this argument and user annotations
_LABEL_FIELDS: tuple[_Field, ...] = (("name", "name", None), ("labels", "labels", None))
"""Arguments of metadata events. CUDA graph annotations also add them to kernels."""
_GROUP_FIELDS: tuple[_Field, ...] = (
    ("dtype", "dtype", None),
    ("group_name", "Process Group Name", None),
    ("group_description", "Process Group Description", None),
    ("group_ranks", "Process Group Ranks", None),
    ("group_size", "Group size", -1),
)
"""Arguments of collectives. CUDA graph annotations also add them to work without a collective name."""
_ALLOCATION_FIELDS: tuple[_Field, ...] = (
    ("memory_bytes", REQUESTED, 0),
    ("total_allocated", ALLOCATED, -1),
    ("total_reserved", RESERVED, -1),
    ("device_type", DEVICE_TYPE, -1),
    ("device_id", DEVICE_NUMBER, -1),
)
FUNCTION_ID = "Record function id"  # id shared with an execution trace of the same run; 0 if none was recorded
_HOST_RANGES = _flags(EventKind.OPERATOR, EventKind.ANNOTATION)

# written by Lightning and `tb_plugin.annotate` before the name of a called module
MODULE_RANGES = ("[pl][module]", "nn.Module: ")
EVENT_LIST_PID = "CPU functions"  # pid in EventList.export_chrome_trace, whose events have no category
LEGACY_DEVICE_PID = "CUDA functions"  # pid of device time in the legacy autograd profiler


class Core(msgspec.Struct, frozen=True, eq=False):
    start_ns: Int64
    dur_ns: Int64
    name: Int32
    category: Int32
    kind: UInt8
    pid: Int32
    tid: Int32
    correlation: Int64
    external_id: Int64
    device: Int16


class RowsPiece(NamedTuple):
    """Rows of a piece of the file."""

    columns: dict[str, npt.NDArray[Any]]
    sections: list[dict[str, npt.NDArray[Any]]]
    others: list[OthersPiece]
    kinds_with: dict[str, Bool]
    had_call_arguments: bool  # before the piece
    device_ids: list[str]
    unknown: dict[str, int]
    by_kind: Int64
    legacy_device_rows: int


class RowColumns:
    def __init__(self, interner: Interner) -> None:
        self.count = 0
        self.sections = Sections(interner)
        self.device_ids: dict[str, int] = {}  # device text -> index
        self.others = Others(interner)
        self._kinds_with: dict[str, Bool] = {}  # argument without a field -> kinds that have it
        self.by_kind: Int64 = np.zeros(_KINDS, np.int64)  # rows per EventKind
        self.unknown: dict[str, int] = {}  # unknown category -> number of its events
        self.legacy_device_rows = 0
        self._interner = interner
        self._kinds = np.empty(0, np.uint8)  # by string id of a category
        self._is_ambiguous = np.empty(0, np.bool_)  # by string id of a category: also needs the name or the arguments
        self._devices = Ids(self._device_position)
        self._columns = {name: Column(dtype) for name, dtype in _CORE_TYPES.items()}
        self._had_call_arguments = False  # when the last piece was taken

    def take_piece(self) -> RowsPiece | None:
        """Returns and removes the rows since the last call. Returns None if arguments were skipped."""
        others = self.others.take_piece()
        piece = RowsPiece(
            {name: column.take() for name, column in self._columns.items()},
            self.sections.take_piece(),
            others or [],
            self._kinds_with,
            self._had_call_arguments,
            list(self.device_ids),
            self.unknown,
            self.by_kind,
            self.legacy_device_rows,
        )
        self._had_call_arguments = self._has_call_arguments()
        self.count = self.legacy_device_rows = 0
        self.unknown = {}
        self.by_kind = np.zeros(_KINDS, np.int64)
        return None if others is None else piece

    def can_merge(self, piece: RowsPiece) -> bool:
        is_same = piece.had_call_arguments == self._has_call_arguments() or not piece.by_kind[EventKind.RUNTIME]
        return is_same and self.others.can_merge(piece.others)

    def merge(self, piece: RowsPiece, ids: Int32) -> None:
        devices = [self._device_position(text) for text in piece.device_ids]
        for name, column in piece.columns.items():
            if name == "device":
                column = np.array([*devices, -1], np.int16)[column]
            elif name in ("name", "category", "pid", "tid"):
                column = ids[column]
            self._columns[name].add(column)
        self.sections.merge(piece.sections, self.count, ids)
        self.others.merge(piece.others, self.count, ids)
        for key, kinds in piece.kinds_with.items():
            self._kinds_with[key] = kinds | self._kinds_with.get(key, False)
        for category, count in piece.unknown.items():
            self.unknown[category] = self.unknown.get(category, 0) + count
        self.by_kind += piece.by_kind
        self.legacy_device_rows += piece.legacy_device_rows
        self.count += len(piece.columns["kind"])

    def _has_call_arguments(self) -> bool:
        return any(likely[EventKind.RUNTIME] for likely in self._kinds_with.values())

    def add(
        self,
        events: Sequence[ChromeEvent],
        start_ns: Int64,
        dur_ns: Int64,
        new_arguments: Sequence[tuple[Learned, int]] = (),
        no_args: Args = NO_ARGS,
        texts: tuple[list[Any], list[Any]] | None = None,
        kind: EventKind | None = None,
    ) -> None:
        """Appends events. ``no_args`` is empty. ``texts``: names and categories. ``kind`` replaces the category's."""
        if not events:
            return
        interner, columns = self._interner, self._columns
        args = [event.args or no_args for event in events]
        used = frozenset(no_args.__struct_fields__)
        names, categories = texts or ([event.name for event in events], [event.cat for event in events])
        category_ids = interner.names.of(categories)
        kinds = self._kind_column(category_ids)
        pids = [event.pid for event in events]
        tids = [event.tid for event in events]
        if kind is None:
            self._count_unknown(events, kinds)
        self._refine(events, category_ids, kinds, tids)
        if kind is not None:
            kinds[:] = kind
        columns["start_ns"].add(start_ns)
        columns["dur_ns"].add(dur_ns)
        columns["name"].add(interner.names.of(names))
        columns["category"].add(category_ids)
        columns["pid"].add(interner.keys.of(pids))
        columns["tid"].add(interner.keys.of(tids))
        columns["correlation"].add(int64s([a.correlation for a in args]))
        columns["external_id"].add(_external_ids(args, used))
        columns["device"].add(self._device_column(kinds, pids, args))
        self._add_sections(kinds, args, used)
        self._add_others(kinds, args, new_arguments, used)
        columns["kind"].add(kinds)
        self.by_kind += np.bincount(kinds, minlength=_KINDS)
        self.count += len(events)

    def add_columns(self, start_ns: Int64, ids: Sequence[Int32], args: Mapping[str, tuple[Int64, Values]]) -> int:
        """Appends host ranges. ``ids``: names, categories, processes, threads. Returns the first row; durations follow."""
        count, first = len(start_ns), self.count
        name, category, pid, tid = ids
        kinds = self._kind_column(category).copy()
        columns = self._columns
        for key, column in (("start_ns", start_ns), ("name", name), ("category", category), ("pid", pid), ("tid", tid)):
            columns[key].add(column)
        columns["dur_ns"].add(np.zeros(count, np.int64))
        columns["correlation"].add(spread_column(count, args.get("correlation")))
        columns["external_id"].add(spread_column(count, args.get("External id")))
        columns["device"].add(np.full(count, -1, np.int16))
        self.sections.add_columns(kinds, first, args)
        columns["kind"].add(kinds)
        for key, (places, values) in args.items():
            if key not in KNOWN_FIELDS and key not in INTERNAL:
                self.others.add(key, places + first, python_values(values))
        self.by_kind += np.bincount(kinds, minlength=_KINDS)
        self.count += count
        return first

    def set_durations(self, first: int, dur_ns: Int64) -> None:
        self._columns["dur_ns"].put(first, dur_ns)

    def last_ns(self) -> int:
        start, dur = (self._columns[key].view() for key in ("start_ns", "dur_ns"))
        right = (np.abs(start) < FAR) & (dur >= 0) & (dur < FAR)
        return int((start[right] + dur[right]).max(initial=np.iinfo(np.int64).min))

    def take(self) -> Core:
        core = Core(**{name: column.take() for name, column in self._columns.items()})
        if not (core.kind == EventKind.MODULE).any():  # otherwise module calls would be counted twice
            named = _HOST_RANGES[core.kind]
            modules = rows_matching_name(
                core.name, named, self._interner.texts, lambda name: name.startswith(MODULE_RANGES)
            )
            core.kind[modules] = EventKind.MODULE
        return core

    def _kind_column(self, categories: Int32) -> UInt8:
        missing = int(categories.max()) + 1 - len(self._kinds)
        if missing > 0:
            self._kinds = np.append(self._kinds, np.full(missing, _NOT_LOOKED_UP, np.uint8))
            self._is_ambiguous = np.append(self._is_ambiguous, np.zeros(missing, np.bool_))
        kinds = self._kinds[categories]
        if (kinds == _NOT_LOOKED_UP).any():
            for category in set(categories[kinds == _NOT_LOOKED_UP].tolist()):
                text = self._interner.texts[category]
                self._kinds[category] = kind_of(text)
                self._is_ambiguous[category] = needs_name(text) or text.lower() in LANES_BY_STREAM
            kinds = self._kinds[categories]
        return kinds

    def _refine(self, events: Sequence[ChromeEvent], categories: Int32, kinds: UInt8, tids: list[Any]) -> None:
        """Corrects kinds, bytes and lanes of events from vendors that use one category for all device work."""
        for position in np.flatnonzero(self._is_ambiguous[categories]).tolist():
            event = events[position]
            args = event.args
            kinds[position] = kind_of_event(event.cat or "", as_text(event.name or ""))
            if args is None:
                continue
            if kinds[position] == EventKind.MEMCPY and args.bytes == -1:
                args.bytes = args.size
            if args.stream is not None and (event.cat or "").lower() in LANES_BY_STREAM:
                tids[position] = args.stream

    def _count_unknown(self, events: Sequence[ChromeEvent], kinds: UInt8) -> None:
        """Counts events of unknown kind. In ``EventList`` exports, events have no category and become operators."""
        for position in np.flatnonzero(kinds == EventKind.UNKNOWN).tolist():
            event = events[position]
            if not event.cat and event.pid == EVENT_LIST_PID:
                kinds[position] = EventKind.OPERATOR
            elif not event.cat and event.pid == LEGACY_DEVICE_PID:
                self.legacy_device_rows += 1
            else:
                category = as_text(event.cat or "")
                self.unknown[category] = self.unknown.get(category, 0) + 1

    def _device_column(self, kinds: UInt8, pids: Sequence[Any], args: Sequence[Any]) -> Any:
        column = np.full(len(kinds), -1, np.int16)
        on_device = _ON_DEVICE[kinds]
        if on_device.any():
            chosen = on_device.tolist()
            pairs = zip(compress(args, chosen), compress(pids, chosen), strict=True)
            column[on_device] = self._devices.of([pid if a.device is None else a.device for a, pid in pairs])
        return column

    def _device_position(self, device: Any) -> int:
        text = "" if device is None else as_text(device)
        if text in ("", "-1"):  # pid -1 is the profiler's own row, not a device
            return -1
        return self.device_ids.setdefault(text, len(self.device_ids))

    def _add_sections(self, kinds: UInt8, args: list[Any], used: Collection[str]) -> None:
        sections = self.sections
        rows, chosen = self._chosen(_WITH_OPERATOR_ARGS, kinds, args)
        if chosen:
            sections.add_operators(rows, chosen, used)
        rows, chosen = self._chosen(_WITH_DEVICE_ARGS, kinds, args)
        if chosen:
            sections.add_device(rows, chosen, used)
        collectives = [a.collective for a in args] if "collective" in used else []
        if collectives.count(None) != len(collectives):
            rows, chosen = self._chosen(_WITH_COLLECTIVE_ARGS, kinds, args)
            stated = [a.collective is not None for a in chosen]
            if any(stated):
                sections.add_collectives(rows[stated], list(compress(chosen, stated)), used)
        rows, chosen = self._chosen(_WITH_PYTHON_ARGS, kinds, args)
        if chosen:
            modules = sections.add_python(rows, chosen, used)
            kinds[rows[modules != -1] - self.count] = EventKind.MODULE

    def _add_others(
        self,
        kinds: UInt8,
        args: list[Any],
        new_arguments: Sequence[tuple[Learned, int]],
        used: Collection[str],
    ) -> None:
        """Adds arguments that have no dedicated column, or that are unexpected on events of this kind."""
        graphed: Int64 = np.empty(0, np.int64)
        looks: dict[bytes, tuple[Int64, list[Any]]] = {}
        for learned, count in new_arguments:
            likely = self._kinds_with.setdefault(learned.key, np.zeros(_KINDS, np.bool_))
            for flags in (likely, _ANY):  # other kinds are searched only while some events are missing
                look = flags.tobytes()
                if look not in looks:
                    looks[look] = self._chosen(flags, kinds, args)
                rows, chosen = looks[look]
                values = argument_values(chosen, learned)
                found = len(values) - values.count(learned.absent)
                if found >= count or flags is _ANY:
                    break
            if not found:
                continue
            if found < len(values):
                has = [value is not learned.absent for value in values]
                rows, values = rows[has], list(compress(values, has))
            likely[kinds[rows - self.count]] = True
            if learned.key == FUNCTION_ID:
                has = [value != 0 for value in values]
                rows, values = rows[has], list(compress(values, has))
            if values:
                self.others.add(learned.key, rows, values)
            if learned.key == _GRAPH_NODE:
                graphed = rows
        if len(graphed):
            annotated = [args[i] for i in (graphed - self.count).tolist()]
            self._add_fields(_LABEL_FIELDS, graphed, annotated, used)
            plain = [each.collective is None for each in annotated]
            if any(plain):
                self._add_fields(_GROUP_FIELDS, graphed[plain], list(compress(annotated, plain)), used)
        rows, failures = self._chosen(_FAILURES, kinds, args)
        if failures:
            self._add_fields(_ALLOCATION_FIELDS, rows, failures, used)
        if not self._has_call_arguments():
            return  # CUDA calls have only internal arguments
        rows, calls = self._chosen(_CALLS, kinds, args)
        if calls:
            self._add_fields(_CALL_FIELDS, rows, calls, used)

    def _add_fields(self, fields: Sequence[_Field], rows: Int64, args: list[Any], used: Collection[str]) -> None:
        for field, key, absent in fields:
            column = [getattr(each, field) for each in args] if field in used else [absent]
            if column.count(absent) != len(column):
                has = [value is not absent and value != absent for value in column]
                self.others.add(key, rows[has], list(compress(column, has)))

    def _chosen(self, flags: Bool, kinds: UInt8, args: list[Any]) -> tuple[Int64, list[Any]]:
        flagged = flags[kinds]
        rows = np.flatnonzero(flagged)
        chosen = args if len(rows) == len(args) else list(compress(args, flagged.tolist()))
        return rows + self.count, chosen


_CORE_TYPES: dict[str, type[Any]] = {
    "start_ns": np.int64, "dur_ns": np.int64, "name": np.int32, "category": np.int32, "kind": np.uint8,
    "pid": np.int32, "tid": np.int32, "correlation": np.int64, "external_id": np.int64, "device": np.int16,
}  # fmt: skip


def _external_ids(args: Sequence[Any], used: Collection[str]) -> Int64:
    new = int64s([a.external_id for a in args])
    if "external_id_old" not in used or (new != MISSING).all():
        return new
    # PyTorch 1.8 wrote "external id" on runtime and device events.
    old = [a.external_id_old for a in args]
    return new if old.count(-1) == len(old) else np.where(new == MISSING, int64s(old), new)
