"""Exact integer nanoseconds and bytes from decimal texts."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.formats.ascend.csv_table import floats_of, trimmed_cells
from tb_plugin.formats.issues import IssueLog

# below this value, floats are accurate to 0.001, so only products near one half need decimal arithmetic
_CERTAIN_BELOW = 2.0**40
_MAX_NUMBER = 9.2e18
_EXACT = Context(prec=80, rounding=ROUND_HALF_EVEN)


def texts_of(values: Sequence[Any], log: IssueLog) -> pa.Array:
    """Converts JSON values to texts; null = missing. Logs values of unexpected type and treats them as missing."""
    texts = [str(value) if type(value) is int else value if isinstance(value, str) else None for value in values]
    odd = sum(text is None for text in texts) - sum(value is None for value in values)
    if odd:
        log.add("odd_value", "note", count=odd, text="values of an unexpected type are treated as missing")
    return trimmed_cells(pa.array(texts, pa.string()))


def scaled_integers(texts: pa.Array, power: int, log: IssueLog, *, least: int | None = 0) -> pa.Array:
    """Returns texts times 10**``power``. Numbers that are invalid, below ``least`` or too large become null."""
    values = floats_of(texts, log)
    has_value = np.asarray(pc.is_valid(values))
    with np.errstate(over="ignore"):  # such numbers are treated as missing
        product = np.where(has_value, np.asarray(pc.fill_null(values, 0.0)), 0.0) * 10.0**power
    within = np.isfinite(product) & (np.abs(product) < _MAX_NUMBER)
    product = np.where(within, product, 0.0)
    made = np.rint(product).astype(np.int64)
    unsure = np.flatnonzero((np.abs(product) >= _CERTAIN_BELOW) | (np.abs(np.abs(product % 1) - 0.5) < 0.002))
    for place in unsure.tolist():
        try:
            exact = Decimal(texts[place].as_py()).scaleb(power, _EXACT)
            made[place] = int(exact.to_integral_value(ROUND_HALF_EVEN, _EXACT))
        except InvalidOperation:  # a spelling that only Arrow reads
            continue
    if least is not None:
        within &= made >= least
    if lost := int((has_value & ~within).sum()):
        log.add("bad_cell", "note", count=lost)
    return pa.array(made, mask=~(has_value & within))
