"""Copies on the compute stream that do not overlap with other work."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.hardware_streams import hardware_streams
from tb_plugin.analysis.metrics import LINE
from tb_plugin.analysis.simulate import Change
from tb_plugin.rules._base import COMMON, MIN_SHARE, Bounds, Detection, Limit, Rule, Scene, optional, percent
from tb_plugin.rules._host_waits import copies_to_device, host_waits
from tb_plugin.rules._overlap import HIDDEN, bytes_of, exposed_copy_time, overlapped_ns
from tb_plugin.rules.repeated_copies import repeated_copies

METRICS = COMMON.in_steps(
    ns={"exposed_copy_ns": ("Exposed copies", "Time during which only copies run, per step.")},
    number={"exposed_copies": ("Copies", "Exposed copies per step.")},
    bytes={"exposed_copy_bytes": ("Bytes", "Bytes of exposed copies per step.")},
    code={"exposed_copy_line": ("Python line", LINE.format("copy"))},
)


def _look(s: Scene) -> Detection | None:
    trace = s.trace
    copies = copies_to_device(trace)
    streams = hardware_streams(trace).of
    copies = copies[s.rows[copies] & np.isin(streams[copies], streams[s.kernels])]
    copies = np.setdiff1d(copies, np.append(host_waits(trace).copy, repeated_copies(trace).row))
    if not s.is_significant(int(trace.dur_ns[copies].sum())):
        return None
    bare = exposed_copy_time(trace, copies)
    copies, bare = copies[bare > 0], bare[bare > 0]
    if not s.is_significant(int(bare.sum())):
        return None
    size, line = bytes_of(trace, copies), s.line(copies)
    notice = s.notice(
        RULE,
        text=f"{s.per_step_words} copies to the device run for {{exposed_copy_ns}} on the compute stream while nothing else "
        "runs"
        + (", {exposed_copy_bytes}" if size.any() else "")
        + (", mostly at {exposed_copy_line}." if line else "."),
        figures=METRICS.measured(
            exposed_copy_ns=s.per_step(int(bare.sum())),
            exposed_copies=s.per_step(len(copies)),
            exposed_copy_bytes=s.per_step(int(size.sum())),
            **optional(line, exposed_copy_line=line),
        ),
        why="A stream runs its work in order, so a kernel waits for the preceding copy. The bounds assume that the data is "
        "ready one step before its use. Other work then overlaps 75 % (lower bound) to 100 % (upper bound) of these copies.",
    )
    least, most = (Change(row=copies, less_ns=np.minimum(overlapped_ns(s, copies, low), bare)) for low in (True, False))
    return Detection(notice, Bounds(least, most), s.by_length(copies))


RULE = Rule(
    __name__,
    title="Copies that could overlap",
    look=_look,
    order=60,
    detects="Copies to the GPU run on a compute stream while nothing else runs.",
    threshold=f"The exposed time of these copies is at least {percent(MIN_SHARE)} of the step.",
    saving=f"Upper bound: the copy time that other work of the step can overlap. Lower bound: {percent(HIDDEN)} of this "
    "time.",
    notes="""
        The CPU does not wait for these copies. The bounds assume that the data is available one step before its use, as
        a batch usually is.
    """,
    needs_kernels=True,
    limits=(Limit.COPIES,),
)
