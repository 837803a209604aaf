"""The host waits for a device inside of steps, and the device has nothing to do afterwards."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.directions import directions_of
from tb_plugin.analyses.rules.base import Rule, Scene, Seen
from tb_plugin.analyses.rules.metrics import METRICS
from tb_plugin.analyses.waits import waits_for_device
from tb_plugin.analyses.what_if import Change
from tb_plugin.analyses.wording import references_of
from tb_plugin.payloads import Link, Notice
from tb_plugin.trace.schema import MISSING, EventKind

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


def _look(s: Scene) -> Seen | None:
    trace = s.trace
    calls = s.longest(waits_for_device(trace) & (trace.kind == EventKind.RUNTIME) & s.on_threads & ~_feeding(s))
    if not len(calls):
        return None
    line = s.line(calls)
    notice = Notice(
        rule="synchronising_calls",
        severity="medium",
        text="In each step the host waits {sync_calls} times for the device, {sync_ns}"
        + (", most of it from {sync_line}." if line else "."),
        todo=trace.recorder.todo("synchronising_calls"),
        figures=[
            METRICS.figure("sync_ns", s.per_step(int(trace.dur_ns[calls].sum()))),
            METRICS.figure("sync_calls", s.per_step(len(calls))),
            *([METRICS.figure("sync_line", line)] if line else []),
        ],
        evidence=Link("idle", {"where": "cause:Synchronising calls"}, "Show what waits"),
        references=references_of(trace.recorder, "synchronising_calls"),
        why="While the host waits it launches nothing: once the device is done it has nothing to do until the next launch.",
        confidence="high",
    )
    # At best the operator that asks for the value is not needed either.
    around = np.where(trace.operator[calls] == MISSING, calls, trace.operator[calls]).astype(np.int64)
    return Seen(notice, Change(s.covered(calls)), Change(s.covered(around)), calls)


def _feeding(s: Scene) -> Bool:
    """Which calls copy to a device: other rules speak of these."""
    trace = s.trace
    copies = np.flatnonzero((trace.kind == EventKind.MEMCPY) & (trace.launch != MISSING))
    found = np.zeros(len(trace), np.bool_)
    found[trace.launch[copies[directions_of(trace, copies) == 0]]] = True
    return found


RULE = Rule("synchronising_calls", "Synchronising calls", _look)
