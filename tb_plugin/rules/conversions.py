"""Kernels that only give numbers another layout or type take much of the time."""

from __future__ import annotations

from tb_plugin.analysis.device_facts import facts_of, has_device_facts, most_of, states
from tb_plugin.analysis.graphs.attribution import operator_names
from tb_plugin.analysis.kernel_facts import first_reported_text
from tb_plugin.analysis.metrics import STEPS, define
from tb_plugin.analysis.phrases import noun
from tb_plugin.analysis.simulate import Change
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Link, Notice
from tb_plugin.rules._base import Rule, Scene, Seen
from tb_plugin.rules._limits import Limit
from tb_plugin.rules._metrics import METRICS as OF_RULES

CONVERSION_SHARE = 0.02
"""Share of the kernel time of the steps: some conversions any program needs."""
MEDIUM_SHARE = 0.1
"""From this share on they are more than what stands at the borders of a model."""
METRICS = OF_RULES.adding(
    define(
        STEPS,
        "ns",
        {"conversions_ns": ("Conversions", "Time of layout and type conversion kernels per step.")},
    ),
    define(
        STEPS,
        "ratio",
        {"conversion_ratio": ("Conversions", "Conversion time divided by non-communication kernel time.")},
    ),
    define(STEPS, "number", {"conversions": ("Kernels", "Conversion kernels per step.")}),
    define(
        STEPS,
        "code",
        {
            "conversion_operation": ("Operation", "Conversion with the most time."),
            "conversion_operator": ("Operator", "Operator with the most conversion time."),
        },
    ),
)


def states_operations(trace: TraceTable) -> bool:
    """Returns whether a trace says what its kernels compute."""
    facts = facts_of(trace)
    return facts is not None and has_device_facts(trace, trace.recorder.kernels.type)


def _look(s: Scene) -> Seen | None:
    trace, facts = s.trace, facts_of(s.trace)
    if facts is None or not states_operations(trace):
        return None
    kernels = s.kernels[~trace.is_collective[s.kernels]]
    row = kernels[states(trace, trace.recorder.kernels.type, facts.conversions, kernels)]
    time, total = trace.dur_ns[row], int(trace.dur_ns[kernels].sum())
    if not total or time.sum() < CONVERSION_SHARE * total:
        return None
    share = int(time.sum()) / total
    operator = most_of(trace, operator_names(trace, row), time)
    told: dict[str, float | str] = {
        "conversions": s.per_step(len(row)),
        "conversions_ns": s.per_step(int(time.sum())),
        "conversion_ratio": share,
        "conversion_operation": most_of(trace, first_reported_text(trace, trace.recorder.kernels.type, row), time),
        **({"conversion_operator": operator} if operator else {}),
    }
    notice = Notice(
        rule="conversions",
        severity="medium" if share >= MEDIUM_SHARE else "low",
        text=f"{s.each} {{conversions}} {noun(s.per_step(len(row)), 'kernel runs', 'kernels run')} only to give numbers "
        "another layout or type, {conversion_ratio} of the kernel time ({conversions_ns}), most of it {conversion_operation}"
        + (", launched by {conversion_operator}." if operator else "."),
        todo=s.todo("conversions"),
        figures=[METRICS.figure(key, value) for key, value in told.items()],
        measure="conversion_ratio",
        threshold=CONVERSION_SHARE,
        evidence=Link("timeline", {}, "Show in timeline"),
        references=s.references("conversions"),
        why="Such a kernel reads and writes all numbers of a tensor and computes nothing. The upper bound is without all of "
        "them; which of them a program needs a trace does not tell.",
        confidence="medium",
    )
    return Seen(notice, Change(), Change(row=row, less_ns=time), s.by_length(row), int(time.sum()))


RULE = Rule(
    "conversions", "Conversions of layout and type", _look, asks=states_operations, always=True, limits=(Limit.GPU,)
)
