"""Sharding, a pipeline, offloading and experts, planted in simulated trainings: their roles, times and findings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tb_plugin.analysis.filters import matching
from tb_plugin.analysis.parallelism.roles import roles_of
from tb_plugin.lib.intervals import measure, union
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.rules._ordered_findings import Findings, findings_of
from tests.builders import model, part, rows
from tests.conftest import sample
from tests.depth import DEEP
from tests.faults import ALSO, Config, run

SEEDS = 200 if DEEP else 1
# Latencies differ between launches, so bounds hold up to this share of the step.
LATENCY_SHARE = 0.002
RULES = {
    "sharding": "communication",
    "pipeline": "pipeline_bubble",
    "offloading": "offload_copies",
    "experts": "expert_imbalance",
}
"""The rule that has to speak of each."""


def tried(fault: str, seed: int) -> tuple[Any, TraceTable, Findings]:
    training = run(Config(seed=seed, fault=fault))
    table = model(training.text().encode())
    return training, table, findings_of(table, None)


def by_role(table: TraceTable) -> dict[str, tuple[int, int]]:
    """Calls and time of each role; a list of its events holds as many."""
    found = {row["role"]: (row["calls"], row["role_device_ns"]) for row in rows(table, "parallelism", "roles")}
    every = np.ones(len(table), np.bool_)
    for role, (calls, ns) in found.items():
        events = matching(table, every, (("role", role),))
        assert (events.sum(), table.dur_ns[events].sum()) == (calls, ns), role
    return found


def check_roles(fault: str, planted: dict[str, int], table: TraceTable) -> None:
    """All calls and nanoseconds of what was planted, and nothing else."""
    found = by_role(table)
    if fault == "sharding":
        assert found == {
            "gather forward": (planted["gathers"], planted["gather_ns"]),
            "reduce gradients": (planted["reduces"], planted["reduce_ns"]),
        }
    elif fault == "pipeline":
        assert {role: calls for role, (calls, _) in found.items()} == {
            "receive": planted["receives"],
            "send": planted["sends"],
        }
        assert sum(ns for _, ns in found.values()) == planted["device_ns"]
    elif fault == "offloading":
        assert found.keys() == {"offload to host", "offload to device"}
        assert tuple(map(sum, zip(*found.values(), strict=True))) == (planted["calls"], planted["device_ns"])
        assert sum(row["role_bytes"] for row in rows(table, "parallelism", "roles")) == planted["bytes"]
    else:
        assert found["experts"][1] == planted["experts_ns"]
        assert found["dispatch"][0] == found["combine"][0] == planted["exchanges"] / 2
        imbalance = part(table, "parallelism").facts["parallelism.expert_imbalance"]
        assert imbalance == pytest.approx(planted["busiest"] / 1000, rel=0.001)


@pytest.mark.parametrize("fault", RULES)
def test_what_is_planted_has_its_role_and_is_found_and_nothing_else(fault: str) -> None:
    missed = []
    for seed in range(SEEDS):
        training, table, findings = tried(fault, seed)
        check_roles(fault, training.planted, table)
        rules = {each.rule.id for each in findings.all}
        worth = training.step_time_ns - training.mended.step_time_ns
        # Of imbalance less than a quarter, or of communication less than a twentieth of the step, nobody speaks.
        if RULES[fault] in rules:
            (saving,) = [each.notice.saving for each in findings.all if each.rule.id == RULES[fault]]
            assert saving is not None
            off = LATENCY_SHARE * training.step_time_ns
            if not saving.low_ns - off <= worth <= saving.high_ns + off:
                missed.append((seed, saving.low_ns / 1e6, worth / 1e6, saving.high_ns / 1e6))
        else:
            assert worth <= 0.07 * training.step_time_ns, seed
        assert rules <= {RULES[fault], *ALSO[fault], "low_utilization", "idle_device"}, (seed, rules)
    assert len(missed) <= 0.05 * SEEDS, missed


def test_the_mended_programs_have_no_such_finding() -> None:
    for seed in range(SEEDS):
        for fault in RULES:
            table = model(run(Config(seed=seed, fault=fault, mended=True, steps=2)).text().encode())
            assert [each.rule.id for each in findings_of(table, None).all] == [], (fault, seed)


def test_a_gather_ahead_is_told_apart_and_the_finding_names_shards() -> None:
    table = model(run(Config(seed=2, fault="sharding", mended=True, steps=1)).text().encode())
    assert by_role(table).keys() == {"gather ahead", "reduce gradients"}
    _, _, findings = tried("sharding", 1)
    (notice,) = [each.notice for each in findings.all if each.rule.id == "communication"]
    figures = {figure.metric.key: figure.value for figure in notice.figures}
    assert figures["gathers_bare_ns"] == pytest.approx(figures["communication_ns"], rel=0.02)
    assert "set_modules_to_forward_prefetch" in notice.todo


def test_a_send_beside_a_receive_counts_once() -> None:
    """Rank 0 of the sample sends while it receives, on two streams: each alone is exposed for as long as it says."""
    table = sample("synthetic_job/rank0.1795200788009914940.pt.trace.json.gz")
    roles = {row["role"]: row for row in rows(table, "parallelism", "roles")}
    at = roles_of(table)
    starts, ends = table.start_ns[at.row], table.ends(at.row)
    facts = part(table, "parallelism").facts
    # Some of a send lies beneath computation; what is left lies beneath a receive.
    assert facts["parallelism.pipeline_exposed_ns"] == roles["receive"]["role_exposed_ns"]
    assert facts["parallelism.pipeline_exposed_ns"] <= measure(union(starts, ends))
    assert (
        facts["parallelism.pipeline_exposed_ns"] <= part(table, "overview").facts["device.0.exposed_communication_ns"]
    )
    (found,) = [each for each in findings_of(table, None).all if each.rule.id == "pipeline_bubble"]
    figures = {figure.metric.key: figure.value for figure in found.notice.figures}
    assert figures["pipeline_bubble_ns"] == facts["parallelism.pipeline_exposed_ns"] / 3
