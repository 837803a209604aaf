"""A device has nothing to do for much of the time, and what the findings would save explains less than half of that."""

from __future__ import annotations

from tb_plugin.analyses.idle.account import idle_account
from tb_plugin.analyses.idle.metrics import TITLES
from tb_plugin.analyses.metrics import STEPS, define
from tb_plugin.analyses.rules.base import Rule, Scene, Seen
from tb_plugin.analyses.rules.metrics import METRICS as OF_RULES
from tb_plugin.analyses.wording import references_of
from tb_plugin.payloads import Figure, Link, Notice

METRICS = OF_RULES.adding(
    define(
        STEPS,
        "ratio",
        {"idle_cause_ratio": ("Share of it", "Share of the device's idle time that its largest cause takes.")},
    ),
    define("", "text", {"idle_cause": ("Largest cause", "What most of the device's idle time is due to.")}),
)

LOW_UTILIZATION = 0.5
BUSY = 0.9
"""From here on a device that no rule complains of is well used."""
EXPLAINED = 0.5
"""Share of the idle time from which on the findings that would save it say all that there is to say."""


def is_explained(s: Scene, saving_ns: float) -> bool:
    """Returns whether findings that would save so much of each step explain most of the devices' idle time."""
    return saving_ns >= EXPLAINED * sum(float(time.mean()) for time in s.idle.values()) > 0


def _look(s: Scene) -> Seen | None:
    low = {
        d: r.utilization for d, r in s.ratios.items() if r.utilization is not None and r.utilization < LOW_UTILIZATION
    }
    if not low:
        return None
    worst, window = min(low, key=lambda device: low[device] or 0.0), _window(s)
    text, figures, link = _largest(s, worst)
    return Seen(
        Notice(
            rule="low_utilization",
            severity="medium",
            text=(
                "{affected} of the devices run kernels less than half of "
                f"{window}; device {{device}} only {{utilization}}."
                if len(low) > 1
                else f"Device {{device}} runs kernels only {{utilization}} of {window}."
            )
            + text,
            todo=s.trace.recorder.todo("low_utilization"),
            figures=[
                METRICS.figure("utilization", low[worst]),
                METRICS.figure("device", worst),
                METRICS.figure("affected", len(low), "Devices"),
                *figures,
            ],
            measure="utilization",
            threshold=LOW_UTILIZATION,
            evidence=link,
            references=references_of(s.trace.recorder, "low_utilization"),
        )
    )


def _window(s: Scene) -> str:
    return "the steps" if s.trace.steps.recorded else "the recording"


def _largest(s: Scene, device: str) -> tuple[str, list[Figure], Link]:
    """What most of a device's idle time is due to: in words, in figures, and where to look."""
    place = next(i for i, each in enumerate(s.trace.devices) if each.id == device)
    time = idle_account(s.trace, place).by_cause(s.steps.start_ns, s.steps.end_ns)
    totals = {cause: int(each.sum()) for cause, each in time.items()}
    cause = max(totals, key=lambda each: totals[each])
    if not totals[cause]:
        return "", [], Link("idle", {}, "Show idle time")
    title = TITLES[cause][0]
    figures = [
        METRICS.figure("idle_cause", title),
        METRICS.figure("idle_cause_ratio", totals[cause] / sum(totals.values())),
    ]
    text = " The largest cause of its idle time is {idle_cause} ({idle_cause_ratio})."
    return text, figures, Link("idle", {"where": f"cause:{title}"}, "Show what waits")


def _idle_device(s: Scene) -> Seen | None:
    """A word where the findings do not explain why a device idles: silence would read as praise."""
    known = {d: r.utilization for d, r in s.ratios.items() if r.utilization is not None and r.utilization < BUSY}
    if not known:
        return None
    worst = min(known, key=lambda device: known[device])
    text, figures, link = _largest(s, worst)
    return Seen(
        Notice(
            rule="idle_device",
            severity="low",
            text=f"Device {{device}} runs kernels only {{utilization}} of {_window(s)}, and no rule knows what would save "
            f"most of its idle time.{text}",
            todo="Look at the longest pieces of that cause: they say what the host did meanwhile.",
            figures=[METRICS.figure("utilization", known[worst]), METRICS.figure("device", worst), *figures],
            measure="utilization",
            threshold=BUSY,
            evidence=link,
        )
    )


RULE = Rule("low_utilization", "Low utilization", _look, saves=False)
IDLE = Rule("idle_device", "Idle for a reason that no rule knows", _idle_device, saves=False)
