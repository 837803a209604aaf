"""The page Memory of a snapshot: a block is kept with its stack; window, moment and axis are in the URL."""

from __future__ import annotations

from playwright.sync_api import FloatRect, Frame

from tb_plugin.format import format_value
from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import Tab

PLACE = {"run": "synthetic_memory", "worker": "out_of_memory"}
LEFT, RIGHT, TOP, BOTTOM = 62, 18, 18, 22
"""Room around the bands, as in bandsScene.ts."""


def canvas_box(frame: Frame) -> FloatRect:
    canvas = frame.locator("[data-testid=bands] canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    return box


def point(box: FloatRect, at: float, height: float) -> tuple[float, float]:
    """Where a share of the axis and a share of the height lie on the page."""
    x = box["x"] + LEFT + (box["width"] - LEFT - RIGHT) * at
    return x, box["y"] + TOP + (box["height"] - TOP - BOTTOM) * (1 - height)


def window(tab: Tab) -> tuple[int, int]:
    state = tab.state()
    return int(state["from"]), int(state["to"])


def test_a_block_is_kept_and_walked_from(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="allocations", **PLACE)
    assert_healthy(frame)
    assert frame.inner_text("[data-testid=answer]").startswith("At its peak cuda:0 has 1.12 GiB allocated")
    tile = ask(tab.address, "view/active_memory", tile="0", **PLACE)["payloads"]["bands"]
    # In the middle of the history the lowest block is the first one of the tile.
    tab.page.mouse.click(*point(canvas_box(frame), 0.5, 0.001))
    frame = tab.settle()
    block = int(tab.state()["block"])
    assert block == tile["block"][0]
    facts = frame.inner_text("[data-testid=block]")
    assert "model.py" in facts and format_value(tile["size_bytes"][0], "bytes") in facts
    frame.locator("[data-testid=bands] canvas").focus()
    tab.page.keyboard.press("ArrowUp")
    tab.settle()
    above = int(tab.state()["block"])
    tab.page.keyboard.press("ArrowDown")
    tab.settle()
    assert above > block == int(tab.state()["block"])
    frame.get_by_role("button", name="Show in Blocks table").click()
    frame = tab.settle()
    assert frame.locator("[role=table]").get_attribute("aria-rowcount") == "2"
    tab.frame().locator("[data-testid=bands] canvas").focus()
    tab.page.keyboard.press("Escape")
    tab.settle()
    assert "block" not in tab.state()
    assert tab.axe() == [] and tab.overflow() == 0


def test_window_moment_and_axis_are_in_the_url(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="allocations", **PLACE)
    box = canvas_box(frame)
    tab.page.mouse.move(*point(box, 0.5, 0.5))
    tab.page.mouse.wheel(0, -400)
    tab.page.wait_for_function("location.hash.includes('.from=')")
    frame = tab.settle()
    first, last = window(tab)
    curve = ask(tab.address, "view/active_memory", **PLACE, **{"from": str(first), "to": str(last)})["payloads"][
        "curve"
    ]
    assert first > 0 and (curve["x"][0], curve["x"][-1]) == (first, last)
    # A drag to the right shows what was earlier.
    tab.page.mouse.down()
    tab.page.mouse.move(*point(box, 0.7, 0.5), steps=3)
    tab.page.mouse.up()
    tab.page.wait_for_function(f"!location.hash.includes('.from={first}&')")
    frame = tab.settle()
    assert window(tab)[0] < first and abs((window(tab)[1] - window(tab)[0]) - (last - first)) <= 1
    tab.page.keyboard.down("Shift")
    tab.page.mouse.click(*point(box, 0.5, 0.1))
    tab.page.keyboard.up("Shift")
    frame = tab.settle()
    moment = int(tab.state()["at"])
    assert window(tab)[0] < moment < window(tab)[1]
    held = ask(tab.address, "view/allocations", **PLACE, at=str(moment))["payloads"]["held_stacks"]
    assert frame.locator("[role=table]").get_attribute("aria-rowcount") == str(held["total_rows"] + 1)
    assert frame.get_by_role("button", name="Back to the peak").is_visible()
    frame.get_by_role("radiogroup", name="Axis").get_by_text("Time").click()
    tab.settle()
    assert tab.state()["axis"] == "time" and "from" not in tab.state()
