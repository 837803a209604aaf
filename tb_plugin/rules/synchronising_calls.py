"""Host waits that leave the device idle."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.metrics import LINE
from tb_plugin.model.trace.schema import MISSING, CallRole
from tb_plugin.payloads import Link
from tb_plugin.rules._base import COMMON, Bounds, Detection, Limit, Rule, Scene, optional, percent
from tb_plugin.rules._host_waits import OFTEN, WaitReason, waiting_calls

METRICS = COMMON.in_steps(
    ns={"sync_ns": ("Synchronization", "Host time in synchronizing calls, except the profiler's, per step.")},
    number={
        "sync_calls": ("Synchronizing calls", "Synchronizing calls per step."),
        "sync_explicit_calls": (
            "Explicit synchronization",
            "Calls that only synchronize, outside operators, per step.",
        ),
    },
    code={"sync_line": ("Python line", LINE.format("synchronization"))},
    count={"sync_lines": ("Lines", "Python lines with synchronizing calls.")},
)


def _look(s: Scene) -> Detection | None:
    trace, found = s.trace, waiting_calls(s, WaitReason.RESULT)
    if found is None:
        return None
    calls, place = found.row, found.place
    alone = (trace.operator[calls] == MISSING) & ~trace.calls_that(CallRole.WAIT)[calls]
    explicit = place[alone & ~np.isin(calls, trace.launch[found.copies])]
    line, lines = s.lines(calls)
    kinds = [("", len(explicit) < found.count), ("explicit", len(explicit) > 0)]
    notice = s.notice(
        RULE,
        text=f"{s.per_step_words} the host waits {{sync_ns}} for the device, "
        f"{s.times_words(found.count, 'sync_calls')}{_kind(s, len(explicit), found.count)}{_where(line, lines)}.",
        todo=" ".join(s.todo(RULE, kind) for kind, there in kinds if there),
        figures=METRICS.measured(
            sync_ns=s.per_step(found.time_ns),
            sync_calls=s.per_step(found.count),
            **optional(len(explicit), sync_explicit_calls=s.per_step(len(explicit))),
            **optional(line, sync_line=line, sync_lines=lines),
        ),
        evidence=Link("idle", {"where": "cause:Synchronizing calls"}, "Show the wait"),
        why="The host launches nothing while it waits, so the device is idle until the next launch. Lower bound: the waits "
        "disappear. Upper bound: the operators that wait and their copies disappear too.",
        confidence="high",
    )
    return Detection(notice, Bounds(found.least, found.most), s.by_length(calls))


def _kind(s: Scene, explicit: int, every: int) -> str:
    if explicit in (0, every):
        return " in explicit synchronization" if explicit else " to read a value"
    return f" ({s.times_words(explicit, 'sync_explicit_calls')} in explicit synchronization, otherwise to read a value)"


def _where(line: str, lines: int) -> str:
    if not line:
        return ""
    return ", at {sync_line}" if lines == 1 else ", mostly at {sync_line} (one of {sync_lines} lines)"


RULE = Rule(
    __name__,
    title="Synchronizing calls",
    look=_look,
    order=30,
    detects="The CPU waits for the GPU within steps, and the GPU runs out of work.",
    threshold=f"One Python line waits in at least {percent(OFTEN)} of the steps. Rarer waits are ignored.",
    saving="Lower bound: the time of the calls that wait. Upper bound: also the time of the operators around these calls "
    "that do little except wait, and of their copies.",
    notes="""
        The CPU waits in a call that only synchronizes (`explicit`), or for a value (`.item()`, `nonzero()`, boolean
        masks). Several calls of one operator count as one wait. Other rules cover copies to the GPU
        (`pageable_copies`, `repeated_copies`) and the backward pass (`deterministic_sync`). Waits in the data
        loader, the driver and the profiler are excluded.

        If one thread hands operators to another (MegEngine), only waits of the first thread count. Waits for the other
        thread's profiler work are excluded; `profiler_overhead` covers them.
    """,
    cases=("", "explicit"),
    limits=(Limit.CPU,),
)
