"""16-bit matmuls with unaligned dimensions."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.matrix_unit import matrix_units
from tb_plugin.analysis.simulate import Change
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import group
from tb_plugin.model.trace.schema import MatrixUse
from tb_plugin.payloads import Link
from tb_plugin.rules._base import COMMON, MIN_SHARE, NO_SAVING, Bounds, Detection, Limit, Rule, Scene, percent
from tb_plugin.rules._matrix_products import SHORT_NS, STEP, Products, matrix_kernels, matrix_unit_savings
from tb_plugin.rules._shapes import arguments

SLOW = 2.0
"""Minimum time per operation, relative to aligned matmuls. Partly filled tiles alone cost less."""
METRICS = COMMON.in_steps(
    ns={"odd_product_ns": ("Unaligned matmuls", "Time of matmuls with unaligned shapes per step.")},
    text={
        "odd_operator": ("Operator", "Operator with the most unaligned matmul time."),
        "odd_shape": ("Input shapes", "Input shapes with the most unaligned matmul time."),
    },
    number={"odd_size": ("Dimension", "Dimension that is not a multiple of 8.")},
)


def unaligned_products(s: Scene) -> tuple[Products, tuple[float, float] | None]:
    """Returns the slow 16-bit matmuls with unaligned shapes, and the time per operation of aligned ones (``_usual``)."""
    trace, every = s.trace, matrix_kernels(s.trace)
    some = every.take((every.bits == 16) & (every.flops > 0) & s.rows[every.row])
    is_odd = some.unaligned() > 0
    odd = some.take(is_odd)
    aligned = some.take(~is_odd & (trace.uses_matrix_unit[some.row] != MatrixUse.NO))
    outside = trace.uses_matrix_unit[odd.row] == MatrixUse.NO
    usual = _usual(trace.dur_ns, aligned)
    slow = outside if usual is None else outside | (trace.dur_ns[odd.row] > SLOW * odd.flops * usual[1])
    return odd.take(slow & (trace.dur_ns[odd.row] >= SHORT_NS)), usual


def _look(s: Scene) -> Detection | None:
    trace = s.trace
    odd, usual = unaligned_products(s)
    time = int(trace.dur_ns[odd.row].sum())
    if not time or time < MIN_SHARE * int(trace.dur_ns[s.kernels].sum()):
        return None
    changes = _by_rate(trace.dur_ns[odd.row], odd, usual) if usual else matrix_unit_savings(trace, odd, "fp16", 2)
    name, shape, size = _most(s, odd)
    notice = s.notice(
        RULE,
        text="16-bit matmuls take {odd_product_ns} per step in slow kernels, mostly {odd_operator} with {odd_shape}: "
        "{odd_size} is not a multiple of 8.",
        figures=METRICS.measured(odd_product_ns=s.per_step(time), odd_operator=name, odd_shape=shape, odd_size=size),
        evidence=Link("operators", {"group": "operators_by_shape", "where": f"name:{name}"}, "Show its shapes"),
        why=f"{matrix_units(trace, s.kernels) or 'Matrix units'} read 16 bytes at once. If rows do not start at a "
        "multiple of 16 bytes, slower kernels load numbers one by one."
        + (" The bounds use the speed of aligned matmuls in this trace." if usual else ""),
        confidence="high" if usual else "medium",
    )
    return Detection(notice, Bounds(*changes) if changes else NO_SAVING, s.by_length(odd.row))


def _usual(dur: Int64, aligned: Products) -> tuple[float, float] | None:
    """Returns the 5th and 75th percentile of the nanoseconds per operation of aligned products, None if there are none."""
    long = aligned.take(dur[aligned.row] >= SHORT_NS)
    if not len(long.row):
        return None
    cost = np.sort(dur[long.row] / long.flops)
    return float(cost[len(cost) // 20]), float(cost[(len(cost) - 1) * 3 // 4])


def _by_rate(time: Int64, odd: Products, usual: tuple[float, float]) -> tuple[Change, Change]:
    most, least = (
        np.maximum(time - odd.flops * cost * (1 + STEP / np.maximum(odd.unaligned(), STEP)), 0) for cost in usual
    )
    return Change(row=odd.row, less_ns=least.astype(np.int64)), Change(row=odd.row, less_ns=most.astype(np.int64))


def _most(s: Scene, odd: Products) -> tuple[str, str, int]:
    trace = s.trace
    operator = trace.operator[odd.row]
    texts = arguments(trace).shape_of(operator)
    groups = group(trace.name[operator], texts)
    time, size = groups.sum(trace.dur_ns[odd.row]), odd.unaligned()
    found = [
        (trace.strings[int(trace.name[operator[i]])], trace.strings[int(texts[i])], int(size[i]))
        for i in groups.first[time == time.max()]
    ]
    return min(found)  # independent of the order in the file


RULE = Rule(
    __name__,
    title="Shapes not aligned for matrix units",
    look=_look,
    order=290,
    detects="16-bit matmuls are slow because a dimension is not a multiple of 8.",
    threshold=f"These matmuls take at least {percent(MIN_SHARE)} of the kernel time.",
    saving="The extra time compared with aligned matmuls of this trace, for the padded size. Upper bound: compared with the "
    "5th percentile of the time per operation of aligned matmuls. Lower bound: compared with the 75th percentile. If no "
    "matmul is aligned, the bounds are those of `matrix_units`.",
    needs="Input shapes and types.",
    notes="""
        A matmul counts if its kernel uses no matrix units or is slow. A kernel is slow if its time per operation is
        more than twice the 75th percentile of aligned matmuls. Kernels below 10 us are excluded. The finding shows the
        operator, its shapes and the dimension that is not a multiple of 8.
    """,
    limits=(Limit.GPU,),
)
