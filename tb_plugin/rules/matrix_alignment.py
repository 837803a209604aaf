"""Products in 16 bit are slow because a dimension is no multiple of what matrix units take at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.groupby import group
from tb_plugin.analysis.matrix_unit import matrix_units
from tb_plugin.analysis.metrics import STEPS, define
from tb_plugin.analysis.phrases import references_of
from tb_plugin.analysis.simulate import Change
from tb_plugin.model.trace.schema import MatrixUse
from tb_plugin.payloads import Link, Notice
from tb_plugin.rules._base import Rule, Scene, Seen
from tb_plugin.rules._limits import Limit
from tb_plugin.rules._matrix_products import SHORT_NS, STEP, Products, faster, products
from tb_plugin.rules._metrics import METRICS as OF_RULES
from tb_plugin.rules._shapes import arguments

Int64 = npt.NDArray[np.int64]

SLOW = 2.0
"""So many times as long for an operation as usual: tiles that do not fill cost less than that."""
ALIGNMENT_SHARE = 0.01
"""Share of the kernel time of the steps: what takes less hardly saves a hundredth of a step."""
METRICS = OF_RULES.adding(
    define(
        STEPS,
        "ns",
        {"odd_product_ns": ("Unaligned products", "Time of products with unaligned shapes per step.")},
    ),
    define(
        STEPS,
        "text",
        {
            "odd_operator": ("Operator", "Operator with the most unaligned product time."),
            "odd_shape": ("Input shapes", "Input shapes with the most unaligned product time."),
        },
    ),
    define(
        STEPS,
        "number",
        {"odd_size": ("Dimension", "Dimension that is no multiple of 8.")},
    ),
)


def _look(s: Scene) -> Seen | None:
    trace, every = s.trace, products(s.trace)
    some = every.only((every.bits == 16) & (every.flops > 0) & s.rows[every.row])
    odd = some.only(some.odd > 0)
    if not len(odd.row):
        return None
    aligned = some.only((some.odd == 0) & (trace.uses_matrix_unit[some.row] != MatrixUse.NO))
    outside = trace.uses_matrix_unit[odd.row] == MatrixUse.NO
    usual = _usual(trace.dur_ns, aligned)
    slow = outside if usual is None else outside | (trace.dur_ns[odd.row] > SLOW * odd.flops * usual[1])
    odd = odd.only(slow & (trace.dur_ns[odd.row] >= SHORT_NS))
    time = int(trace.dur_ns[odd.row].sum())
    if not time or time < ALIGNMENT_SHARE * int(trace.dur_ns[s.kernels].sum()):
        return None
    changes = _by_rate(trace.dur_ns[odd.row], odd, usual) if usual else faster(trace, odd, "fp16", 2)
    name, shape, size = _most(s, odd)
    notice = Notice(
        rule="matrix_alignment",
        severity="medium",
        text="Products in 16 bit take {odd_product_ns} of each step in slow kernels, most of it {odd_operator} with "
        "{odd_shape}: {odd_size} is no multiple of 8.",
        todo=trace.recorder.todo("matrix_alignment"),
        figures=[
            METRICS.figure("odd_product_ns", s.per_step(time)),
            METRICS.figure("odd_operator", name),
            METRICS.figure("odd_shape", shape),
            METRICS.figure("odd_size", size),
        ],
        evidence=Link("operators", {"group": "operators_by_shape", "where": f"name:{name}"}, "Show its shapes"),
        references=references_of(trace.recorder, "matrix_alignment"),
        why=f"{matrix_units(trace, s.kernels) or 'Matrix units'} take 16 bytes at once: rows that do not begin at a multiple "
        "of them need kernels that load numbers one by one."
        + (" The bounds are what aligned products of this trace take for an operation." if usual else ""),
        confidence="high" if usual else "medium",
    )
    least, most = changes or (None, None)
    return Seen(notice, least, most, s.by_length(odd.row))


def _usual(dur: Int64, aligned: Products) -> tuple[float, float] | None:
    """Nanoseconds for an operation of aligned products, of the fastest and of most of them; None without any."""
    long = aligned.only(dur[aligned.row] >= SHORT_NS)
    if not len(long.row):
        return None
    cost = np.sort(dur[long.row] / long.flops)
    return float(cost[len(cost) // 20]), float(cost[(len(cost) - 1) * 3 // 4])


def _by_rate(time: Int64, odd: Products, usual: tuple[float, float]) -> tuple[Change, Change]:
    most, least = (np.maximum(time - odd.flops * cost * (1 + STEP / np.maximum(odd.odd, STEP)), 0) for cost in usual)
    return Change(row=odd.row, less_ns=least.astype(np.int64)), Change(row=odd.row, less_ns=most.astype(np.int64))


def _most(s: Scene, odd: Products) -> tuple[str, str, int]:
    """The operator, its shapes and the odd dimension that most of the time is in."""
    trace = s.trace
    operator = trace.operator[odd.row]
    texts = arguments(trace).shape_of(operator)
    groups = group(trace.name[operator], texts)
    time = groups.sum(trace.dur_ns[odd.row])
    found = [
        (trace.strings[int(trace.name[operator[i]])], trace.strings[int(texts[i])], int(odd.odd[i]))
        for i in groups.first[time == time.max()]
    ]
    return min(found)  # the order of the file says nothing


RULE = Rule("matrix_alignment", "Matrix units need aligned shapes", _look, limits=(Limit.GPU,))
