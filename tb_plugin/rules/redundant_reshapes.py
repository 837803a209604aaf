"""Reshapes to the same shape."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.backward import backward_operators
from tb_plugin.analysis.metrics import LINE
from tb_plugin.analysis.range_patterns import name_matches
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.model.trace.extra_columns import RESULT_SHAPES
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.rules._base import COMMON, NO_SAVING, Detection, Rule, Scene, optional
from tb_plugin.rules._shapes import arguments, input_dims

METRICS = COMMON.in_steps(
    number={"reshapes": ("Reshapes", "Reshapes that do not change the shape, per step.")},
    ns={"reshapes_ns": ("Host time", "Host time of these reshapes, including their dispatch, per step.")},
    code={"reshape_line": ("Python line", LINE.format("reshape"))},
)


def _look(s: Scene) -> Detection | None:
    trace = s.trace
    reshaping = name_matches(trace, trace.recorder.operators.reshaping)
    operators = np.flatnonzero(reshaping & (trace.kind == EventKind.OPERATOR) & s.rows)
    if not len(operators):
        return None
    # Reshapes in the backward pass disappear with those in the forward pass.
    operators = operators[backward_operators(trace).of[operators] == MISSING]
    row = operators[_same_shape(trace, operators)]
    if len(row) < len(s.steps.label) or not len(row):
        return None
    handed = trace.arrows.tail[np.isin(trace.arrows.head, row)]
    handed = np.unique(handed[(trace.kind[handed] == EventKind.RUNTIME) & (trace.track[handed] != trace.track[row[0]])])
    line = s.line(row)
    notice = s.notice(
        RULE,
        severity="low" if s.is_significant(int(trace.dur_ns[row].sum() + trace.dur_ns[handed].sum())) else "info",
        text=(
            "{reshapes} operators per step reshape a tensor to the shape that it already has and take "
            "{reshapes_ns} on the host"
        )
        + (", mostly at {reshape_line}." if line else "."),
        figures=METRICS.measured(
            reshapes=s.per_step(len(row)),
            reshapes_ns=s.per_step(int(trace.dur_ns[row].sum() + trace.dur_ns[handed].sum())),
            **optional(line, reshape_line=line),
        ),
        why="These operators compute nothing but cost host time. Removing them saves nothing while the device is busy.",
        confidence="high",
    )
    return Detection(notice, NO_SAVING, s.by_length(row))


def _same_shape(trace: TraceTable, operators: Int64) -> Bool:
    """Returns, for each operator, whether its recorded result has the same shape as its first input."""
    before = arguments(trace).shape_of(operators)
    after = np.full(len(trace) + 1, MISSING, np.int64)
    for column in trace.others:
        if column.key == RESULT_SHAPES and column.is_text:
            after[column.row] = column.value
    pairs, of = np.unique(np.stack((before, after[operators])), axis=1, return_inverse=True)
    same = [
        one != MISSING and other != MISSING and _first(trace.strings[one]) == _first(trace.strings[other])
        for one, other in pairs.T.tolist()
    ]
    found: Bool = np.array(same, np.bool_)[of.ravel()]
    return found


def _first(text: str) -> tuple[int, ...]:
    return next(iter(input_dims(text)), ())


RULE = Rule(
    __name__,
    title="Redundant reshapes",
    look=_look,
    order=370,
    detects="Operators reshape a tensor to the shape that it already has.",
    threshold="At least one such operator per step, outside the backward pass.",
    saving="None: the saving depends on whether the GPU waits for the CPU (`launch_bound`, `python_bound`).",
    needs="Input and output shapes, and a profiler that identifies reshape operators (MegEngine: `Reshape`).",
    notes="""
        The finding reports the number and CPU time of these operators, including calls that hand them to another
        thread.
    """,
)
