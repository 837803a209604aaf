"""Functions in merged stacks: times, callers and callees.

The self time of a function is the sum over all its nodes. Its total time is the sum over its outermost nodes, so
recursive calls count only once. The self times of all functions add up to the total time of the stacks.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import replace

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.code_owner import package_of
from tb_plugin.analysis.forest import Forest, Spans, is_top_level
from tb_plugin.analysis.merged_stacks.places import Laid, Places, heaviest_nodes, in_order, parent_groups
from tb_plugin.analysis.merged_stacks.terms import Terms
from tb_plugin.errors import NotFoundError
from tb_plugin.lib.groupby import group, places_of, stable_order
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.payloads import Scalar, Sort, Tree

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]

# Maximum callers and callees, most time first.
NODES_SENT = 2_000
# Limits the walk to callers, because thousands of nodes may be thousands deep.
_MAX_CALLER_STEPS = 2_000_000


def packages_of(names: list[str], kinds: list[int]) -> list[tuple[str, bool]]:
    """Returns, for each frame, the package, and whether the package is framework code."""
    known: dict[str, tuple[str, bool]] = {}
    found = []
    for name, kind in zip(names, kinds, strict=True):
        if kind == EventKind.PYTHON:
            found.append(known.get(name) or known.setdefault(name, package_of(name)))
        elif kind == EventKind.OPERATOR:
            found.append((name.partition("::")[0] if "::" in name else "operator", True))
        else:
            found.append((_KINDS.get(EventKind(kind), ""), kind == EventKind.RUNTIME))
    return found


_KINDS = {EventKind.RUNTIME: "device runtime", EventKind.MODULE: "nn.Module", EventKind.ANNOTATION: "named range"}


def outermost_places(places: Laid, forest: Forest) -> Bool:
    """Returns, for each node, whether no ancestor has the same name."""
    size = forest.sums(np.ones(len(places.label), np.int64))
    begin = np.zeros(len(size), np.int64)
    for level, members in enumerate(forest.levels):
        # Nodes are laid out next to each other inside their parent, as wide as their descendants.
        rows = members[stable_order(places.parent[members])]
        parents = places.parent[rows]
        before = np.cumsum(size[rows]) - size[rows]
        begin[rows] = before - before[np.searchsorted(parents, parents)] + (begin[parents] + 1 if level else 0)
    order = np.argsort(begin)
    spans = Spans(np.zeros(len(size), np.int32), begin[order], (begin + size)[order])
    outer = np.empty(len(size), np.bool_)
    outer[order] = is_top_level(places.label[order], spans)
    return outer


def functions_of(places: Laid, terms: Terms) -> Frame:
    """Returns the table of functions. Functions with the largest self time come first."""
    groups = group(places.label)
    forest = Forest(places.parent)
    outer = outermost_places(places, forest)
    sums = {
        "function_host_self_ns": groups.sum(places.host_ns),
        "function_host_ns": groups.sum(np.where(outer, forest.sums(places.host_ns), 0)),
        "function_device_self_ns": groups.sum(places.device_ns),
        "function_device_ns": groups.sum(np.where(outer, forest.sums(places.device_ns), 0)),
        **{
            key: groups.sum(np.where(outer, forest.sums(own), 0))
            for key, own in (
                ("backward_host_ns", places.backward_host_ns),
                ("backward_device_ns", places.backward_device_ns),
            )
            if own.any()
        },
    }
    own = f"function_{terms.weight}_self_ns"
    order = np.lexsort((-sums[f"function_{terms.weight}_ns"], -sums[own]))
    calls = groups.sum(places.calls)
    # Omit frames that only enclose the selected steps and launch no work there.
    order = order[(calls[order] > 0) | (sums["function_host_ns"][order] > 0) | (sums["function_device_ns"][order] > 0)]
    first = groups.first[order]
    names, kinds = places.names(first), places.kind[first].tolist()
    packages = packages_of(names, kinds)
    data = {
        "name": pa.array(names, pa.large_string()),
        "node_kind": pa.array([EventKind(kind).name.lower() for kind in kinds], pa.string()),
        "package": pa.array([package for package, _ in packages], pa.string()),
        "framework": pa.array([framework for _, framework in packages], pa.bool_()),
        **terms.metric_values(
            {"calls": pa.array(calls[order]), **{key: pa.array(values[order]) for key, values in sums.items()}}
        ),
    }
    share = tuple(terms.key(key) for key in sums if key.endswith("_self_ns"))
    columns = terms.metrics.columns(*data, hidden=("framework", *terms.hidden), share=share)
    return Frame("functions", "Functions", columns, pa.table(data), ("name",), "name", Sort(terms.key(own), True))


class _Paths(msgspec.Struct, frozen=True, eq=False):
    """Tree of the callers of a function. The function is the root, and the children of each node are its callers."""

    label: Int64
    kind: Int64
    parent: Int32
    calls: Int64
    host_ns: Int64
    device_ns: Int64


def sandwich(places: Laid, function: str, terms: Terms) -> tuple[Tree, Tree]:
    """Returns the caller tree and the callee tree of a function. Raises NotFoundError for an unknown function."""
    label = places.texts.index(pa.scalar(function, places.texts.type)).as_py()
    named = places.label == label
    if not named.any():
        raise NotFoundError(
            f"No frame is called {function[:80]}.", "function", "Choose a name from the table named functions."
        )
    forest = Forest(places.parent)
    mine = np.flatnonzero(named & outermost_places(places, forest))
    # An operator and a Python call of one name are one function: the root of both trees.
    places = replace(places, kind=np.where(named, places.kind[mine[0]], places.kind))
    totals = forest.sums(places.host_ns), forest.sums(places.device_ns)
    callers = _outwards(places, mine, totals)
    callees = _inwards(places, forest, mine)
    return _callers(places, callers, terms), _callees(callees, terms)


def _outwards(places: Laid, mine: Int64, totals: tuple[Int64, Int64]) -> _Paths:
    """Merges the paths from a function to its callers, one level at a time."""
    at, node = mine, np.zeros(len(mine), np.int64)
    parents = np.full(len(mine), MISSING, np.int64)
    levels: list[tuple[Int64, ...]] = []
    node_count = steps = 0
    origin = mine
    while at.size and steps < _MAX_CALLER_STEPS:
        steps += len(at)
        groups = group(parents, places.label[at], places.kind[at])
        node = groups.of + node_count
        first = groups.first
        host, device = (groups.sum(total[origin]) for total in totals)
        levels.append(
            (
                parents[first],
                places.label[at[first]],
                places.kind[at[first]],
                groups.sum(places.calls[origin]),
                host,
                device,
            )
        )
        node_count += len(groups)
        further = places.parent[at] != MISSING
        at, parents, origin = places.parent[at[further]].astype(np.int64), node[further], origin[further]
    parent, label, kind, calls, host, device = (np.concatenate(column) for column in zip(*levels, strict=True))
    return _Paths(label, kind, parent.astype(np.int32), calls, host, device)


def _inwards(places: Laid, forest: Forest, mine: Int64) -> Places:
    """Merges the subtrees under all calls of a function."""
    inside = np.zeros(len(places.label) + 1, np.bool_)
    inside[mine] = True
    for rows in forest.levels[1:]:
        inside[rows] |= inside[places.parent[rows]]
    some = np.flatnonzero(inside[:-1])
    parent = places_of(some, len(places.label))[places.parent[some]]
    sub = Forest(parent)
    nodes = group(sub.paths(places.label[some], places.kind[some]))
    up = parent_groups(nodes, parent)
    host, device = nodes.sum(places.host_ns[some]), nodes.sum(places.device_ns[some])
    merged = Forest(up)
    first = some[nodes.first]
    return Places(
        name=places.names(first),
        kind=places.kind[first],
        parent=up.astype(np.int64),
        thread=places.thread[first],
        calls=nodes.sum(places.calls[some]),
        host_ns=host,
        device_ns=device,
        host_total_ns=merged.sums(host),
        device_total_ns=merged.sums(device),
        matches=len(nodes),
    )


def _callers(places: Laid, paths: _Paths, terms: Terms) -> Tree:
    weight = {"host": paths.host_ns, "device": paths.device_ns}[terms.weight]
    order = in_order(paths.parent, heaviest_nodes(weight, NODES_SENT), weight)
    names = places.texts.take(pa.array(paths.label[order])).to_pylist()
    data = {
        "caller_calls": paths.calls[order],
        "caller_host_ns": paths.host_ns[order],
        "caller_device_ns": paths.device_ns[order],
    }
    found = int((weight > 0).sum())
    parent = places_of(order, len(weight))[paths.parent[order]]
    value = f"caller_{terms.weight}_ns"
    return tree_of(terms, "callers", "Callers", names, paths.kind[order], parent, data, value, found, ("node_kind",))


def _callees(places: Places, terms: Terms) -> Tree:
    weight = {"host": places.host_total_ns, "device": places.device_total_ns}[terms.weight]
    order = in_order(places.parent.astype(np.int32), heaviest_nodes(weight, NODES_SENT), weight)
    parent = places_of(order, len(weight))[places.parent[order]]
    names = [places.name[i] for i in order.tolist()]
    found = int((weight > 0).sum())
    data = {key: values[order] for key, values in numbers_of(places).items()}
    # Next to the callers, only the selected time fits.
    hidden = ("node_kind", *(key for key in data if key.startswith("host" if terms.weight == "device" else "device")))
    value = f"{terms.weight}_ns"
    return tree_of(terms, "callees", "Callees", names, places.kind[order], parent, data, value, found, hidden)


def tree_of_places(places: Places, terms: Terms) -> Tree:
    data, value = numbers_of(places), f"{terms.weight}_ns"
    return tree_of(terms, "stacks", "Stacks", places.name, places.kind, places.parent, data, value, places.matches)


def numbers_of(places: Places) -> dict[str, Int64]:
    """Returns the number columns of a tree, by key."""
    return {
        "calls": places.calls,
        "host_ns": places.host_total_ns,
        "host_own_ns": places.host_ns,
        "device_ns": places.device_total_ns,
        "device_own_ns": places.device_ns,
    }


def tree_of(
    terms: Terms,
    name: str,
    title: str,
    names: list[str],
    kind: Int64,
    parent: npt.NDArray[np.integer],
    data: dict[str, Int64],
    value: str,
    found: int,
    hidden: tuple[str, ...] = (),
) -> Tree:
    """Returns a tree for the response.

    The column ``value`` determines the width of each node. The columns in ``hidden`` are sent but not displayed.
    """
    numbers = {key: values.tolist() for key, values in terms.metric_values(data).items()}
    kinds = kind.tolist()
    packages = packages_of(names, kinds)
    rows: list[dict[str, Scalar]] = [
        {
            "name": text,
            "node_kind": EventKind(kinds[i]).name.lower(),
            "package": packages[i][0],
            "framework": packages[i][1],
            **{key: values[i] for key, values in numbers.items()},
        }
        for i, text in enumerate(names)
    ]
    columns = terms.metrics.columns(
        "name",
        "node_kind",
        "package",
        "framework",
        *numbers,
        hidden=("package", "framework", *terms.hidden, *map(terms.key, hidden)),
    )
    return Tree(name, title, columns, parent.tolist(), rows, "name", [terms.key(value)], found)
