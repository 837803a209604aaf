"""How names and labels are sorted: numbers in them by their value."""

from __future__ import annotations

import re

MOST_DIGITS = 19
"""No number that anything real has is longer, and Python refuses to read one of thousands of digits."""
_PIECES = re.compile(r"\d+|\D+")


def natural(name: str) -> list[tuple[bool, int, str]]:
    """Returns what sorts numbers in names by their value: rank2 before rank10."""
    return [(is_number(piece), int(piece) if is_number(piece) else 0, piece) for piece in _PIECES.findall(name)]


def in_order(label: str | None) -> tuple[bool, int, str]:
    """Returns what sorts labels: numbers by their value, before all others."""
    text = label or ""
    return not is_number(text), int(text) if is_number(text) else 0, text


def is_number(text: str) -> bool:
    """Returns whether a text is a whole number of no more digits than anything real has."""
    return text.isdecimal() and len(text) <= MOST_DIGITS
