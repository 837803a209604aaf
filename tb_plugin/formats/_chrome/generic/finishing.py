"""Conversion of collected events to rows, with operations, arrows and call stacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.formats._chrome.arrows import Arrows
from tb_plugin.formats._chrome.columns import Column
from tb_plugin.formats._chrome.generic.events import Event, Role, Scope
from tb_plugin.formats._chrome.interning import Interner, as_text
from tb_plugin.formats._chrome.pairing import matched_ends, unfinished_durations
from tb_plugin.formats.issues import IssueLog
from tb_plugin.lib.arrays import Bool, Int32, Int64, UInt8
from tb_plugin.lib.groupby import number_groups, side_by_side
from tb_plugin.model.trace.extra_columns import NEVER_ENDED, OpenColumn
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import AsyncRows, OperatorArgs

MOST_TRACKS = 500  # maximum number of separate tracks; the rarest operations share one track per process
_OTHER_OPERATIONS = "Other operations"
# tracks of events without a thread
_SCOPES = {
    Scope.PROCESS: "Process instants",
    Scope.TRACE: "Global instants",
    Scope.TOTALS: "Tool totals",
}


class Collection(msgspec.Struct, frozen=True, eq=False):
    """Columns of all events that become rows, in file order, and their optional arguments."""

    columns: dict[str, npt.NDArray[Any]]
    sparse: dict[str, tuple[Int32, Int64]]
    others: Sequence[OpenColumn]
    arrows: Arrows
    stacks: CallStacks
    end_stacks: CallStacks
    interner: Interner
    log: IssueLog

    def raw(self, stack_frames: Any) -> dict[str, Any]:
        columns = dict(self.columns)
        role = columns.pop("role")
        start, name = columns["start_ns"], columns["name"]
        key = self._dense("key")
        thread = columns["pid"].astype(np.int64) * (len(self.interner.texts) + 1) + columns["tid"]
        begins, ends = self._pairs(role, thread, key)
        is_end = (role == Role.END) | (role == Role.ASYNC_END)
        dur = columns["dur_ns"] = columns["dur_ns"].copy()
        dur[begins] = start[ends] - start[begins]
        unfinished = (role == Role.BEGIN) | (role == Role.ASYNC_BEGIN)
        unfinished[begins] = False
        self._report(int(unfinished.sum()), int(is_end.sum()) - len(ends))
        if unfinished.any():
            last = int((start + np.maximum(dur, 0)).max())
            owner = np.where(role == Role.BEGIN, thread, -1 - key)
            dur[unfinished] = np.maximum(unfinished_durations(owner[unfinished], start[unfinished], last), 0)
        rows = np.flatnonzero(~is_end)
        place = np.full(len(role) + 1, MISSING, np.int32)
        place[rows] = np.arange(len(rows), dtype=np.int32)
        place[ends] = place[begins]
        named = np.where(name[begins] == self.interner.names[None], name[ends], name[begins])
        columns["name"] = name.copy()
        columns["name"][begins] = named
        row_columns = {column: values[rows] for column, values in columns.items()}
        asynchronous = self._asynchronous(row_columns, key[rows], self._dense("scope")[rows])
        late = is_end.astype(np.bool_)
        others = [_placed(column, place, late) for column in (*self.others, *self._clocks(role, begins, ends))]
        if (column := self._end_stacks(stack_frames)) is not None:
            others.append(_placed(column, place, late))
        open_rows = place[np.flatnonzero(unfinished)]
        others.append(OpenColumn(NEVER_ENDED, open_rows, np.ones(len(open_rows), np.int64), title="Never ended"))
        arrows, unmatched = self.arrows.take(place)
        if unmatched:
            self.log.add("unpaired_arrow", "note", count=unmatched)
        return {
            **row_columns,
            "nth": rows.astype(np.int64),
            "asynchronous": asynchronous,
            "arrows": arrows,
            "operators": self._call_stacks(stack_frames, place, late),
            "others": tuple(column for column in others if len(column.row)),
        }

    def _dense(self, name: str) -> Int64:
        rows, values = self.sparse[name]
        dense = np.full(len(self.columns["start_ns"]), MISSING, np.int64)
        dense[rows] = values
        return dense

    def _report(self, unfinished: int, unmatched: int) -> None:
        if unfinished:
            self.log.add("unfinished_range", "note", count=unfinished)
        if unmatched:
            self.log.add("unmatched_end", "dropped", count=unmatched)

    def _pairs(self, role: UInt8, thread: Int64, key: Int64) -> tuple[Int64, Int64]:
        found = [
            self._nested(np.flatnonzero((role == begin) | (role == end)), owner, role == begin)
            for begin, end, owner in ((Role.BEGIN, Role.END, thread), (Role.ASYNC_BEGIN, Role.ASYNC_END, key))
        ]
        return np.concatenate([begins for begins, _ in found]), np.concatenate([ends for _, ends in found])

    def _nested(self, some: Int64, owner: Int64, opens: Bool) -> tuple[Int64, Int64]:
        """Returns the event indices of matched starts, and of their ends.

        An end with a name closes the innermost open range with that name. But if a thread or operation has any end
        without a name, every end there closes the innermost open range, because mixing the two rules would mismatch
        ranges.
        """
        name = self.columns["name"][some]
        thread, count = number_groups(owner[some])
        nameless = np.zeros(count, np.bool_)
        nameless[thread[~opens[some] & (name == self.interner.names[None])]] = True
        key, _ = number_groups(
            thread.astype(np.int64) * (len(self.interner.texts) + 2) + np.where(nameless[thread], 0, name + 1)
        )
        begins, ends = matched_ends(key, self.columns["start_ns"][some], opens[some])
        return some[begins], some[ends]

    def _asynchronous(self, row_columns: dict[str, npt.NDArray[Any]], key: Int64, scope: Int64) -> AsyncRows:
        """Assigns a track to each row that belongs to an operation: the process and name of the operation's first row."""
        of_key = np.flatnonzero(key != MISSING)
        operation, first = _operations(key[of_key], row_columns["start_ns"][of_key], row_columns["dur_ns"][of_key])
        root = of_key[first[operation]]
        row_columns["pid"][of_key], row_columns["tid"][of_key] = row_columns["pid"][root], row_columns["name"][root]
        track, count = number_groups(
            row_columns["pid"][of_key].astype(np.int64) * len(self.interner.texts) + row_columns["tid"][of_key]
        )
        if count > MOST_TRACKS:
            rows_on = np.bincount(track, minlength=count)
            rare = np.argsort(np.argsort(-rows_on, kind="stable")) >= MOST_TRACKS
            row_columns["tid"][of_key[rare[track]]] = self.interner.text(_OTHER_OPERATIONS)
            self.log.add("many_operations", "note", count=int(rare.sum()))
        marked = np.flatnonzero(scope > 0)
        for each, title in _SCOPES.items():
            if (some := marked[scope[marked] == each]).size:
                row_columns["tid"][some] = self.interner.text(title)
        row_columns["pid"][marked[scope[marked] == Scope.TRACE]] = self.interner.keys[None]
        row = np.concatenate((of_key, marked))
        number = np.concatenate((operation, len(first) + np.arange(len(marked))))
        return AsyncRows(row.astype(np.int32), number.astype(np.int32))

    def _clocks(self, role: UInt8, begins: Int64, ends: Int64) -> list[OpenColumn]:
        time_row, time = self.sparse["thread_time"]
        of_range = role[time_row] == Role.RANGE  # some tools write 0 to every event
        time_row, time = time_row[of_range], time[of_range]
        clock_row, clock = self.sparse["thread_clock"]
        if not len(time_row) and not len(clock_row):
            return []
        dense = np.zeros(len(role), np.int64)
        has = np.zeros(len(role), np.bool_)
        dense[clock_row], has[clock_row] = clock, True
        both = has[begins] & has[ends] & (role[begins] == Role.BEGIN)
        row = np.concatenate((time_row, begins[both].astype(np.int32)))
        value = np.concatenate((time, dense[ends[both]] - dense[begins[both]]))
        begun = clock_row[role[clock_row] <= Role.BEGIN]
        return [
            OpenColumn("thread time", row, value, title="Thread time", unit="ns"),
            OpenColumn("thread clock", begun, dense[begun], title="Start (thread clock)", unit="ns"),
        ]

    def _call_stacks(self, frames: Any, place: Int32, late: Bool) -> OperatorArgs:
        event, stack = self.stacks.take(frames)
        ids = np.array(stack, np.int32)
        kept = np.flatnonzero((ids != MISSING) & ~late[event])
        row = place[event[kept]]
        first = np.unique(row, return_index=True)[1]
        none = np.full(len(first), MISSING, np.int32)
        return OperatorArgs(
            row[first], none, none, none, none, ids[kept][first], none.astype(np.int64), none.astype(np.int64)
        )

    def _end_stacks(self, frames: Any) -> OpenColumn | None:
        event, stack = self.end_stacks.take(frames)
        ids = np.array(stack, np.int32)
        kept = np.flatnonzero(ids != MISSING)
        if not len(kept):
            return None
        return OpenColumn("end stack", event[kept], ids[kept], is_text=True, title="Call stack at end")


def _operations(key: Int64, start: Int64, dur: Int64) -> tuple[Int64, Int64]:
    """Returns the operation of each row, and its first row. Rows with one key that overlap are an operation."""
    if not len(key):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    owner, _ = number_groups(key)
    begin, end = side_by_side((owner, start), (owner, start + dur))
    order = np.lexsort((np.arange(len(key)), -dur, begin))
    reach = np.maximum.accumulate(end[order])[:-1]
    later, lasting = begin[order][1:], dur[order][1:] > 0
    new = (owner[order][1:] != owner[order][:-1]) | (later > reach) | ((later == reach) & lasting)
    number = np.concatenate(([0], np.cumsum(new)))
    operation = np.empty(len(key), np.int64)
    operation[order] = number
    return operation, order[np.concatenate(([0], np.flatnonzero(new) + 1))]


def _placed(column: OpenColumn, place: Int32, late: Bool) -> OpenColumn:
    """Converts a column from event indices to row indices. The value of the end of a range wins."""
    row = place[column.row]
    order = np.lexsort((late[column.row], row))
    order = order[row[order] != MISSING]
    last = np.ones(len(order), np.bool_)
    last[:-1] = row[order][1:] != row[order][:-1]
    order = order[last]
    return OpenColumn(column.key, row[order], column.value[order], column.is_text, column.title, column.unit)


_MAX_FRAMES = 1000  # maximum number of frames loaded per stack, innermost first


class CallStacks:
    """Collects call stacks by event index. ``stackFrames`` may follow the events, so frames are found later."""

    def __init__(self, interner: Interner) -> None:
        self._interner = interner
        self._event = Column(np.int32)
        self._stack: list[Any] = []

    def add(self, numbers: Sequence[int], stacks: Sequence[Any]) -> None:
        """Appends the stacks of events. Each stack is a frame id or a list of names."""
        self._event.add(np.array(numbers, np.int32))
        self._stack += stacks

    def take_piece(self) -> tuple[Int32, list[Any]]:
        stacks, self._stack = self._stack, []
        return self._event.take(), stacks

    def merge(self, piece: tuple[Int32, list[Any]], first_row: int) -> None:
        self._event.add(piece[0] + np.int32(first_row))
        self._stack += piece[1]

    def take(self, frames: Any) -> tuple[np.ndarray[Any, np.dtype[np.int32]], list[int]]:
        """Returns event indices, and the string ids of their stacks (-1 = unknown frame).

        The text of a stack starts with the innermost frame. Frames are separated by ``;``.
        """
        known = frames if isinstance(frames, Mapping) else {}
        texts: dict[str, int] = {}
        found = []
        for stack in self._stack:
            key = "\n".join(map(as_text, stack)) if isinstance(stack, list) else f"id {as_text(stack)}"
            if key not in texts:
                names = list(reversed(stack)) if isinstance(stack, list) else _chain(known, as_text(stack))
                text = ";".join(as_text(name).replace(";", ",") for name in names[:_MAX_FRAMES])
                texts[key] = self._interner.text(text) if text else MISSING
            found.append(texts[key])
        return self._event.take(), found


def stack_of(event: Event) -> Any:
    return event.sf if event.sf is not None else event.stack if isinstance(event.stack, list) else None


def end_stack_of(event: Event) -> Any:
    return event.esf if event.esf is not None else event.estack if isinstance(event.estack, list) else None


def _chain(frames: Mapping[str, Any], leaf: str) -> list[Any]:
    names: list[Any] = []
    visited: set[str] = set()
    at: str | None = leaf
    while at is not None and at not in visited and len(names) < _MAX_FRAMES:
        visited.add(at)
        frame = frames.get(at)
        if not isinstance(frame, Mapping):
            break
        names.append(frame.get("name", ""))
        parent = frame.get("parent")
        at = None if parent is None else as_text(parent)
    return names
