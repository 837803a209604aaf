"""Peaks caused by one short-lived block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tb_plugin.analysis.phrases import plural, references_of
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, bytes_after_events, levels_of
from tb_plugin.analysis.snapshot.labels import NO_STACK, stack_words
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.analysis.snapshot.steps import steps_of
from tb_plugin.payloads import Link, Notice
from tb_plugin.rules._base import percent
from tb_plugin.rules._checks import Check

# Share of the peak. From here on, the saved memory allows a noticeably larger batch.
MIN_SAVED_SHARE = 0.15
# Share of the events of a step (without steps: of the history). Longer-lived blocks belong to the step's working set.
MAX_LIFE_SHARE = 0.1


CHECK = Check(
    "snapshot_single_peak",
    detects="One short-lived block causes the peak.",
    threshold=f"Without the block, the peak would be at least {percent(MIN_SAVED_SHARE)} lower (`saved_ratio`).",
    severity="Medium.",
    notes=f"""
        A block is short-lived if it lives for at most {percent(MAX_LIFE_SHARE)} of the events of a step. No
        other short-lived block of its stack is live at the peak.
    """,
)


def single_peak(device: DeviceLevels) -> Iterator[Notice]:
    """Yields a finding if one short-lived block causes the peak."""
    levels = levels_of(device)
    peak, at = int(levels.allocated.max()), levels.peak()
    steps = steps_of(device)
    length = float(np.median(np.diff(steps.moments))) if len(steps) else device.count
    begin, freed = device.block("begin").astype(np.int64), device.block("freed").astype(np.int64)
    size, stack = device.block("size"), device.block("stack")
    short = (begin >= 0) & (freed - begin <= MAX_LIFE_SHARE * length)
    candidates = np.flatnonzero(short & (begin <= at) & (freed > at))
    if not len(candidates):
        return
    block = int(candidates[size[candidates].argmax()])
    if (stack[candidates] == stack[block]).sum() > 1 or size[block] < MIN_SAVED_SHARE * peak:
        return
    # The same line may cause as high a peak in other steps.
    alike = np.flatnonzero(short & (stack == stack[block]))
    without = int((levels.allocated - bytes_after_events(device.count, begin[alike], freed[alike], size[alike])).max())
    saved = peak - without
    if saved < MIN_SAVED_SHARE * peak:
        return
    recorder = device.snapshot.recorder
    number = int(stack[block])
    yield Notice(
        CHECK.id,
        "medium",
        "One short-lived block causes the peak: {transient_bytes} from {allocation_line}, live for {life_events} "
        f"{plural(int(freed[block] - begin[block]), 'event')}. "
        "Without it the peak would be {peak_less_bytes} instead of {most_allocated_bytes} ({saved_bytes} less).",
        recorder.todo(CHECK.advice_key()),
        [
            METRICS.figure("transient_bytes", int(size[block])),
            METRICS.figure("allocation_line", stack_words(device.snapshot).line[number].as_py() or NO_STACK),
            METRICS.figure("life_events", int(freed[block] - begin[block])),
            METRICS.figure("peak_less_bytes", without),
            METRICS.figure("most_allocated_bytes", peak),
            METRICS.figure("saved_bytes", saved),
            METRICS.figure("saved_ratio", saved / peak),
        ],
        "saved_ratio",
        MIN_SAVED_SHARE,
        Link(
            "allocations",
            {"device": device.name, "at": str(at), "group": "held_stacks", "where": f"stack_number:{number}"},
            "Show the allocations at that time",
        ),
        references_of(recorder, CHECK.id),
    )
