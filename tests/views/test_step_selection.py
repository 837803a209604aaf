"""What a choice of steps keeps: operators that begin in the steps on the host, and the work that those launched."""

from __future__ import annotations

import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.errors import BadRequest
from tb_plugin.model.trace.table import TraceTable
from tests.builders import facts, kernel, part, row, rows, trace
from tests.samples import OF_TRACES

ONE, TWO, BOTH = ("1",), ("2",), ("1", "2")


def two_steps() -> TraceTable:
    """Step 1's kernel runs in step 2; an operator straddles the border; two kernels have no launch."""
    builder = trace().op("before", 0, 5).launches(kernel("k0", 1, 6))
    builder.step(1, 10, 100).op("a", 20, 10).launches(kernel("late", 30, 150)).op("straddling", 105, 20)
    builder.step(2, 110, 100).op("b", 120, 10).launches(kernel("k2", 30, 200)).op("a", 140, 5)
    builder.on_device(kernel("alone1", 3, 160), corr=77).on_device(kernel("alone2", 4, 190), corr=78)
    return builder.op("after", 400, 5).table()


def names(table: TraceTable, steps: tuple[str, ...] | None) -> dict[str, int]:
    return {r["name"]: r["calls"] for r in rows(table, "operators", steps=steps)}


def kernels(table: TraceTable, steps: tuple[str, ...] | None) -> set[str]:
    return {r["name"] for r in rows(table, "kernels", steps=steps)}


def test_operators_belong_to_the_step_in_which_they_begin() -> None:
    table = two_steps()
    assert names(table, ONE) == {"a": 1, "straddling": 1, "(no operator)": 0}
    assert names(table, TWO) == {"b": 1, "a": 1, "(no operator)": 0}
    assert names(table, BOTH) == {"a": 2, "straddling": 1, "b": 1, "(no operator)": 0}
    assert names(table, None)["before"] == names(table, None)["after"] == 1


def test_device_work_belongs_to_the_step_that_launched_it() -> None:
    table = two_steps()
    assert kernels(table, ONE) == {"late", "alone1"}
    assert kernels(table, TWO) == {"k2", "alone2"}
    assert row(table, "operators", steps=ONE, name="a")["device_self_ns"] == 30_000
    assert row(table, "operators", steps=TWO, name="a")["device_self_ns"] == 0


def test_steps_of_a_selection_stand_in_order_and_once() -> None:
    table = two_steps()
    assert [r["step"] for r in rows(table, "overview", "steps", steps=("2", "1", "2"))] == ["1", "2"]
    assert facts(table, TWO)["overview.steps"] == 1
    assert facts(table, TWO)["overview.step_time_mean_ns"] == rows(table, "overview", "steps")[1]["total_ns"]


def test_facts_of_devices_are_of_the_whole_trace_but_ratios_of_the_selection() -> None:
    table = two_steps()
    whole, second = facts(table), facts(table, TWO)
    assert whole["device.0.busy_ns"] == second["device.0.busy_ns"]
    assert whole["device.0.utilization"] != second["device.0.utilization"]


def test_coverage_names_the_steps() -> None:
    table = two_steps()
    for analysis in OF_TRACES:
        if analysis.id == "sql":
            continue  # a query is over all steps
        coverage = analysis.part(table, Params(steps=("2",))).coverage
        assert coverage.steps == ["2"] and coverage.window_ns == table.steps.end_ns[1] - table.steps.start_ns[1]


def test_an_unknown_step_is_said() -> None:
    with pytest.raises(BadRequest, match="No such step: 9") as error:
        part(two_steps(), "operators", steps=("9", "1"))
    assert "1, 2" in error.value.do


def test_no_steps_keep_nothing() -> None:
    assert rows(two_steps(), "operators", steps=()) == []
    assert facts(two_steps(), ())["overview.steps"] == 0


def test_the_one_step_of_a_trace_without_steps_can_be_chosen() -> None:
    table = trace().op("a", 0, 10).launches(kernel("k", 5)).op("b", 20, 5).table()
    assert names(table, ("0",)) == names(table, None)
    assert kernels(table, ("0",)) == {"k"}


def test_a_call_that_is_nested_in_an_unchosen_one_is_outermost() -> None:
    """Totals count the outermost of the chosen calls."""
    table = trace().op("f", 0, 100).step(1, 50, 40).op("f", 60, 10).table()
    assert row(table, "operators", steps=ONE, name="f")["host_total_ns"] == 10_000
    assert row(table, "operators", name="f")["host_total_ns"] == 100_000


def test_two_steps_of_one_number_are_chosen_together() -> None:
    table = trace().step(1, 0, 10).op("a", 1, 2).step(1, 20, 10).op("a", 21, 2).table()
    assert names(table, ONE) == {"a": 2}


def cycles(*numbers: int, pause: int = 800) -> TraceTable:
    """Steps of 100 us with a kernel of 40 us each; before a number that is not the next one the profiler paused."""
    builder, at = trace(), 0
    for place, number in enumerate(numbers):
        at += pause if place and number != numbers[place - 1] + 1 else 0
        builder.step(number, at, 100).op("a", at + 10, 10).launches(kernel("k", 40, at + 30), at=at + 12)
        at += 100
    return builder.table()


@pytest.mark.parametrize("numbers", [(0, 1, 2, 3), (0, 1, 0, 1), (10, 11, 20, 21), (5, 3, 9), (7, 7)])
def test_the_pause_between_recorded_cycles_is_in_no_step(numbers: tuple[int, ...]) -> None:
    found = facts(cycles(*numbers))
    assert found["device.0.utilization"] == pytest.approx(0.4, rel=1e-12)
    assert found["device.0.occupancy"] is None or found["device.0.occupancy"] > 0


def test_what_lies_between_chosen_steps_is_in_none_of_them() -> None:
    builder = trace()
    for number, busy in enumerate((40, 90, 20)):
        at = 100 * number
        builder.step(number, at, 100).op("a", at, 5).launches(kernel("k", busy, at + 8), at=at + 2)
    table = builder.table()
    assert facts(table, steps=("0", "2"))["device.0.utilization"] == pytest.approx(0.3, rel=1e-12)
    assert facts(table)["device.0.utilization"] == pytest.approx(0.5, rel=1e-12)
