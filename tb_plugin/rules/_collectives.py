"""Exposed collectives and gradient reductions in the steps."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.backward import forward_operators, in_backward
from tb_plugin.analysis.collective_names import collective_name
from tb_plugin.analysis.communication import communication_ranges, computation_ranges, exposed_ranges, is_communication
from tb_plugin.analysis.hardware_streams import hardware_streams
from tb_plugin.analysis.range_patterns import ADDS_GRADIENT, DATA_PARALLEL, backward_label, name_matches
from tb_plugin.analysis.reported_collectives import enclosing_operator, matching_names, reported_collectives
from tb_plugin.analysis.selection import steps_of
from tb_plugin.lib.arrays import Bool, Float64, Int64
from tb_plugin.lib.groupby import sum_by
from tb_plugin.lib.intervals import covered_before, measure, measure_within, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import Steps, TraceTable

ONE_RANK = "The communication time includes waiting for late ranks."
_LEAST_SHARE = 0.01
"""Minimum share of exposed communication in the steps. Below this share, no rule about collectives applies."""
_REDUCES = ("all_reduce", "reduce_scatter", "reduce")


class Collectives(msgspec.Struct, frozen=True, eq=False):
    """Collectives that start in the steps, sorted by start time; times in nanoseconds."""

    row: Int64
    step: Int64
    dur_ns: Int64
    bare_ns: Int64
    """Exposed time of the collective, in which its device runs no computation and no copy."""
    what: Int64
    """String id of the collective's name."""
    bytes: Int64
    """Bytes moved, -1 = unknown."""
    group: Int64
    """String id of the process group's name, -1 = unknown."""
    is_gradient: Bool
    """Whether the collective reduces gradients, which the rest of the backward pass does not need."""
    is_serial: Bool
    """Whether the collective reduces gradients on the compute stream."""
    ready_ns: Int64
    """Total compute time before the collective's gradients are available, in nanoseconds. Valid only if ``is_gradient``."""
    until_ns: Int64
    """Total compute time before the step's backward pass ends, in nanoseconds. Valid only if ``is_gradient``."""

    def of(self, rows: Bool | Int64) -> Collectives:
        return Collectives(*(getattr(self, field)[rows] for field in self.__struct_fields__))


@cached_by_argument
def collectives(trace: TraceTable, chosen: tuple[str, ...] | None) -> Collectives:
    """Returns the collectives in the steps with these labels. ``None`` selects all steps.

    Returns no collectives for DataParallel, because its collectives only copy the model. Returns none either if
    exposed communication takes less than 1 % of the steps.
    """
    steps = steps_of(trace, chosen)
    rows = np.empty(0, np.int64)
    if trace.is_collective.any() and not is_data_parallel(trace):
        rows = np.flatnonzero(is_communication(trace))
    step = steps.at(trace.start_ns[rows])
    rows, step = rows[step != MISSING], step[step != MISSING]
    bare = measure_within(exposed_ranges(trace), trace.start_ns[rows], trace.ends(rows)) if len(rows) else rows
    if bare.sum() <= _LEAST_SHARE * measure(union(steps.start_ns, steps.end_ns)):
        rows, step, bare = rows[:0], step[:0], bare[:0]
    what, moved, name = reported_collectives(trace, rows)
    is_gradient, ready, until = _gradients(trace, steps, rows, what)
    is_serial = is_gradient & _computes(trace, rows)
    return Collectives(
        rows, step, trace.dur_ns[rows], bare, what, moved, name, is_gradient, is_serial, ready, until
    )  # fmt: skip


def is_data_parallel(trace: TraceTable) -> bool:
    """Returns whether one process drives several devices with copies of the model (DataParallel)."""
    if trace.strings.find(DATA_PARALLEL) == MISSING:
        return False
    return len(np.unique(trace.device[trace.device != MISSING])) > 1


def _computes(trace: TraceTable, rows: Int64) -> Bool:
    kernels = np.flatnonzero((trace.kind == EventKind.KERNEL) & ~trace.is_collective) if len(rows) else rows
    streams = hardware_streams(trace)
    stream = sum_by(streams.of[kernels], trace.dur_ns[kernels], len(streams.names))
    device = sum_by(trace.device[kernels] + 1, trace.dur_ns[kernels], len(trace.devices) + 1)
    most: Bool = 2 * stream[streams.of[rows]] > device[trace.device[rows] + 1]
    return most


def _gradients(trace: TraceTable, steps: Steps, rows: Int64, what: Int64) -> tuple[Bool, Int64, Int64]:
    """Returns ``is_gradient``, ``ready_ns`` and ``until_ns`` of ``Collectives``."""
    reduces = (trace.kind[rows] == EventKind.KERNEL) & (trace.launch[rows] != MISSING)
    reduces &= matching_names(trace, what, lambda text: collective_name(text) in _REDUCES)
    nothing = np.zeros(len(rows), np.int64)
    if not reduces.any():
        return reduces, nothing, nothing
    kernels = np.flatnonzero((trace.kind == EventKind.KERNEL) & ~trace.is_collective & (trace.launch != MISSING))
    begins, ends = _backward(trace, steps, kernels)
    step, begin, work = steps.at(trace.start_ns[rows]), trace.start_ns[rows], computation_ranges(trace)
    reduces &= (ends != MISSING)[step]
    hooked = reduces & _in_hooks(trace, rows)
    called = name_matches(trace, trace.recorder.operators.reducing)[enclosing_operator(trace, rows)] & (
        enclosing_operator(trace, rows) != MISSING
    )
    hooked |= reduces & called & (begin >= begins[step]) & (begin < ends[step])
    until = covered_before(work, ends[step])
    after = reduces & ~hooked & (begin >= ends[step]) & (covered_before(work, begin) == until)
    ready = np.where(hooked, covered_before(work, _given(trace, rows, kernels)), until)
    # Without launches during the backward pass, gradients are assumed to become available evenly over it.
    share = _running(step, np.where(after, trace.dur_ns[rows], 0), len(ends))
    earliest = covered_before(work, begins[step])
    evenly = earliest + np.ceil((until - earliest) * share).astype(np.int64)
    return hooked | after, np.where(after & ~np.isin(step, step[hooked]), evenly, ready), until


def _backward(trace: TraceTable, steps: Steps, kernels: Int64) -> tuple[Int64, Int64]:
    """Returns start and end of the last backward pass in each step, on the device; -1 = none."""
    operators = np.flatnonzero(trace.kind == EventKind.OPERATOR)
    backward = in_backward(trace, operators, forward_operators(trace, operators))[trace.operator[kernels]]
    of = steps.at(trace.start_ns[kernels])
    begins, ends = (np.full(len(steps.label), MISSING, np.int64) for _ in range(2))
    mine = kernels[backward & (of != MISSING)]
    np.maximum.at(ends, of[backward & (of != MISSING)], trace.ends(mine))
    # It starts after the preceding compute, such as the forward pass.
    other = ~backward & (of != MISSING) & (trace.start_ns[kernels] < np.append(ends, 0)[of])
    np.maximum.at(begins, of[other], trace.ends(kernels[other]))
    begins = np.maximum(begins, steps.start_ns)
    return np.minimum(begins, ends), ends


def _in_hooks(trace: TraceTable, rows: Int64) -> Bool:
    """Returns whether each row was launched while the autograd engine was accumulating a gradient."""
    adds = np.append(trace.strings.where(lambda text: backward_label(text) == ADDS_GRADIENT), False)
    found, at = np.zeros(len(rows), np.bool_), enclosing_operator(trace, rows)
    while (at != MISSING).any():
        found |= adds[np.append(trace.name, MISSING)[at]]
        at = enclosing_operator(trace, at)
    return found


def _given(trace: TraceTable, rows: Int64, kernels: Int64) -> Int64:
    """Returns the earliest possible start of each collective: after its launch and all kernels launched before it."""
    found = trace.start_ns[rows].copy()
    for device in np.unique(trace.device[rows]).tolist():
        work = kernels[trace.device[kernels] == device]
        launched = trace.start_ns[trace.launch[work]]
        order = np.argsort(launched, kind="stable")
        ended = np.append(0, np.maximum.accumulate(trace.ends(work)[order]))
        mine = np.flatnonzero((trace.device[rows] == device) & (trace.launch[rows] != MISSING))
        launch = trace.start_ns[trace.launch[rows[mine]]]
        before = np.searchsorted(launched[order], launch, side="left")
        found[mine] = np.minimum(found[mine], np.maximum(ended[before], launch))
    return found


def _running(step: Int64, values: Int64, count: int) -> Float64:
    """Returns the cumulative sum of ``values`` (sorted by step) within each step, as a share of the step's sum."""
    total = sum_by(step, values, count)
    before = np.cumsum(total) - total
    share: Float64 = (np.cumsum(values) - before[step]) / np.maximum(total[step], 1)
    return share


def left_over(found: Collectives, dur_ns: Int64, count: int) -> Int64:
    """Returns, for each step, how long gradient reduction continues after the end of the backward pass.

    Each collective starts when its gradients are available and the previous collective has ended. The returned time
    is never shorter than the longest collective.
    """
    total = sum_by(found.step, dur_ns, count)
    after = (np.cumsum(total))[found.step] - np.cumsum(dur_ns) + dur_ns
    late = np.zeros(count, np.int64)
    np.maximum.at(late, found.step, dur_ns)
    np.maximum.at(late, found.step, found.ready_ns + after - found.until_ns)
    return late


def first_of(found: Collectives, most_ns: Int64) -> Int64:
    """Distributes a saving of ``most_ns`` per step over the exposed time of its collectives, earliest first."""
    total = sum_by(found.step, found.bare_ns, len(most_ns))
    before = np.cumsum(found.bare_ns) - found.bare_ns - (np.cumsum(total) - total)[found.step]
    return np.clip(most_ns[found.step] - before, 0, found.bare_ns)


def could_hide(trace: TraceTable, steps: Steps) -> Int64:
    """Returns, for each step, the time during which no communication runs. 0 if no compute is recorded in the step."""
    free = steps.end_ns - steps.start_ns - measure_within(communication_ranges(trace), steps.start_ns, steps.end_ns)
    computed = measure_within(computation_ranges(trace), steps.start_ns, steps.end_ns)
    return np.where(computed > 0, free, 0)
