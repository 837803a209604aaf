"""An operator of an execution trace: its tensors, who made them, and who uses what it gives."""

from __future__ import annotations

from typing import Any

import pytest

from tb_plugin.analysis.base import Params, Part
from tb_plugin.errors import BadRequest, NotFoundError
from tb_plugin.views.execution_nodes.view import ExecutionNodes, last_inside
from tests.execution_traces import document, execution_trace, node, tensor

A, B, C, D = (tensor(number) for number in (101, 102, 103, 104))
TRACE = execution_trace(
    document(
        node(2, 1, "range", function=20),
        node(3, 2, "linear", [A], [B], function=1),
        node(4, 3, "mm", [A], [B], function=2),
        node(5, 2, "relu", [B], [C], function=3),
        node(6, 5, "clamp", [B], [C], function=4),
        node(7, 2, "add_", [B, C], [B], function=5),
        node(8, 2, "sum", [B], [D], function=6),
    )
)


def part(trace: Any = TRACE, **extra: str) -> Part:
    return ExecutionNodes().part(trace, Params(extra=tuple(extra.items())))


def links(function: int, trace: Any = TRACE) -> list[tuple[str, str, int]]:
    rows = part(trace, function_id=str(function)).frames["node_links"].data.to_pylist()
    return [(row["node_relation"].split()[0], row["name"], row["tensor_id"]) for row in rows]


def test_a_node_by_its_id() -> None:
    """Also one that is no call of the trace beside it."""
    uncalled = execution_trace(document(node(2, 1, "mm", [A], [B]), node(3, 1, "relu", [B], [C], function=9)))
    found = part(uncalled, node_number="2")
    assert found.frames["node_tensors"].data["tensor_id"].to_pylist() == [101, 102]
    assert found.frames["node_links"].data["name"].to_pylist() == ["relu"]
    with pytest.raises(NotFoundError):
        part(uncalled, node_number="9")
    with pytest.raises(NotFoundError):
        part(uncalled, function_id="0")
    keys = {ExecutionNodes().part_key(Params(extra=(pair,))) for pair in (("node_number", "9"), ("function_id", "9"))}
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (1, [("uses", "relu", 102), ("uses", "add_", 102)]),  # behind add_ its value is another one
        (3, [("made", "mm", 102), ("uses", "add_", 103)]),  # the innermost made it, the outermost uses it
        (5, [("made", "mm", 102), ("made", "clamp", 103), ("uses", "sum", 102)]),
        (6, [("made", "add_", 102)]),
        (20, []),
    ],
)
def test_who_made_and_who_uses(function: int, expected: list[tuple[str, str, int]]) -> None:
    assert links(function) == expected


def test_the_tensors_of_a_node() -> None:
    found = part(function_id="5")
    rows = found.frames["node_tensors"].data.to_pylist()
    told = [
        (row["tensor_side"], row["tensor_position"], row["tensor_id"], row["storage_id"], row["recorded_tensor_bytes"])
        for row in rows
    ]
    assert told == [("in", 0, 102, 1102, 24), ("in", 1, 103, 1103, 24), ("out", 0, 102, 1102, 24)]
    figures = {figure.metric.key: figure.value for figure in found.payloads["node"].figures}  # type: ignore[union-attr]
    assert figures == {"name": "add_", "function_id": 5, "process_id": "77", "operator_schema": "add_(...)"}


def test_all_nodes() -> None:
    found = part()
    rows = found.frames["execution_nodes"].data.to_pylist()
    assert [(row["name"], row["tensors_in"], row["tensors_out"]) for row in rows][:2] == [
        ("range", 0, 0),
        ("linear", 1, 1),
    ]
    assert found.facts == {"execution.nodes": 7, "execution.tensors": 4}


def test_what_is_not_there_is_said() -> None:
    for number in ("0", "999"):
        with pytest.raises(NotFoundError):
            part(function_id=number)
    with pytest.raises(BadRequest):
        part(function_id="x")


def test_parents_that_cannot_be() -> None:
    """A node around itself, one that begins later, a circle: none of them is around anything."""
    trace = execution_trace(document(node(2, 3, "a"), node(3, 2, "b"), node(4, 4, "c"), node(5, 999, "d")))
    assert last_inside(trace).tolist() == [1, 1, 2, 3]


def test_threads_take_turns() -> None:
    """Ids of two threads alternate: a node is over where the last one inside it is."""
    trace = execution_trace(
        document(
            node(2, 1, "left", [], [A], function=1), node(3, 1, "right", [], [B], function=2),
            node(4, 2, "inner", [], [A], function=3), node(5, 3, "other", [A], [B], function=4),
            node(6, 1, "use", [A, B], [], function=5),
        )
    )  # fmt: skip
    assert links(5, trace) == [("made", "inner", 101), ("made", "other", 102)]
    assert links(4, trace)[0] == ("made", "inner", 101)
