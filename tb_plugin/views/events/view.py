"""Events of a table row, or details of one event.

In one file: both show the same columns of an event.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.annotations import launched_by
from tb_plugin.analysis.backward import forward_operator
from tb_plugin.analysis.base import Frame, Params, Part, bounds_of
from tb_plugin.analysis.code_lines import code_lines, line_of_stack
from tb_plugin.analysis.collective_names import collective_name
from tb_plugin.analysis.demangle import readable_names
from tb_plugin.analysis.device_time import device_word
from tb_plugin.analysis.filters import EVENT, event_of, matching
from tb_plugin.analysis.graphs.attribution import WAYS, operator_names
from tb_plugin.analysis.graphs.origins import Way, origins_of
from tb_plugin.analysis.kernel_classes import classify_kernels, word_of
from tb_plugin.analysis.metrics import CHOSEN, SHARED, define
from tb_plugin.analysis.query import matching_query
from tb_plugin.analysis.range_patterns import module_label
from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.thread_and_stream_names import track_names
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.model.trace.order import overlaps_range
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, ON_DEVICE, EventKind, of_kind
from tb_plugin.model.trace.table import CollectiveArgs, DeviceArgs, OperatorArgs, PythonArgs, TraceTable
from tb_plugin.payloads import Column, Figure, Figures, Line, Metric, Payload, Scalar, Series, Sort
from tb_plugin.views.events import VIEW

ORIGIN = define(
    "",
    "text",
    {
        "known_by": ("Known by", "Source that matches the replayed work with its capture."),
        "input_types": ("Input types", "Element types of the operator's inputs (record_shapes=True)."),
    },
)


class Origin:
    """Captured scopes that enclose the launch of a replayed row."""

    def __init__(self, trace: TraceTable, row: int) -> None:
        self._trace = trace
        self._scopes = origins_of(trace).scopes
        around, at = [], int(origins_of(trace).at(np.array([row]))[0])
        while at != MISSING:
            around.append(at)
            at = int(self._scopes.parent[at])
        self._around = around
        place = int(np.searchsorted(origins_of(trace).work, row))
        self._way = Way(int(origins_of(trace).way[place])) if around else Way.GRAPH

    def __bool__(self) -> bool:
        return bool(self._around)

    def figures(self) -> Figures:
        figures: list[Figure] = []
        operators = self._of(EventKind.OPERATOR)
        if operators:
            figures.append(SHARED.figure("operator", self._name(operators[0])))
            texts = {"shapes": SHARED["input_shape"], "types": ORIGIN["input_types"]}
            ids = {key: int(getattr(self._scopes, key)[operators[0]]) for key in texts}
            figures += [Figure(texts[key], self._trace.strings[i]) for key, i in ids.items() if i != MISSING]
        title, what = WAYS[self._way]
        figures.append(Figure(ORIGIN["known_by"], title.lower(), what))
        return Figures("origin", "Origin", "captured operator", figures)

    def operator(self) -> str:
        """Returns the name of the innermost captured operator, "" if there is none."""
        return next((self._name(at) for at in self._of(EventKind.OPERATOR)), "")

    def modules(self) -> str:
        """Returns the enclosing modules, outermost first, separated by ``;``."""
        found = self._of(EventKind.MODULE)
        forward = [int(self._scopes.forward[at]) for at in self._of(EventKind.OPERATOR)[:1]]
        if not found and forward and forward[0] != MISSING:
            at = forward[0]
            while at != MISSING:
                found += [at] if self._scopes.kind[at] == EventKind.MODULE else []
                at = int(self._scopes.parent[at])
        return ";".join(module_label(self._name(at)) for at in found[::-1])

    def stack(self) -> str:
        """Returns the call stack, innermost frame first: as recorded, else the enclosing Python calls."""
        for at in self._of(EventKind.OPERATOR):
            if self._scopes.stack[at] != MISSING:
                return self._trace.strings[int(self._scopes.stack[at])]
        return ";".join(self._name(at) for at in self._of(EventKind.PYTHON, EventKind.MODULE))

    def _of(self, *kinds: EventKind) -> list[int]:
        return [at for at in self._around if self._scopes.kind[at] in kinds]

    def _name(self, at: int) -> str:
        return self._trace.strings[int(self._scopes.name[at])]


METRICS = SHARED.adding(
    ORIGIN,
    define(
        "",
        "code",
        {
            "module_path": ("Modules", "nn.Module calls around the event, its launch or its forward operator."),
            "code_line": (
                "Python line",
                "Line that was executing, outside the framework. In the backward pass, the line of the forward operator.",
            ),
        },
    ),
    define(CHOSEN, "ns", {"launch_delay_ns": ("Launch to start", "Time from launch call start to device start.")}),
)


_Unit = Literal["text", "code", "ns", "count", "bytes", "number"]
_Section = DeviceArgs | OperatorArgs | PythonArgs | CollectiveArgs
BINS = 40
# Longest first; the distribution covers all.
INSTANCES = 10_000


class Events(DeclaredView, entry=VIEW):
    def part_key(self, params: Params) -> tuple[object, ...]:
        own = ("event", "brief", "start_ns", "end_ns")
        return (*params.chosen, params.search, params.where, *(params.get(key) for key in own))

    def part(self, trace: TraceTable, params: Params) -> Part:
        selection = select_rows(trace, *params.chosen)
        if params.get("event"):
            row = event_of(trace, params.get("event"))
            payloads = _brief(trace, row) if params.get("brief") == "1" else _event_payloads(trace, row)
            return Part(selection.coverage, payloads=payloads, layout=tuple(payloads))
        chosen = matching(trace, selection.rows, params.where, params.pattern)
        rows = np.flatnonzero(chosen & matching_query(trace, params.search) if params.search else chosen)
        if params.get("start_ns") or params.get("end_ns"):
            rows = rows[overlaps_range(trace.start_ns[rows], trace.ends(rows), *bounds_of(trace, params))]
        frame = _instances(trace, rows)
        payloads = {"summary": _summary(trace, rows), "distribution": _distribution(trace, rows)}
        layout = (*payloads, "instances")
        return Part(selection.coverage, {}, {"instances": frame}, payloads, layout, searched=True)


def _instances(trace: TraceTable, rows: Int64) -> Frame:
    longest = rows[np.argsort(-trace.dur_ns[rows], kind="stable")[:INSTANCES]]
    threads = [name.label for name in track_names(trace)]
    data = {
        "name": trace.strings.take(trace.name[longest]),
        "dur_ns": pa.array(trace.dur_ns[longest]),
        "start_ns": pa.array(trace.start_ns[longest]),
        "thread": pa.array([threads[i] for i in trace.track[longest]], pa.string()),
        "operator": trace.strings.take(operator_names(trace, longest)),
        "event": pa.array(longest),
    }
    shown = [*METRICS.columns("name", "dur_ns", "start_ns", "thread", "operator"), Column(EVENT, hidden=True)]
    return Frame("instances", "Instances", shown, pa.table(data), ("event",), "name", Sort("dur_ns", True))


def _summary(trace: TraceTable, rows: Int64) -> Figures:
    dur = trace.dur_ns[rows]
    figures = [METRICS.figure("calls", len(rows)), METRICS.figure("total_ns", int(dur.sum()))]
    if len(rows):
        p50, p99 = np.percentile(dur, (50, 99))
        figures += [
            METRICS.figure("min_ns", int(dur.min())),
            METRICS.figure("p50_ns", float(p50)),
            METRICS.figure("mean_ns", int(dur.sum()) / len(rows)),
            METRICS.figure("p99_ns", float(p99)),
            METRICS.figure("max_ns", int(dur.max())),
        ]
    note = f"the {INSTANCES} longest are listed" if len(rows) > INSTANCES else ""
    return Figures("summary", "Calls", note, figures)


def _distribution(trace: TraceTable, rows: Int64) -> Series:
    dur, on_device = trace.dur_ns[rows], of_kind(trace.kind[rows], *ON_DEVICE)
    side = f"{device_word(trace)} durations" if on_device.all() else "Durations" if on_device.any() else "CPU durations"
    edges = _edges(dur)
    counts = np.histogram(dur, edges)[0] if len(dur) else np.empty(0, np.int64)
    return Series(
        name="distribution",
        title=side if len(rows) else "Durations",
        subtitle=f"{len(dur)} calls",
        x_metric=METRICS.metric("dur_ns"),
        x=[float(edge) for edge in edges],
        lines=[Line(METRICS.metric("calls"), "kernel", [int(c) for c in counts])],
        style="histogram",
    )


def _edges(dur: Int64) -> npt.NDArray[np.float64]:
    if not len(dur):
        return np.empty(0, np.float64)
    low, high = int(dur.min()), int(dur.max())
    if low == high:
        return np.array([low - 0.5, high + 0.5])
    edges = np.geomspace(low, high, BINS + 1) if low > 0 and high > 20 * low else np.linspace(low, high, BINS + 1)
    edges[0], edges[-1] = low, high
    return np.asarray(edges, np.float64)


def _fact(key: str, title: str, unit: _Unit, value: Scalar) -> Figure:
    return Figure(Metric(key, title, unit, "Recorded for this event."), value)


def _brief(trace: TraceTable, row: int) -> dict[str, Payload]:
    """Returns operator, forward operator and Python line of an event, as far as known."""
    origin = Origin(trace, row)
    operator = origin.operator() or _name_of(trace, int(trace.operator[row]))
    facts = {
        "operator": operator,
        "forward_operator": _name_of(trace, forward_operator(trace, row)),
        "code_line": _code_line(trace, row, origin),
    }
    return {
        "brief": Figures("brief", "Origin", "", METRICS.figures({key: text for key, text in facts.items() if text}))
    }


def _name_of(trace: TraceTable, row: int) -> str:
    return trace.strings[int(trace.name[row])] if row != MISSING else ""


def _code_line(trace: TraceTable, row: int, origin: Origin) -> str:
    """Returns the Python line of an event: of its capture, its own, or that of its forward operator."""
    if origin:
        return line_of_stack(trace, origin.stack()) or ""
    lines = code_lines(trace)
    source = int(launched_by(trace, np.array([row]))[0]) if trace.tracks[trace.track[row]].is_device else row
    forward = forward_operator(trace, row)
    # Lines of the backward pass are where backward() is called.
    places = [int(lines.of[forward]), int(lines.of[source])]
    return next((str(lines.texts[at]) for at in places if at != MISSING), "")


def _event_payloads(trace: TraceTable, row: int) -> dict[str, Payload]:
    # The captured operator is more informative than the launch of the graph.
    origin = Origin(trace, row)
    facts = _about(trace, "event", "Event", row)
    # Before the recorded arguments.
    at = next(i for i, figure in enumerate(facts.figures) if figure.metric.key == "thread") + 1
    known = {
        "forward_operator": _name_of(trace, forward_operator(trace, row)),
        "code_line": _code_line(trace, row, origin),
    }
    facts.figures[at:at] = METRICS.figures({key: text for key, text in known.items() if text})
    payloads: dict[str, Payload] = {"event": facts}
    if origin:
        payloads["origin"] = origin.figures()
    for name, (title, other) in _partners(trace, row).items():
        if other != MISSING:
            payloads[name] = _about(trace, name, title, other)
    around = list(_around(trace, row))
    facts_around = filter(None, (_arguments(trace, trace.collectives, one, _COLLECTIVE_ARGS) for one in around))
    if collective := next(facts_around, None) or _collective_word(trace, row):
        payloads["collective"] = Figures("collective", "Collective", "as recorded on this rank", collective)
    if modules := origin.modules() or _modules(trace, around):
        payloads["modules"] = Figures("modules", "Modules", "outermost first", [METRICS.figure("module_path", modules)])
    captured = origin.stack()
    stack = captured or _stack(trace, row)
    if stack:
        how = "innermost first, of the capture" if captured else "innermost first"
        payloads["stack"] = Figures("stack", "Call stack", how, [METRICS.figure("call_stack", stack)])
    same = np.flatnonzero((trace.name == trace.name[row]) & (trace.kind == trace.kind[row]))
    payloads["same_name"] = _summary(trace, same)
    return payloads


def _partners(trace: TraceTable, row: int) -> dict[str, tuple[str, int]]:
    return {
        "launch": ("Launch", int(trace.launch[row])),
        "launched": ("Launched", _launched(trace, row)),
        "operator": ("Operator", int(trace.operator[row])),
        "forward": ("Forward operator", forward_operator(trace, row)),
        "backward": ("Backward operator", _first(trace.forward, row)),
        "python": ("Python frame", _python(trace, row)),
    }


def _launched(trace: TraceTable, row: int) -> int:
    """Returns the first device work launched by this call, or by a direct child of this operator (-1 = none)."""
    found = _first(trace.launch, row)
    work = _work_of(trace, row)
    return found if found != MISSING or not len(work) else int(work[0])


def _work_of(trace: TraceTable, row: int) -> Int64:
    if trace.kind[row] != EventKind.OPERATOR:
        return np.empty(0, np.int64)
    return np.flatnonzero((trace.operator == row) & of_kind(trace.kind, *DEVICE_WORK))


def _first(column: Int32, row: int) -> int:
    found = np.flatnonzero(column == row)
    return int(found[0]) if len(found) else MISSING


def _about(trace: TraceTable, name: str, title: str, row: int) -> Figures:
    kind = EventKind(int(trace.kind[row])).name.lower()
    figures = [
        METRICS.figure("name", trace.strings[int(trace.name[row])]),
        METRICS.figure("kind", kind),
        METRICS.figure("category", trace.strings[int(trace.category[row])]),
        METRICS.figure("start_ns", int(trace.start_ns[row])),
        METRICS.figure("dur_ns", int(trace.dur_ns[row])),
        *(METRICS.figure("recorded_dur_ns", int(ns)) for ns in trace.clipped.recorded_ns[trace.clipped.row == row]),
        METRICS.figure("thread", track_names(trace)[int(trace.track[row])].label),
        Figure(EVENT, row),
    ]
    if trace.launch[row] != MISSING:
        delay = int(trace.start_ns[row] - trace.start_ns[trace.launch[row]])
        note = "before its launch: CPU and device clocks differ" if delay < 0 else ""
        figures.append(METRICS.figure("launch_delay_ns", delay, note=note))
    if len(work := _work_of(trace, row)):
        figures.append(METRICS.figure("device_self_ns", int(trace.dur_ns[work].sum())))
    if trace.correlation[row] > 0:
        figures.append(_fact("correlation", "Correlation", "text", str(int(trace.correlation[row]))))
    if trace.external_id[row] > 0:
        figures.append(_fact("external_id", "External id", "text", str(int(trace.external_id[row]))))
    figures += _class_facts(trace, row)
    figures += _arguments(trace, trace.device_args, row, _DEVICE_ARGS)
    figures += _arguments(trace, trace.operators, row, _OPERATOR_ARGS)
    figures += _arguments(trace, trace.python, row, _PYTHON_ARGS)
    figures += _other_facts(trace, row)
    return Figures(name, title, kind, figures)


def _class_facts(trace: TraceTable, row: int) -> list[Figure]:
    if trace.kind[row] != EventKind.KERNEL:
        return []
    named, names = classify_kernels(trace), trace.name[row : row + 1]
    word = word_of(int(named.of(names)[0]))
    figures = [METRICS.figure("class", word), METRICS.figure("class_by", named.reasons(trace, names)[0])]
    (readable,) = readable_names([trace.strings[int(names[0])]])
    return [*([METRICS.figure("readable", readable)] if readable else []), *figures]


def _place(section_row: Int32, row: int) -> int:
    place = int(np.searchsorted(section_row, row))
    return place if place < len(section_row) and section_row[place] == row else MISSING


class _Argument(NamedTuple):
    column: str
    title: str = ""
    unit: _Unit = "text"
    key: str = ""


_DEVICE_ARGS = tuple(
    _Argument(key)
    for key in ("stream", "grid", "block", "registers", "shared_memory", "bytes", "blocks_per_sm", "occupancy")
)
_OPERATOR_ARGS = (
    _Argument("shapes", "Input shapes", "code"),
    _Argument("types", "Input types", "code"),
    _Argument("strides", "Input strides", "code"),
    _Argument("concrete", "Concrete inputs", "code"),
    _Argument("sequence", "Sequence number", key="autograd_sequence"),
    _Argument("forward_thread", "Forward thread"),
)
_PYTHON_ARGS = (
    _Argument("python_id", "Python id"),
    _Argument("parent_id", "Python parent id", key="python_parent_id"),
    _Argument("module_id", "Python module id", key="python_module_id"),
)
_COLLECTIVE_ARGS = (
    _Argument("name", "Collective", "code", "collective_name"),
    _Argument("dtype"),
    _Argument("group_name", key="group"),
    _Argument("group_description"),
    _Argument("group_ranks"),
    _Argument("in_elements", "Elements in", "count"),
    _Argument("out_elements", "Elements out", "count"),
    *(_Argument(key) for key in ("group_size", "sequence", "source_rank", "destination_rank")),
)
# Columns that contain string ids.
_TEXTS = {"stream", "grid", "block", "dtype", "name", "group_name", "group_description", "group_ranks"}


def _arguments(trace: TraceTable, section: _Section, row: int, arguments: tuple[_Argument, ...]) -> list[Figure]:
    at, figures = _place(section.row, row), []
    for each in arguments if at != MISSING else ():
        number, key = getattr(section, each.column)[at], each.key or each.column
        if np.isnan(number) if number.dtype.kind == "f" else number == MISSING:
            continue
        is_text = each.column in _TEXTS or each.unit == "code"
        value = trace.strings[int(number)] if is_text else number.item()
        if each.title:
            figures.append(_fact(key, each.title, each.unit, str(value) if each.unit == "text" else value))
        else:
            figures.append(METRICS.figure(key, value))
    return figures


def _other_facts(trace: TraceTable, row: int) -> list[Figure]:
    figures = []
    for column in trace.others:
        at = _place(column.row, row)
        if at == MISSING:
            continue
        title = column.title or column.key
        value = column.value[at]
        if column.unit == "ns" and value.dtype.kind == "i":
            figures.append(_fact(f"args.{column.key}", title, "ns", int(value)))
            continue
        title = f"{title} ({column.unit})" if column.unit else title
        if column.is_text:
            figures.append(_fact(f"args.{column.key}", title, "code", trace.strings[int(value)]))
        elif value.dtype.kind == "f":
            figures.append(_fact(f"args.{column.key}", title, "number", float(value)))
        else:  # most integers are identifiers
            figures.append(_fact(f"args.{column.key}", title, "text", str(int(value))))
    return figures


def _collective_word(trace: TraceTable, row: int) -> list[Figure]:
    is_call = trace.is_collective[row] and trace.kind[row] != EventKind.OPERATOR
    known = collective_name(trace.strings[int(trace.name[row])]) if is_call else ""
    return [_fact("collective_name", "Collective", "code", known)] if known else []


def _around(trace: TraceTable, row: int) -> Iterator[int]:
    yield row
    if trace.launch[row] != MISSING:
        yield int(trace.launch[row])
    while (row := int(trace.operator[row])) != MISSING:
        yield row


def _modules(trace: TraceTable, around: list[int]) -> str:
    host = [row for row in around if not trace.tracks[trace.track[row]].is_device]
    forward = next((int(trace.forward[row]) for row in host if trace.forward[row] != MISSING), MISSING)
    modules = np.flatnonzero(trace.kind == EventKind.MODULE)
    for row in (*host[:1], forward):
        if row != MISSING:
            begin = trace.start_ns[row]
            still_open = trace.ends(modules) > begin
            found = modules[(modules < row) & still_open & (trace.track[modules] == trace.track[row])]
            if len(found):
                return ";".join(module_label(trace.strings[int(i)]) for i in trace.name[found])
    return ""


def _python(trace: TraceTable, row: int) -> int:
    """Returns the innermost Python call around the event, around its operator or around its launch (-1 = none)."""
    for start in (row, int(trace.operator[row]), int(trace.launch[row])):
        if start != MISSING and trace.python_parent[start] != MISSING:
            return int(trace.python_parent[start])
    return MISSING


def _stack(trace: TraceTable, row: int) -> str:
    source = int(trace.operator[row]) if trace.operator[row] != MISSING else row
    for candidate in (row, source):
        at = _place(trace.operators.row, candidate)
        if at != MISSING and trace.operators.stack[at] != MISSING:
            return trace.strings[int(trace.operators.stack[at])]
    frames, around = [], _python(trace, row)
    while around != MISSING:
        frames.append(trace.strings[int(trace.name[around])])
        around = int(trace.python_parent[around])
    return ";".join(frames)
