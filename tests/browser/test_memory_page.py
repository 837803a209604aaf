"""The curve of the memory view: a drag is a window in the URL and in the tables; a block stands on the curve."""

from __future__ import annotations

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy


def test_a_drag_over_the_curve_drives_the_tables(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(run="synthetic_gpu", view="memory", group="memory_events")
    whole = frame.locator("[role=table]").get_attribute("aria-rowcount")
    box = frame.locator(".tt-curve").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    tab.page.mouse.move(box["x"] + box["width"] * 0.5, middle)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + box["width"] * 0.7, middle, steps=4)
    tab.page.mouse.up()
    frame = tab.settle()
    assert_healthy(frame)
    state = tab.state()
    window = {key: state[key] for key in ("start_ns", "end_ns")}
    place = {"run": "synthetic_gpu", "device": "cuda:0"}
    server = ask(tab.address, "table/memory/memory_events", **place, **window)
    shown = frame.locator("[role=table]").get_attribute("aria-rowcount")
    assert shown == str(server["matched_rows"] + 1) != whole
    frame.get_by_role("button", name="Show the whole window").click()
    frame = tab.settle()
    assert "start_ns" not in tab.state()
    assert frame.locator("[role=table]").get_attribute("aria-rowcount") == whole


def test_a_click_asks_what_was_live_then(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(run="synthetic_gpu", view="memory")
    frame.locator(".tt-curve").click()
    frame = tab.settle()
    assert_healthy(frame)
    assert "at_ns" in tab.state()
    assert "Live at the chosen moment" in frame.inner_text("#main")


def test_another_device(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(run="synthetic_gpu", view="memory", device="cpu")
    server = ask(tab.address, "table/memory/memory_operators", run="synthetic_gpu", device="cpu")
    assert frame.locator("[role=table]").get_attribute("aria-rowcount") == str(server["total_rows"] + 1)
