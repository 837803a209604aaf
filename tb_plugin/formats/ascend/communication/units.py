"""Decimal digits as whole nanoseconds and bytes, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.formats.ascend.csv_table import cleaned
from tb_plugin.formats.ascend.digits import exactly
from tb_plugin.formats.issues import IssueLog

_CERTAIN_BELOW = 2.0**40
"""Products below it are off by less than a thousandth, so that only those next to a half need their digits."""
_MOST = 9.2e18


def texts_of(values: Sequence[Any], log: IssueLog) -> pa.Array:
    """Returns JSON values as texts, null where there is none; what is neither text nor number counts as none, and is told."""
    odd = sum(1 for value in values if value is not None and not isinstance(value, str))
    if odd:
        log.add("odd_value", "note", count=odd, text="values of another type than they should have count as absent")
        values = [value if isinstance(value, str) else None for value in values]
    return cleaned(pa.array(values, pa.string()))


def scaled_integers(texts: pa.Array, power: int, log: IssueLog, *, least: int | None = 0) -> pa.Array:
    """Returns texts of decimal numbers, times ten to a power, as whole numbers; null where there is none.

    What is no number, less than ``least`` or beyond 64 bits counts as absent, and is told.
    """
    values = numbers(texts, log)
    there = np.asarray(pc.is_valid(values))
    with np.errstate(over="ignore"):  # such a number counts as absent
        product = np.where(there, np.asarray(pc.fill_null(values, 0.0)), 0.0) * 10.0**power
    within = np.isfinite(product) & (np.abs(product) < _MOST)
    product = np.where(within, product, 0.0)
    made = np.rint(product).astype(np.int64)
    unsure = np.flatnonzero((np.abs(product) >= _CERTAIN_BELOW) | (np.abs(np.abs(product % 1) - 0.5) < 0.002))
    for place in unsure.tolist():
        if (exact := exactly(texts[place].as_py(), power)) is not None:
            made[place] = exact
    if least is not None:
        within &= made >= least
    if lost := int((there & ~within).sum()):
        log.add("bad_cell", "note", count=lost)
    return pa.array(made, mask=~(there & within))


def numbers(texts: pa.Array, log: IssueLog) -> pa.Array:
    """Returns texts as floats, null where they are no numbers, which is told."""
    try:
        return pc.cast(texts, pa.float64())
    except pa.ArrowInvalid:
        made = [_number(text) for text in texts.to_pylist()]
        if bad := sum(one is None for one in made) - texts.null_count:
            log.add("bad_cell", "note", count=bad)
        return pa.array(made, pa.float64())


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
