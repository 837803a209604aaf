"""Memory-bound kernels."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.device_facts import facts_of, has_device_facts, most_of, numbers_of
from tb_plugin.analysis.kernel_facts import first_reported_text
from tb_plugin.analysis.phrases import plural
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.model.trace.hardware import DeviceFacts
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.rules._base import COMMON, NO_SAVING, Detection, Limit, Rule, Scene, optional, percent

READING = 0.5
"""Minimum share of a kernel's time that is spent reading memory."""
TIMES = 2
"""Minimum ratio of reading time to computing time. At a ratio near 1, memory is not the only bottleneck."""
BOUND_SHARE = 0.1
"""Minimum share of these kernels in the kernel time. Every program has some kernels that mostly read memory."""
METRICS = COMMON.in_steps(
    ns={"memory_bound_ns": ("Memory-bound time", "Time of memory-bound kernels per step.")},
    ratio={"memory_bound_ratio": ("Memory-bound share", "Memory-bound time divided by non-communication kernel time.")},
    number={"memory_bound_kernels": ("Kernels", "Memory-bound kernels per step.")},
    code={"memory_bound_operation": ("Operation", "Operation with the most memory-bound time.")},
)


def states_reading(trace: TraceTable) -> bool:
    facts = facts_of(trace)
    return facts is not None and has_device_facts(trace, [read for read, _ in facts.reading])


def is_bound(trace: TraceTable, facts: DeviceFacts, kernels: Int64) -> Bool:
    """Returns whether each kernel reads memory for half of its time, and twice as long as it computes."""
    found = np.zeros(len(kernels), np.bool_)
    for read, computes in facts.reading:
        reads = numbers_of(trace, read, kernels)
        busy = np.zeros(len(kernels))
        for key in computes:
            busy = np.fmax(busy, numbers_of(trace, key, kernels))
        found |= (reads >= READING) & (reads >= TIMES * busy)
    return found


def _look(s: Scene) -> Detection | None:
    trace, facts = s.trace, facts_of(s.trace)
    if facts is None or not states_reading(trace):
        return None
    kernels = s.kernels[~trace.is_collective[s.kernels]]
    row = kernels[is_bound(trace, facts, kernels)]
    time, total = trace.dur_ns[row], int(trace.dur_ns[kernels].sum())
    if not total or time.sum() < BOUND_SHARE * total:
        return None
    operation = most_of(trace, first_reported_text(trace, trace.recorder.kernels.type, row), time)
    notice = s.notice(
        RULE,
        severity="low",
        text=f"{s.per_step_words} {{memory_bound_kernels}} {plural(s.per_step(len(row)), 'kernel does', 'kernels do')} "
        "little except read memory. They take {memory_bound_ratio} of the kernel time ({memory_bound_ns})"
        + (", mostly {memory_bound_operation}." if operation else "."),
        figures=METRICS.measured(
            memory_bound_kernels=s.per_step(len(row)),
            memory_bound_ns=s.per_step(int(time.sum())),
            memory_bound_ratio=int(time.sum()) / total,
            **optional(operation, memory_bound_operation=operation),
        ),
        measure="memory_bound_ratio",
        threshold=BOUND_SHARE,
        why="These kernels read memory for at least half of their time. They compute for at most half of the reading time. "
        "Reading fewer bytes makes these kernels faster; faster cores do not. The trace does not show how many bytes the "
        "program needs.",
        confidence="high",
    )
    return Detection(notice, NO_SAVING, s.by_length(row), takes_ns=int(time.sum()))


RULE = Rule(
    __name__,
    title="Memory-bound kernels",
    look=_look,
    order=410,
    detects="Kernels read memory for most of their time.",
    threshold=f"These kernels take at least {percent(BOUND_SHARE)} of the kernel time, excluding communication.",
    saving="None: the trace does not show what fewer bytes would save.",
    needs="PMU counters of NPUs: `mte2`, `mac` and `vec`.",
    notes="""
        A kernel counts if it reads memory for at least half of its time. It must also read at least twice as long as it
        computes. For a mixed kernel, the larger `mte2` is compared with the largest other counter.
    """,
    limits=(Limit.GPU,),
)
