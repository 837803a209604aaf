"""Kernels at reduced core frequency."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.device_facts import facts_of
from tb_plugin.analysis.severity import severity_of
from tb_plugin.analysis.simulate import Change
from tb_plugin.lib.intervals import intersect, measure, union
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.rules._base import COMMON, Bounds, Detection, Limit, Rule, Scene, percent

LOW_SHARE = 0.01
"""Minimum share of the kernel time at reduced frequency. Smaller shares may come from a single late sample."""
METRICS = COMMON.in_steps(
    ns={
        "low_frequency_ns": (
            "Low frequency time",
            "Kernel time per step below the working frequency, excluding communication.",
        )
    },
    ratio={
        "low_frequency_ratio": ("Low frequency share", "Low frequency time divided by non-communication kernel time.")
    },
    hertz={
        "lowest_hertz": ("Lowest", "Lowest recorded frequency."),
        "normal_hertz": ("At work", "Working frequency from the data sheet."),
    },
)


def states_frequency(trace: TraceTable) -> bool:
    """Returns whether the trace contains the core frequency of any device."""
    facts = facts_of(trace)
    if facts is None or not facts.frequency or not len(trace.counters.time_ns):
        return False
    return bool((trace.counters.name == trace.strings.find(facts.frequency)).any())


def _look(s: Scene) -> Detection | None:
    trace = s.trace
    if not states_frequency(trace):
        return None
    kernels = s.kernels[~trace.is_collective[s.kernels]]
    start, end, device = trace.start_ns[kernels], trace.ends(kernels), trace.device[kernels]
    less, busy, slow, lowest, normal = np.zeros(len(kernels), np.int64), 0, 0, np.inf, 0.0
    from tb_plugin.analysis.core_frequency import core_frequency

    for each in np.unique(device[device >= 0]).tolist():
        mine = device == each
        work = union(start[mine], end[mine])
        busy += measure(work)
        frequency = core_frequency(trace, each)
        if frequency is None:
            continue
        meanwhile = intersect(work, frequency.low)
        if not len(meanwhile):
            continue
        slow += measure(meanwhile)
        less[mine] = frequency.lost_ns(start[mine], end[mine])
        lowest, normal = min(lowest, frequency.lowest(meanwhile)), frequency.normal_hertz
    if not busy or slow < LOW_SHARE * busy:
        return None
    notice = s.notice(
        RULE,
        severity=severity_of(slow / busy),
        text=f"{s.per_step_words} kernels run for {{low_frequency_ns}} ({{low_frequency_ratio}} of the kernel time) at a "
        "core frequency below {normal_hertz}. The lowest core frequency is {lowest_hertz}.",
        figures=METRICS.measured(
            low_frequency_ns=s.per_step(slow), low_frequency_ratio=slow / busy, lowest_hertz=lowest, normal_hertz=normal
        ),
        measure="low_frequency_ratio",
        threshold=LOW_SHARE,
        why="Cores slow down when a device is too hot or draws too much power. Upper bound: kernel speed is proportional to "
        "the frequency. Memory-bound kernels gain less. Other ranks wait for a slow rank.",
        confidence="high",
    )
    change = less > 0
    row = kernels[change]
    return Detection(notice, Bounds(Change(), Change(row=row, less_ns=less[change])), s.by_length(row), int(less.sum()))


RULE = Rule(
    __name__,
    title="Reduced core frequency",
    look=_look,
    order=400,
    detects="Kernels run while the core frequency is below the working frequency.",
    threshold=f"Kernel time at a reduced frequency is at least {percent(LOW_SHARE)} of the kernel time, excluding "
    "communication.",
    saving="Upper bound: the time that kernels save at full frequency. Lower bound: 0, because memory-bound kernels save "
    "nothing.",
    needs="A counter of the core frequency (NPUs: 1800 MHz under load and 800 MHz idle, according to the vendor).",
    notes="""
        A device that never reaches its working frequency in the trace is skipped. The saving excludes the time that
        other ranks wait for this rank.
    """,
    has_data=states_frequency,
    stays_without_saving=True,
    limits=(Limit.GPU,),
)
