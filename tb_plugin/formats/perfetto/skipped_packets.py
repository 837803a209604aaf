"""Packets that hold something else than slices, counters and what describes them: counted by what they are."""

from __future__ import annotations

from collections import Counter
from typing import Any

from google.protobuf.unknown_fields import UnknownFieldSet

from tb_plugin.formats.issues import IssueLog

_ABOUT_THE_TRACE = frozenset({33, 34, 35, 36, 45, 46, 49, 51, 67, 69, 72, 78, 89, 107, 124, 126, 128, 134})
"""Fields of packets that speak of the recording: configuration, statistics, the machine, marks of its services."""
_OF_PACKETS = frozenset({3, 79, 80, 81, 87, 98, 106})
"""Fields that any packet may have beside what it holds."""
_KINDS = {
    1: "events of the kernel (ftrace)",
    2: "lists of processes",
    5: "events of old Chromes",
    7: "statistics of the system",
    9: "statistics of processes",
    37: "heap profiles",
    39: "lines of Android's log",
    43: "descriptions of old tracks",
    44: "descriptions of old tracks",
    56: "heap graphs",
    66: "samples of stacks",
    76: "frames of Android",
    133: "bundles in Zstandard's compression",
    135: "samples of stacks",
}


class Unshown:
    """The tally of one trace."""

    def __init__(self, log: IssueLog) -> None:
        self._log = log
        self._kinds: Counter[str] = Counter()

    def add(self, packet: Any) -> None:
        """Counts a packet by the first of its fields that nobody reads; what only describes the recording is left out."""
        fields = {field.field_number for field in UnknownFieldSet(packet)} - _OF_PACKETS
        shown = [field for field in sorted(fields) if field not in _ABOUT_THE_TRACE]
        if shown:
            self._kinds[_KINDS.get(shown[0], f"packets of the kind {shown[0]}")] += 1

    def report(self) -> None:
        """Tells the log; call once."""
        for kind, count in self._kinds.items():
            self._log.add("not_shown", "note", count=count, text=f"{kind} are not shown")
