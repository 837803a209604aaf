"""Blocking copies from host to device."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.metrics import LINE
from tb_plugin.analysis.simulate import Change
from tb_plugin.lib.intervals import measure
from tb_plugin.rules._base import COMMON, MIN_SHARE, Bounds, Detection, Limit, Rule, Scene, optional, percent
from tb_plugin.rules._host_waits import WaitReason, from_pageable, host_waits, wait_ranges
from tb_plugin.rules._overlap import HIDDEN, bytes_of, overlapped_ns
from tb_plugin.rules.repeated_copies import repeated_copies

METRICS = COMMON.in_steps(
    number={"pageable_copies": ("Copies", "Blocking copies to a device per step.")},
    bytes={"pageable_bytes": ("Bytes", "Bytes of blocking copies per step.")},
    ns={
        "pageable_ns": ("On the device", "Device time of blocking copies per step."),
        "pageable_host_ns": ("On the host", "Host time of blocking copies per step."),
    },
    bytes_per_second={"pageable_bandwidth": ("Bandwidth", "Bytes divided by device time of blocking copies.")},
    code={"pageable_line": ("Python line", LINE.format("copy"))},
)


def _look(s: Scene) -> Detection | None:
    trace, waits = s.trace, host_waits(s.trace)
    at = waits.of(WaitReason.COPY)
    at = at[(s.rows & s.on_threads)[waits.row[at]]]
    at = at[~np.isin(waits.copy[at], repeated_copies(trace).row)]
    calls, copies = waits.row[at], np.unique(waits.copy[at])
    whole, dur = wait_ranges(s, calls, waits.place[at]), trace.dur_ns[copies]
    if not s.is_significant(measure(whole) + int(dur.sum())):
        return None
    size, line = bytes_of(trace, copies), s.line(copies)
    pageable = from_pageable(trace, copies).all()
    notice = s.notice(
        RULE,
        text=f"{s.per_step_words} the host is blocked for {{pageable_host_ns}} in copies to the device"
        + (" from pageable memory" if pageable else "")
        + (", {pageable_bytes} at {pageable_bandwidth}" if size.any() else "")
        + (", mostly at {pageable_line}." if line else "."),
        figures=METRICS.measured(
            pageable_host_ns=s.per_step(int(trace.dur_ns[calls].sum())),
            pageable_copies=s.per_step(len(copies)),
            pageable_ns=s.per_step(int(dur.sum())),
            pageable_bytes=s.per_step(int(size.sum())) if size.any() else None,
            pageable_bandwidth=int(size.sum()) * 1e9 / int(dur.sum()) if size.any() and dur.any() else None,
            **optional(line, pageable_line=line),
        ),
        why="The host launches nothing until the copy ends, and the device is idle. The bounds assume that the data is in "
        "pinned memory and is copied one batch ahead on a separate stream. The waits then disappear. Other work, if long "
        "enough, overlaps 75 % (lower bound) to 100 % (upper bound) of the copies.",
        confidence="high" if pageable else "medium",
    )
    least = Change(s.covered(calls), copies, overlapped_ns(s, copies))
    takes_ns = max(int(trace.dur_ns[calls].sum()), int(dur.sum()))
    return Detection(notice, Bounds(least, Change(whole, copies, dur)), s.by_length(copies), takes_ns)


RULE = Rule(
    __name__,
    title="Blocking host-to-device copies",
    look=_look,
    order=50,
    detects="The CPU waits for copies to the GPU.",
    threshold=f"These calls and copies take at least {percent(MIN_SHARE)} of the step.",
    saving=f"Lower bound: the time of the calls that wait, and {percent(HIDDEN)} of the copy time that other work can "
    "overlap. Upper bound: the time of all these copies and of the operators around them.",
    notes="""
        A copy counts in three cases: its memory is reported as pageable, its call returned after the copy ended, or its
        operator waits. The bounds assume that the data is in pinned memory and is copied one batch ahead on a separate
        stream. `repeated_copies` covers data that is copied repeatedly.
    """,
    limits=(Limit.CPU, Limit.COPIES),
)
