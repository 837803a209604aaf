"""Execution traces: nodes and tensors as columns, in the order in which nodes begin; damage is counted."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
from typing import Any

import pytest

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.execution_trace.reader import ExecutionTraceReader
from tb_plugin.model.execution_trace import ExecutionTrace
from tests.execution_traces import document, execution_trace, node, tensor
from tests.formats.sources import DATA, issues, needs_data, read
from tests.formats.test_other_arguments import others

READER = ExecutionTraceReader()
TWO = document(
    node(3, 2, "aten::mm", [tensor(10), 5, tensor(11, 8, "cuda:0")], [tensor(12)], function=7),
    node(2, 1, "## step ##", function=6),
)


def rows(trace: ExecutionTrace) -> list[dict[str, Any]]:
    return trace.nodes.to_pylist()


def test_nodes_and_tensors() -> None:
    trace = execution_trace(TWO)
    assert rows(trace) == [
        {"node": 2, "parent": 1, "name": "## step ##", "function": 6, "thread": 1, "schema": "## step ##(...)"},
        {"node": 3, "parent": 2, "name": "aten::mm", "function": 7, "thread": 1, "schema": "aten::mm(...)"},
    ]
    found = trace.tensors.to_pylist()
    assert [(row["row"], row["is_output"], row["position"], row["tensor"], row["device"]) for row in found] == [
        (1, False, 0, 10, "cpu"), (1, False, 2, 11, "cuda:0"), (1, True, 0, 12, "cpu"),
    ]  # fmt: skip
    assert found[1] | {"row": 0} == {
        "row": 0, "is_output": False, "position": 2, "tensor": 11, "storage": 1011, "offset": 0, "elements": 8,
        "item_bytes": 4, "device": "cuda:0", "shape": "[2, 3]", "strides": "[3, 1]", "type": "Tensor(float)",
    }  # fmt: skip
    assert (trace.schema, trace.process) == ("1.1.1-chakra.0.0.4", 77)
    assert (trace.report.events_in_file, trace.report.events_loaded, trace.report.complete) == (2, 2, True)
    assert rows(execution_trace(gzip.compress(json.dumps(TWO).encode()))) == rows(trace)


def test_lists_of_tensors() -> None:
    inputs = {
        "values": [[tensor(1), tensor(2)], [3, 4]], "shapes": [[[2], [5]], [[], []]], "strides": [[[1], [1]], [[], []]],
        "types": ["GenericList[Tensor(float),Tensor(int)]", "GenericList[Int,Int]"],
    }  # fmt: skip
    trace = execution_trace(document(node(3, 2, "aten::cat") | {"inputs": inputs}))
    found = [(row["position"], row["tensor"], row["shape"], row["type"]) for row in trace.tensors.to_pylist()]
    assert found == [(0, 1, "[2]", "Tensor(float)"), (0, 2, "[5]", "Tensor(int)")]


@pytest.mark.parametrize("key", [*node(1, 0, "a"), "rf_id", "value", "shapes", "types", "values"])
def test_any_field_may_be_anything(key: str) -> None:
    for value in (None, "x", -1, 2**70, 1.5, [], [[]], {}, [None], [[None]], {"values": 5}, "é\u2028"):
        odd = json.loads(json.dumps(node(3, 2, "a", [tensor(1)], [tensor(2)], function=4)))
        for holder in [holder for holder in (odd, odd["inputs"], odd["attrs"][0]) if key in holder or key == "rf_id"]:
            holder[key] = value
        trace = execution_trace(document(odd, node(9, 2, "b")))
        assert len(rows(trace)) + sum(issues(trace).values()) == 2


def test_sizes_that_nothing_can_have_are_left_out() -> None:
    trace = execution_trace(document(node(3, 2, "a", [[1, 2, 0, 2**61, 4, "cpu"]])))
    assert trace.tensors["elements"].to_pylist() == [None] and trace.tensors["tensor"].to_pylist() == [1]


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
@pytest.mark.parametrize("is_packed", [False, True])
def test_what_is_cut_is_shown_as_far_as_it_goes(share: float, is_packed: bool) -> None:
    text = json.dumps(document(*(node(i, 1, f"op{i}", [tensor(i)]) for i in range(2, 202)))).encode()
    data = gzip.compress(text) if is_packed else text
    trace = execution_trace(data[: int(share * len(data))])
    assert not trace.report.complete and issues(trace).get("truncated_tail") == 1 and trace.process == 77
    assert 20 < len(trace) < 200 and rows(trace)[-1]["name"] == f"op{len(trace) + 1}"


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"nodes": 5}', b'{"nodes": [5]}', b"{" * 100_000])
def test_what_is_none_is_refused(content: bytes) -> None:
    with pytest.raises(UnreadableTrace) as caught:
        execution_trace(content)
    assert caught.value.where == "et.json"


@pytest.mark.parametrize(
    ("head", "is_one"),
    [
        (json.dumps(TWO).encode(), True),
        (b'{\n  "schema": "1.1.1-chakra.0.0.4", "pid": 1,\n "nodes": [', True),
        (b'{"schema": "1.0", "events": [', False),
        (b'{"traceEvents": []}', False),
        (b"", False),
    ],
)
def test_first_bytes(head: bytes, is_one: bool) -> None:
    assert READER.sniff(head) is is_one


def test_mutants_end_in_a_word() -> None:
    content = json.dumps(document(*(node(i, i - 1, "op", [tensor(i)], [tensor(i + 1)]) for i in range(2, 12)))).encode()
    chance = random.Random(14)
    for _ in range(300):
        mutant = bytearray(content)
        for _ in range(chance.choice((1, 3, 20))):
            at = chance.randrange(len(mutant))
            mutant[at : at + chance.randrange(3)] = bytes(chance.randrange(256) for _ in range(chance.randrange(3)))
        with contextlib.suppress(UnreadableTrace):
            assert len(execution_trace(bytes(mutant))) <= 12


@needs_data
def test_every_call_of_the_recorded_pair_has_its_node() -> None:
    folder = DATA / "torch213"
    nodes = execution_trace((folder / "execution_trace.json.gz").read_bytes()).nodes
    trace = read((folder / "execution_trace_companion.pt.trace.json.gz").read_bytes())
    stated = others(trace)["Record function id"]
    names = {number: trace.strings[trace.name[row]] for row, number in stated.items()}
    found = {row["function"]: row["name"] for row in nodes.to_pylist() if row["function"]}
    assert len(names) == 397 and names == found
