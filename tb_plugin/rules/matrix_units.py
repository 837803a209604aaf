"""Matrix units lie idle though operators could use them."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.forest import Forest
from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.analysis.matrix_unit import matrix_time, matrix_units
from tb_plugin.analysis.metrics import WHOLE, define
from tb_plugin.analysis.severity import severity_of
from tb_plugin.lib.groupby import places_of, sum_by
from tb_plugin.lib.model_cache import remembered
from tb_plugin.model.trace.schema import MISSING, EventKind, MatrixUse
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Link
from tb_plugin.rules._base import NO_SAVING, Bounds, Detection, Rule, Scene, percent
from tb_plugin.rules._limits import Limit
from tb_plugin.rules._matrix_products import faster, on_units, plain_products
from tb_plugin.rules._metrics import METRICS as OF_RULES

METRICS = OF_RULES.adding(
    define(
        WHOLE,
        "ratio",
        {
            "matrix_eligible_ratio": (
                "Eligible for matrix units",
                "Kernel time of eligible operators divided by kernel time of all operators.",
            ),
            "matrix_used_ratio": ("On matrix units", "Time of kernels on matrix units divided by kernel time."),
        },
    ),
)

MATRIX_SHARE = 0.1
"""Below this share of the kernel time even kernels that took no time at all would hardly change a step."""


def _look(s: Scene) -> Detection | None:
    units, time = matrix_units(s.trace, s.kernels), matrix_time(s.trace, s.kernels)
    eligible = matrix_eligible(s.trace)
    if not units or on_units(s) or eligible.unused_ratio < MATRIX_SHARE:
        return None
    figures = [
        METRICS.figure("matrix_eligible_ratio", eligible.ratio, f"Eligible for {units}"),
        METRICS.figure("matrix_used_ratio", time.used_ratio, f"On {units}"),
    ]
    if time.unknown_ns:
        figures.append(METRICS.figure("matrix_unknown_ratio", time.unknown_ratio, f"Unknown use of {units}"))
    notice = s.notice(
        RULE,
        severity=severity_of(eligible.ratio),
        text=f"{{matrix_eligible_ratio}} of the kernel time could use {units}, but no "
        + ("product or convolution uses them." if time.used_ns else "kernel uses them."),
        todo=_lower_precision(s),
        figures=figures,
        measure="matrix_eligible_ratio",
        threshold=MATRIX_SHARE,
        evidence=Link("operators", {"sort": "device_self_ns"}, "Show operators"),
        why=f"Matrix products and convolutions are several times slower without {units}. Upper bound: they reach the "
        "device's 16-bit peak. Lower bound: a third of it. Without recorded shapes, the bounds assume twice the speed. "
        "Casts and other kernels are not counted.",
        confidence="medium",
    )
    plain = plain_products(s)
    found = faster(s.trace, plain, "fp16", 2)
    return Detection(notice, Bounds(*found) if found else NO_SAVING, s.by_length(plain.row))


def _lower_precision(s: Scene) -> str:
    """What to do so that matrix units are used: formats that all devices that ran kernels have."""
    used = [set(s.trace.devices[int(i)].precisions) for i in np.unique(s.trace.device[s.kernels]) if i != MISSING]
    has = set.intersection(*used) if used else set()
    half = next((name for name in ("bf16", "fp16") if name in has), "")
    cases = [half, *(["tf32"] if "tf32" in has else [])]
    return " ".join(filter(None, (s.todo(RULE, case) for case in cases)))


class MatrixEligible(msgspec.Struct, frozen=True):
    """Shares of the kernel time that stands behind operators, 0..1 (0 without kernels)."""

    ratio: float
    """Share of the innermost operators that could use matrix units."""
    unused_ratio: float
    """Share of these in kernels that are known to use none."""


@remembered
def matrix_eligible(trace: TraceTable) -> MatrixEligible:
    """Returns the kernel time of the innermost eligible operators over that of all operators, of the whole trace."""
    operators = np.flatnonzero(trace.kind == EventKind.OPERATOR)
    position = places_of(operators, len(trace))
    kernels = np.flatnonzero(trace.kind == EventKind.KERNEL)
    plain = np.where(trace.uses_matrix_unit[kernels] == MatrixUse.NO, trace.dur_ns[kernels], 0)
    owner = position[trace.operator[kernels]]
    above = position[trace.operator[operators]]
    from tb_plugin.analysis.graphs.scope_calls import replayed_operators

    replayed = replayed_operators(trace, kernels, operators, above, owner)
    parent = replayed.also(above, replayed.parent)
    own, without = (sum_by(replayed.owner, dur, len(parent)) for dur in (trace.dur_ns[kernels], plain))
    total = own.sum()
    if not total:
        return MatrixEligible(0.0, 0.0)
    eligible = replayed.also(trace.matrix_eligible[operators], origins_of(trace).scopes.is_eligible[replayed.scope])
    innermost = eligible & ~Forest(parent).any_below(eligible)
    return MatrixEligible(float(own[innermost].sum() / total), float(without[innermost].sum() / total))


RULE = Rule(
    __name__,
    title="No matrix units in use",
    look=_look,
    order=270,
    detects="Operators could use matrix units, and no kernel does.",
    threshold=f"Eligible operators in kernels without matrix units take {percent(MATRIX_SHARE)} or more of the kernel time.",
    saving=(
        "At most the kernels run at the peak of the GPU in 16 bit; at least at a third of it. Without shapes, "
        "and for convolutions: at most as many times faster as the peaks differ, at least twice. None if the "
        "peaks of the GPU are unknown."
    ),
    needs="A GPU with matrix units, and operators.",
    notes="""
        Only the innermost eligible operators count. Fused attention does not count: it uses matrix units in
        float32 as well. The badge is `matrix_eligible_ratio`: kernel time of eligible operators divided by that
        of all operators.

        The saving covers products of matrices and convolutions that are known not to use matrix units. With
        shapes, the operations and bytes of `mm`, `bmm`, `addmm` and `baddbmm` are known; the larger need
        counts. Kernels below 10 us add nothing to the lower bound. Gains of other kernels and costs of casts
        are in neither bound. The table [Peaks of GPUs](#peaks-of-gpus) lists the peaks.

        Formats by device: float16 from compute capability 7.0, bfloat16 and TF32 from 8.0, FP8 from 8.9. AMD:
        float16 and bfloat16 from MI100, FP8 from MI300. Only formats are advised that all used devices have.
    """,
    cases=("", "bf16", "fp16", "tf32"),
    limits=(Limit.GPU,),
)
