"""New step times if work were shorter, longer or gone."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from tb_plugin.analysis.base import Params, Part
from tb_plugin.analysis.operator_calls import operator_calls
from tb_plugin.analysis.phrases import RECORD_AGAIN
from tb_plugin.analysis.selection import select_rows, steps_of
from tb_plugin.analysis.simulate import Assumption, Change, merge_changes, savings
from tb_plugin.analysis.simulate.saving_tables import (
    ALL,
    ALL_TITLE,
    MAX_WAIT_SHARE,
    METRICS,
    Titled,
    chosen_scales,
    saving_answer,
    saving_frame,
)
from tb_plugin.analysis.simulate.scaled import (
    UNNAMED,
    Scale,
    Scaled,
    kernel_classes_in,
    merge_scaled,
    scaled,
    suggestions,
    waits_of_host,
)
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.analysis.work_answers import device_word
from tb_plugin.errors import BadRequest, UnreadableTrace
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import group
from tb_plugin.lib.intervals import intersect, measure
from tb_plugin.model.trace.schema import DEVICE_WORK, EventKind, of_kind
from tb_plugin.model.trace.table import Steps, TraceTable
from tb_plugin.payloads import Figures, Payload
from tb_plugin.views.whatif import TRUNCATED, VIEW

# Operators by device time and by CPU time that are tried.
TRIED_OPERATORS = 5
# Changes that the table lists.
MOST_CHANGES = 10
# The simulation of one rank knows no other rank.
RECORDED_WAITS = "Waits for other ranks stay as recorded."
# Nested calls with at least this share of the outer call are the same work.
MIN_SAME_SHARE = 0.9


class Tried(Titled, frozen=True, eq=False):
    scaled: Scaled


class Simulated(msgspec.Struct, frozen=True, eq=False):
    """Changes and their savings per step, in nanoseconds."""

    changes: Sequence[Tried]
    low: Int64
    expected: Int64
    high: Int64
    most: Int64
    """Step time minus the host's own time."""


class WhatIf(DeclaredView, entry=VIEW):
    selects = "events"
    own = ("scale",)

    def part(self, trace: TraceTable, params: Params) -> Part:
        if not trace.report.complete:
            raise UnreadableTrace(TRUNCATED, "", RECORD_AGAIN)
        chosen = chosen_scales(params)
        steps = steps_of(trace, params.steps)
        step_ns = int((steps.end_ns - steps.start_ns).sum()) // max(len(steps.label), 1)
        every = [Tried(scale.work, scale.title, scale.text, _existing(trace, scale)) for scale in chosen]
        if len(every) > 1:
            every.append(Tried("", ALL_TITLE, ALL, merge_scaled([each.scaled for each in every])))
        names = {each.text for each in every}
        tried = [
            Tried(scale.work, scale.title, scale.text, found)
            for scale in _candidates(trace, params)
            if scale.text not in names and (found := scaled(trace, scale))
        ]
        simulated = _simulated(trace, steps, every, _without_nested(tried))
        waits = simulated.most - simulated.expected > MAX_WAIT_SHARE * (step_ns - simulated.expected)
        has_work = of_kind(trace.kind, *DEVICE_WORK).any()
        limits = [(device_word(trace) if each else "CPU") if has_work else "" for each in waits.tolist()]
        note = RECORDED_WAITS if trace.is_collective.any() else ""
        payloads: dict[str, Payload] = {
            **saving_answer(simulated.changes, simulated.expected, len(every), step_ns, limits, note),
            "summary": Figures("summary", "Step", "", METRICS.measured(whatif_step_ns=step_ns)),
        }
        bounds = {"saved_low_ns": simulated.low, "saved_high_ns": simulated.high}
        frame = saving_frame(VIEW.id, simulated.changes, simulated.expected, step_ns, bounds)
        return Part(select_rows(trace, *params.chosen).coverage, {}, {VIEW.id: frame}, payloads, (*payloads, VIEW.id))


def _candidates(trace: TraceTable, params: Params) -> list[Scale]:
    """Returns work that may be worth a change: the longest operators and classes, and each kind without a name."""
    calls = operator_calls(trace, select_rows(trace, params.steps))
    groups = group(calls.name)
    names = calls.texts.take(calls.name[groups.first]).to_pylist()
    longest = []
    for time in (groups.sum(calls.device_self_ns), groups.sum(calls.host_self_ns)):
        order = np.argsort(-time, kind="stable")[:TRIED_OPERATORS]
        longest += [names[at] for at in order if time[at] > 0 and names[at]]
    kinds = [Scale("operator", str(name), 0.0) for name in dict.fromkeys(longest)]
    if (trace.kind == EventKind.KERNEL).any():
        kinds += [Scale("class", word, 0.0) for word in kernel_classes_in(trace)]
    return kinds + [Scale(kind, "", 0.0) for kind in UNNAMED]


def _without_nested(tried: Sequence[Tried]) -> list[Tried]:
    """Returns the changes without operators whose work is data loading, or that of an operator around them."""
    operators = [each for each in tried if each.text.startswith(("operator:", "data_loading"))]
    operators.sort(key=lambda each: (each.text.startswith("operator:"), -measure(each.scaled.high.host)))
    dropped: set[str] = set()
    for i, outer in enumerate(operators):
        for inner in operators[i + 1 :]:
            if outer.text not in dropped and _same_work(outer.scaled.high, inner.scaled.high):
                dropped.add(inner.text)
    return [each for each in tried if each.text not in dropped]


def _same_work(outer: Change, inner: Change) -> bool:
    if len(outer.row) or len(inner.row):
        return np.array_equal(outer.row, inner.row)
    return measure(intersect(outer.host, inner.host)) >= MIN_SAME_SHARE * measure(outer.host)


def _existing(trace: TraceTable, scale: Scale) -> Scaled:
    found = scaled(trace, scale)
    if found is None:
        what = f"{scale.kind.replace('_', ' ')} {scale.name}".strip()
        similar = suggestions(trace, scale) if scale.name else []
        hint = "Check the name; it may contain *." if scale.name else "Leave out this change."
        title = "Classes of the trace" if scale.kind == "class" else "Similar names"
        raise BadRequest(f"The trace has no {what}.", "scale", f"{title}: {', '.join(similar)}." if similar else hint)
    return found


def _simulated(trace: TraceTable, steps: Steps, chosen: Sequence[Tried], tried: Sequence[Tried]) -> Simulated:
    """Returns the chosen changes in their order, and the tried ones that save most."""
    changes = [*chosen, *tried]
    expected = savings(trace, steps, [each.scaled.expected for each in changes], Assumption.EXPECTED)
    unchanged = _most_saved(trace, steps, Change())
    most = np.array(
        [
            _most_saved(trace, steps, change) if len(change.host) or len(change.scaled) else unchanged
            for change in (each.scaled.high for each in changes)
        ],
        np.int64,
    )
    expected = np.minimum(expected, most)
    best = np.argsort(-expected[len(chosen) :], kind="stable") + len(chosen)
    order = np.concatenate((np.arange(len(chosen)), best[expected[best] > 0][:MOST_CHANGES]))
    changes, expected, most = [changes[at] for at in order.tolist()], expected[order], most[order]
    low = savings(trace, steps, [each.scaled.low for each in changes], Assumption.LOW)
    high = savings(trace, steps, [each.scaled.high for each in changes], Assumption.HIGH)
    bounds = (np.minimum(low, expected), expected, np.maximum(np.minimum(high, most), expected), most)
    return Simulated(changes, *(each // max(len(steps.label), 1) for each in bounds))


def _most_saved(trace: TraceTable, steps: Steps, change: Change) -> int:
    """Returns step time minus the host's own time, over all ``steps``, with the change.

    A device that lags behind at the start could otherwise save more than steps in a row can.
    """
    change = merge_changes([change, Change(waits_of_host(trace))])
    host_ns = (steps.host_end_ns - steps.host_start_ns).sum()
    host_ns -= (change.host_before(steps.host_end_ns) - change.host_before(steps.host_start_ns)).sum()
    return int((steps.end_ns - steps.start_ns).sum() - host_ns)
