"""Work, communication and idle time inside annotations."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tb_plugin.analysis.annotations import Calls, Phases, annotation_rows, launched_by, phases_of
from tb_plugin.analysis.backward import backward_roots, forward_behind, forward_operators
from tb_plugin.analysis.communication import is_communication
from tb_plugin.analysis.forest import Spans, outermost_of
from tb_plugin.analysis.launches.unrecorded_work import any_unrecorded
from tb_plugin.analysis.selection import Selection, chosen_steps
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import Groups, group, ratio
from tb_plugin.lib.intervals import Ranges, covered_before, join, measure_by, union
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable


class Work(msgspec.Struct, frozen=True, eq=False):
    """Pairs of device work and an enclosing call: ``item[i]`` is in call ``call[i]``."""

    start: Int64
    end: Int64
    device: Int64
    at: Int64
    call: Int64
    item: Int64

    def some(self, items: Bool) -> Work:
        item_flags = items[self.item]
        return replace(self, call=self.call[item_flags], item=self.item[item_flags])

    def union_by(self, key: Int64, count: int) -> Int64:
        """Returns the busy time for each key, summed over devices. Overlapping work on one device counts once."""
        both = group(key, self.device[self.item])
        spent = measure_by(both.of, self.start[self.item], self.end[self.item], len(both))
        total = np.zeros(count, np.int64)
        np.add.at(total, key[both.first], spent)
        return total


class PhaseCalls(msgspec.Struct, frozen=True, eq=False):
    calls: Calls
    of: Int64
    phases: Phases
    device: Work
    backward: Work
    collective: Bool
    roots: Work
    """Top-level backward operators on the CPU, with the calls that contain them."""
    talking: Ranges
    busy: Ranges
    steps: Ranges
    recorded: bool
    """False if the trace has no steps. The whole trace is then one step."""


def phase_calls(trace: TraceTable, selection: Selection, pattern: str = "") -> PhaseCalls:
    """Returns the selected annotations, and the work inside them. Raises BadRequest for an invalid pattern."""
    phases = phases_of(trace, pattern)
    calls = Calls(trace, np.flatnonzero(selection.rows & annotation_rows(trace)))
    work = selection.of(trace, *DEVICE_WORK)
    operators = np.flatnonzero(trace.kind == EventKind.OPERATOR)
    forward = forward_operators(trace, operators)
    roots = backward_roots(trace, operators, forward)
    roots = roots[selection.rows[roots]]
    on_host = selection.rows & is_communication(trace) & ~of_kind(trace.kind, *DEVICE_WORK)
    every = of_kind(trace.kind, *DEVICE_WORK)
    steps = chosen_steps(trace, selection.steps)
    return PhaseCalls(
        calls=calls,
        of=phases.of[trace.name[calls.row]],
        phases=phases,
        device=_placed(trace, calls, work, launched_by(trace, work)),
        backward=_placed(trace, calls, work, forward_behind(forward, trace.operator[work])),
        collective=trace.is_collective[work],
        roots=_placed(trace, calls, roots, forward[roots]),
        talking=union(trace.start_ns[on_host], trace.ends(on_host)),
        busy=join(union(trace.start_ns[every], trace.ends(every)), any_unrecorded(trace)),
        steps=union(trace.steps.host_start_ns[steps], trace.steps.host_end_ns[steps]),
        recorded=trace.steps.recorded,
    )


def _placed(trace: TraceTable, calls: Calls, rows: Int64, source: npt.NDArray[np.integer]) -> Work:
    known = np.flatnonzero(source != MISSING)
    call, item = calls.around(trace.track[source[known]], trace.start_ns[source[known]])
    at = np.full(len(rows), MISSING, np.int64)
    at[known] = trace.start_ns[source[known]]
    device = trace.device[rows].astype(np.int64)
    return Work(trace.start_ns[rows], trace.ends(rows), device, at, call, known[item])


def sums_of(found: PhaseCalls, groups: Groups) -> dict[str, npt.NDArray[np.number]]:
    calls, count = found.calls, len(groups)
    spans = Spans(calls.track, calls.start, calls.end)
    once = outermost_of(groups.of, spans, calls.parent)

    def device(work: Work) -> Int64:
        return work.union_by(groups.of[work.call], count)

    def within(ranges: Ranges) -> Int64:
        begin, end = covered_before(ranges, calls.start), covered_before(ranges, calls.end)
        return measure_by(groups.of, begin, end, count)

    open_ns = measure_by(groups.of, calls.start, calls.end, count)
    host = groups.sum(np.where(once, calls.end - calls.start, 0))
    steps_ns = np.full(count, int((found.steps.end - found.steps.start).sum()))
    device_ns = device(found.device)
    threads = group(groups.of, calls.track)
    roots = found.roots
    pairs = group(groups.of[roots.call], roots.item)
    backward_host = np.zeros(count, np.int64)
    spent = (roots.end - roots.start)[roots.item]
    np.add.at(backward_host, groups.of[roots.call][pairs.first], spent[pairs.first])
    return {
        "calls": groups.count(),
        "host_total_ns": host,
        "phase_step_ratio": ratio(within(found.steps), steps_ns),
        "phase_device_ns": device_ns,
        "phase_device_ratio": ratio(device_ns, np.full(count, _busy(found.device))),
        "phase_backward_ns": device(found.backward),
        "phase_backward_host_ns": backward_host,
        "phase_communication_ns": device(found.device.some(found.collective)) + within(found.talking),
        "phase_idle_ns": open_ns - within(found.busy),
        "phase_threads": np.bincount(groups.of[threads.first], minlength=count),
    }


def _busy(work: Work) -> int:
    devices = group(work.device)
    return int(measure_by(devices.of, work.start, work.end, len(devices)).sum())
