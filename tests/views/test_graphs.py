"""Graphs on invented replays whose truth is known, and on traces that fit on a screen."""

from __future__ import annotations

import dataclasses
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tb_plugin.model.trace.graph_capture import Captured
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.graphs.tables import Repeated, repeated_part
from tb_plugin.views.graphs.view import GraphsAnalysis
from tb_plugin.views.overview.data_quality import data_notices
from tests import synthetic_graphs
from tests.builders import TraceBuilder, kernel, memset, model, part, rows, trace
from tests.captured import with_other
from tests.conftest import SHARED, needs_shared
from tests.synthetic_graphs import Plan

Json = dict[str, Any]
GRAPH = "cudaGraphLaunch"
PLANS = {
    "captured": Plan(batches=(8, 32), layers=3),
    "captured, hip": Plan(arch="rocm", streams=2, warm_up=False, seed=1),
    "eager": Plan(batches=(8, 16), capture="eager", steps="profiler", seed=2),
    "annotated": Plan(annotations=True, seed=3),
    "annotated only": Plan(capture="none", annotations=True, seed=4),
    "nothing": Plan(capture="none", arch="rocm", seed=5),
    "beside": Plan(batches=(8, 32), capture="beside", arch="rocm", warm_up=False, seed=6),
}


def opened(plan: Plan) -> tuple[TraceTable, list[TraceTable], Json]:
    """The trace of the replays, those of captures beside it, and the truth."""
    files, truth = synthetic_graphs.generate(plan)
    first, *others = (model(file.text().encode()) for file in files if file.recorder is not None)
    return first, others, truth


@cache
def made(name: str) -> tuple[TraceTable, Json]:
    """A trace that knows what a sibling, where its plan has one, tells of the graphs."""
    plan = PLANS[name]
    table, others, truth = opened(dataclasses.replace(plan, capture="sibling") if plan.capture == "beside" else plan)
    for other in others:
        table = with_other(table, other, "beside")
    return table, truth


@pytest.mark.parametrize("name", sorted(PLANS))
def test_replays_come_to_what_was_invented(name: str) -> None:
    table, truth = made(name)
    found = {row["graph_device_ns"]: row for row in rows(table, "graphs")}
    assert len(found) == len(truth["graphs"])
    for told in truth["graphs"]:
        row = found[told["device_ns"]]
        assert (row["replays"], row["graph_nodes"]) == (told["replays"], told["nodes"])
        assert row["node_gaps_ns"] == told["node_gaps_ns"]
        assert (row["replay_gaps_ns"] or 0) == told["replay_gaps_ns"]
        assert row["graph_launch_ns"] == told["launch_ns"]
        assert row["captured_graph"] == str(told["graph_id"]) or PLANS[name].arch == "rocm"
    facts = part(table, "graphs").facts
    assert facts["graphs.device_ns"] == truth["replayed"]["device_ns"]
    assert facts["graphs.share"] == truth["replayed"]["device_ns"] / truth["device_ns"]
    ways = [facts[key] for key in facts if key.startswith("graphs.by_")]
    assert sum(ways) + facts["graphs.untied_ns"] == facts["graphs.device_ns"]


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("captured", "graphs.by_capture_ns"),
        ("captured, hip", "graphs.by_capture_ns"),
        ("eager", "graphs.by_eager_ns"),
        ("annotated", "graphs.by_capture_ns"),
        ("annotated only", "graphs.by_annotation_ns"),
        ("nothing", "graphs.by_graph_ns"),
        ("beside", "graphs.by_capture_trace_ns"),
    ],
)
def test_nodes_have_the_operators_and_modules_of_the_capture(name: str, fact: str) -> None:
    table, truth = made(name)
    assert part(table, "graphs").facts[fact] == truth["replayed"]["device_ns"]
    nodes = rows(table, "graphs", "graph_nodes", limit=None)
    operators: Counter[str] = Counter()
    modules: Counter[str] = Counter()
    for node in nodes:
        operators[node.get("node_operator") or ""] += node["node_total_ns"]
        modules[node.get("node_module") or ""] += node["node_total_ns"]
    if fact in ("graphs.by_annotation_ns", "graphs.by_graph_ns"):
        assert operators == {"": truth["replayed"]["device_ns"]}
    else:
        assert operators == truth["replayed"]["operators_self_ns"]
    if name == "annotated only":
        assert modules == truth["replayed"]["regions_ns"]


def test_layers_repeat() -> None:
    table, _ = made("captured")
    for row in rows(table, "graphs"):
        assert (row["graph_repeats"], row["repeat_nodes"]) == (3, 14) and 0.8 < row["repeat_ratio"] < 1
    nodes = [row for row in rows(table, "graphs", "graph_nodes", limit=None) if row["captured_graph"] == "3"]
    assert [row["graph_node"] for row in nodes] == list(range(1, len(nodes) + 1))
    assert [row["node_repeat"] for row in nodes].count(2) == 14 and nodes[0]["node_repeat"] is None


@pytest.mark.parametrize("wrong", ["kernel", "layers"])
def test_a_wrong_capture_says_how_much_of_it_matches(wrong: str) -> None:
    plan = Plan(capture="beside", arch="rocm", wrong=wrong, seed=5)
    table, (other,), truth = opened(plan)
    table = with_other(table, other, "bs_8")
    (told,) = truth["refused"]
    found = part(table, "graphs")
    (row,) = rows(table, "graphs")
    assert row["graph_agreement"].startswith(f"{told['node']} of ") and row["graph_tied_ratio"] == 0
    (note,) = found.payloads["graph_notes"].notices
    assert note.text == f"1 graph matches no capture: at most {row['graph_agreement']} match."
    assert found.facts["graphs.by_graph_ns"] == truth["replayed"]["device_ns"]


def replayed(*durations: int, gap: int = 0) -> TraceBuilder:
    """A graph of kernels after each other, launched at 0 by a program that runs until 200."""
    built, works, at = trace().python("serve.py(3): run", 0, 200), [], 10
    for place, dur in enumerate(durations):
        works.append(kernel(f"k{place}", dur, at=at))
        at += dur + gap
    return built.launches(*works, at=0, dur=5, name=GRAPH)


def test_gaps_of_a_replay_are_those_between_its_own_work() -> None:
    built = replayed(10, 20, gap=3)
    built.launches(kernel("between", 5, at=60), at=50, dur=4)
    built.launches(kernel("k0", 10, at=100), memset(20, at=113), at=90, dur=5, name=GRAPH)
    table = built.table()
    first, second = rows(table, "graphs", "graph_replays")
    assert (first["replay_node_gaps_ns"], first["replay_gap_ns"]) == (3000, None)
    # From 43, the end of the first, to 100, less the kernel between.
    assert second["replay_gap_ns"] == 52_000 and second["dur_ns"] == 33_000


def test_a_trace_without_graphs_says_so_and_one_without_their_work_as_well() -> None:
    view = GraphsAnalysis()
    plain = view.missing(trace().op("aten::mm", 0, 2).launches(kernel("k", 1), at=0, dur=1).table())
    assert plain is not None and plain.why == "The trace contains no launches of captured graphs."
    empty = view.missing(trace().call(0, 1, name=GRAPH).table())
    assert empty is not None and "no device work" in empty.why and empty.enable


def test_steps_without_replays_leave_an_empty_table() -> None:
    table, truth = made("eager")
    view = part(table, "graphs", steps=(table.steps.label[0],))
    assert view.facts["graphs.replays"] == 0 and view.frames["graphs"].data.num_rows == 0
    last = part(table, "graphs", steps=(table.steps.label[-1],))
    assert last.facts["graphs.replays"] == 1 < sum(graph["replays"] for graph in truth["graphs"])


@pytest.mark.parametrize(
    ("token", "found"),
    [
        ([9, *[1, 2, 3, 4] * 3, 8], Repeated(1, 4, 3)),
        # Two begins are free: that which holds the longer node.
        ([9, *[1, 2, 3, 4] * 3, 1, 8], Repeated(2, 4, 3)),
        ([*[1, 2, 3, 1, 2, 4] * 2, 1], Repeated(1, 6, 2)),
        ([1, 2, 3, 4, 9, 9, 9, 9, 9, 1, 2, 3, 4], None),
        ([1, 2, 3, 1, 2, 3], None),
        ([1, 2, 3, 4, 5], None),
        ([], None),
    ],
)
def test_what_repeats_covers_most_of_a_sequence(token: list[int], found: Repeated | None) -> None:
    assert repeated_part(np.array(token, np.int64), np.arange(len(token))) == found


@needs_shared
def test_a_recorded_decode_step_repeats_once_a_layer() -> None:
    (path,) = (SHARED / "data" / "tracelens" / "sglang_decode").iterdir()
    (row,) = rows(model(path), "graphs")
    assert (row["replays"], row["graph_repeats"], row["repeat_nodes"]) == (1, 36, 15)
    assert row["launch_phase"] == "step[DECODE bs=32]" and row["node_gaps_ns"] > 0


def test_what_to_do_about_a_capture_that_is_missing_or_empty() -> None:
    table = replayed(10, 20).table()
    (missing,) = part(table, "graphs").payloads["graph_notes"].notices
    assert missing.rule == "graphs.capture_missing" and "capture_traces/" in missing.todo
    (told,) = [each for each in data_notices(table) if each.rule == "no_operator"]
    assert "replays" in told.todo and missing.todo in told.todo
    (empty,) = (
        part(replace(replayed(10, 20).table(), captured=Captured(source="w/1")), "graphs")
        .payloads["graph_notes"]
        .notices
    )
    assert empty.rule == "graphs.capture_empty" and empty.figures[0].value == "w/1"
    known, _ = made("captured")
    assert "graph_notes" not in part(known, "graphs").payloads
