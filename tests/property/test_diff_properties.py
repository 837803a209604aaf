"""Diff: swapping the sides turns every sign, a trace against itself is zero, and nothing is lost on the way."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.base import Params, Part
from tb_plugin.model.trace.schema import DEVICE_WORK, EventKind
from tb_plugin.payloads import Tree, View
from tb_plugin.views.diff.alignment import Node, align, longest_common_subsequence
from tb_plugin.views.diff.view import Diff
from tests.builders import TraceBuilder, trace, whole_part
from tests.depth import examples
from tests.property.test_trace_properties import builders
from tests.views.test_diff import waterfall

MEASURES = ("device_self_ns", "device_total_ns", "host_self_ns", "host_total_ns")
TABLES = ("operators", "operators_by_shape", "kernels", "modules")
SWAPPED = {"both": "both", "new": "gone", "gone": "new"}
choices = st.tuples(st.sampled_from(MEASURES), st.sampled_from(("step", "total")))


def answer(base: Part, exp: Part, how: tuple[str, str]) -> View:
    view = Diff().answer([base, exp], Params(limit=None, extra=(("measure", how[0]), ("per", how[1]))))
    assert isinstance(view, View)
    return view


def table_rows(view: View, name: str) -> dict[Any, dict[str, Any]]:
    payload: Any = view.payloads[name]
    found = {tuple(row[key] for key in payload.row_key): row for row in payload.rows}
    assert len(found) == len(payload.rows)
    return found


def tree_rows(view: View) -> list[tuple[Any, ...]]:
    """(path of both names, presence, both times, change), whatever the order of siblings."""
    payload = view.payloads["call_tree"]
    assert isinstance(payload, Tree)
    paths: list[tuple[Any, ...]] = []
    found = []
    for row, above in zip(payload.rows, payload.parent, strict=True):
        name = tuple(sorted(str(row["name"]).split(" → ")))
        paths.append((*(paths[above] if above >= 0 else ()), name))
        found.append((paths[-1], row["presence"], row["base_ns"], row["exp_ns"], row["delta_ns"]))
    return found


@examples(suite=15, deep=500)
@given(builders(), builders(), choices)
def test_swapping_turns_every_sign(one: TraceBuilder, other: TraceBuilder, how: tuple[str, str]) -> None:
    a, b = whole_part(one.table(), "diff"), whole_part(other.table(), "diff")
    there, back = answer(a, b, how), answer(b, a, how)
    assert waterfall(there) == {key: -value for key, value in waterfall(back).items()}
    for name in TABLES:
        left, right = table_rows(there, name), table_rows(back, name)
        assert left.keys() == right.keys()
        for key, row in left.items():
            mirror = right[key]
            assert (row["delta_ns"], row["delta_calls"]) == (-mirror["delta_ns"], -mirror["delta_calls"])
            assert (row["base_ns"], row["exp_ns"]) == (mirror["exp_ns"], mirror["base_ns"])
            assert row["presence"] == SWAPPED[mirror["presence"]]
    mirrored = [(path, SWAPPED[presence], exp, base, -change) for path, presence, base, exp, change in tree_rows(back)]
    assert sorted(tree_rows(there)) == sorted(mirrored)


@examples(suite=15, deep=500)
@given(builders(), choices)
def test_a_trace_against_itself_is_zero(one: TraceBuilder, how: tuple[str, str]) -> None:
    part = whole_part(one.table(), "diff")
    view = answer(part, part, how)
    assert set(waterfall(view).values()) <= {0}
    for name in TABLES:
        assert all(
            r["delta_ns"] == r["delta_calls"] == 0 and r["presence"] == "both" for r in table_rows(view, name).values()
        )
    assert all(change == 0 and presence == "both" for _, presence, _, _, change in tree_rows(view))


@examples(suite=15, deep=500)
@given(builders())
def test_every_nanosecond_stands_at_one_place(one: TraceBuilder) -> None:
    table = one.table()
    part = Diff().part(table, Params())
    nodes = part.frames["call_tree"].data.to_pydict()
    for value in ("host_ns", "device_ns"):
        below = [0] * len(nodes["tree_node"])
        for above, time in zip(nodes["parent_node"], nodes[value], strict=True):
            if above >= 0:
                below[above] += time
        assert all(own <= time for own, time in zip(below, nodes[value], strict=True))
    top = [i for i, above in enumerate(nodes["parent_node"]) if above < 0]
    work = np.isin(table.kind, DEVICE_WORK)
    assert sum(nodes["device_ns"][i] for i in top) == table.dur_ns[work].sum()
    leaves = {"kernel", "memcpy", "memset"}
    assert sum(c for c, k in zip(nodes["calls"], nodes["node_kind"], strict=True) if k in leaves) == work.sum()
    calls = np.isin(table.kind, (EventKind.OPERATOR, EventKind.MODULE)).sum()
    assert (
        sum(c for c, k in zip(nodes["calls"], nodes["node_kind"], strict=True) if k in ("operator", "module")) == calls
    )


names = st.lists(st.sampled_from(("A_0", "A_1", "A_2", "B_0", "B_1", "C_0")), max_size=9)


@given(names, names)
def test_aligned_sequences_are_common_increasing_and_symmetric(left: list[str], right: list[str]) -> None:
    ours, theirs = [Node("module", name) for name in left], [Node("module", name) for name in right]
    pairs = longest_common_subsequence(ours, theirs)
    assert longest_common_subsequence(theirs, ours) == [(j, i) for i, j in pairs]
    assert all(ours[i].base == theirs[j].base for i, j in pairs)
    assert all(a < c and b < d for (a, b), (c, d) in pairwise(pairs))
    weight = sum(3 if ours[i] == theirs[j] else 2 for i, j in pairs)
    assert weight == heaviest(ours, theirs)


def heaviest(left: list[Node], right: list[Node]) -> int:
    """By definition, cell by cell."""
    best = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i, one in enumerate(left):
        for j, other in enumerate(right):
            worth = 3 if one == other else 2 if one.base == other.base else None
            options = [best[i][j + 1], best[i + 1][j]]
            best[i + 1][j + 1] = max(options if worth is None else [*options, best[i][j] + worth])
    return best[-1][-1]


def test_every_node_is_in_one_pair() -> None:
    left = [Node("module", "A_0"), Node("module", "B_0"), Node("operator", "x")]
    right = [Node("module", "B_3"), Node("operator", "x"), Node("operator", "y")]
    pairs = align(left, [-1, -1, 1], right, [-1, 0, 0])
    assert sorted(p.left for p in pairs if p.left >= 0) == [0, 1, 2]
    assert sorted(p.right for p in pairs if p.right >= 0) == [0, 1, 2]
    assert [(p.left, p.right) for p in pairs] == [(0, -1), (1, 0), (2, 1), (-1, 2)]


def test_a_trace_of_nothing() -> None:
    part = whole_part(trace().table(), "diff")
    assert tree_rows(answer(part, part, ("host_self_ns", "step"))) == []
