"""Columns collected from the events of any tool."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from tb_plugin.formats._chrome.arrows import Arrows, ArrowsPiece, Keys, scoped_key
from tb_plugin.formats._chrome.columns import Column
from tb_plugin.formats._chrome.events import COUNTER, Times
from tb_plugin.formats._chrome.extra_args import Others, OthersPiece
from tb_plugin.formats._chrome.generic.events import FAMILIES, ROLES, SKIPPED_PHASES, Event, Role, Scope
from tb_plugin.formats._chrome.generic.finishing import CallStacks, Collection, end_stack_of, stack_of
from tb_plugin.formats._chrome.interning import Ids, Interner, as_text
from tb_plugin.formats._chrome.other_events import Counters, Names
from tb_plugin.formats._chrome.parse import no_events
from tb_plugin.formats._chrome.times import NeedsDigits, from_numbers, is_time
from tb_plugin.formats._chrome.window_cut import Cut, flagged_events
from tb_plugin.formats.base import ReadState
from tb_plugin.formats.issues import Entries, IssueLog
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.model.trace.schema import MISSING, EventKind, MatrixUse
from tb_plugin.model.trace.table import CounterEvents

_PYTHON_CALLS = frozenset({"FEE"})  # categories of Python calls in VizTracer (function entry and exit)
# Python calls without a category: JAX writes ``$file.py:12 function``, and ``$module function`` for C
_PYTHON_NAMES = re.compile(r"\$\S+ \S")
_TOTAL_PREFIX, _TOTAL_ARGUMENTS = "Total ", {"count", "avg ms"}
"""Name prefix and arguments of the ranges in which clang writes total times. Each such range has its own thread."""
_ASYNC = frozenset(phase for phase, role in ROLES.items() if role >= Role.ASYNC_BEGIN)
FAR = 2.0**62
_SCOPES = {"p": Scope.PROCESS, "g": Scope.TRACE}
_TYPES: dict[str, type[Any]] = {
    "start_ns": np.int64, "dur_ns": np.int64, "name": np.int32, "category": np.int32, "kind": np.uint8,
    "pid": np.int32, "tid": np.int32, "role": np.uint8,
}  # fmt: skip


class CollectedPiece(NamedTuple):
    """Everything collected from a piece of the file."""

    texts: list[str]
    columns: dict[str, npt.NDArray[Any]]
    sparse: dict[str, tuple[Int32, Int64]]
    keys: list[tuple[str, ...]]
    others: list[OthersPiece]
    arrows: ArrowsPiece
    stacks: list[tuple[Int32, list[Any]]]
    counters: tuple[int, CounterEvents]
    names: Names
    event_count: int
    by_kind: Counter[str]
    skipped_phases: Counter[str]


class Collected:
    def __init__(self, log: IssueLog, in_pairs: frozenset[str] = frozenset(), cut: Cut | None = None) -> None:
        self.interner = Interner()
        self.counters = Counters(self.interner, log)
        self.names = Names()
        self.event_count = 0
        self.cut = cut  # drops events outside a window, except begin and end events, whose partner may be inside
        self.by_kind: Counter[str] = Counter()
        self._arrows = Arrows(self.interner, in_pairs)
        self._others = Others(self.interner)
        self._stacks = {False: CallStacks(self.interner), True: CallStacks(self.interner)}
        self._count = 0  # number of events that are rows or parts of rows
        self._columns = {name: Column(dtype) for name, dtype in _TYPES.items()}
        self._sparse = {
            name: (Column(np.int32), Column(np.int64)) for name in ("key", "scope", "thread_time", "thread_clock")
        }
        self._keys = Keys()
        self._kinds = Ids(lambda cat: EventKind.PYTHON if cat in _PYTHON_CALLS else EventKind.ANNOTATION)
        self._is_call = Ids(lambda name: isinstance(name, str) and _PYTHON_NAMES.match(name) is not None)
        self._may_total = Ids(lambda name: isinstance(name, str) and name.startswith(_TOTAL_PREFIX))
        self._not_shown: Counter[str] = Counter()
        self._log = log
        self._at_piece = self._history()

    def take_piece(self) -> CollectedPiece | None:
        """Returns and removes everything since the last call. Returns None if the result depends on earlier text."""
        texts, words = self._at_piece
        self._at_piece = _, words_after = self._history()
        others = self._others.take_piece()
        piece = CollectedPiece(
            self.interner.texts[texts:],
            {name: column.take() for name, column in self._columns.items()},
            {name: (rows.take(), values.take()) for name, (rows, values) in self._sparse.items()},
            self._keys.take_piece(),
            others or [],
            self._arrows.take_piece(),
            [stacks.take_piece() for stacks in self._stacks.values()],
            self.counters.take_piece(),
            self.names,
            self.event_count,
            self.by_kind,
            self._not_shown,
        )
        self.names, self.event_count, self._count = Names(), 0, 0
        self.by_kind, self._not_shown = Counter(), Counter()
        return None if others is None or words != words_after else piece

    def merge_piece(self, piece: CollectedPiece, ids: Int32) -> Int32 | None:
        """Adds a piece. Returns ``ids`` with its new texts, or None if it cannot be merged."""
        if not self._others.can_merge(piece.others):
            return None
        ids = self.interner.merge(piece.texts, ids)
        mapped = np.append(ids, np.int32(MISSING))
        for name, column in piece.columns.items():
            self._columns[name].add(mapped[column] if name in ("name", "category", "pid", "tid") else column)
        numbers = self._keys.merge(piece.keys)
        for name, (rows, values) in piece.sparse.items():
            self._sparse[name][0].add(rows + np.int32(self._count))
            self._sparse[name][1].add(numbers[values] if name == "key" else values)
        self._others.merge(piece.others, self._count, mapped)
        self._arrows.merge(piece.arrows, self._count, mapped)
        for stacks, part in zip(self._stacks.values(), piece.stacks, strict=True):
            stacks.merge(part, self._count)
        self.counters.merge(piece.counters, mapped)
        self.names.merge(piece.names)
        self.event_count += piece.event_count
        self.by_kind += piece.by_kind
        self._not_shown.update(piece.skipped_phases)
        self._count += len(piece.columns["start_ns"])
        return ids

    def _history(self) -> tuple[int, tuple[int, int, int]]:
        return len(self.interner.texts), self.interner.history()

    def add(self, events: Sequence[Event], digits: bool) -> None:
        """Adds events, with times as ``digits`` if set. May raise NeedsDigits, but only before anything is added."""
        phases = Counter([event.ph for event in events])
        tally = Times(digits)
        has_rows = sum(count for phase, count in phases.items() if phase in ROLES)
        rows = events if has_rows == len(events) else [event for event in events if event.ph in ROLES]
        ends = [event for event in events if event.ph in ("s", "t", "f")] if phases.keys() & {"s", "t", "f"} else []
        counters = [event for event in events if event.ph == COUNTER] if phases[COUNTER] else []
        timed, starts = tally.starts(rows)
        ranges = timed if phases["X"] == len(events) else [event for event in timed if event.ph == "X"]
        durations = tally.durations(ranges)
        timed_ends, ends_ns = tally.starts(ends)
        timed_counters, counters_ns = tally.starts(counters)
        # From here on nothing raises NeedsDigits.
        tally.report(self._log)
        self.event_count += len(events)
        if self.cut is not None:
            timed, starts, durations = self._inside(timed, starts, durations, self.cut)
            timed_ends, ends_ns = self.cut.arrows(timed_ends, ends_ns)
            timed_counters, counters_ns = self.cut.moments(timed_counters, counters_ns)
        self._rows(timed, starts, durations)
        self._arrows.add(timed_ends, ends_ns)
        self.counters.add(timed_counters, [event.args or {} for event in timed_counters], counters_ns)
        for event in [event for event in events if event.ph == "M"] if phases["M"] else ():
            args = event.args or {}
            self.names.add(event, args.get("name"), args.get("labels"), args.get("sort_index"))
        self._not_shown.update({phase: n for phase, n in phases.items() if phase not in ROLES and phase not in "stfCM"})
        self._not_shown.update({"": phases[""]} if phases[""] else {})

    def finish(self) -> Collection:
        if self._others.left_out:
            self._log.add("other_arguments", "note", count=self._others.left_out)
        for phase, count in self._not_shown.items():
            what = SKIPPED_PHASES.get(phase, "events")
            text = f"{what} (phase {phase[:8] or 'missing'}) are not shown"
            self._log.add("not_shown", "note", count=count, text=text)
        return Collection(
            {name: column.take() for name, column in self._columns.items()},
            {name: (rows.take(), values.take()) for name, (rows, values) in self._sparse.items()},
            self._others.take(),
            self._arrows,
            self._stacks[False],
            self._stacks[True],
            self.interner,
            self._log,
        )

    def _inside(
        self, events: Sequence[Event], start_ns: Int64, range_dur_ns: Int64, cut: Cut
    ) -> tuple[Sequence[Event], Int64, Int64]:
        if len(range_dur_ns) == len(events):
            return cut.rows(events, start_ns, range_dur_ns)
        is_range = np.array([event.ph == "X" for event in events], np.bool_)
        keep = ~np.array([ROLES[event.ph] in (Role.RANGE, Role.MARK) for event in events], np.bool_)
        dur_ns = np.zeros(len(events), np.int64)
        dur_ns[is_range] = range_dur_ns
        closed = np.flatnonzero(~keep)
        keep[closed] = cut.keeps([events[i] for i in closed.tolist()], start_ns[closed], dur_ns[closed])
        return flagged_events(events, keep), start_ns[keep], dur_ns[keep & is_range]

    def _rows(self, events: Sequence[Event], start_ns: Int64, range_dur_ns: Int64) -> None:
        if not events:
            return
        names, keys = self.interner.names, self.interner.keys
        only_ranges = len(range_dur_ns) == len(events)
        roles = np.zeros(len(events), np.uint8) if only_ranges else np.array([ROLES[e.ph] for e in events], np.uint8)
        categories = [event.cat for event in events]
        named = [event.name for event in events]
        name = names.of(named)
        category = names.of(categories)
        pid, tid = keys.of([event.pid for event in events]), keys.of([event.tid for event in events])
        kinds = self._kinds.of(categories).astype(np.uint8)
        if None in categories:
            kinds[self._is_call.of([e.name if e.cat is None else None for e in events]) == 1] = EventKind.PYTHON
        dur_ns = range_dur_ns
        if not only_ranges:
            dur_ns = np.zeros(len(events), np.int64)
            dur_ns[roles == Role.RANGE] = range_dur_ns
            kinds[(roles == Role.MARK) | (roles == Role.ASYNC_MARK)] = EventKind.INSTANT
            kinds[(roles == Role.ASYNC_BEGIN) | (roles == Role.ASYNC_END)] = EventKind.ASYNC
            self._asynchronous(events)
            name = self._with_step_names(events, name)
        if totals := [i for i in np.flatnonzero(self._may_total.of(named)).tolist() if _is_total(events[i])]:
            kinds[totals] = EventKind.ASYNC
            self._add_sparse("scope", totals, [Scope.TOTALS] * len(totals))
        columns = (("start_ns", start_ns), ("dur_ns", dur_ns), ("name", name), ("category", category), ("kind", kinds))
        for key, column in (*columns, ("pid", pid), ("tid", tid), ("role", roles)):
            self._columns[key].add(column)
        self._rare(events, start_ns, name, pid, tid)
        self._arguments([event.args for event in events])
        starts_row = (roles != Role.END) & (roles != Role.ASYNC_END)
        for number in np.unique(kinds).tolist():
            self.by_kind[EventKind(number).name.lower()] += int(np.count_nonzero(starts_row & (kinds == number)))
        self._count += len(events)

    def _asynchronous(self, events: Sequence[Event]) -> None:
        places = [i for i, event in enumerate(events) if event.ph in _ASYNC]
        keys = self._keys.of([(FAMILIES[events[i].ph], *_operation(events[i])) for i in places])
        self._add_sparse("key", places, keys)
        wide = {i: _SCOPES[e.s] for i, e in enumerate(events) if e.ph in "iIR" and e.s in ("p", "g")}
        self._add_sparse("scope", list(wide), list(wide.values()))
        with_id = [i for i, event in enumerate(events) if event.ph in _ASYNC and event.id is not None]
        self._others.add("id", np.array(with_id, np.int64) + self._count, [as_text(events[i].id) for i in with_id])

    def _with_step_names(self, events: Sequence[Event], name: Int32) -> Int32:
        places = [i for i, event in enumerate(events) if event.ph in "Tp" and event.args and "step" in event.args]
        if places:
            name = name.copy()
            name[places] = self.interner.names.of([(events[i].args or {})["step"] for i in places])
        return name

    def _rare(self, events: Sequence[Event], start_ns: Int64, name: Int32, pid: Int32, tid: Int32) -> None:
        for key, stated in (("thread_time", [e.tdur for e in events]), ("thread_clock", [e.tts for e in events])):
            self._add_sparse(key, *_clock(stated))
        stacks: tuple[tuple[bool, Callable[[Event], Any], list[Any]], ...] = (
            (False, stack_of, [e.sf for e in events]),
            (False, stack_of, [e.stack for e in events]),
            (True, end_stack_of, [e.esf for e in events]),
            (True, end_stack_of, [e.estack for e in events]),
        )
        for at_end, get_stack, raw in stacks:
            found = {i: stack for i in _present(raw) if (stack := get_stack(events[i])) is not None}
            self._stacks[at_end].add([self._count + i for i in found], list(found.values()))
        bound = [e.bind_id for e in events]
        places = [i for i in _present(bound) if events[i].flow_in or events[i].flow_out]
        if places:
            self._arrows.add_bound(
                [(bound[i], bool(events[i].flow_in)) for i in places],
                [bool(events[i].flow_out) for i in places],
                np.array(places, np.int64) + self._count,
                {"time": start_ns[places], "name": name[places], "pid": pid[places], "tid": tid[places]},
            )

    def _add_sparse(self, key: str, places: Sequence[int], values: Any) -> None:
        if not len(places):
            return
        rows, column = self._sparse[key]
        rows.add(np.array(places, np.int64) + self._count)
        column.add(np.asarray(values, np.int64))

    def _arguments(self, args: Sequence[dict[str, Any] | None]) -> None:
        """Adds all arguments by name. Events with the same argument names are processed together, for speed."""
        filled = [stated or {} for stated in args] if None in args else cast(Sequence[dict[str, Any]], args)
        shapes: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for place, shape in enumerate(map(tuple, filled)):
            shapes[shape].append(place)
        found: dict[str, tuple[list[int], list[Any]]] = {}
        for shape, places in shapes.items():
            values = zip(*[filled[place].values() for place in places], strict=True)
            for key, column in zip(shape, values, strict=True):
                into = found.get(key)
                if into is None:
                    found[key] = (list(places), list(column))
                else:
                    into[0].extend(places)
                    into[1].extend(column)
        for key, (places, column_values) in found.items():
            self._others.add(key, np.array(places, np.int64) + self._count, column_values)


class EventPass:
    def __init__(self, collect: Callable[[IssueLog], Collected] = Collected) -> None:
        self.log = IssueLog()
        self._collect = collect
        self._has_phases = False
        self.restart()

    def take(self, events: Sequence[Event], digits: bool, text_bytes: int) -> None:
        self.collected.add(events, digits)
        self._has_phases = self._has_phases or any(event.ph for event in events)

    def restart(self) -> None:
        self.collected = self._collect(self.log)

    def text_count(self) -> int:
        return len(self.collected.interner.texts)

    def take_piece(self) -> tuple[CollectedPiece, bool, Entries] | None:
        piece, entries = self.collected.take_piece(), self.log.take_entries()
        has_phases, self._has_phases = self._has_phases, False
        return None if piece is None else (piece, has_phases, entries)

    def merge_piece(self, piece: tuple[CollectedPiece, bool, Entries], ids: Int32) -> Int32 | None:
        collected, has_phases, entries = piece
        merged = self.collected.merge_piece(collected, ids)
        if merged is not None:
            self._has_phases = self._has_phases or has_phases
            self.log.merge(entries)
        return merged

    def state(self, fraction: float) -> ReadState:
        collected = self.collected
        counts = {kind: count for kind, count in collected.by_kind.items() if count}
        counts |= {"counter": collected.counters.count} if collected.counters.count else {}
        others = collected.event_count - sum(counts.values())
        return ReadState(fraction, collected.event_count, counts | ({"other": others} if others else {}))

    def check(self, is_bare_list: bool) -> None:
        if not self._has_phases and (is_bare_list or self.collected.event_count):
            raise no_events()


def _is_total(event: Event) -> bool:
    return event.ph == "X" and event.args is not None and event.args.keys() == _TOTAL_ARGUMENTS


def _operation(event: Event) -> tuple[Any, ...]:
    key = scoped_key(event)
    return (*key, event.name, as_text(event.pid)) if event.ph in "NOD" else key


def _present(values: Sequence[Any]) -> list[int]:
    """Returns the indices of values that are not None. First checks for an empty column, because most columns are empty."""
    if values.count(None) == len(values):
        return []
    return list(compress(range(len(values)), [value is not None for value in values]))


def _clock(values: Sequence[Any]) -> tuple[Sequence[int], Int64]:
    places: Sequence[int] = range(len(values))
    if None in values:
        places = _present(values)
        values = [values[i] for i in places]
    try:
        return places, from_numbers(values)[0]
    except (NeedsDigits, TypeError, ValueError):
        good = [is_time(value) for value in values]
        places, values = list(compress(places, good)), list(compress(values, good))
    # Times since 1970 are only accurate to some hundred nanoseconds here.
    return places, np.clip(np.array([float(value) * 1000 for value in values]), -FAR, FAR).astype(np.int64)


def without_device(count: int) -> dict[str, Any]:
    none = np.full(count, MISSING, np.int64)
    no = np.zeros(count, np.bool_)
    return {
        "correlation": none, "external_id": none, "device": none.astype(np.int16),
        "is_collective": no, "matrix_eligible": no, "uses_matrix_unit": np.full(count, MatrixUse.NO, np.uint8),
    }  # fmt: skip
