"""Low utilization that other findings do not explain."""

from __future__ import annotations

from tb_plugin.analysis.idle.causes import Cause
from tb_plugin.analysis.idle.host import silent_ranges
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.rules._base import Detection, Limit, Rule, Scene, percent
from tb_plugin.rules._idle_cause import METRICS, LeastBusy, idle_detection, least_busy

LOW_UTILIZATION = 0.5
EXPLAINED = 0.5
"""Other findings explain the idle time if their fixes save at least this share of the idle time."""
_CASES = {Cause.UNEXPLAINED: "unexplained", Cause.INITIALISATION: "initialisation", Cause.CAPTURE: "capture"}


def is_explained(s: Scene, saving_ns: float) -> bool:
    """Returns whether saving ``saving_ns`` per step explains most of the devices' idle time."""
    return saving_ns >= EXPLAINED * sum(float(time.mean()) for time in s.idle.values()) > 0


def _look(s: Scene) -> Detection | None:
    found = least_busy(s, LOW_UTILIZATION)
    if found is None:
        return None
    text = f"Device {{device}} runs kernels for only {{utilization}} of {found.window}."
    if found.count > 1:
        text = f"{{affected}} devices run kernels for less than half of {found.window}; device {{device}} for only "
        text += "{utilization}."
    case = _CASES.get(found.cause, "") if found.cause is not None else ""
    todo = missing_launch_advice(s, found) or s.todo(RULE, case) or s.todo(RULE)
    affected = METRICS.figure("affected", found.count, "Devices")
    return idle_detection(s, RULE, found, LOW_UTILIZATION, "medium", text, todo, affected)


def missing_launch_advice(s: Scene, found: LeastBusy) -> str:
    """Returns advice about missing launches or CPU events if they are the largest idle cause, otherwise ""."""
    if found.cause != Cause.NOT_RECORDED:
        return ""
    # The CPU is recorded, but nothing tells what it does between operators.
    place = next(i for i, each in enumerate(s.trace.devices) if each.id == found.device)
    silent = len(silent_ranges(s.trace, place)) and (s.trace.kind == EventKind.OPERATOR).any()
    return (s.trace.recorder.todo("stacks_missing") if silent else "") or s.todo(RULE, "unlaunched")


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
