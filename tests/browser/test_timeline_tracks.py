"""Tracks of the timeline and what lies over them: filtered, pinned, moved, closed; arrows; fingers; a server that fails."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from playwright.sync_api import Route

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import Tab
from tests.browser.journey import walk
from tests.browser.picture import GUTTER, HEAD, Picture, Point, whole

RUN = "synthetic_gpu"


def chosen(tab: Tab, key: str) -> list[str]:
    return [unquote(one) for one in unquote(tab.state().get(key, "")).split(",") if one]


def arranged_tracks_are_drawn_so_and_the_link_shows_the_same(tab: Tab) -> None:
    """The menu itself is tested in frontend/tests."""
    picture = Picture(tab, run=RUN)
    ids = [track["id"] for track in picture.head["tracks"]]
    frame = tab.follow(run=RUN, view="timeline", charts="none", **whole(picture))
    first = picture.digest()
    arranged = {"pin": ids[4], "lanes": ids[2], "shut": ids[0], "tracks": "autograd"}
    frame = tab.follow(run=RUN, view="timeline", charts="none", **whole(picture), **arranged)
    assert picture.digest() != first
    frame.get_by_role("button", name=f"Tracks (2 of {len(ids)})").click()
    frame.get_by_test_id("track").first.wait_for()
    assert not tab.axe()
    frame.get_by_role("button", name="Reset").click()
    tab.page.keyboard.press("Escape")
    tab.settle()
    assert not arranged.keys() & set(tab.state())
    assert picture.digest() == first


def a_click_on_the_triangle_closes_its_track(tab: Tab) -> None:
    picture = Picture(tab, run=RUN)
    frame = tab.follow(run=RUN, view="timeline", charts="none", **whole(picture))
    python = next(i for i, track in enumerate(picture.head["tracks"]) if track["id"].endswith("/python"))
    title = Point(10, picture.top(python) + 12)
    below = Point(10, picture.top(python) + 24 + 12)
    first = picture.digest()
    tab.page.mouse.click(*picture.on_page(title))
    tab.page.mouse.move(5, 5)
    tab.settle()
    assert chosen(tab, "shut") == [picture.head["tracks"][python]["id"]]
    assert picture.digest() != first
    # The next track has come up to where the closed one had its rows.
    tab.page.mouse.click(*picture.on_page(below))
    tab.settle()
    assert len(chosen(tab, "shut")) == 2
    tab.page.mouse.click(*picture.on_page(below))
    tab.page.mouse.click(*picture.on_page(title))
    tab.page.mouse.move(5, 5)
    frame = tab.settle()
    assert "shut" not in tab.state() and "event" not in tab.state()
    assert picture.digest() == first
    assert_healthy(frame)


def a_track_is_dragged_by_its_name(tab: Tab) -> None:
    picture = Picture(tab, run=RUN)
    frame = tab.follow(run=RUN, view="timeline", charts="none", **whole(picture))
    ids = [track["id"] for track in picture.head["tracks"]]
    heads = frame.get_by_test_id("track-head")
    heads.nth(0).wait_for()
    boxes = [heads.nth(i).bounding_box() for i in (0, 2)]
    assert boxes[0] and boxes[1]
    tab.page.mouse.move(boxes[0]["x"] + 50, boxes[0]["y"] + 10)
    tab.page.mouse.down()
    tab.page.mouse.move(boxes[1]["x"] + 50, boxes[1]["y"] + boxes[1]["height"] - 3, steps=4)
    tab.page.mouse.up()
    frame = tab.settle()
    assert chosen(tab, "lanes") == [ids[1], ids[2], ids[0]] and "track" not in tab.state()
    # The wheel over a name scrolls the tracks; the bar beside them shows how far.
    tab.resize(1440, 420)
    bar = frame.get_by_role("scrollbar", name="Scroll tracks")
    assert bar.get_attribute("aria-valuenow") == "0"
    tab.page.mouse.wheel(0, 5000)
    tab.settle()
    assert bar.get_attribute("aria-valuenow") == bar.get_attribute("aria-valuemax") != "0"
    tab.resize(1440, 900)


def more_pins_than_room_leave_every_track_within_reach(tab: Tab) -> None:
    tab.resize(1000, 700)
    picture = Picture(tab, run=RUN)
    ids = [track["id"] for track in picture.head["tracks"]]
    tab.follow(run=RUN, view="timeline", charts="none", pin=",".join(ids))
    title = picture.on_page(Point(10, picture.canvas.evaluate("(canvas) => canvas.clientHeight") - 20))
    tab.page.mouse.move(*title)
    tab.page.mouse.wheel(0, 5000)
    tab.settle()
    tab.page.mouse.click(*title)
    tab.settle()
    assert chosen(tab, "shut") == [ids[-1]]


def a_filter_that_leaves_charts_alone_shows_them_from_a_link_too(tab: Tab) -> None:
    """Charts wait for the events; here there are none to wait for."""
    frame = tab.follow(run=RUN, view="timeline", tracks="GPU busy")
    frame.get_by_role("button", name="Tracks (1 of").wait_for()
    assert_healthy(tab.settle())


def arrows_are_drawn_where_they_can_be_told_apart(tab: Tab) -> None:
    place = {"run": "synthetic_ddp", "worker": "rank0"}
    picture = Picture(tab, **place)
    all_of_it = ask(tab.address, "view/flows", **place)["payloads"]["flows"]
    assert all_of_it["hidden"] == all_of_it["total"] > 500
    foot = "[data-testid=timeline-foot]"
    frame = tab.follow(view="timeline", flows="1", **whole(picture), **place)
    assert f"{all_of_it['total']:,} arrows hidden: zoom in" in frame.locator(foot).inner_text()
    event = ask(tab.address, "table/events/instances", where="kind:kernel", **place)["rows"][0]
    window = {"start_ns": str(event["start_ns"] - 2_000_000), "end_ns": str(event["start_ns"] + 2_000_000)}
    shown = ask(tab.address, "view/flows", **place, **window)["payloads"]["flows"]
    assert 0 < len(shown["arrow"]) <= 500
    tab.follow(view="timeline", **window, **place)
    without = picture.digest()
    frame = tab.follow(view="timeline", flows="1", **window, **place)
    assert "arrows:" not in frame.locator(foot).inner_text()
    assert picture.digest() != without
    frame.get_by_role("button", name="Display").first.click()
    frame.get_by_role("checkbox", name="Flow arrows").click()
    tab.page.keyboard.press("Escape")
    tab.settle()
    assert "flows" not in tab.state() and picture.digest() == without


def refuse(route: Route) -> None:
    route.fulfill(status=500, json={"error": {"what": "The disk is on fire.", "where": "tiles", "do": "Wait."}})


@pytest.mark.parametrize("how", ["refused", "cut"])
def test_tiles_that_do_not_come_are_told_and_asked_for_again(visit: Open, how: str) -> None:
    tab = visit()
    tab.page.route("**/tiles?*", refuse if how == "refused" else lambda route: route.abort())
    frame = tab.open(run=RUN, view="timeline")
    alert = frame.locator("[role=alert]")
    assert ("The disk is on fire." if how == "refused" else "does not respond") in alert.inner_text()
    assert "loading" not in frame.locator("[data-testid=timeline-foot]").inner_text()
    hatched = Picture(tab, run=RUN).digest()
    tab.page.unroute("**/tiles?*")
    alert.wait_for(state="detached")
    frame = tab.settle()
    assert_healthy(frame)
    assert Picture(tab, run=RUN).digest() != hatched
    # The browser itself writes each failure to the console.
    tab.faults[:] = [fault for fault in tab.faults if "/tiles?" not in fault]


def two_fingers_zoom_around_the_time_between_them(tab: Tab) -> None:
    picture = Picture(tab, run=RUN)
    tab.follow(run=RUN, view="timeline", start_ns="100000000", end_ns="200000000")
    before = picture.window()
    touch = tab.page.context.new_cdp_session(tab.page)
    center = GUTTER + (picture.width - GUTTER) * 0.25

    def fingers(kind: str, apart: float) -> None:
        points = [picture.on_page(Point(center + side * apart / 2, HEAD + 200)) for side in (-1, 1)]
        send = [] if kind == "touchEnd" else [{"x": x, "y": y, "id": i} for i, (x, y) in enumerate(points)]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": send})

    fingers("touchStart", 100)
    for apart in (120, 160, 200):
        fingers("touchMove", apart)
    fingers("touchEnd", 0)
    picture.moved_from(before)
    # A slow machine lets the picture rest between two movements too.
    tab.page.wait_for_function("() => Number(location.hash.match(/end_ns=(\\d+)/)[1]) < 165e6")
    frame = tab.settle()
    low, high = picture.window()
    assert high - low == pytest.approx(50_000_000, rel=0.02)
    assert low + 0.25 * (high - low) == pytest.approx(125_000_000, abs=500_000)
    assert_healthy(frame)


def test_tracks_and_what_lies_over_them(visit: Open) -> None:
    walk(
        visit,
        arranged_tracks_are_drawn_so_and_the_link_shows_the_same,
        a_click_on_the_triangle_closes_its_track,
        a_track_is_dragged_by_its_name,
        more_pins_than_room_leave_every_track_within_reach,
        a_filter_that_leaves_charts_alone_shows_them_from_a_link_too,
        arrows_are_drawn_where_they_can_be_told_apart,
        two_fingers_zoom_around_the_time_between_them,
    )
