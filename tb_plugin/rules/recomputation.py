"""Forward work repeated by the backward pass."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.recomputation import Recomputed, called_in, recomputations
from tb_plugin.analysis.simulate import Change
from tb_plugin.lib.intervals import intersect, subtract, union
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.rules._base import COMMON, MIN_SHARE, Bounds, Detection, Limit, Rule, Scene, optional, percent

METRICS = COMMON.in_steps(
    ns={
        "recompute_device_ns": ("Recomputed", "Device time of recomputed forward code, per step."),
        "recompute_host_ns": ("Recomputed on host", "Host time of recomputed forward code, per step."),
        "recompute_most_ns": ("Largest part", "Largest recomputed time of a module, per step."),
    },
    number={"recompute_count": ("Runs", "Recomputations per step.")},
).defining({("", "code"): {"recompute_module": ("Module", "Module with the most recomputation time.")}})


def _look(s: Scene) -> Detection | None:
    trace, found = s.trace, recomputations(s.trace)
    if not len(found):
        return None
    mine = s.rows[found.first]
    kept = mine[found.of]
    rows, chosen = found.work[kept], np.flatnonzero(mine)
    if not len(chosen):
        return None
    device, host = int(trace.dur_ns[rows].sum()), int(found.host_ns[chosen].sum())
    module, most = _most(trace, found, mine)
    takes = "{recompute_device_ns} of device time" if device else "{recompute_host_ns} of host time"
    notice = s.notice(
        RULE,
        severity="low",
        text=f"{s.per_step_words} the backward pass reruns forward code "
        f"{s.times_words(len(chosen), 'recompute_count')}: {takes}"
        + (", mostly in {recompute_module} ({recompute_most_ns})." if module else "."),
        figures=METRICS.measured(
            recompute_count=s.per_step(len(chosen)),
            **optional(device, recompute_device_ns=s.per_step(device)),
            recompute_host_ns=s.per_step(host),
            **optional(module, recompute_module=module, recompute_most_ns=s.per_step(most)),
        ),
        why="Activation checkpointing trades time for memory: the backward pass computes dropped activations again. The "
        "bounds assume that all activations stay in memory, so check that they fit.",
        confidence="high",
    )
    operators = found.operator[s.rows[found.operator]]
    without = Change(s.covered(operators), rows, trace.dur_ns[rows])
    whole = intersect(union(found.start[chosen], found.end[chosen]), s.host)
    inner = found.passes[s.rows[found.passes]]
    host_time = subtract(subtract(whole, s.covered_with_profiler(inner)), s.profiler_waits)
    return Detection(
        notice, Bounds(without, Change(host_time, rows, trace.dur_ns[rows])), s.by_length(rows if device else operators)
    )


def _most(trace: TraceTable, found: Recomputed, mine: np.ndarray) -> tuple[str, int]:
    modules = called_in(trace, found)
    times = modules.times(trace, found, mine)
    if not len(times):
        return "", 0
    most = int(times.argmax())
    return (modules.texts[most], int(times[most])) if times[most] else ("", 0)


RULE = Rule(
    __name__,
    title="Recomputation (activation checkpointing)",
    look=_look,
    order=330,
    detects="The backward pass runs forward code again (activation checkpointing).",
    threshold=f"Storing all activations would save at least {percent(MIN_SHARE)} of the step.",
    saving="The time of recomputed GPU work, excluding transfers between pipeline stages. For CPU time, the lower bound "
    "covers the recomputed operators. The upper bound covers the whole recomputation, excluding nested backward passes.",
    needs="Work that is [computed again](../concepts/attribution.md#computed-again).",
    notes="""
        Recomputation trades time for memory. The Memory page or a snapshot shows whether enough memory is free.
    """,
    has_data=lambda trace: len(recomputations(trace)) > 0,
    limits=(Limit.GPU,),
)
