"""The backward pass: the answer, the table, and the way from a row to both of its events on the timeline."""

from __future__ import annotations

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import Tab
from tests.browser.journey import walk
from tests.browser.test_show_in_timeline import hit

RUN = "patch_dropout_cpu"
KEYS = ("backward_operator", "forward_operator", "forward_path", "forward_line")


def a_gather_leads_to_its_layer_and_to_the_timeline(tab: Tab) -> None:
    frame = tab.follow(run=RUN, view="backward")
    assert_healthy(frame)
    first = ask(tab.address, "table/backward/backward_operators", run=RUN)["rows"][0]
    said = frame.get_by_test_id("answer").inner_text()
    assert said.startswith(
        "GatherBackward0 of aten::gather in PatchDropout_0 at record_patch_dropout_cpu.py(23): forward takes "
    )
    assert tab.axe() == []
    frame.get_by_text("GatherBackward0", exact=True).last.click()
    frame = tab.settle()
    assert_healthy(frame)
    frame.get_by_test_id("detail-name").get_by_role("button", name="Show in timeline").click()
    frame = tab.settle()
    assert tab.state()["view"] == "timeline"
    where = [f"{key}:{first[key] or ''}" for key in KEYS]
    assert hit(tab) == where
    tab.page.go_back()
    frame = tab.settle()
    frame.get_by_role("button", name="Show this event in the timeline").first.click()
    frame = tab.settle()
    assert_healthy(frame)
    assert "aten::gather" in frame.locator("main").inner_text(), "the event names its forward operator"


def lines_have_forward_and_backward_side_by_side(tab: Tab) -> None:
    tab.resize(1000, 700)
    frame = tab.follow(run=RUN, view="backward", group="backward_lines")
    assert_healthy(frame)
    grid = frame.get_by_test_id("grid")
    assert "Forward CPU" in grid.inner_text() and "Backward CPU" in grid.inner_text()
    assert grid.evaluate("(node) => node.scrollWidth - node.clientWidth") == 0
    assert tab.overflow() <= 0


def test_backward(visit: Open) -> None:
    walk(visit, a_gather_leads_to_its_layer_and_to_the_timeline, lines_have_forward_and_backward_side_by_side)
