"""Phases: what every annotation of the training took on the host and on the device, where it stands, and step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analyses.annotations import COUNTERS, Calls, Phases, phases_of
from tb_plugin.analyses.backward import backward_roots, forward_behind, forward_operators
from tb_plugin.analyses.base import OWN_ONLY, Frame, Missing, Params, Part, Scope, Traits, answer_view
from tb_plugin.analyses.communication import communicates
from tb_plugin.analyses.grouping import Forest, Groups, Spans, cut, group, outermost_of, preorder, ratio
from tb_plugin.analyses.metrics import CHOSEN, SHARED, STEP, define
from tb_plugin.analyses.selection import Selection, chosen_steps, launched_by, select_rows
from tb_plugin.payloads import Figures, Line, Metric, Payload, Scalar, Series, Sort, Table, Tree, View
from tb_plugin.trace.intervals import Ranges, covered_before, measure_by, union
from tb_plugin.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.trace.table import TraceTable

METRICS = SHARED.adding(
    define(
        "",
        "code",
        {
            "phase": (
                "Phase",
                "Annotation (record_function, a step, an optimizer, a server's range). Names that differ only in what the "
                "pattern matches are one, with * in its place.",
            ),
            "phase_pattern": ("Pattern", "What names of one phase may differ in, a regular expression (RE2)."),
        },
    ),
    define(
        CHOSEN,
        "count",
        {
            "phase_names": ("Names", "Different names of annotations."),
            "phases": ("Phases", "Names that differ only in what the pattern matches are one."),
            "phase_threads": ("Threads", "Host threads on which it was open: host times of several add up."),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "phase_device_ns": (
                "Device",
                "Time in which work runs on a device that was launched while a call was open, there or on an autograd thread "
                "that works for it. Streams and threads that overlap count once, devices add up.",
            ),
            "phase_backward_ns": (
                "Backward device",
                "The same of work that backward operators launched whose forward operator ran inside, wherever they run.",
            ),
            "phase_backward_host_ns": (
                "Backward host",
                "Host time of the outermost backward operators whose forward operator ran inside.",
            ),
            "phase_communication_ns": (
                "Communication",
                "Of Device the time in which a collective runs; of process groups that work on the host (gloo, MPI, UCC) the "
                "time in which they do so while a call is open.",
            ),
            "phase_idle_ns": (
                "Idle inside",
                "While a call is open on the host, time in which no device does anything.",
            ),
        },
    ),
    define(
        CHOSEN,
        "ratio",
        {
            "phase_step_ratio": (
                "Of the steps",
                "Share of the steps (of the whole trace where none was recorded) in which a call is open on the host.",
            ),
            "phase_device_ratio": ("Of the device time", "Device over the time in which any device works."),
        },
    ),
    define(
        STEP,
        "ns",
        {
            "phase_host_in_step_ns": ("Host in the step", "Time of the step on the host in which a call is open."),
            "phase_device_in_step_ns": ("Device in the step", "Device, of work that was launched in the step."),
        },
    ),
)

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]

NODES_SENT = 20_000
"""A tree larger than this is cut breadth-first; ``Tree.total_nodes`` tells."""
BARS = 60
"""Bars a phase: more steps than these share bars."""
PHASES_DRAWN = 200
"""Phases that have bars, those with most time."""


@dataclass(frozen=True, eq=False)
class _Work:
    """Intervals on devices, and the calls that they lie in: ``call[i]`` and ``item[i]`` are a pair."""

    start: Int64
    end: Int64
    device: Int64
    at: Int64
    """When the work was launched."""
    call: Int64
    item: Int64

    def some(self, items: Bool) -> _Work:
        """Returns the pairs of some of the items."""
        kept = items[self.item]
        return replace(self, call=self.call[kept], item=self.item[kept])

    def union_by(self, key: Int64, count: int) -> Int64:
        """Returns for each key of pairs how long its work runs: overlaps on a device count once, devices add up."""
        both = group(key, self.device[self.item])
        spent = measure_by(both.of, self.start[self.item], self.end[self.item], len(both))
        total = np.zeros(count, np.int64)
        np.add.at(total, key[both.first], spent)
        return total


@dataclass(frozen=True, eq=False)
class PhaseCalls:
    """The chosen annotations, what phase each is of, and everything that lies inside of them."""

    calls: Calls
    of: Int64
    """Number of each call's phase."""
    phases: Phases
    device: _Work
    backward: _Work
    collective: Bool
    """Which work is communication."""
    roots: _Work
    """Outermost backward operators, on the host."""
    talking: Ranges
    """When process groups work on the host."""
    busy: Ranges
    """When any device works."""
    steps: Ranges


class PhasesAnalysis:
    """The phases as a tree and as a table."""

    id = "phases"
    title = "Phases"
    model = TraceTable
    traits = Traits("Time", whole="", tables=("phases", "phase_steps"))
    scope: Scope = "profile"
    borrows = OWN_ONLY

    def missing(self, trace: TraceTable) -> Missing | None:
        """Returns why a trace without annotations has no such view, else None."""
        if (trace.kind == EventKind.ANNOTATION).any():
            return None
        return Missing("The trace holds no annotations.", trace.recorder.todo("view.phases"))

    def part_key(self, params: Params) -> tuple[object, ...]:
        """Returns the chosen steps, the phase and the pattern."""
        return params.chosen

    def part(self, trace: TraceTable, params: Params) -> Part:
        """Returns the tree, the table and the bars. Raises BadRequest for unknown steps and a pattern that is none."""
        selection = select_rows(trace, *params.chosen)
        found = phase_calls(trace, selection, params.pattern)
        keys = _columns(found)
        by_step = _by_step(trace, found, chosen_steps(trace, params.steps))
        frames = {"phases": _table(found, keys), "phase_steps": _steps_table(found, by_step)}
        shown = frames["phases"].data["phase"].slice(0, PHASES_DRAWN).to_pylist()
        payloads: dict[str, Payload] = {"names": _names(trace, found, params), "tree": _tree(found, keys)}
        payloads |= {key.removesuffix("_ns"): _bars(found, by_step, shown, key) for key in by_step.times}
        return Part(
            coverage=selection.coverage,
            facts={"phases.calls": len(found.of), "phases.names": frames["phases"].data.num_rows},
            frames=frames,
            payloads=payloads,
            layout=(*payloads, "phases"),
        )

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        """Returns the page or one of its tables."""
        return answer_view(self, parts[0], params)


def phase_calls(trace: TraceTable, selection: Selection, pattern: str = "") -> PhaseCalls:
    """Returns the chosen annotations with what lies inside of them. Raises BadRequest."""
    phases = phases_of(trace, pattern)
    calls = Calls(trace, selection.of(trace, EventKind.ANNOTATION))
    work = selection.of(trace, *DEVICE_WORK)
    operators = np.flatnonzero(trace.kind == EventKind.OPERATOR)
    forward = forward_operators(trace, operators)
    roots = backward_roots(trace, operators, forward)
    roots = roots[selection.rows[roots]]
    on_host = selection.rows & communicates(trace) & ~of_kind(trace.kind, *DEVICE_WORK)
    every = of_kind(trace.kind, *DEVICE_WORK)
    steps = chosen_steps(trace, selection.steps)
    return PhaseCalls(
        calls=calls,
        of=phases.of[trace.name[calls.row]],
        phases=phases,
        device=_placed(trace, calls, work, launched_by(trace, work)),
        backward=_placed(trace, calls, work, forward_behind(forward, trace.operator[work])),
        collective=trace.is_collective[work],
        roots=_placed(trace, calls, roots, forward[roots]),
        talking=union(trace.start_ns[on_host], trace.end_ns[on_host]),
        busy=union(trace.start_ns[every], trace.end_ns[every]),
        steps=union(trace.steps.host_start_ns[steps], trace.steps.host_end_ns[steps]),
    )


def _placed(trace: TraceTable, calls: Calls, rows: Int64, source: npt.NDArray[np.integer]) -> _Work:
    """Rows, and the calls that were open when their sources (rows, -1 = none) began."""
    known = np.flatnonzero(source != MISSING)
    call, item = calls.around(trace.track[source[known]], trace.start_ns[source[known]])
    at = np.full(len(rows), MISSING, np.int64)
    at[known] = trace.start_ns[source[known]]
    device = trace.device[rows].astype(np.int64)
    return _Work(trace.start_ns[rows], trace.end_ns[rows], device, at, call, known[item])


def _names(trace: TraceTable, found: PhaseCalls, params: Params) -> Figures:
    """How names became phases."""
    figures: dict[str, Scalar] = {
        "phase_pattern": params.pattern or COUNTERS,
        "phase_names": len(np.unique(trace.name[found.calls.row])),
        "phases": len(np.unique(found.of)),
    }
    return Figures("names", "Names", "", [METRICS.figure(key, value) for key, value in figures.items()])


def _columns(found: PhaseCalls) -> list[str]:
    """Columns that say something: device ones with a device, others where there is any."""
    keys = ["phase", "calls", "host_total_ns", "phase_step_ratio"]
    if len(found.busy):
        keys += ["phase_device_ns", "phase_device_ratio"]
        keys += ["phase_backward_ns"] if len(found.backward.item) else []
        keys += ["phase_idle_ns"]
    keys += ["phase_communication_ns"] if len(found.talking) or found.collective[found.device.item].any() else []
    keys += ["phase_backward_host_ns"] if len(found.roots.item) else []
    return [*keys, "phase_threads"]


def _sums(found: PhaseCalls, groups: Groups) -> dict[str, npt.NDArray[np.number]]:
    """The numbers of groups of calls."""
    calls, count = found.calls, len(groups)
    spans = Spans(calls.track, calls.start, calls.end)
    once = outermost_of(groups.of, spans, calls.parent)

    def device(work: _Work) -> Int64:
        return work.union_by(groups.of[work.call], count)

    def within(ranges: Ranges) -> Int64:
        """How much of a set lies in the union of each group's calls: on an axis on which only the set has length."""
        begin, end = covered_before(ranges, calls.start), covered_before(ranges, calls.end)
        return measure_by(groups.of, begin, end, count)

    open_ns = measure_by(groups.of, calls.start, calls.end, count)
    host = groups.sum(np.where(once, calls.end - calls.start, 0))
    steps_ns = np.full(count, int((found.steps.end - found.steps.start).sum()))
    device_ns = device(found.device)
    threads = group(groups.of, calls.track)
    roots = found.roots
    pairs = group(groups.of[roots.call], roots.item)
    backward_host = np.zeros(count, np.int64)
    spent = (roots.end - roots.start)[roots.item]
    np.add.at(backward_host, groups.of[roots.call][pairs.first], spent[pairs.first])
    return {
        "calls": groups.count(),
        "host_total_ns": host,
        "phase_step_ratio": ratio(within(found.steps), steps_ns),
        "phase_device_ns": device_ns,
        "phase_device_ratio": ratio(device_ns, np.full(count, _all_device(found.device))),
        "phase_backward_ns": device(found.backward),
        "phase_backward_host_ns": backward_host,
        "phase_communication_ns": device(found.device.some(found.collective)) + within(found.talking),
        "phase_idle_ns": open_ns - within(found.busy),
        "phase_threads": np.bincount(groups.of[threads.first], minlength=count),
    }


def _all_device(work: _Work) -> int:
    """Time in which chosen work runs, each device for itself."""
    devices = group(work.device)
    return int(measure_by(devices.of, work.start, work.end, len(devices)).sum())


def _table(found: PhaseCalls, keys: list[str]) -> Frame:
    """One row a phase, over all places where it is called."""
    groups = group(found.of)
    data: dict[str, object] = {"phase": _labels(found, groups), **_sums(found, groups)}
    table = pa.table({key: pa.array(values, pa.string() if key == "phase" else None) for key, values in data.items()})
    return Frame(
        name="phases",
        title="Phases",
        columns=METRICS.columns(*keys, hidden=_hidden(found, groups)),
        data=table.sort_by([("host_total_ns", "descending"), ("phase", "ascending")]),
        row_key=("phase",),
        name_column="phase",
        sort=Sort("host_total_ns", True),
    )


def _hidden(found: PhaseCalls, groups: Groups) -> tuple[str, ...]:
    """Threads say something where a phase ran on several, the host's backward pass where there is no device."""
    several = len(group(groups.of, found.calls.track)) > len(groups)
    return (*(() if several else ("phase_threads",)), *(("phase_backward_host_ns",) if len(found.busy) else ()))


def _labels(found: PhaseCalls, groups: Groups) -> list[str]:
    return [found.phases.labels[number] for number in found.of[groups.first].tolist()]


def _tree(found: PhaseCalls, keys: list[str]) -> Tree:
    """Calls at the same place (path of phases) are one node; places in the order of their first calls."""
    above = found.calls.parent
    nodes = group(Forest(above).paths(found.of))
    data = _sums(found, nodes)
    over = above[nodes.first]
    parent = np.where(over == MISSING, MISSING, nodes.of[over])
    first = nodes.min(found.calls.start)
    order, sent_above = cut(preorder(parent, -first), parent, NODES_SENT)
    names = _labels(found, nodes)
    numbers = {key: data[key].tolist() for key in keys if key != "phase"}
    sent: list[dict[str, Scalar]] = [
        {"phase": names[node], **{key: values[node] for key, values in numbers.items()}} for node in order
    ]
    widths: list[str] = [key for key in ("phase_device_ns", "host_total_ns") if key in keys]
    columns = METRICS.columns(*keys, hidden=_hidden(found, nodes))
    return Tree("tree", "Phase tree", columns, sent_above, sent, "phase", widths, len(nodes))


@dataclass(frozen=True, eq=False)
class _ByStep:
    """What each phase took in each step in which it has anything: numbers of phase and step, and the times."""

    labels: list[str]
    """Of the chosen steps."""
    phase: Int64
    step: Int64
    times: dict[str, Int64]


def _by_step(trace: TraceTable, found: PhaseCalls, steps: list[int]) -> _ByStep:
    start, end = trace.steps.host_start_ns[steps], trace.steps.host_end_ns[steps]
    calls, work = found.calls, found.device
    # A call may be open in several steps: one entry for each, cut at its bounds.
    first = np.searchsorted(end, calls.start, side="right")
    count = np.maximum(np.searchsorted(start, calls.end, side="left") - first, 0)
    call = np.repeat(np.arange(len(count)), count)
    step = np.arange(len(call)) - np.repeat(np.cumsum(count) - count, count) + first[call]
    at = work.at[work.item]
    launched = np.searchsorted(start, at, side="right") - 1
    known = (launched >= 0) & (at < np.append(end, MISSING)[launched])
    phase = np.concatenate((found.of[call], found.of[work.call[known]]))
    where = np.concatenate((step, launched[known]))
    cells = group(phase, where)
    opened, worked = cells.of[: len(call)], cells.of[len(call) :]
    begins, ends = np.maximum(calls.start[call], start[step]), np.minimum(calls.end[call], end[step])
    inside = replace(work, call=work.call[known], item=work.item[known])
    times = {"phase_host_in_step_ns": measure_by(opened, begins, ends, len(cells))}
    if len(found.busy):
        times["phase_device_in_step_ns"] = inside.union_by(worked, len(cells))
    return _ByStep([trace.steps.label[i] for i in steps], phase[cells.first], where[cells.first], times)


def _steps_table(found: PhaseCalls, by_step: _ByStep) -> Frame:
    """One row for each phase and step."""
    data = {
        "phase": pa.array(found.phases.labels, pa.string()).take(pa.array(by_step.phase)),
        "step": pa.array(by_step.labels, pa.string()).take(pa.array(by_step.step)),
        **{key: pa.array(values) for key, values in by_step.times.items()},
    }
    return Frame(
        name="phase_steps",
        title="Phases by step",
        columns=METRICS.columns(*data),
        data=pa.table(data).take(np.lexsort((by_step.step, by_step.phase))),
        row_key=("phase", "step"),
        name_column="phase",
    )


def _bars(found: PhaseCalls, by_step: _ByStep, shown: list[str], key: str) -> Series:
    """A line for each shown phase over the steps; with more than ``BARS`` steps a value is the mean of several."""
    labels, width = by_step.labels, max(1, -(-len(by_step.labels) // BARS))
    begins = np.arange(0, len(labels), width)
    place = {label: i for i, label in enumerate(shown)}
    row = np.array([place.get(label, MISSING) for label in found.phases.labels], np.int64)[by_step.phase]
    total = np.zeros((len(shown), len(begins)), np.int64)
    kept = row != MISSING
    np.add.at(total, (row[kept], by_step.step[kept] // width), by_step.times[key][kept])
    mean = total / np.diff(np.append(begins, len(labels)))
    ends = np.append(begins[1:], len(labels)) - 1
    x = [labels[a] if a == b else f"{labels[a]} to {labels[b]}" for a, b in zip(begins, ends, strict=True)]
    metric = METRICS[key]
    lines = [
        Line(Metric(label, label, metric.unit, metric.definition, metric.window), "phase", values)
        for label, values in zip(shown, mean.tolist(), strict=True)
    ]
    return Series(key.removesuffix("_ns"), metric.title, "", METRICS.metric("step"), list(x), lines, "stacked_bars")
