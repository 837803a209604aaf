"""Natural sort order of names and labels."""

from __future__ import annotations

import re

# longer numbers are implausible, and Python refuses to parse thousands of digits
MAX_DIGITS = 19
_PIECES = re.compile(r"\d+|\D+")


def natural_key(name: str) -> list[tuple[bool, int, str]]:
    """Returns a sort key that puts ``rank2`` before ``rank10``."""
    return [(is_number(piece), int(piece) if is_number(piece) else 0, piece) for piece in _PIECES.findall(name)]


def in_order(label: str | None) -> tuple[bool, int, str]:
    """Returns a sort key for step labels. Numbers come first, sorted by value."""
    text = label or ""
    return not is_number(text), int(text) if is_number(text) else 0, text


def is_number(text: str) -> bool:
    """Returns whether a text is a whole number with a plausible number of digits."""
    return text.isdecimal() and len(text) <= MAX_DIGITS
