"""Unused matrix units."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.forest import Forest
from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.analysis.matrix_unit import matrix_time, matrix_units
from tb_plugin.analysis.metrics import FULL_TRACE
from tb_plugin.analysis.severity import severity_of
from tb_plugin.lib.groupby import places_of, sum_by
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, EventKind, MatrixUse
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Link
from tb_plugin.rules._base import COMMON, NO_SAVING, Bounds, Detection, Limit, Rule, Scene, percent
from tb_plugin.rules._matrix_products import matrix_unit_savings, on_units, plain_products

METRICS = COMMON.defining(
    {
        (FULL_TRACE, "ratio"): {
            "matrix_eligible_ratio": (
                "Eligible for matrix units",
                "Share of operator kernel time in eligible operators.",
            ),
            "matrix_used_ratio": ("On matrix units", "Share of kernel time on matrix units."),
        }
    }
)

MATRIX_SHARE = 0.1
"""Minimum share of these matmuls in the kernel time. Below this share, faster matmuls hardly shorten a step."""


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
    cases = _lower_precision(s)
    notice = s.notice(
        RULE,
        severity=severity_of(eligible.ratio),
        text=f"{{matrix_eligible_ratio}} of the kernel time could use {units}, but no "
        + ("matmul or convolution uses them." if time.used_ns else "kernel uses them."),
        todo=" ".join(filter(None, (s.todo(RULE, case) for case in cases))),
        case=cases[0],
        figures=figures,
        measure="matrix_eligible_ratio",
        threshold=MATRIX_SHARE,
        evidence=Link("operators", {"sort": "device_self_ns"}, "Show operators"),
        why=f"Matmuls and convolutions are several times slower without {units}. Upper bound: matmuls and convolutions "
        "reach the device's 16-bit peak. Lower bound: a third of this peak. Without recorded shapes: at least "
        "twice the speed, at most the ratio of the peaks. The bounds ignore casts and other kernels.",
    )
    plain = plain_products(s)
    found = matrix_unit_savings(s.trace, plain, "fp16", 2)
    return Detection(notice, Bounds(*found) if found else NO_SAVING, s.by_length(plain.row))


def _lower_precision(s: Scene) -> list[str]:
    used = [set(s.trace.devices[int(i)].precisions) for i in np.unique(s.trace.device[s.kernels]) if i != MISSING]
    has = set.intersection(*used) if used else set()
    half = next((name for name in ("bf16", "fp16") if name in has), "")
    return [half, *(["tf32"] if "tf32" in has else [])]


class MatrixEligible(msgspec.Struct, frozen=True):
    """Kernel time of operators that could use matrix units, as shares of the kernel time of all operators."""

    ratio: float
    """Share of kernel time in innermost operators that could use matrix units."""
    unused_ratio: float
    """Part of ``ratio`` that is spent in kernels that do not use matrix units."""


@cached_by_argument
def matrix_eligible(trace: TraceTable) -> MatrixEligible:
    """Returns the kernel time of operators that could use matrix units, as shares of the kernel time of all operators."""
    operators = np.flatnonzero(trace.kind == EventKind.OPERATOR)
    position = places_of(operators, len(trace))
    kernels = np.flatnonzero(trace.kind == EventKind.KERNEL)
    plain = np.where(trace.uses_matrix_unit[kernels] == MatrixUse.NO, trace.dur_ns[kernels], 0)
    owner = position[trace.operator[kernels]]
    above = position[trace.operator[operators]]
    from tb_plugin.analysis.graphs.scope_calls import virtual_operator_calls

    replayed = virtual_operator_calls(trace, kernels, operators, above, owner)
    parent = replayed.with_virtual(above, replayed.parent)
    own, without = (sum_by(replayed.owner, dur, len(parent)) for dur in (trace.dur_ns[kernels], plain))
    total = own.sum()
    if not total:
        return MatrixEligible(0.0, 0.0)
    eligible = replayed.with_virtual(
        trace.matrix_eligible[operators], origins_of(trace).scopes.is_eligible[replayed.scope]
    )
    innermost = eligible & ~Forest(parent).any_below(eligible)
    return MatrixEligible(float(own[innermost].sum() / total), float(without[innermost].sum() / total))


RULE = Rule(
    __name__,
    title="No matrix units in use",
    look=_look,
    order=270,
    detects="Operators could use matrix units, but no kernel does.",
    threshold=f"Kernels of eligible operators that use no matrix units take at least {percent(MATRIX_SHARE)} of the kernel "
    "time.",
    saving="Upper bound: kernels run at the GPU's 16-bit peak. Lower bound: kernels run at a third of this peak. Without "
    "shapes, and for convolutions, the upper bound assumes a speedup by the ratio of the peaks. The lower bound then "
    "assumes that these kernels run twice as fast. There are no bounds if the GPU's peaks are unknown.",
    needs="A GPU with matrix units, and recorded operators.",
    notes="""
        Only innermost eligible operators count. Fused attention does not count, because it uses matrix units in float32
        too. The badge is `matrix_eligible_ratio`: kernel time of eligible operators divided by that of all operators.

        The saving covers matmuls and convolutions that are known not to use matrix units. For `mm`, `bmm`, `addmm` and
        `baddbmm`, the rule computes the number of operations and bytes from the shapes. The assumed time is that of the
        operations or that of the bytes, whichever is longer. Kernels below 10 us add nothing to the lower bound. The
        bounds exclude gains of other kernels and the cost of casts. The table [Peaks of GPUs](#peaks-of-gpus) lists the
        peaks.

        Formats by device: float16 from compute capability 7.0, bfloat16 and TF32 from 8.0, FP8 from 8.9. AMD: float16
        and bfloat16 from MI100, FP8 from MI300. The advice names only formats that all used devices support.
    """,
    cases=("", "bf16", "fp16", "tf32"),
    limits=(Limit.GPU,),
)
