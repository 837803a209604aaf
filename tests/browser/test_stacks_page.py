"""The stacks page as drawn: zoom, a search, and where things stand; frontend/tests/stacks.test.tsx has the choices."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import Tab
from tests.browser.journey import walk

RUN = {"run": "transformer_cpu", "fold": "none"}


def a_click_zooms_and_the_way_back_is_offered(tab: Tab) -> None:
    frame = tab.follow(view="stacks", **RUN)
    tree = ask(tab.address, "view/stacks", **RUN)["payloads"]["stacks"]
    child = next(place for place, above in enumerate(tree["parent"]) if above == 0)
    frame.locator("[data-testid=icicle] canvas").click(position={"x": 5, "y": 33})
    frame = tab.settle()
    assert_healthy(frame)
    assert (tab.state()["zoom"], tab.state()["row"]) == (str(child), str(child))
    frame.get_by_role("button", name="Zoom out of").click()
    frame = tab.settle()
    assert "zoom" not in tab.state()
    frame.get_by_role("button", name="Callers and callees").click()
    frame = tab.settle()
    assert frame.get_by_test_id("sandwich").inner_text().startswith(tree["rows"][child]["name"])
    frame.get_by_role("button", name="Find in flame graph").click()
    frame = tab.settle()
    assert " match" in frame.inner_text("[data-testid=count]") and "form" not in tab.state()


def typing_and_choosing_move_nothing(tab: Tab) -> None:
    tab.resize(1000, 700)
    frame = tab.follow(view="stacks", **RUN)
    chart = frame.locator("[data-testid=icicle] canvas")
    place = chart.bounding_box()
    field = frame.get_by_placeholder("Search places")
    for part in ("lin", "ear"):
        field.press_sequentially(part)
        frame = tab.settle()
        assert chart.bounding_box() == pytest.approx(place, abs=1), part  # a pixel of rounding
    frame.get_by_role("treeitem").first.dispatch_event("click")  # a click would scroll to it
    tab.settle()
    assert chart.bounding_box() == pytest.approx(place, abs=1)
    tab.page.keyboard.press("Escape")
    frame.locator("h1").evaluate("(head) => { document.activeElement.blur(); head.ownerDocument.body.focus() }")
    tab.page.keyboard.press("5")  # Model is the fifth page of a CPU trace
    tab.page.wait_for_url("**view=modules**")


def a_search_lets_the_rest_fade_and_brings_its_hits_into_sight(tab: Tab) -> None:
    frame = tab.follow(view="stacks", **RUN)
    look = "(canvas) => canvas.toDataURL()"
    before = frame.locator("[data-testid=icicle] canvas").evaluate(look)
    frame.get_by_placeholder("Search places, text or /regex/").fill("aten::linear")
    tab.page.wait_for_url("**search=**")
    frame = tab.settle()
    assert_healthy(frame)
    assert frame.locator("[data-testid=icicle] canvas").evaluate(look) != before
    tree = ask(tab.address, "view/stacks", **RUN)["payloads"]["stacks"]
    for _ in range(2):
        tab.page.keyboard.press("Enter")
        frame = tab.settle()
    hit = int(tab.state()["row"])
    assert "aten::linear" in tree["rows"][hit]["name"]
    assert frame.locator("[data-testid=icicle] canvas").evaluate(_HIT_IN_SIGHT, depth(tree, hit))


_HIT_IN_SIGHT = """
(canvas, line) => {
  const frame = canvas.parentElement.parentElement.getBoundingClientRect()
  const top = canvas.getBoundingClientRect().top + line * 22
  return top >= frame.top - 1 && top + 22 <= frame.bottom + 1
}
"""


def around(tree: dict[str, Any], place: int) -> list[int]:
    above = tree["parent"][place]
    return [above, *around(tree, above)] if above >= 0 else []


def depth(tree: dict[str, Any], place: int) -> int:
    return len(around(tree, place))


def what_is_around_a_zoomed_place_is_one_line(tab: Tab) -> None:
    tree = ask(tab.address, "view/stacks", **RUN)["payloads"]["stacks"]
    place = max(range(len(tree["rows"])), key=lambda place: depth(tree, place))
    zoom = around(tree, place)[0]
    frame = tab.follow(view="stacks", **RUN)
    height = "(canvas) => canvas.getBoundingClientRect().height"
    before = frame.locator("[data-testid=icicle] canvas").evaluate(height)
    frame = tab.follow(view="stacks", **RUN, zoom=str(zoom))
    canvas = frame.locator("[data-testid=icicle] canvas")
    assert canvas.evaluate(height) == 3 * 22 < before, "one line above it, itself, and what is beneath"
    canvas.click(position={"x": 5, "y": 5})
    tab.settle()
    assert tab.state()["zoom"] == str(around(tree, zoom)[0])
    tab.page.go_back()
    tab.settle()
    assert tab.state()["zoom"] == str(zoom)


def frames_without_calls_are_said(tab: Tab) -> None:
    frame = tab.follow(view="stacks", run="synthetic_megengine", worker="4100")
    (note,) = frame.get_by_test_id("note").all_inner_texts()
    assert "have no call counts" in note
    frame = tab.follow(view="stacks", form="functions", run="synthetic_megengine", worker="4100")
    assert frame.get_by_test_id("note").count() == 1
    frame = tab.follow(view="stacks", **RUN)
    assert frame.get_by_test_id("note").count() == 0


def the_toolbar_takes_two_rows_at_most(tab: Tab) -> None:
    tab.resize(1000, 700)
    for state in ({"search": "aten", "row": "3"}, {}, {"form": "functions", "search": "aten"}):
        frame = tab.follow(view="stacks", **RUN, **state)
        boxes = frame.locator("[data-testid=toolbar] > *").evaluate_all(
            "(all) => all.map((one) => one.getBoundingClientRect()).map(({ top, height }) => top + height / 2)"
        )
        assert max(boxes) - min(boxes) < 60, state


def test_stacks(visit: Open) -> None:
    walk(
        visit,
        a_click_zooms_and_the_way_back_is_offered,
        typing_and_choosing_move_nothing,
        a_search_lets_the_rest_fade_and_brings_its_hits_into_sight,
        what_is_around_a_zoomed_place_is_one_line,
        frames_without_calls_are_said,
        the_toolbar_takes_two_rows_at_most,
    )
