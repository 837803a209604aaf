"""Critical path of the selected steps by kind, event, operator and module."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.backward import forward_behind, forward_operators
from tb_plugin.analysis.base import Frame, Params, Part
from tb_plugin.analysis.critical_path.graph import dependencies
from tb_plugin.analysis.critical_path.steps import CriticalTime, critical_time
from tb_plugin.analysis.critical_path.steps import Part as Kind
from tb_plugin.analysis.demangle import readable_names
from tb_plugin.analysis.filters import EVENT
from tb_plugin.analysis.metrics import CHOSEN_STEPS, PER_STEP, SHARED, SUM, define
from tb_plugin.analysis.module_paths import module_paths
from tb_plugin.analysis.phrases import INCOMPLETE, RECORD_AGAIN, plural
from tb_plugin.analysis.selection import chosen_steps, select_rows
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.lib.groupby import Groups, group
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.schema import MISSING, NO_OPERATOR, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Breakdown, Column, Figures, Line, Link, Notice, Notices, Payload, Series, Slice, Sort
from tb_plugin.views.critical_path import VIEW

# Title, meaning and color of each kind of time.
KINDS = {
    Kind.COMPUTE: ("Kernels", "Kernels except communication.", "kernel"),
    Kind.COMMUNICATION: ("Communication", "Collectives, with their waits for other ranks.", "communication"),
    Kind.COPY: ("Copies", "Copies and memsets.", "memcpy"),
    Kind.BETWEEN_KERNELS: ("Between kernels", "From the end of work to the start of queued work.", "memset"),
    Kind.LAUNCH: ("Launch", "Launch calls, and the time until their work starts.", "idle_launch_latency"),
    Kind.DATA_LOADING: ("Data loading", "Calls of the data loader.", "dataloader"),
    Kind.OPERATOR: ("CPU operators", "Self time of operators.", "cpu"),
    Kind.RUNTIME: ("Runtime calls", "Calls of the runtime, without waiting.", "runtime"),
    Kind.PYTHON: ("Other CPU time", "CPU time outside operators and runtime calls.", "python"),
    Kind.UNRECORDED: ("Unrecorded work", "Device work that was launched before the recording.", "unrecorded"),
    Kind.UNCOVERED: ("Not explained", "No recorded work explains this time.", "other"),
}
_KEY = {kind: f"critical_{kind.name.lower()}_ns" for kind in Kind}
METRICS = SHARED.adding(
    define(CHOSEN_STEPS, "ns", {_KEY[kind]: (title, text, SUM) for kind, (title, text, _) in KINDS.items()}),
    define(
        CHOSEN_STEPS,
        "ns",
        {
            "critical_ns": ("On the path", "Time on the critical path.", SUM),
            "critical_device_ns": ("Device", "Device work on the critical path.", SUM),
            "critical_host_ns": ("CPU", "CPU time and launches on the critical path.", SUM),
        },
    ),
    define(CHOSEN_STEPS, "ratio", {"critical_ratio": ("Explained", "Critical path divided by step time.")}),
    define(CHOSEN_STEPS, "count", {"critical_pieces": ("Pieces", "Time ranges on the path.", SUM)}),
    define("", "text", {"critical_kind": ("Kind", "Kind of the time.")}),
    define("", "count", {"critical_inferred": ("Inferred", "Dependencies between streams, inferred from times.")}),
)
# Words for each kind in the answer.
PHRASES = {
    Kind.COMPUTE: "in kernels",
    Kind.COMMUNICATION: "in communication",
    Kind.COPY: "in copies",
    Kind.BETWEEN_KERNELS: "between kernels",
    Kind.LAUNCH: "in launches",
    Kind.DATA_LOADING: "in data loading",
    Kind.OPERATOR: "in operators on the CPU",
    Kind.RUNTIME: "in runtime calls",
    Kind.PYTHON: "in other CPU work",
    Kind.UNRECORDED: "in unrecorded work",
}
NO_EVENT, NO_MODULE = "(no event)", "(no module)"
# Kinds of time without recorded events.
NO_EVENTS = (Kind.UNRECORDED, Kind.UNCOVERED)
_ON_DEVICE = (Kind.COMPUTE, Kind.COMMUNICATION, Kind.COPY, Kind.BETWEEN_KERNELS)
# Kinds with a larger share are named in the answer.
NAMED_SHARE = 0.1


class CriticalPath(DeclaredView, entry=VIEW):
    selects = "steps"

    def part(self, trace: TraceTable, params: Params) -> Part:
        at = chosen_steps(trace, params.steps)
        every = critical_time(trace)
        path = every.take(np.isin(every.step, at))
        step_ns = int(path.ns.sum())
        by_kind = {kind: int(path.ns[path.part == kind].sum()) for kind in Kind}
        events = path.take(~np.isin(path.part, NO_EVENTS))
        frames = {
            frame.name: frame for frame in (_events(trace, events), _operators(trace, events), _modules(trace, events))
        }
        shown = sorted(
            (kind for kind in Kind if by_kind[kind]), key=lambda kind: (kind == Kind.UNCOVERED, -by_kind[kind])
        )
        ratio = 1 - by_kind[Kind.UNCOVERED] / step_ns if step_ns else None
        figures = [
            METRICS.figure("critical_ns", step_ns - by_kind[Kind.UNCOVERED]),
            METRICS.figure("critical_ratio", ratio),
            *(METRICS.figure(_KEY[kind], by_kind[kind]) for kind in shown[:2]),
        ]
        payloads: dict[str, Payload] = {
            "summary": Figures("summary", "Critical path", "", figures, "headline"),
            "answer": Notices("answer", "Critical path", "answer", _answers(trace, by_kind)),
            **({"steps": _steps(trace, path, at, shown)} if len(at) > 1 else {}),
            "critical_by_kind": _by_kind(by_kind, shown),
        }
        return Part(select_rows(trace, params.steps).coverage, {}, frames, payloads, (*payloads, "critical_events"))


def _answers(trace: TraceTable, by_kind: dict[Kind, int]) -> list[Notice]:
    found = [_answer(trace, by_kind)]
    if not trace.report.complete:
        found.append(Notice("incomplete_file", "medium", INCOMPLETE, RECORD_AGAIN, []))
    return found


def _answer(trace: TraceTable, by_kind: dict[Kind, int]) -> Notice:
    total = sum(by_kind.values())
    on_path = [kind for kind in Kind if kind != Kind.UNCOVERED and by_kind[kind] > NAMED_SHARE * total]
    parts = sorted(on_path, key=lambda kind: -by_kind[kind])
    words = [f"{{{_KEY[kind]}}} {PHRASES[kind]}" for kind in parts]
    inferred = dependencies(trace).inferred
    listed = " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
    text = f"The critical path contains {listed}{PER_STEP}." if parts else "The critical path is empty."
    text += " It explains {critical_ratio} of the step time"
    if inferred:
        waits = f"{plural(inferred, 'wait', 'waits')} between streams {plural(inferred, 'is', 'are')}"
        text += f"; {{critical_inferred}} {waits} inferred from times"
    ratio = 1 - by_kind[Kind.UNCOVERED] / total if total else None
    figures = [
        *(METRICS.figure(_KEY[kind], by_kind[kind]) for kind in parts),
        METRICS.figure("critical_ratio", ratio),
        METRICS.figure("critical_inferred", inferred),
    ]
    return Notice("critical_path", "info", f"{text}.", "", figures)


def _by_kind(by_kind: dict[Kind, int], shown: list[Kind]) -> Breakdown:
    slices = [
        Slice(
            METRICS[_KEY[kind]],
            KINDS[kind][2],
            by_kind[kind],
            None if kind in NO_EVENTS else Link(VIEW.id, {"where": f"critical_kind:{KINDS[kind][0]}"}, KINDS[kind][0]),
        )
        for kind in shown
    ]
    return Breakdown("critical_by_kind", "Step time by kind", "", "ns", sum(by_kind.values()), slices, "table")


def _steps(trace: TraceTable, path: CriticalTime, at: list[int], shown: list[Kind]) -> Series:
    lines = []
    for kind in shown:
        mine = path.part == kind
        total = np.zeros(len(trace.steps.label), np.int64)
        np.add.at(total, path.step[mine], path.ns[mine])
        lines.append(Line(METRICS[_KEY[kind]], KINDS[kind][2], total[at].tolist()))
    labels = [trace.steps.label[i] for i in at]
    return Series(
        "steps", "Critical path of the steps", "", METRICS.metric("step"), list(labels), lines, "stacked_bars"
    )


def _events(trace: TraceTable, path: CriticalTime) -> Frame:
    name = np.append(trace.name, MISSING)[path.row]
    groups = group(path.part, name)
    order = np.lexsort((path.start_ns, -path.ns, groups.of))
    longest = order[np.append(True, np.diff(groups.of[order]) > 0)[: len(order)]]
    row = path.row[longest]
    is_event = row != MISSING
    texts = trace.strings.take(name[groups.first]).to_pylist()
    titles = [KINDS[Kind(part)][0] for part in path.part[groups.first].tolist()]
    data = {
        "name": pa.array([text or NO_EVENT for text in texts], pa.large_string()),
        "critical_kind": pa.array(titles, pa.string()),
        **_times(path, groups, split=False),
        "event": pa.array(row, mask=~is_event),
        "start_ns": pa.array(np.where(is_event, np.append(trace.start_ns, 0)[row], path.start_ns[longest])),
        "dur_ns": pa.array(np.where(is_event, np.append(trace.dur_ns, 0)[row], path.ns[longest])),
        "readable": pa.array(readable_names(texts), pa.large_string()),
    }
    columns = [
        *METRICS.columns("name", "critical_kind", "critical_ns", "critical_pieces", share=("critical_ns",)),
        Column(EVENT, hidden=True),
        *METRICS.columns("start_ns", "dur_ns", "readable", hidden=("start_ns", "dur_ns", "readable")),
    ]
    return _frame("critical_events", "Events on the path", columns, data, ("name", "critical_kind"), "name")


def _operators(trace: TraceTable, path: CriticalTime) -> Frame:
    name = np.append(trace.name, MISSING)[_operator(trace, path.row)]
    groups = group(name)
    texts = [text or NO_OPERATOR for text in trace.strings.take(name[groups.first]).to_pylist()]
    data = {"name": pa.array(texts, pa.large_string()), **_times(path, groups, split=True)}
    columns = METRICS.columns(*data, share=("critical_ns",), titles={"name": "Operator"})
    return _frame("critical_operators", "Operators on the path", columns, data, ("name",), "name")


def _modules(trace: TraceTable, path: CriticalTime) -> Frame:
    paths, operator = module_paths(trace), _operator(trace, path.row)
    operators = np.flatnonzero(trace.kind == EventKind.OPERATOR)
    forward = forward_behind(forward_operators(trace, operators), operator)
    launch = np.append(trace.launch, MISSING)[path.row]
    caller = np.where(launch != MISSING, launch, path.row)
    source = np.select([forward != MISSING, operator != MISSING], [forward, operator], caller)
    module = np.where(source == MISSING, MISSING, paths.of[source])
    groups = group(module)
    texts = [*paths.texts.to_pylist(), NO_MODULE]  # the last one is for -1
    data = {
        "module": pa.array([texts[at] for at in module[groups.first].tolist()], pa.large_string()),
        **_times(path, groups, split=True),
    }
    columns = METRICS.columns(*data, share=("critical_ns",))
    return _frame("critical_modules", "Modules on the path", columns, data, ("module",), "module")


def _operator(trace: TraceTable, row: Int64) -> Int32:
    """Returns the operator of each event; for an operator, itself; -1 = none."""
    is_operator = np.append(trace.kind == EventKind.OPERATOR, False)[row]
    return np.where(is_operator, row, np.append(trace.operator, MISSING)[row]).astype(np.int32)


def _times(path: CriticalTime, groups: Groups, split: bool) -> dict[str, pa.Array]:
    found: dict[str, pa.Array] = {"critical_ns": pa.array(groups.sum(path.ns))}
    if split:
        device = np.where(np.isin(path.part, _ON_DEVICE), path.ns, 0)
        found["critical_device_ns"] = pa.array(groups.sum(device))
        found["critical_host_ns"] = pa.array(groups.sum(path.ns - device))
    return found | {"critical_pieces": pa.array(groups.count())}


def _frame(
    name: str, title: str, columns: list[Column], data: dict[str, pa.Array], key: tuple[str, ...], name_column: str
) -> Frame:
    order = [("critical_ns", "descending"), *((each, "ascending") for each in key)]
    return Frame(name, title, columns, sorted_by(pa.table(data), order), key, name_column, Sort("critical_ns", True))
