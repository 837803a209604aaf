"""Number of packets that are not displayed."""

from __future__ import annotations

from collections import Counter
from typing import Any

from google.protobuf.unknown_fields import UnknownFieldSet

from tb_plugin.formats.issues import IssueLog

# fields that describe the recording: configuration, statistics, machine, service events
_RECORDING_FIELDS = frozenset({33, 34, 35, 36, 45, 46, 49, 51, 67, 69, 72, 78, 89, 107, 124, 126, 128, 134})
_COMMON_FIELDS = frozenset({3, 79, 80, 81, 87, 98, 106})  # fields that any packet may have
_KINDS = {
    1: "kernel events (ftrace)",
    2: "process lists",
    5: "events of old Chrome versions",
    7: "system statistics",
    9: "process statistics",
    37: "heap profiles",
    39: "Android log lines",
    43: "old track descriptions",
    44: "old track descriptions",
    56: "heap graphs",
    66: "stack samples",
    76: "Android frames",
    133: "bundles compressed with Zstandard",
    135: "stack samples",
}


class Unshown:
    """Counts packets that are not displayed."""

    def __init__(self, log: IssueLog) -> None:
        self._log = log
        self._kinds: Counter[str] = Counter()

    def add(self, packet: Any) -> None:
        """Counts a packet under the name of its first unread field. Packets that only describe the recording are ignored."""
        fields = {field.field_number for field in UnknownFieldSet(packet)} - _COMMON_FIELDS
        shown = [field for field in sorted(fields) if field not in _RECORDING_FIELDS]
        if shown:
            self._kinds[_KINDS.get(shown[0], f"packets of kind {shown[0]}")] += 1

    def report(self) -> None:
        """Logs how many packets are not displayed. Call it once."""
        for kind, count in self._kinds.items():
            self._log.add("not_shown", "note", count=count, text=f"{kind} are not shown")
