"""Events without a row of their own: allocator events, counters, forward-backward arrows, names, begin and end marks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.readers.kineto.columns import Column, float64s, int64s
from tb_plugin.readers.kineto.events import ABSENT, NO_ARGS, Args, CounterArgs, Event
from tb_plugin.readers.kineto.interning import Interner, as_text
from tb_plugin.readers.kineto.issues import IssueLog
from tb_plugin.trace.table import CounterEvents, Flows, MemoryEvents

Int64 = npt.NDArray[np.int64]
Key = tuple[str, str]


class Memory:
    """Allocator events as columns."""

    def __init__(self, interner: Interner) -> None:
        self.count = 0
        self._interner = interner
        self._columns = {
            **{name: Column(np.int64) for name in ("time_ns", "bytes", "address", "total_allocated", "total_reserved")},
            **{name: Column(np.int32) for name in ("device_type", "device_id", "pid", "tid")},
        }

    def add(self, events: Sequence[Event], time_ns: Int64) -> None:
        """Append allocator events of one chunk."""
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

    def take(self) -> MemoryEvents:
        """All of them, sorted by time."""
        columns = {name: column.take() for name, column in self._columns.items()}
        order = np.argsort(columns["time_ns"], kind="stable")
        return MemoryEvents(**{name: column[order] for name, column in columns.items()})


class Counters:
    """Values of counter events as columns."""

    def __init__(self, interner: Interner, log: IssueLog) -> None:
        self.count = 0
        """Events with at least one value."""
        self._interner = interner
        self._log = log
        self._columns = {
            "time_ns": Column(np.int64),
            "value": Column(np.float64),
            **{name: Column(np.int32) for name in ("event", "name", "series", "pid", "tid")},
        }

    def add(self, events: Sequence[Event], time_ns: Int64) -> None:
        """Append counter events of one chunk. What is no finite number is left out and counted."""
        if not events:
            return
        stated = [event.args.series if isinstance(event.args, CounterArgs) else {} for event in events]
        of = np.repeat(np.arange(len(events)), [len(series) for series in stated])
        values = float64s([value for series in stated for value in series.values()])
        good = ~np.isnan(values)
        held = np.bincount(of[good], minlength=len(events)) > 0
        columns, names, keys = self._columns, self._interner.names, self._interner.keys
        series = names.of([key for each in stated for key in each])[good]
        number = self.count + np.cumsum(held) - 1
        name = names.of([_counter_name(event) for event in events])
        pid, tid = keys.of([event.pid for event in events]), keys.of([event.tid for event in events])
        columns["value"].add(values[good])
        columns["series"].add(series)
        for key, column in (("time_ns", time_ns), ("event", number), ("name", name), ("pid", pid), ("tid", tid)):
            columns[key].add(column[of[good]])
        self.count += int(held.sum())
        if not held.all():
            self._log.add("bad_counter", "dropped", count=int((~held).sum()))
        if (lost := int((~good & held[of]).sum())) > 0:
            self._log.add("bad_counter_value", "note", count=lost)

    def take(self) -> CounterEvents:
        """All of them, in file order."""
        return CounterEvents(**{name: column.take() for name, column in self._columns.items()})


def _counter_name(event: Event) -> str:
    """Counters of one name with different ids are different counters."""
    return (event.name or "") if event.id is None else f"{event.name or ''}[{as_text(event.id)}]"


class Arrows:
    """Ends of forward-backward arrows, waiting for their partners: either end may come first in the file."""

    def __init__(self, interner: Interner) -> None:
        self._keys = interner.keys
        self._starts: dict[Any, list[tuple[int, int, int]]] = defaultdict(list)
        self._ends: dict[Any, list[tuple[int, int, int]]] = defaultdict(list)

    def add(self, events: Sequence[Event], time_ns: Int64) -> None:
        """Append flow events of the forward-backward category."""
        if not events:
            return
        keys = self._keys.of([key for event in events for key in (event.pid, event.tid)]).tolist()
        for event, time, pid, tid in zip(events, time_ns.tolist(), keys[::2], keys[1::2], strict=True):
            side = self._starts if event.ph == "s" else self._ends
            side[as_text(event.id)].append((time, pid, tid))

    def take(self) -> tuple[Flows, int]:
        """The pairs, by id and within an id in file order, and the number of ends left without partner."""
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


class Names:
    """Names and labels of processes and threads from metadata events; the last one wins."""

    def __init__(self) -> None:
        self._processes: dict[str, str] = {}
        self._labels: dict[str, str] = {}
        self._threads: dict[Key, str] = {}

    def add(self, event: Event) -> None:
        """Take in one metadata event."""
        args, pid = event.args or NO_ARGS, "" if event.pid is None else as_text(event.pid)
        if event.name == "process_name" and args.name is not None:
            self._processes[pid] = as_text(args.name)
        elif event.name == "process_labels" and args.labels is not None:
            self._labels[pid] = as_text(args.labels)
        elif event.name == "thread_name" and args.name is not None:
            self._threads[pid, "" if event.tid is None else as_text(event.tid)] = as_text(args.name)

    def processes(self) -> dict[str, str]:
        """pid -> name, with labels in parentheses."""
        names = dict(self._processes)
        for pid, label in self._labels.items():
            names[pid] = f"{names[pid]} ({label})" if pid in names else label
        return names

    def threads(self) -> dict[Key, str]:
        """(pid, tid) -> name."""
        return self._threads


class Marks:
    """Begin and end marks. They match in order of time within a thread, so they wait until all are known."""

    def __init__(self) -> None:
        self._marks: dict[Key, list[tuple[int, int, Event]]] = defaultdict(list)
        self._count = 0

    def add(self, events: Sequence[Event], time_ns: Int64) -> None:
        """Append marks; their arguments are copied out of the chunk's buffer."""
        for event, time in zip(events, time_ns.tolist(), strict=True):
            self._count += 1
            kept = Event(event.ph, event.cat, event.name, event.pid, event.tid, args=_detached(event.args))
            self._marks[as_text(event.pid), as_text(event.tid)].append((time, self._count, kept))

    def take(self) -> tuple[list[Event], Int64, Int64, int]:
        """Events made of pairs, their starts and durations, and the number of marks left without partner."""
        rows: list[tuple[int, int, Event]] = []
        for marks in self._marks.values():
            open_marks: list[tuple[int, Event]] = []
            for time, _, event in sorted(marks, key=lambda mark: mark[:2]):
                if event.ph == "B":
                    open_marks.append((time, event))
                elif open_marks:
                    start, begun = open_marks.pop()
                    rows.append((start, time - start, _merged(begun, event)))
        lonely = self._count - 2 * len(rows)
        starts = np.array([start for start, _, _ in rows], np.int64)
        durations = np.array([duration for _, duration, _ in rows], np.int64)
        return [event for _, _, event in rows], starts, durations, lonely


def _detached(args: Args | None) -> Args | None:
    if args is None:
        return None
    copied = {}
    for name in Args.__struct_fields__:
        value = getattr(args, name)
        if isinstance(value, msgspec.Raw) and value is not ABSENT:
            value = msgspec.Raw(bytes(value))
        copied[name] = value
    return Args(**copied)


def _merged(begun: Event, ended: Event) -> Event:
    """The begin mark with the arguments of both; the end's win."""
    args = begun.args
    if ended.args is not None:
        stated = {
            name: getattr(ended.args, name)
            for name in Args.__struct_fields__
            if getattr(ended.args, name) is not getattr(NO_ARGS, name)
        }
        args = msgspec.structs.replace(begun.args or NO_ARGS, **stated)
    return Event("X", begun.cat, begun.name or ended.name, begun.pid, begun.tid, args=args)
