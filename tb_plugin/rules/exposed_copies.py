"""Copies on the compute stream that overlap with nothing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.hardware_streams import hardware_streams
from tb_plugin.analysis.metrics import LINE, STEPS, define
from tb_plugin.analysis.simulate import Change
from tb_plugin.payloads import Link
from tb_plugin.rules._base import WORTH, Bounds, Detection, Rule, Scene, percent
from tb_plugin.rules._host_waits import copies_to_device, host_waits
from tb_plugin.rules._limits import Limit
from tb_plugin.rules._metrics import METRICS as OF_RULES
from tb_plugin.rules._overlap import HIDDEN, bytes_of, exposed_copy_time, overlapped_ns
from tb_plugin.rules.repeated_copies import repeated_copies

Int64 = npt.NDArray[np.int64]

METRICS = OF_RULES.adding(
    define(
        STEPS,
        "ns",
        {"exposed_copy_ns": ("Exposed copies", "Time during which only copies run, per step.")},
    ),
    define(STEPS, "number", {"exposed_copies": ("Copies", "Exposed copies per step.")}),
    define(STEPS, "bytes", {"exposed_copy_bytes": ("Bytes", "Bytes of exposed copies per step.")}),
    define(
        STEPS,
        "code",
        {"exposed_copy_line": ("Python line", LINE.format("copy"))},
    ),
)


def _look(s: Scene) -> Detection | None:
    trace = s.trace
    copies = copies_to_device(trace)
    streams = hardware_streams(trace).of
    copies = copies[s.rows[copies] & np.isin(streams[copies], streams[s.kernels])]
    copies = np.setdiff1d(copies, np.append(host_waits(trace).copy, repeated_copies(trace).row))
    if not s.is_worth(int(trace.dur_ns[copies].sum())):
        return None
    bare = exposed_copy_time(trace, copies)
    copies, bare = copies[bare > 0], bare[bare > 0]
    if not s.is_worth(int(bare.sum())):
        return None
    size, line = bytes_of(trace, copies), s.line(copies)
    notice = s.notice(
        RULE,
        severity="medium",
        text=f"{s.each} copies to the device run for {{exposed_copy_ns}} on the compute stream while nothing else runs"
        + (", {exposed_copy_bytes}" if size.any() else "")
        + (", mostly at {exposed_copy_line}." if line else "."),
        figures=[
            METRICS.figure("exposed_copy_ns", s.per_step(int(bare.sum()))),
            METRICS.figure("exposed_copies", s.per_step(len(copies))),
            METRICS.figure("exposed_copy_bytes", s.per_step(int(size.sum()))),
            *([METRICS.figure("exposed_copy_line", line)] if line else []),
        ],
        evidence=Link("timeline", {}, "Show in timeline"),
        why=(
            "A stream runs its work in order, so a kernel waits for the copy before it. The bounds assume "
            "that the data is ready one step ahead. Other work then overlaps 75 % (lower bound) to 100 % "
            "(upper bound) of these copies."
        ),
        confidence="medium",
    )
    least, most = (Change(row=copies, less_ns=np.minimum(overlapped_ns(s, copies, low), bare)) for low in (True, False))
    return Detection(notice, Bounds(least, most), s.by_length(copies))


RULE = Rule(
    __name__,
    title="Copies that could overlap",
    look=_look,
    order=60,
    detects="Copies to the GPU run on a compute stream while nothing else runs.",
    threshold=f"Their exposed time is at least {percent(WORTH)} of the step.",
    saving=f"Upper bound: the copy time that other work of the step can overlap. Lower bound: {percent(HIDDEN)} of it.",
    notes="""
        The CPU does not wait for these copies. The bounds assume that the data is available one step ahead, like a
        batch.
    """,
    needs_kernels=True,
    limits=(Limit.COPIES,),
)
