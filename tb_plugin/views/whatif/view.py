"""New step times if work were shorter, longer or gone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.base import Frame, Params, Part
from tb_plugin.analysis.metrics import CHOSEN, SHARED, define
from tb_plugin.analysis.operator_calls import operator_calls
from tb_plugin.analysis.selection import select_rows, steps_of
from tb_plugin.analysis.simulate import Change, merge_changes, savings
from tb_plugin.analysis.simulate.scaled import (
    UNNAMED,
    Scale,
    Scaled,
    kernel_classes_in,
    merge_scaled,
    parsed_scale,
    scaled,
    waits_of_host,
)
from tb_plugin.analysis.simulate.streams import Assumption
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.errors import BadRequest
from tb_plugin.lib.groupby import group
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import Steps, TraceTable
from tb_plugin.payloads import Figures, Payload
from tb_plugin.views.whatif import VIEW

METRICS = SHARED.adding(
    define(
        CHOSEN,
        "ns",
        {
            "whatif_step_ns": ("Step time", "Mean step duration."),
            "saved_low_ns": ("Saved, low", "Lower bound per step; negative: longer steps."),
            "saved_high_ns": ("Saved, high", "Upper bound per step."),
            "new_step_ns": ("New step time", "Step time minus the lower bound."),
        },
    ),
    define(CHOSEN, "code", {"change": ("Change", "Work and the factor of its time.")}),
)
_KEYS = ("change", "saved_low_ns", "saved_high_ns", "new_step_ns")
# Operators by device time and by CPU time that are tried.
TRIED_OPERATORS = 5
# Changes that the table lists.
MOST_CHANGES = 10
MAX_CHOSEN = 20
ALL = "all together"
Named = tuple[str, Scaled]


class WhatIf(DeclaredView, entry=VIEW):
    selects = "events"
    own = ("scale",)

    def part(self, trace: TraceTable, params: Params) -> Part:
        chosen = [parsed_scale(text) for text in params.values("scale")]
        if len(chosen) > MAX_CHOSEN:
            raise BadRequest(f"At most {MAX_CHOSEN} changes are computed.", "scale", "Ask for fewer changes.")
        steps = steps_of(trace, params.steps)
        step_ns = int((steps.end_ns - steps.start_ns).sum()) // max(len(steps.label), 1)
        if len({(scale.kind, scale.name) for scale in chosen}) < len(chosen):
            raise BadRequest("Two changes have the same work.", "scale", "Give each work one factor.")
        every: list[Named] = [(scale.text, _existing(trace, scale)) for scale in chosen]
        if len(every) > 1:
            every.append((ALL, merge_scaled([each for _, each in every])))
        names = {name for name, _ in every}
        tried = [(scale.text, found) for scale in _candidates(trace, params) if (found := scaled(trace, scale))]
        frame = _frame(trace, every, [each for each in tried if each[0] not in names], params, step_ns)
        payloads: dict[str, Payload] = {
            "summary": Figures("summary", "Step", "", METRICS.measured(whatif_step_ns=step_ns))
        }
        return Part(select_rows(trace, *params.chosen).coverage, {}, {VIEW.id: frame}, payloads, (*payloads, VIEW.id))


def _candidates(trace: TraceTable, params: Params) -> list[Scale]:
    """Returns work that may be worth a change: the longest operators and classes, and each kind without a name."""
    calls = operator_calls(trace, select_rows(trace, params.steps))
    groups = group(calls.name)
    names = calls.texts.take(calls.name[groups.first]).to_pylist()
    longest = []
    for time in (groups.sum(calls.device_self_ns), groups.sum(calls.host_self_ns)):
        order = np.argsort(-time, kind="stable")[:TRIED_OPERATORS]
        longest += [names[at] for at in order if time[at] > 0]
    kinds = [Scale("operator", str(name), 0.0) for name in dict.fromkeys(longest)]
    if (trace.kind == EventKind.KERNEL).any():
        kinds += [Scale("class", word, 0.0) for word in kernel_classes_in(trace)]
    return kinds + [Scale(kind, "", 0.0) for kind in UNNAMED]


def _existing(trace: TraceTable, scale: Scale) -> Scaled:
    found = scaled(trace, scale)
    if found is None:
        what = f"{scale.kind.replace('_', ' ')} {scale.name}".strip()
        hint = "Check the name; it may contain *." if scale.name else "Leave out this change."
        raise BadRequest(f"The trace has no {what}.", "scale", hint)
    return found


def _frame(trace: TraceTable, chosen: Sequence[Named], tried: Sequence[Named], params: Params, step_ns: int) -> Frame:
    """Returns the chosen changes in their order, and the tried ones that save most."""
    steps = steps_of(trace, params.steps)
    changes = [*chosen, *tried]
    low, expected, high = (
        savings(trace, steps, [each.of(assume) for _, each in changes], assume) for assume in Assumption
    )
    most = np.array([_most_saved(trace, steps, each.high) for _, each in changes], np.int64)
    count = max(len(steps.label), 1)
    expected = np.minimum(expected, most)
    low, high = np.minimum(low, expected), np.clip(high, expected, most)
    low, expected, high = (np.floor_divide(each, count) for each in (low, expected, high))
    best = np.lexsort((-low, -high))
    best = best[(best >= len(chosen)) & (high[best] > 0)][:MOST_CHANGES]
    order = np.concatenate((np.arange(len(chosen)), best))
    data = pa.table(
        {
            "change": pa.array([changes[at][0] for at in order.tolist()], pa.large_string()),
            "saved_low_ns": pa.array(low[order]),
            "saved_high_ns": pa.array(high[order]),
            "new_step_ns": pa.array(step_ns - expected[order]),
        }
    )
    return Frame(VIEW.id, "Changes", METRICS.columns(*_KEYS, share=("saved_high_ns",)), data, ("change",), "change")


def _most_saved(trace: TraceTable, steps: Steps, change: Change) -> int:
    """Returns the time that the steps take longer than the host alone would need, with the change.

    A device that lags behind at the start could otherwise save more than steps in a row can.
    """
    change = merge_changes([change, Change(waits_of_host(trace))])
    host_ns = (steps.host_end_ns - steps.host_start_ns).sum()
    host_ns -= (change.host_before(steps.host_end_ns) - change.host_before(steps.host_start_ns)).sum()
    return int((steps.end_ns - steps.start_ns).sum() - host_ns)
