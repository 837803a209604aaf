"""Functions in merged stacks: times, callers and callees.

The self time of a function is the sum over all its nodes. Its total time is the sum over its outermost nodes, so
recursive calls count only once. The self times of all functions add up to the total time of the stacks.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.code_owner import GENERATED, package_of
from tb_plugin.analysis.flame.nodes import FlameNodes, heaviest_nodes, in_order, largest_nodes, parent_groups
from tb_plugin.analysis.flame.tree import Terms, packages_of, tree_of, tree_of_graph
from tb_plugin.analysis.forest import Forest, Spans, is_top_level
from tb_plugin.errors import NotFoundError
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import group, places_of, stable_order
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.tree import inherit
from tb_plugin.payloads import Sort, Tree

# Maximum callers and callees, most time first.
NODES_SENT = 2_000
# Limits the walk to callers, because thousands of nodes may be thousands deep.
_MAX_CALLER_STEPS = 2_000_000


def outermost_nodes(nodes: FlameNodes, forest: Forest) -> Bool:
    """Returns, for each node, whether no ancestor has the same name."""
    size = forest.sums(np.ones(len(nodes.label), np.int64))
    begin = np.zeros(len(size), np.int64)
    for level, members in enumerate(forest.levels):
        # Nodes are laid out next to each other inside their parent, as wide as their descendants.
        rows = members[stable_order(nodes.parent[members])]
        parents = nodes.parent[rows]
        before = np.cumsum(size[rows]) - size[rows]
        begin[rows] = before - before[np.searchsorted(parents, parents)] + (begin[parents] + 1 if level else 0)
    order = np.argsort(begin)
    spans = Spans(np.zeros(len(size), np.int32), begin[order], (begin + size)[order])
    outer = np.empty(len(size), np.bool_)
    outer[order] = is_top_level(nodes.label[order], spans)
    return outer


def functions_of(nodes: FlameNodes, terms: Terms) -> Frame:
    """Returns the table of functions. Functions with the largest self time come first."""
    groups = group(nodes.label)
    forest = Forest(nodes.parent)
    outer = outermost_nodes(nodes, forest)

    def totals(own: Int64) -> Int64:
        return groups.sum(np.where(outer, forest.sums(own), 0))

    sums = {
        "function_host_self_ns": groups.sum(nodes.host_ns),
        "function_host_ns": totals(nodes.host_ns),
        "function_device_self_ns": groups.sum(nodes.device_ns),
        "function_device_ns": totals(nodes.device_ns),
        **{key: totals(own) for key, own in nodes.backward.items() if own.any()},
    }
    own = f"function_{terms.weight}_self_ns"
    order = np.lexsort((-sums[f"function_{terms.weight}_ns"], -sums[own]))
    calls = groups.sum(nodes.calls)
    # Omit frames that only enclose the selected steps and launch no work there.
    order = order[(calls[order] > 0) | (sums["function_host_ns"][order] > 0) | (sums["function_device_ns"][order] > 0)]
    first = groups.first[order]
    names, kinds = nodes.names(first), nodes.kind[first].tolist()
    packages = packages_of(names, kinds)
    numbers = {"calls": calls, **sums}
    data = {
        "name": pa.array(names, pa.large_string()),
        "node_kind": pa.array([EventKind(kind).name.lower() for kind in kinds], pa.string()),
        "package": pa.array([package for package, _ in packages], pa.string()),
        "framework": pa.array([framework for _, framework in packages], pa.bool_()),
        **terms.metric_values({key: pa.array(values[order]) for key, values in numbers.items()}),
    }
    share = tuple(terms.key(key) for key in sums if key.endswith("_self_ns"))
    columns = terms.metrics.columns(*data, hidden=("framework", *terms.hidden), share=share)
    return Frame("functions", "Functions", columns, pa.table(data), ("name",), "name", Sort(terms.key(own), True))


def largest_user_function(nodes: FlameNodes, weight: str) -> tuple[str, int] | None:
    """Returns the function of the user's code with the most time, and this time in ns. None without user code.

    The time of a function includes framework and library code that it calls, but no other functions of the user.
    """
    own = nodes.device_ns if weight == "device" else nodes.host_ns
    python = np.flatnonzero(nodes.kind == EventKind.PYTHON)
    labels = np.unique(nodes.label[python])
    packages = [package_of(text) for text in nodes.texts.take(pa.array(labels)).to_pylist()]
    of_user = labels[[bool(package) and not framework and package != GENERATED for package, framework in packages]]
    is_user = (nodes.kind == EventKind.PYTHON) & np.isin(nodes.label, of_user)
    owner = inherit(np.where(is_user, np.arange(len(is_user)), MISSING).astype(np.int32), nodes.parent)
    inside = np.flatnonzero(owner != MISSING)
    if not own[inside].any():
        return None
    groups = group(nodes.label[owner[inside]])
    total = groups.sum(own[inside])
    place = int(np.argmax(total))
    label = int(nodes.label[owner[inside[groups.first[place]]]])
    return nodes.texts[label].as_py(), int(total[place])


def sandwich(nodes: FlameNodes, function: str, terms: Terms) -> tuple[Tree, Tree]:
    """Returns the caller tree and the callee tree of a function. Raises NotFoundError for an unknown function."""
    label = nodes.texts.index(pa.scalar(function, nodes.texts.type)).as_py()
    named = nodes.label == label
    if not named.any():
        raise NotFoundError(
            f"No frame is called {function[:80]}.", "function", "Choose a name from the table named functions."
        )
    forest = Forest(nodes.parent)
    mine = np.flatnonzero(named & outermost_nodes(nodes, forest))
    # An operator and a Python call of one name are one function: the root of both trees.
    nodes = replace(nodes, kind=np.where(named, nodes.kind[mine[0]], nodes.kind))
    callees = largest_nodes(_callees(nodes, forest, mine), terms.weight, NODES_SENT, replayed=False)
    # Next to the callers, only the selected time fits.
    other = "host" if terms.weight == "device" else "device"
    hidden = ("node_kind", f"{other}_ns", f"{other}_own_ns")
    return _callers(nodes, forest, mine, terms), tree_of_graph(callees, terms, "callees", "Callees", hidden)


def _callers(nodes: FlameNodes, forest: Forest, mine: Int64, terms: Terms) -> Tree:
    numbers = (nodes.calls, forest.sums(nodes.host_ns), forest.sums(nodes.device_ns))
    at, parents, origin = mine, np.full(len(mine), MISSING, np.int64), mine
    levels: list[tuple[Int64, ...]] = []
    node_count = steps = 0
    while at.size and steps < _MAX_CALLER_STEPS:
        steps += len(at)
        groups = group(parents, nodes.label[at], nodes.kind[at])
        first = groups.first
        sums = (groups.sum(number[origin]) for number in numbers)
        levels.append((parents[first], nodes.label[at[first]], nodes.kind[at[first]], *sums))
        node = groups.of + node_count
        node_count += len(groups)
        further = nodes.parent[at] != MISSING
        at, parents, origin = nodes.parent[at[further]].astype(np.int64), node[further], origin[further]
    parent, label, kind, calls, host, device = (np.concatenate(column) for column in zip(*levels, strict=True))
    weight = {"host": host, "device": device}[terms.weight]
    order = in_order(parent.astype(np.int32), heaviest_nodes(weight, NODES_SENT, weight > 0), weight)
    data = {"caller_calls": calls[order], "caller_host_ns": host[order], "caller_device_ns": device[order]}
    names = nodes.texts.take(pa.array(label[order])).to_pylist()
    parent = places_of(order, len(weight))[parent[order]]
    value, found = f"caller_{terms.weight}_ns", int((weight > 0).sum())
    return tree_of(terms, "callers", "Callers", names, kind[order], parent, data, value, found, hidden=("node_kind",))


def _callees(nodes: FlameNodes, forest: Forest, mine: Int64) -> FlameNodes:
    inside = np.zeros(len(nodes.label) + 1, np.bool_)
    inside[mine] = True
    for rows in forest.levels[1:]:
        inside[rows] |= inside[nodes.parent[rows]]
    some = np.flatnonzero(inside[:-1])
    parent = places_of(some, len(nodes.label))[nodes.parent[some]]
    merged = group(Forest(parent).paths(nodes.label[some], nodes.kind[some]))
    first = some[merged.first]
    return FlameNodes(
        label=nodes.label[first],
        texts=nodes.texts,
        kind=nodes.kind[first],
        parent=parent_groups(merged, parent),
        thread=nodes.thread[first],
        calls=merged.sum(nodes.calls[some]),
        host_ns=merged.sum(nodes.host_ns[some]),
        device_ns=merged.sum(nodes.device_ns[some]),
    )
