"""Modules: host and device time of each nn.Module, forward and backward, where it stands in the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analyses.backward import backward_roots, forward_behind, forward_operators, in_backward
from tb_plugin.analyses.base import OWN_ONLY, Frame, Missing, Params, Part, Scope, Traits, answer_view
from tb_plugin.analyses.grouping import Forest, Groups, Spans, cut, group, outermost_of, preorder, sum_by
from tb_plugin.analyses.metrics import CHOSEN, SHARED, define
from tb_plugin.analyses.names import module_label
from tb_plugin.analyses.selection import Selection, launched_by, select_rows
from tb_plugin.payloads import Scalar, Sort, Table, Tree, View
from tb_plugin.trace.numbering import places_of
from tb_plugin.trace.schema import DEVICE_WORK, MISSING, EventKind
from tb_plugin.trace.table import TraceTable
from tb_plugin.trace.tree import innermost, nest

METRICS = SHARED.adding(
    define(
        CHOSEN,
        "ns",
        {
            "backward_host_total_ns": (
                "Backward host",
                "Host time of the backward operators whose forward operator the module or its children called.",
            ),
            "backward_device_self_ns": (
                "Backward self",
                "Device time launched by backward operators whose forward operator the module called directly.",
            ),
        },
    ),
)

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]

RECOMPUTED = " (recomputed)"
"""Stands behind the name of a call that repeats a forward call inside the backward pass."""
NODES_SENT = 20_000
"""A tree larger than this is cut breadth-first; ``Tree.total_nodes`` tells."""

TIMES = (
    "device_total_ns",
    "device_self_ns",
    "backward_device_total_ns",
    "backward_device_self_ns",
    "host_total_ns",
    "host_self_ns",
    "backward_host_total_ns",
)


@dataclass(frozen=True, eq=False)
class ModuleCalls:
    """Chosen module calls by time; ``parent`` is a position among them. Times in nanoseconds, each call's own part.

    ``device`` is what the call launched outside its submodules, ``backward_device`` what the backward pass of its direct
    operators launched, ``backward_host`` the host time of those. ``in_backward``: a backward operator is open around it.
    """

    row: Int64
    spans: Spans
    parent: Int32
    module: Int64
    """Number of the module (name and id)."""
    host_self_ns: Int64
    host_total_ns: Int64
    device: Int64
    backward_device: Int64
    backward_host: Int64
    operators: Int64
    in_backward: Bool


class Modules:
    """The module tree."""

    id = "modules"
    title = "Modules"
    model = TraceTable
    traits = Traits("Work", whole="", tables=("modules",))
    scope: Scope = "profile"
    borrows = OWN_ONLY

    def missing(self, trace: TraceTable) -> Missing | None:
        """Returns why a trace without module calls has no such view, else None."""
        if (trace.kind == EventKind.MODULE).any():
            return None
        return Missing("The trace holds no calls of nn.Module.", trace.recorder.todo("view.modules"))

    def part_key(self, params: Params) -> tuple[object, ...]:
        """Returns the chosen steps: nothing else matters."""
        return params.chosen

    def part(self, trace: TraceTable, params: Params) -> Part:
        """Returns the tree and the table over all places. Raises BadRequest for unknown steps."""
        selection = select_rows(trace, *params.chosen)
        calls = module_calls(trace, selection)
        keys = _columns(calls)
        tree, frame = _tree(trace, calls, keys), _totals(trace, calls, keys)
        return Part(
            coverage=selection.coverage,
            facts={"modules.calls": len(calls.row), "modules.names": frame.data.num_rows},
            frames={"modules": frame},
            payloads={"tree": tree},
            layout=("tree", "modules"),
        )

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        """Returns the page or its table."""
        return answer_view(self, parts[0], params)


def module_calls(trace: TraceTable, selection: Selection) -> ModuleCalls:
    """Returns every chosen module call with the host, device and backward time that is its own."""
    rows = selection.of(trace, EventKind.MODULE)
    nesting = nest(trace.track[rows], trace.start_ns[rows], trace.end_ns[rows])
    end = trace.end_ns[rows]

    def around(track: Int32, time: Int64) -> Int32:
        return innermost(trace.track[rows], trace.start_ns[rows], end, nesting.parent, track, time)

    work = selection.of(trace, *DEVICE_WORK)
    source = launched_by(trace, work)
    placed = source != MISSING
    work, source = work[placed], source[placed]
    operators = np.flatnonzero(trace.kind == EventKind.OPERATOR)
    forward = forward_operators(trace, operators)
    backward = forward_behind(forward, trace.operator[work])
    owner = around(trace.track[source], trace.start_ns[source])
    backward_owner = np.full(len(work), MISSING, np.int32)
    known = backward != MISSING
    backward_owner[known] = around(trace.track[backward[known]], trace.start_ns[backward[known]])
    # What a module launched itself is forward, also inside a backward pass that recomputes it.
    backward_owner[owner != MISSING] = MISSING
    roots = backward_roots(trace, operators, forward)
    roots = roots[selection.rows[roots]]
    root_owner = around(trace.track[forward[roots]], trace.start_ns[forward[roots]])
    root_owner[around(trace.track[roots], trace.start_ns[roots]) != MISSING] = MISSING
    direct = selection.of(trace, EventKind.OPERATOR)
    position = places_of(rows, len(trace))
    return ModuleCalls(
        row=rows,
        spans=Spans(trace.track[rows], trace.start_ns[rows], end),
        parent=nesting.parent,
        module=_modules(trace, rows).of,
        host_self_ns=trace.self_ns[rows],
        host_total_ns=trace.dur_ns[rows],
        device=sum_by(owner, trace.dur_ns[work], len(rows)),
        backward_device=sum_by(backward_owner, trace.dur_ns[work], len(rows)),
        backward_host=sum_by(root_owner, trace.dur_ns[roots], len(rows)),
        operators=sum_by(position[trace.parent[direct]], np.ones(len(direct), np.int64), len(rows)),
        in_backward=in_backward(trace, operators, forward)[trace.operator[rows]],
    )


def _modules(trace: TraceTable, rows: Int64) -> Groups:
    number = np.full(len(trace), MISSING, np.int64)
    number[trace.python.row] = trace.python.module_id
    return group(trace.name[rows], number[rows])


def _columns(calls: ModuleCalls) -> list[str]:
    """Columns that say something: device ones with a device, backward ones with a recorded backward pass."""
    backward = bool(calls.backward_host.any())
    keys = ["module", "calls"]
    if calls.device.any() or calls.backward_device.any():
        keys += ["device_total_ns", "device_self_ns"]
        keys += ["backward_device_total_ns", "backward_device_self_ns"] if backward else []
    keys += ["host_total_ns", "host_self_ns"]
    return [*keys, *(["backward_host_total_ns"] if backward else []), "operators"]


def _aggregate(calls: ModuleCalls, groups: Groups) -> dict[str, Int64]:
    """Sums over groups of calls; totals count only calls that do not stand in a call of the same group."""
    once = outermost_of(groups.of, calls.spans, calls.parent)
    forest = Forest(calls.parent)

    def total(values: Int64) -> Int64:
        return groups.sum(np.where(once, values, 0))

    return {
        "calls": groups.count(),
        "host_self_ns": groups.sum(calls.host_self_ns),
        "host_total_ns": total(calls.host_total_ns),
        "device_self_ns": groups.sum(calls.device),
        "device_total_ns": total(forest.sums(calls.device)),
        "backward_device_self_ns": groups.sum(calls.backward_device),
        "backward_device_total_ns": total(forest.sums(calls.backward_device)),
        "backward_host_total_ns": total(forest.sums(calls.backward_host)),
        "operators": groups.sum(calls.operators),
    }


def _recomputed(calls: ModuleCalls) -> tuple[Bool, Int32]:
    """Which calls repeat a forward call of their module inside the backward pass, and the parents of all calls then.

    One that stands in no other call goes under the last forward call of its module before it.
    """
    above = calls.parent
    outermost = calls.in_backward & ((above == MISSING) | ~calls.in_backward[above])
    again = np.flatnonzero(outermost)
    first = np.flatnonzero(~calls.in_backward)
    # Positions are in order of time: of equal modules the last one before.
    key = np.sort(calls.module[first] * len(outermost) + first)
    at = np.searchsorted(key, calls.module[again] * len(outermost) + again) - 1
    found = np.append(key, MISSING)[at]
    same = (at >= 0) & (found // max(len(outermost), 1) == calls.module[again])
    flags = np.zeros(len(outermost), np.bool_)
    flags[again[same]] = True
    roots = same & (above[again] == MISSING)
    parent = above.copy()
    parent[again[roots]] = found[roots] % max(len(outermost), 1)
    return flags, parent


def _tree(trace: TraceTable, calls: ModuleCalls, keys: list[str]) -> Tree:
    """Calls at the same place (path of modules) are one node; its totals hold everything beneath it."""
    again, above = _recomputed(calls)
    nodes = group(Forest(above).paths(calls.module, again.astype(np.int64)))
    moved = above != calls.parent
    data = _aggregate(replace(calls, parent=above), nodes)
    # What was moved ran at another time: no duration above it holds its own.
    apart = np.where(moved, calls.host_total_ns, 0)
    data["host_total_ns"] = data["host_total_ns"] + nodes.sum(Forest(above).sums(apart) - apart)
    above = above[nodes.first]
    parent = np.where(above == MISSING, MISSING, nodes.of[above])
    order = preorder(parent, -calls.row[nodes.first].astype(np.int64))  # in order of execution
    order, above_of = cut(order, parent, NODES_SENT)
    names = [
        module_label(trace.strings[int(name)]) + RECOMPUTED * repeats
        for name, repeats in zip(trace.name[calls.row[nodes.first]], again[nodes.first].tolist(), strict=True)
    ]
    sent: list[dict[str, Scalar]] = [
        {"module": names[node], **{key: int(data[key][node]) for key in keys if key != "module"}} for node in order
    ]
    widths = [key for key in TIMES if key in keys]
    return Tree("tree", "Module tree", METRICS.columns(*keys), above_of, sent, "module", widths, len(nodes))


def _totals(trace: TraceTable, calls: ModuleCalls, keys: list[str]) -> Frame:
    """One row a module, over all places where it is called."""
    groups = group(calls.module)
    data: dict[str, object] = dict(_aggregate(calls, groups))
    data["module"] = [module_label(trace.strings[int(i)]) for i in trace.name[calls.row[groups.first]]]
    first = "device_total_ns" if "device_total_ns" in keys else "host_total_ns"
    table = pa.table({key: pa.array(values, pa.string() if key == "module" else None) for key, values in data.items()})
    return Frame(
        name="modules",
        title="Modules",
        columns=METRICS.columns(*keys, share=("device_self_ns", "host_self_ns")),
        data=table.sort_by([(first, "descending"), ("module", "ascending")]),
        row_key=("module",),
        name_column="module",
        sort=Sort(first, True),
    )
