"""Roofline: dots of the rows that match a search, and the row of a dot."""

from __future__ import annotations

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import Tab
from tests.browser.journey import walk

PLACE = {"run": "synthetic_gpu"}
CHART = "Rate by FLOPs per byte"


def dots_follow_the_search(tab: Tab) -> None:
    tab.resize(1000, 700)
    frame = tab.follow(view="roofline", **PLACE)
    assert_healthy(frame)
    assert tab.axe() == [] and tab.overflow() <= 0
    text = frame.get_by_role("img", name=CHART).get_attribute("aria-label") or ""
    assert "Matrix products, convolutions, attention: " in text and "Other operators: " in text
    frame = tab.follow(view="roofline", search="aten::addmm", **PLACE)
    rows = ask(tab.address, "table/roofline/roofline", **PLACE, search="aten::addmm")["rows"]
    text = frame.get_by_role("img", name=CHART).get_attribute("aria-label") or ""
    assert f"Matrix products, convolutions, attention: {len(rows)} at" in text and "Other operators" not in text


def a_row_that_is_opened_elsewhere_is_scrolled_into_view(tab: Tab) -> None:
    rows = ask(tab.address, "table/roofline/roofline", **PLACE)["rows"]
    last = rows[-1]
    tab.follow(view="roofline", **PLACE)
    key = "\u001e".join(str(last[column] or "") for column in ("name", "input_shape", "number_format"))
    frame = tab.follow(view="roofline", row=key, **PLACE)
    box = frame.get_by_test_id("detail").bounding_box()
    assert box is not None and 0 <= box["y"] < 700


def test_roofline(visit: Open) -> None:
    walk(visit, dots_follow_the_search, a_row_that_is_opened_elsewhere_is_scrolled_into_view)
