"""Findings pages: counts, windows, what no rule could look at, and findings that were dismissed or ignored."""

from __future__ import annotations

from typing import Any

import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.payloads import Table
from tb_plugin.rules import regular_rules
from tb_plugin.rules._ordered_findings import EVENTS, MARGIN, findings_of
from tb_plugin.rules.idle_device import RULE as IDLE
from tb_plugin.views.findings.view import FindingsAnalysis
from tests.builders import TraceBuilder, figures, kernel, part, trace

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def waiting(steps: int) -> TraceBuilder:
    """Steps of 100 us that wait 60 us for input and compute on the host."""
    builder = trace()
    for number in range(steps):
        at = 100 * number
        builder.step(number, at, 100).annotation(LOADER, at, 60).op("aten::mm", at + 60, 40)
    return builder


def test_all_events_are_counted_and_the_first_are_listed() -> None:
    found = part(waiting(EVENTS + 50).table(), "findings")
    (notice,) = found.payloads["findings"].notices  # type: ignore[union-attr]
    assert (notice.event_count, len(notice.events)) == (EVENTS + 50, EVENTS)
    assert found.frames["savings"].data["evidence"].to_pylist() == [EVENTS + 50]
    assert found.frames["finding_events"].data.num_rows == EVENTS


def test_what_was_not_recorded_is_told() -> None:
    builder = waiting(1)
    told = figures(part(builder.table(), "findings").payloads["together"])
    assert (told["rules_looked"], told["rules"]) == (len(regular_rules()), len(regular_rules()))
    assert told["not_recorded"] == "work of a device, input shapes, lines of Python, memory events"
    builder.device(0).launches(kernel("k", 10, 80)).python("train.py(7): step", 0, 99, id=1)
    told = figures(part(builder.table(), "findings").payloads["together"])
    assert told["not_recorded"] == "input shapes, memory events"


def test_the_overview_counts_what_is_left_out() -> None:
    table = waiting(1).table()
    assert "left_out" not in part(table, "overview").payloads
    by_link = part(table, "overview", extra=(("without", "data_loading,small_batch"),)).payloads
    assert figures(by_link["left_out"]) == {"findings_dismissed": 1, "findings_ignored": 0}, (
        "what does not apply is none"
    )
    by_file = part(table, "overview", ignored=("data_loading",)).payloads
    assert figures(by_file["left_out"]) == {"findings_dismissed": 0, "findings_ignored": 1}


def test_idle_time_says_of_which_window_it_is() -> None:
    """A step of 100 us whose device works from 40 to 60 and from 80 to 90: idle 70 in it, 20 from first to last work."""
    builder = trace().device(0).step(1, 0, 100).op("aten::mm", 0, 5)
    table = builder.launches(kernel("k", 20, 40)).op("aten::mm", 10, 5).launches(kernel("k", 10, 80)).table()
    payloads = part(table, "overview").payloads
    card: Any = payloads["device_idle_0"]
    device: Any = payloads["device_time_0"]
    assert (card.title, card.total) == ("Idle time by cause, first to last kernel", 20_000)
    assert len({each.metric.window for each in (*card.parts, *device.parts)}) == 1
    summary: Any = part(table, "idle").payloads["summary"]
    assert (summary.figures[0].metric.title, summary.figures[0].value) == ("Idle in the steps", 70_000)
    whole: Any = part(trace().op("a", 0, 5).launches(kernel("k", 20, 40)).table(), "idle").payloads["summary"]
    assert whole.figures[0].metric.title == "Idle in the recording"


def loading() -> TraceBuilder:
    """A step of 100 us that waits 30 us for input; its device works for 20 us."""
    builder = trace().step(1, 0, 100)
    builder.op(LOADER, 0, 30, cat="user_annotation")
    return builder.op("a", 40, 10).launches(kernel("k", 20, 60))


def part_without(without: str = "", ignored: tuple[str, ...] = (), builder: TraceBuilder | None = None) -> Any:
    params = Params(extra=(("without", without),) if without else (), ignored=ignored)
    return FindingsAnalysis().part((builder or loading()).table(), params)


def rules(found: Any, name: str = "findings") -> list[str]:
    return [notice.rule for notice in found.payloads[name].notices] if name in found.payloads else []


def test_a_dismissed_finding_is_in_no_number() -> None:
    whole, without = part_without(), part_without("data_loading")
    others = [rule for rule in rules(whole) if rule != "data_loading"]
    # Most of the step is CPU overhead: what speaks of that comes first.
    assert rules(whole)[:2] == ["low_utilization", "data_loading"] and rules(whole, "dismissed") == []
    assert (rules(without), rules(without, "dismissed")) == (others, ["data_loading"])
    assert without.payloads["dismissed"].notices[0].saving is None and without.payloads["dismissed"].about == "answer"
    assert whole.facts["findings.data_loading.saving_high_ns"] == pytest.approx(30_000)
    assert without.facts["findings.total_high_ns"] < 30_000 <= whole.facts["findings.total_high_ns"]
    assert without.facts["findings.data_loading.saving_high_ns"] == 0
    assert without.frames["savings"].data["rule"].to_pylist() == others
    looked = [{f.metric.key: f.value for f in each.payloads["together"].figures} for each in (whole, without)]
    assert looked[0]["rules_looked"] - looked[1]["rules_looked"] == 1 and looked[0]["utilization"] == 0.2


def test_the_log_directory_comes_first() -> None:
    every = rules(part_without())
    found = part_without(",".join(every), ("data_loading", "nonsense"))
    assert (rules(found), rules(found, "ignored")) == ([], ["data_loading"]), "and no word that no rule knew a cause"
    assert sorted(rules(found, "dismissed")) == sorted(set(every) - {"data_loading"})
    assert rules(found, "data_quality") == ["ignored_unknown"]
    assert rules(part_without("nonsense"), "data_quality") == [], "a link may be older than a rule's name"


def test_the_word_that_no_rule_knows_a_cause_can_be_left_out() -> None:
    idle = trace().step(1, 0, 100).op("a", 10, 10).launches(kernel("k", 60, 30))
    assert rules(part_without(builder=idle)) == [IDLE.id]
    found = part_without(IDLE.id, builder=idle)
    assert (rules(found), rules(found, "dismissed")) == ([], [IDLE.id])


@pytest.mark.parametrize(("dur", "told"), [(50, False), (500, True)])
def test_what_is_not_worth_a_word_is_in_no_sum(dur: int, told: bool) -> None:
    """Memory allocation calls to the driver in a step of 10 ms: less than 1 % of it is not told."""
    builder = trace().step(1, 0, 10_000).call(100, dur, name="cudaFree")
    found = part_without(builder=builder.op("a", 2_000, 10).launches(kernel("k", 7_000, 3_000)))
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
    answer = analysis.answer([part_without("data_loading")], Params(table="finding_events"))
    assert isinstance(answer, Table) and answer.rows == []


def after(table: Any, *fixed: str) -> Any:
    answer = part(table, "findings", extra=(("fixed", ",".join(fixed)),)).payloads
    assert list(answer) == ["after_fixes"]
    (notice,) = answer["after_fixes"].notices  # type: ignore[union-attr]
    return notice


def loading_and_python() -> TraceBuilder:
    """Two steps of 1 ms: 400 us of loading, 300 us of Python in one line, and 20 kernels of 5 us."""
    builder = trace().device(0)
    for number in range(2):
        at = 1000 * number
        builder.step(number, at, 1000).annotation(LOADER, at, 400).python(
            "train.py(7): augment", at + 400, 300, id=number
        )
        for i in range(20):
            builder.op("aten::mm", at + 700 + 15 * i, 12).launches(kernel(f"k{i}", 5), at=at + 701 + 15 * i, dur=5)
    return builder


def test_fixes_are_combined_by_one_simulation() -> None:
    table = loading_and_python().table()
    found = findings_of(table, None)
    saving = {each.rule.id: each.notice.saving for each in found.all if each.notice.saving is not None}
    assert {"data_loading", "python_bound"} <= saving.keys()
    both = after(table, "data_loading", "python_bound").saving
    for side in ("low_ns", "high_ns"):
        single = [getattr(saving[rule], side) for rule in ("data_loading", "python_bound")]
        assert max(single) <= getattr(both, side) <= sum(single) * (1 + MARGIN), side
    every = after(table, *saving)
    assert every.saving == found.combined, "what all findings save together is the same simulation"
    one = after(table, "data_loading")
    assert (one.saving.low_ns, one.saving.high_ns) == (saving["data_loading"].low_ns, saving["data_loading"].high_ns)  # type: ignore[union-attr]


def test_overlapping_fixes_are_not_added() -> None:
    """The launch finding includes the Python between launches: both together save less than their sum."""
    builder = trace().device(0)
    for number in range(3):
        at = 2000 * number
        builder.step(number, at, 2000)
        for i in range(30):
            begin = at + 60 * i
            builder.python("train.py(7): glue", begin, 30, id=30 * number + i).op("aten::mm", begin + 30, 28)
            builder.launches(kernel(f"k{i}", 2), at=begin + 31, dur=25)
    table = builder.table()
    saving = {each.rule.id: each.notice.saving for each in findings_of(table, None).all if each.notice.saving}
    assert {"launch_bound", "python_bound"} <= saving.keys()
    both = after(table, "launch_bound", "python_bound").saving
    assert max(each.high_ns for each in saving.values()) <= both.high_ns < sum(each.high_ns for each in saving.values())


def test_the_limit_after_a_fix() -> None:
    """Without its 400 us of loading, the device of a step of 1 ms still waits for the CPU."""
    table = loading_and_python().table()
    told = figures(after(table, "data_loading"))
    assert told["then_limit"] == "CPU overhead"
    assert told["then_share"] == pytest.approx(500 / 600, abs=0.02)


def test_a_fix_without_an_estimate_is_named() -> None:
    table = loading().table()
    unknown = [each for each in findings_of(table, None).all if each.notice.saving is None]
    notice = after(table, unknown[0].rule.id)
    assert figures(notice) == {"not_estimated": unknown[0].notice.title}
    assert (notice.saving.low_ns, notice.saving.high_ns) == (0, 0)
    assert "after_fixes" not in part(table, "findings", extra=(("fixed", "nonsense"),)).payloads


def test_a_fix_comes_with_its_code() -> None:
    (each,) = [each for each in findings_of(loading().table(), None).all if each.rule.id == "data_loading"]
    assert "num_workers=8" in each.notice.snippet and "persistent_workers=True" in each.notice.snippet
