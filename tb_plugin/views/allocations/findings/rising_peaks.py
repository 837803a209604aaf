"""Memory peaks that rise while retained memory does not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tb_plugin.analysis.phrases import references_of
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels
from tb_plugin.analysis.snapshot.growth import change_of, rise_of
from tb_plugin.analysis.snapshot.labels import NO_STACK, stack_words
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.payloads import Link, Notice
from tb_plugin.rules._checks import Check

CHECK = Check(
    "snapshot_rising_peaks",
    detects="Peak memory rises from step to step, although no memory is retained between steps.",
    threshold="`rising_ratio` of at least 0.9 over 7 steps after the first. The last peak is at least 1.05 times the first.",
    severity="Medium.",
    notes="""
        Memory retained from step to step explains at most half of the growth of the peak. `peak_growth_bytes`,
        `first_peak_bytes`, `last_peak_bytes` and `peak_steps` describe this growth. One stack grew most: `risen_bytes`
        is its growth from the first peak to the last peak.
    """,
)


def rising_peaks(device: DeviceLevels) -> Iterator[Notice]:
    """Yields a finding if the memory peak rises from step to step, for example because sequences get longer."""
    rise = rise_of(device)
    if rise is None:
        return
    change = change_of(device, rise.first, rise.last)
    more = change.second_bytes - change.first_bytes
    line = stack_words(device.snapshot).line
    most = int(np.argmax(more))
    recorder = device.snapshot.recorder
    yield Notice(
        CHECK.id,
        "medium",
        (
            "Peak memory rises by {peak_growth_bytes} per step, from {first_peak_bytes} to {last_peak_bytes} "
            "in {peak_steps} steps. Retained memory does not grow: each step needs more memory at the same "
            "time than the step before. The largest increase is {risen_bytes} from {allocation_line}."
        ),
        recorder.todo(CHECK.advice_key()),
        [
            *rise.figures,
            METRICS.figure("allocation_line", line[int(change.stack[most])].as_py() or NO_STACK),
            METRICS.figure("risen_bytes", int(more[most])),
        ],
        "rising_ratio",
        rise.threshold,
        Link(
            "growth",
            {"device": device.name, "group": "changed_stacks", "against": str(rise.first), "at": str(rise.last)},
            "Compare both peaks",
        ),
        references_of(recorder, CHECK.id),
    )
