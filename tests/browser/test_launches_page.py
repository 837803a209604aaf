"""Runtime calls: from the Overview to the call that costs most, who made it, and their events."""

from __future__ import annotations

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.test_show_in_timeline import hit

RUN = "synthetic_gpu"


def test_from_the_overview_to_the_caller_s_events(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(run=RUN, view="overview", steps="5")
    frame.locator("table").get_by_role("button", name="Runtime", exact=True).click()
    frame = tab.settle()
    assert tab.state()["view"] == "launches" and tab.state()["steps"] == "5"
    calls = ask(tab.address, "table/launches/runtime_calls", run=RUN, steps="5")["rows"]
    first = calls[0]["name"]
    callers = ask(tab.address, "table/launches/runtime_calls_by_caller", run=RUN, steps="5")["rows"]
    made = [row for row in callers if row["name"] == first]
    said = frame.get_by_test_id("answer").inner_text()
    assert said.startswith(f"During device idle time the CPU spends most in {first}: ")
    assert f"under {made[0]['operator']}" in said and f"from {made[0]['caller_frame']}" in said
    frame.get_by_role("button", name="Show callers").click()
    frame = tab.settle()
    assert_healthy(frame)
    assert frame.get_by_test_id("callers").locator("tbody tr").count() == len(made)
    frame.get_by_test_id("callers").get_by_role("button", name="Show these calls in the timeline").first.click()
    frame = tab.settle()
    keys = ("name", "operator", "caller_phase", "caller_frame")
    where = [*(f"{key}:{made[0][key] or ''}" for key in keys), "kind:runtime"]
    assert tab.state()["view"] == "timeline" and hit(tab) == where
    found = ask(tab.address, "view/find", run=RUN, steps="5", where=where[0])["payloads"]["summary"]["figures"][0][
        "value"
    ]
    assert found == calls[0]["calls"]
    tab.page.go_back()
    tab.settle()
    assert tab.state()["view"] == "launches" and tab.state()["row"] == first


def test_operators_lead_to_what_host_self_leaves_out(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(run=RUN, view="operators")
    frame.get_by_test_id("left-out").get_by_role("button").click()
    tab.settle()
    assert tab.state()["view"] == "launches"


def test_callers_fit_a_narrow_page(open_tab: Open) -> None:
    tab = open_tab(size=(1000, 700))
    frame = tab.open(run=RUN, view="launches", group="runtime_calls_by_caller")
    wider = "(node) => node.scrollWidth - node.clientWidth"
    assert frame.get_by_test_id("grid").evaluate(wider) == 0
    frame = tab.open(run=RUN, view="launches", row="cudaLaunchKernel")
    assert frame.get_by_test_id("callers").locator("[tabindex='0']").first.evaluate(wider) == 0


def test_sequences_lead_to_the_first_repeat(open_tab: Open) -> None:
    """The page says first what the launches come to; a row of a sequence opens the timeline at its first kernel."""
    tab = open_tab(size=(1000, 700))
    frame = tab.open(run=RUN, view="launches", group="kernel_sequences")
    said = frame.get_by_test_id("launch-answer").inner_text()
    assert said.startswith("42 of 954 launches found the queue empty, costing 177 ms of idle time.")
    assert frame.locator("figure").count() == 3
    assert_healthy(frame)
    assert frame.get_by_test_id("grid").evaluate("(node) => node.scrollWidth - node.clientWidth") == 0
    first = ask(tab.address, "table/launches/kernel_sequences", run=RUN)["rows"][0]
    frame = tab.open(run=RUN, view="launches", group="kernel_sequences", row=str(first["event"]))
    kernels = frame.get_by_role("list", name="Kernels").get_by_role("listitem")
    assert kernels.count() == first["sequence_length"]
    frame.get_by_role("button", name="Show in timeline").last.click()
    tab.settle()
    assert (tab.state()["view"], tab.state()["event"]) == ("timeline", str(first["event"]))


def test_operators_and_kernels_fit_a_narrow_page(open_tab: Open) -> None:
    tab = open_tab(size=(1000, 700))
    for group in ("launch_operators", "launch_kernels", "late_launches", "queue_depths"):
        frame = tab.open(run=RUN, view="launches", group=group)
        assert_healthy(frame)
        assert frame.get_by_test_id("grid").evaluate("(node) => node.scrollWidth - node.clientWidth") == 0, group
