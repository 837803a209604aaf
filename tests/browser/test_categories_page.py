"""Memory by category: the sentence of the peak, a window and a moment in the URL, and both themes."""

from __future__ import annotations

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import Tab
from tests.browser.journey import walk

PLACE = {"run": "memory_timeline_cpu", "worker": "worker0.memory_timeline.raw"}


def the_peak_a_window_and_a_moment(tab: Tab) -> None:
    tab.resize(1000, 700)
    frame = tab.follow(**PLACE)
    assert_healthy(frame)
    assert frame.locator("h1").inner_text() == "Memory by category"
    assert frame.get_by_role("navigation", name="Pages").get_by_role("button").count() == 1
    said = frame.get_by_test_id("answer").inner_text()
    assert said.startswith("Memory peaks at 12.4 ms with 1.66 MiB: activations (916 KiB), autograd detail (400 KiB)")
    assert tab.overflow() == 0 and tab.axe() == []

    box = frame.locator("[data-testid=curve]").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    tab.page.mouse.move(box["x"] + box["width"] * 0.85, middle)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + box["width"] * 0.95, middle, steps=4)
    tab.page.mouse.up()
    frame = tab.settle()
    state = tab.state()
    window = {key: state[key] for key in ("start_ns", "end_ns")}
    frame.locator("[data-testid=curve]").click()
    frame = tab.settle()
    assert_healthy(frame)
    moment = tab.state()["at_ns"]
    server = ask(tab.address, "view/categories", **PLACE, **window, at_ns=moment)["payloads"]
    parts = server["composition"]["parts"]
    now = frame.locator("section[aria-label^='Memory at'] li")
    assert now.count() == len(parts) + 1
    assert [parts[i]["metric"]["title"] in now.nth(i).inner_text() for i in range(len(parts))] == [True] * len(parts)
    frame.get_by_role("button", name="At the peak", exact=True).click()
    frame = tab.settle()
    frame.get_by_role("button", name="Show the full window").click()
    frame = tab.settle()
    assert not {"at_ns", "start_ns", "end_ns"} & tab.state().keys()
    assert frame.get_by_test_id("answer").inner_text() == said


def the_memory_view_of_the_trace_says_the_same(tab: Tab) -> None:
    frame = tab.follow(run=PLACE["run"], worker="worker0", view="memory", live="category")
    assert_healthy(frame)
    told = frame.inner_text("section[aria-label^='Live at']")
    recorded = ask(tab.address, "view/categories", **PLACE)["payloads"]["composition"]["parts"]
    assert len(recorded) == 6
    for part in recorded:
        assert part["metric"]["title"] in told
    assert "916 KiB" in told and "1.66 MiB" in told


def test_categories(visit: Open) -> None:
    walk(visit, the_peak_a_window_and_a_moment, the_memory_view_of_the_trace_says_the_same)
