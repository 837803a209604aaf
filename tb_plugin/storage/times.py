"""Timestamps from storage systems."""

from __future__ import annotations

from datetime import UTC, datetime

_SECOND = 1_000_000_000


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
