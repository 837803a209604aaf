"""Columns of a trace, collected from chunks of decoded events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import compress
from operator import not_
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from tb_plugin.formats._chrome.columns import Column, Values, int64s
from tb_plugin.formats._chrome.events import COUNTER, ChromeEvent, Times
from tb_plugin.formats._chrome.interning import Interner, as_text
from tb_plugin.formats._chrome.other_events import Counters, Marks, Names
from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.kineto.decoding import Decoding, DecodingState
from tb_plugin.formats.kineto.events import (
    INSTANT_CATEGORY,
    MEMORY_NAME,
    NO_ARGS,
    VALUELESS,
    CounterArgs,
    Event,
    detach,
    is_instant,
    merge_arguments,
)
from tb_plugin.formats.kineto.rows import RowColumns, RowsPiece
from tb_plugin.formats.kineto.torch_2_14 import FIRST_DEPENDENCY
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.model.trace.schema import MISSING, OUT_OF_MEMORY, EventKind
from tb_plugin.model.trace.table import CounterEvents, Flows, MemoryEvents, Window

if TYPE_CHECKING:
    from tb_plugin.formats._chrome.window_cut import Cut


_INSTANTS = ("i", "I", "R")
_ARROW_CATEGORIES = ("fwdbwd", "forward_backward")
_LAUNCH_CATEGORY = "ac2g"


ArrowsPiece = tuple[dict[Any, list[tuple[int, int, int]]], dict[Any, list[tuple[int, int, int]]]]


class Memory:
    def __init__(self, interner: Interner) -> None:
        self.count = 0
        self._interner = interner
        self._columns = {
            **{name: Column(np.int64) for name in ("time_ns", "bytes", "address", "total_allocated", "total_reserved")},
            **{name: Column(np.int32) for name in ("device_type", "device_id", "pid", "tid")},
        }

    def add(self, events: Sequence[Event], time_ns: Int64) -> None:
        if not events:
            return
        args, columns, keys = [event.args or NO_ARGS for event in events], self._columns, self._interner.keys
        columns["time_ns"].add(time_ns)
        columns["bytes"].add(int64s([0 if a.memory_bytes is None else a.memory_bytes for a in args]))
        columns["address"].add(int64s([0 if a.address is None else a.address for a in args]))
        columns["total_allocated"].add(int64s([a.total_allocated for a in args]))
        columns["total_reserved"].add(int64s([a.total_reserved for a in args]))
        columns["device_type"].add(int64s([a.device_type for a in args]))
        columns["device_id"].add(int64s([a.device_id for a in args]))
        columns["pid"].add(keys.of([event.pid for event in events]))
        columns["tid"].add(keys.of([event.tid for event in events]))
        self.count += len(events)

    def take_piece(self) -> dict[str, npt.NDArray[Any]]:
        self.count = 0
        return {name: column.take() for name, column in self._columns.items()}

    def merge(self, piece: dict[str, npt.NDArray[Any]], ids: Int32) -> None:
        for name, column in piece.items():
            self._columns[name].add(ids[column] if name in ("pid", "tid") else column)
        self.count += len(piece["time_ns"])

    def take(self) -> MemoryEvents:
        columns = {name: column.take() for name, column in self._columns.items()}
        order = np.argsort(columns["time_ns"], kind="stable")
        return MemoryEvents(**{name: column[order] for name, column in columns.items()})


class Arrows:
    """Collects forward-backward arrows. In the file, the start or the end of an arrow may come first."""

    def __init__(self, interner: Interner) -> None:
        self._keys = interner.keys
        self._starts: dict[Any, list[tuple[int, int, int]]] = defaultdict(list)
        self._ends: dict[Any, list[tuple[int, int, int]]] = defaultdict(list)

    def add(self, events: Sequence[Event], time_ns: Int64) -> None:
        if not events:
            return
        keys = self._keys.of([key for event in events for key in (event.pid, event.tid)]).tolist()
        for event, time, pid, tid in zip(events, time_ns.tolist(), keys[::2], keys[1::2], strict=True):
            side = self._starts if event.ph == "s" else self._ends
            side[as_text(event.id)].append((time, pid, tid))

    def take_piece(self) -> ArrowsPiece:
        piece = dict(self._starts), dict(self._ends)
        self._starts, self._ends = defaultdict(list), defaultdict(list)
        return piece

    def merge(self, piece: ArrowsPiece, ids: Int32) -> None:
        texts = ids.tolist() if any(piece) else []
        for side, added in zip((self._starts, self._ends), piece, strict=True):
            for flow_id, ends in added.items():
                side[flow_id].extend([(time, texts[pid], texts[tid]) for time, pid, tid in ends])

    def take(self) -> tuple[Flows, int]:
        """Returns matched arrows by id, then in file order, and the number of unmatched starts and ends."""
        pairs = [
            (start, end)
            for flow_id, starts in self._starts.items()
            for start, end in zip(starts, self._ends.get(flow_id, ()), strict=False)
        ]
        total = sum(map(len, self._starts.values())) + sum(map(len, self._ends.values()))
        starts = np.array([start for start, _ in pairs], np.int64).reshape(-1, 3)
        ends = np.array([end for _, end in pairs], np.int64).reshape(-1, 3)
        flows = Flows(
            start_time_ns=starts[:, 0].copy(),
            start_pid=starts[:, 1].astype(np.int32),
            start_tid=starts[:, 2].astype(np.int32),
            end_time_ns=ends[:, 0].copy(),
            end_pid=ends[:, 1].astype(np.int32),
            end_tid=ends[:, 2].astype(np.int32),
        )
        return flows, total - 2 * len(pairs)


class CollectorPiece(NamedTuple):
    """Everything collected from a piece of the file."""

    texts: list[str]
    rows: RowsPiece
    memory: dict[str, npt.NDArray[Any]]
    counters: tuple[int, CounterEvents]
    arrows: tuple[ArrowsPiece, ArrowsPiece, ArrowsPiece]
    names: Names
    event_count: int
    decoding: tuple[DecodingState, DecodingState]


class Collector:
    def __init__(self, log: IssueLog, decoding: Decoding, window: Window | None = None) -> None:
        self.interner = Interner()
        self.rows = RowColumns(self.interner)
        self.memory = Memory(self.interner)
        self.counters = Counters(self.interner, log)
        self.arrows = Arrows(self.interner)
        self.dependencies = Arrows(self.interner)
        self.bound = Arrows(self.interner)
        self.names = Names()
        self.marks = Marks(detach, merge_arguments, log)
        self.event_count = 0
        self.cut: Cut | None = None
        if window is not None:
            from tb_plugin.formats.kineto.windows import cut_of

            self.cut = cut_of(window)
        self._log = log
        self._decoding = decoding
        self._at_piece = self._history()

    def take_piece(self) -> CollectorPiece | None:
        """Returns and removes everything since the last call. Returns None if the result depends on earlier text."""
        texts, words, before = self._at_piece
        self._at_piece = _, words_after, after = self._history()
        rows = self.rows.take_piece()
        piece = CollectorPiece(
            self.interner.texts[texts:],
            cast(RowsPiece, rows),
            self.memory.take_piece(),
            self.counters.take_piece(),
            (self.arrows.take_piece(), self.dependencies.take_piece(), self.bound.take_piece()),
            self.names,
            self.event_count,
            (before, after),
        )
        self.names, self.event_count = Names(), 0
        if rows is None or len(self.marks) or words != words_after or before.is_unusual != after.is_unusual:
            return None
        return piece

    def merge_piece(self, piece: CollectorPiece, ids: Int32) -> Int32 | None:
        """Adds a piece. Returns ``ids`` with its new texts, or None if it cannot be merged."""
        before, after = piece.decoding
        texts = [column.key for column in piece.rows.others if column.kind == "text"]
        if not self._decoding.can_merge(before, after, texts) or not self.rows.can_merge(piece.rows):
            return None
        ids = self.interner.merge(piece.texts, ids)
        mapped = np.append(ids, np.int32(MISSING))
        self._decoding.merge(after)
        self.rows.merge(piece.rows, mapped)
        self.memory.merge(piece.memory, mapped)
        self.counters.merge(piece.counters, mapped)
        for arrows, part in zip((self.arrows, self.dependencies, self.bound), piece.arrows, strict=True):
            arrows.merge(part, mapped)
        self.names.merge(piece.names)
        self.event_count += piece.event_count
        return ids

    def _history(self) -> tuple[int, tuple[int, int, int], DecodingState]:
        return len(self.interner.texts), self.interner.history(), self._decoding.state()

    def add(self, events: Sequence[Event], digits: bool) -> None:
        """Adds events, with times as ``digits`` if set. May raise NeedsDigits, but only before anything is added."""
        is_row = [event.ph == "X" for event in events]
        rows: Sequence[Event] = events
        others: list[Event] = []
        if not all(is_row):
            rows = list(compress(events, is_row))
            others = list(compress(events, map(not_, is_row)))
        unfiltered, names, categories = rows, [event.name for event in rows], [event.cat for event in rows]
        memory: Sequence[Event] = []
        failures: list[Event] = []
        valueless = 0
        present = set(categories)
        if VALUELESS in present or INSTANT_CATEGORY in present or MEMORY_NAME in names or OUT_OF_MEMORY in names:
            valueless = categories.count(VALUELESS)
            memory = [event for event in rows if event.name == MEMORY_NAME]
            failures = [event for event in rows if event.name == OUT_OF_MEMORY]
            rows = [event for event in rows if not is_instant(event)]
        kinds = {event.ph for event in others}  # most chunks contain one or two phases; the others are not searched
        if not kinds.isdisjoint(_INSTANTS):
            instants = [event for event in others if event.ph in _INSTANTS]
            memory = [*memory, *[event for event in instants if event.name == MEMORY_NAME]]
            failures += [event for event in instants if event.name == OUT_OF_MEMORY]
        counters: Sequence[Event] = []
        if COUNTER in kinds:
            counters = [event for event in others if event.ph == COUNTER]
        arrows: Sequence[Event] = []
        dependencies: Sequence[Event] = []
        if "s" in kinds or "f" in kinds:
            arrows = [event for event in others if event.cat in _ARROW_CATEGORIES and event.ph in ("s", "f")]
            launches = [event for event in others if event.cat == _LAUNCH_CATEGORY]
            dependencies = [e for e in launches if type(e.id) is int and e.id >= FIRST_DEPENDENCY]
        marks: Sequence[Event] = []
        if "B" in kinds or "E" in kinds:
            marks = [event for event in others if event.ph in ("B", "E")]
        tally = Times(digits)
        rows, starts = tally.starts(rows)
        durations = tally.durations(rows)
        memory, memory_ns = tally.starts(memory)
        moments, moments_ns = tally.starts(failures)
        counters, counters_ns = tally.starts(counters)
        arrows, arrows_ns = tally.starts(arrows)
        dependencies, dependencies_ns = tally.starts(dependencies)
        marks, marks_ns = tally.starts(marks)
        # From here on nothing raises NeedsDigits.
        tally.report(self._log)
        if valueless:
            self._log.add("bad_counter", "dropped", count=valueless)
        self.event_count += len(events)
        if self.cut is not None:
            rows, starts, durations = self.cut.rows(rows, starts, durations)
            memory, memory_ns = self.cut.moments(memory, memory_ns)
            moments, moments_ns = self.cut.moments(moments, moments_ns)
            counters, counters_ns = self.cut.moments(counters, counters_ns)
            arrows, arrows_ns = self.cut.arrows(arrows, arrows_ns)
            dependencies, dependencies_ns = self.cut.arrows(dependencies, dependencies_ns)
        texts = (names, categories) if rows is unfiltered else None
        self.rows.add(rows, starts, durations, self._decoding.take_new_arguments(), self._decoding.no_args, texts)
        if self._decoding.binds:
            self._add_bound(rows, starts)
        self.rows.add(
            moments, moments_ns, np.zeros_like(moments_ns), (), self._decoding.no_args, kind=EventKind.INSTANT
        )
        self.memory.add(memory, memory_ns)
        self.counters.add(counters, [_series(event) for event in counters], counters_ns)
        self.arrows.add(arrows, arrows_ns)
        self.dependencies.add(dependencies, dependencies_ns)
        self.marks.add(marks, marks_ns)
        if "M" in kinds:
            for event in others:
                if event.ph == "M":
                    args = event.args or NO_ARGS
                    self.names.add(event, args.name, args.labels)

    def _add_bound(self, rows: Sequence[Event], starts: Int64) -> None:
        """Adds arrows between events with the same ``bind_id``, as in MTIA instruction traces."""
        for flag, phase in (("flow_out", "s"), ("flow_in", "f")):
            at = [i for i, event in enumerate(rows) if getattr(event, flag, None) is True]
            ends = [Event(phase, pid=rows[i].pid, tid=rows[i].tid, id=getattr(rows[i], "bind_id", None)) for i in at]
            self.bound.add(ends, starts[at])

    def add_columns(self, start_ns: Int64, ids: Sequence[Int32], args: Mapping[str, tuple[Int64, Values]]) -> int:
        """Adds host ranges from arrays; see ``RowColumns.add_columns``. Returns the index of the first row."""
        self.event_count += len(start_ns)
        return self.rows.add_columns(start_ns, ids, args)

    def counts(self) -> dict[str, int]:
        counts = dict(zip((kind.name.lower() for kind in EventKind), self.rows.by_kind.tolist(), strict=True))
        counts["memory"] = self.memory.count
        counts["counter"] = self.counters.count
        counts["outside"] = 0 if self.cut is None else self.cut.outside
        counts["other"] = (
            self.event_count - self.rows.count - sum(counts[kind] for kind in ("memory", "counter", "outside"))
        )
        return {kind: count for kind, count in counts.items() if count}

    def close_marks(self) -> None:
        """Converts separate begin and end events to rows. Call it once, after the last event."""
        events: Sequence[ChromeEvent]
        events, starts, durations = self.marks.take(self._last_ns)
        if self.cut is not None:
            events, starts, durations = self.cut.rows(events, starts, durations)
        self.rows.add(events, starts, durations, self._decoding.all_learned(), self._decoding.no_args)

    def _last_ns(self) -> int:
        last = self.rows.last_ns()
        return last if self.cut is None else max(last, self.cut.trace_end_ns)


def _series(event: Event) -> dict[str, Any]:
    return event.args.series if isinstance(event.args, CounterArgs) else {}
