"""Steps of a trace, from the best available source.

Sources in order of preference: profiler steps, server annotations, repetition, and the whole trace as one step.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from tb_plugin.lib.arrays import Int32
from tb_plugin.model.trace.order import far_from
from tb_plugin.model.trace.rows import Rows
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.model.trace.steps.annotations import (
    Marks,
    inside,
    iterations,
    marking,
    match_annotations,
    steps_of_marks,
)
from tb_plugin.model.trace.steps.repetition import inferred_steps
from tb_plugin.model.trace.steps.windows import STATED, STEP_NAME, DeviceWork, find_steps, single_step
from tb_plugin.model.trace.table import RawTrace, Steps
from tb_plugin.model.trace.window import steps_of


def steps_in(raw: RawTrace, rows: Rows, launch: Int32, origin: int) -> Steps:
    """Returns the steps by time. ``launch``: row that launched each device row. ``origin``: file time of time 0."""
    if raw.window is not None:
        return steps_of(raw.window)
    if raw.reported_steps is not None:
        label, start, end = (
            raw.reported_steps.label,
            raw.reported_steps.start_ns - origin,
            raw.reported_steps.end_ns - origin,
        )
        near = np.flatnonzero(
            ~(far_from(raw.reported_steps.start_ns, origin) | far_from(raw.reported_steps.end_ns, origin))
        )
        if len(near):
            label, start, end = tuple(label[at] for at in near.tolist()), start[near], end[near]
            return Steps(label, start, end, start, end, recorded=True, source=STATED)
    work = rows.of(*DEVICE_WORK)
    has_launch = launch[work] != MISSING
    device_work = DeviceWork(
        rows.start[work],
        rows.end[work],
        np.where(has_launch, rows.start[launch[work]], MISSING) if len(work) else np.empty(0, np.int64),
        np.where(has_launch, rows.end[launch[work]], MISSING) if len(work) else np.empty(0, np.int64),
        rows.correlation[work],
        rows.track[work],
    )
    is_step = raw.strings.where(lambda text: STEP_NAME.match(text) is not None)[rows.name]
    steps = np.flatnonzero(is_step & of_kind(rows.kind, EventKind.ANNOTATION, EventKind.OPERATOR))
    marks = _marks(raw, rows)
    if len(steps):
        # Several threads may annotate the same steps: use the thread with most annotations.
        steps = steps[rows.track[steps] == np.bincount(rows.track[steps]).argmax()]
        labels = [_label(raw.strings[int(name)]) for name in rows.name[steps]]
        start, end = rows.start[steps], rows.end[steps]
        served = None if marks is None else inside(marks, start, end)
        return find_steps(labels, start, end, device_work, served=served, is_truncated=not raw.report.complete)
    if marks is not None:
        return steps_of_marks(marks, device_work, raw.recorder.steps)
    inferred = inferred_steps(rows, raw.calls, launch, device_work, raw.strings, raw.recorder)
    if inferred.recorded:
        return inferred
    # Without operators, runtime calls and device work, the step covers all events.
    has_calls = of_kind(rows.kind, EventKind.RUNTIME, *DEVICE_WORK).any()
    annotated = ((EventKind.ANNOTATION, EventKind.RUNTIME),) if has_calls else ()
    for chosen in ((EventKind.OPERATOR,), *annotated, DEVICE_WORK, tuple(EventKind)):
        members = rows.of(*chosen)
        if len(members):
            whole = single_step(int(rows.start[members].min()), int(rows.end[members].max()), device_work)
            return replace(whole, unanswered=inferred.unanswered)
    return Steps()


def _marks(raw: RawTrace, rows: Rows) -> Marks | None:
    patterns = raw.recorder.steps
    known = np.append(marking(raw.strings.array, patterns), False)
    if not known.any():
        return None
    at = np.flatnonzero(known[rows.name] & of_kind(rows.kind, EventKind.ANNOTATION, EventKind.OPERATOR))
    if not len(at):
        return None
    names, which = np.unique(rows.name[at], return_inverse=True)
    first, served = match_annotations(raw.strings.take(names), patterns)
    return iterations(
        Marks(rows.track[at].astype(np.int64), rows.start[at], rows.end[at], first[which], served.take(which))
    )


def _label(name: str) -> str:
    match = STEP_NAME.match(name)
    return match.group(1) if match else name
