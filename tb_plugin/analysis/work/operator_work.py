"""FLOPs and bytes of the selected operator calls.

A call has work if its operator has a formula and if its inputs are recorded (``formulas.py``). If such calls are
nested, only the outermost one counts. Replayed work of graphs has no work: its inputs are not recorded.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from tb_plugin.analysis.forest import Forest
from tb_plugin.analysis.operator_calls import Calls, operator_calls
from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.work.formulas import Work, has_formula, work_of
from tb_plugin.lib.arrays import Bool, Float64, Int64
from tb_plugin.lib.groupby import group, places_of, sum_by
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable


class OperatorWork(msgspec.Struct, frozen=True, eq=False):
    """Calls with work, one value per call. Peak rates are NaN if unknown."""

    call: Int64
    """Index of the call in ``Calls``."""
    row: Int64
    """Row of the call in the trace."""
    flops: Float64
    bytes: Float64
    kernel_ns: Int64
    """Sum of the kernel times of the call."""
    peak_flops: Float64
    """Operations per nanosecond."""
    peak_bytes: Float64
    """Bytes per nanosecond."""
    number_format: list[str]
    is_matrix: Bool
    """Whether matrix units can do the operations."""
    kernel_total_ns: int
    """Sum of the selected kernel times, without collectives and kernels whose launch was not recorded."""

    @property
    def covered_ratio(self) -> float | None:
        """Returns the share of kernel time that belongs to calls with work; None without kernels."""
        return int(self.kernel_ns.sum()) / self.kernel_total_ns if self.kernel_total_ns else None

    @property
    def compute_ns(self) -> Float64:
        """Returns the least time of the operations at the peak rate. Only matrix products need a known peak."""
        found = np.where(self.flops > 0, self.flops / self.peak_flops, 0.0)
        return np.where(self.is_matrix, found, np.nan_to_num(found))

    @property
    def memory_ns(self) -> Float64:
        """Returns the least time of the bytes at the peak bandwidth."""
        return self.bytes / self.peak_bytes

    @property
    def least_ns(self) -> Float64:
        """Returns the least time on this device: its roofline. NaN if a peak rate is unknown."""
        return np.maximum(self.compute_ns, self.memory_ns)


def operator_work(trace: TraceTable, calls: Calls, kernels: Int64) -> OperatorWork:
    """Returns the work of ``calls``. ``kernels``: the selected kernels."""
    kernels = kernels[~trace.is_collective[kernels] & (trace.launch[kernels] != MISSING)]
    own = np.flatnonzero((calls.row != MISSING) & (calls.kernel_total_ns > 0))
    found = _work(trace, calls.row[own])
    own, found = own[found[:, 0] >= 0], found[found[:, 0] >= 0]
    has_work = np.zeros(len(calls.parent), np.bool_)
    has_work[own] = True
    outer = ~np.append(Forest(calls.parent).inside(has_work), False)[calls.parent[own]]
    own, found = own[outer], found[outer]
    flops, moved, number_format, is_matrix = found.T
    device = _devices(trace, calls, own)
    peak_flops = _peak_flops(
        trace, device, number_format.astype(np.int64), is_matrix > 0, calls.matrix_total_ns[own] > 0
    )
    bandwidth = np.array([*(each.bandwidth or math.nan for each in trace.devices), math.nan])
    return OperatorWork(
        call=own,
        row=calls.row[own],
        flops=flops,
        bytes=moved,
        kernel_ns=calls.kernel_total_ns[own],
        peak_flops=peak_flops,
        peak_bytes=bandwidth[device],
        number_format=[_FORMATS[at] for at in number_format.astype(np.int64).tolist()],
        is_matrix=is_matrix > 0,
        kernel_total_ns=int(trace.dur_ns[kernels].sum()),
    )


@cached_by_argument
def selected_work(trace: TraceTable, steps: tuple[str, ...] | None, phase: str = "", pattern: str = "") -> OperatorWork:
    """Returns the work of the selected calls. Raises BadRequest for an unknown step or phase."""
    selection = select_rows(trace, steps, phase, pattern)
    return operator_work(trace, operator_calls(trace, selection), selection.of(trace, EventKind.KERNEL))


def kernel_time(trace: TraceTable, calls: Calls, kernels: Int64) -> Int64:
    """Returns the kernel time of each call, without collectives. ``kernels``: the selected kernels."""
    kernels = kernels[trace.is_collective[kernels]]
    if not len(kernels):
        return calls.kernel_total_ns
    recorded = np.flatnonzero(calls.row != MISSING)
    place = places_of(calls.row[recorded], len(trace))[trace.operator[kernels]]
    return calls.kernel_total_ns - Forest(calls.parent).sums(sum_by(place, trace.dur_ns[kernels], len(calls.row)))


_FORMATS = ("fp64", "fp32", "fp16", "fp8", "int8")
_UNKNOWN = (-1.0, 0.0, 0.0, 0.0)


def _work(trace: TraceTable, rows: Int64) -> Float64:
    """Returns operations, bytes, number format and whether matrix units can do it, per row; -1 operations = unknown."""
    names = trace.strings.where(has_formula)[trace.name[rows]]
    place = places_of(trace.operators.row, len(trace))[rows]
    at = np.flatnonzero(names & (place != MISSING))
    table = np.tile(_UNKNOWN, (len(rows), 1))
    if not len(at):
        return table
    place = place[at]
    args = trace.operators
    columns = (trace.name[rows[at]], args.shapes[place], args.types[place], args.concrete[place])
    groups = group(*columns)  # few distinct inputs: each is computed once
    texts = [trace.strings.take(column[groups.first]).to_pylist() for column in columns]
    found = [_numbers(work_of(*(text or "" for text in each))) for each in zip(*texts, strict=True)]
    table[at] = np.array(found)[groups.of]
    return table


def _numbers(work: Work | None) -> tuple[float, float, float, float]:
    if work is None or not math.isfinite(work.flops + work.bytes):
        return _UNKNOWN
    return work.flops, work.bytes, float(_FORMATS.index(work.format)), float(work.is_matrix)


def _devices(trace: TraceTable, calls: Calls, some: Int64) -> Int64:
    """Returns the device of each call's kernels; -1 = several."""
    used = np.unique(trace.device[(trace.kind == EventKind.KERNEL) & (trace.device != MISSING)])
    if len(used) == 1:
        return np.full(len(some), used[0], np.int64)
    kernels = np.flatnonzero((trace.kind == EventKind.KERNEL) & (trace.operator != MISSING) & (trace.device != MISSING))
    position = places_of(calls.row[calls.row != MISSING], len(trace))
    owner, device = position[trace.operator[kernels]], trace.device[kernels]
    low, high = np.full(len(calls.row), len(trace.devices)), np.full(len(calls.row), MISSING)
    while (inside := np.flatnonzero(owner != MISSING)).size:
        np.minimum.at(low, owner[inside], device[inside])
        np.maximum.at(high, owner[inside], device[inside])
        owner[inside] = calls.parent[owner[inside]]
    found: Int64 = np.where(low == high, high, MISSING)[some]
    return found


def _peak_flops(trace: TraceTable, device: Int64, number_format: Int64, is_matrix: Bool, on_units: Bool) -> Float64:
    """Returns the peak operations per nanosecond. Single precision has the TF32 peak only on matrix units."""
    table = np.full((len(trace.devices) + 1, len(_FORMATS), 2), np.nan)
    for i, each in enumerate(trace.devices):
        peaks = dict(each.peaks)
        single = peaks.get("fp32", math.nan)
        for j, name in enumerate(_FORMATS):
            # Work other than matrix products: data sheets give the peak of single precision only.
            table[i, j, 0] = single if name in ("fp32", "fp16", "fp8") else math.nan
            table[i, j, 1] = peaks.get(name, math.nan)
        if "tf32" in each.precisions:
            table[i, _FORMATS.index("fp32"), 1] = peaks.get("tf32", math.nan)
    units = is_matrix & (on_units | (number_format != _FORMATS.index("fp32")))
    found: Float64 = table[device, number_format, units.astype(np.int64)]
    return found
