"""Time of backward operators and of the matching forward code."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import structs
from msgspec.structs import replace

from tb_plugin.analysis.backward import BackwardOperators, Tie, backward_operators
from tb_plugin.analysis.backward_times import BackwardTimes, backward_times
from tb_plugin.analysis.base import Frame, Number, Params, Part
from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.metrics import CHOSEN, SHARED, SUM, define
from tb_plugin.analysis.module_paths import module_paths
from tb_plugin.analysis.recomputation import METRICS as RECOMPUTATION
from tb_plugin.analysis.recomputation import Recomputed, Sign, called_in, recomputations
from tb_plugin.analysis.selection import Selection, select_rows
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.analysis.work_answers import device_word
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import Groups, group, places_of, shares, sum_by
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit
from tb_plugin.payloads import Column, Figure, Figures, Notice, Notices, Payload, Sort
from tb_plugin.views.backward import VIEW

METRICS = SHARED.adding(
    RECOMPUTATION,
    define("", "code", {"forward_path": ("Module path", "Modules around the forward operator, outer modules first.")}),
    define(
        "",
        "text",
        {
            "recomputed_by": (
                "Detected by",
                "frame: Python checkpoint function. function: checkpoint backward operator. sequence: autograd "
                "numbers in a backward operator.",
            ),
            "tied_by": (
                "Matched by",
                "sequence: autograd number. arrow: recorded arrow. parent: surrounding backward operator. "
                "before: previous backward operator. none: unmatched.",
            ),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "node_device_ns": (
                "Backward device",
                "Device time of launched work, excluding communication and nested backward operators.",
                SUM,
            ),
            "node_communication_ns": ("Communication", "Time of launched communication kernels.", SUM),
            "node_host_ns": ("Backward host", "Host time excluding nested backward operators.", SUM),
            "node_wait_ns": ("Device wait", "Host time in blocking calls."),
            "node_max_ns": ("Longest", "Longest host duration."),
            "forward_host_ns": ("Forward host", "Host time of the matched forward operators."),
            "forward_device_ns": (
                "Forward device",
                "Device time of the matched forward operators, excluding communication.",
            ),
        },
    ),
    define(
        CHOSEN,
        "ratio",
        {
            "node_device_share": ("Device share", "Backward device divided by its sum over rows."),
            "node_host_share": ("Host share", "Backward host divided by its sum over rows."),
            "tied_ratio": ("Matched to forward", "Share of backward operators with a known forward operator."),
        },
    ),
    define(
        CHOSEN,
        "count",
        {
            "untied": ("Unmatched", "Backward operators without a known forward operator."),
            "recomputations": ("Recomputations", "Reruns of forward code in the backward pass."),
        },
    ),
)

_HIDDEN = ("node_device_share", "node_host_share", "node_communication_ns", "node_max_ns", "forward_path", "tied_by")
_TIMES = ("device_ns", "communication_ns", "host_ns", "wait_ns")
KEYS = ("backward_operator", "forward_operator", "forward_path", "forward_line")


class _Chosen(BackwardTimes, frozen=True, eq=False, kw_only=True):
    every: BackwardOperators
    forward: Int32
    path: Int32
    line: Int32

    @property
    def key(self) -> str:
        return "node_device_ns" if self.device_ns.sum() > self.host_ns.sum() else "node_host_ns"


class BackwardPass(DeclaredView, entry=VIEW):
    selects = "events"

    def part(self, trace: TraceTable, params: Params) -> Part:
        selection = select_rows(trace, *params.chosen)
        chosen = _chosen(trace, selection)
        frames = {"backward_operators": _operators(trace, chosen), "backward_lines": _lines(trace, selection, chosen)}
        again, mine = recomputations(trace), selection.rows[recomputations(trace).first]
        facts = _facts(chosen)
        if mine.any():
            frames["recomputed"] = _recomputed(trace, again, mine)
            facts |= {f"recompute.{key}": value for key, value in _again(trace, again, mine).items()}
        payloads: dict[str, Payload] = {"summary": _summary(chosen, facts)}
        if len(chosen.at):
            payloads["answer"] = Notices(
                "answer", "Backward pass", "answer", _answer(trace, frames["backward_operators"], chosen)
            )
        layout = (*payloads, "backward_operators", *(name for name in frames if name == "recomputed"))
        return Part(selection.coverage, facts, frames, payloads, layout)


def _chosen(trace: TraceTable, selection: Selection) -> _Chosen:
    every, times = backward_operators(trace), backward_times(trace, selection)
    forward = every.forward[times.at]
    return _Chosen(
        every=every,
        **structs.asdict(times),
        forward=forward,
        path=module_paths(trace).of[forward],
        line=code_lines(trace).of[forward],
    )


def _operators(trace: TraceTable, chosen: _Chosen) -> Frame:
    every, paths, lines = chosen.every, module_paths(trace), code_lines(trace)
    name, path, line = every.name[chosen.at], chosen.path, chosen.line
    forward = np.append(trace.name, np.int32(MISSING))[chosen.forward]
    groups = group(name, forward, path, line)
    first = groups.first
    # Times come before the forward texts: these are wide and would push the times out of view.
    data = {
        "backward_operator": every.names.take(pa.array(name[first])),
        "calls": pa.array(groups.count()),
        **{key: pa.array(values) for key, values in _times(chosen, groups).items()},
        "forward_operator": trace.strings.take(forward[first]),
        "module": _texts(paths.modules, path[first]),
        "forward_line": _texts(lines.texts, line[first]),
        "forward_path": _texts(paths.texts, path[first]),
        "node_max_ns": pa.array(groups.max(trace.dur_ns[every.row[chosen.at]])),
        "tied_by": _tied_by(every.tie[chosen.at], groups),
    }
    return _frame("backward_operators", "Backward operators", data, chosen, KEYS)


def _times(chosen: _Chosen, groups: Groups) -> dict[str, npt.NDArray[np.number]]:
    data: dict[str, npt.NDArray[np.number]] = {}
    if chosen.device_ns.any():
        device = groups.sum(chosen.device_ns)
        data |= {"node_device_ns": device, "node_device_share": shares(device)}
    host = groups.sum(chosen.host_ns)
    data |= {"node_host_ns": host, "node_host_share": shares(host)}
    rest = {"node_wait_ns": chosen.wait_ns, "node_communication_ns": chosen.communication_ns}
    return data | {key: groups.sum(values) for key, values in rest.items() if values.any()}


def _texts(texts: pa.Array, number: npt.NDArray[np.integer]) -> pa.Array:
    return texts.take(pa.array(number, mask=number == MISSING))


def _tied_by(tie: npt.NDArray[np.uint8], groups: Groups) -> pa.Array:
    seen = np.zeros(len(groups), np.int64)
    for each in Tie:
        seen |= groups.any(tie == each).astype(np.int64) << each
    words = [", ".join(each.name.lower() for each in Tie if ways >> each & 1) for ways in range(1 << len(Tie))]
    return pa.array(words, pa.string()).take(pa.array(seen))


def _frame(name: str, title: str, data: dict[str, pa.Array], chosen: _Chosen, by: tuple[str, ...]) -> Frame:
    unknown = {key for key, values in data.items() if len(values) and values.null_count == len(values)}
    kept = {key: values for key, values in data.items() if key in by or key not in unknown}
    columns: list[Column] = METRICS.columns(*kept, hidden=(*_HIDDEN, *unknown), share=(chosen.key,))
    order = [(chosen.key, "descending"), *((key, "ascending") for key in by)]
    return Frame(name, title, columns, sorted_by(pa.table(kept), order), by, by[0], Sort(chosen.key, True))


def _lines(trace: TraceTable, selection: Selection, chosen: _Chosen) -> Frame:
    lines = code_lines(trace)
    forward = _forward_calls(trace, selection)
    position = places_of(forward, len(trace))
    operators = np.flatnonzero(trace.kind == EventKind.OPERATOR)
    inside = np.full(len(trace) + 1, MISSING, np.int32)
    inside[operators] = inherit(position[operators], places_of(operators, len(trace))[trace.operator[operators]])
    work = selection.of(trace, *DEVICE_WORK)
    work = work[~trace.is_collective[work]]
    device = sum_by(inside[trace.operator[work]], trace.dur_ns[work], len(forward))
    host = np.where(inside[trace.operator[forward]] == MISSING, trace.dur_ns[forward], 0)
    # Lines of the backward calls, followed by those of the forward calls.
    none, also = np.zeros(len(chosen.at), np.int64), np.zeros(len(forward), np.int64)
    line = np.concatenate((chosen.line, lines.of[forward]))
    groups = group(line)

    def backward(values: Int64) -> Int64:
        return np.concatenate((values, also))

    both = replace(chosen, **{key: backward(getattr(chosen, key)) for key in _TIMES})
    launched = {"forward_device_ns": np.concatenate((none, device))} if device.any() else {}
    forward_times = {**launched, "forward_host_ns": np.concatenate((none, host))}
    data = {
        "forward_line": _texts(lines.texts, line[groups.first]),
        "calls": pa.array(groups.sum(backward(none + 1))),
        **{key: pa.array(groups.sum(values)) for key, values in forward_times.items()},
        **{key: pa.array(values) for key, values in _times(both, groups).items()},
    }
    return _frame("backward_lines", "Lines, forward and backward", data, chosen, ("forward_line",))


def _forward_calls(trace: TraceTable, selection: Selection) -> Int64:
    forward = backward_operators(trace).forward
    flags = np.zeros(len(trace) + 1, np.bool_)
    flags[forward] = True
    found: Int64 = np.flatnonzero(flags[:-1] & selection.rows)
    return found


def _facts(chosen: _Chosen) -> dict[str, Number]:
    tie = chosen.every.tie[chosen.at]
    return {
        "backward.calls": len(chosen.at),
        **{f"backward.{key}": int(getattr(chosen, key).sum()) for key in _TIMES},
        **{f"backward.tied_{each.name.lower()}": int((tie == each).sum()) for each in Tie if each},
        "backward.untied": int((tie == Tie.NONE).sum()),
    }


def _again(trace: TraceTable, found: Recomputed, mine: Bool) -> dict[str, int]:
    return {
        "calls": int(mine.sum()),
        "device_ns": int(trace.dur_ns[found.work[mine[found.of]]].sum()),
        "host_ns": int(found.host_ns[mine].sum()),
    }


def _recomputed(trace: TraceTable, found: Recomputed, mine: Bool) -> Frame:
    modules = called_in(trace, found)
    groups = group(modules.of[mine], found.sign[mine])
    kept = mine[found.of]
    device = sum_by(found.of[kept], trace.dur_ns[found.work[kept]], len(found))
    of, sign = modules.of[mine][groups.first], found.sign[mine][groups.first]
    data = {
        "module": _texts(pa.array(modules.texts, pa.string()), of),
        "recomputed_by": pa.array([Sign(each).name.lower() for each in sign.tolist()], pa.string()),
        "recomputations": pa.array(groups.count()),
        **({"recomputed_device_ns": pa.array(groups.sum(device[mine]))} if device.any() else {}),
        "recomputed_host_ns": pa.array(groups.sum(found.host_ns[mine])),
    }
    first = "recomputed_device_ns" if device.any() else "recomputed_host_ns"
    order = [(first, "descending"), ("module", "ascending"), ("recomputed_by", "ascending")]
    columns = METRICS.columns(*data, share=(first,))
    keys = ("module", "recomputed_by")
    return Frame(
        "recomputed", "Computed again", columns, sorted_by(pa.table(data), order), keys, "module", Sort(first, True)
    )


def _summary(chosen: _Chosen, facts: dict[str, Number]) -> Figures:
    count = len(chosen.at)
    untied = int((chosen.every.tie[chosen.at] == Tie.NONE).sum())
    tied = (count - untied) / count if count else None
    figures = [
        *([METRICS.figure("node_device_ns", int(chosen.device_ns.sum()))] if chosen.device_ns.any() else []),
        METRICS.figure("node_host_ns", int(chosen.host_ns.sum())),
        *([METRICS.figure("node_wait_ns", int(chosen.wait_ns.sum()))] if chosen.wait_ns.any() else []),
        *_again_figures(facts),
        METRICS.figure("tied_ratio", tied, "Matched to forward"),
        METRICS.figure("untied", untied),
    ]
    return Figures("summary", "Backward pass", "", figures, "headline")


def _again_figures(facts: dict[str, Number]) -> list[Figure]:
    if not facts.get("recompute.calls"):
        return []
    key = "device_ns" if facts["recompute.device_ns"] else "host_ns"
    return [METRICS.figure(f"recomputed_{key}", facts[f"recompute.{key}"])]


def _answer(trace: TraceTable, frame: Frame, chosen: _Chosen) -> list[Notice]:
    (first,) = frame.data.slice(0, 1).to_pylist()
    share = chosen.key.replace("_ns", "_share")
    device = device_word(trace)
    what = device if chosen.key == "node_device_ns" else "CPU"
    text = f"takes {{{chosen.key}}}, {{{share}}} of the {what} time of the backward pass"
    waits = bool(first.get("node_wait_ns"))
    notices = [
        _notice(
            first,
            text + ("; during {node_wait_ns} of this time, the CPU waits for the " + device + "." if waits else "."),
        )
    ]
    if "node_wait_ns" in frame.data.column_names:
        (most,) = sorted_by(frame.data, [("node_wait_ns", "descending")]).slice(0, 1).to_pylist()
        if 20 * most["node_wait_ns"] >= chosen.host_ns.sum() and any(most[key] != first[key] for key in KEYS):
            notices.append(
                _notice(most, f"waits for the {device} for {{node_wait_ns}} of its {{node_host_ns}} on the CPU.")
            )
    return notices


def _notice(row: dict[str, Number | str], what: str) -> Notice:
    parts = ("{backward_operator}", " of {forward_operator}", " in {module}", " at {forward_line}")
    keys = ("backward_operator", "forward_operator", "module", "forward_line")
    phrases = [(key, part) for key, part in zip(keys, parts, strict=True) if row.get(key) is not None]
    text = "".join(part for _, part in phrases)
    figures = [key for key, _ in phrases] + [key for key in METRICS if f"{{{key}}}" in what]
    return Notice("backward_pass", "info", f"{text} {what}", "", [METRICS.figure(key, row[key]) for key in figures])
