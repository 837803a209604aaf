"""FLOPs and bytes of the selected operator calls.

A call has work if its operator has a formula and if its inputs are recorded (``formulas.py``). If such calls are
nested, only the outermost one counts. A replayed call has the inputs of its capture.
"""

from __future__ import annotations

import json
import math
import re

import msgspec
import numpy as np

from tb_plugin.analysis.forest import Forest
from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.analysis.graphs.replays import replay_numbers
from tb_plugin.analysis.operator_calls import call_nesting
from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.work.formulas import has_formula, work_of
from tb_plugin.analysis.work.inputs import Work
from tb_plugin.lib.arrays import Bool, Float64, Int32, Int64
from tb_plugin.lib.groupby import group, places_of, sum_by
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, EventKind, MatrixUse
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit

NUMBER_FORMATS = ("fp64", "fp32", "fp16", "fp8", "int8")
# Names in tables, in the same order.
FORMAT_TITLES = ("fp64", "fp32", "fp16/bf16", "fp8", "int8")


class OperatorWork(msgspec.Struct, frozen=True, eq=False):
    """Calls with work, one value per call. Peak rates are NaN if unknown."""

    row: Int64
    """Row of the call in the trace, ascending. Replayed calls, if any, come last and have none (-1)."""
    name: Int32
    shape: Int32
    """String ids of the operator and of its input shapes."""
    count: Int64
    """How many calls this is: one, or the equal calls of a replay."""
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


def launched_computation(trace: TraceTable, kernels: Int64) -> Bool:
    """Returns whether each kernel is no collective and has a recorded launch. Only such kernels can have known work."""
    found: Bool = ~trace.is_collective[kernels] & (trace.launch[kernels] != MISSING)
    return found


@cached_by_argument
def operator_work(trace: TraceTable, steps: tuple[str, ...] | None, phase: str = "", pattern: str = "") -> OperatorWork:
    """Returns the work of the selected calls. Raises BadRequest for an unknown step or phase."""
    selection = select_rows(trace, steps, phase, pattern)
    kernels = selection.of(trace, EventKind.KERNEL)
    kernels = kernels[launched_computation(trace, kernels)]
    some = _candidates(trace, selection.rows)
    args = trace.operators
    found = _work(
        trace, trace.name[args.row[some]], args.shapes[some], args.types[some], args.concrete[some], args.row[some]
    )
    some, found = some[found[:, 0] >= 0], found[found[:, 0] >= 0]
    rows = args.row[some].astype(np.int64)
    call = _outermost_calls(trace, rows, kernels)
    used = np.flatnonzero(sum_by(call, trace.dur_ns[kernels], len(rows)) > 0)
    call = places_of(used, len(rows))[call]
    return _measured(
        trace,
        kernels,
        call,
        found[used],
        row=rows[used],
        name=trace.name[rows[used]],
        shape=args.shapes[some[used]],
        count=np.ones(len(used), np.int64),
    )


@cached_by_argument
def work_with_replays(
    trace: TraceTable, steps: tuple[str, ...] | None, phase: str = "", pattern: str = ""
) -> OperatorWork:
    """Returns the work of the selected calls, and of the calls in each replay of a graph. Raises BadRequest."""
    own = operator_work(trace, steps, phase, pattern)
    origins = origins_of(trace)
    if not len(origins.work):
        return own
    kernels = select_rows(trace, steps, phase, pattern).of(trace, EventKind.KERNEL)
    kernels = kernels[launched_computation(trace, kernels)]
    outermost, table = _outermost_scopes(trace)
    scope = np.append(outermost, np.int32(MISSING))[origins.at(kernels)]
    scope[np.isin(kernels, own.kernel)] = MISSING
    at = np.flatnonzero(scope != MISSING)
    groups = group(scope[at], replay_numbers(trace, kernels[at]))
    time = groups.sum(trace.dur_ns[kernels[at]])
    used = np.flatnonzero(time > 0)
    first = scope[at][groups.first[used]]
    call = np.full(len(kernels), MISSING, np.int32)
    call[at] = places_of(used, len(groups))[groups.of]
    count = origins.scopes.calls[first].astype(np.int64)
    found = table[first]
    found[:, :2] *= count[:, None]
    none, shapes = np.full(len(first), MISSING, np.int64), origins.scopes.shapes[first]
    replayed = _measured(
        trace, kernels, call, found, row=none, name=origins.scopes.name[first], shape=shapes, count=count
    )
    return _concatenated(own, replayed)


def _concatenated(first: OperatorWork, second: OperatorWork) -> OperatorWork:
    names = [name for name in first.__struct_fields__ if name not in ("kernel", "kernel_call", "kernel_total_ns")]
    columns = {name: np.concatenate((getattr(first, name), getattr(second, name))) for name in names}
    kernel = np.concatenate((first.kernel, second.kernel))
    call = np.concatenate((first.kernel_call, second.kernel_call + np.int32(len(first.row))))
    order = np.argsort(kernel, kind="stable")
    return OperatorWork(**columns, kernel=kernel[order], kernel_call=call[order], kernel_total_ns=first.kernel_total_ns)


def _measured(
    trace: TraceTable,
    kernels: Int64,
    call: Int32,
    found: Float64,
    *,
    row: Int64,
    name: Int32,
    shape: Int32,
    count: Int64,
) -> OperatorWork:
    """Returns the work of calls. ``call``: the index of the call of each kernel (-1 = none); ``found``: see ``_work``."""
    covered, call = kernels[call != MISSING], call[call != MISSING]
    flops, moved, number_format, is_matrix = found.T
    device = _devices(trace.device[covered], call, len(row))
    matrix = trace.uses_matrix_unit[covered] == MatrixUse.YES
    on_units = np.bincount(call[matrix & (trace.dur_ns[covered] > 0)], minlength=len(row)) > 0
    bandwidth = np.array([*(each.bandwidth or math.nan for each in trace.devices), math.nan])
    formats = number_format.astype(np.int64)
    return OperatorWork(
        row=row,
        name=name,
        shape=shape,
        count=count,
        flops=flops,
        bytes=moved,
        kernel_ns=sum_by(call, trace.dur_ns[covered], len(row)),
        peak_flops=_peak_flops(trace, device, formats, is_matrix > 0, on_units),
        peak_bytes=bandwidth[device],
        number_format=formats,
        is_matrix=is_matrix > 0,
        kernel=covered,
        kernel_call=call,
        kernel_total_ns=int(trace.dur_ns[kernels].sum()),
    )


def _outermost_scopes(trace: TraceTable) -> tuple[Int32, Float64]:
    """Returns the outermost captured operator with work around each scope (-1 = none), and the work of each scope."""
    scopes = origins_of(trace).scopes
    some = np.flatnonzero(
        (scopes.kind == EventKind.OPERATOR)
        & trace.strings.where(has_formula)[scopes.name]
        & (scopes.shapes != MISSING)
        & (scopes.calls > 0)
    )
    table = np.tile(_UNKNOWN, (len(scopes), 1))
    rows = np.full(len(some), MISSING, np.int32)
    table[some] = _work(trace, scopes.name[some], scopes.shapes[some], scopes.types[some], scopes.values[some], rows)
    has_work = table[:, 0] >= 0
    outer = has_work & ~np.append(Forest(scopes.parent).inside(has_work), False)[scopes.parent]
    return inherit(np.where(outer, np.arange(len(scopes)), MISSING).astype(np.int32), scopes.parent), table


def bytes_of(trace: TraceTable, operators: Int64) -> Float64:
    """Returns the bytes that each operator moves (0 = unknown). ``operators`` contains row numbers; -1 = none."""
    args = trace.operators
    place = places_of(args.row, len(trace))[operators]
    at = np.flatnonzero(place != MISSING)
    some = place[at]
    found = np.zeros(len(operators))
    table = _work(
        trace, trace.name[args.row[some]], args.shapes[some], args.types[some], args.concrete[some], args.row[some]
    )
    found[at] = np.where(table[:, 0] >= 0, table[:, 1], 0)
    return found


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


# Larger numbers of FLOPs or bytes are damaged shapes.
MAX_NUMBER = 2.0**62
_UNKNOWN = (-1.0, 0.0, 0.0, 0.0)
_LIST = '"TensorList"'
# Kernels that only copy elements are named by their bytes.
_OPAQUE = {"1": "byte", "2": "half", "4": "float", "8": "double"}


def _work(trace: TraceTable, name: Int32, shapes: Int32, types: Int32, values: Int32, rows: Int32) -> Float64:
    """Returns operations, bytes, number format and whether matrix units can do it, per call; -1 operations = unknown.

    The columns contain string ids of inputs, and the row of each call (-1 = captured).
    """
    if not len(name):
        return np.tile(_UNKNOWN, (0, 1))
    element, words = _list_elements(trace, rows, types)
    columns = (name, shapes, types, values)
    groups = group(*columns, element)  # few distinct inputs: each is computed once
    texts = [trace.strings.take(column[groups.first]).to_pylist() for column in columns]
    found = []
    for *each, kind in zip(*texts, element[groups.first].tolist(), strict=True):
        operator, dims, dtypes, concrete = (text or "" for text in each)
        if kind != MISSING:
            dtypes = dtypes.replace(_LIST, json.dumps(words[kind]))
        found.append(_numbers(work_of(operator, dims, dtypes, concrete)))
    table: Float64 = np.array(found)[groups.of]
    return table


def _list_elements(trace: TraceTable, rows: Int32, types: Int32) -> tuple[Int64, list[str]]:
    """Returns the element type of the lists of tensors of each call, as an index into the list; -1 = unknown.

    The profiler records lists without element types, but PyTorch's kernel names contain them.
    """
    pattern = trace.recorder.operators.list_element
    found = np.full(len(rows), MISSING, np.int64)
    is_list = trace.strings.where(lambda text: _LIST in text)[types] & (types != MISSING)
    lists = np.flatnonzero(is_list & (rows != MISSING))
    if not pattern or not len(lists):
        return found, []
    kernels = np.flatnonzero((trace.kind == EventKind.KERNEL) & (trace.operator != MISSING))
    kernel_of = np.full(len(trace), MISSING, np.int32)
    kernel_of[trace.operator[kernels]] = kernels
    names = np.append(trace.name, np.int32(MISSING))[kernel_of[rows[lists]]]
    ids, of = np.unique(names, return_inverse=True)
    search = re.compile(pattern).search
    matches = [search(text or "") for text in trace.strings.take(ids).to_pylist()]
    formats = [next(filter(None, match.groups()), "") if match else "" for match in matches]
    words = sorted({_OPAQUE.get(text, text) for text in formats if text})
    number = np.array([words.index(_OPAQUE.get(text, text)) if text else MISSING for text in formats], np.int64)
    found[lists] = number[of]
    return found, words


def _numbers(work: Work | None) -> tuple[float, float, float, float]:
    if work is None or not max(work.flops, work.bytes) < MAX_NUMBER:
        return _UNKNOWN
    return float(work.flops), float(work.bytes), float(NUMBER_FORMATS.index(work.format)), float(work.is_matrix)


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
