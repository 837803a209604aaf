"""The curve of the memory view: a drag is a window in the URL and in the tables; a block stands on the curve."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from playwright.sync_api import Frame

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import Tab
from tests.browser.journey import walk


def a_drag_over_the_curve_drives_the_tables(tab: Tab) -> None:
    frame = tab.follow(run="synthetic_gpu", view="memory", group="memory_events")
    whole = frame.locator("[role=table]").get_attribute("aria-rowcount")
    box = frame.locator("[data-testid=curve]").bounding_box()
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
    frame.get_by_role("button", name="Show the full window").click()
    frame = tab.settle()
    assert "start_ns" not in tab.state()
    assert frame.locator("[role=table]").get_attribute("aria-rowcount") == whole


def a_click_asks_what_was_live_then(tab: Tab) -> None:
    frame = tab.follow(run="synthetic_gpu", view="memory")
    frame.locator("[data-testid=curve]").click()
    frame = tab.settle()
    assert_healthy(frame)
    moment = int(tab.state()["at_ns"])
    assert frame.inner_text("section[aria-label^='Live at'] h2") == f"Live at {moment / 1e6:.0f} ms"
    at_peak = frame.get_by_role("button", name="At the peak", exact=True)
    at_peak.click()
    frame = tab.settle()
    assert "at_ns" not in tab.state() and frame.inner_text("section[aria-label^='Live at'] h2") == "Live at the peak"


def life_on_the_curve(frame: Frame) -> tuple[float, float] | None:
    """Begin and end of the marked block as shares of the curve's window; None when no block is marked."""
    marks = frame.locator("[data-testid=curve-block]")
    if not marks.count():
        return None
    mark, curve = marks.bounding_box(), frame.locator("[data-testid=curve]").bounding_box()
    assert mark is not None and curve is not None
    left, room = mark["x"] - curve["x"] - 62, curve["width"] - 80
    return left / room, (left + mark["width"]) / room


def a_row_under_the_pointer_or_the_focus_stands_on_the_curve(tab: Tab) -> None:
    place = {"run": "synthetic_gpu", "device": "cuda:0"}
    tab.resize(1440, 1200)  # rows are hovered without scrolling
    frame = tab.follow(**place, view="memory", group="memory_events", sort="lifetime_ns")
    blocks = ask(tab.address, "table/memory/memory_events", **place, sort="lifetime_ns")["rows"]
    x = ask(tab.address, "view/memory", **place)["payloads"]["curve"]["x"]

    def expected(row: int) -> tuple[float, float]:
        times = (blocks[row]["allocated_at_ns"], blocks[row]["released_at_ns"])
        return tuple((at - x[0]) / (x[-1] - x[0]) for at in times)  # type: ignore[return-value]

    assert life_on_the_curve(frame) is None
    frame.evaluate("""() => {
      window.changes = 0
      const seen = new MutationObserver((all) => { window.changes += all.length })
      seen.observe(document.querySelector('[data-testid=grid]'), {subtree: true, childList: true, characterData: true})
    }""")
    asked: list[str] = []
    # The list of runs is asked for every few seconds, whatever is done.
    tab.page.on("request", lambda request: None if "/runs" in request.url else asked.append(request.url))
    rows = frame.locator("[data-index]")
    for i in (0, 3, 1):
        rows.nth(i).hover()
        assert life_on_the_curve(frame) == pytest.approx(expected(i), abs=0.01)
    frame.locator("[role=columnheader] >> nth=0").hover()
    assert life_on_the_curve(frame) is None, "left"
    names = frame.locator("[role=rowheader] button:first-child")
    names.nth(1).focus()
    assert life_on_the_curve(frame) == pytest.approx(expected(1), abs=0.01)
    tab.page.keyboard.press("ArrowDown")
    assert life_on_the_curve(frame) == pytest.approx(expected(2), abs=0.01)
    names.nth(2).blur()
    assert life_on_the_curve(frame) is None
    assert asked == [] and frame.evaluate("window.changes") == 0, "pointing asks nothing and draws no row again"

    names.nth(0).click()
    frame = tab.settle()
    frame.locator("[data-testid=toolbar]").hover()
    names.nth(0).blur()
    assert life_on_the_curve(frame) == pytest.approx(expected(0), abs=0.01), "an opened row keeps its mark"
    frame.get_by_text("By operator", exact=True).click()
    frame = tab.settle()
    assert life_on_the_curve(frame) is None, "rows of other tables are no blocks"


def the_totals_of_an_allocator_and_the_components(tab: Tab) -> None:
    """The chosen allocator is in the URL, its peaks stand beside its curve; empty components are behind a switch."""
    rank = {"run": "synthetic_ascend", "worker": "rank0"}
    place = {**rank, "view": "memory"}
    frame = tab.follow(**place)
    assert_healthy(frame)
    curves = frame.locator("[data-testid=curve]")
    assert curves.count() == 2
    frame.get_by_label("Allocator", exact=True).select_option("PTA+GE")
    frame = tab.settle()
    assert unquote(tab.state()["allocator"]) == "PTA+GE"
    card = frame.locator("section[aria-label='Peaks of PTA+GE']")
    payload = ask(tab.address, "view/memory", **rank, allocator="PTA+GE")["payloads"]["allocator_peaks"]
    assert [each.strip() for each in card.locator("dt").all_inner_texts()] == [
        figure["metric"]["title"] for figure in payload["figures"]
    ]
    frame = tab.follow(**place, group="memory_components")
    rows = frame.locator("[role=table]")
    few = rows.get_attribute("aria-rowcount")
    every = ask(tab.address, "table/memory/memory_components", **rank, device="npu:0", zeros="1")
    frame.get_by_role("checkbox", name="empty").click()
    frame = tab.settle()
    assert rows.get_attribute("aria-rowcount") == str(every["total_rows"] + 1) != few
    assert tab.state()["zeros"] == "1"


def pages_of_other_traces_have_one_curve(tab: Tab) -> None:
    frame = tab.open(run="synthetic_gpu", view="memory")
    assert frame.locator("[data-testid=curve]").count() == 1
    assert not frame.get_by_role("radio", name="Allocators").count()


def test_memory(visit: Open) -> None:
    walk(
        visit,
        a_drag_over_the_curve_drives_the_tables,
        a_click_asks_what_was_live_then,
        a_row_under_the_pointer_or_the_focus_stands_on_the_curve,
        the_totals_of_an_allocator_and_the_components,
        pages_of_other_traces_have_one_curve,
    )
