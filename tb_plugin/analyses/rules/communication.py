"""Communication that nothing hides."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.communication import COMMUNICATION_SHARE, SEND_LESS, communicates, exposed
from tb_plugin.analyses.rules.base import Rule, Scene, Seen
from tb_plugin.analyses.rules.metrics import METRICS
from tb_plugin.analyses.severity import severity_of
from tb_plugin.analyses.what_if import Change
from tb_plugin.analyses.wording import references_of
from tb_plugin.payloads import Link, Notice
from tb_plugin.trace.intervals import intersect, measure_within
from tb_plugin.trace.schema import EventKind

Int64 = npt.NDArray[np.int64]


def _look(s: Scene) -> Seen | None:
    part, share = s.part("communication")
    if share <= COMMUNICATION_SHARE:
        return None
    rows = s.longest(communicates(s.trace))
    notice = Notice(
        rule="communication",
        severity=severity_of(share),
        text="Communication that nothing hides takes {communication_ns} of each {step_time_mean_ns} step. This trace alone "
        "does not tell how much of it is waiting for others.",
        todo="See in Distributed, with the traces of all ranks, whether this one waits or moves data. If it waits, look at "
        f"the rank that arrives last: sending less would not help. If data moves: {SEND_LESS}",
        figures=[
            METRICS.figure("communication_exposed", share),
            METRICS.figure("communication_ns", part),
            METRICS.figure("step_time_mean_ns", s.step_ns),
        ],
        measure="communication_exposed",
        threshold=COMMUNICATION_SHARE,
        evidence=Link("distributed", {}, "Show waiting and transfer"),
        references=references_of(s.trace.recorder, "communication"),
        why="While only communication runs, the device computes nothing. The bounds hold if the other ranks are as fast as "
        "this one; the lower one leaves the last collective of each step, which nothing comes after to hide it.",
        confidence="medium",
    )
    last = _last_of_each_step(s, rows)
    if (s.trace.kind[rows] == EventKind.KERNEL).all():
        bare = measure_within(exposed(s.trace), s.trace.start_ns[rows], s.trace.end_ns[rows])
        return Seen(notice, Change(row=rows, less_ns=np.where(last, 0, bare)), Change(row=rows, less_ns=bare), rows)
    bare_host = intersect(exposed(s.trace), s.host)
    return Seen(notice, Change(intersect(bare_host, s.covered(rows[~last]))), Change(bare_host), rows)


def _last_of_each_step(s: Scene, rows: Int64) -> npt.NDArray[np.bool_]:
    """Which rows are the last of their step to end."""
    step = np.searchsorted(s.steps.start_ns, s.trace.start_ns[rows], side="right")
    order = np.lexsort((s.trace.end_ns[rows], step))
    last = np.zeros(len(rows), np.bool_)
    last[order[np.append(step[order][1:] != step[order][:-1], True)[: len(order)]]] = True
    return last


RULE = Rule("communication", "Communication that nothing hides", _look)
