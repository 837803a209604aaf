"""Modules of replayed work: the tree and the tables of a replay have the device time of the step that ran eagerly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Tree
from tests.builders import kernel, part, payload_of, row, rows, trace
from tests.origins import GRAPH, tell, with_origins, with_replays

DEVICE = ("device_total_ns", "device_self_ns", "backward_device_total_ns", "backward_device_self_ns")


@pytest.fixture(scope="module")
def table() -> TraceTable:
    return with_origins(with_replays().table(), "1")


def tree(table: TraceTable, step: str) -> dict[tuple[str, ...], tuple[Any, ...]]:
    """The device times of each place, by the path of modules."""
    found = payload_of(part(table, "modules", (step,)), "tree", Tree)
    paths: list[tuple[str, ...]] = []
    for node, above in zip(found.rows, found.parent, strict=True):
        paths.append((*(paths[above] if above >= 0 else ()), str(node["module"])))
    return {path: tuple(node.get(key, 0) for key in DEVICE) for path, node in zip(paths, found.rows, strict=True)}


def test_the_tree_of_a_replay_is_that_of_the_eager_step(table: TraceTable) -> None:
    eager = tree(table, "1")
    assert eager[("Net_0", "Linear_0")][0] == 14_000
    assert {path: times for path, times in tree(table, "2").items() if any(times)} == eager


def test_backward_work_counts_for_the_module_of_its_forward_operator(table: TraceTable) -> None:
    eager, again = (row(table, "modules", steps=(step,), module="Linear_0") for step in "12")
    assert eager["backward_device_self_ns"] == 13_000
    assert [again[key] for key in DEVICE] == [eager[key] for key in DEVICE]


def test_calls_and_replays_are_counted_apart(table: TraceTable) -> None:
    found = row(table, "modules", module="Linear_0")
    assert (found["calls"], found["replayed_calls"], found["device_total_ns"]) == (1, 2, 3 * 14_000)
    assert part(table, "modules").facts["modules.calls"] == 3
    assert part(table, "modules", ("2",)).facts["modules.calls"] == 0


def test_device_self_of_all_modules_is_the_device_time_that_has_a_module(table: TraceTable) -> None:
    found = rows(table, "modules")
    assert sum(r["device_self_ns"] + r["backward_device_self_ns"] for r in found) == 3 * (11 + 3 + 5 + 13) * 1_000


def test_a_module_that_is_open_around_capture_and_launch_is_one() -> None:
    builder = trace().step(1, 0, 100).module("Net", 1, 60).module("Linear", 2, 30, id=2).op("aten::mm", 3, 10)
    builder.launches(kernel("gemm", 5, at=20))
    builder.step(2, 200, 100).module("Net", 201, 60).launches(kernel("gemm", 5, at=220), at=210, name=GRAPH)
    table = with_origins(builder.table(), "1")
    assert (
        tree(table, "2")
        == tree(table, "1")
        == {("Net_0",): (5_000, 0, 0, 0), ("Net_0", "Linear_0"): (5_000, 5_000, 0, 0)}
    )
    found = row(table, "modules", steps=("2",), module="Net_0")
    assert (found["calls"], found["replayed_calls"]) == (1, 0)


def test_compiled_code_that_was_captured_has_the_work_of_its_replays() -> None:
    name = "Torch-Compiled Region: 0/0"
    builder = trace().step(1, 0, 100).op(name, 1, 50).op("triton_kernel", 3, 10).launches(kernel("triton", 5, at=20))
    builder.step(2, 200, 100).python("serve.py(1): run", 201, 50)
    builder.launches(kernel("triton", 5, at=220), at=210, name=GRAPH)
    table = with_origins(builder.table(), "1")
    found = row(table, "modules", "compiled", region="0/0")
    assert (found["calls"], found["replayed_calls"], found["device_total_ns"]) == (1, 1, 10_000)


def test_modules_that_only_a_capture_has_are_shown() -> None:
    """The capture is in another trace: the modules have no rows in this one."""
    table = with_origins(with_replays(1).table(), "1")
    origins = origins_of(table)
    none = np.full(len(origins.scopes), -1, np.int32)
    tell(table, replace(origins, scopes=replace(origins.scopes, row=none)))
    assert {r["module"]: r["device_total_ns"] for r in rows(table, "modules", steps=("2",))} == {
        "Net_0": 19_000,
        "Linear_0": 14_000,
        "Act_0": 5_000,
    }
