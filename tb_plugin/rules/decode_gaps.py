"""Device idle time between decode steps of a server."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.blocking_calls import waits_for_device
from tb_plugin.analysis.launches.unrecorded_work import device_occupied
from tb_plugin.analysis.selection import chosen_steps
from tb_plugin.analysis.served_steps import FEWEST, ServedSteps, is_served, served_steps
from tb_plugin.analysis.severity import severity_of
from tb_plugin.analysis.simulate import Change
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.intervals import Ranges, intersect, join, measure_within, union
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Link
from tb_plugin.rules._base import COMMON, Bounds, Detection, Limit, Rule, Scene, percent

METRICS = COMMON.in_steps(
    ns={
        "pair_gap_ns": ("Gap", "Mean device idle time between decode steps."),
        "pair_least_ns": ("Shortest host gap", "Shortest host time between decode steps."),
        "pair_period_ns": ("Step to step", "Mean time from one decode step start to the next."),
    },
    count={"decode_pairs": ("Pairs", "Pairs of consecutive decode steps.")},
    ratio={"pair_gap_ratio": ("Gap share", "Mean gap divided by mean step-to-step time.")},
)

SHARE = 0.05
"""Minimum gap as a share of the step-to-step time. A launch and a copy of the token always take some time."""


def _look(s: Scene) -> Detection | None:
    if not is_served(s.trace):
        return None
    numbers, steps = served_steps(s.trace), np.array(chosen_steps(s.trace, s.chosen), np.int64)
    at = steps[numbers.gap_ns[steps] != MISSING]
    time = int(numbers.period_ns[at - 1].sum())
    total = int(numbers.gap_ns[at].sum())
    if len(at) < FEWEST or not time or total < SHARE * time:
        return None
    ratio = total / time
    between, waited = _between(s, at)
    shortest = int((between.end - between.start).min()) if len(between.start) == len(at) else 0
    notice = s.notice(
        RULE,
        severity=severity_of(ratio),
        text="The device is idle for {pair_gap_ns} between consecutive decode steps, {pair_gap_ratio} of the "
        "{pair_period_ns} step-to-step time. These are means over {decode_pairs} pairs, including outliers.",
        figures=METRICS.measured(
            pair_gap_ns=total / len(at),
            pair_least_ns=shortest,
            pair_period_ns=time / len(at),
            decode_pairs=len(at),
            pair_gap_ratio=ratio,
        ),
        measure="pair_gap_ratio",
        threshold=SHARE,
        evidence=Link("serving", {"where": "mode:decode", "sort": "served_gap_ns"}, "Show decode steps"),
        why="No request receives a token between decode steps. The bounds assume that the host prepares the next step while "
        "the device works. Upper bound: the whole gap disappears. Lower bound: the time that the host waited for the device "
        "in the previous step, or the gap minus the shortest gap. The saving includes time between steps.",
    )
    begin, end = numbers.last_ns[at - 1], numbers.first_ns[at]
    could_go = np.maximum(between.end - between.start - shortest, waited)
    beyond = Ranges(np.maximum(between.end - could_go, between.start), between.end)
    return Detection(
        notice,
        Bounds(Change(intersect(beyond, union(begin, end))), Change(union(begin, end))),
        _first_work(numbers, at),
    )


def _between(s: Scene, at: Int64) -> tuple[Ranges, Int64]:
    """Returns the host time between steps, and the waits for the device in the earlier step, if the host is not ahead."""
    steps = s.trace.steps
    start, end = steps.host_end_ns[at - 1], steps.host_start_ns[at]
    at = at[end > start]
    waits = waits_for_device(s.trace) & s.on_threads
    waiting = intersect(union(s.trace.start_ns[waits], s.trace.ends(waits)), join(*device_occupied(s.trace).values()))
    waited = measure_within(waiting, steps.host_start_ns[at - 1], steps.host_end_ns[at - 1])
    return Ranges(start[end > start], end[end > start]), waited


def _first_work(numbers: ServedSteps, at: Int64) -> Int64:
    order = np.lexsort((numbers.row, numbers.step))
    first = order[np.searchsorted(numbers.step[order], at)]
    return numbers.row[first][np.argsort(-numbers.gap_ns[at], kind="stable")]


RULE = Rule(
    __name__,
    title="Gaps between decode steps",
    look=_look,
    order=130,
    detects="The GPUs of a server idle between decode steps.",
    threshold=f"Gaps take at least {percent(SHARE)} of the step-to-step time of decode steps. The trace has at least "
    f"{FEWEST} pairs of consecutive decode steps.",
    saving="Upper bound: all gaps. Lower bound: CPU time between steps that could overlap with GPU work. This CPU time is "
    "the wait for the GPU in the previous step, or the gap minus the shortest gap.",
    needs="Steps with [modes](../concepts/attribution.md#serving).",
    notes="""
        The bounds assume asynchronous scheduling. Part of the saved time is between steps. Launching ahead also saves
        launch latency, which is up to 6 % more for gaps of 20 us. `slow_first_step` and `step_outliers` skip traces
        with several step modes. The severity is high at 20 % or more, medium at 5 % or more.
    """,
    has_data=is_served,
    needs_kernels=True,
    limits=(Limit.CPU,),
)
