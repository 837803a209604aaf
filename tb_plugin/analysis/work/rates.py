"""Rates of operators compared with the peaks of their devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from tb_plugin.analysis.forest import Forest, with_ancestors
from tb_plugin.analysis.metrics import CHOSEN, define
from tb_plugin.analysis.operator_calls import Calls
from tb_plugin.analysis.work.operator_work import OperatorWork, launched_computation
from tb_plugin.lib.arrays import Bool, Float64, Int64
from tb_plugin.lib.groupby import Groups, Whole, places_of, sum_by
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable

METRICS = {
    **define(CHOSEN, "number", {"tflops_per_second": ("TFLOP/s", "FLOPs divided by kernel time.")}),
    **define(CHOSEN, "bytes_per_second", {"moved_bandwidth": ("Bandwidth", "Bytes divided by kernel time.")}),
    **define(
        CHOSEN,
        "ratio",
        {
            "peak_ratio": ("Peak share", "Time at peak rates divided by kernel time; empty above 105 %."),
            "covered_ratio": ("Kernel time covered", "Share of kernel time, except communication, with known FLOPs."),
        },
    ),
    **define(
        CHOSEN,
        "text",
        {
            "bound": (
                "Limited by",
                "compute or memory; below 30 % of both: short (kernels below 5 µs per call) or neither; above 105 %: "
                "above peak (cached data, or an error of the formula or a clock).",
            )
        },
    ),
}
COLUMNS = ("peak_ratio", "bound", "tflops_per_second", "moved_bandwidth", "covered_ratio")
# Columns that a table hides at first if it shows more than rates.
HIDDEN = ("tflops_per_second", "moved_bandwidth", "covered_ratio")
# A higher share of the peak is an error of the formula or of a clock, or data in a cache.
MAX_PEAK_RATIO = 1.05
# Below this share of the peak, neither compute nor memory is the limit.
FAR_RATIO = 0.3
# The fixed cost of a kernel is a large part of shorter calls.
SHORT_NS = 5_000


class WorkSums(msgspec.Struct, frozen=True, eq=False):
    """Sums over calls with work, one value per row."""

    calls: Float64
    flops: Float64
    bytes: Float64
    kernel_ns: Float64
    peak_kernel_ns: Float64
    """Part of ``kernel_ns`` of calls whose peak rates are known. The least times are sums over these calls."""
    compute_ns: Float64
    memory_ns: Float64
    least_ns: Float64
    total_ns: Float64
    """Kernel time of all calls, with and without work."""

    def each(self, change: Callable[[Float64], Float64]) -> WorkSums:
        """Applies ``change`` to each column."""
        return WorkSums(*(change(getattr(self, name)) for name in self.__struct_fields__))

    @property
    def peak_ratio(self) -> Float64:
        """Returns the least time divided by the kernel time. NaN above 105 %, or if no peak rate is known."""
        found = _divided(self.least_ns, self.peak_kernel_ns)
        found[self.is_above_peak] = np.nan
        return found

    @property
    def is_above_peak(self) -> Bool:
        return self.least_ns > MAX_PEAK_RATIO * self.peak_kernel_ns


def work_sums(work: OperatorWork) -> WorkSums:
    """Returns the work of each call."""
    has_peak = ~np.isnan(work.least_ns)

    def with_peak(values: Float64) -> Float64:
        return np.where(has_peak, values, 0.0)

    kernel_ns = work.kernel_ns.astype(np.float64)
    return WorkSums(
        calls=work.count.astype(np.float64),
        flops=work.flops,
        bytes=work.bytes,
        kernel_ns=kernel_ns,
        peak_kernel_ns=with_peak(kernel_ns),
        compute_ns=with_peak(work.compute_ns),
        memory_ns=with_peak(work.memory_ns),
        least_ns=with_peak(work.least_ns),
        total_ns=kernel_ns,
    )


def no_work(count: int) -> WorkSums:
    """Returns rows without work."""
    return WorkSums(*(np.zeros(count) for _ in WorkSums.__struct_fields__))


def concatenated_work(first: WorkSums, second: WorkSums) -> WorkSums:
    """Returns the rows of both."""
    names = WorkSums.__struct_fields__
    return WorkSums(*(np.concatenate((getattr(first, name), getattr(second, name))) for name in names))


class NestedWork(msgspec.Struct, frozen=True, eq=False):
    """Work of calls, with that of nested calls.

    A call that runs all kernels of its caller has the work of its caller.
    """

    calls: Calls
    work: WorkSums
    place: Int64
    """Index in ``call`` of each call with work."""
    call: Int64
    """Indices in ``calls`` of the calls with work or collectives, and of their ancestors."""
    forest: Forest
    """The forest of ``call``."""
    collective_place: Int64
    """Index in ``call`` of each call that launched collectives."""
    collective_ns: Float64

    def grouped(self, groups: Groups, counted: Bool) -> WorkSums:
        """Returns the work of groups of ``calls``. ``counted``: the outermost calls of each group."""
        some = counted[self.call]
        of = groups.of[self.call[some]]

        def total(values: Float64, place: Int64 = self.place) -> Float64:
            return np.bincount(of, self.with_nested(values, place)[some], len(groups)).astype(np.float64)

        total_ns = groups.sum(np.where(counted, self.calls.kernel_total_ns, 0))
        collective_ns = total(self.collective_ns, self.collective_place)
        return msgspec.structs.replace(self.work.each(total), total_ns=total_ns - collective_ns)

    def with_nested(self, values: Float64, place: Int64) -> Float64:
        """Returns the sum of ``values`` in and below each of ``call``."""
        return self.forest.sums(np.bincount(place, values, len(self.call)).astype(np.float64))


def nested_work(trace: TraceTable, work: OperatorWork, calls: Calls, kernels: Int64) -> NestedWork:
    """Returns the work of ``calls``. ``kernels``: the selected kernels."""
    recorded = calls.row[calls.row != MISSING]
    at = _innermost(np.searchsorted(recorded, work.row), calls)
    collective = kernels[trace.is_collective[kernels]]
    owner = places_of(recorded, len(trace))[trace.operator[collective]]
    collective, owner = collective[owner != MISSING], owner[owner != MISSING]
    rows, above = with_ancestors(calls.parent, np.concatenate((at, owner)))
    return NestedWork(
        calls=calls,
        work=work_sums(work),
        place=np.searchsorted(rows, at),
        call=rows,
        forest=Forest(above),
        collective_place=np.searchsorted(rows, owner),
        collective_ns=trace.dur_ns[collective].astype(np.float64),
    )


def _innermost(call: Int64, calls: Calls) -> Int64:
    """Returns the innermost call that runs all kernels of each call."""
    total, parent = calls.kernel_total_ns, calls.parent
    whole = np.flatnonzero((parent != MISSING) & (total > 0) & (total == total[parent]))
    below = np.full(len(parent), MISSING, np.int32)
    below[parent[whole]] = whole
    found = call.copy()
    while (inner := np.flatnonzero(below[found] != MISSING)).size:
        found[inner] = below[found[inner]]
    return found


def kernel_work(trace: TraceTable, work: OperatorWork, kernels: Int64, of: Whole, count: int) -> WorkSums:
    """Returns the work of groups of kernels; ``of``: the group of each kernel (-1 = none).

    A kernel has the part of its call in proportion to its time. Collectives have no time.
    """
    place = np.searchsorted(work.kernel, kernels)
    has_work = np.append(work.kernel, MISSING)[place] == kernels
    some = has_work & (of != MISSING)
    call = work.kernel_call[place[some]]
    part = trace.dur_ns[kernels[some]] / work.kernel_ns[call]
    groups = of[some]
    calls = work_sums(work)

    def total(values: Float64) -> Float64:
        return np.bincount(groups, values[call] * part, count).astype(np.float64)

    counted = (of != MISSING) & launched_computation(trace, kernels)
    total_ns = sum_by(of[counted], trace.dur_ns[kernels[counted]], count).astype(np.float64)
    return msgspec.structs.replace(calls.each(total), total_ns=total_ns)


def rates(sums: WorkSums) -> dict[str, pa.Array]:
    """Returns the columns ``COLUMNS``. Values that are not known are null."""
    ratio = sums.peak_ratio
    return {
        "tflops_per_second": nullable(_divided(sums.flops, sums.kernel_ns) / 1e3),
        "moved_bandwidth": nullable(_divided(sums.bytes, sums.kernel_ns) * 1e9),
        "peak_ratio": nullable(ratio),
        "covered_ratio": nullable(_divided(sums.kernel_ns, sums.total_ns)),
        "bound": pa.array(_bounds(sums, ratio), pa.string()),
    }


def without_empty(keys: Sequence[str], found: Mapping[str, pa.Array]) -> list[str]:
    """Returns ``keys`` without the rates of which no row has a value."""
    return [key for key in keys if key not in COLUMNS or (key in found and found[key].null_count < len(found[key]))]


def nullable(values: Float64) -> pa.Array:
    """Returns a column in which NaN is null."""
    return pa.array(values, mask=np.isnan(values))


def _divided(values: Float64, by: Float64) -> Float64:
    found: Float64 = np.divide(values, by, out=np.full(len(values), np.nan), where=by > 0)
    return found


def _bounds(sums: WorkSums, ratio: Float64) -> list[str | None]:
    is_far = ratio < FAR_RATIO
    words = np.where(sums.compute_ns > sums.memory_ns, "compute", "memory")
    words = np.where(is_far, "neither", words)
    words = np.where(is_far & (sums.kernel_ns < SHORT_NS * sums.calls), "short", words)
    words = np.where(sums.is_above_peak, "above peak", words)
    return [None if no else str(word) for word, no in zip(words, np.isnan(ratio) & ~sums.is_above_peak, strict=True)]
