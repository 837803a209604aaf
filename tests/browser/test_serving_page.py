"""Serving: the steady state and everything, dots and rows, the timeline of a step, and steps by mode."""

from __future__ import annotations

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import Tab
from tests.browser.journey import walk

PLACE = {"run": "synthetic_serving"}


def from_the_steady_state_to_a_step_on_the_timeline(tab: Tab) -> None:
    tab.resize(1000, 700)
    frame = tab.follow(view="serving", **PLACE)
    assert_healthy(frame)
    assert tab.axe() == [] and tab.overflow() <= 0
    said = "The server generates 316,096 tokens per second in the steady state (steps 34 to 40, batch 32)"
    assert frame.get_by_test_id("answer").inner_text().startswith(said)
    frame.get_by_role("button", name="Show all steps").click()
    frame = tab.settle()
    assert tab.state()["steady"] == "all"
    assert "in the steady state" not in frame.get_by_test_id("answer").inner_text()
    dots = frame.get_by_role("img", name="Step time over batch")
    assert "Decode: 33 at Batch 1 to 32" in (dots.get_attribute("aria-label") or "")
    # The one step before which the host was held up, and why.
    frame = tab.follow(view="serving", row="12", **PLACE)
    assert frame.get_by_text("Python", exact=True).count() >= 1
    rows = ask(tab.address, "table/serving/serving_steps", **PLACE, where="is_outlier:true")["rows"]
    assert [row["step"] for row in rows] == ["12"]
    frame.get_by_role("button", name="Show in timeline").click()
    tab.settle()
    state = tab.state()
    assert state["view"] == "timeline"
    assert int(state["start_ns"]) <= rows[0]["start_ns"] < int(state["end_ns"])


def steps_are_chosen_by_mode(tab: Tab) -> None:
    frame = tab.follow(view="serving", **PLACE)
    frame.get_by_role("button", name="Steps").first.click()
    frame.get_by_role("button", name="prefill", exact=True).click()
    frame = tab.settle()
    steps = ask(tab.address, "table/serving/serving_steps", **PLACE, steps=tab.state()["steps"])["rows"]
    assert {row["mode"] for row in steps} == {"prefill"} and len(steps) == 2


def test_serving(visit: Open) -> None:
    walk(visit, from_the_steady_state_to_a_step_on_the_timeline, steps_are_chosen_by_mode)
