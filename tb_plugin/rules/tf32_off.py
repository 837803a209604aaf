"""float32 matmuls without TF32."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.matrix_unit import matrix_time, matrix_units
from tb_plugin.analysis.severity import severity_of
from tb_plugin.payloads import Link
from tb_plugin.rules._base import COMMON, MIN_SHARE, NO_SAVING, Bounds, Detection, Limit, Rule, Scene, percent
from tb_plugin.rules._matrix_products import matrix_unit_savings, on_units, plain_products

METRICS = COMMON.in_steps(
    ns={
        "single_product_ns": (
            "Float32 products",
            "Time of float32 matmuls and convolutions without matrix units, per step.",
        )
    },
    ratio={"single_product_ratio": ("Float32 products", "Share of kernel time in float32 matmuls and convolutions.")},
)


def _look(s: Scene) -> Detection | None:
    trace = s.trace
    has = np.array([*("tf32" in device.precisions for device in trace.devices), False])
    if not has.any():
        return None
    plain = plain_products(s)
    single = plain.take((plain.bits == 32) & has[trace.device[plain.row]])
    time, total = int(trace.dur_ns[single.row].sum()), matrix_time(trace, s.kernels)
    if not on_units(s) or time < MIN_SHARE * total.total_ns:  # the rule matrix_units covers unused units
        return None
    units = matrix_units(trace, s.kernels)
    share = time / total.total_ns
    notice = s.notice(
        RULE,
        severity=severity_of(share),
        text=f"TF32 is off: float32 matmuls and convolutions take {{single_product_ns}} per step without {units}, "
        "{single_product_ratio} of the kernel time.",
        figures=METRICS.measured(single_product_ns=s.per_step(time), single_product_ratio=share),
        measure="single_product_ratio",
        threshold=MIN_SHARE,
        evidence=Link("operators", {"sort": "device_self_ns"}, "Show operators"),
        why=f"TF32 has the range of float32, rounds mantissas to 10 bits and runs on {units}. Upper bound: kernels reach "
        "the device's TF32 peak. Lower bound: a third of this peak. Without recorded shapes, the bounds assume twice the "
        "speed.",
    )
    changes = matrix_unit_savings(trace, single, "tf32", 4)
    return Detection(notice, Bounds(*changes) if changes else NO_SAVING, s.by_length(single.row))


RULE = Rule(
    __name__,
    title="TF32 is off",
    look=_look,
    order=280,
    detects="Matmuls or convolutions in float32 do not use matrix units, although the GPU supports TF32.",
    threshold=f"These operators take at least {percent(MIN_SHARE)} of the kernel time, and other kernels do use "
    "matrix units.",
    saving="As for `matrix_units`, with the TF32 peak and 4 bytes per number.",
    needs="Recorded input types.",
    notes="""
        If no kernel uses matrix units, `matrix_units` applies instead of this rule.
    """,
    limits=(Limit.GPU,),
)
