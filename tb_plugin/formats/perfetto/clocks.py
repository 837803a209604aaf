"""Times of any clock of a trace as times of one: its clocks are compared now and then (snapshots)."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from typing import Any

from tb_plugin.formats.issues import IssueLog

BOOT, REAL, MONOTONIC = 6, 1, 3
"""Clocks of the system: since the start of the machine, since 1970, and one that never jumps."""
_OF_SEQUENCE = range(64, 128)
"""Clocks that every sequence of packets has of its own."""
Clock = tuple[int, int]
"""Sequence (0: all), number."""


class Clocks:
    """All snapshots of a trace, gathered before the first time is asked for."""

    def __init__(self, log: IssueLog) -> None:
        self.main: Clock = (0, BOOT)
        """All times are told in it."""
        self._log = log
        self._with: dict[Clock, list[dict[Clock, int]]] = defaultdict(list)
        """Clock -> the snapshots of it: each writer takes its own, of its own clock."""
        self._ways: dict[Clock, list[tuple[list[int], list[int]]]] = {}
        """Clock -> the steps to the main one: times of snapshots, and what to add from there on."""
        self._units: dict[Clock, int] = {}
        self._incremental: set[Clock] = set()
        self._last: dict[Clock, int] = {}

    def add(self, packet: Any) -> None:
        """Takes in a snapshot."""
        snapshot = packet.clock_snapshot
        if not self._with and snapshot.primary_trace_clock:
            self.main = (0, snapshot.primary_trace_clock)
        times = {}
        for stated in snapshot.clocks:
            clock = self.of(packet.sequence, stated.clock_id)
            self._units[clock] = stated.unit_ns or 1
            if stated.is_incremental:
                self._incremental.add(clock)
            times[clock] = stated.timestamp * self._units[clock]
        for clock in times:
            self._with[clock].append(times)

    @staticmethod
    def of(sequence: int, clock_id: int) -> Clock:
        """Returns the clock that a sequence means by a number."""
        return (sequence if clock_id in _OF_SEQUENCE else 0, clock_id)

    def at(self, packet: Any) -> None:
        """Goes on from a snapshot: clocks that state how much time went by begin anew."""
        for stated in packet.clock_snapshot.clocks:
            clock = self.of(packet.sequence, stated.clock_id)
            if clock in self._incremental:
                self._last[clock] = stated.timestamp * self._units[clock]

    def main_ns(self, clock: Clock, stated: int) -> int:
        """Returns a time of a clock as nanoseconds of the main one."""
        time = stated * self._units.get(clock, 1)
        if clock in self._incremental:
            time = self._last[clock] = self._last.get(clock, 0) + time
        if clock == self.main:
            return time
        way = self._ways.get(clock)
        if way is None:
            way = self._ways[clock] = self._way(clock)
        for times, offsets in way:
            time += offsets[max(0, bisect_right(times, time) - 1)]
        return time

    def real_ns(self) -> int | None:
        """Returns what to add to the main clock for the time since 1970; None where no snapshot says it."""
        for times in self._with[0, REAL]:
            if self.main in times:
                return times[0, REAL] - times[self.main]
        return None

    def _way(self, clock: Clock) -> list[tuple[list[int], list[int]]]:
        """The steps from a clock to the main one, fewest first, each over the snapshots that have both of its ends."""
        before: dict[Clock, Clock] = {clock: clock}
        edge = [clock]
        while edge and self.main not in before:
            following = []
            for here in edge:
                for times in self._with[here]:
                    for there in times.keys() - before.keys():
                        before[there] = here
                        following.append(there)
            edge = following
        if self.main not in before:
            self._log.note("unknown_clock", f"nothing says when clock {clock[1]} is on the clock of the trace")
            return []
        steps = []
        there = self.main
        while there != clock:
            here = before[there]
            fewest = min((here, there), key=lambda each: len(self._with[each]))
            pairs = sorted(
                (times[here], times[there] - times[here])
                for times in self._with[fewest]
                if here in times and there in times
            )
            steps.append(([time for time, _ in pairs], [offset for _, offset in pairs]))
            there = here
        return steps[::-1]
