"""CPU and device time of each nn.Module."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from tb_plugin.analysis.base import Frame, Params, Part
from tb_plugin.analysis.compiled.graph_breaks import number_of
from tb_plugin.analysis.forest import NODES_SENT, Forest, preorder, truncate_tree
from tb_plugin.analysis.graphs.attribution import attribution_shares
from tb_plugin.analysis.host_calls import HostCalls, UnmatchedBackward, called_modules, host_calls, sums_of
from tb_plugin.analysis.range_patterns import module_label
from tb_plugin.analysis.selection import Selection, select_rows
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.analysis.work.operator_work import OperatorWork, work_with_replays
from tb_plugin.analysis.work.rates import COLUMNS as RATE_COLUMNS
from tb_plugin.analysis.work.rates import HIDDEN as HIDDEN_RATES
from tb_plugin.analysis.work.rates import concatenated_work, rates, without_empty
from tb_plugin.analysis.work_answers import METRICS as ANSWER_METRICS
from tb_plugin.analysis.work_answers import answer, device_word
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import group
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figure, Notice, Notices, Payload, Scalar, Sort, Tree
from tb_plugin.sql.statements import with_sql
from tb_plugin.views.modules import VIEW
from tb_plugin.views.modules.compiled import Compiled, compiled_in, compiled_summary, regions_frame
from tb_plugin.views.modules.layers import Layers, class_of, layers_of
from tb_plugin.views.modules.metrics import METRICS
from tb_plugin.views.modules.module_work import called_work
from tb_plugin.views.modules.region_nodes import region_nodes

# Suffix of a call that repeats a forward call in the backward pass.
RECOMPUTED = " (recomputed)"
# Prefix of a region number in the name of a compiled node.
COMPILED = "compiled region "
# Layers that take less are not named first.
_NOTABLE = 0.2
_TEXTS = ("module", "compiled_code", "regions", "bound")
TIMES = (
    "device_total_ns",
    "device_self_ns",
    "backward_device_total_ns",
    "backward_device_self_ns",
    "host_total_ns",
    "host_self_ns",
    "backward_host_total_ns",
)


class Modules(DeclaredView, entry=VIEW):
    selects = "events"

    def part(self, trace: TraceTable, params: Params) -> Part:
        selection = select_rows(trace, *params.chosen)
        rows = selection.of(trace, EventKind.MODULE)
        calls = host_calls(trace, selection, called_modules(trace, rows))
        compiled = compiled_in(trace, selection, calls)
        work = work_with_replays(trace, *selection.chosen)
        keys = [*_columns(calls), *(("compiled_code", "regions") if compiled else ())]
        frames = {"modules": _totals(trace, calls, compiled, keys, work)}
        payloads: dict[str, Payload] = {}
        if len(calls.row):
            tree = _tree(trace, selection, calls, compiled, keys, work)
            payloads |= {"answer": first} if (first := _answer(trace, tree)) else {}
            payloads["tree"] = tree
            if calls.unmatched.operators:
                notices = [_apart_notice(calls.unmatched)]
                payloads["data_quality"] = Notices("data_quality", "About these numbers", "data", notices)
            if shares := attribution_shares(trace, selection.of(trace, *DEVICE_WORK), EventKind.MODULE):
                payloads["replayed"] = shares
        if len(compiled.calls.row):
            frames["compiled"] = regions_frame(trace, calls, compiled)
        frames = with_sql(frames, params)
        return Part(
            coverage=selection.coverage,
            facts={
                "modules.calls": int((~calls.is_replayed).sum()),
                "modules.names": frames["modules"].data.num_rows,
                "modules.backward_apart": calls.unmatched.operators,
                "modules.backward_apart_untied": calls.unmatched.untied,
                "modules.backward_apart_ns": calls.unmatched.host_ns,
            },
            frames=frames,
            payloads=payloads,
            layout=(*payloads, *(name for name in frames if name != "modules" or payloads)),
        )


def _columns(calls: HostCalls) -> list[str]:
    backward = bool(calls.backward_host.any() or calls.backward_device.any())
    keys = ["module", "calls", *(["replayed_calls"] if len(calls.enclosed) else [])]
    if calls.device.any() or calls.backward_device.any():
        keys += ["device_total_ns", "device_self_ns"]
        keys += ["backward_device_total_ns", "backward_device_self_ns"] if backward else []
        keys += ["recomputed_device_ns"] if calls.recomputed.any() else []
        keys += RATE_COLUMNS
    keys += ["host_total_ns", "host_self_ns"]
    return [*keys, *(["backward_host_total_ns"] if backward else []), "operators"]


def _apart_notice(apart: UnmatchedBackward) -> Notice:
    figures = [METRICS.figure("backward_apart", apart.operators), METRICS.figure("backward_apart_ns", apart.host_ns)]
    text = "Backward operators without a module: {backward_apart} ({backward_apart_ns} on the CPU). "
    if apart.untied < apart.operators:
        text += "The forward operator ran outside modules"
    if 0 < apart.untied < apart.operators:
        text += ", or is unknown ({backward_apart_untied})"
    elif apart.untied:
        text += "The forward operator is unknown"
    if apart.untied:
        figures.append(METRICS.figure("backward_apart_untied", apart.untied))
    return Notice(rule="backward_apart", severity="info", text=f"{text}.", todo="", figures=figures)


def _recomputed(calls: HostCalls) -> tuple[Bool, Int32]:
    above = calls.parent
    outermost = calls.in_backward & ((above == MISSING) | ~calls.in_backward[above])
    again = np.flatnonzero(outermost)
    first = np.flatnonzero(~calls.in_backward)
    # Positions are in order of time, so this finds the last earlier call of an equal module.
    key = np.sort(calls.key[first] * len(outermost) + first)
    at = np.searchsorted(key, calls.key[again] * len(outermost) + again) - 1
    found = np.append(key, MISSING)[at]
    same = (at >= 0) & (found // max(len(outermost), 1) == calls.key[again])
    flags = np.zeros(len(outermost), np.bool_)
    flags[again[same]] = True
    roots = same & (above[again] == MISSING)
    parent = above.copy()
    parent[again[roots]] = found[roots] % max(len(outermost), 1)
    return flags, parent


def _tree(
    trace: TraceTable, selection: Selection, calls: HostCalls, compiled: Compiled, keys: list[str], work: OperatorWork
) -> Tree:
    again, above = _recomputed(calls)
    nodes = group(Forest(above).paths(calls.key, again.astype(np.int64)))
    moved = above != calls.parent
    placed = replace(calls, parent=above)
    data, rated = sums_of(placed, nodes), called_work(trace, placed, nodes, work)
    # Moved calls ran at another time, so parent durations do not include them.
    moved_ns = np.where(moved, calls.host_total_ns, 0)
    data["host_total_ns"] = data["host_total_ns"] + nodes.sum(Forest(above).sums(moved_ns) - moved_ns)
    above = above[nodes.first]
    regions = region_nodes(trace, selection, calls, nodes, compiled, work)
    parent = np.concatenate((np.where(above == MISSING, MISSING, nodes.of[above]), regions.parent))
    # Calls that only exist in captures come last, in their own order.
    first = np.where(calls.is_replayed, len(trace) + np.arange(len(calls.row)), calls.row)[nodes.first]
    names = [
        module_label(trace.strings[int(name)]) + RECOMPUTED * repeats
        for name, repeats in zip(calls.name[nodes.first], again[nodes.first].tolist(), strict=True)
    ]
    code: dict[str, list[str | None]] = compiled_summary(trace, calls, compiled, nodes)
    if len(regions):
        numbers = [number_of(trace, int(name)) for name in regions.name]
        names += [f"{COMPILED}{number}" for number in numbers]
        code["compiled_code"] = code["compiled_code"] + trace.strings.take(regions.code).to_pylist()
        code["regions"] = [*code["regions"], *([None] * len(regions))]
        code["region"] = [*([None] * len(nodes)), *numbers]
        data = {key: np.concatenate((values, regions.sums[key])) for key, values in data.items()}
        rated = concatenated_work(rated, regions.rated)
        keys = [*keys, "region"]
    layers = layers_of(names[: len(nodes)], parent)
    found = rates(rated.each(layers.real_sums))
    names, keys = names + layers.names, _ordered(without_empty(keys, found), len(layers) > 0)
    started = np.concatenate((first, regions.first))
    opened = np.full(len(layers), np.iinfo(np.int64).max)
    inside = layers.of != MISSING
    np.minimum.at(opened, layers.of[inside], started[inside])
    order = preorder(layers.parent, -np.concatenate((started, opened)).astype(np.int64))  # in order of execution
    order, above_of = truncate_tree(order, layers.parent, NODES_SENT)
    widths = [key for key in TIMES if key in keys]
    values = {key: layers.sums(each).tolist() for key, each in data.items() if key in keys}
    values |= {key: [*each, *([None] * len(layers))] for key, each in code.items()}
    values |= {key: column.to_pylist() for key, column in found.items()}
    values |= _layer_columns(layers, data[widths[0]], parent)
    sent: list[dict[str, Scalar]] = [
        {"module": names[node], **{key: values[key][node] for key in keys[1:]}} for node in order
    ]
    shown = METRICS.columns(*keys, hidden=("region", "layers", "covered_ratio"))
    return Tree("tree", "Module tree", shown, above_of, sent, "module", widths, len(names))


def _ordered(keys: list[str], has_layers: bool) -> list[str]:
    """Returns the columns of the tree: times and limits first, forward before backward, then the rest."""
    times = [key for key in TIMES if key in keys]
    first = [key for key in ("peak_ratio", "bound") if key in keys]
    more = ["module_share", *first, *(["layer_mean_ns", "layer_spread"] if has_layers else [])]
    rest = [key for key in keys[1:] if key not in (*times, *first)]
    return [keys[0], times[0], *more, *times[1:], *rest, *(["layers"] if has_layers else [])]


def _layer_columns(layers: Layers, total: Int64, parent: Int64) -> dict[str, list[Scalar]]:
    whole = int(total[parent == MISSING].sum())
    mean, spread = layers.spread(total)
    nothing: list[Scalar] = [None] * len(parent)
    return {
        "module_share": [each / whole if whole else None for each in layers.sums(total).tolist()],
        "layer_mean_ns": [*nothing, *mean.tolist()],
        "layer_spread": [*nothing, *spread.tolist()],
        "layers": [*nothing, *layers.count.tolist()],
    }


def _answer(trace: TraceTable, tree: Tree) -> Notices | None:
    """Returns which layers take most, and the class of modules with the most self time."""
    total = tree.value_columns[0]
    own = [int(row[total] or 0) for row in tree.rows]
    whole = sum(time for time, above in zip(own, tree.parent, strict=True) if above == MISSING)
    if not whole:
        return None
    for row, above in zip(tree.rows, tree.parent, strict=True):
        if above != MISSING:
            own[above] -= int(row[total] or 0)
    unit = f"{device_word(trace)} time" if total.startswith("device") else "CPU time"
    layers = [row for row in tree.rows if row.get("layers")]
    largest = max(layers, key=lambda row: int(row[total] or 0), default=None)
    texts, figures = [], list[Figure]()
    if largest is not None and int(largest[total] or 0) >= _NOTABLE * whole:
        texts.append(
            f"{{leading_name}} takes {{leading_ratio}} of the {unit} of all modules: {{leading_ns}} (mean per "
            "layer {layer_mean_ns}, spread {layer_spread})."
        )
        values: dict[str, Scalar] = {
            "leading_name": largest["module"],
            "leading_ratio": int(largest[total] or 0) / whole,
        }
        figures += ANSWER_METRICS.figures({**values, "leading_ns": largest[total]})
        figures += METRICS.figures({key: largest[key] for key in ("layer_mean_ns", "layer_spread")})
    by_class: dict[str, int] = {}
    for row, time in zip(tree.rows, own, strict=True):
        name = class_of(str(row["module"])) or str(row["module"])
        by_class[name] = by_class.get(name, 0) + time
    name = max(by_class, key=lambda each: by_class[each])
    texts.append(f"{{module}} modules take the most {unit} of their own: {{module_own_ns}} ({{module_share}}).")
    own_values: dict[str, Scalar] = {
        "module": name,
        "module_own_ns": by_class[name],
        "module_share": by_class[name] / whole,
    }
    figures += METRICS.figures(own_values)
    return answer("modules_answer", " ".join(texts), figures)


def _totals(trace: TraceTable, calls: HostCalls, compiled: Compiled, keys: list[str], work: OperatorWork) -> Frame:
    groups = group(calls.key)
    data: dict[str, object] = dict(sums_of(calls, groups))
    data["module"] = [module_label(trace.strings[int(i)]) for i in calls.name[groups.first]]
    data |= compiled_summary(trace, calls, compiled, groups)
    found = rates(called_work(trace, calls, groups, work))
    data |= found
    keys = without_empty(keys, found)
    first = "device_total_ns" if "device_total_ns" in keys else "host_total_ns"
    table = pa.table({key: pa.array(data[key], pa.string() if key in _TEXTS else None) for key in keys})
    return Frame(
        name="modules",
        title="Modules",
        columns=METRICS.columns(*keys, hidden=HIDDEN_RATES, share=("device_self_ns", "host_self_ns")),
        data=sorted_by(table, [(first, "descending"), ("module", "ascending")]),
        row_key=("module",),
        name_column="module",
        sort=Sort(first, True),
    )
