"""Trace health: recording quality and data outside the steps."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.graphs.attribution import has_operator
from tb_plugin.analysis.range_traces import is_range_trace
from tb_plugin.analysis.reported_steps import missing_computation
from tb_plugin.analysis.step_shares import StepShares
from tb_plugin.lib.intervals import intersect, measure, union
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figure, Figures
from tb_plugin.views.overview.data_quality import crossing_count
from tb_plugin.views.overview.metrics import METRICS

# Share of step time.
WORTH = 0.01
_GROUPS = (
    ("Python calls", (EventKind.PYTHON, EventKind.MODULE)),
    ("operators", (EventKind.OPERATOR,)),
    ("runtime calls", (EventKind.RUNTIME,)),
    ("device work", DEVICE_WORK),
    ("annotations", (EventKind.ANNOTATION,)),
    ("instants", (EventKind.INSTANT,)),
    ("parts of asynchronous operations", (EventKind.ASYNC,)),
)


def trace_health(trace: TraceTable, breakdown: StepShares, window: str) -> Figures:
    """Returns the trace health card. Notes contain recording advice; ``window`` names the selected steps."""
    figures = [*_links(trace), *_edges(trace)]
    total = int(breakdown.total.sum())
    if total and not is_range_trace(trace) and missing_computation(trace) is None:
        figures.append(METRICS.figure("unexplained_ratio", int(breakdown.parts["other"].sum()) / total, window=window))
    report = trace.report
    figures += [
        METRICS.figure("lost_events", report.events_dropped + report.events_quarantined),
        METRICS.figure("odd_times", crossing_count(trace) + len(trace.clipped.row)),
    ]
    return Figures("trace_health", "Trace health", "", [*figures, *_largest_group(trace)], "list")


def _links(trace: TraceTable) -> list[Figure]:
    work = np.flatnonzero(of_kind(trace.kind, *DEVICE_WORK))
    # Without calls of the CPU, nothing could be linked.
    if not len(work) or not of_kind(trace.kind, EventKind.OPERATOR, EventKind.RUNTIME).any():
        return []
    linked = trace.launch[work] != MISSING
    time, owned = int(trace.dur_ns[work].sum()), int(trace.dur_ns[work][has_operator(trace, work)].sum())
    figures = [
        METRICS.figure(
            "linked_ratio", float(linked.mean()), note="" if linked.all() else trace.recorder.todo("unlaunched")
        )
    ]
    if time:
        figures.append(METRICS.figure("owned_ratio", owned / time))
    return figures


def _edges(trace: TraceTable) -> list[Figure]:
    work = of_kind(trace.kind, *DEVICE_WORK)
    host = of_kind(trace.kind, EventKind.OPERATOR, EventKind.RUNTIME)
    if not work.any() or not host.any():
        return []
    return [
        METRICS.figure("device_lag_ns", int(trace.start_ns[work].min() - trace.start_ns[host].min())),
        METRICS.figure("device_tail_ns", int(trace.ends(work).max() - trace.ends(host).max())),
    ]


def _largest_group(trace: TraceTable) -> list[Figure]:
    counts = [(int(of_kind(trace.kind, *kinds).sum()), name) for name, kinds in _GROUPS]
    count, name = max(counts, key=lambda pair: pair[0])
    if not count:
        return []
    note = f"{name}. {trace.recorder.todo('health.python')}" if name == _GROUPS[0][0] else name
    return [METRICS.figure("largest_group_ratio", count / len(trace), note=note.strip())]


def outside_steps(trace: TraceTable) -> Figures | None:
    """Returns what was recorded outside the steps, or None without steps or if little was recorded outside."""
    steps = trace.steps
    within = union(steps.start_ns, steps.end_ns)
    length = trace.coverage.end_ns - trace.coverage.start_ns - measure(within)
    work = of_kind(trace.kind, *DEVICE_WORK)
    busy = union(trace.start_ns[work], trace.ends(work))
    outside = measure(busy) - measure(intersect(busy, within))
    if not steps.recorded or not (outside or length > WORTH * measure(within)):
        return None
    figures = [METRICS.figure("outside_ns", length)]
    if outside:
        figures.append(METRICS.figure("outside_device_ns", outside))
        figures.append(METRICS.figure("outside_device_ratio", outside / measure(busy)))
    return Figures("outside_steps", "Outside the steps", "not counted above", figures, "list")
