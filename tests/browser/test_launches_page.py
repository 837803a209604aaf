"""Runtime calls: from the Overview to the call that costs most, who made it, and their events."""

from __future__ import annotations

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import Tab
from tests.browser.journey import walk

RUN = "synthetic_gpu"


def callers_fit_a_narrow_page(tab: Tab) -> None:
    tab.resize(1000, 700)
    frame = tab.follow(run=RUN, view="launches", group="runtime_calls_by_caller")
    wider = "(node) => node.scrollWidth - node.clientWidth"
    assert frame.get_by_test_id("grid").evaluate(wider) == 0
    frame = tab.follow(run=RUN, view="launches", row="cudaLaunchKernel")
    assert frame.get_by_test_id("callers").locator("[tabindex='0']").first.evaluate(wider) == 0


def sequences_lead_to_the_first_repeat(tab: Tab) -> None:
    """The page says first what the launches come to; a row of a sequence opens the timeline at its first kernel."""
    tab.resize(1000, 700)
    frame = tab.follow(run=RUN, view="launches", group="kernel_sequences")
    said = frame.get_by_test_id("launch-answer").inner_text()
    assert said.startswith(
        "4.4 % of 954 launches found an empty queue. Before these launches, the GPU was idle for 177 ms"
    )
    assert_healthy(frame)
    assert frame.get_by_test_id("grid").evaluate("(node) => node.scrollWidth - node.clientWidth") == 0
    first = ask(tab.address, "table/launches/kernel_sequences", run=RUN)["rows"][0]
    frame = tab.follow(run=RUN, view="launches", group="kernel_sequences", row=str(first["event"]))
    kernels = frame.get_by_role("list", name="Kernels").get_by_role("listitem")
    assert kernels.count() == first["sequence_length"]
    frame.get_by_role("button", name="Show in timeline").last.click()
    tab.settle()
    assert (tab.state()["view"], tab.state()["event"]) == ("timeline", str(first["event"]))


def operators_and_kernels_fit_a_narrow_page(tab: Tab) -> None:
    tab.resize(1000, 700)
    for group in ("launch_operators", "launch_kernels", "late_launches", "queue_depths"):
        frame = tab.follow(run=RUN, view="launches", group=group)
        assert_healthy(frame)
        assert frame.get_by_test_id("grid").evaluate("(node) => node.scrollWidth - node.clientWidth") == 0, group


def test_launches(visit: Open) -> None:
    walk(visit, callers_fit_a_narrow_page, sequences_lead_to_the_first_repeat, operators_and_kernels_fit_a_narrow_page)
