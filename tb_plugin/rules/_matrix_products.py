"""Matmuls and convolutions that could use matrix units, and their speedup."""

from __future__ import annotations

import math
import re

import msgspec
import numpy as np

from tb_plugin.analysis.kernel_classes import classify_kernels
from tb_plugin.analysis.simulate import Change
from tb_plugin.analysis.work.matrix_formulas import ProductSizes, product_sizes
from tb_plugin.lib.arrays import Bool, Float64, Int64
from tb_plugin.lib.groupby import distinct_values, group
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, EventKind, KernelClass, MatrixUse
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.rules._base import Scene
from tb_plugin.rules._shapes import Dims, arguments, input_dims, input_types, names_that

STEP = 8
"""Dimensions should be multiples of this number: matrix units read 16 bytes at once, which are 8 numbers of 16 bits."""
SHORT_NS = 10_000
"""Minimum duration of a kernel. Starting and ending takes most of the time of shorter kernels."""

_MAX_SIZE = 1 << 62
USUAL = 3
"""Ratio of the peak rate to a rate that most matrix products reach."""


class Products(msgspec.Struct, frozen=True, eq=False):
    """Kernels of operators that could use matrix units. 0 = unknown."""

    row: Int64
    bits: Int64
    """Bits per input element: 32 or 16."""
    flops: Float64
    """Each kernel's part of the operator's floating-point operations. The parts are proportional to the kernel durations."""
    numbers: Float64
    """Each kernel's part of the elements in both inputs and the output, proportional to the kernel durations."""
    batch: Int64
    rows: Int64
    columns: Int64
    depth: Int64

    def take(self, of: Bool) -> Products:
        return Products(*(getattr(self, name)[of] for name in self.__struct_fields__))

    def unaligned(self, step: int = STEP) -> Int64:
        """Returns a dimension of each product that is not a multiple of ``step``; 0 = none or unknown."""
        found = np.zeros(len(self.row), np.int64)
        for size in (self.rows, self.depth, self.columns):
            found = np.where(size % step > 0, size, found)
        return found


@cached_by_argument
def matrix_kernels(trace: TraceTable) -> Products:
    """Returns the matmul and convolution kernels launched by operators that could use matrix units."""
    row = np.flatnonzero((trace.kind == EventKind.KERNEL) & (trace.operator != MISSING))
    row = row[trace.matrix_eligible[trace.operator[row]]]
    classes = classify_kernels(trace).of(trace.name[row]) if len(row) else np.empty(0, np.uint8)
    row = row[np.isin(classes, (KernelClass.GEMM, KernelClass.CONVOLUTION))]
    operator = trace.operator[row].astype(np.int64)
    told = arguments(trace)
    groups = group(operator)
    operators, of = operator[groups.first], groups.of
    bits = _bits(trace, told.type_of(operators))
    flops, numbers, sizes = _computed(trace, operators, told.shape_of(operators))
    time = np.bincount(of, trace.dur_ns[row], len(operators))
    share = trace.dur_ns[row] / np.maximum(time[of], 1)
    return Products(row, bits[of], flops[of] * share, numbers[of] * share, *sizes[of].T)


def _bits(trace: TraceTable, texts: Int64) -> Int64:
    if not len(texts) or not (texts != MISSING).any():
        return np.zeros(len(texts), np.int64)
    groups, words = group(texts), trace.recorder.operators
    said = trace.strings.take(texts[groups.first]).to_pylist()
    return np.array([_width(input_types(text or "[]"), words.single, words.half) for text in said], np.int64)[groups.of]


def _width(inputs: list[str], single: str, half: str) -> int:
    """Returns the bits per input element: 32 or 16. Returns 0 if the inputs differ in type or have another type."""
    kinds = {
        32 if single and re.search(single, each) else 16 if half and re.search(half, each) else 0 for each in inputs
    }
    kinds.discard(0)
    return kinds.pop() if len(kinds) == 1 else 0


def _computed(trace: TraceTable, operators: Int64, texts: Int64) -> tuple[Float64, Float64, Int64]:
    """Returns operations, elements, and the sizes (see ``Products``) of each operator; 0 = unknown."""
    flops, numbers, sizes = np.zeros(len(operators)), np.zeros(len(operators)), np.zeros((len(operators), 4), np.int64)
    if not (texts != MISSING).any():
        return flops, numbers, sizes
    words = trace.recorder.operators
    first = np.full(len(trace.strings) + 1, MISSING, np.int64)
    for at, names in enumerate((words.product, words.added_product)):
        first[names_that(trace, operators, names)] = at
    place = first[trace.name[operators]]
    known = np.flatnonzero((place != MISSING) & (texts != MISSING))
    keys = distinct_values(np.sort(texts[known] * 2 + place[known]))
    read = [_sizes(text, at) for text, at in zip(trace.strings.take(keys // 2).to_pylist(), keys % 2, strict=True)]
    of = np.searchsorted(keys, texts[known] * 2 + place[known])
    flops[known] = np.array([each.flops if each else 0 for each in read], np.float64)[of]
    numbers[known] = np.array([each.numbers if each else 0 for each in read], np.float64)[of]
    sizes[known] = np.array([each or (0, 0, 0, 0) for each in read], np.int64).reshape(-1, 4)[of]
    return flops, numbers, sizes


def _sizes(text: str, first: int) -> ProductSizes | None:
    """Returns the sizes of a product whose first input has the index ``first``; None if unknown or absurd."""
    inputs: list[Dims] = input_dims(text)[first : first + 2]
    found = product_sizes(*inputs) if len(inputs) == 2 else None
    return found if found is not None and min(found) > 0 and math.prod(found) < _MAX_SIZE else None


def on_units(scene: Scene) -> bool:
    """Returns whether any kernel except fused attention, which uses them even for float32, uses matrix units."""
    trace, kernels = scene.trace, scene.kernels
    used = kernels[trace.uses_matrix_unit[kernels] == MatrixUse.YES]
    return bool(len(used)) and bool((classify_kernels(trace).of(trace.name[used]) != KernelClass.ATTENTION).any())


def plain_products(scene: Scene) -> Products:
    """Returns the products in the steps that do not use matrix units."""
    trace, every = scene.trace, matrix_kernels(scene.trace)
    return every.take(scene.rows[every.row] & (trace.uses_matrix_unit[every.row] == MatrixUse.NO))


def peaks_of(trace: TraceTable, rows: Int64, of: str) -> tuple[Float64, Float64]:
    """Returns, for each row, the peak operations (of a number format) and bytes per nanosecond; NaN = unknown."""
    flops = [dict(each.peaks).get(of, math.nan) for each in trace.devices] + [math.nan]
    bandwidth = [each.bandwidth or math.nan for each in trace.devices] + [math.nan]
    return np.array(flops)[trace.device[rows]], np.array(bandwidth)[trace.device[rows]]


def matrix_unit_savings(trace: TraceTable, some: Products, of: str, size: int) -> tuple[Change, Change] | None:
    """Returns the lower and upper bound of the saving if these kernels used matrix units. Returns None if peak
    rates are unknown.

    ``of`` is the number format, and ``size`` is the number of bytes per element. For the upper bound, kernels reach
    the device's peak rate. For the lower bound, they reach a third of it. If shapes are not recorded, bounds on the
    speedup are derived from the ratio of the peak rates of the two formats.
    """
    peak, bandwidth = peaks_of(trace, some.row, of)
    plain, _ = peaks_of(trace, some.row, "fp32")
    if not len(some.row) or np.isnan(peak).any() or np.isnan(plain).any():
        return None
    time, ratio = trace.dur_ns[some.row].astype(np.float64), np.maximum(peak / plain, 1)
    known = some.flops > 0
    needs = np.maximum(some.flops / peak, some.numbers * size / bandwidth)
    best = np.where(known, needs, time / ratio)
    usual = np.where(known, USUAL * needs, time / np.minimum(np.sqrt(ratio), 2))
    sure = np.where(time < SHORT_NS, 0, time - usual)
    most = np.where(ratio > 1, time - best, 0)
    least = np.minimum(np.maximum(sure, 0), np.maximum(most, 0))
    return _change(some.row, least), _change(some.row, most)


def _change(row: Int64, less: Float64) -> Change:
    return Change(row=row, less_ns=np.maximum(less, 0).astype(np.int64))
