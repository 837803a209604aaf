"""Reserved memory that shrinks and grows in every step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tb_plugin.analysis.phrases import plural, references_of
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels
from tb_plugin.analysis.snapshot.growth import FEWEST_GROWING, WARM_UP
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.analysis.snapshot.steps import steps_of
from tb_plugin.model.snapshot.table import Action
from tb_plugin.payloads import Link, Notice
from tb_plugin.rules._base import percent
from tb_plugin.rules._checks import Check

# Share of the steps. Fewer may come from an occasional validation.
MIN_SWINGING_SHARE = 0.5


CHECK = Check(
    "snapshot_reserved_swings",
    detects="Steps return segments to the driver and reserve new ones.",
    threshold=f"`swing_ratio` of at least {percent(MIN_SWINGING_SHARE)}, in at least {FEWEST_GROWING} steps.",
    severity="Medium.",
)


def reserved_swings(device: DeviceLevels) -> Iterator[Notice]:
    """Yields a finding if most steps return segments to the driver and reserve new ones."""
    steps = steps_of(device)
    count = len(steps) - WARM_UP
    if count < FEWEST_GROWING:
        return
    action, size = device.action, device.snapshot.events.size[device.events]
    step = steps.of(np.arange(device.count)) - WARM_UP
    inside = (step >= 0) & (step < count)
    given, taken = (
        np.flatnonzero(inside & ((action == one) | (action == other)))
        for one, other in (
            (Action.SEGMENT_FREE, Action.SEGMENT_UNMAP),
            (Action.SEGMENT_ALLOC, Action.SEGMENT_MAP),
        )
    )
    both = np.minimum(*(np.bincount(step[rows], size[rows], count) for rows in (given, taken)))
    swinging = np.flatnonzero(both)
    if len(swinging) < max(MIN_SWINGING_SHARE * count, FEWEST_GROWING):
        return
    recorder = device.snapshot.recorder
    first = int(swinging[0]) + WARM_UP
    span = {"from": str(steps.moments[first]), "to": str(steps.moments[min(first + 3, len(steps))])}
    yield Notice(
        CHECK.id,
        "medium",
        f"{{swing_steps}} of {{steady_steps}} {plural(count, 'step')} return segments to the driver and reserve new ones, "
        f"{{swing_bytes}} per step. In total, {{segments_given}} {plural(len(given), 'segment is', 'segments are')} returned "
        "and {segments_taken} reserved. Each of these calls waits for the GPU.",
        recorder.todo(CHECK.advice_key()),
        [
            METRICS.figure("swing_steps", len(swinging)),
            METRICS.figure("steady_steps", count),
            METRICS.figure("swing_ratio", len(swinging) / count),
            METRICS.figure("swing_bytes", float(both.sum() / count)),
            METRICS.figure("segments_given", len(given)),
            METRICS.figure("segments_taken", len(taken)),
        ],
        "swing_ratio",
        MIN_SWINGING_SHARE,
        Link("allocations", {"device": device.name, **span}, "Show the reserved curve"),
        references_of(recorder, CHECK.id),
    )
