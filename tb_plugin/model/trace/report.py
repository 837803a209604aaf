"""Results of reading a file: dropped, repaired and unknown events."""

from __future__ import annotations

from typing import Literal

import msgspec

Outcome = Literal["repaired", "dropped", "quarantined", "unknown", "note"]


class Issue(msgspec.Struct, frozen=True):
    """One kind of irregularity. ``code`` is stable; ``first_offset`` is a byte offset in the uncompressed text."""

    code: str
    outcome: Outcome
    text: str
    count: int
    first_offset: int | None = None
    examples: tuple[str, ...] = ()
    file: str = ""
    """Name of the file, if the profile has several files."""


# Codes of issues of truncated files.
_CUT = frozenset({"truncated_tail", "unclosed_list", "gzip_truncated", "zstd_truncated", "database_cut"})
# Codes of issues of files that changed after they were written.
_DAMAGED = frozenset({"gzip_corrupt", "zstd_damaged", "database_damaged"})


class ReadReport(msgspec.Struct, frozen=True):
    """Result of reading a file. ``text_bytes`` is its size after decompression."""

    format: str
    file_bytes: int
    text_bytes: int
    events_in_file: int = 0
    events_loaded: int = 0
    events_repaired: int = 0
    events_dropped: int = 0
    events_quarantined: int = 0
    events_unknown: int = 0
    events_other: int = 0
    """Valid events that become neither a row nor a value, such as names, flow events and marks."""
    events_outside: int = 0
    """Number of events outside the opened window; 0 if the whole file was opened."""
    complete: bool = True
    """False if the file is truncated or damaged."""
    issues: tuple[Issue, ...] = msgspec.field(default=())
    records: str = "events"
    """Plural word for the entries of a file, such as events; empty if the entries cannot be counted."""

    @property
    def cut_files(self) -> list[str]:
        """Returns the names of truncated and damaged files. Returns no names if the profile has only one file."""
        if self.complete:
            return []
        return sorted({issue.file for issue in self.issues if issue.code in _CUT | _DAMAGED and issue.file})

    @property
    def is_damaged(self) -> bool:
        """Returns whether a file contains bytes that its archive cannot have, so that waiting does not help."""
        return not self.complete and any(issue.code in _DAMAGED for issue in self.issues)
