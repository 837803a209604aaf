"""Phases counted in plain Python from the columns of a trace: lists of open calls, intervals merged one by one."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from tb_plugin.analysis.communication import is_communication
from tb_plugin.model.trace.schema import DEVICE_WORK, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable

Pairs = list[tuple[int, int]]


def length(pairs: Iterable[tuple[int, int]]) -> int:
    total, reach = 0, -(10**30)
    for start, end in sorted(pairs):
        total += max(0, end - max(start, reach))
        reach = max(reach, end)
    return total


def common(one: Pairs, other: Pairs) -> Pairs:
    """Where an interval of one meets one of the other, both merged."""
    found, first = [], 0
    for start, end in one:
        while first < len(other) and other[first][1] <= start:
            first += 1
        for low, high in other[first:]:
            if low >= end:
                break
            found.append((max(start, low), min(end, high)))
    return found


def merged(pairs: Pairs) -> Pairs:
    found: list[tuple[int, int]] = []
    for start, end in sorted(pairs):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        elif end > start:
            found.append((start, end))
    return found


def launched_by(table: TraceTable, row: int) -> int:
    """Where work of a device stands: at its launch, or at its operator where a queue on another thread launched it."""
    launch, operator = int(table.launch[row]), int(table.operator[row])
    is_queued = launch >= 0 and operator >= 0 and table.track[launch] != table.track[operator]
    return operator if launch < 0 or is_queued else launch


class Recount:
    """Every call of an annotation, what phase it is of, where it stands, and what lies in it."""

    def __init__(self, table: TraceTable, pattern: str = r"[0-9]+") -> None:
        self.table = table
        self.start, self.end = table.start_ns.tolist(), table.end_ns.tolist()
        self.track, kind = table.track.tolist(), table.kind.tolist()
        self.forward, self.operator = table.forward.tolist(), table.operator.tolist()
        python = set(table.python.row.tolist())
        self.calls = [
            row
            for row, what in enumerate(kind)
            if what == EventKind.ANNOTATION or (what == EventKind.MODULE and row not in python)
        ]
        self.work = [row for row, what in enumerate(kind) if what in DEVICE_WORK]
        self.operators = [row for row, what in enumerate(kind) if what == EventKind.OPERATOR]
        name = {row: table.strings[int(table.name[row])] for row in self.calls}
        masked = {text: re.sub(pattern, "*", text) for text in set(name.values())}
        alone = Counter(masked.values())
        self.phase = {row: masked[name[row]] if alone[masked[name[row]]] > 1 else name[row] for row in self.calls}
        self.serves = self._serves()
        self.on: dict[int, list[int]] = defaultdict(list)
        for row in self.calls:
            self.on[self.track[row]].append(row)
        self.parent = {row: self._parent(row) for row in self.calls}
        self.path = {row: tuple(self.phase[each] for each in self._up(row))[::-1] for row in self.calls}

    def _serves(self) -> dict[int, int]:
        counts: dict[int, Counter[int]] = defaultdict(Counter)
        for row in self.operators:
            if self.forward[row] >= 0:
                counts[self.track[row]][self.track[self.forward[row]]] += 1
        most = {own: min(found, key=lambda track: (-found[track], track)) for own, found in counts.items()}
        return {own: track for own, track in most.items() if most.get(track, track) == track}

    def open_at(self, row: int) -> list[int]:
        """Calls that are open when a row begins, on its thread and then on the one that it works for."""
        own = self.track[row]
        threads = dict.fromkeys((own, self.serves.get(own, own)))
        at = self.start[row]
        return [call for track in threads for call in self.on[track] if self.start[call] <= at < self.end[call]]

    def _parent(self, row: int) -> int:
        reach = max(self.end[row], self.start[row] + 1)
        around = [c for c in self.on[self.track[row]] if c < row and self.end[c] >= reach]
        if around:
            return max(around)
        other = self.serves.get(self.track[row], self.track[row])
        at = self.start[row]
        found = [c for c in self.on[other] if self.start[c] <= at < self.end[c]] if other != self.track[row] else []
        return max(found, default=-1)

    def _up(self, row: int) -> Iterable[int]:
        while row >= 0:
            yield row
            row = self.parent[row]

    def _forward(self, row: int) -> int:
        """The forward operator of an operator or of the nearest one around it."""
        while row >= 0 and self.forward[row] < 0:
            row = self.operator[row]
        return self.forward[row] if row >= 0 else -1

    def _by(self, keys: dict[int, Any], rows: Iterable[int], sources: Iterable[int]) -> dict[Any, set[int]]:
        """Rows by key of the calls that are open at their sources."""
        found: dict[Any, set[int]] = defaultdict(set)
        for row, source in zip(rows, sources, strict=True):
            for call in self.open_at(source) if source >= 0 else ():
                found[keys[call]].add(row)
        return found

    def numbers(self, keys: dict[int, Any]) -> dict[Any, dict[str, Any]]:
        """The columns of the table, by key of calls."""
        table = self.table
        sources = [launched_by(table, row) for row in self.work]
        inside = self._by(keys, self.work, sources)
        backward = self._by(keys, self.work, [self._forward(self.operator[row]) for row in self.work])
        tied = {row: self._forward(row) for row in self.operators}
        roots = [row for row in self.operators if tied[row] >= 0 and tied.get(self.operator[row], -1) < 0]
        behind = self._by(keys, roots, [tied[row] for row in roots])
        talks = is_communication(table).copy()
        talks[self.work] = False
        talking = merged([self._span(row) for row in talks.nonzero()[0].tolist()])
        busy = merged([self._span(row) for row in self.work])
        steps = merged(list(zip(table.steps.host_start_ns.tolist(), table.steps.host_end_ns.tolist(), strict=True)))
        found = {}
        for key in set(keys.values()):
            calls = [row for row in self.calls if keys[row] == key]
            spans = merged([self._span(row) for row in calls])
            device = self._union(inside[key])
            found[key] = {
                "calls": len(calls),
                "host_total_ns": sum(self.end[row] - self.start[row] for row in calls if self._outermost(row, keys)),
                "phase_step_ratio": length(common(spans, steps)) / length(steps) if length(steps) else 0,
                "phase_device_ns": device,
                "phase_device_ratio": device / self._union(self.work) if self._union(self.work) else 0,
                "phase_backward_ns": self._union(backward[key]),
                "phase_backward_host_ns": sum(self.end[row] - self.start[row] for row in behind[key]),
                "phase_communication_ns": self._union(row for row in inside[key] if table.is_collective[row])
                + length(common(spans, talking)),
                "phase_idle_ns": length(spans) - length(common(spans, busy)),
                "phase_threads": len({self.track[row] for row in calls}),
            }
            if not of_kind(table.kind, *DEVICE_WORK).any():
                del found[key]["phase_device_ratio"], found[key]["phase_idle_ns"]
        return found

    def _outermost(self, row: int, keys: dict[int, Any]) -> bool:
        same = [c for c in self.on[self.track[row]] if c < row and keys[c] == keys[row]]
        if not any(self.end[c] >= self.end[row] and self.end[c] > self.start[row] for c in same):
            return True
        return all(keys[above] != keys[row] for above in self._up(self.parent[row]))

    def _span(self, row: int) -> tuple[int, int]:
        return self.start[row], self.end[row]

    def _union(self, rows: Iterable[int]) -> int:
        devices: dict[int, Pairs] = defaultdict(list)
        for row in rows:
            devices[int(self.table.device[row])].append(self._span(row))
        return sum(length(pairs) for pairs in devices.values())
