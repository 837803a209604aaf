"""When a profile was recorded, by the number in its name."""

from __future__ import annotations

_FIRST_PLAUSIBLE_MS = 10**11
"""Spring 1973; a smaller token is a counter and no time."""


def time_of(token: str | None) -> int | None:
    """Returns the wall time of a span token in ms since 1970; None when the number is no plausible time."""
    nanoseconds = nanoseconds_of(token)
    return None if nanoseconds is None else nanoseconds // 1_000_000


def nanoseconds_of(token: str | None) -> int | None:
    """Returns a token as ns since 1970, None for no time.

    Old PyTorch wrote ms, new writes ns; the sizes are a million apart.
    """
    if not token or not token.isdigit():
        return None
    number = int(token)
    for unit in (1_000_000, 1_000, 1):
        if _FIRST_PLAUSIBLE_MS <= number * unit // 1_000_000 < _FIRST_PLAUSIBLE_MS * 100:
            return number * unit
    return None
