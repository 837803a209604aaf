"""Training runs whose batch could be larger at little cost."""

from __future__ import annotations

from tb_plugin.analysis.idle.causes import Cause
from tb_plugin.analysis.range_patterns import BACKWARD
from tb_plugin.analysis.simulate import Change
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.payloads import Link
from tb_plugin.rules._base import Bounds, Detection, Limit, Rule, Scene, percent
from tb_plugin.rules._launch_starvation import LAUNCHING, launch_wait_ns, starvation_finding
from tb_plugin.rules.memory_limit import fullest_device

MOSTLY_STARVED = 0.3
"""Minimum share of launch idle time. The device is then busy for at most 70 % of the step."""
ROOM = 0.5
"""Maximum share of device memory in use. Up to this share, the program can double its memory use."""
FED = 0.05
# A larger batch needs more input, so data loading must be short.
BATCHES = 2


def _look(s: Scene) -> Detection | None:
    if (
        not s.idle
        or launch_wait_ns(s).mean() < MOSTLY_STARVED * s.step_ns
        or s.idle[Cause.INPUT].mean() > FED * s.step_ns
    ):
        return None
    fullest_of = fullest_device(s)
    if (fullest_of is not None and fullest_of[0] > ROOM) or not _trains(s):
        return None
    found = starvation_finding(s)
    if found is None:
        return None
    notice = s.notice(
        RULE,
        text="Devices wait for launches during {launching_ratio} of the time, and half of the kernels take at most "
        "{kernel_median_ns}. A batch twice as large needs no additional launches.",
        figures=found.figures,
        evidence=Link("launches", {}, "Show launches"),
        why="The saving assumes a batch twice as large. Lower bound: device work takes twice as long. Upper bound: device "
        "work takes as long as before. Both bounds assume that data loading keeps up; convergence may change.",
    )
    work = s.rows_of(EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET)
    least = Change(row=work, less_ns=-(BATCHES - 1) * s.trace.dur_ns[work], worth=BATCHES)
    return Detection(notice, Bounds(least, Change(worth=BATCHES)), s.after_idle(*LAUNCHING))


def _trains(s: Scene) -> bool:
    backward = s.trace.strings.where(lambda text: BACKWARD.match(text) is not None)[s.trace.name]
    return bool((backward & s.rows & (s.trace.kind == EventKind.OPERATOR)).any())


RULE = Rule(
    __name__,
    title="Small batch",
    look=_look,
    order=110,
    detects="A training run waits for launches, so a larger batch would hardly take longer.",
    threshold=f"Launch idle time, as defined for `launch_bound`, is at least {percent(MOSTLY_STARVED)} of the step.",
    saving="The step time saved for the same number of samples: a step with twice the batch counts as two steps. The lower "
    "bound doubles the time of all GPU work; the upper bound leaves this time unchanged.",
    needs="Backward operators.",
    notes="""
        The rule is skipped if data loading takes more than 5 % of the step. It is also skipped if more than half of the
        GPU memory was allocated. Both bounds assume that the data loader keeps up, and ignore convergence.
        `launch_bound` includes most of this saving too.
    """,
    needs_kernels=True,
    limits=(Limit.CPU,),
)
