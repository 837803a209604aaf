"""The stacks page: choices and zoom are in the URL, a search lets the rest fade, and the exports hold the same time."""

from __future__ import annotations

import urllib.request

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
    tab.settle()
    assert "zoom" not in tab.state()


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
    frame.get_by_label("Time of the stacks").select_option("device")
    frame = tab.settle()
    frame.get_by_label("Frames of the stacks").select_option("operators")
    frame = tab.settle()
    assert_healthy(frame)
    assert (tab.state()["weight"], tab.state()["of"]) == ("device", "operators")
    tree = ask(tab.address, "view/stacks", run="synthetic_gpu", of="operators", weight="device")["payloads"]["stacks"]
    total = sum(row["device_ns"] for row, above in zip(tree["rows"], tree["parent"], strict=True) if above < 0)
    link = frame.get_by_role("link", name="Folded stacks").get_attribute("href")
    assert link is not None
    with urllib.request.urlopen(link) as answer:
        lines = answer.read().decode().splitlines()
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == total > 0
