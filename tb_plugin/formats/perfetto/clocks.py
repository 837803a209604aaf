"""Conversion of times between the clocks of a trace, using clock snapshots."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from typing import Any

from tb_plugin.formats.issues import IssueLog

BOOT, REAL, MONOTONIC = 6, 1, 3  # clock ids: since boot, since 1970, monotonic
_SEQUENCE_CLOCKS = range(64, 128)  # ids of clocks that are local to a packet sequence
Clock = tuple[int, int]  # (sequence or 0 = global, clock id)


class Clocks:
    """All clock snapshots of a trace. Add all of them before the first conversion."""

    def __init__(self, log: IssueLog) -> None:
        self.main: Clock = (0, BOOT)  # clock of the results
        self._log = log
        # clock -> snapshots that contain it; each writer takes its own
        self._snapshots: dict[Clock, list[dict[Clock, int]]] = defaultdict(list)
        # clock -> conversions to the main clock: times of snapshots, and the offset after each
        self._steps: dict[Clock, list[tuple[list[int], list[int]]]] = {}
        self._units: dict[Clock, int] = {}
        self._incremental: set[Clock] = set()
        self._last: dict[Clock, int] = {}

    def add(self, packet: Any) -> None:
        snapshot = packet.clock_snapshot
        if not self._snapshots and snapshot.primary_trace_clock:
            self.main = (0, snapshot.primary_trace_clock)
        times = {}
        for stated in snapshot.clocks:
            clock = self.of(packet.sequence, stated.clock_id)
            self._units[clock] = stated.unit_ns or 1
            if stated.is_incremental:
                self._incremental.add(clock)
            times[clock] = stated.timestamp * self._units[clock]
        for clock in times:
            self._snapshots[clock].append(times)

    @staticmethod
    def of(sequence: int, clock_id: int) -> Clock:
        """Returns the clock for a clock id. Some ids are valid in one packet sequence only."""
        return (sequence if clock_id in _SEQUENCE_CLOCKS else 0, clock_id)

    def at(self, packet: Any) -> None:
        """Sets the incremental clocks to the times in a snapshot."""
        for stated in packet.clock_snapshot.clocks:
            clock = self.of(packet.sequence, stated.clock_id)
            if clock in self._incremental:
                self._last[clock] = stated.timestamp * self._units[clock]

    def main_ns(self, clock: Clock, stated: int) -> int:
        time = stated * self._units.get(clock, 1)
        if clock in self._incremental:
            time = self._last[clock] = self._last.get(clock, 0) + time
        if clock == self.main:
            return time
        way = self._steps.get(clock)
        if way is None:
            way = self._steps[clock] = self._way(clock)
        for times, offsets in way:
            time += offsets[max(0, bisect_right(times, time) - 1)]
        return time

    def real_ns(self) -> int | None:
        """Returns the difference between time since 1970 and main clock, or None if no snapshot contains both."""
        for times in self._snapshots[0, REAL]:
            if self.main in times:
                return times[0, REAL] - times[self.main]
        return None

    def _way(self, clock: Clock) -> list[tuple[list[int], list[int]]]:
        """Returns the shortest chain of conversions to the main clock, by snapshots that contain both clocks."""
        before: dict[Clock, Clock] = {clock: clock}
        edge = [clock]
        while edge and self.main not in before:
            following = []
            for known in edge:
                for times in self._snapshots[known]:
                    for other in times.keys() - before.keys():
                        before[other] = known
                        following.append(other)
            edge = following
        if self.main not in before:
            self._log.note("unknown_clock", f"times of clock {clock[1]} cannot be converted to the trace clock")
            return []
        steps = []
        other = self.main
        while other != clock:
            known = before[other]
            fewest = min((known, other), key=lambda each: len(self._snapshots[each]))
            pairs = sorted(
                (times[known], times[other] - times[known])
                for times in self._snapshots[fewest]
                if known in times and other in times
            )
            steps.append(([time for time, _ in pairs], [offset for _, offset in pairs]))
            other = known
        return steps[::-1]
