"""The critical path on the timeline: its marks, the keys along it, the slack of an event, and the way from the table."""

from __future__ import annotations

from typing import Any

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import Tab
from tests.browser.journey import walk
from tests.browser.picture import Picture, Point, figure, whole

PLACE = {"run": "synthetic_ddp", "worker": "rank0"}
CHARTS = 3
PATH = (0xD6, 0x45, 0x5D)


def ask_next(tab: Tab, **params: str) -> dict[str, Any]:
    found: dict[str, Any] = ask(tab.address, "table/path_marks/next", **PLACE, **params)["rows"][0]
    return found


def overlay_and_keys(tab: Tab) -> None:
    picture = Picture(tab, charts=CHARTS, **PLACE)
    frame = tab.open(view="timeline", **PLACE, **whole(picture))
    marks = ask(tab.address, "view/path_marks", **PLACE, limit="1000")["payloads"]["path_marks"]["rows"]
    # The first stream is visible without scrolling.
    mark = max((one for one in marks if one["lane"] == 0), key=lambda one: one["dur_ns"])
    above = Point(picture.x(mark["start_ns"] + mark["dur_ns"] / 2), picture.top(0) + 2)
    assert picture.pixel(above) != PATH
    frame.get_by_role("button", name="Display").click()
    frame.get_by_role("checkbox", name="Critical path").check()
    frame = tab.settle()
    assert tab.state()["path"] == "1"
    assert picture.pixel(above) == PATH
    assert "critical path" in frame.locator("[data-testid=timeline-key]").inner_text()
    assert not tab.axe()
    frame.get_by_role("checkbox", name="Critical path").uncheck()
    tab.page.keyboard.press("Escape")
    tab.settle()
    assert picture.pixel(above) != PATH
    # The keys turn it on again. The first event starts at the left edge.
    first = ask_next(tab, by="1", from_ns="0")
    second = ask_next(tab, by="1", event=str(first["event"]))
    for key, wanted in ((".", first), (".", second), (",", first), (".", second)):
        tab.page.keyboard.press(key)
        frame = tab.settle()
        assert tab.state()["event"] == str(wanted["event"])
    assert tab.state()["path"] == "1"
    assert "critical path" in frame.locator("[data-testid=timeline-key]").inner_text()
    facts = frame.locator("[data-testid=event-slack]").inner_text()
    block = ask(tab.address, "view/path_marks", **PLACE, event=str(second["event"]))["payloads"]["slack"]
    assert figure(block, "slack_ns") == 0 and "0 ns" in facts and "on the critical path" in facts
    assert f"{figure(block, 'path_ns') / 1000:.3f}".rstrip("0") in facts
    assert_healthy(frame)


def fast_keys_each_take_a_step(tab: Tab) -> None:
    tab.follow(view="timeline", **PLACE, start_ns="0", end_ns="1000000")
    for _ in range(4):
        tab.page.keyboard.press(".")
    tab.settle()
    wanted = ask_next(tab, by="1", from_ns="0")
    for _ in range(3):
        wanted = ask_next(tab, by="1", event=str(wanted["event"]))
    assert tab.state()["event"] == str(wanted["event"])
    low, high = int(tab.state()["start_ns"]), int(tab.state()["end_ns"])
    assert low <= wanted["start_ns"] + wanted["dur_ns"] and wanted["start_ns"] <= high


def from_the_table(tab: Tab) -> None:
    frame = tab.follow(view="critical_path", **PLACE)
    frame.locator("[role=row][data-index='0'] [role=rowheader] button:first-child").click()
    frame = tab.settle()
    frame.locator("[data-testid=detail]").get_by_role("button", name="Show in timeline").click()
    tab.settle()
    row = ask(tab.address, "table/critical_path/critical_events", **PLACE)["rows"][0]
    assert (tab.state()["view"], tab.state()["path"]) == ("timeline", "1")
    assert tab.state()["event"] == str(row["event"])


def test_the_critical_path_on_the_timeline(visit: Open) -> None:
    walk(visit, overlay_and_keys, fast_keys_each_take_a_step, from_the_table)
