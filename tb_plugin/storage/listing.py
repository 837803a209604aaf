"""Results of listing a log directory."""

from __future__ import annotations

import msgspec


class StoredFile(msgspec.Struct, frozen=True):
    """A listed file.

    ``path`` is relative to the log directory, with forward slashes. ``size`` is in bytes.
    """

    path: str
    size: int
    fingerprint: str
    """Text that changes whenever the content may have changed: size, modification time or ETag."""
    modified_ns: int | None = None
    """Modification time by the clock of the storage, in nanoseconds since 1970; None if not reported."""


class Unlisted(msgspec.Struct, frozen=True):
    """A directory or file that could not be listed, and why."""

    path: str
    reason: str


class Listing(msgspec.Struct, frozen=True):
    """All files of a log directory, sorted by path."""

    files: tuple[StoredFile, ...]
    unlisted: tuple[Unlisted, ...] = ()
