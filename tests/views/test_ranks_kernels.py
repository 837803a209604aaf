"""Kernels side by side: variance across ranks by hand, on traces of GPUs and of NPUs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tb_plugin.analysis.base import Params, Part
from tb_plugin.analysis.skipped_workers import LeftOut
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Notice, Notices, Series, Table, View
from tb_plugin.views.ranks_kernels import view as ranks_kernels
from tb_plugin.views.ranks_kernels.view import Kind, RanksKernels
from tests.builders import kernel, trace
from tests.conftest import SAMPLE_FILES, sample
from tests.formats.ascend.folders import ALEXNET, folder, needs_recorded, table_of

RUNS = [{"a": [10, 20], "b": [5]}, {"a": [30], "b": [5]}, {"a": [20, 20], "c": [1]}]
"""Durations in microseconds of each kernel on three ranks."""


def rank(runs: dict[str, list[int]]) -> TraceTable:
    made, at = trace(), 0
    for name, durations in runs.items():
        for dur in durations:
            made.op(f"aten::{name}", at, 1).launches(kernel(name, dur))
            at += 100
    return made.table()


def parts_of(tables: Sequence[TraceTable], params: Params = Params()) -> list[Part]:  # noqa: B008
    view = RanksKernels()
    return [replace(view.part(table, params), worker=f"rank{place}") for place, table in enumerate(tables)]


def answer(parts: Sequence[Part], **asked: Any) -> Any:
    return RanksKernels().answer(parts, Params(**asked))


def told(view: View, name: str = "answer") -> list[Notice]:
    found = view.payloads[name]
    assert isinstance(found, Notices)
    return found.notices


def across(tables: Sequence[TraceTable]) -> list[dict[str, Any]]:
    found = answer(parts_of(tables), table="kernels_across_ranks", limit=None)
    assert isinstance(found, Table)
    return found.rows


def test_variance_across_ranks_by_hand() -> None:
    rows = {row["name"]: row for row in across([rank(runs) for runs in RUNS])}
    a = rows["a"]
    means = [15_000.0, 30_000.0, 20_000.0]
    assert a["ranks_deviation_ns"] == pytest.approx(statistics.pstdev(means))
    assert (a["kernel_workers"], a["calls"], a["total_ns"]) == (3, 5, 100_000)
    assert (a["slowest_worker"], a["fastest_worker"], a["slowest_ratio"]) == ("rank1", "rank0", 1.0)
    assert (a["slowest_mean_ns"], a["fastest_mean_ns"], a["total_apart_ns"]) == (30_000, 15_000, 10_000)
    assert (rows["b"]["ranks_deviation_ns"], rows["b"]["kernel_workers"], rows["c"]["kernel_workers"]) == (0, 2, 1)
    assert (a["longest_worker"], a["only_worker"]) == ("rank2", None)
    # b did not run on rank2, c on rank2 alone: what did not run took 0.
    assert (rows["b"]["total_apart_ns"], rows["b"]["only_worker"]) == (5_000, None)
    assert (rows["c"]["total_apart_ns"], rows["c"]["only_worker"]) == (1_000, "rank2")
    assert (rows["c"]["ranks_deviation_ns"], rows["c"]["slowest_ratio"]) == (None, None), "one rank differs from none"
    assert [row["name"] for row in across([rank(runs) for runs in RUNS])] == ["a", "b", "c"]


def test_work_of_one_rank_alone_comes_first() -> None:
    usual = {"a": [10], "b": [100]}
    tables = [rank(usual), rank({"a": [11], "b": [100]}), rank({**usual, "head": [40], "cast": [24]})]
    assert [row["name"] for row in across(tables)] == ["head", "cast", "a", "b"]
    first = told(answer(parts_of(tables)))[0]
    figures = {figure.metric.key: figure.value for figure in first.figures}
    assert first.rule == "kernels_apart"
    assert figures == {"name": "head", "longest_total_ns": 40_000, "only_worker": "rank2", "lone_kinds": 2}
    assert across([*tables, trace().op("aten::add", 0, 1).table()])[3]["total_apart_ns"] == 0, (
        "nobody recorded its kernels"
    )


def test_each_worker_has_its_own_variance() -> None:
    found = answer(parts_of([rank(runs) for runs in RUNS]), table="kernels_by_rank", limit=None)
    (row,) = (row for row in found.rows if (row["worker"], row["name"]) == ("rank0", "a"))
    assert (row["mean_ns"], row["min_ns"], row["max_ns"], row["rank_deviation_ns"]) == (15_000, 10_000, 20_000, 5_000)


def test_what_is_said() -> None:
    view = answer(parts_of([rank(runs) for runs in RUNS]))
    assert [notice.rule for notice in told(view)] == ["kernels_apart", "kernels_differ"]
    figures = {figure.metric.key: figure.value for figure in told(view)[0].figures}
    assert figures == {"name": "a", "longest_worker": "rank2", "longest_total_ns": 40_000, "shortest_total_ns": 30_000}
    figures = {figure.metric.key: figure.value for figure in told(view)[1].figures}
    assert (figures["name"], figures["slowest_worker"], figures["slowest_ratio"]) == ("a", "rank1", 1.0)
    series = view.payloads["slower_map"]
    assert isinstance(series, Series) and series.x == ["rank0", "rank1", "rank2"]
    assert [line.values for line in series.lines] == [[0, 1, pytest.approx(1 / 3)], [0, 0, None]]
    alike = answer(parts_of([rank({"a": [5]})] * 2))
    assert [notice.rule for notice in told(alike)] == ["kernels_alike"]
    alone = answer(parts_of([rank({"a": [5]})]))
    assert told(alone) == [] and "slower_map" not in alone.payloads
    failed = answer(parts_of([rank({"a": [5]})]), extra=LeftOut((("rank7", "It is damaged."),), ("rank8",)).params())
    broken, away = told(failed, "data_quality")
    assert (broken.rule, broken.text) == ("worker_failed", "Skipped because unreadable: {worker} (It is damaged).")
    assert [(figure.metric.key, figure.value) for figure in broken.figures] == [("worker", "rank7")]
    assert (away.rule, away.todo) == ("summary_alone", "Open the log directory that contains the trace.")
    assert away.text.startswith("Skipped: rank8. Only the summary of this worker is available")


def test_a_slow_rank_is_named() -> None:
    usual = {name: [10] for name in "abc"}
    view = answer(parts_of([rank(usual), rank(usual), rank({"a": [12], "b": [13], "c": [9]})]))
    notice = told(view)[2]
    figures = {figure.metric.key: figure.value for figure in notice.figures}
    assert notice.rule == "kernels_slow_rank"
    assert figures == {"slowest_worker": "rank2", "slowest_kinds": 2, "shared_kinds": 3}


def test_kinds_with_least_time_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks_kernels, "MOST_GROUPS", 1)
    parts = parts_of([rank(runs) for runs in RUNS])
    view = answer(parts)
    figures = {figure.metric.key: figure.value for figure in told(view, "data_quality")[0].figures}
    assert figures == {"left_out_kernels": 3, "left_out_kernels_ns": 11_000}
    assert [row["name"] for row in answer(parts, table="kernels_across_ranks").rows] == ["a"]
    lone = parts_of([rank({"a": [2], "b": [1]}), rank({"c": [2]})])
    rows = answer(lone, table="kernels_across_ranks").rows
    assert {row["name"]: row["only_worker"] for row in rows} == {"a": "rank0", "c": None}, "rank0 left b out, or c"


def test_shapes_and_types_tell_kernels_apart() -> None:
    def made(first: int, second: int) -> TraceTable:
        return (
            trace()
            .op("aten::mm", 0, 1, shapes=[[2, 8]], **{"Input type": ["float"]})
            .launches(kernel("gemm", first))
            .op("aten::mm", 200, 1, shapes=[[4, 8]], **{"Input type": ["float"]})
            .launches(kernel("gemm", second))
            .table()
        )

    rows = across([made(10, 50), made(20, 50)])
    assert [(row["input_shape"], row["kernel_types"], row["kernel_workers"]) for row in rows] == [
        ("[[2, 8]]", '["float"]', 2),
        ("[[4, 8]]", '["float"]', 2),
    ]
    assert [row["ranks_deviation_ns"] for row in rows] == [5_000, 0]


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=40))
def test_it_is_the_variance_of_means(means: list[int]) -> None:
    names = [f"rank{place}" for place in range(len(means))]
    durations = np.array(means, np.float64)
    kind = Kind(("a", "", ""), names, 1, durations, sum(means), durations, 0.0)
    assert sqrt(kind.variance) == pytest.approx(statistics.pstdev(means), abs=1e-6 * max(means))
    assert (means[kind.slowest], means[kind.fastest]) == (max(means), min(means))
    assert kind.slower is None if not min(means) else kind.slower == pytest.approx(max(means) / min(means) - 1)


def test_the_planted_rank_of_a_sample_is_found() -> None:
    """Rank 2 computes slower; communication, in which the others wait for it, is not compared."""
    tables = [sample(name) for name in SAMPLE_FILES if name.startswith("synthetic_ddp/")]
    view = answer(parts_of(tables))
    assert [notice.rule for notice in told(view)] == ["kernels_apart", "kernels_differ", "kernels_slow_rank"]
    assert {notice.figures[place].value for notice, place in zip(told(view)[1:], (1, 0), strict=True)} == {"rank2"}
    names = {row["name"] for row in across(tables)}
    assert not any("nccl" in name.lower() for name in names) and len(names) > 20


def test_steps_are_chosen() -> None:
    tables = [sample(name) for name in SAMPLE_FILES if name.startswith("synthetic_ddp/")][:2]
    whole = sum(row["calls"] for row in across(tables))
    labels = tuple(tables[0].steps.label)[:1]
    one = parts_of(tables, Params(steps=labels))
    chosen = answer(one, table="kernels_across_ranks", limit=None, steps=labels)
    assert sum(row["calls"] for row in chosen.rows) == whole // 3
    for parts, rows, steps in ((one, chosen.rows, 1), (parts_of(tables), across(tables), 3)):
        totals = [{(k["name"], k["input_shape"]): 0 for k in rows} for _ in parts]
        for mine, part in zip(totals, parts, strict=True):
            for kind in part.frames["kernels_by_rank"].data.to_pylist():
                mine[kind["name"], kind["input_shape"]] += kind["total_ns"]
        apart = {key: abs(mine - totals[1][key]) / steps for key, mine in totals[0].items()}
        assert {(row["name"], row["input_shape"]): row["total_apart_ns"] for row in rows} == pytest.approx(apart)


@needs_recorded
def test_kernels_of_npus_have_shapes_and_types_of_their_own() -> None:
    """Each row of the table of kernels is in one kind, with the digits of its duration."""
    tables = [table_of(folder(ALEXNET.parent / name.name)) for name in sorted(ALEXNET.parent.glob("rank_*"))]
    rows = across(tables)
    (row,) = (row for row in rows if row["name"] == "aclnnAddmm_MatMulCommon_MatMulV2" and row["slowest_ratio"] > 0.1)
    assert row["kernel_workers"] == 2 and ";" in row["input_shape"] and "FLOAT" in row["kernel_types"]
    assert sum(row["calls"] for row in rows) == 2 * (191 - 4)
