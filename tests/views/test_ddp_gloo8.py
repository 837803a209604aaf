"""Eight recorded ranks: the slow one is named, and what four of them did in a group of their own is matched among these."""

from __future__ import annotations

from collections import defaultdict

import pytest
from msgspec.structs import replace

from tb_plugin.analysis.base import Params, Part
from tb_plugin.payloads import Notices, Table, View
from tb_plugin.views.distributed.view import Distributed
from tests.builders import payload_of
from tests.conftest import SAMPLES, sample

VIEW = Distributed()
SLOW, FEW, STEPS = "rank5", {"rank0", "rank1", "rank2", "rank3"}, 3


@pytest.fixture(scope="module")
def ranks() -> list[Part]:
    files = sorted((SAMPLES / "ddp_gloo8").iterdir())
    return [replace(VIEW.part(sample(f"ddp_gloo8/{f.name}"), Params()), worker=f.name.split(".")[0]) for f in files]


def test_the_planted_rank_is_named(ranks: list[Part]) -> None:
    answer = VIEW.answer(ranks, Params())
    assert isinstance(answer, View)
    found = payload_of(answer, "findings", Notices)
    (late,) = [notice for notice in found.notices if notice.rule == "straggler"]
    values = {figure.metric.key: figure.value for figure in late.figures}
    assert (values["worker"], values["late_kernel"]) == (SLOW, "aten::mm")
    # Its matrices are what the others wait for, though they stand before the first of two calls that are under way at once.
    assert values["late_cause_ns"] == pytest.approx(values["lost_ns"], rel=0.1)
    assert values["late_cause_share"] > 0.9 and "late_unexplained_ns" not in values


def test_the_others_wait_for_it(ranks: list[Part]) -> None:
    answer = VIEW.answer(ranks, Params(table="workers", limit=None))
    assert isinstance(answer, Table)
    waited = {row["worker"]: row["latency_ns"] - row["transfer_ns"] for row in answer.rows}
    assert all(waited[SLOW] * 5 < ns for worker, ns in waited.items() if worker != SLOW)


def test_all_that_one_rank_states_holds_for_all_and_the_group_of_four_is_inferred(ranks: list[Part]) -> None:
    """Calls state no group; ranks 4 to 7 know one group only, of eight, so they know the size of theirs."""
    answer = VIEW.answer(ranks, Params(table="collectives", limit=None))
    assert isinstance(answer, Table)
    assert {row["timing"] for row in answer.rows} == {"measured"}
    for row in answer.rows:
        is_of_four = row["comm_bytes"] == 8 * 4
        assert row["inferred_group"] == ("first_half" if is_of_four else None)
        assert row["bus_factor"] == (2 * 3 / 4 if is_of_four else 2 * 7 / 8)
        assert row["bus_bandwidth"] == pytest.approx(row["algorithm_bandwidth"] * row["bus_factor"])
    view = VIEW.answer(ranks, Params())
    assert isinstance(view, View)
    found = payload_of(view, "findings", Notices)
    told = {notice.rule: {f.metric.key: f.value for f in notice.figures} for notice in found.notices}
    assert told["groups_inferred"] == {"inferred_calls": 4 * STEPS, "inferred_group": "first_half"}
    assert "bounds" not in told


def test_without_one_rank_no_group_is_inferred(ranks: list[Part]) -> None:
    answer = VIEW.answer(ranks[:-1], Params())
    assert isinstance(answer, View)
    found = payload_of(answer, "findings", Notices)
    (bounds,) = (notice for notice in found.notices if notice.rule == "bounds")
    assert "matched calls are incomplete" in bounds.text
    assert "groups_inferred" not in {notice.rule for notice in found.notices}


def test_calls_of_the_group_of_four_are_matched_among_the_four(ranks: list[Part]) -> None:
    answer = VIEW.answer(ranks, Params(table="collectives", limit=None))
    assert isinstance(answer, Table)
    takers: dict[tuple[str, int], list[str]] = defaultdict(list)
    for row in answer.rows:
        takers[row["step"], row["comm_bytes"]].append(row["worker"])
        assert row["matched_workers"] == (4 if row["comm_bytes"] == 8 * 4 else 8)
    of_few = [workers for (_, size), workers in takers.items() if size == 8 * 4]
    assert len(of_few) == STEPS and all(set(workers) == FEW for workers in of_few)
    assert len(takers) == STEPS * 4
