"""Lanes and zoom levels of all events.

The page requests events in tiles, at screen resolution.
"""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.base import Params, Part
from tb_plugin.analysis.out_of_memory import failures_of, marks_of
from tb_plugin.analysis.range_traces import is_range_trace
from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.timeline.pyramid import MOST_NS, Pyramid, pyramid_of, tile_ns
from tb_plugin.analysis.timeline.tiles import CATEGORIES, communicates
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.lib.intervals import measure_within, union
from tb_plugin.model.trace.schema import DEVICE_WORK, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Payload, Timeline, TimelineLevel
from tb_plugin.views.timeline import VIEW

# Slices of the overview strip; about its width in pixels.
SLICES = 1200
# The page shortens names, and several may have one short name.
MOST_KERNELS = 32


class TimelineAnalysis(DeclaredView, entry=VIEW):
    selects = "steps"

    def part(self, trace: TraceTable, params: Params) -> Part:
        head = head_of(pyramid_of(trace))
        payloads: dict[str, Payload] = {"timeline": head}
        if len((failures := failures_of(trace)).row):
            payloads["out_of_memory"] = marks_of(trace, failures)
        return Part(select_rows(trace, params.steps).coverage, payloads=payloads, layout=tuple(payloads))


def head_of(pyramid: Pyramid) -> Timeline:
    trace = pyramid.trace
    groups = np.append(pyramid.lane[pyramid.groups[:-1]], len(pyramid.lanes))
    busy, is_device = busy_of(trace, trace.coverage.start_ns, trace.coverage.end_ns)
    return Timeline(
        start_ns=trace.coverage.start_ns,
        end_ns=trace.coverage.end_ns,
        tracks=pyramid.lanes,
        groups=groups.tolist(),
        levels=[
            TimelineLevel(level.cell_ns, min(tile_ns(number), MOST_NS)) for number, level in enumerate(pyramid.levels)
        ],
        categories=CATEGORIES,
        kernels=_longest_kernels(trace),
        has_modules=pyramid.module is not None,
        has_communication=bool(communicates(trace).any()),
        busy=busy,
        busy_is_device=is_device,
        is_range_trace=is_range_trace(trace),
        total_events=len(trace),
    )


def busy_of(trace: TraceTable, start_ns: int, end_ns: int) -> tuple[list[float], bool]:
    """Returns the busy fraction in ``SLICES`` slices of a time range, and whether it is that of the devices."""
    work = of_kind(trace.kind, *DEVICE_WORK)
    is_device = bool(work.any())
    if not is_device:
        work = of_kind(trace.kind, EventKind.OPERATOR, EventKind.RUNTIME)
    if not work.any():
        work = of_kind(trace.kind, EventKind.ANNOTATION, EventKind.PYTHON, EventKind.MODULE)
    edges = np.linspace(start_ns, end_ns, SLICES + 1).astype(np.int64)
    busy = measure_within(union(trace.start_ns[work], trace.ends(work)), edges[:-1], edges[1:])
    return np.round(busy / np.maximum(np.diff(edges), 1), 3).tolist(), is_device


def _longest_kernels(trace: TraceTable) -> list[str]:
    """Returns the names of the kernels with the most time, without communication."""
    rows = of_kind(trace.kind, EventKind.KERNEL) & ~communicates(trace)
    time = np.bincount(trace.name[rows], trace.dur_ns[rows])
    return [trace.strings[name] for name in np.argsort(-time, kind="stable")[:MOST_KERNELS].tolist() if time[name]]
