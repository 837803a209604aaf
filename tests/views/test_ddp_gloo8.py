"""Eight recorded ranks: the slow one is named, and what four of them did in a group of their own is matched among these."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tb_plugin.analysis.base import Part
from tests.jobs_of_parts import notices_of, sample_parts, table_of

SLOW, FEW, STEPS = "rank5", {"rank0", "rank1", "rank2", "rank3"}, 3


@pytest.fixture(scope="module")
def ranks() -> list[Part]:
    return sample_parts("ddp_gloo8")


def test_the_planted_rank_is_named(ranks: list[Part]) -> None:
    (late,) = [notice for notice in notices_of(ranks) if notice.rule == "straggler"]
    values = {figure.metric.key: figure.value for figure in late.figures}
    assert (values["worker"], values["late_kernel"]) == (SLOW, "aten::mm")
    # Its matrices are what the others wait for, though they stand before the first of two calls that are under way at once.
    assert values["late_cause_ns"] == pytest.approx(values["lost_ns"], rel=0.1)
    assert values["late_cause_share"] > 0.9


def test_the_others_wait_for_it(ranks: list[Part]) -> None:
    waited = {row["worker"]: row["latency_ns"] - row["transfer_ns"] for row in table_of(ranks, "workers")}
    assert all(waited[SLOW] * 5 < ns for worker, ns in waited.items() if worker != SLOW)


def test_all_that_one_rank_states_holds_for_all_and_the_group_of_four_is_inferred(ranks: list[Part]) -> None:
    """Calls state no group; ranks 4 to 7 know one group only, of eight, so they know the size of theirs."""
    rows = table_of(ranks, "collectives")
    assert {row["timing"] for row in rows} == {"measured"}
    for row in rows:
        is_of_four = row["comm_bytes"] == 8 * 4
        assert row["inferred_group"] == ("first_half" if is_of_four else None)
        assert row["bus_factor"] == (2 * 3 / 4 if is_of_four else 2 * 7 / 8)
        assert row["bus_bandwidth"] == pytest.approx(row["algorithm_bandwidth"] * row["bus_factor"])
    assert "bounds" not in {notice.rule for notice in notices_of(ranks)}


def test_without_one_rank_no_group_is_inferred(ranks: list[Part]) -> None:
    (bounds,) = (notice for notice in notices_of(ranks[:-1]) if notice.rule == "bounds")
    assert "matched calls are incomplete" in bounds.text


def test_calls_of_the_group_of_four_are_matched_among_the_four(ranks: list[Part]) -> None:
    takers: dict[tuple[str, int], list[str]] = defaultdict(list)
    for row in table_of(ranks, "collectives"):
        takers[row["step"], row["comm_bytes"]].append(row["worker"])
        assert row["matched_workers"] == (4 if row["comm_bytes"] == 8 * 4 else 8)
    of_few = [workers for (_, size), workers in takers.items() if size == 8 * 4]
    assert len(of_few) == STEPS and all(set(workers) == FEW for workers in of_few)
    assert len(takers) == STEPS * 4
