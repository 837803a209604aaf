"""Exact integers from the numbers in a job analysis."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeVar

from tb_plugin.formats.ascend.digits import scaled_exactly
from tb_plugin.formats.issues import IssueLog

Value = TypeVar("Value")
MOST_RANK = 10**9
_NONE = frozenset({"", "NA", "N/A", "NULL", "nan", "NaN", "None"})
_RANKS = re.compile(r"[0-9]{1,9}")


def scaled_integer(value: Any, power: int, log: IssueLog) -> int | None:
    """Returns ``value`` times 10**``power``, rounded to the nearest integer, or None if missing."""
    return _logged(value, scaled_exactly(value, power), log)


def float_of(value: Any, log: IssueLog) -> float | None:
    """Returns a number as a float, or None if missing."""
    try:
        found = None if value is None or isinstance(value, bool | list | dict) else float(value)
    except (ValueError, OverflowError):
        found = None
    return _logged(value, found if found is not None and abs(found) < float("inf") else None, log)


def rank_of(value: Any) -> int | None:
    """Returns a rank given as a number or text, or None if invalid."""
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()
    digits = text.lstrip("0") or "0"
    return int(digits) if text.isascii() and text.isdecimal() and len(digits) < len(str(MOST_RANK)) else None


def ranks_in(value: Any) -> list[int]:
    """Returns the distinct ranks in a list or in a text such as "(0, 1)", sorted."""
    if isinstance(value, list):
        found: Iterable[int | None] = (rank_of(each) for each in value)
    else:
        found = (int(text) for text in _RANKS.findall(value)) if isinstance(value, str) else ()
    return sorted({rank for rank in found if rank is not None})


def step_of(value: Any) -> str | None:
    """Returns a step number as text, or None if missing."""
    text = str(value).strip().removeprefix("step") if value is not None else ""
    return text or None


def _logged(value: Any, found: Value | None, log: IssueLog) -> Value | None:
    """Returns ``found``. If it is None, logs an invalid cell, unless the cell is marked as empty."""
    if found is None and (isinstance(value, list | dict) or str(value).strip() not in _NONE):
        log.add(
            "bad_cell", "note", example="a list or an object" if isinstance(value, list | dict) else str(value)[:80]
        )
    return found
