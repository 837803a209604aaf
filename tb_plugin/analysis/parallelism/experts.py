"""Token balance across experts (MoE), from recorded split sizes."""

from __future__ import annotations

import re

import msgspec
import numpy as np

from tb_plugin.analysis.parallelism.roles import Role, roles_of
from tb_plugin.lib.arrays import Float64, Int64
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable

# Limits the digits, because texts may contain any number.
_TOKEN_COUNTS = re.compile(r"^\s*\[\s*\d{1,15}(?:\s*,\s*\d{1,15})*\s*\]\s*$")
_NUMBER = re.compile(r"\d+")


class Dispatched(msgspec.Struct, frozen=True, eq=False):
    """Token dispatches with recorded split sizes, sorted by device and time."""

    row: Int64
    ratio: Float64
    """Largest token count of a rank, divided by the mean token count of all ranks."""
    experts_ns: Int64
    """Time of expert GEMMs between this dispatch and the next dispatch on the same device."""
    most: Int64
    """Index within the process group of the rank with the most tokens."""
    without: int
    """Number of dispatches without usable split sizes: not recorded, truncated or all equal."""

    def __len__(self) -> int:
        return len(self.row)


@cached_by_argument
def token_dispatches(trace: TraceTable) -> Dispatched:
    roles = roles_of(trace)
    rows = roles.row[roles.among(Role.DISPATCH)]
    rows = rows[np.lexsort((trace.start_ns[rows], trace.device[rows]))]
    sizes = [split_sizes(text) for text in _texts(trace, rows)]
    known = np.array([len(each) > 1 and sum(each) > 0 for each in sizes], np.bool_)
    kept = [each for each, told in zip(sizes, known.tolist(), strict=True) if told]
    ratio = np.array([max(each) * len(each) / sum(each) for each in kept])
    most = np.array([each.index(max(each)) for each in kept], np.int64)
    experts = roles.row[roles.among(Role.EXPERTS)]
    spent = _until_next(trace, rows, experts)
    return Dispatched(rows[known], ratio, spent[known], most, int((~known).sum()))


def _texts(trace: TraceTable, rows: Int64) -> list[str]:
    """Returns the split sizes recorded with each kernel, or with an operator that encloses its launch; "" = none."""
    key = trace.recorder.parallel.split_sizes[0]
    column = next((each for each in trace.others if each.key == key and each.is_text), None)
    if column is None:
        return [""] * len(rows)
    text = np.full(len(trace) + 1, MISSING, np.int64)
    text[column.row] = column.value
    at, found = rows.copy(), text[rows]
    while ((found == MISSING) & (at != MISSING)).any():
        at = np.append(trace.operator, MISSING)[at].astype(np.int64)
        found = np.where(found == MISSING, text[at], found)
    return ["" if each == MISSING else trace.strings[each] for each in found.tolist()]


def split_sizes(text: str) -> list[int]:
    """Parses the number of elements per rank. Empty if the text is truncated (``[1, 2, ...]``)."""
    return [int(each) for each in _NUMBER.findall(text)] if _TOKEN_COUNTS.match(text) else []


def _until_next(trace: TraceTable, rows: Int64, experts: Int64) -> Int64:
    """Returns, for each dispatch, the time of expert GEMMs that start between it and the next dispatch on the same device."""
    experts = experts[np.lexsort((trace.start_ns[experts], trace.device[experts]))]
    device, start = trace.device[experts], trace.start_ns[experts]
    spent = np.zeros(len(rows), np.int64)
    for each in np.unique(trace.device[rows]).tolist():
        mine, made = np.flatnonzero(trace.device[rows] == each), np.flatnonzero(device == each)
        total = np.append(0, np.cumsum(trace.dur_ns[experts[made]]))
        first = np.searchsorted(start[made], trace.start_ns[rows[mine]])
        spent[mine] = total[np.append(first[1:], len(made))] - total[first]
    return spent
