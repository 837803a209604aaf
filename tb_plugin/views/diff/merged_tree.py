"""Merged tree of two aligned call trees."""

from __future__ import annotations

from collections.abc import Sequence

from tb_plugin.analysis.base import Part
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Column, Scalar, Tree
from tb_plugin.views.diff.alignment import Node, Pair, align
from tb_plugin.views.diff.metrics import METRICS
from tb_plugin.views.diff.paired_tables import BOTH, GONE, NEW, Scaling, comparison_metrics

# Maximum number of nodes sent, largest times first.
NODES_SENT = 20_000
_TREE_COLUMNS = ("name", "node_kind", "presence", "base_calls", "exp_calls", "base_ns", "exp_ns", "delta_ns")


def both_trees(base: Part, exp: Part, measure: str, scaling: Scaling) -> Tree:
    """Merges two call trees into one tree in pre-order. Nodes without time on either side are omitted."""
    left, right = base.frames["call_tree"].data.to_pydict(), exp.frames["call_tree"].data.to_pydict()
    pairs = align(_nodes(left), left["parent_node"], _nodes(right), right["parent_node"])
    on_device = measure.startswith("device")
    value = "device_ns" if on_device else "host_ns"
    times = _times(pairs, left[value], right[value])
    rows: list[dict[str, Scalar]] = []
    for pair, (base_ns, exp_ns) in zip(pairs, times, strict=True):
        one = left if pair.left != MISSING else right
        at = pair.left if pair.left != MISSING else pair.right
        other_name = right["name"][pair.right] if pair.right != MISSING else ""
        rows.append(
            {
                "name": one["name"][at] if other_name in ("", one["name"][at]) else f"{one['name'][at]} → {other_name}",
                "node_kind": one["node_kind"][at],
                "presence": BOTH if pair.left != MISSING != pair.right else GONE if pair.right == MISSING else NEW,
                "base_calls": _number(left, "calls", pair.left, scaling.base),
                "exp_calls": _number(right, "calls", pair.right, scaling.exp),
                "base_ns": (before := _over(base_ns, scaling.base)),
                "exp_ns": (after := _over(exp_ns, scaling.exp)),
                "delta_ns": after - before,
            }
        )
    timed = [i for i, row in enumerate(rows) if row["base_ns"] or row["exp_ns"]]
    kept = _largest(rows, timed)
    position = {pair: i for i, pair in enumerate(kept)}
    measures = comparison_metrics(value, scaling)
    return Tree(
        name="call_tree",
        title="Call tree",
        columns=[Column(measures.get(key) or METRICS.metric(key)) for key in _TREE_COLUMNS],
        parent=[position.get(pairs[i].parent, MISSING) for i in kept],
        rows=[rows[i] for i in kept],
        label_column="name",
        value_columns=["exp_ns", "base_ns"],
        total_nodes=len(timed),
    )


def _nodes(tree: dict[str, list[str]]) -> list[Node]:
    return [Node(kind, name) for kind, name in zip(tree["node_kind"], tree["name"], strict=True)]


def _number(tree: dict[str, list[int]], column: str, node: int, count: int) -> int | float:
    return _over(tree[column][node] if node != MISSING else 0, count)


def _over(value: int, count: int) -> int | float:
    return value if count == 1 else value / count


def _times(pairs: Sequence[Pair], left: Sequence[int], right: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the times of each pair, ns. The time of a missing node is the sum over the children of the pair."""
    base = [0 if pair.left == MISSING else left[pair.left] for pair in pairs]
    exp = [0 if pair.right == MISSING else right[pair.right] for pair in pairs]
    for i in range(len(pairs) - 1, -1, -1):  # children come after their parents
        above = pairs[i].parent
        if above != MISSING and pairs[above].left == MISSING:
            base[above] += base[i]
        if above != MISSING and pairs[above].right == MISSING:
            exp[above] += exp[i]
    return list(zip(base, exp, strict=True))


def _largest(rows: list[dict[str, Scalar]], timed: list[int]) -> list[int]:
    def weight(i: int) -> float:
        return max(float(rows[i]["base_ns"] or 0), float(rows[i]["exp_ns"] or 0))

    # A parent precedes its children and has at least as much time, so a stable sort ranks it before them.
    return sorted(sorted(timed, key=weight, reverse=True)[:NODES_SENT])
