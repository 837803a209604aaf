"""The table of operations over all workers: against the rows of each worker, and a rank that is known to be slow."""

from __future__ import annotations

import statistics
from collections import defaultdict

import pytest

from tb_plugin.analysis.base import Params, Part
from tb_plugin.payloads import View
from tb_plugin.views.distributed.merge import join
from tb_plugin.views.distributed.view import Distributed
from tests.jobs_of_parts import table_of
from tests.many_ranks import many_parts
from tests.views.test_distributed import call, part_of


@pytest.fixture(scope="module")
def job() -> Part:
    """64 ranks of which rank5 is slow: eight tensor groups, and all ranks."""
    return join(iter(many_parts(64, 4)))


def test_each_row_sums_up_what_the_workers_have(job: Part) -> None:
    by_kind = defaultdict(list)
    for row in table_of([job], "operations"):
        by_kind[row["collective"], row["dtype"], row["group_description"] or row["group"]].append(row)
    kinds = table_of([job], "operation_kinds")
    assert {(row["collective"], row["dtype"], row["group_description"]) for row in kinds} == by_kind.keys()
    assert len(kinds) == 2 < len(table_of([job], "operations")) == 128
    for row in kinds:
        mine = by_kind[row["collective"], row["dtype"], row["group_description"]]
        latency = sorted(one["latency_ns"] for one in mine)
        assert row["workers"] == len({one["worker"] for one in mine}) == 64
        assert row["same_groups"] == {"default_pg": 1, "tp": 8}[row["group_description"]]
        assert row["calls"] == sum(one["calls"] for one in mine)
        assert (row["calls_least"], row["calls_most"]) == (4, 4)
        # The smallest value that so many of 64 rows do not exceed: the 4th (3.2 of them), the 32nd, and the 61st (60.8).
        assert row["latency_median_ns"] == latency[31]
        assert (row["latency_low_ns"], row["latency_high_ns"]) == (latency[3], latency[60])
        assert row["transfer_median_ns"] == statistics.median_low(one["transfer_ns"] for one in mine)
    assert [row["latency_median_ns"] for row in kinds] == sorted(
        (row["latency_median_ns"] for row in kinds), reverse=True
    )


def test_who_is_waited_for_is_the_slow_rank_and_how_long_adds_up(job: Part) -> None:
    waits = defaultdict(int)
    described = {row["group"]: row["group_description"] for row in table_of([job], "process_groups")}
    for row in table_of([job], "collectives"):
        if row["last_worker"] not in (None, row["worker"]):
            waits[described[row["group"]], row["last_worker"]] += row["wait_ns"]
    for row in table_of([job], "operation_kinds"):
        assert row["awaited_worker"] == "rank5"
        of_kind = {worker: waited for (kind, worker), waited in waits.items() if kind == row["group_description"]}
        assert row["awaited_ns"] == of_kind["rank5"] == max(of_kind.values()) > 0


def test_of_two_workers_the_median_is_one_of_them() -> None:
    """Calls of 90 and 60 ns that end together: no worker has 75."""
    joined = join(iter([part_of("a", [call("all_reduce", 0, 90)]), part_of("b", [call("all_reduce", 30, 60)])]))
    (row,) = table_of([joined], "operation_kinds")
    keys = ("latency_low_ns", "latency_median_ns", "latency_high_ns", "transfer_median_ns")
    assert [row[key] for key in keys] == [60, 60, 90, 60]


def test_who_calls_less_often_and_who_is_alone() -> None:
    parts = many_parts(4, 3)
    calls = parts[2].frames["collectives"]
    less = type(calls)(calls.name, calls.title, calls.columns, calls.data.slice(0, 5), calls.row_key, calls.name_column)
    parts[2] = type(parts[2])(
        parts[2].coverage,
        parts[2].facts,
        {**parts[2].frames, "collectives": less},
        worker="rank2",
        steps=parts[2].steps,
    )
    kinds = table_of([join(iter(parts))], "operation_kinds")
    assert sorted((row["calls_least"], row["calls_most"]) for row in kinds) == [(2, 3), (3, 3)]
    alone = Distributed().answer([join(iter(many_parts(1, 3)))], Params())
    assert isinstance(alone, View) and "operation_kinds" not in alone.payloads and alone.payloads["operations"].rows
