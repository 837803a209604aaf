"""FLOPs and bytes of the selected operator calls.

A call has work if its operator has a formula and if its inputs are recorded (``formulas.py``). If such calls are
nested, only the outermost one counts. Replayed work of graphs has no work: its inputs are not recorded.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from tb_plugin.analysis.operator_calls import call_nesting
from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.work.formulas import Work, has_formula, work_of
from tb_plugin.lib.arrays import Bool, Float64, Int32, Int64
from tb_plugin.lib.groupby import group, places_of, sum_by
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, EventKind, MatrixUse
from tb_plugin.model.trace.table import TraceTable

NUMBER_FORMATS = ("fp64", "fp32", "fp16", "fp8", "int8")


class OperatorWork(msgspec.Struct, frozen=True, eq=False):
    """Calls with work, one value per call. Peak rates are NaN if unknown."""

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
    number_format: Int64
    """Index in ``NUMBER_FORMATS``."""
    is_matrix: Bool
    """Whether matrix units can do the operations."""
    kernel: Int64
    """Rows of the kernels of these calls, sorted."""
    kernel_call: Int32
    """Index of the call of each kernel."""
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


@cached_by_argument
def operator_work(trace: TraceTable, steps: tuple[str, ...] | None, phase: str = "", pattern: str = "") -> OperatorWork:
    """Returns the work of the selected calls. Raises BadRequest for an unknown step or phase."""
    selection = select_rows(trace, steps, phase, pattern)
    kernels = selection.of(trace, EventKind.KERNEL)
    kernels = kernels[~trace.is_collective[kernels] & (trace.launch[kernels] != MISSING)]
    some = _candidates(trace, selection.rows)
    found = _work(trace, some)
    some, found = some[found[:, 0] >= 0], found[found[:, 0] >= 0]
    rows = trace.operators.row[some].astype(np.int64)
    call = _outermost_calls(trace, rows, kernels)
    used = np.flatnonzero(sum_by(call, trace.dur_ns[kernels], len(rows)) > 0)
    call = places_of(used, len(rows))[call]
    covered, call = kernels[call != MISSING], call[call != MISSING]
    flops, moved, number_format, is_matrix = found[used].T
    device = _devices(trace.device[covered], call, len(used))
    matrix = trace.uses_matrix_unit[covered] == MatrixUse.YES
    on_units = np.bincount(call[matrix & (trace.dur_ns[covered] > 0)], minlength=len(used)) > 0
    bandwidth = np.array([*(each.bandwidth or math.nan for each in trace.devices), math.nan])
    formats = number_format.astype(np.int64)
    return OperatorWork(
        row=rows[used],
        flops=flops,
        bytes=moved,
        kernel_ns=sum_by(call, trace.dur_ns[covered], len(used)),
        peak_flops=_peak_flops(trace, device, formats, is_matrix > 0, on_units),
        peak_bytes=bandwidth[device],
        number_format=formats,
        is_matrix=is_matrix > 0,
        kernel=covered,
        kernel_call=call,
        kernel_total_ns=int(trace.dur_ns[kernels].sum()),
    )


def _candidates(trace: TraceTable, selected: Bool) -> Int64:
    """Returns indices in ``trace.operators``: selected calls of operators with a formula and with recorded shapes."""
    args = trace.operators
    names = trace.strings.where(has_formula)
    return np.flatnonzero(names[trace.name[args.row]] & (args.shapes != MISSING) & selected[args.row])


def _outermost_calls(trace: TraceTable, rows: Int64, kernels: Int64) -> Int32:
    """Returns the index in ``rows`` of the outermost call around each kernel; -1 = none."""
    place = places_of(rows, len(trace))
    above = call_nesting(trace).call
    found = np.full(len(kernels), MISSING, np.int32)
    at = np.flatnonzero(trace.operator[kernels] != MISSING)
    call = trace.operator[kernels[at]]
    while len(at):
        inside = place[call] != MISSING
        found[at[inside]] = place[call[inside]]
        call = above[call]
        at, call = at[call != MISSING], call[call != MISSING]
    return found


def _devices(device: Int32, call: Int32, count: int) -> Int64:
    """Returns the device of the kernels of each call; -1 = several."""
    low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, MISSING)
    np.minimum.at(low, call, device)
    np.maximum.at(high, call, device)
    found: Int64 = np.where(low == high, high, MISSING)
    return found


_UNKNOWN = (-1.0, 0.0, 0.0, 0.0)


def _work(trace: TraceTable, place: Int64) -> Float64:
    """Returns operations, bytes, number format and whether matrix units can do it, per row; -1 operations = unknown."""
    if not len(place):
        return np.tile(_UNKNOWN, (0, 1))
    args = trace.operators
    columns = (trace.name[args.row[place]], args.shapes[place], args.types[place], args.concrete[place])
    groups = group(*columns)  # few distinct inputs: each is computed once
    texts = [trace.strings.take(column[groups.first]).to_pylist() for column in columns]
    found = [_numbers(work_of(*(text or "" for text in each))) for each in zip(*texts, strict=True)]
    table: Float64 = np.array(found)[groups.of]
    return table


def _numbers(work: Work | None) -> tuple[float, float, float, float]:
    if work is None or not math.isfinite(work.flops + work.bytes):
        return _UNKNOWN
    return work.flops, work.bytes, float(NUMBER_FORMATS.index(work.format)), float(work.is_matrix)


def _peak_flops(trace: TraceTable, device: Int64, number_format: Int64, is_matrix: Bool, on_units: Bool) -> Float64:
    """Returns the peak operations per nanosecond. Single precision has the TF32 peak only on matrix units."""
    table = np.full((len(trace.devices) + 1, len(NUMBER_FORMATS), 2), np.nan)
    for i, each in enumerate(trace.devices):
        peaks = dict(each.peaks)
        single = peaks.get("fp32", math.nan)
        for j, name in enumerate(NUMBER_FORMATS):
            # Work other than matrix products: data sheets give the peak of single precision only.
            table[i, j, 0] = single if name in ("fp32", "fp16", "fp8") else math.nan
            table[i, j, 1] = peaks.get(name, math.nan)
        if "tf32" in each.precisions:
            table[i, NUMBER_FORMATS.index("fp32"), 1] = peaks.get("tf32", math.nan)
    units = is_matrix & (on_units | (number_format != NUMBER_FORMATS.index("fp32")))
    found: Float64 = table[device, number_format, units.astype(np.int64)]
    return found
