"""Results of listing a log directory."""

from __future__ import annotations

import msgspec


class StoredFile(msgspec.Struct, frozen=True):
    """A file; ``path`` is relative to the log directory, with forward slashes. ``size`` is in bytes."""

    path: str
    size: int
    fingerprint: str
    """Changes whenever the content may have changed (size, modification time, etag)."""
    modified_ns: int | None = None
    """Modification time, nanoseconds since 1970 by the clock of the storage; None if not reported."""


class Unlisted(msgspec.Struct, frozen=True):
    """A directory or file that could not be read, and why."""

    path: str
    reason: str


class Listing(msgspec.Struct, frozen=True):
    """Everything found by one walk, sorted by path."""

    files: tuple[StoredFile, ...]
    unlisted: tuple[Unlisted, ...] = ()
