"""Replays that the generator invents: operators and modules have the device time that its truth tells, to the nanosecond."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tb_plugin.model.trace.schema import DEVICE_WORK, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Tree
from tests.builders import facts, model, part, paths, rows
from tests.conftest import SAMPLES

Json = dict[str, Any]


@pytest.fixture(scope="module")
def table() -> TraceTable:
    (path,) = (SAMPLES / "synthetic_graphs").glob("*.gz")
    return model(path)


@pytest.fixture(scope="module")
def truth() -> Json:
    found: Json = json.loads((SAMPLES / "truth" / "synthetic_graphs.json").read_text())
    return found


def of_both(truth: Json, key: str) -> Counter[str]:
    """The step that ran eagerly and the replays, which the trace has both."""
    return Counter(truth["eager"][key]) + Counter(truth["replayed"][key])


def test_operators_have_the_device_time_of_the_truth(table: TraceTable, truth: Json) -> None:
    found = {r["name"]: r for r in rows(table, "operators") if r["replayed_calls"]}
    own, total = of_both(truth, "operators_self_ns"), of_both(truth, "operators_total_ns")
    assert {name: r["device_self_ns"] for name, r in found.items() if r["device_self_ns"]} == own
    assert {name: r["device_total_ns"] for name, r in found.items()} == total
    # Each graph ran eagerly once, was captured once, and was replayed equally often.
    (replays,) = {graph["replays"] for graph in truth["graphs"]}
    assert all(2 * r["replayed_calls"] == replays * r["calls"] for r in found.values()) and len(found) > 9
    work = of_kind(table.kind, *DEVICE_WORK)
    assert sum(r["device_self_ns"] for r in rows(table, "operators")) == table.dur_ns[work].sum() == truth["device_ns"]
    assert facts(table)["trace.no_operator_ns"] == 0


def test_modules_have_the_device_time_of_the_truth(table: TraceTable, truth: Json) -> None:
    tree = part(table, "modules").payloads["tree"]
    assert isinstance(tree, Tree)
    named = paths(tree.rows, tree.parent, "module")
    found = {"/".join(path): node["device_total_ns"] for path, node in zip(named, tree.rows, strict=True)}
    assert found == of_both(truth, "modules_total_ns")
