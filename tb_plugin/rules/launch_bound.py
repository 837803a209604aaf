"""Launches that take longer than their kernels."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.severity import severity_of
from tb_plugin.analysis.simulate import Change
from tb_plugin.lib.arrays import Bool
from tb_plugin.lib.intervals import EMPTY, Ranges, join, subtract, union
from tb_plugin.payloads import Link
from tb_plugin.rules._base import Bounds, Detection, Limit, Rule, Scene, percent
from tb_plugin.rules._launch_starvation import LAUNCHING, STARVED, Starving, starvation_finding


def _look(s: Scene) -> Detection | None:
    found = starvation_finding(s)
    if found is None:
        return None
    notice = s.notice(
        RULE,
        severity=severity_of(found.idle_share),
        text=f"In {s.step_words}, devices wait {{launching_ns}} for launches. A launch takes {{launch_every_ns}} of host "
        "time, and half of the kernels take at most {kernel_median_ns}. A captured graph also removes the Python between "
        "launches.",
        figures=found.figures,
        measure="launching_ratio",
        threshold=STARVED,
        evidence=Link("launches", {}, "Show launches"),
        why="Kernels are shorter than their launches, so the queue is empty and the device waits before each kernel. The "
        "bounds assume that a captured graph launches many kernels at once. Upper bound: the graph contains all launches of "
        "a step. Lower bound: the graph contains only launches of operators that run equally often in most steps.",
        confidence="high",
    )
    least, most = _passes(s, found)
    return Detection(notice, Bounds(Change(least), Change(most)), s.after_idle(*LAUNCHING))


def _passes(s: Scene, found: Starving) -> tuple[Ranges, Ranges]:
    """Returns lower and upper bounds of the host launch time that a CUDA graph would save.

    The lower bound is the time of launches that repeat in every step. The upper bound is the time of all host work
    between the first and the last launch of each step.
    """
    repeats = _repeats(s, found)
    least, most = [EMPTY], [EMPTY]
    steps = len(s.steps.label)
    for thread, ranges in found.operators.items():
        mine = s.trace.track[found.call] == thread
        at = np.searchsorted(ranges.start, s.trace.start_ns[found.call[mine]], side="right") - 1
        inside = at >= 0
        at, step, again = at[inside], found.step[mine][inside], repeats[mine][inside]
        first, last = np.full(steps, len(ranges)), np.full(steps, -1)
        np.minimum.at(first, step, at)
        np.maximum.at(last, step, at)
        there = last >= 0
        most.append(union(ranges.start[first[there]], ranges.end[last[there]]))
        gone = np.zeros(len(ranges) + 1, np.bool_)
        gone[at[again]] = True
        gone[at[~again]] = False
        gone[first] = False  # one launch remains
        least.append(Ranges(ranges.start[gone[:-1]], ranges.end[gone[:-1]]))
    return subtract(join(*least), found.others), subtract(join(*most), found.others)


def _repeats(s: Scene, found: Starving) -> Bool:
    """Returns whether each launch could be part of a CUDA graph: its kernel runs equally often in most steps."""
    every = s if s.chosen is None else Scene(s.trace)
    trace, steps = s.trace, len(every.steps.label)
    if steps < 2:
        return np.zeros(len(found.call), np.bool_)
    work = np.flatnonzero(every.rows & (trace.launch >= 0))
    names, of = np.unique(trace.name[work], return_inverse=True)
    step = every.steps.at(trace.start_ns[trace.launch[work]], on_host=True)
    count = np.bincount(of.ravel() * steps + step, minlength=len(names) * steps).reshape(len(names), steps)
    usual = np.sort(count, axis=1)[:, (steps - 1) // 2]
    alike = (count == usual[:, None]) & (2 * (count == usual[:, None]).sum(axis=1) > steps)[:, None]
    unlike = trace.launch[work[~alike[of.ravel(), step]]]
    return ~np.isin(found.call, unlike)


RULE = Rule(
    __name__,
    title="Launch-bound steps",
    look=_look,
    order=100,
    detects="Kernels are shorter than their launches, so the GPU waits for the CPU.",
    threshold=f"Launch idle time is at least {percent(STARVED)} of both the mean and the median step. Launch idle time is "
    "also at least a third of the idle time.",
    saving="Upper bound: CPU time from a step's first launch to its last, minus time that other rules cover. Lower bound: "
    "CPU time of top-level operators that run equally often in most steps, except the first operator per step and thread.",
    notes="""
        The rule applies only to steps that have at least 20 launches. At least half of the kernels must be no longer
        than the CPU time per launch (`launch_every_ns`). Launch idle time is idle time while the CPU is in operators or
        launch calls, plus typical launch latency. For the threshold of a third, idle time excludes latency between
        kernels and waits for other streams. Gaps with more than 1 ms of launch idle time are excluded: an operator then
        loads code or computes on the CPU.

        The lower bound assumes that a graph launches the repeated operators at once. With a single recorded step, no
        repetition is known and the lower bound is 0.
    """,
    needs_kernels=True,
    limits=(Limit.CPU,),
)
