"""Replayed work in call trees and stacks: below the launch of the graph stands what was open when it was captured."""

from __future__ import annotations

from typing import Any

import pytest

from tb_plugin.analysis.selection import select_rows
from tb_plugin.model.trace.schema import DEVICE_WORK
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.diff.call_tree import call_tree
from tb_plugin.views.diff.paired_tables import TABLES, TOTAL, Scaling, join
from tb_plugin.views.stacks.options import Choice
from tb_plugin.views.stacks.places import merged_stacks
from tests.builders import kernel, part, rows, trace
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
    joined = join(found[0], TABLES[0], found[1], "device_self_ns", Scaling(TOTAL, 1, 1))
    counts = {r["name"]: (r["base_calls"], r["exp_calls"], r["delta_calls"]) for r in joined.data.to_pylist()}
    assert counts["aten::mm"] == (2, 2, 0) and counts["aten::linear"] == (1, 1, 0)


CHOICES = [
    Choice(of=of, weight="device", fold=fold)
    for of in ("both", "python", "operators")
    for fold in ("none", "framework")
]


def device_paths(table: TraceTable, step: str, choice: Choice) -> dict[tuple[str, ...], int]:
    """Own device time by path, of places that have any."""
    found = merged_stacks(table, select_rows(table, (step,)), choice)
    names: list[tuple[str, ...]] = []
    times: dict[tuple[str, ...], int] = {}
    for place in range(len(found)):
        above = int(found.parent[place])
        names.append((*(names[above] if above >= 0 else ()), found.name[place]))
        times[names[-1]] = int(found.device_ns[place])
    return {path: ns for path, ns in times.items() if ns}


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: f"{choice.of}-{choice.fold}")
def test_below_the_launch_stand_the_frames_of_the_capture(table: TraceTable, choice: Choice) -> None:
    eager, again = (device_paths(table, step, choice) for step in "12")
    replay = ("(graph replay)",)
    around = () if choice.of == "operators" else ("train.py(9): serve",)
    # What the capture has no such frame around stands at the frame of the launch.
    bare = {("(no Python call)",): around}
    assert again == {bare.get(path, around + replay + path): ns for path, ns in eager.items()}


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: f"{choice.of}-{choice.fold}")
def test_all_places_sum_to_the_device_time(table: TraceTable, choice: Choice) -> None:
    for step in ("1", "2"):
        selection = select_rows(table, (step,))
        assert sum(device_paths(table, step, choice).values()) == table.dur_ns[selection.of(table, *DEVICE_WORK)].sum()


def test_functions_count_replays_as_no_calls(table: TraceTable) -> None:
    found: dict[str, Any] = {r["name"]: r for r in rows(table, "stacks", "functions", extra=(("weight", "device"),))}
    assert (found["aten::mm"]["calls"], found["(graph replay)"]["calls"]) == (2, 0)


def test_frames_around_capture_and_launch_stand_once() -> None:
    builder = trace().step(1, 0, 100).python("main.py(1): run", 1, 90, id=1).python("model.py(3): forward", 2, 50, id=2)
    builder.op("aten::mm", 3, 10).launches(kernel("gemm", 5, at=20))
    builder.step(2, 200, 100).python("main.py(1): run", 201, 90, id=3).python("graphs.py(3): replay", 202, 50, id=4)
    builder.launches(kernel("gemm", 5, at=220), at=210, name=GRAPH)
    table = with_origins(builder.table(), "1")
    found = device_paths(table, "2", Choice(of="python", weight="device"))
    assert found == {("main.py(1): run", "graphs.py(3): replay", "(graph replay)", "model.py(3): forward"): 5_000}


def test_one_thread_has_the_frames_of_what_it_launched(table: TraceTable) -> None:
    choice = Choice(of="python", weight="device", threads=("1",))
    assert sum(device_paths(table, "2", choice).values()) == 39_000


def test_in_order_of_time_replays_stand_as_well(table: TraceTable) -> None:
    choice = Choice(of="both", weight="device", order="time")
    assert sum(device_paths(table, "2", choice).values()) == 39_000


def test_by_host_time_own_device_times_sum_to_the_totals_too(table: TraceTable) -> None:
    found = merged_stacks(table, select_rows(table, ("2",)), Choice(of="both", weight="host"))
    assert "(graph replay)" in found.name
    assert found.device_ns.sum() == found.device_total_ns[found.parent < 0].sum() == 39_000
