"""The stacks page: choices and zoom are in the URL, a search goes from hit to hit, functions open, exports agree."""

from __future__ import annotations

import urllib.request
from typing import Any
from urllib.parse import unquote

import pytest
from playwright.sync_api import Route

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy

RUN = {"run": "transformer_cpu"}


def test_a_click_zooms_and_the_way_back_is_offered(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="stacks", **RUN)
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


def test_typing_and_choosing_move_nothing(open_tab: Open) -> None:
    tab = open_tab(size=(1000, 700))
    frame = tab.open(view="stacks", **RUN)
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


def test_a_search_lets_the_rest_fade(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="stacks", **RUN)
    look = "(canvas) => canvas.toDataURL()"
    before = frame.locator("[data-testid=icicle] canvas").evaluate(look)
    frame.get_by_placeholder("Search places, text or /regex/").fill("aten::linear")
    tab.page.wait_for_url("**search=**")
    frame = tab.settle()
    assert_healthy(frame)
    assert frame.locator("[data-testid=icicle] canvas").evaluate(look) != before
    assert " match" in frame.inner_text("[data-testid=count]")


def test_choices_and_exports(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="stacks", run="synthetic_gpu")
    frame.get_by_label("Measure").select_option("device")
    frame = tab.settle()
    frame.get_by_label("Frame type").select_option("operators")
    frame = tab.settle()
    assert_healthy(frame)
    assert (tab.state()["weight"], tab.state()["of"]) == ("device", "operators")
    tree = ask(tab.address, "view/stacks", run="synthetic_gpu", of="operators", weight="device")["payloads"]["stacks"]
    total = sum(row["device_ns"] for row, above in zip(tree["rows"], tree["parent"], strict=True) if above < 0)
    frame.get_by_role("button", name="Save as").click()
    link = frame.get_by_role("link", name="Folded stacks").get_attribute("href")
    assert link is not None
    with urllib.request.urlopen(link) as answer:
        lines = answer.read().decode().splitlines()
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == total > 0


def test_a_search_goes_from_hit_to_hit_out_of_a_zoom_and_sums_them(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="stacks", **RUN)
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
    frame = tab.open(view="stacks", **RUN, search="aten::linear", zoom=str(hits[-1]), row=str(hits[-1]))
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


def test_what_is_around_a_zoomed_place_is_one_line(open_tab: Open) -> None:
    tab = open_tab()
    tree = ask(tab.address, "view/stacks", **RUN)["payloads"]["stacks"]
    place = max(range(len(tree["rows"])), key=lambda place: depth(tree, place))
    zoom = around(tree, place)[0]
    frame = tab.open(view="stacks", **RUN)
    height = "(canvas) => canvas.getBoundingClientRect().height"
    before = frame.locator("[data-testid=icicle] canvas").evaluate(height)
    frame = tab.open(view="stacks", **RUN, zoom=str(zoom))
    canvas = frame.locator("[data-testid=icicle] canvas")
    assert canvas.evaluate(height) == 3 * 22 < before, "one line above it, itself, and what is beneath"
    canvas.click(position={"x": 5, "y": 5})
    tab.settle()
    assert tab.state()["zoom"] == str(around(tree, zoom)[0])
    tab.page.go_back()
    tab.settle()
    assert tab.state()["zoom"] == str(zoom)


def test_a_function_opens_into_its_callers_and_callees(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="stacks", **RUN)
    frame.get_by_text("Functions", exact=True).click()
    frame = tab.settle()
    first = ask(tab.address, "table/stacks/functions", **RUN)["rows"][0]["name"]
    frame.get_by_text(first, exact=True).first.click()
    frame = tab.settle()
    assert_healthy(frame)
    assert (tab.state()["form"], tab.state()["row"].replace("%3A", ":")) == ("functions", first)
    answer = ask(tab.address, "view/stacks", **RUN, function=first)["payloads"]
    for side in ("Callers", "Callees"):
        shown = frame.get_by_role("region", name=side).get_by_role("treeitem")
        assert shown.first.inner_text().startswith(first)
    caller = answer["callers"]["rows"][1]["name"]
    frame.get_by_role("region", name="Callers").get_by_role("treeitem").nth(1).click()
    frame.get_by_role("button", name="Open this function").click()
    frame = tab.settle()
    sandwich = frame.get_by_test_id("sandwich")
    assert sandwich.inner_text().startswith(caller)
    tab.page.go_back()
    frame = tab.settle()
    assert frame.get_by_test_id("sandwich").inner_text().startswith(first)


def test_folding_is_in_the_address_and_in_the_exports(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="stacks", **RUN)
    frame.get_by_role("button", name="Display", exact=True).click()
    frame.get_by_label("Merged into their caller").click()
    frame = tab.settle()
    assert tab.state()["fold"] == "framework"
    tab.page.keyboard.press("Escape")
    frame.get_by_role("button", name="Save as").click()
    link = frame.get_by_role("link", name="Folded stacks").get_attribute("href")
    assert link is not None and "fold=framework" in link
    whole = ask(tab.address, "view/stacks", **RUN)["payloads"]["stacks"]["total_nodes"]
    folded = ask(tab.address, "view/stacks", **RUN, fold="framework")["payloads"]["stacks"]["total_nodes"]
    assert f"{folded:,} place" in frame.inner_text("[data-testid=count]") and folded < whole


def test_idle_threads_are_named_and_counted_on_demand(open_tab: Open) -> None:
    tab = open_tab()

    def with_an_idle_one(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        if answer.status == 200:
            row = {"thread": "monitor", "thread_key": "1:0", "events": 3, "thread_host_ns": 10, "thread_wait_ns": 10}
            body["payloads"]["threads"]["rows"].append(row | {"thread_idle": True})
        route.fulfill(response=answer, json=body)

    tab.page.route("**/view/stacks*", with_an_idle_one)
    frame = tab.open(view="stacks", **RUN)
    assert frame.inner_text("[data-testid=idle]").startswith("1 idle thread hidden: monitor, 10")
    frame.get_by_role("button", name="Threads: Busy threads").click()
    assert frame.get_by_test_id("thread").last.inner_text().startswith("monitor")
    assert not frame.get_by_role("checkbox", name="monitor").is_checked()
    tab.page.keyboard.press("Escape")
    frame.get_by_role("button", name="Show it").click()
    frame = tab.settle()
    assert tab.state()["thread"] == "all" and frame.get_by_test_id("idle").count() == 0


def test_what_is_one_place_for_two_threads_is_said(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="stacks", run="synthetic_megengine", worker="4100")
    first, second = frame.get_by_test_id("note").all_inner_texts()
    assert "interpreter hands over what worker runs" in first and "count 0 calls" in second
    frame = tab.open(view="stacks", form="functions", run="synthetic_megengine", worker="4100")
    assert frame.get_by_test_id("note").count() == 2
    frame = tab.open(view="stacks", **RUN)
    assert frame.get_by_test_id("note").count() == 0


def test_any_threads_are_chosen_in_the_menu_and_everything_follows(open_tab: Open) -> None:
    tab = open_tab(size=(1000, 700))
    place = {"run": "ddp_gloo", "worker": "rank0"}
    threads = ask(tab.address, "view/stacks", **place)["payloads"]["threads"]["rows"]
    keys = [row["thread_key"] for row in threads]
    assert len(keys) > 2
    frame = tab.open(view="stacks", **place)
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


def test_the_toolbar_takes_two_rows_at_most(open_tab: Open) -> None:
    tab = open_tab(size=(1000, 700))
    for state in ({"search": "aten", "row": "3"}, {}, {"form": "functions", "search": "aten"}):
        frame = tab.open(view="stacks", **RUN, **state)
        boxes = frame.locator("[data-testid=toolbar] > *").evaluate_all(
            "(all) => all.map((one) => one.getBoundingClientRect()).map(({ top, height }) => top + height / 2)"
        )
        assert max(boxes) - min(boxes) < 60, state
