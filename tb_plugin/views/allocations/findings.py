"""Findings on memory snapshots."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from tb_plugin.analysis.memory.findings import (
    LARGE_LEAK,
    SHORT_LIFE,
    SMALL_LEAK,
    SPIKE_SHARE,
    Subject,
    leak_notice,
    single_peak_notice,
    single_peak_of,
)
from tb_plugin.analysis.memory.growth import LEAK_CONFIDENCE, RISING, change_of, rise_of
from tb_plugin.analysis.memory.reserved import MIN_CYCLES, find_oscillation, oscillation_notice
from tb_plugin.analysis.phrases import references_of
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, bytes_after_events, levels_of, ooms_of
from tb_plugin.analysis.snapshot.labels import NO_STACK, stack_words
from tb_plugin.analysis.snapshot.metrics import METRICS, RAN_OUT
from tb_plugin.analysis.snapshot.out_of_memory import largest_line, ran_out, sentence_of
from tb_plugin.analysis.snapshot.steps import growth_of_device, rise_figures, steps_of
from tb_plugin.lib.arrays import Bool
from tb_plugin.payloads import Link, Notice, Notices
from tb_plugin.rules._base import Check, percent
from tb_plugin.views.allocations.fragmentation import fragmentation

# The Growth page lists all leaks. A program that retries runs out of memory many times; the table lists all.
MAX_FINDINGS = 5
_LOUDEST = ("high", "medium", "low", "info")

LEAK = Check(
    "snapshot_leak",
    detects="One allocation stack leaves unreleased blocks in every step.",
    threshold=f"`leak_confidence` of at least {LEAK_CONFIDENCE}. "
    "A cache that grows only during the first half of the steps stays below this threshold.",
    severity=f"High if `left_bytes` is at least {percent(LARGE_LEAK)} of the peak, medium from {percent(SMALL_LEAK)} on.",
    notes=f"The {MAX_FINDINGS} stacks with the largest `step_growth_bytes` times confidence are findings. The "
    f"Growth page lists all stacks.",
)
OUT_OF_MEMORY = Check(
    "snapshot_out_of_memory",
    detects="A request for memory failed.",
    threshold="The history contains an `oom` event. The first 5 become findings.",
    severity="High.",
    notes="""
        The finding names the first of these causes that applies. `gap`: a limit or an unrecorded block, if
        `pool_gap_bytes` is at least `asked_bytes`. `pieces`: fragmented free memory, if `fits_joined`.
        `elsewhere`: other streams, pools or
        sizes, if `cache_free_bytes` plus `device_free_bytes` are at least `asked_bytes`. `one`: the request itself, if
        it is larger than all active bytes. `full`: too much memory is in use.
    """,
    cases=("full", "one", "gap", "pieces", "pieces.expandable", "elsewhere"),
)
RISING_PEAKS = Check(
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
OSCILLATION = Check(
    "snapshot_reserved_swings",
    detects="The allocator returns segments to the driver and reserves new ones.",
    threshold=f"`reserved_cycles` is at least {MIN_CYCLES}: reserved memory drops, on average by at least 1 % of its peak, "
    "and rises again.",
    severity="Medium.",
)
SINGLE_PEAK = Check(
    "snapshot_single_peak",
    detects="One short-lived block causes the peak.",
    threshold=f"Without the block, the peak would be at least {percent(SPIKE_SHARE)} lower (`peak_drop_ratio`).",
    severity="Medium.",
    notes=f"""
        A block is short-lived if it lives for at most {percent(SHORT_LIFE)} of the events of a step. No
        other short-lived block of its stack is live at the peak.
    """,
)


def advice_of(*devices: DeviceLevels) -> Notices:
    found = []
    for device in devices:
        rules = (_ran_out, _leaks, fragmentation, _rising_peaks, _reserved_oscillation, _single_peak)
        of_it = [notice for rule in rules for notice in rule(device)] if device.count else []
        found += [_with_device(device, notice) for notice in of_it] if len(devices) > 1 else of_it
    found.sort(key=lambda notice: _LOUDEST.index(notice.severity))
    return Notices("advice", "Findings", "training", found)


def _with_device(device: DeviceLevels, notice: Notice) -> Notice:
    figures = [*notice.figures, METRICS.figure("device", device.name)]
    return replace(notice, text=f"{{device}}: {notice.text}", figures=figures)


def _subject(device: DeviceLevels, stack: int) -> Subject:
    line = stack_words(device.snapshot).line[stack].as_py() or NO_STACK
    return Subject(device.snapshot.recorder, "", "{allocation_line}", [METRICS.figure("allocation_line", line)])


def _leaks(device: DeviceLevels) -> Iterator[Notice]:
    growth = growth_of_device(device)
    peak = int(levels_of(device).allocated.max())
    for row in growth.leaks()[:MAX_FINDINGS]:
        stack = int(growth.owner[row])
        link = Link("growth", {"device": device.name, "stack": str(stack), "row": str(stack)}, "Show its growth")
        yield leak_notice(LEAK.id, _subject(device, stack), growth, np.array([row]), peak, link)


def _ran_out(device: DeviceLevels) -> Iterator[Notice]:
    levels, recorder = levels_of(device), device.snapshot.recorder
    for event in ooms_of(device)[:MAX_FINDINGS].tolist():
        one = ran_out(device, event)
        text, figures = sentence_of(one)
        line, line_bytes, _ = largest_line(device, event)
        figures += [
            METRICS.figure("allocated_bytes", int(levels.allocated[event + 1]), window=RAN_OUT),
            METRICS.figure("holding_line", line or NO_STACK),
            METRICS.figure("line_held_bytes", line_bytes),
        ]
        case = one.cause
        if case == "pieces" and device.snapshot.settings.get("expandable_segments") is True:
            case += ".expandable"
        yield Notice(
            OUT_OF_MEMORY.id,
            "high",
            f"{text} Largest allocation site: {{holding_line}} with {{line_held_bytes}} of {{allocated_bytes}}.",
            recorder.todo(OUT_OF_MEMORY.advice_key(case)),
            figures,
            evidence=Link("segments", {"device": device.name, "at": str(event)}, "Show the segments at that event"),
            references=references_of(recorder, OUT_OF_MEMORY.advice_key(case)),
        )


def _rising_peaks(device: DeviceLevels) -> Iterator[Notice]:
    rise = rise_of(levels_of(device).allocated, steps_of(device).moments)
    if rise is None:
        return
    change = change_of(device.table, rise.first, rise.last)
    more = change.second_bytes - change.first_bytes
    most = int(np.argmax(more))
    subject = _subject(device, int(change.owner[most]))
    where = {"device": device.name, "group": "changed_stacks", "against": str(rise.first), "at": str(rise.last)}
    yield Notice(
        RISING_PEAKS.id,
        "medium",
        (
            "Peak memory rises by {peak_growth_bytes} per step, from {first_peak_bytes} to {last_peak_bytes} "
            "in {peak_steps} steps. Retained memory does not grow: each step needs more memory at the same "
            "time than the step before. The largest increase is {risen_bytes} from {allocation_line}."
        ),
        subject.recorder.todo(RISING_PEAKS.id),
        [*rise_figures(rise), *subject.figures, METRICS.figure("risen_bytes", int(more[most]))],
        "rising_ratio",
        RISING,
        Link("growth", where, "Compare both peaks"),
        references_of(subject.recorder, RISING_PEAKS.id),
    )


def _reserved_oscillation(device: DeviceLevels) -> Iterator[Notice]:
    reserved = levels_of(device).reserved
    oscillation = find_oscillation(reserved, int(reserved.max()))
    if oscillation is not None:
        # Level i + 1 is the level after event i.
        span = {
            "from": str(oscillation.first - 1),
            "to": str(int(oscillation.rises[min(2, oscillation.count - 1)]) - 1),
        }
        link = Link("allocations", {"device": device.name, **span}, "Show the reserved curve")
        subject = Subject(device.snapshot.recorder, "", "", ())
        yield oscillation_notice(OSCILLATION.id, subject, oscillation, link, "medium")


def _single_peak(device: DeviceLevels) -> Iterator[Notice]:
    levels, blocks, moments = levels_of(device), device.table, steps_of(device).moments
    at = levels.peak()
    length = float(np.median(np.diff(moments))) if len(moments) else device.count
    life = blocks.freed - blocks.begin
    short = (blocks.begin >= 0) & (life <= SHORT_LIFE * length)

    def peak_without(some: Bool) -> int:
        rows = np.flatnonzero(some)
        without = bytes_after_events(device.count, blocks.begin[rows], blocks.freed[rows], blocks.size[rows])
        return int((levels.allocated - without).max())

    found = single_peak_of(blocks, short, at, int(levels.allocated[at + 1]), 1, peak_without)
    if found is None:
        return
    stack = int(blocks.owner[found.block])
    where = {"device": device.name, "at": str(at), "group": "held_stacks", "where": f"stack_number:{stack}"}
    yield single_peak_notice(
        SINGLE_PEAK.id,
        _subject(device, stack),
        found,
        METRICS.figure("life_events", int(life[found.block])),
        "medium",
        Link("allocations", where, "Show the allocations at that time"),
    )
