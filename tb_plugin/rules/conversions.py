"""Kernels that only convert layouts or types."""

from __future__ import annotations

from tb_plugin.analysis.device_facts import facts_of, has_device_facts, has_fact_in, most_of
from tb_plugin.analysis.graphs.attribution import operator_names
from tb_plugin.analysis.kernel_facts import first_reported_text
from tb_plugin.analysis.phrases import plural
from tb_plugin.analysis.simulate import Change
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.rules._base import COMMON, Bounds, Detection, Limit, Rule, Scene, optional, percent

CONVERSION_SHARE = 0.02
"""Minimum share of conversions in the kernel time. Every program needs some conversions."""
MEDIUM_SHARE = 0.1
"""Minimum share for medium severity. Conversions of only a model's inputs and outputs take less."""
METRICS = COMMON.in_steps(
    ns={"conversions_ns": ("Conversions", "Time of kernels that convert layouts or types, per step.")},
    ratio={"conversion_ratio": ("Conversions", "Conversion time divided by non-communication kernel time.")},
    number={"conversions": ("Kernels", "Conversion kernels per step.")},
    code={
        "conversion_operation": ("Operation", "Conversion with the most time."),
        "conversion_operator": ("Operator", "Operator with the most conversion time."),
    },
)


def states_operations(trace: TraceTable) -> bool:
    """Returns whether the trace contains the operation that each kernel performs."""
    facts = facts_of(trace)
    return facts is not None and has_device_facts(trace, trace.recorder.kernels.type)


def _look(s: Scene) -> Detection | None:
    trace, facts = s.trace, facts_of(s.trace)
    if facts is None or not states_operations(trace):
        return None
    kernels = s.kernels[~trace.is_collective[s.kernels]]
    row = kernels[has_fact_in(trace, trace.recorder.kernels.type, facts.conversions, kernels)]
    time, total = trace.dur_ns[row], int(trace.dur_ns[kernels].sum())
    if not total or time.sum() < CONVERSION_SHARE * total:
        return None
    share = int(time.sum()) / total
    operator = most_of(trace, operator_names(trace, row), time)
    notice = s.notice(
        RULE,
        severity="medium" if share >= MEDIUM_SHARE else "low",
        text=f"{s.per_step_words} {{conversions}} {plural(s.per_step(len(row)), 'kernel runs', 'kernels run')} only to "
        f"convert the layout or type of tensors. They take {{conversion_ratio}} of the kernel time "
        f"({{conversions_ns}}), mostly "
        "{conversion_operation}" + (", launched by {conversion_operator}." if operator else "."),
        figures=METRICS.measured(
            conversions=s.per_step(len(row)),
            conversions_ns=s.per_step(int(time.sum())),
            conversion_ratio=share,
            conversion_operation=most_of(trace, first_reported_text(trace, trace.recorder.kernels.type, row), time),
            **optional(operator, conversion_operator=operator),
        ),
        measure="conversion_ratio",
        threshold=CONVERSION_SHARE,
        why="Each conversion reads and writes a whole tensor but computes nothing. Upper bound: no conversions remain. The "
        "trace does not show which conversions the program needs.",
    )
    return Detection(notice, Bounds(Change(), Change(row=row, less_ns=time)), s.by_length(row), int(time.sum()))


RULE = Rule(
    __name__,
    title="Layout and type conversions",
    look=_look,
    order=390,
    detects="Kernels only convert the layout or type of tensors.",
    threshold=f"Conversion kernels take at least {percent(CONVERSION_SHARE)} of the kernel time, excluding communication.",
    saving="Upper bound: the time of all these kernels. Lower bound: 0, because the trace does not show which conversions "
    "the program needs.",
    needs="The type of each kernel (NPUs: column `Type`, with `TransData`, `Transpose`, `TransposeD`, `Cast`).",
    notes="""
        The severity is medium at 10 % or more, and low otherwise. `redundant_casts` and `redundant_copies` also cover
        some of these kernels.
    """,
    has_data=states_operations,
    stays_without_saving=True,
    limits=(Limit.GPU,),
)
