"""Exact conversion of microseconds to integer nanoseconds.

Below 2^43 us, a float64 is accurate to half a nanosecond, so rounding its fraction restores the digits in the file.
``value * 1000`` would be wrong: above 2^42 us, the product is rounded to half a nanosecond. Microseconds since 1970
(1.7e15) are far larger, so these times are parsed from text.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import Any

import numpy as np

from tb_plugin.lib.arrays import Int64

EXACT_BELOW_US = float(2**43)
INT64_MAX = 2**63 - 1
_MAX_WHOLE_US = INT64_MAX // 1000
_ROUND = Context(prec=60, rounding=ROUND_HALF_EVEN)
_DOT, _SPACE, _ZERO, _NINE = b". 09"


class NeedsDigits(Exception):
    """Floats cannot represent these times to the nanosecond. Decode the events again with undecoded digits as times."""


def from_numbers(values: Sequence[Any]) -> tuple[Int64, int]:
    """Converts microseconds to nanoseconds. Also returns how many were limited to 64 bits. Raises NeedsDigits."""
    if not values:
        return np.empty(0, np.int64), 0
    if isinstance(values[0], str):  # written by Ascend's tools
        return _from_texts(values)
    if isinstance(values[0], int):  # whole microseconds, as in most traces before 2024
        try:
            whole = np.frombuffer(struct.pack(f"{len(values)}q", *values), np.int64)
        except struct.error:
            pass
        else:
            within = max(int(whole.max()), -int(whole.min())) < _MAX_WHOLE_US
            return (whole * 1000, 0) if within else _one_by_one(values)
    try:
        floats = np.frombuffer(struct.pack(f"{len(values)}d", *values), np.float64)
    except (struct.error, OverflowError, TypeError):
        return _one_by_one(values)
    if np.abs(floats).max() < EXACT_BELOW_US:  # False for NaN as well
        whole_us = np.floor(floats)
        return whole_us.astype(np.int64) * 1000 + np.rint((floats - whole_us) * 1000.0).astype(np.int64), 0
    return _one_by_one(values)


def from_digits(texts: Sequence[Any]) -> tuple[Int64, int]:
    """Converts microseconds (JSON text of numbers) to nanoseconds. Also returns how many values were limited to 64 bits."""
    if not texts:
        return np.empty(0, np.int64), 0
    joined = b" ".join(texts) + b" "
    if joined.startswith(b'"'):
        joined = joined.replace(
            b'"', b""
        )  # quotes inside a string follow a backslash, so such text is still not a number
    found = _three_decimals(joined, len(texts))
    if found is not None:
        return found, 0
    return _one_by_one([bytes(text).strip(b'"').decode("utf-8", "replace") for text in texts])


def _from_texts(values: Sequence[Any]) -> tuple[Int64, int]:
    found = from_texts(values)
    if found is not None:
        return found, 0
    odd = [i for i, value in enumerate(values) if not isinstance(value, str) or value[-4:-3] != "."]
    if 4 * len(odd) > len(values):
        return _one_by_one(values)
    left = set(odd)
    plain = from_texts([value for i, value in enumerate(values) if i not in left])
    if plain is None:
        return _one_by_one(values)
    made = np.empty(len(values), np.int64)
    made[odd], clamped = _one_by_one([values[i] for i in odd])
    is_plain = np.ones(len(values), np.bool_)
    is_plain[odd] = False
    made[is_plain] = plain
    return made, clamped


def from_texts(values: Sequence[str]) -> Int64 | None:
    """Converts microseconds with exactly three decimals to nanoseconds. Returns None if any text has another form."""
    for ending in ("", "\t"):  # tools append a tab so that spreadsheets treat the number as text
        try:
            joined = " ".join(values).encode("ascii").replace(f"{ending} ".encode(), b" ")
        except (TypeError, UnicodeEncodeError):
            return None
        found = _three_decimals(joined.removesuffix(ending.encode()) + b" ", len(values))
        if found is not None:
            return found
    return None


def _three_decimals(joined: bytes, count: int) -> Int64 | None:
    letters = np.frombuffer(joined, np.uint8)
    ends = np.flatnonzero(letters == _SPACE)
    dots = np.flatnonzero(letters == _DOT)
    digits = np.count_nonzero((letters >= _ZERO) & (letters <= _NINE))
    if not len(dots) == len(ends) == count or len(joined) != digits + 2 * count:
        return None
    # Nanoseconds since 1970 have 19 digits. They fit into 64 bits, and into 63 bits until 2262.
    if not np.all(ends - dots == 4) or int(np.diff(ends, prepend=-1).max()) > 21:
        return None
    whole = np.fromstring(joined.replace(b".", b"").decode(), dtype=np.uint64, sep=" ")
    return whole.astype(np.int64) if int(whole.max()) <= INT64_MAX else None


def _one_by_one(values: Sequence[Any]) -> tuple[Int64, int]:
    whole = [nanoseconds(value) for value in values]
    clamped = sum(1 for value in whole if abs(value) > INT64_MAX)
    return np.array([max(-INT64_MAX, min(INT64_MAX, value)) for value in whole], np.int64), clamped


def nanoseconds(value: Any) -> int:
    """Converts microseconds to nanoseconds, rounded to the nearest integer. Raises NeedsDigits, ValueError."""
    if isinstance(value, int):
        return value * 1000
    if isinstance(value, float):
        if not abs(value) < EXACT_BELOW_US:
            raise NeedsDigits
        whole_us = math.floor(value)
        return whole_us * 1000 + round((value - whole_us) * 1000)
    try:
        number = Decimal(str(value).strip())
        if not number.is_finite():
            raise ValueError(value)
        if number.adjusted() > 20:  # far beyond 64 bits: do not compute a huge power of ten
            return (INT64_MAX + 1) * (-1 if number < 0 else 1)
        return int(number.scaleb(3, _ROUND).quantize(Decimal(1), context=_ROUND))
    except InvalidOperation as error:
        raise ValueError(value) from error


def is_time(value: Any) -> bool:
    """Returns True if ``value`` (JSON or raw JSON) is a valid time."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value == value and value not in (float("inf"), float("-inf"))
    if isinstance(value, str):
        text = value
    elif value is None or isinstance(value, bool | list | dict):
        return False
    else:
        text = bytes(value).strip(b'"').decode("utf-8", "replace")
    try:
        return Decimal(text.strip()).is_finite()
    except InvalidOperation:
        return False
