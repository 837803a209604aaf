"""Kernels on slower fallback cores."""

from __future__ import annotations

from tb_plugin.analysis.device_facts import facts_of, has_device_facts, has_fact_in, most_of
from tb_plugin.analysis.graphs.attribution import operator_names
from tb_plugin.analysis.kernel_facts import first_reported_text
from tb_plugin.analysis.phrases import plural
from tb_plugin.analysis.simulate import Change
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.rules._base import COMMON, Bounds, Detection, Limit, Rule, Scene, optional

METRICS = COMMON.in_steps(
    ns={"fallback_ns": ("On fallback cores", "Kernel time on fallback cores per step.")},
    number={"fallback_kernels": ("Kernels", "Kernels on fallback cores per step.")},
    code={
        "fallback_core": ("Cores", "Fallback core type with the most time."),
        "fallback_operation": ("Operation", "Operation with the most fallback time."),
        "fallback_operator": ("Operator", "Operator with the most fallback time."),
    },
)


def states_cores(trace: TraceTable) -> bool:
    """Returns whether a trace records the core type of kernels."""
    facts = facts_of(trace)
    return facts is not None and has_device_facts(trace, trace.recorder.kernels.core)


def _look(s: Scene) -> Detection | None:
    trace, facts = s.trace, facts_of(s.trace)
    if facts is None or not states_cores(trace):
        return None
    row = s.kernels[has_fact_in(trace, trace.recorder.kernels.core, facts.fallback_cores, s.kernels)]
    if not len(row):
        return None
    time = trace.dur_ns[row]
    operation = most_of(trace, first_reported_text(trace, trace.recorder.kernels.type, row), time)
    operator = most_of(trace, operator_names(trace, row), time)
    core = most_of(trace, first_reported_text(trace, trace.recorder.kernels.core, row), time)
    notice = s.notice(
        RULE,
        severity="low",
        text=f"{s.per_step_words} {{fallback_kernels}} {plural(s.per_step(len(row)), 'kernel runs', 'kernels run')} on "
        "{fallback_core} for {fallback_ns}"
        + (", mostly {fallback_operation}" if operation else "")
        + (", launched by {fallback_operator}." if operator else "."),
        figures=METRICS.measured(
            fallback_kernels=s.per_step(len(row)),
            fallback_core=dict(facts.cores).get(core, core),
            fallback_ns=s.per_step(int(time.sum())),
            **optional(operation, fallback_operation=operation),
            **optional(operator, fallback_operator=operator),
        ),
        why="Operators without a kernel for the main cores run on fallback cores, many times slower. Upper bound: these "
        "kernels disappear. The trace does not show how long the operators would take on the main cores.",
        confidence="high",
    )
    return Detection(notice, Bounds(Change(), Change(row=row, less_ns=time)), s.by_length(row), int(time.sum()))


RULE = Rule(
    __name__,
    title="Kernels on fallback cores",
    look=_look,
    order=380,
    detects="Kernels run on slow fallback cores because no version exists for the main cores.",
    threshold="One kernel on fallback cores.",
    saving="Upper bound: the time of all these kernels. Lower bound: 0, because the trace does not show how long the "
    "operators would take on the main cores.",
    needs="The core type of each kernel (NPUs: column `Accelerator Core`; AI CPUs are fallback cores).",
    notes="""
        The finding names the operation with the most time and the operator that launched it.
    """,
    has_data=states_cores,
    stays_without_saving=True,
    limits=(Limit.GPU,),
)
