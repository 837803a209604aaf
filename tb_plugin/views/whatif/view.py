"""New step times if work were shorter, longer or gone."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
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
    suggestions,
    waits_of_host,
)
from tb_plugin.analysis.simulate.streams import Assumption
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.analysis.work_answers import answer, device_word
from tb_plugin.errors import BadRequest
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import group
from tb_plugin.lib.intervals import intersect, measure
from tb_plugin.model.trace.schema import DEVICE_WORK, EventKind, of_kind
from tb_plugin.model.trace.table import Steps, TraceTable
from tb_plugin.payloads import Figures, Payload, Scalar
from tb_plugin.views.whatif import VIEW

METRICS = SHARED.adding(
    define(
        CHOSEN,
        "ns",
        {
            "whatif_step_ns": ("Step time", "Mean step duration."),
            "saved_ns": ("Saved", "Simulated saving per step."),
            "saved_low_ns": ("Low", "Lower bound; negative: longer steps."),
            "saved_high_ns": ("High", "Upper bound."),
            "new_step_ns": ("New step time", "Step time minus saving."),
        },
    ),
    define("", "count", {"whatif_changes": ("Changes", "Chosen changes.")}),
    define(CHOSEN, "ratio", {"saved_share": ("Saved share", "Saving divided by step time.")}),
    define("", "code", {"change_title": ("If", "Change."), "change": ("Command", "Argument of `--scale`.")}),
)
_KEYS = ("change_title", "saved_ns", "saved_share", "new_step_ns", "saved_low_ns", "saved_high_ns", "change")
# Operators by device time and by CPU time that are tried.
TRIED_OPERATORS = 5
# Changes that the table lists.
MOST_CHANGES = 10
MAX_CHOSEN = 20
ALL = "all together"
# Nested calls with at least this share of the outer call are the same work.
MIN_SAME_SHARE = 0.9
# If the host waits for less than this share of the new step, the host limits the step.
MAX_WAIT_SHARE = 0.05


class Tried(msgspec.Struct, frozen=True, eq=False):
    """A change with the name of its work, its title, and its argument on the command line."""

    work: str
    title: str
    text: str
    scaled: Scaled


class Simulated(msgspec.Struct, frozen=True, eq=False):
    """Changes and their savings per step, in nanoseconds."""

    changes: Sequence[Tried]
    low: Int64
    expected: Int64
    high: Int64
    most: Int64
    """Time per step in which the host waits for devices, without the waits that a change removes."""


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
        every = [Tried(scale.work, scale.title, scale.text, _existing(trace, scale)) for scale in chosen]
        if len(every) > 1:
            every.append(Tried("", "All changes together", ALL, merge_scaled([each.scaled for each in every])))
        names = {each.text for each in every}
        tried = [
            Tried(scale.work, scale.title, scale.text, found)
            for scale in _candidates(trace, params)
            if scale.text not in names and (found := scaled(trace, scale))
        ]
        simulated = _simulated(trace, steps, every, _without_nested(tried))
        payloads: dict[str, Payload] = {
            **_answer(trace, simulated, len(every), step_ns),
            "summary": Figures("summary", "Step", "", METRICS.measured(whatif_step_ns=step_ns)),
        }
        frame = _frame(simulated, step_ns)
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


def _without_nested(tried: Sequence[Tried]) -> list[Tried]:
    """Returns the changes without operators whose work is that of an operator around them."""
    operators = [each for each in tried if each.text.startswith("operator:")]
    operators.sort(key=lambda each: -measure(each.scaled.high.host))
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
        raise BadRequest(
            f"The trace has no {what}.", "scale", f"Similar names: {', '.join(similar)}." if similar else hint
        )
    return found


def _simulated(trace: TraceTable, steps: Steps, chosen: Sequence[Tried], tried: Sequence[Tried]) -> Simulated:
    """Returns the chosen changes in their order, and the tried ones that save most."""
    changes = [*chosen, *tried]
    expected = savings(trace, steps, [each.scaled.expected for each in changes], Assumption.EXPECTED)
    most = np.array([_most_saved(trace, steps, each.scaled.high) for each in changes], np.int64)
    expected = np.minimum(expected, most)
    best = np.argsort(-expected[len(chosen) :], kind="stable") + len(chosen)
    order = np.concatenate((np.arange(len(chosen)), best[expected[best] > 0][:MOST_CHANGES]))
    changes, expected, most = [changes[at] for at in order.tolist()], expected[order], most[order]
    low = savings(trace, steps, [each.scaled.low for each in changes], Assumption.LOW)
    high = savings(trace, steps, [each.scaled.high for each in changes], Assumption.HIGH)
    bounds = (np.minimum(low, expected), expected, np.maximum(np.minimum(high, most), expected), most)
    return Simulated(changes, *(each // max(len(steps.label), 1) for each in bounds))


def _frame(found: Simulated, step_ns: int) -> Frame:
    data = pa.table(
        {
            "change_title": pa.array([each.title for each in found.changes], pa.large_string()),
            "saved_ns": pa.array(found.expected),
            "saved_share": pa.array(found.expected / max(step_ns, 1)),
            "new_step_ns": pa.array(step_ns - found.expected),
            "saved_low_ns": pa.array(found.low),
            "saved_high_ns": pa.array(found.high),
            "change": pa.array([each.text for each in found.changes], pa.large_string()),
        }
    )
    return Frame(VIEW.id, "Changes", METRICS.columns(*_KEYS), data, ("change",), "change_title")


def _answer(trace: TraceTable, found: Simulated, chosen: int, step_ns: int) -> dict[str, Payload]:
    """Returns a sentence about all chosen changes, or about the change that saves most; empty without a change."""
    at = chosen - 1 if chosen else 0
    if at >= len(found.changes):
        return {}
    saved = int(found.expected[at])
    text = (
        "With {whatif_changes} changes, a step takes {new_step_ns} instead of {whatif_step_ns}."
        if chosen > 1
        else "With this change, a step takes {new_step_ns} instead of {whatif_step_ns}."
        if chosen
        else "Removing {change_title} saves most: {saved_ns} per step ({saved_share})."
    )
    if of_kind(trace.kind, *DEVICE_WORK).any():
        waits = int(found.most[at]) - saved > MAX_WAIT_SHARE * (step_ns - saved)
        text += f" Then the {device_word(trace) if waits else 'CPU'} limits the step."
    values: dict[str, Scalar] = {
        "change_title": found.changes[at].work,
        "saved_ns": saved,
        "saved_share": saved / max(step_ns, 1),
        "new_step_ns": step_ns - saved,
        "whatif_step_ns": step_ns,
        "whatif_changes": max(chosen - 1, 1),
    }
    named = {key: value for key, value in values.items() if f"{{{key}}}" in text}
    return {"answer": answer("whatif_answer", text, METRICS.figures(named))}


def _most_saved(trace: TraceTable, steps: Steps, change: Change) -> int:
    """Returns the time that the steps take longer than the host alone would need, with the change.

    A device that lags behind at the start could otherwise save more than steps in a row can.
    """
    change = merge_changes([change, Change(waits_of_host(trace))])
    host_ns = (steps.host_end_ns - steps.host_start_ns).sum()
    host_ns -= (change.host_before(steps.host_end_ns) - change.host_before(steps.host_start_ns)).sum()
    return int((steps.end_ns - steps.start_ns).sum() - host_ns)
