"""Gradient reductions on the compute stream."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.simulate import Change
from tb_plugin.lib.arrays import Bool
from tb_plugin.lib.groupby import sum_by
from tb_plugin.rules._base import COMMON, Bounds, Detection, Limit, Rule, Scene, percent
from tb_plugin.rules._collectives import ONE_RANK, Collectives, collectives, could_hide, first_of, left_over

SERIAL_SHARE = 0.02
"""Minimum share of these collectives in the steps. Smaller shares are within step-to-step noise."""

METRICS = COMMON.in_steps(
    ns={
        "serial_ns": ("On the compute stream", "Exposed time of gradient collectives on the compute stream, per step.")
    },
    ratio={"serial_ratio": ("Share of step", "Time on the compute stream divided by mean step time.")},
    number={"serial_collectives": ("Collectives", "Collectives on the compute stream per step.")},
)


def serial_calls(found: Collectives) -> Bool:
    """Returns, for each collective, whether this rule applies."""
    return found.is_serial


def _look(s: Scene) -> Detection | None:
    found = collectives(s.trace, s.chosen)
    found = found.of(serial_calls(found))
    taken = s.per_step(int(found.bare_ns.sum()))
    share = taken / s.step_ns if s.step_ns else 0.0
    if share <= SERIAL_SHARE:
        return None
    notice = s.notice(
        RULE,
        text="{serial_collectives} collectives per step reduce gradients on the compute stream and block it for {serial_ns} "
        f"({{serial_ratio}}). {ONE_RANK}",
        figures=METRICS.measured(serial_ns=taken, serial_ratio=share, serial_collectives=s.per_step(len(found.row))),
        measure="serial_ratio",
        threshold=SERIAL_SHARE,
        why="Work on a stream runs in order, so the rest of the backward pass waits needlessly. Lower bound: the "
        "collectives overlap with the rest of the backward pass. Upper bound: they overlap with the whole step. Both bounds "
        "assume that computation and communication do not slow each other down.",
        confidence="high",
    )
    count = len(s.steps.label)
    bare = sum_by(found.step, found.bare_ns, count)
    most = first_of(found, could_hide(s.trace, s.steps))
    least = np.minimum(first_of(found, bare - left_over(found, found.dur_ns, count)), most)
    return Detection(
        notice,
        Bounds(Change(row=found.row, less_ns=least), Change(row=found.row, less_ns=most)),
        s.by_length(found.row),
    )


RULE = Rule(
    __name__,
    title="Collectives on the compute stream",
    look=_look,
    order=240,
    detects="Collectives reduce gradients on the compute stream.",
    threshold=f"These collectives take more than {percent(SERIAL_SHARE)} of step time.",
    saving="Upper bound: the collectives overlap with the whole step. Lower bound: they overlap with the rest of the "
    "backward pass.",
    notes="""
        The bounds assume that computation and communication do not slow each other down.
    """,
    needs_kernels=True,
    limits=(Limit.COMMUNICATION,),
)
