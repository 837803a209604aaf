"""Colours by class of kernel, and tracks that open by themselves when something is found on them."""

from __future__ import annotations

import re
from urllib.parse import unquote

from playwright.sync_api import Frame, Route

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import Tab
from tests.browser.journey import walk
from tests.browser.picture import HEAD, MARK, Picture, Pixel, Point, whole

RUN = "synthetic_gpu"
_COLOUR = "(span) => getComputedStyle(span.firstElementChild).backgroundColor"


def kernel_of(tab: Tab, word: str) -> tuple[dict[str, str], dict[str, int]]:
    """The row of a class of kernel with most time, and the longest call of it."""
    row = ask(tab.address, "table/kernels/kernels", run=RUN, where=f"class:{word}")["rows"][0]
    where = f"name:{row['name']}"
    return row, ask(tab.address, "table/events/instances", run=RUN, where=where)["rows"][0]


def around(event: dict[str, int]) -> dict[str, str]:
    """A window in which it takes a third."""
    start, dur = event["start_ns"], event["dur_ns"]
    return {"start_ns": str(start - dur), "end_ns": str(start + 2 * dur)}


def key(frame: Frame) -> dict[str, Pixel]:
    """What the key of colours says."""
    entries = frame.locator("[data-testid=timeline-key] > button[title]").all()
    return {
        entry.inner_text().strip(): tuple(int(n) for n in re.findall(r"\d+", entry.evaluate(_COLOUR)))
        for entry in entries
    }


def seen(picture: Picture, event: dict[str, int]) -> Pixel:
    """The colour of an event: above its label."""
    x, y = picture.spot(event["event"])
    return picture.pixel(Point(x, y - 6))


def kernels_are_coloured_by_what_they_do(tab: Tab) -> None:
    asked: list[str] = []
    row, kernel = kernel_of(tab, "elementwise")
    picture = Picture(tab, run=RUN)
    tab.page.on("request", lambda request: asked.append(request.url))
    frame = tab.open(run=RUN, view="timeline", charts="none", **around(kernel))
    by_kind = seen(picture, kernel)
    assert not [url for url in asked if "/view/kernels" in url], "nothing is asked for that nobody wants to see"
    frame.get_by_role("button", name="Display", exact=True).press("Enter")
    frame.get_by_label("By kind").press("ArrowDown")
    tab.page.keyboard.press("Escape")
    frame = tab.settle()
    assert tab.state()["colors"] == "class"
    assert len([url for url in asked if "/view/kernels" in url]) == 1
    frame.locator("[data-testid=timeline-key] > button[title]", has_text="Elementwise").wait_for()
    colours = key(frame)
    assert seen(picture, kernel) == colours["Elementwise"] != by_kind
    assert list(colours)[-1] == "no class"
    tab.page.mouse.move(*picture.on_page(picture.spot(kernel["event"])))
    tip = frame.get_by_test_id("tip").inner_text()
    assert "Elementwise" in tip and len(tip.splitlines()) <= 4, "name and duration are one line"
    tab.page.mouse.click(*picture.on_page(picture.spot(kernel["event"])))
    frame = tab.settle()
    panel = frame.get_by_test_id("event-event").inner_text()
    assert "elementwise" in panel and row["class_by"] in panel
    assert_healthy(frame)
    link = tab.page.url
    tab.page.goto("about:blank")
    tab.page.goto(link)
    tab.settle()
    assert seen(picture, kernel) == colours["Elementwise"]
    dark = key(tab.set_dark())
    assert dark["Elementwise"] == colours["Elementwise"] and dark["no class"] != colours["no class"]


def copies_collectives_and_the_host(tab: Tab) -> None:
    picture = Picture(tab, run=RUN)
    for kind, name in (("memcpy", "Copy"), ("operator", "no class")):
        (event, *_) = ask(tab.address, "table/events/instances", run=RUN, where=f"kind:{kind}")["rows"]
        frame = tab.follow(run=RUN, view="timeline", charts="none", colors="class", **around(event))
        assert seen(picture, event) == key(frame)[name]
    place = {"run": "synthetic_ddp", "worker": "rank0"}
    row = ask(tab.address, "table/kernels/kernels", where="class:communication", **place)["rows"][0]
    (event, *_) = ask(tab.address, "table/events/instances", where=f"name:{row['name']}", **place)["rows"]
    frame = tab.follow(view="timeline", charts="none", colors="class", **around(event), **place)
    assert seen(Picture(tab, **place), event) == key(frame)["Communication"]


def what_is_found_on_a_closed_track_opens_it(tab: Tab) -> None:
    tab.resize(1000, 700)
    picture = Picture(tab, run=RUN)
    ids = [track["id"] for track in picture.head["tracks"]]
    rows = ask(tab.address, "table/find/hits", run=RUN, search="aten::", limit="200")["rows"]
    deep = next(row for row in rows if row["row"] > 1)
    shut = {"shut": ",".join(ids), "charts": "none", **whole(picture)}
    tab.follow(run=RUN, view="timeline", event=str(deep["event"]), **shut)
    assert closed(tab) == set(ids) - {ids[deep["lane"]]}, "by a link"
    assert in_sight(picture, deep)
    tab.follow(run=RUN, view="timeline")
    tab.follow(run=RUN, view="timeline", event=str(deep["event"]), hide=",".join(ids), charts="none", **whole(picture))
    assert ids[deep["lane"]] not in unquote(tab.state()["hide"]) and in_sight(picture, deep), "a hidden one as well"
    frame = tab.follow(run=RUN, view="timeline", search="aten::", **shut)
    box = frame.get_by_placeholder("Search names")
    frame.get_by_test_id("found").wait_for()
    box.focus()
    for _ in range(10):
        tab.page.keyboard.press("Enter")
        tab.settle()
        hit = next(row for row in rows if str(row["event"]) == tab.state()["event"])
        assert hit["row"] == 0 or ids[hit["lane"]] not in closed(tab), "by a search"
        if hit["row"]:
            assert in_sight(picture, hit)
            break
    else:
        raise AssertionError("no hit below the first row")
    # What a person closes while it is chosen stays closed.
    lane = hit["lane"]
    before = closed(tab)
    frame.get_by_role("button", name="Tracks").click()
    frame.get_by_test_id("track").nth(lane).get_by_role("checkbox").click()
    tab.settle()
    assert closed(tab) == before | {ids[lane]}


def an_enter_that_comes_before_its_answer_is_not_lost(tab: Tab) -> None:
    early: list[str] = []

    def answer(route: Route) -> None:
        if early:
            route.continue_()
        else:
            early.append(route.request.url)
            route.fulfill(status=202, json={"state": "loading"})

    tab.page.route(re.compile("near_ns="), answer)
    frame = tab.follow(run=RUN, view="timeline", charts="none")
    box = frame.get_by_placeholder("Search names")
    box.fill("aten::mm")
    box.press("Enter")
    frame = tab.settle()
    assert early and frame.get_by_test_id("hits").inner_text().startswith("1 of ") and "event" in tab.state()


def closed(tab: Tab) -> set[str]:
    return {unquote(one) for one in unquote(tab.state().get("shut", "")).split(",") if one}


def in_sight(picture: Picture, row: dict[str, int]) -> bool:
    """The frame of the selected event is drawn below the axis: the pixels of its upper edge."""
    x = min(max(picture.x(row["start_ns"]), picture.gutter + 1), picture.width - 2)
    column = picture.canvas.evaluate(
        "(canvas, x) => [...canvas.getContext('2d').getImageData(x * devicePixelRatio, 0, 1, canvas.height).data]", x
    )
    return MARK in [tuple(column[i : i + 3]) for i in range(HEAD * 4, len(column), 4)]


def test_classes_of_kernels_and_closed_tracks(visit: Open) -> None:
    walk(
        visit,
        kernels_are_coloured_by_what_they_do,
        copies_collectives_and_the_host,
        what_is_found_on_a_closed_track_opens_it,
        an_enter_that_comes_before_its_answer_is_not_lost,
    )
