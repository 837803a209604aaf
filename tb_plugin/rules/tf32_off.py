"""Products of float32 run outside of matrix units that could take them as TF32."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.matrix_unit import matrix_time, matrix_units
from tb_plugin.analysis.metrics import STEPS, define
from tb_plugin.analysis.severity import severity_of
from tb_plugin.payloads import Link
from tb_plugin.rules._base import NO_SAVING, Bounds, Detection, Rule, Scene, percent
from tb_plugin.rules._limits import Limit
from tb_plugin.rules._matrix_products import faster, on_units, plain_products
from tb_plugin.rules._metrics import METRICS as OF_RULES

TF32_SHARE = 0.01
"""Share of the kernel time of the steps: what takes less hardly saves a hundredth of a step."""
METRICS = OF_RULES.adding(
    define(
        STEPS,
        "ns",
        {
            "single_product_ns": (
                "Float32 products",
                "Time of float32 matrix products without matrix units, per step.",
            )
        },
    ),
    define(
        STEPS,
        "ratio",
        {"single_product_ratio": ("Float32 products", "Float32 products divided by kernel time.")},
    ),
)


def _look(s: Scene) -> Detection | None:
    trace = s.trace
    has = np.array([*("tf32" in device.precisions for device in trace.devices), False])
    if not has.any():
        return None
    plain = plain_products(s)
    single = plain.take((plain.bits == 32) & has[trace.device[plain.row]])
    time, total = int(trace.dur_ns[single.row].sum()), matrix_time(trace, s.kernels)
    if not on_units(s) or time < TF32_SHARE * total.total_ns:  # where none is used the rule matrix_units speaks
        return None
    units = matrix_units(trace, s.kernels)
    share = time / total.total_ns
    notice = s.notice(
        RULE,
        severity=severity_of(share),
        text=f"TF32 is off: float32 products take {{single_product_ns}} per step without {units}, "
        "{single_product_ratio} of the kernel time.",
        figures=[
            METRICS.figure("single_product_ns", s.per_step(time)),
            METRICS.figure("single_product_ratio", share),
        ],
        measure="single_product_ratio",
        threshold=TF32_SHARE,
        evidence=Link("operators", {"sort": "device_self_ns"}, "Show operators"),
        why=f"TF32 keeps float32's range, rounds factors to 10 bits and runs in {units}. Upper bound: products reach the "
        "device's TF32 peak. Lower bound: a third of it. Without recorded shapes, the bounds assume twice the speed.",
        confidence="medium",
    )
    changes = faster(trace, single, "tf32", 4)
    return Detection(notice, Bounds(*changes) if changes else NO_SAVING, s.by_length(single.row))


RULE = Rule(
    __name__,
    title="TF32 is off",
    look=_look,
    order=280,
    detects="Products or convolutions of float32 run outside of matrix units, although the GPU has TF32.",
    threshold=f"They take {percent(TF32_SHARE)} of the kernel time or more, and other kernels do use matrix units.",
    saving="As for `matrix_units`, with the peak of TF32 and numbers of 4 bytes.",
    needs="Types of inputs.",
    notes="""
        If no kernel uses matrix units, `matrix_units` covers the case.
    """,
    limits=(Limit.GPU,),
)
