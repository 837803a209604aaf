"""CPU and device time of each annotation."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.annotations import COUNTERS, readable_phases
from tb_plugin.analysis.base import Frame, Params, Part
from tb_plugin.analysis.device_time import device_noun, device_word
from tb_plugin.analysis.forest import NODES_SENT, Forest, preorder, truncate_tree
from tb_plugin.analysis.phase_calls import PhaseCalls, phase_calls, sums_of
from tb_plugin.analysis.selection import chosen_steps, select_rows
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.lib.groupby import Groups, group
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figures, Payload, Scalar, Sort, Tree
from tb_plugin.views.phases import VIEW
from tb_plugin.views.phases.metrics import METRICS
from tb_plugin.views.phases.steps import by_step, phase_bars, steps_table

# Maximum number of phases with bars, most time first.
PHASES_DRAWN = 200


class PhasesAnalysis(DeclaredView, entry=VIEW):
    selects = "events"

    def part(self, trace: TraceTable, params: Params) -> Part:
        selection = select_rows(trace, *params.chosen)
        found = phase_calls(trace, selection, params.pattern)
        keys = _columns(found)
        steps = by_step(trace, found, chosen_steps(trace, params.steps))
        frames = {"phases": _table(trace, found, keys), "phase_steps": steps_table(found, steps)}
        shown = frames["phases"].data["phase"].slice(0, PHASES_DRAWN).to_pylist()
        payloads: dict[str, Payload] = {"names": _names(trace, found, params), "tree": _tree(trace, found, keys)}
        if len(steps.labels) > 1:
            payloads |= {key.removesuffix("_ns"): phase_bars(found, steps, shown, key) for key in steps.times}
        return Part(
            coverage=selection.coverage,
            facts={"phases.calls": len(found.of), "phases.names": frames["phases"].data.num_rows},
            frames=frames,
            payloads=payloads,
            layout=(*payloads, "phases"),
        )


def _names(trace: TraceTable, found: PhaseCalls, params: Params) -> Figures:
    figures: dict[str, Scalar] = {
        "phase_pattern": params.pattern or COUNTERS,
        "phase_names": len(np.unique(trace.name[found.calls.row])),
        "phases": len(np.unique(found.of)),
    }
    if todo := trace.recorder.todo("view.phases"):
        figures["phase_naming"] = todo
    return Figures("names", "Names", "", [METRICS.figure(key, value) for key, value in figures.items()])


def _columns(found: PhaseCalls) -> list[str]:
    keys = ["phase", "calls", "host_total_ns", "phase_step_ratio"]
    if len(found.busy):
        keys += ["phase_device_ns", "phase_device_ratio"]
        keys += ["phase_backward_ns"] if len(found.backward.item) else []
        keys += ["phase_idle_ns"]
    keys += ["phase_communication_ns"] if len(found.talking) or found.collective[found.device.item].any() else []
    keys += ["phase_backward_host_ns"] if len(found.roots.item) else []
    return [*keys, "phase_threads"]


def _table(trace: TraceTable, found: PhaseCalls, keys: list[str]) -> Frame:
    groups = group(found.of)
    data: dict[str, object] = {"phase": _labels(found, groups), **sums_of(found, groups)}
    if not len(found.busy):  # without device work, idle time is meaningless
        del data["phase_idle_ns"], data["phase_device_ratio"]
    readable = _readable(trace, found, groups)
    if any(readable):
        data["readable"] = readable
        keys = [*keys, "readable"]
    texts = ("phase", "readable")
    table = pa.table({key: pa.array(values, pa.string() if key in texts else None) for key, values in data.items()})
    return Frame(
        name="phases",
        title="Phases",
        columns=METRICS.columns(*keys, hidden=(*_hidden(found, groups), "readable"), titles=_titles(trace, found)),
        data=sorted_by(table, [("host_total_ns", "descending"), ("phase", "ascending")]),
        row_key=("phase",),
        name_column="phase",
        sort=Sort("host_total_ns", True),
    )


def _hidden(found: PhaseCalls, groups: Groups) -> tuple[str, ...]:
    on_many_threads = len(group(groups.of, found.calls.track)) > len(groups)
    return (*(() if on_many_threads else ("phase_threads",)), *(("phase_backward_host_ns",) if len(found.busy) else ()))


def _titles(trace: TraceTable, found: PhaseCalls) -> dict[str, str]:
    word = device_word(trace)
    titles = {
        "host_total_ns": "CPU time",
        "phase_device_ns": word,
        "phase_device_ratio": f"Share of {device_noun(trace)} time",
        "phase_backward_ns": f"Backward {device_noun(trace)}",
        "phase_backward_host_ns": "Backward CPU",
    }
    return titles if found.recorded else {**titles, "phase_step_ratio": "Share of trace"}


def _readable(trace: TraceTable, found: PhaseCalls, groups: Groups) -> list[str | None]:
    readable = readable_phases(trace, found.phases)
    return [readable[number] for number in found.of[groups.first].tolist()]


def _labels(found: PhaseCalls, groups: Groups) -> list[str]:
    return [found.phases.labels[number] for number in found.of[groups.first].tolist()]


def _tree(trace: TraceTable, found: PhaseCalls, keys: list[str]) -> Tree:
    above = found.calls.parent
    nodes = group(Forest(above).paths(found.of))
    data = sums_of(found, nodes)
    over = above[nodes.first]
    parent = np.where(over == MISSING, MISSING, nodes.of[over])
    first = nodes.min(found.calls.start)
    order, sent_above = truncate_tree(preorder(parent, -first), parent, NODES_SENT)
    names = _labels(found, nodes)
    readable = [text or name for text, name in zip(_readable(trace, found, nodes), names, strict=True)]
    numbers = {key: data[key].tolist() for key in keys if key != "phase"}
    sent: list[dict[str, Scalar]] = [
        {"phase": names[node], "readable": readable[node], **{key: values[node] for key, values in numbers.items()}}
        for node in order
    ]
    widths: list[str] = [key for key in ("phase_device_ns", "host_total_ns") if key in keys]
    columns = METRICS.columns(
        "readable",
        *keys,
        hidden=(*_hidden(found, nodes), "phase"),
        titles={**_titles(trace, found), "readable": "Phase"},
    )
    return Tree("tree", "Phase tree", columns, sent_above, sent, "readable", widths, len(nodes))
