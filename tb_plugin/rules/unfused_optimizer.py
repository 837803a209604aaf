"""Optimizers with separate kernels for each parameter."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.kernel_classes import classify_kernels
from tb_plugin.analysis.simulate import Change
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.intervals import measure
from tb_plugin.model.trace.schema import MISSING, EventKind, KernelClass
from tb_plugin.rules._base import COMMON, Bounds, Detection, Limit, Rule, Scene
from tb_plugin.rules._streams import optimizer_steps

MANY = 100
"""Minimum number of kernels per optimizer step. Multi-tensor implementations launch only a few dozen."""
SERIES = 3
"""Minimum number of kernels per parameter. With fewer kernels, a fused optimizer hardly saves launches."""
_RARE = 40
"""An operator runs for every parameter if its calls times this number are at least the number of kernels."""
_PASSES = 2
"""Maximum duration of a fused optimizer step, as a multiple of the time of each parameter's longest kernel."""
_STAY = 10
"""Minimum ratio of the launches of the recorded optimizer to the launches of a fused optimizer."""
METRICS = COMMON.in_steps(
    ns={
        "optimizer_kernels_ns": ("Updates", "Time of kernels that update a single parameter, per step."),
        "optimizer_host_ns": ("In the optimizer", "Host time of optimizer steps, per step."),
    },
    number={"optimizer_kernels": ("Update kernels", "Kernels that update a single parameter, per step.")},
)


def _look(s: Scene) -> Detection | None:
    trace, all_of = s.trace, optimizer_steps(s.trace)
    row = all_of.work[s.rows[all_of.work] & (trace.kind[all_of.work] == EventKind.KERNEL)]
    if not len(row):
        return None
    row = row[classify_kernels(trace).of(trace.name[row]) != KernelClass.OPTIMIZER]
    calls = all_of.row[s.rows[all_of.row]]
    if len(row) < MANY * max(len(calls), 1):
        return None
    row = row[np.lexsort((trace.start_ns[row], trace.start_ns[trace.launch[row]]))]
    begins = _series(s, row)
    if len(row) < SERIES * len(begins):
        return None
    time = trace.dur_ns[row].astype(np.float64)
    whole, longest = (ufunc.reduceat(time, begins) for ufunc in (np.add, np.maximum))
    of = np.cumsum(np.isin(np.arange(len(row)), begins)) - 1
    # Kernels of any size have a minimum duration; a fused kernel has it once.
    least = time * (np.maximum(whole - _PASSES * (longest - time.min()), 0) / whole)[of]
    most = time.copy()
    most[np.lexsort((time, of))[np.append(np.diff(of) > 0, True)]] = time.min()
    called = s.covered(calls)
    notice = s.notice(
        RULE,
        text="The optimizer is not fused: {optimizer_kernels} kernels per step take {optimizer_kernels_ns} and cost "
        "{optimizer_host_ns} of host time.",
        figures=METRICS.measured(
            optimizer_kernels=s.per_step(len(row)),
            optimizer_kernels_ns=s.per_step(int(time.sum())),
            optimizer_host_ns=s.per_step(measure(called)),
        ),
        why="Each kernel needs a launch and reads its tensors again. Upper bound: a fused update takes as long as the "
        "longest kernel per parameter. Lower bound: a fused update takes twice as long, and one launch in ten remains.",
        confidence="high",
    )
    around = np.unique(trace.operator[row])
    around = around[around != MISSING].astype(np.int64)
    return Detection(
        notice,
        Bounds(
            Change(s.covered(around[len(around) // _STAY :]), row, least.astype(np.int64)),
            Change(called, row, most.astype(np.int64)),
        ),
        s.by_length(row),
    )


def _series(s: Scene, row: Int64) -> Int64:
    """Returns the first kernel of each parameter: those of the operator with the fewest calls that runs for all."""
    trace = s.trace
    what = np.where(trace.operator[row] == MISSING, trace.name[row], trace.name[trace.operator[row]])
    _, first, of, count = np.unique(what, return_index=True, return_inverse=True, return_counts=True)
    usual = np.flatnonzero(count * _RARE >= len(row))
    if not len(usual):
        return np.arange(len(row))
    once = usual[np.lexsort((first[usual], count[usual]))[0]]
    begins: Int64 = np.flatnonzero(of.ravel() == once) - first[once]
    return begins


RULE = Rule(
    __name__,
    title="Unfused optimizer",
    look=_look,
    order=310,
    detects="The optimizer updates each parameter with separate kernels.",
    threshold=f"An optimizer step has at least {MANY} unfused kernels, and at least {SERIES} per parameter.",
    saving="Upper bound: the time of all kernels except the longest per parameter, and all CPU time of the optimizer step. "
    "Lower bound: the time of nine in ten operators. The fused update is assumed to take twice the difference between the "
    "longest and the shortest kernel.",
    needs="Ranges `Optimizer.step#...`.",
    notes="""
        Fused kernels have the class `optimizer`. The parameter count is the call count of the rarest operator that
        launches at least 1 in 40 kernels.
    """,
    limits=(Limit.CPU, Limit.GPU),
)
