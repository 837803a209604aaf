"""Invented replays whose truth is known: what operators and modules come to in replays is what they came to when they ran."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tb_plugin.analysis.graphs.origins import Way, origins_of
from tb_plugin.analysis.graphs.replays import replays_of
from tb_plugin.analysis.selection import select_rows
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tests import synthetic_graphs as graphs
from tests.builders import model
from tests.captured import with_other
from tests.replayed_sums import Replayed, replayed_in
from tests.synthetic_graphs import Plan

Json = dict[str, Any]
PLANS = {
    "same": Plan(batches=(8, 32)),
    "same, no ids": Plan(ids=False, seed=1),
    "same, two streams": Plan(streams=2, steps="profiler", seed=2),
    "same, hip": Plan(batches=(8, 16), arch="rocm", warm_up=False, streams=2, seed=3),
    "beside": Plan(capture="beside", seed=4),
    "beside, hip": Plan(capture="beside", arch="rocm", warm_up=False, seed=5),
    "sibling": Plan(batches=(8, 32), capture="sibling", warm_up=False, seed=6),
    "eager": Plan(batches=(8, 32), capture="eager", seed=7),
    "eager, two streams": Plan(capture="eager", streams=2, seed=8),
    "annotated": Plan(annotations=True, warm_up=False, seed=9),
}


def made(plan: Plan) -> tuple[TraceTable, Json]:
    files, truth = graphs.generate(plan)
    table, *others = [model(file.text().encode()) for file in files if file.recorder is not None]
    return (with_other(table, others[0]) if others else table), truth


def sums(table: TraceTable, found: Replayed, kind: EventKind) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Device time by the innermost scope of a kind, by all around it, each name once, and by its path."""
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    paths: Counter[str] = Counter()
    inner = found.scopes.nearest(kind)
    for scope, ns in zip(found.scope.tolist(), found.dur_ns.tolist(), strict=True):
        names = []
        at = inner[scope]
        while at != MISSING:
            names.append(table.strings[int(found.scopes.name[at])].removeprefix("nn.Module: "))
            at = inner[found.scopes.parent[at]]
        own[names[0] if names else ""] += ns
        total.update(dict.fromkeys(names, ns))
        paths.update({"/".join(names[::-1][:depth]): ns for depth in range(1, len(names) + 1)})
    return own, total, paths


@pytest.mark.parametrize("name", PLANS)
def test_replays_come_to_what_the_step_came_to(name: str) -> None:
    table, truth = made(PLANS[name])
    found = replayed_in(table, select_rows(table, None))
    told = truth["replayed"]
    own, total, _ = sums(table, found, EventKind.OPERATOR)
    assert (dict(own), dict(total)) == (told["operators_self_ns"], told["operators_total_ns"])
    assert dict(sums(table, found, EventKind.MODULE)[2]) == told["modules_total_ns"]
    assert {Way(way).name.lower() for way in found.way.tolist()} == {truth["way"]}
    assert not origins_of(table).agreements


def test_annotations_alone_tell_the_regions() -> None:
    table, truth = made(Plan(capture="none", annotations=True, seed=2))
    found = replayed_in(table, select_rows(table, None))
    own, *_ = sums(table, found, EventKind.ANNOTATION)
    assert dict(own) == truth["replayed"]["regions_ns"]
    assert set(found.way.tolist()) == {Way.ANNOTATION}


def test_annotations_stand_around_the_captured_operators() -> None:
    table, truth = made(Plan(annotations=True, warm_up=False, seed=9))
    found = replayed_in(table, select_rows(table, None))
    regions: Counter[str] = Counter()
    for scope, ns in zip(found.scope.tolist(), found.dur_ns.tolist(), strict=True):
        while found.scopes.parent[scope] != MISSING:
            scope = int(found.scopes.parent[scope])
        regions[table.strings[int(found.scopes.name[scope])]] += ns
    assert dict(regions) == truth["replayed"]["regions_ns"]


def test_the_step_before_the_capture_tells_graphs_of_unlike_batches_apart() -> None:
    """Calls of CUDA do not name their kernels, nor say on which grid they run."""
    for warm_up in (True, False):
        table, truth = made(Plan(batches=(8, 32), warm_up=warm_up, seed=11))
        found = replayed_in(table, select_rows(table, None))
        operator = found.scopes.nearest(EventKind.OPERATOR)[found.scope]
        batch = {graph["graph_id"]: graph["batch"] for graph in truth["graphs"]}
        recorded = replays_of(table).graphs.recorded[found.graph]
        told = Counter[bool]()
        for scope, graph in zip(operator.tolist(), recorded.tolist(), strict=True):
            if table.strings[int(found.scopes.name[scope])] == "aten::gelu":
                shapes = table.strings[int(found.scopes.shapes[scope])]
                told[bool(shapes)] += 1
                assert not shapes or json.loads(shapes)[0][0] == batch[graph]
        assert set(told) == {warm_up}


def test_nothing_is_told_where_nothing_tells() -> None:
    for plan in (Plan(capture="none", seed=3), Plan(capture="none", arch="rocm", streams=2, seed=4)):
        table, truth = made(plan)
        found = replayed_in(table, select_rows(table, None))
        assert set(found.way.tolist()) == {Way.GRAPH} and set(found.scope.tolist()) == {MISSING}
        assert found.dur_ns.sum() == truth["replayed"]["device_ns"]


@pytest.mark.parametrize(
    ("wrong", "capture", "arch", "warm_up"),
    [
        ("kernel", "beside", "rocm", False),
        ("layers", "beside", "rocm", True),
        ("kernel", "sibling", "rocm", True),
        ("kernel", "beside", "cuda", True),  # whose kernels the step before the capture names
        ("layers", "sibling", "cuda", True),
    ],
)
def test_a_wrong_capture_is_not_used_and_says_how_much_matches(
    wrong: str, capture: str, arch: str, warm_up: bool
) -> None:
    table, truth = made(Plan(capture=capture, arch=arch, wrong=wrong, warm_up=warm_up, seed=5))
    assert set(origins_of(table).way.tolist()) == {Way.GRAPH}
    (agreement,) = origins_of(table).agreements.values()
    (told,) = truth["refused"]
    assert (agreement.source, agreement.agreeing, agreement.is_used) == ("capture.json", told["node"], False)


def test_a_capture_of_another_size_is_refused_without_names() -> None:
    table, _ = made(replace(PLANS["beside"], wrong="layers", warm_up=False))
    (agreement,) = origins_of(table).agreements.values()
    assert set(origins_of(table).way.tolist()) == {Way.GRAPH} and not agreement.is_used
