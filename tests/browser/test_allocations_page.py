"""The page Memory of a snapshot: a block is kept with its stack; window, moment and axis are in the URL."""

from __future__ import annotations

import pickle
from pathlib import Path

from playwright.sync_api import FloatRect, Frame, Locator

from tb_plugin.format import format_value
from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import Tab
from tests.browser.journey import walk
from tests.synthetic_memory import generator

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


def a_block_is_kept_and_walked_from(tab: Tab) -> None:
    frame = tab.follow(view="allocations", **PLACE)
    assert_healthy(frame)
    assert frame.inner_text("[data-testid=answer]").startswith("Out of memory at event 2,557: 16.0 MiB requested by ")
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
    frame.get_by_role("button", name="Show in table").click()
    frame = tab.settle()
    assert frame.locator("[role=table]").get_attribute("aria-rowcount") == "2"
    tab.frame().locator("[data-testid=bands] canvas").focus()
    tab.page.keyboard.press("Escape")
    tab.settle()
    assert "block" not in tab.state()
    assert tab.axe() == [] and tab.overflow() == 0


def window_moment_and_axis_are_in_the_url(tab: Tab) -> None:
    frame = tab.follow(view="allocations", **PLACE)
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


def box_of(part: Locator) -> FloatRect:
    box = part.bounding_box()
    assert box is not None
    return box


def what_is_clicked_and_pointed_at_is_in_sight(tab: Tab) -> None:
    """On a small screen, without scrolling."""
    tab.resize(1000, 700)
    frame = tab.follow(view="allocations", **PLACE)
    canvas = box_of(frame.locator("[data-testid=bands] canvas"))
    right, bottom = canvas["x"] + canvas["width"], min(canvas["y"] + canvas["height"] - BOTTOM, 690)
    assert bottom - canvas["y"] > 120  # below three findings
    for x, y in ((right - RIGHT - 4, bottom - 4), (canvas["x"] + LEFT + 90, bottom - 4)):
        tab.page.mouse.move(x, y)
        frame.locator("[data-testid=tip]", has_text="click: select").wait_for()
        tip = box_of(frame.locator("[data-testid=tip]"))
        assert tip["x"] >= 0 and tip["y"] >= 0 and tip["x"] + tip["width"] <= 1000 and tip["y"] + tip["height"] <= 700
    # Whoever rests on a block sees its stack, from inside.
    tab.page.mouse.move(right - RIGHT - 4, bottom - 4)
    stack = frame.locator("[data-testid=tip-stack] li")
    stack.last.wait_for()
    assert stack.all_inner_texts()[-1].endswith("train.py(120): <module>")
    tab.page.mouse.click(right - RIGHT - 4, bottom - 4)
    frame = tab.settle()
    assert "block" in tab.state()
    facts = frame.locator("[data-testid=block] dl").first
    panel = box_of(facts)
    assert panel["x"] >= right and panel["y"] + panel["height"] <= 700
    assert box_of(frame.locator("[data-testid=bands] canvas")) == canvas  # nothing moved under the pointer
    assert "expandable_segments" not in frame.inner_text("[aria-label=Findings]")
    frame.get_by_role("button", name="Show advice").click()
    assert "expandable_segments" in tab.settle().inner_text("[aria-label=Findings]")
    assert tab.overflow() == 0


def planted(folder: Path) -> Path:
    """A block of a module in the default pool, and one in a private pool that held twice as much before."""
    allocator = generator.Allocator(1 << 30)
    calls = ("model.py", 44, "forward"), ("model.py", 70, "Block.forward")
    allocator.allocate(8 * generator.MIB, generator.stack(*calls))
    for _ in range(2):
        address = allocator.allocate(32 * generator.MIB, generator.stack(("graph.py", 20, "capture")), pool=(1, 0))
    allocator.free(address)
    (folder / "pooled").mkdir()
    (folder / "pooled" / "rank0.pickle").write_bytes(pickle.dumps(allocator.snapshot(), protocol=4))
    return folder


def test_modules_private_pools_and_segments(visit: Open, tmp_path: Path) -> None:
    tab = visit(planted(tmp_path))
    frame = tab.follow(view="allocations", run="pooled", color="module")
    assert "model.py: forward, called at model.py(70)" in frame.inner_text("[data-testid=bands-key]")
    # In the middle of the last events the pool is 64 MiB high, half of it empty; the other block lies on top.
    frame.get_by_label("Show as").select_option("pools")
    frame = tab.settle()
    assert tab.state()["layer"] == "pools"
    assert "peak of private pools" in frame.inner_text("[data-testid=bands-key]")
    for mib, told in ((16, "graph.py(20)"), (48, "private 1.0 pool"), (66, "model.py(44)")):
        tab.page.mouse.move(*point(canvas_box(frame), 0.97, mib / 72 / 1.04))
        frame.locator("[data-testid=tip]", has_text=told).wait_for()
    frame.get_by_role("button", name="called at model.py(70)").click()
    frame = tab.settle()
    assert tab.state()["where"].startswith("block_module:")
    assert frame.locator("[role=table]").get_attribute("aria-rowcount") == "2"
    frame.get_by_label("Show as").select_option("segments")
    frame = tab.settle()
    colors = frame.get_by_role("radiogroup", name="Color by")
    assert colors.get_by_role("radio", name="Category").is_disabled()
    colors.get_by_text("Category").hover()
    assert "No visible block has a category" in frame.get_by_role("tooltip").inner_text()
    tab.page.mouse.click(*point(canvas_box(frame), 0.97, 0.01))
    frame = tab.settle()
    assert "Segment 0" in frame.inner_text("section[aria-label=Segment]") and tab.state()["segment"] == "0"
    assert "20.0 MiB" in frame.inner_text("[data-testid=block]")
    assert tab.overflow() == 0


def test_allocations(visit: Open) -> None:
    walk(
        visit,
        a_block_is_kept_and_walked_from,
        window_moment_and_axis_are_in_the_url,
        what_is_clicked_and_pointed_at_is_in_sight,
    )
