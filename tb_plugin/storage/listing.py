"""Listings of log directories."""

from __future__ import annotations

import msgspec


class StoredFile(msgspec.Struct, frozen=True):
    """A listed file.

    ``path`` is relative to the log directory, with forward slashes. ``size`` is in bytes.
    """

    path: str
    size: int
    fingerprint: str
    """Text that changes with the size, the modification time or the ETag of the file."""
    modified_ns: int | None = None
    """Modification time in nanoseconds since 1970, by the clock of the storage; None if not reported."""


class Unlisted(msgspec.Struct, frozen=True):
    """A directory or file that could not be listed, and the reason."""

    path: str
    reason: str


class Listing(msgspec.Struct, frozen=True):
    """All files of a log directory, sorted by path."""

    files: tuple[StoredFile, ...]
    unlisted: tuple[Unlisted, ...] = ()
