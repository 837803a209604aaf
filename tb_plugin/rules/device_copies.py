"""Copies within a device."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.copy_directions import copies_in_direction
from tb_plugin.analysis.graphs.attribution import operator_names
from tb_plugin.analysis.metrics import LINE
from tb_plugin.analysis.severity import severity_of
from tb_plugin.analysis.simulate import Change
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import group
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Link
from tb_plugin.rules._base import COMMON, Bounds, Detection, Limit, Rule, Scene, optional, percent
from tb_plugin.rules._overlap import bytes_of
from tb_plugin.rules._streams import LEVELS

MIN_SHARE = 0.02
"""Minimum share of copies in the steps. Most programs copy some data within the device."""
MAX_LISTED_OPERATORS = 3
METRICS = COMMON.in_steps(
    ns={"device_copy_ns": ("Copy time", "Time of copies within a device per step, averaged over devices.")},
    ratio={"device_copy_ratio": ("Copy share", "Copy time divided by step time.")},
    number={"device_copies": ("Copies", "Copies within the device per step.")},
    bytes={"device_copy_bytes": ("Bytes", "Copied bytes per step.")},
    code={
        "device_copy_operators": ("Operators", "Operators with the most copy time, and their shares."),
        "device_copy_line": ("Python line", LINE.format("copy")),
    },
)


def copies_within(trace: TraceTable) -> Bool:
    """Returns a row mask of the copies within one device that the driver executes."""
    found = np.zeros(len(trace), np.bool_)
    found[copies_in_direction(trace, "dtod")] = True
    return found


def _look(s: Scene) -> Detection | None:
    trace = s.trace
    copies = s.longest(copies_within(trace))
    time = int(trace.dur_ns[copies].sum())
    devices = len(np.unique(trace.device[copies]))
    share = s.per_step(time) / devices / s.step_ns if devices and s.step_ns else 0.0
    if share < MIN_SHARE:
        return None
    size, line, operators = bytes_of(trace, copies), s.line(copies), _operators(trace, copies)
    notice = s.notice(
        RULE,
        severity=severity_of(share),
        text="Copies within the device take {device_copy_ns} per step ({device_copy_ratio})"
        + (", {device_copy_bytes}" if size.any() else "")
        + (", launched by {device_copy_operators}" if operators else "")
        + (", mostly at {device_copy_line}." if line else "."),
        figures=METRICS.measured(
            device_copies=s.per_step(len(copies)),
            device_copy_ns=s.per_step(time) / devices,
            device_copy_ratio=share,
            device_copy_bytes=s.per_step(int(size.sum())),
            **optional(operators, device_copy_operators=operators),
            **optional(line, device_copy_line=line),
        ),
        measure="device_copy_ratio",
        threshold=MIN_SHARE,
        evidence=Link("kernels", {"group": "copies"}, "Show copies"),
        why="These copies move tensors and compute nothing. Upper bound: no copies remain. The trace does not show which "
        "copies the program needs.",
    )
    row = np.sort(copies)
    around = np.unique(trace.operator[row]).astype(np.int64)
    most = Change(s.covered(around[around != MISSING]), row, trace.dur_ns[row])
    return Detection(notice, Bounds(Change(), most), copies, int(time))


def _operators(trace: TraceTable, copies: Int64) -> str:
    """Returns the operators with the most copy time, such as ``aten::cat (60 %) and aten::clone (40 %)``; "" if unknown."""
    names, time = operator_names(trace, copies), trace.dur_ns[copies]
    launched = trace.operator[copies] != MISSING
    names[launched] = trace.name[_calling(trace, trace.operator[copies[launched]].astype(np.int64))]
    groups = group(names)
    total = groups.sum(time)
    name = names[groups.first]
    order = np.lexsort((name, -total))
    order = order[name[order] != MISSING][:MAX_LISTED_OPERATORS]
    *others, last = [f"{trace.strings[int(name[i])]} ({100 * total[i] / time.sum():.0f} %)" for i in order] or [""]
    return f"{', '.join(others)} and {last}" if others else last


def _calling(trace: TraceTable, operators: Int64) -> Int64:
    """Returns the operator responsible for each copy: its own, or the enclosing one ``LEVELS`` levels above."""
    for _ in range(LEVELS):
        outer = trace.operator[operators]
        operators = np.where(outer == MISSING, operators, outer).astype(np.int64)
    return operators


RULE = Rule(
    __name__,
    title="Copies within the device",
    look=_look,
    order=360,
    detects="The driver copies tensors within the GPU (`Memcpy DtoD`).",
    threshold=f"These copies take at least {percent(MIN_SHARE)} of step time, averaged over the GPUs that copy.",
    saving="Upper bound: the time of all these copies and of the operators that launch them. Lower bound: 0, because the "
    "trace does not show which copies the program needs.",
    notes="""
        The finding names the Python line and the operators with the most copies. Such an operator is at most four
        levels above the operator that launches the copy. Copies made by kernels are excluded: `redundant_copies` covers
        them.
    """,
    limits=(Limit.GPU, Limit.COPIES),
)
