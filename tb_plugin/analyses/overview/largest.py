"""The largest costs of the steps: their parts of the time, and the call, kernel or operator that most of each goes to.

What is said first is the largest part in which no kernel computes, for that is what a person can win back; then what the
kernels take. Waits for the profiler itself, which nobody can win back, stand before both and in neither. No rule: it says
what the time went to, not what to do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.annotations import named_ranges, phases_of
from tb_plugin.analyses.busy import device_busy
from tb_plugin.analyses.code_lines import code_lines
from tb_plugin.analyses.grouping import sum_by
from tb_plugin.analyses.in_timeline import at_event
from tb_plugin.analyses.overview.metrics import METRICS
from tb_plugin.analyses.replays.behind import operator_names
from tb_plugin.analyses.selection import EVERYTHING, Chosen
from tb_plugin.analyses.stack_frames import thread_numbers
from tb_plugin.analyses.step_shares import CATEGORIES, StepShares, active_rows, shares
from tb_plugin.analyses.threads import threads_of
from tb_plugin.analyses.unrecorded_work import unrecorded_work
from tb_plugin.analyses.waits import held_by_profiler
from tb_plugin.payloads import Link, Notice
from tb_plugin.trace.intervals import EMPTY, Ranges, intersect, join, measure, measure_within, subtract, union
from tb_plugin.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.trace.table import Steps, TraceTable
from tb_plugin.trace.tree import nest

Int64 = npt.NDArray[np.int64]

_WITH_DEVICE = {
    "kernel": "Kernels take {part_ns} of {whole_ns}",
    "memcpy": "Copies that no kernel hides take {part_ns} of {whole_ns}",
    "memset": "Memory sets that nothing hides take {part_ns} of {whole_ns}",
    "communication": "Communication that nothing hides takes {part_ns} of {whole_ns}",
    "runtime": "For {part_ns} of {whole_ns} the host is in runtime calls while the device does nothing",
    "dataloader": "Waiting for input takes {part_ns} of {whole_ns}",
    "cpu": "For {part_ns} of {whole_ns} only the host works and the device waits",
    "other": "For {part_ns} of {whole_ns} nothing runs on the device and no operator or runtime call on the host",
}
_HOST_ONLY = {
    "cpu": "Operators on the host take {part_ns} of {whole_ns}",
    "other": "For {part_ns} of {whole_ns} no operator runs",
}
WORTH = 0.1
"""Share of the steps below which a part is not spoken of, unless it is the largest of all."""
_TABLES: dict[EventKind, tuple[str, dict[str, str]]] = {
    EventKind.KERNEL: ("kernels", {}),
    EventKind.MEMCPY: ("kernels", {"group": "copies"}),
    EventKind.MEMSET: ("kernels", {"group": "copies"}),
    EventKind.OPERATOR: ("operators", {}),
}
"""View, and what of it, that has rows of a kind in a table."""
_WAITS = ("runtime", "dataloader", "other")
"""Categories of which one event on the timeline says more than a table: what the device waits for."""


@dataclass(frozen=True)
class Cost:
    """One of the categories that a step is made of; nanoseconds over all steps together."""

    category: str
    part_ns: int
    name: int
    """String of the name with the largest share of the part, each moment counted for the innermost row; MISSING: no row."""
    name_ns: int
    caller: int
    """String of the operator that launched or made most of what has that name; MISSING where none is known."""
    line: str | None
    """The line of Python that most of it was launched or made under; None where none is known."""
    row: int
    """The row of that name that covers most of the part; MISSING: none does."""


def largest_costs(trace: TraceTable, steps: Steps, breakdown: StepShares, chosen: Chosen = EVERYTHING) -> list[Cost]:
    """Returns the largest part without kernels and that of the kernels, each if it is worth it; the largest part at least.

    Where no device works, operators on the host stand for the kernels. Of equal ones the first in order of priority; none
    where the steps have no time.
    """
    held = {category: measure(each) for category, each in _held(trace, steps).items()}
    earlier = _earlier_work(trace, steps)
    for category in (*shares(trace), "other"):
        held[category] = held.get(category, 0) + measure(intersect(earlier, _part(trace, category)))
    sums = {category: int(breakdown.parts[category].sum()) - held.get(category, 0) for category in CATEGORIES}
    total = int(breakdown.total.sum())
    computing = "kernel" if of_kind(trace.kind, *DEVICE_WORK).any() else "cpu"
    idle = max((each for each in CATEGORIES if each != computing), key=lambda each: sums[each])
    found = [category for category in (idle, computing) if total and sums[category] >= WORTH * total]
    found = found or [category for category in (max(CATEGORIES, key=lambda each: sums[each]),) if sums[category]]
    return [_cost(trace, steps, category, sums[category], chosen) for category in found]


def _held(trace: TraceTable, steps: Steps) -> dict[str, Ranges]:
    """When the host waits for the profiler in these steps and nothing else counts, by the category that has the time."""
    within = intersect(held_by_profiler(trace), union(steps.start_ns, steps.end_ns))
    return {category: intersect(within, each) for category, each in shares(trace).items()} if len(within) else {}


def _earlier_work(trace: TraceTable, steps: Steps) -> Ranges:
    """When devices run work launched before the recording in these steps, and the profiler holds nothing up."""
    ranges = [unrecorded_work(trace, device) for device in device_busy(trace) if device != MISSING]
    within = intersect(join(*ranges), union(steps.start_ns, steps.end_ns)) if ranges else EMPTY
    return subtract(within, held_by_profiler(trace))


def _part(trace: TraceTable, category: str) -> Ranges:
    """When a category counts; "other" is the rest of the recording."""
    if category != "other":
        return shares(trace)[category]
    rest = Ranges(np.array([trace.coverage.start_ns]), np.array([trace.coverage.end_ns]))
    for covered in shares(trace).values():
        rest = subtract(rest, covered)
    return rest


def _cost(trace: TraceTable, steps: Steps, category: str, part_ns: int, chosen: Chosen) -> Cost:
    within = subtract(union(steps.start_ns, steps.end_ns), _earlier_work(trace, steps))
    within = intersect(within, _part(trace, category))
    if category == "other":
        # An idle thread (a progress bar's, a watchdog) does not hold up the training.
        rows = np.flatnonzero(trace.kind == EventKind.PYTHON)
        idle = [thread.number for thread in threads_of(trace, chosen) if thread.idle]
        rows = rows[~np.isin(thread_numbers(trace, rows), idle)]
    else:
        within = subtract(within, held_by_profiler(trace))
        rows = np.flatnonzero(active_rows(trace, category))
    own = _own_time(trace, rows, within)
    name, name_ns = _most(trace.name[rows], own)
    named = trace.name[rows] == name
    caller, _ = _most(_operators(trace, rows[named]), own[named])
    row = int(rows[named][own[named].argmax()]) if name != MISSING else MISSING
    # Rows that run side by side make no part larger than it is.
    return Cost(category, part_ns, name, min(name_ns, part_ns), caller, _line(trace, rows[named], own[named]), row)


def _line(trace: TraceTable, rows: Int64, time: Int64) -> str | None:
    """The line of Python with most of the time of these rows, or of their launches; Python itself needs none.

    None where the line of most of that time is not known: another line would be blamed for it.
    """
    if of_kind(trace.kind[rows], EventKind.PYTHON).all():
        return None
    lines = code_lines(trace)
    on_device = of_kind(trace.kind[rows], *DEVICE_WORK)
    of = lines.of[np.where(on_device, trace.launch[rows], rows)]
    if 2 * time[of == MISSING].sum() > time.sum():
        return None
    line, _ = _most(of, time)
    text: str | None = lines.texts[line].as_py() if line != MISSING else None
    return text


def _own_time(trace: TraceTable, rows: Int64, within: Ranges) -> Int64:
    """How much of ``within`` each row covers and none of the rows inside it; nanoseconds."""
    covered = measure_within(within, trace.start_ns[rows], trace.ends(rows))
    if of_kind(trace.kind[rows], *DEVICE_WORK).any():
        return covered  # device rows do not nest
    parent = nest(thread_numbers(trace, rows), trace.start_ns[rows], trace.ends(rows)).parent
    own: Int64 = np.maximum(covered - sum_by(parent, covered, len(rows)), 0)
    return own


def _most(names: npt.NDArray[np.integer], time: Int64) -> tuple[int, int]:
    """The name with most time and that time; MISSING where no named row has any. Of equal ones the first string."""
    known = names != MISSING
    if not time[known].any():
        return MISSING, 0
    unique, inverse = np.unique(names[known], return_inverse=True)
    total = sum_by(inverse, time[known], len(unique))
    first = int(total.argmax())
    return int(unique[first]), int(total[first])


def _operators(trace: TraceTable, rows: Int64) -> npt.NDArray[np.integer]:
    """Names of the operators that launched or made the rows."""
    return operator_names(trace, rows)


def cost_notices(trace: TraceTable, steps: Steps, breakdown: StepShares, chosen: Chosen) -> list[Notice]:
    """Returns the sentences that name the largest costs; none where the file ends early or the steps have no time.

    What a file that ends early lacks is unknown (device rows stand last): its largest part says nothing.
    """
    if not trace.report.complete:
        return []
    profiler = measure(_held(trace, steps).get("runtime", EMPTY))
    first = [_of_profiler(trace, profiler, steps, breakdown)] if profiler >= WORTH * breakdown.total.sum() > 0 else []
    earlier = measure(_earlier_work(trace, steps))
    if earlier >= WORTH * breakdown.total.sum() > 0:
        first.append(_mid_flight(trace, earlier, steps, breakdown))
    costs = largest_costs(trace, steps, breakdown, chosen)
    return [*first, *(_sentence(trace, cost, steps.recorded, breakdown) for cost in costs)]


def _of_profiler(trace: TraceTable, time_ns: int, steps: Steps, breakdown: StepShares) -> Notice:
    """Says how long the program waits for the profiler: the part of the runtime's calls that no sentence below counts."""
    own = np.flatnonzero(trace.kind == EventKind.OVERHEAD)
    within = intersect(held_by_profiler(trace), union(steps.start_ns, steps.end_ns))
    own = own[measure_within(within, trace.start_ns[own], trace.ends(own)).argmax()]
    count, total, name = len(breakdown.total), int(breakdown.total.sum()), trace.strings[int(trace.name[own])]
    figures = [
        METRICS.figure("held_ns", time_ns / count),
        METRICS.figure("step_time_mean_ns", total / count),
        METRICS.figure("held_share", time_ns / total),
        METRICS.figure("held_name", name),
    ]
    text = (
        f"For {{held_ns}} of {_whole(steps.recorded)} the program waits for the profiler itself ({{held_name}}): no cost of "
        "the training. Of the parts below it is in Runtime."
    )
    link = Link("timeline", {"search": name, **at_event(trace, int(own))}, "Show evidence")
    return Notice("largest_cost", "info", text, "", figures, measure="held_share", evidence=link)


def _mid_flight(trace: TraceTable, time_ns: int, steps: Steps, breakdown: StepShares) -> Notice:
    """Says how long devices run work that was launched before the recording."""
    count, total = len(breakdown.total), int(breakdown.total.sum())
    figures = [
        METRICS.figure("earlier_work_ns", time_ns / count),
        METRICS.figure("step_time_mean_ns", total / count),
        METRICS.figure("earlier_work_share", time_ns / total),
    ]
    text = f"For {{earlier_work_ns}} of {_whole(steps.recorded)} the device runs work launched before the recording started."
    todo = trace.recorder.todo("recording_began_mid_flight")
    return Notice("largest_cost", "info", text, todo, figures, measure="earlier_work_share")


def _whole(recorded: bool) -> str:
    return "each {step_time_mean_ns} step" if recorded else "the recorded {step_time_mean_ns}"


def _sentence(trace: TraceTable, cost: Cost, recorded: bool, breakdown: StepShares) -> Notice:
    count, total = len(breakdown.total), int(breakdown.total.sum())
    texts = _WITH_DEVICE if of_kind(trace.kind, *DEVICE_WORK).any() else {**_WITH_DEVICE, **_HOST_ONLY}
    text = texts[cost.category].replace("{part_ns}", "{largest_ns}").replace("{whole_ns}", _whole(recorded))
    figures = [
        METRICS.figure("largest_ns", cost.part_ns / count),
        METRICS.figure("step_time_mean_ns", total / count),
        METRICS.figure("largest_share", cost.part_ns / total),
    ]
    if cost.name != MISSING:
        name = trace.strings[cost.name]
        bare = " exposed" if cost.category == "communication" else ""
        text += f", the largest share in {{largest_name}} ({{largest_name_ns}}{bare})"
        figures.append(METRICS.figure("largest_name", name))
        figures.append(METRICS.figure("largest_name_ns", cost.name_ns / count))
    if cost.caller != MISSING:
        on_device = cost.category in ("kernel", "memcpy", "memset", "communication")
        text += f", {'launched' if on_device else 'called'} by {{largest_caller}}"
        figures.append(METRICS.figure("largest_caller", trace.strings[cost.caller]))
    if cost.line is not None:
        text += " at {largest_line}" if cost.caller != MISSING else ", called at {largest_line}"
        figures.append(METRICS.figure("largest_line", cost.line))
    return Notice(
        "largest_cost", "info", f"{text}.", "", figures, measure="largest_share", evidence=_evidence(trace, cost)
    )


def _evidence(trace: TraceTable, cost: Cost) -> Link:
    """Where the rows of the name stand: a range that somebody named is a phase, no operator, nor work of a device."""
    text = "Show evidence"
    if cost.row == MISSING:
        return Link("timeline", {}, text)
    name, kind = trace.strings[cost.name], EventKind(int(trace.kind[cost.row]))
    if cost.category in _WAITS or not (kind in _TABLES or named_ranges(trace)[cost.row]):
        return Link("timeline", {"search": name, **at_event(trace, cost.row)}, text)
    if kind in _TABLES:
        view, params = _TABLES[kind]
        return Link(view, {**params, "search": name}, text)
    phases = phases_of(trace)
    # What the page was limited to, or how its names were made, is not what this speaks of.
    label = phases.labels[phases.of[cost.name]]
    return Link("phases", {"form": "table", "search": label, "phase": "", "pattern": ""}, text)
