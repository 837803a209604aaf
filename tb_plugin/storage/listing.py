"""Listings of log directories."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

_SECOND = 1_000_000_000


class StoredFile(msgspec.Struct, frozen=True):
    """A listed file. ``path`` is relative to the log directory, with forward slashes. ``size`` is in bytes."""

    path: str
    size: int
    fingerprint: str
    """Text that changes with the size, the modification time or the ETag of the file."""
    modified_ns: int | None = None
    """Modification time in nanoseconds since 1970, by the clock of the storage; None if not reported."""


class Unlisted(msgspec.Struct, frozen=True):
    path: str
    reason: str


class Listing(msgspec.Struct, frozen=True):
    files: tuple[StoredFile, ...]
    unlisted: tuple[Unlisted, ...] = ()


def nanoseconds(stated: object) -> int | None:
    """Converts a datetime, an ISO 8601 text or seconds to nanoseconds since 1970. Returns None for any other value."""
    if isinstance(stated, str):
        try:
            stated = datetime.fromisoformat(stated)
        except ValueError:
            return None
    if isinstance(stated, datetime):
        aware = stated if stated.tzinfo is not None else stated.replace(tzinfo=UTC)
        # Whole microseconds: today's time as a float of seconds is not precise enough.
        since = aware - datetime(1970, 1, 1, tzinfo=UTC)
        return (since.days * 86_400 + since.seconds) * _SECOND + since.microseconds * 1000
    if isinstance(stated, int | float) and not isinstance(stated, bool) and 0 <= stated < 1e11:
        return int(stated * _SECOND)
    return None
