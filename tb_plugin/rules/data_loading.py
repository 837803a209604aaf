"""Data loading."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.metrics import LINE
from tb_plugin.analysis.range_patterns import name_matches
from tb_plugin.analysis.severity import severity_of
from tb_plugin.analysis.simulate import Change
from tb_plugin.analysis.step_shares import active_rows, shares
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.intervals import Ranges, intersect, measure, measure_within, union
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.rules._base import COMMON, Bounds, Detection, Limit, Rule, Scene, optional, percent

METRICS = COMMON.in_steps(
    ns={
        "dataloader_mean_ns": ("Data loading", "Data loading not overlapped by device work or calls, per step."),
        "first_batch_ns": ("First batch", "Time of the first batch that nothing overlaps."),
    },
    code={"loader_line": ("Python line", LINE.format("data loading"))},
)


DATALOADER_SHARE = 0.02
"""Minimum share of data loading in the steps. Other rules use 5 %, but the fix for data loading changes only one argument."""
GONE = 0.75
"""Minimum share of exposed data loading that the fix saves (V100, 4 workers: 0.83 and 0.86); handing over takes time."""


def _look(s: Scene) -> Detection | None:
    part, share = s.category_share("dataloader")
    if share <= DATALOADER_SHARE:
        return None
    trace = s.trace
    rows = s.longest(active_rows(trace, "dataloader"))
    own, workers = (_time(s, rows, pattern) for pattern in (trace.recorder.host.loading, trace.recorder.host.awaiting))
    bare = intersect(shares(trace)["dataloader"], s.host)
    first = _first_batch(trace, rows, bare) if workers > own else 0
    kind = " The data loader workers are too slow."
    if own > workers:
        kind = " Data is loaded in the main process."
    elif first:
        kind = " The first batch alone takes {first_batch_ns}, because the workers start."
    line = s.line(rows)
    notice = s.notice(
        RULE,
        severity=severity_of(share),
        text="Data loading takes {dataloader_mean_ns} of {step_time_mean_ns} per step."
        + (kind if own or workers else "")
        + (" Most of this time is at {loader_line}." if line else ""),
        case="start" if first else "workers" if workers > own else "",
        figures=METRICS.measured(
            waiting_for_input=share,
            dataloader_mean_ns=part,
            step_time_mean_ns=s.step_ns,
            **optional(first, first_batch_ns=first),
            **optional(line, loader_line=line),
        ),
        measure="waiting_for_input",
        threshold=DATALOADER_SHARE,
        why="The step blocks until its batch arrives. Upper bound: batches are always ready. Lower bound: a quarter of the "
        "wait remains for handing over batches and for CPU contention with the workers.",
        confidence="high" if own > workers else "medium",
    )
    least = union(bare.start, bare.start + ((bare.end - bare.start) * GONE).astype(np.int64))
    takes_ns = int(s.breakdown.parts["dataloader"].sum())
    return Detection(notice, Bounds(Change(least), Change(s.covered(rows))), rows, takes_ns)


def _first_batch(trace: TraceTable, rows: Int64, bare: Ranges) -> int:
    """Returns the exposed time of the recording's first batch if it is more than that of all other batches, otherwise 0."""
    first = np.flatnonzero(active_rows(trace, "dataloader"))[:1]
    if len(rows) < 2 or not np.isin(first, rows).all():
        return 0
    time = int(measure_within(bare, trace.start_ns[first], trace.ends(first)).sum())
    return time if 2 * time > measure(bare) else 0


def _time(s: Scene, rows: Int64, pattern: str) -> int:
    return int(s.trace.dur_ns[rows[name_matches(s.trace, pattern)[rows]]].sum())


RULE = Rule(
    __name__,
    title="Data loading",
    look=_look,
    order=20,
    detects="The step waits for the next batch of the data loader.",
    threshold=f"Data loading takes more than {percent(DATALOADER_SHARE)} of step time.",
    saving="Upper bound: all exposed time in calls of the data loader, as if batches were always ready. Lower bound: "
    f"{percent(GONE)} of the time during which nothing else runs. The rest of this time remains because batches must be "
    "handed over and workers compete for the CPU.",
    notes="""
        The finding shows whether the main process loads the batches or the workers are too slow (`workers`). If the first
        batch of the recording takes more time than all others, the workers are starting (`start`).
    """,
    cases=("", "workers", "start"),
    needs_kernels=True,
    limits=(Limit.DATA_LOADING,),
)
