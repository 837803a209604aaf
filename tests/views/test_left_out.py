"""What is left out of the findings: neither told, nor in any saving, and shown on demand by who left it out."""

from __future__ import annotations

from typing import Any

import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.payloads import Table
from tb_plugin.rules.idle_device import RULE as IDLE
from tb_plugin.views.findings.view import FindingsAnalysis
from tests.builders import TraceBuilder, kernel, trace

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def waiting() -> TraceBuilder:
    """A step of 100 us that waits 30 us for input; its device works for 20 us."""
    builder = trace().step(1, 0, 100)
    builder.op(LOADER, 0, 30, cat="user_annotation")
    return builder.op("a", 40, 10).launches(kernel("k", 20, 60))


def part(without: str = "", ignored: tuple[str, ...] = (), builder: TraceBuilder | None = None) -> Any:
    params = Params(extra=(("without", without),) if without else (), ignored=ignored)
    return FindingsAnalysis().part((builder or waiting()).table(), params)


def rules(found: Any, name: str = "findings") -> list[str]:
    return [notice.rule for notice in found.payloads[name].notices] if name in found.payloads else []


def test_a_dismissed_finding_is_in_no_number() -> None:
    whole, without = part(), part("data_loading")
    others = [rule for rule in rules(whole) if rule != "data_loading"]
    # Most of the step is CPU overhead: what speaks of that comes first.
    assert rules(whole)[:2] == ["low_utilization", "data_loading"] and rules(whole, "dismissed") == []
    assert (rules(without), rules(without, "dismissed")) == (others, ["data_loading"])
    assert without.payloads["dismissed"].notices[0].saving is None and without.payloads["dismissed"].about == "answer"
    assert whole.facts["findings.data_loading.saving_high_ns"] == pytest.approx(30_900)
    assert without.facts["findings.total_high_ns"] < 30_000 <= whole.facts["findings.total_high_ns"]
    assert without.facts["findings.data_loading.saving_high_ns"] == 0
    assert without.frames["savings"].data["rule"].to_pylist() == others
    looked = [{f.metric.key: f.value for f in each.payloads["together"].figures} for each in (whole, without)]
    assert looked[0]["rules_looked"] - looked[1]["rules_looked"] == 1 and looked[0]["utilization"] == 0.2


def test_the_log_directory_comes_first() -> None:
    every = rules(part())
    found = part(",".join(every), ("data_loading", "nonsense"))
    assert (rules(found), rules(found, "ignored")) == ([], ["data_loading"]), "and no word that no rule knew a cause"
    assert sorted(rules(found, "dismissed")) == sorted(set(every) - {"data_loading"})
    assert rules(found, "data_quality") == ["ignored_unknown"]
    assert rules(part("nonsense"), "data_quality") == [], "a link may be older than a rule's name"


def test_the_word_that_no_rule_knows_a_cause_can_be_left_out() -> None:
    idle = trace().step(1, 0, 100).op("a", 10, 10).launches(kernel("k", 60, 30))
    assert rules(part(builder=idle)) == [IDLE.id]
    found = part(IDLE.id, builder=idle)
    assert (rules(found), rules(found, "dismissed")) == ([], [IDLE.id])


@pytest.mark.parametrize(("dur", "told"), [(50, False), (500, True)])
def test_what_is_not_worth_a_word_is_in_no_sum(dur: int, told: bool) -> None:
    """Memory allocation calls to the driver in a step of 10 ms: less than 1 % of it is not told."""
    builder = trace().step(1, 0, 10_000).call(100, dur, name="cudaFree")
    found = part(builder=builder.op("a", 2_000, 10).launches(kernel("k", 7_000, 3_000)))
    assert ("driver_memory_calls" in rules(found)) is told
    assert (found.facts["findings.total_high_ns"] > 0) is told


def test_what_is_left_out_makes_another_part() -> None:
    analysis = FindingsAnalysis()
    keys = {
        analysis.part_key(Params(extra=extra, ignored=ignored))
        for extra in ((), (("without", "data_loading"),), (("without", ",data_loading,x"),))
        for ignored in ((), ("data_loading",))
    }
    assert len(keys) == 4, "the order and unknown names of a link make none"
    answer = analysis.answer([part("data_loading")], Params(table="finding_events"))
    assert isinstance(answer, Table) and answer.rows == []
