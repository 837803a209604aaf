"""Low utilization that other findings do not explain."""

from __future__ import annotations

from tb_plugin.analysis.device_time import busy_title
from tb_plugin.analysis.idle.causes import Cause
from tb_plugin.rules._base import NO_SAVING, Detection, Limit, Rule, Scene, percent
from tb_plugin.rules._idle_cause import METRICS, LargestCause, largest_cause, window_words

LOW_UTILIZATION = 0.5
EXPLAINED = 0.5
"""Other findings explain the idle time if their fixes save at least this share of the idle time."""
_CASES = {Cause.UNEXPLAINED: "unexplained", Cause.INITIALISATION: "initialisation", Cause.CAPTURE: "capture"}


def is_explained(s: Scene, saving_ns: float) -> bool:
    """Returns whether saving ``saving_ns`` per step explains most of the devices' idle time."""
    return saving_ns >= EXPLAINED * sum(float(time.mean()) for time in s.idle.values()) > 0


def _look(s: Scene) -> Detection | None:
    low = {
        d: r.utilization for d, r in s.ratios.items() if r.utilization is not None and r.utilization < LOW_UTILIZATION
    }
    if not low:
        return None
    worst, time = min(low, key=lambda device: low[device] or 0.0), window_words(s)
    largest = largest_cause(s, worst)
    case = "" if largest.cause is None else _CASES.get(largest.cause, "")
    return Detection(
        s.notice(
            RULE,
            severity="medium",
            text=(
                f"{{affected}} devices run kernels for less than half of {time}; device {{device}} for only "
                "{utilization}."
                if len(low) > 1
                else f"Device {{device}} runs kernels for only {{utilization}} of {time}."
            )
            + largest.text,
            todo=missing_launch_advice(s, largest) or s.todo(RULE, case) or s.todo(RULE),
            figures=[
                METRICS.figure("utilization", low[worst], busy_title(s.trace, worst)),
                METRICS.figure("device", worst),
                METRICS.figure("affected", len(low), "Devices"),
                *largest.figures,
            ],
            measure="utilization",
            threshold=LOW_UTILIZATION,
            evidence=largest.link,
        ),
        NO_SAVING,
        takes_ns=largest.time_ns,
    )


def missing_launch_advice(s: Scene, largest: LargestCause) -> str:
    """Returns advice about missing launches if they are the largest idle cause, otherwise ""."""
    return s.todo(RULE, "unlaunched") if largest.cause == Cause.NOT_RECORDED else ""


RULE = Rule(
    __name__,
    title="Low utilization",
    look=_look,
    order=490,
    detects="A GPU is idle most of the time, and other findings explain less than half of the idle time.",
    threshold=f"The utilization of the GPU is below {percent(LOW_UTILIZATION)}, and all findings together save less than "
    f"{percent(EXPLAINED)} of the idle time.",
    saving="None: the finding shows the largest idle cause and its share of the idle time.",
    notes="""
        For the 200 longest idle periods with that cause, the finding also shows the CPU activity, operator and Python
        line. Waiting for the GPU is not a separate cause: if work was launched long before it started, the cause
        remains *Unexplained*.
    """,
    cases=("", *_CASES.values(), "unlaunched"),
    needs_kernels=True,
    limits=(Limit.CPU, Limit.INITIALISATION, Limit.CAPTURE, Limit.CPU_NOT_RECORDED),
)
