"""Decimal digits as whole numbers of small units, exactly."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import Any

_EXACT = Context(prec=80, rounding=ROUND_HALF_EVEN)
_LARGEST = 2**63 - 1
_FAR = 20
"""Digits before the point of a number that is beyond 64 bits whatever its unit."""


def exactly(value: Any, power: int) -> int | None:
    """Returns a number, or the text of one, times ten to a power, rounded to the nearest whole one (halves to even).

    None where it is no number, or none of 64 bits.
    """
    if value is None or isinstance(value, bool | list | dict):
        return None
    try:
        number = Decimal(str(value).strip())
        # Not the power of ten of a number that is far beyond 64 bits.
        if not number.is_finite() or number.adjusted() > _FAR:
            return None
        found = int(number.scaleb(power, _EXACT).to_integral_value(ROUND_HALF_EVEN, _EXACT))
    except (InvalidOperation, ValueError):  # a whole number of more digits than Python prints
        return None
    return found if abs(found) <= _LARGEST else None
