"""Tensor copies that only change the memory layout."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.kernel_classes import CONVOLUTION_LAYOUTS, classify_kernels
from tb_plugin.analysis.metrics import LINE
from tb_plugin.analysis.range_patterns import name_matches
from tb_plugin.analysis.severity import severity_of
from tb_plugin.analysis.simulate import Change
from tb_plugin.model.trace.schema import MISSING, KernelClass
from tb_plugin.payloads import Link
from tb_plugin.rules._base import COMMON, Bounds, Detection, Limit, Rule, Scene, optional, percent
from tb_plugin.rules._streams import enclosing_match

COPY_SHARE = 0.02
"""Minimum share of these copies in the kernel time. In most transformers, the copies that merge attention heads take less."""
MIOPEN = r"^(?:batched_)?transpose_"
"""Layout kernels of MIOpen, the convolution library of ROCm."""
METRICS = COMMON.in_steps(
    ns={"layout_ns": ("Layout copies", "Time of layout copy kernels per step.")},
    ratio={"layout_ratio": ("Layout copies", "Layout copy time divided by kernel time.")},
    code={"layout_line": ("Python line", LINE.format("copy"))},
)


def _look(s: Scene) -> Detection | None:
    trace, kernels = s.trace, s.kernels
    classes = classify_kernels(trace).of(trace.name[kernels]) if len(kernels) else np.empty(0, np.uint8)
    copies, convolutions = (kernels[classes == each] for each in (KernelClass.COPY, KernelClass.CONVOLUTION))
    operator, convolving = trace.operator[copies], trace.operator[convolutions]
    # Convolutions convert inputs and outputs if the library needs another layout.
    turning = np.isin(operator, convolving[convolving != MISSING])
    if len(convolutions):
        turning |= (operator == MISSING) & name_matches(trace, CONVOLUTION_LAYOUTS)[copies]
    outer = enclosing_match(trace, operator, trace.recorder.operators.laying_out)
    is_one = turning | (outer != MISSING)
    rows = s.by_length(copies[is_one])
    time, total = int(trace.dur_ns[rows].sum()), int(trace.dur_ns[s.kernels].sum())
    if not time or time < COPY_SHARE * total:
        return None
    of_convolutions = 2 * int(trace.dur_ns[copies[turning]].sum()) >= time
    miopen = int(trace.dur_ns[copies[turning & name_matches(trace, MIOPEN)[copies]]].sum())
    case = "" if not of_convolutions else "convolutions.miopen" if 2 * miopen >= time else "convolutions"
    line = s.line(rows)
    what = "Convolutions copy their tensors into another layout. These copies" if case else "Layout copies of tensors"
    notice = s.notice(
        RULE,
        severity=severity_of(time / total),
        text=f"{what} take {{layout_ns}} per step, {{layout_ratio}} of the kernel time"
        + (", mostly at {layout_line}." if line else "."),
        case=case,
        figures=METRICS.measured(
            layout_ns=s.per_step(time), layout_ratio=time / total, **optional(line, layout_line=line)
        ),
        measure="layout_ratio",
        threshold=COPY_SHARE,
        evidence=Link("kernels", {"where": "class:copy"}, "Show kernels"),
        why="These copies compute nothing. The bounds assume that tensors are created in the layout in which they are used. "
        "A tensor that is used in two layouts still needs a copy.",
    )
    row = np.sort(rows)
    host = s.covered(np.unique(outer[outer != MISSING]))
    return Detection(
        notice, Bounds(Change(row=row, less_ns=trace.dur_ns[row]), Change(host, row, trace.dur_ns[row])), rows
    )


RULE = Rule(
    __name__,
    title="Layout copies",
    look=_look,
    order=350,
    detects="Kernels copy tensors only to change their layout in memory.",
    threshold=f"These copies take at least {percent(COPY_SHARE)} of the kernel time.",
    saving="Lower bound: the time of these kernels. Upper bound: also the time of their operators. Both bounds assume that "
    "tensors are created in the layout in which they are used.",
    notes="""
        A copy counts if its kernel has the class `copy` and runs below `aten::contiguous` or `aten::reshape`. Input
        and output copies launched by convolutions count too (`convolutions`, with MIOpen `convolutions.miopen`). Without
        an operator, the name of the kernel shows such a copy.
    """,
    cases=("", "convolutions", "convolutions.miopen"),
    limits=(Limit.GPU,),
)
