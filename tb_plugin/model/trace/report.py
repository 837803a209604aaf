"""What happened while a file was read: nothing is dropped, repaired or left unknown without a count."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Outcome = Literal["repaired", "dropped", "quarantined", "unknown", "note"]


@dataclass(frozen=True)
class Issue:
    """One kind of irregularity met in a file.

    ``code`` is stable and machine readable (``bad_escape``, ``truncated_tail``, ``unknown_category`` ...),
    ``text`` says it in words, ``count`` counts events (or places), ``first_offset`` is the byte offset of the
    first one in the uncompressed text, ``examples`` are at most five short excerpts.
    """

    code: str
    outcome: Outcome
    text: str
    count: int
    first_offset: int | None = None
    examples: tuple[str, ...] = ()
    file: str = ""
    """Name of the file that it was met in, of a profile of several; empty where there is one."""


_CUT = frozenset({"truncated_tail", "unclosed_list", "gzip_truncated", "database_cut"})
"""Codes of issues of a file that ends early, where the report is not complete."""


@dataclass(frozen=True)
class ReadReport:
    """How a file was read. Byte counts are of the stored file and of its uncompressed text."""

    format: str
    file_bytes: int
    text_bytes: int
    events_seen: int = 0
    events_kept: int = 0
    events_repaired: int = 0
    events_dropped: int = 0
    events_quarantined: int = 0
    events_unknown: int = 0
    events_other: int = 0
    """Valid events that are neither rows nor values of memory or counters: names, flows, marks."""
    events_outside: int = 0
    """Events outside the window that was opened; 0 where all of the file was."""
    complete: bool = True
    """False when the file is cut off."""
    issues: tuple[Issue, ...] = field(default=())
    records: str = "events"
    """What the counts count; empty where the format has nothing to count."""

    @property
    def cut_files(self) -> list[str]:
        """Returns the names of the files that end early, of a profile of several; empty of a file that was read whole."""
        if self.complete:
            return []
        return sorted({issue.file for issue in self.issues if issue.code in _CUT and issue.file})
