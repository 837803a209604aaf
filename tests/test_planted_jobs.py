"""Planted stragglers are named with their cost and cause, and nothing else is named."""

from __future__ import annotations

import pytest

from tests.depth import DEEP, sampled
from tests.planted_jobs import SCENARIOS, WEAK, planted_scores

SEEDS = range(100) if DEEP else range(1)
SOME = [
    "data, persistent", "tensor, single", "pipeline, persistent", "pipeline, single", "expert, periodic",
    "sharded, persistent", "queued, periodic", "across nodes, persistent", "coalesced, single", "data, work",
    "data, device", "data, copy",
    "two stragglers", "in turn", "slow tensor group", "slow expert group", "few steps", "two ranks", "no numbers",
    "missing rank", "missing calls", "slow link, nothing else", "pipeline, nothing", "expert, nothing",
    "data, nothing in noise", "data, nothing, few steps", "data, nothing, missing calls",
]  # fmt: skip


@pytest.mark.parametrize("name", sampled(list(SCENARIOS), SOME))
def test_stragglers_are_named_with_cost_and_cause_and_nothing_else_is(name: str) -> None:
    score = planted_scores(name, SEEDS)
    assert score.false == 0, score.notes
    if name.split(",")[0] not in WEAK:
        assert min(score.named, score.cost) >= 0.98 * score.tried, score.notes
        assert score.cause <= 0.02 * score.tried, score.notes


@pytest.mark.parametrize("name", ["tensor, persistent", "pipeline, single"])
def test_files_and_plans_give_the_same(name: str) -> None:
    of_files, of_plans = (planted_scores(name, range(1, 1 + (5 if DEEP else 1)), files) for files in (True, False))
    assert of_files == of_plans
