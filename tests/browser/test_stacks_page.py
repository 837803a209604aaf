"""The stacks page: choices and zoom are in the URL, a search goes from hit to hit, functions open, exports agree."""

from __future__ import annotations

import urllib.request
from typing import Any
from urllib.parse import unquote

import pytest

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import Tab
from tests.browser.journey import walk

RUN = {"run": "transformer_cpu"}


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
    frame.get_by_role("treeitem").first.click()
    tab.settle()
    assert chart.bounding_box() == pytest.approx(place, abs=1)
    tab.page.keyboard.press("Escape")
    frame.locator("h1").evaluate("(head) => { document.activeElement.blur(); head.ownerDocument.body.focus() }")
    tab.page.keyboard.press("5")  # the fifth of the navigation, whatever the order of the profile's views
    tab.page.wait_for_url("**view=phases**")


def a_search_lets_the_rest_fade(tab: Tab) -> None:
    frame = tab.follow(view="stacks", **RUN)
    look = "(canvas) => canvas.toDataURL()"
    before = frame.locator("[data-testid=icicle] canvas").evaluate(look)
    frame.get_by_placeholder("Search places, text or /regex/").fill("aten::linear")
    tab.page.wait_for_url("**search=**")
    frame = tab.settle()
    assert_healthy(frame)
    assert frame.locator("[data-testid=icicle] canvas").evaluate(look) != before
    assert " match" in frame.inner_text("[data-testid=count]")


def a_search_goes_from_hit_to_hit_out_of_a_zoom_and_sums_them(tab: Tab) -> None:
    frame = tab.follow(view="stacks", **RUN)
    tree = ask(tab.address, "view/stacks", **RUN)["payloads"]["stacks"]
    hits = [place for place, row in enumerate(tree["rows"]) if "aten::linear" in row["name"]]
    outer = [
        hit for hit in hits if not any(tree["rows"][above]["name"] == "aten::linear" for above in around(tree, hit))
    ]
    frame.get_by_placeholder("Search places, text or /regex/").fill("aten::linear")
    tab.page.wait_for_url("**search=**")
    frame = tab.settle()
    share = sum(tree["rows"][hit]["host_ns"] for hit in outer) / sum(
        row["host_ns"] for row, above in zip(tree["rows"], tree["parent"], strict=True) if above < 0
    )
    assert f"{len(hits)} of " in frame.inner_text("[data-testid=count]")
    assert f"({share * 100:.1f} %)" in frame.inner_text("[data-testid=count]").replace("\xa0", " ")
    for hit in (hits[0], hits[1]):
        tab.page.keyboard.press("Enter")
        frame = tab.settle()
        assert tab.state()["row"] == str(hit)
    assert "2 / " in frame.inner_text("[data-testid=count]")
    assert frame.locator("[data-testid=icicle] canvas").evaluate(_HIT_IN_SIGHT, depth(tree, hits[1]))
    frame.get_by_role("button", name="Previous match").click()
    tab.settle()
    assert tab.state()["row"] == str(hits[0])
    frame = tab.follow(view="stacks", **RUN, search="aten::linear", zoom=str(hits[-1]), row=str(hits[-1]))
    frame.get_by_role("button", name="Next match").click()
    tab.settle()
    assert tab.state()["row"] == str(hits[0]) and "zoom" not in tab.state()


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


def any_threads_are_chosen_in_the_menu_and_everything_follows(tab: Tab) -> None:
    tab.resize(1000, 700)
    place = {"run": "ddp_gloo", "worker": "rank0"}
    threads = ask(tab.address, "view/stacks", **place)["payloads"]["threads"]["rows"]
    keys = [row["thread_key"] for row in threads]
    assert len(keys) > 2
    frame = tab.follow(view="stacks", **place)
    frame.get_by_role("button", name="Threads: All threads").click()
    boxes = frame.get_by_test_id("thread").get_by_role("checkbox")
    boxes.first.wait_for()
    assert boxes.count() == len(keys) and all(box.is_checked() for box in boxes.all())
    boxes.first.press("Space")
    frame = tab.settle()
    rest = keys[1:]
    assert splits(tab.state()["thread"]) == rest
    assert not tab.axe()
    tab.page.keyboard.press("Escape")
    said = f"{len(rest)} of {len(keys)} threads" if len(rest) > 1 else threads[1]["thread"]
    assert frame.get_by_role("button", name=f"Threads: {said}").count() == 1
    both = f"view/stacks?thread={rest[0]}&thread={rest[1]}&"
    answer = ask(tab.address, both, **place)["payloads"]
    time = sum(row["thread_host_ns"] for row in threads[1:])
    roots = (row for row, above in zip(answer["stacks"]["rows"], answer["stacks"]["parent"], strict=True) if above < 0)
    assert sum(row["host_ns"] for row in roots) == time
    assert f"{answer['stacks']['total_nodes']:,} place" in frame.inner_text("[data-testid=count]")
    frame.get_by_role("button", name="Save as").click()
    link = frame.get_by_role("link", name="Folded stacks").get_attribute("href")
    assert link is not None
    with urllib.request.urlopen(link) as exported:
        lines = exported.read().decode().splitlines()
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == time
    tab.page.keyboard.press("Escape")
    frame.get_by_text("Functions", exact=True).click()
    frame = tab.settle()
    assert f"{answer['functions']['total_rows']:,} row" in frame.inner_text("[data-testid=count]")
    frame.get_by_role("button", name=f"Threads: {said}").click()
    frame.get_by_role("button", name=f"Only {threads[-1]['thread']}").click()
    tab.settle()
    assert splits(tab.state()["thread"]) == keys[-1:]
    tab.page.go_back()
    tab.settle()
    assert splits(tab.state()["thread"]) == rest
    assert_healthy(tab.frame())


def splits(text: str) -> list[str]:
    """As the address writes a list of ids."""
    return [unquote(one) for one in unquote(text).split(",")]


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
        a_search_lets_the_rest_fade,
        a_search_goes_from_hit_to_hit_out_of_a_zoom_and_sums_them,
        what_is_around_a_zoomed_place_is_one_line,
        frames_without_calls_are_said,
        any_threads_are_chosen_in_the_menu_and_everything_follows,
        the_toolbar_takes_two_rows_at_most,
    )
