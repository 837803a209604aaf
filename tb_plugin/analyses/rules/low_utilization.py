"""A device has nothing to do for most of the time; and the word where no rule knows why one idles."""

from __future__ import annotations

from tb_plugin.analyses.rules.base import Rule, Scene, Seen
from tb_plugin.analyses.rules.metrics import METRICS
from tb_plugin.analyses.wording import references_of
from tb_plugin.payloads import Link, Notice

LOW_UTILIZATION = 0.5
BUSY = 0.9
"""From here on a device that no rule complains of is well used."""


def _look(s: Scene) -> Seen | None:
    low = {
        d: r.utilization for d, r in s.ratios.items() if r.utilization is not None and r.utilization < LOW_UTILIZATION
    }
    if not low:
        return None
    worst, window = min(low, key=lambda device: low[device] or 0.0), _window(s)
    return Seen(
        Notice(
            rule="low_utilization",
            severity="medium",
            text="{affected} of the devices run kernels less than half of "
            f"{window}; device {{device}} only {{utilization}}."
            if len(low) > 1
            else f"Device {{device}} runs kernels only {{utilization}} of {window}.",
            todo=s.trace.recorder.todo("low_utilization"),
            figures=[
                METRICS.figure("utilization", low[worst]),
                METRICS.figure("device", worst),
                METRICS.figure("affected", len(low), "Devices"),
            ],
            measure="utilization",
            threshold=LOW_UTILIZATION,
            evidence=Link("timeline", {}, "Show in timeline"),
            references=references_of(s.trace.recorder, "low_utilization"),
        )
    )


def _window(s: Scene) -> str:
    return "the steps" if s.trace.steps.recorded else "the recording"


def idle_device(s: Scene) -> Seen | None:
    """Returns a word where no rule knows a cause, yet a device idles: silence would read as praise."""
    known = {d: r.utilization for d, r in s.ratios.items() if r.utilization is not None and r.utilization < BUSY}
    if not known:
        return None
    worst = min(known, key=lambda device: known[device])
    return Seen(
        Notice(
            rule="idle_device",
            severity="low",
            text=f"No rule found a cause, yet device {{device}} runs kernels only {{utilization}} of {_window(s)}.",
            todo="Look at the gaps of its streams on the timeline: they say what the host did meanwhile.",
            figures=[METRICS.figure("utilization", known[worst]), METRICS.figure("device", worst)],
            measure="utilization",
            threshold=BUSY,
            evidence=Link("timeline", {}, "Show in timeline"),
        )
    )


RULE = Rule("low_utilization", "Low utilization", _look, saves=False)
IDLE = Rule("idle_device", "Idle for a reason that no rule knows", idle_device, saves=False)
