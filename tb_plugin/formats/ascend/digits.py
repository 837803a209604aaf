"""Exact scaling of decimal numbers to integers."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import Any

_EXACT = Context(prec=80, rounding=ROUND_HALF_EVEN)
_MAX_NUMBER = 2**63 - 1
_MAX_DIGITS = 20  # numbers with more digits before the decimal point exceed 64 bits in any unit


def scaled_exactly(value: Any, power: int) -> int | None:
    """Returns ``value`` (a number or text) times 10**``power``, rounded to the nearest integer (half to even).

    Returns None if the number is invalid or the result exceeds 64 bits.
    """
    if value is None or isinstance(value, bool | list | dict):
        return None
    try:
        number = Decimal(str(value).strip())
        # Far beyond 64 bits: do not compute a huge power of ten.
        if not number.is_finite() or number.adjusted() > _MAX_DIGITS:
            return None
        found = int(number.scaleb(power, _EXACT).to_integral_value(ROUND_HALF_EVEN, _EXACT))
    except (InvalidOperation, ValueError):  # an integer with more digits than Python prints
        return None
    return found if abs(found) <= _MAX_NUMBER else None
