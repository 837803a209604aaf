"""Ranges of time that a program named, as columns: nothing is known of them but what every such trace says."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tb_plugin.readers.chrome.columns import Column
from tb_plugin.readers.chrome.event_times import Times
from tb_plugin.readers.chrome.events import COUNTER, ChromeEvent
from tb_plugin.readers.chrome.extras import Counters, Marks, Names
from tb_plugin.readers.chrome.interning import Ids, Interner
from tb_plugin.readers.chrome.others import Others
from tb_plugin.readers.issues import IssueLog
from tb_plugin.trace.schema import MISSING, EventKind, MatrixUse

Int64 = npt.NDArray[np.int64]

_PYTHON_CALLS = frozenset({"FEE"})
"""Categories of Python calls: that of VizTracer (function entry and exit)."""
_SHOWN = frozenset({"X", "B", "E", "C", "M"})
_NOT_SHOWN = {
    **dict.fromkeys("iIR", "instants"), **dict.fromkeys("bneSTpF", "asynchronous ranges"), **dict.fromkeys("stf", "arrows"),
    **dict.fromkeys("NOD", "objects"), "P": "samples",
}  # fmt: skip
"""What the events of a phase are called that no view shows yet."""
_TYPES: dict[str, type[Any]] = {
    "start_ns": np.int64, "dur_ns": np.int64, "name": np.int32, "category": np.int32, "kind": np.uint8,
    "pid": np.int32, "tid": np.int32,
}  # fmt: skip


class Collected:
    """Everything that a trace holds, growing by chunks. ``add`` changes nothing when it raises NeedsDigits."""

    def __init__(self, log: IssueLog) -> None:
        self.interner = Interner()
        self.counters = Counters(self.interner, log)
        self.names = Names()
        self.others = Others(self.interner)
        self.seen = self.count = 0
        self.not_shown: Counter[str] = Counter()
        """Phase of events that no view shows yet -> their number."""
        self.by_kind: Counter[str] = Counter()
        self._marks = Marks(lambda args: args, lambda begun, ended: {**(begun or {}), **(ended or {})})
        self._columns = {name: Column(dtype) for name, dtype in _TYPES.items()}
        self._kinds = Ids(lambda cat: EventKind.PYTHON if cat in _PYTHON_CALLS else EventKind.ANNOTATION)
        self._log = log

    def add(self, events: Sequence[ChromeEvent], digits: bool) -> None:
        """Takes in events; ``digits`` says that their times are raw text. Raises NeedsDigits before any change."""
        phases = Counter(event.ph for event in events)
        rows = list(events) if phases["X"] == len(events) else [event for event in events if event.ph == "X"]
        marks = [event for event in events if event.ph in ("B", "E")] if phases["B"] or phases["E"] else []
        counters = [event for event in events if event.ph == COUNTER] if phases[COUNTER] else []
        tally = Times(digits)
        timed, starts = tally.starts(rows)
        durations = tally.durations(timed)
        timed_marks, marks_ns = tally.starts(marks)
        timed_counters, counters_ns = tally.starts(counters)
        # From here on nothing raises NeedsDigits.
        tally.report(self._log)
        self.seen += len(events)
        self._rows(timed, starts, durations)
        self._marks.add(timed_marks, marks_ns)
        self.counters.add(timed_counters, [event.args or {} for event in timed_counters], counters_ns)
        for event in [event for event in events if event.ph == "M"] if phases["M"] else ():
            args = event.args or {}
            self.names.add(event, args.get("name"), args.get("labels"))
        self.not_shown.update({phase: count for phase, count in phases.items() if phase not in _SHOWN})

    def finish(self) -> dict[str, Any]:
        """Returns the whole columns, begin and end marks among them as pairs; call once, when all events are in."""
        pairs, starts, durations, lonely = self._marks.take()
        self._rows(pairs, starts, durations)
        if lonely:
            self._log.add("unmatched_begin", "dropped", count=lonely)
        if self.others.left_out:
            self._log.add("other_arguments", "note", count=self.others.left_out)
        for phase, count in self.not_shown.items():
            what = _NOT_SHOWN.get(phase, "events")
            self._log.add(
                "not_shown", "note", count=count, text=f"{what} (phase {phase or 'missing'}) are not shown yet"
            )
        return {name: column.take() for name, column in self._columns.items()}

    def _rows(self, events: Sequence[ChromeEvent], start_ns: Int64, dur_ns: Int64) -> None:
        if not events:
            return
        columns, names, keys = self._columns, self.interner.names, self.interner.keys
        kinds = self._kinds.of([event.cat for event in events])
        columns["start_ns"].add(start_ns)
        columns["dur_ns"].add(dur_ns)
        columns["name"].add(names.of([event.name for event in events]))
        columns["category"].add(names.of([event.cat for event in events]))
        columns["kind"].add(kinds)
        columns["pid"].add(keys.of([event.pid for event in events]))
        columns["tid"].add(keys.of([event.tid for event in events]))
        for kind in (EventKind.PYTHON, EventKind.ANNOTATION):
            self.by_kind[kind.name.lower()] += int(np.count_nonzero(kinds == kind))
        self._others([event.args for event in events])
        self.count += len(events)

    def _others(self, args: Sequence[dict[str, Any] | None]) -> None:
        """Every argument under its own name: none has a meaning here."""
        found: dict[str, tuple[list[int], list[Any]]] = defaultdict(lambda: ([], []))
        for place, stated in enumerate(args):
            for key, value in stated.items() if stated else ():
                found[key][0].append(place)
                found[key][1].append(value)
        for key, (places, values) in found.items():
            self.others.add(key, np.array(places, np.int64) + self.count, values)


def without_device(count: int) -> dict[str, Any]:
    """Returns the columns that a trace of the host alone has nothing in."""
    none = np.full(count, MISSING, np.int64)
    no = np.zeros(count, np.bool_)
    return {
        "correlation": none, "external_id": none, "device": none.astype(np.int16),
        "is_collective": no, "matrix_eligible": no, "uses_matrix_unit": np.full(count, MatrixUse.NO, np.uint8),
    }  # fmt: skip
