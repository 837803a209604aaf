"""Timeline events as columns, in file order."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from tb_plugin.formats._chrome.columns import Column, int64s
from tb_plugin.formats._chrome.events import COUNTER, ChromeEvent, Times, event_decoder
from tb_plugin.formats._chrome.extra_args import Others
from tb_plugin.formats._chrome.interning import Interner, as_text
from tb_plugin.formats._chrome.other_events import Counters, Names
from tb_plugin.formats.issues import IssueLog
from tb_plugin.lib.arrays import Int32, Int64, UInt8
from tb_plugin.model.trace.extra_columns import OpenColumn

PHASES = "BEXistf"  # phases of the events that become columns; the index is the code
BEGIN, END, COMPLETE, INSTANT, START, STEP, FINISH = range(len(PHASES))
_CODES = {**{phase: code for code, phase in enumerate(PHASES)}, "I": INSTANT, "R": INSTANT}
BACKTRACE = "python_backtrace"
_METADATA = "Metadata"  # first event in files of older releases; its arguments contain the start of the profiler


class Event(ChromeEvent, gc=False):
    args: dict[str, Any] | None = None


decode = event_decoder(Event)


class Events(msgspec.Struct, frozen=True, eq=False):
    """All events on lanes, in file order. Most columns are string ids; phase, times and ``number`` are not."""

    phase: UInt8
    name: Int32
    category: Int32
    pid: Int32
    tid: Int32
    time_ns: Int64
    dur_ns: Int64
    number: Int64  # id of an arrow's end; -1 for other events
    args: Mapping[str, OpenColumn]  # by name; rows are event indices

    def __len__(self) -> int:
        return len(self.phase)


_TYPES: dict[str, type[Any]] = {
    "phase": np.uint8, "name": np.int32, "category": np.int32, "pid": np.int32, "tid": np.int32,
    "time_ns": np.int64, "dur_ns": np.int64, "number": np.int64,
}  # fmt: skip


class Collected:
    def __init__(self, log: IssueLog) -> None:
        self.interner = Interner()
        self.counters = Counters(self.interner, log)
        self.names = Names()
        self.event_count = self.count = 0
        self.local_times: dict[str, Any] = {}  # process -> its start, from Metadata events
        self._log = log
        self._others = Others(self.interner)
        self._stacks: dict[str, str] = {}
        self._not_shown: Counter[str] = Counter()
        self._columns = {name: Column(dtype) for name, dtype in _TYPES.items()}

    def add(self, events: Sequence[Event], digits: bool) -> None:
        """Adds events, with times as ``digits`` if set. May raise NeedsDigits, but only before anything is added."""
        phases = Counter(event.ph for event in events)
        placed = [event for event in events if event.ph in _CODES and event.name != _METADATA]
        counters = [event for event in events if event.ph == COUNTER] if phases[COUNTER] else []
        tally = Times(digits)
        placed_in_time, starts = tally.starts(placed)
        complete = [event for event in placed_in_time if event.ph == "X"] if phases["X"] else []
        durations = tally.durations(complete)
        timed_counters, counters_ns = tally.starts(counters)
        # From here on nothing raises NeedsDigits.
        tally.report(self._log)
        self.event_count += len(events)
        self._place(placed_in_time, starts, durations)
        self.counters.add(timed_counters, [event.args or {} for event in timed_counters], counters_ns)
        for event in events:
            if event.name == _METADATA:
                self.local_times.setdefault(as_text(event.pid), (event.args or {}).get("localTime"))
            elif event.ph == "M":
                args = event.args or {}
                self.names.add(event, args.get("name"), args.get("labels"))
            elif event.ph not in _CODES and event.ph != COUNTER:
                self._not_shown[event.ph] += 1

    def take(self) -> Events:
        if self._others.left_out:
            self._log.add("other_arguments", "note", count=self._others.left_out)
        for phase, count in self._not_shown.items():
            text = f"events (phase {phase or 'missing'}) are not shown"
            self._log.add("not_shown", "note", count=count, text=text)
        columns = {name: column.take() for name, column in self._columns.items()}
        return Events(**columns, args={column.key: column for column in self._others.take()})

    def _place(self, events: Sequence[Event], time_ns: Int64, durations: Int64) -> None:
        if not events:
            return
        columns, names, keys = self._columns, self.interner.names, self.interner.keys
        phase = np.array([_CODES[event.ph] for event in events], np.uint8)
        dur_ns = np.zeros(len(events), np.int64)
        dur_ns[phase == COMPLETE] = durations
        columns["phase"].add(phase)
        columns["name"].add(names.of([event.name for event in events]))
        columns["category"].add(names.of([event.cat for event in events]))
        columns["pid"].add(keys.of([event.pid for event in events]))
        columns["tid"].add(keys.of([event.tid for event in events]))
        columns["time_ns"].add(time_ns)
        columns["dur_ns"].add(dur_ns)
        columns["number"].add(np.where(phase >= START, int64s([event.id for event in events]), -1))
        self._arguments([event.args for event in events])
        self.count += len(events)

    def _arguments(self, args: Sequence[dict[str, Any] | None]) -> None:
        found: dict[str, tuple[list[int], list[Any]]] = defaultdict(lambda: ([], []))
        for place, stated in enumerate(args):
            for key, value in stated.items() if stated else ():
                if key == BACKTRACE:
                    value = self._stack(as_text(value))
                found[key][0].append(place)
                found[key][1].append(value)
        for key, (places, values) in found.items():
            self._others.add(key, np.array(places, np.int64) + self.count, values)

    def _stack(self, backtrace: str) -> str | None:
        """Parses a backtrace. Results are cached, because backtraces are long and often repeat."""
        known = self._stacks.get(backtrace)
        if known is None:
            known = self._stacks[backtrace] = stack_of(backtrace)
        return known or None


_FRAME = re.compile(r"^(?:Python Backtrace: ?)?(?P<file>.*?) , line (?P<line>\d+), in (?P<function>.*)$")
_MAX_CHARS = 1 << 16  # characters of a backtrace


def stack_of(backtrace: str) -> str:
    """Returns frames as ``file(line): function``, innermost first. Lines about scopes, which are events, are skipped."""
    found = (_FRAME.match(line) for line in backtrace[:_MAX_CHARS].splitlines())
    frames = [f"{frame['file'].strip()}({frame['line']}): {frame['function'].strip()}" for frame in found if frame]
    return ";".join(frame.replace(";", ",") for frame in reversed(frames))
