"""What Diff compares, of a replay and of the step that ran eagerly: the same operators and modules."""

from __future__ import annotations

import pytest

from tb_plugin.analysis.selection import select_rows
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.diff.call_tree import call_tree
from tb_plugin.views.diff.paired_tables import TABLES, TOTAL, Scaling, join
from tests.builders import kernel, part, trace
from tests.origins import GRAPH, with_origins, with_replays


@pytest.fixture(scope="module")
def table() -> TraceTable:
    return with_origins(with_replays(1).table(), "1")


def tree(table: TraceTable, step: str) -> dict[tuple[str, ...], tuple[int, int]]:
    """Device time and calls by path, of nodes with device time."""
    data = call_tree(table, select_rows(table, (step,))).data.to_pydict()
    paths: list[tuple[str, ...]] = []
    for name, above in zip(data["name"], data["parent_node"], strict=True):
        paths.append((*(paths[above] if above >= 0 else ()), name))
    found = zip(paths, data["device_ns"], data["calls"], strict=True)
    return {path: (device, calls) for path, device, calls in found if device}


def test_the_call_tree_of_a_replay_is_that_of_the_eager_step(table: TraceTable) -> None:
    eager, again = tree(table, "1"), tree(table, "2")
    assert {path: device for path, (device, _) in again.items()} == {
        path: device for path, (device, _) in eager.items()
    }
    assert ("Backward", "autograd::engine::evaluate_function: MmBackward", "MmBackward", "aten::mm") in again
    linear = ("Forward", "Net_0", "Linear_0", "aten::linear")
    assert (eager[linear], again[linear]) == ((11_000, 1), (11_000, 0))
    assert again[(*linear, "aten::mm", "sgemm_fp16_tensorop")] == (11_000, 1)


def test_what_is_open_around_the_launch_stays_around_it() -> None:
    builder = trace().step(1, 0, 100).op("aten::mm", 3, 10).launches(kernel("gemm", 5, at=20))
    builder.step(2, 200, 100).module("Runner", 201, 60).launches(kernel("gemm", 5, at=220), at=210, name=GRAPH)
    assert set(tree(with_origins(builder.table(), "1"), "2")) == {
        ("Forward",),
        ("Forward", "Runner_0"),
        ("Forward", "Runner_0", "aten::mm"),
        ("Forward", "Runner_0", "aten::mm", "gemm"),
    }


def test_calls_that_replays_stand_for_are_calls_of_a_side(table: TraceTable) -> None:
    """A baseline that ran eagerly, and an experiment that replays: neither calls more than the other."""
    found = part(table, "operators", ("1",)), part(table, "operators", ("2",))
    joined = join(found[0], TABLES[0], found[1], "device_self_ns", Scaling(TOTAL, 1, 1), slower=True)
    counts = {r["name"]: (r["base_calls"], r["exp_calls"], r["delta_calls"]) for r in joined.data.to_pylist()}
    assert counts["aten::mm"] == (2, 2, 0) and counts["aten::linear"] == (1, 1, 0)
