"""What hands do in the timeline: keys without a click, Enter from hit to hit, a dragged split, Back and Z, bookmarks."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from playwright.sync_api import Frame

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import Tab
from tests.browser.journey import walk
from tests.browser.picture import GUTTER, HEAD, MARK, Picture, Point, whole

RUN = "synthetic_gpu"
SPLIT = "[role=separator][aria-label='Height of the panel']"
IN_URL = "(part) => location.hash.includes(part)"


def box_of(frame: Frame, selector: str) -> dict[str, float]:
    box = frame.locator(selector).first.bounding_box()
    assert box is not None
    return {key: float(value) for key, value in box.items()}


def span(picture: Picture) -> int:
    start, end = picture.window()
    return end - start


def last_event_of_the_lowest_lane(tab: Tab) -> dict[str, int]:
    """An event that stands far below what a small window shows."""
    rows = ask(tab.address, "table/find/hits", run=RUN, search="AccumulateGrad", limit="1000")["rows"]
    found: dict[str, int] = max(rows, key=lambda row: (row["lane"], row["row"], row["start_ns"]))
    return found


def a_chosen_event_stays_in_sight_and_its_panel_keeps_its_size(tab: Tab) -> None:
    tab.resize(1000, 700)
    row = last_event_of_the_lowest_lane(tab)
    # The link names the event alone: time and lane come into sight.
    frame = tab.open(run=RUN, view="timeline", event=str(row["event"]))
    tab.page.wait_for_function(IN_URL, arg="p.torch_trace.start_ns=")
    frame = tab.settle()
    picture = Picture(tab, run=RUN)
    low, high = picture.window()
    assert low <= row["start_ns"] <= high

    def seen() -> bool:
        """The frame of the selected event is drawn: the pixels of its upper edge."""
        x = min(max(picture.x(row["start_ns"]), picture.gutter + 1), picture.width - 2)
        column = picture.canvas.evaluate(
            "(canvas, x) => [...canvas.getContext('2d').getImageData(x * devicePixelRatio, 0, 1, canvas.height).data]",
            x,
        )
        pixels = [tuple(column[i : i + 3]) for i in range(0, len(column), 4)]
        return MARK in pixels[HEAD:]

    assert seen()
    canvas, panel = box_of(frame, "[data-testid=timeline] canvas"), box_of(frame, "section[aria-label='Event details']")
    assert canvas["y"] + canvas["height"] <= panel["y"] and panel["y"] + panel["height"] <= 700
    frame.locator(SPLIT).focus()
    for _ in range(3):
        tab.page.keyboard.press("ArrowUp")
    frame = tab.settle()
    larger = box_of(frame, "section[aria-label='Event details']")
    assert larger["height"] > panel["height"] + 40 and seen()
    bar = box_of(frame, SPLIT)
    tab.page.mouse.move(bar["x"] + 50, bar["y"] + 5)
    tab.page.mouse.down()
    tab.page.mouse.move(bar["x"] + 50, bar["y"] + 65, steps=4)
    tab.page.mouse.up()
    frame = tab.settle()
    dragged = box_of(frame, "section[aria-label='Event details']")
    assert dragged["height"] == pytest.approx(larger["height"] - 60, abs=3) and seen()
    assert not tab.axe()
    frame = tab.open(run=RUN, view="timeline", event=str(row["event"]))
    assert box_of(frame, "section[aria-label='Event details']")["height"] == pytest.approx(dragged["height"], abs=1)
    assert_healthy(frame)


def enter_walks_the_hits_and_typing_moves_nothing(tab: Tab) -> None:
    tab.resize(1000, 700)
    hits = ask(tab.address, "view/find", run=RUN, search="ProfilerStep")["payloads"]["hits"]["rows"]
    frame = tab.open(run=RUN, view="timeline", start_ns="0", end_ns="100000000")
    places = {name: box_of(frame, name) for name in ("[data-testid=timeline] canvas", "[data-testid=toolbar]")}
    field = frame.get_by_placeholder("Search names")
    for part in ("/(/", "Pro", "filerStep"):
        field.press_sequentially(part)
        frame = tab.settle()
        assert {name: box_of(frame, name) for name in places} == places, part
        if part == "/(/":
            assert "regular expression" in frame.inner_text("[data-testid=toolbar]")
            field.fill("")
    for key, place in (
        ("Enter", 0),
        ("Enter", 1),
        ("Enter", 2),
        ("Shift+Enter", 1),
        ("Shift+Enter", 0),
        ("Shift+Enter", len(hits) - 1),
    ):
        tab.page.keyboard.press(key)
        tab.page.wait_for_function(IN_URL, arg=f"p.torch_trace.event={hits[place]['event']}")
        frame = tab.settle()
        assert f"{place + 1} of {len(hits)}" in frame.locator("[data-testid=hits]").inner_text()
    # What has just been typed is looked for at once.
    field.fill("Optimizer.step")
    tab.page.keyboard.press("Enter")
    first = ask(tab.address, "view/find", run=RUN, search="Optimizer.step")["payloads"]["hits"]["rows"]
    tab.page.wait_for_function(
        "(events) => events.some((e) => location.hash.includes(`event=${e}`))", arg=[r["event"] for r in first]
    )
    assert_healthy(tab.settle())


def keys_work_wherever_no_text_is_written(tab: Tab) -> None:
    picture = Picture(tab, run=RUN)
    frame = tab.open(run=RUN, view="timeline", **whole(picture))
    before = picture.window()
    # Nothing has been clicked: the page around ours has the focus, then a button of ours.
    tab.page.keyboard.press("w")
    frame = picture.moved_from(before)
    closer = picture.window()
    assert span(picture) < before[1] - before[0]
    frame.get_by_role("button", name="As text").focus()
    tab.page.keyboard.press("d")
    frame = picture.moved_from(closer)
    right = picture.window()
    assert right[0] > closer[0]
    frame.get_by_placeholder("Search names").press_sequentially("wasdzb0m")
    tab.page.wait_for_function(IN_URL, arg="p.torch_trace.search=wasdzb0m")
    frame = tab.settle()
    assert picture.window() == right and "bookmarks" not in tab.state()


def zooms_and_jumps_are_undone_by_back_and_by_z(tab: Tab) -> None:
    picture = Picture(tab, run=RUN)
    tab.open(run=RUN, view="overview")
    frame = tab.open(run=RUN, view="timeline", charts="none", **whole(picture))
    windows = [picture.window()]
    middle = picture.on_page(Point(GUTTER + 400, HEAD + 60))
    tab.page.mouse.move(*middle)
    # Many notches of the wheel are one step, and moving is none.
    tab.page.keyboard.down("Control")
    for _ in range(6):
        tab.page.mouse.wheel(0, -200)
    tab.page.keyboard.up("Control")
    frame = picture.moved_from(windows[-1])
    tab.page.mouse.down()
    tab.page.mouse.move(middle[0] + 50, middle[1], steps=3)
    before = picture.window()
    tab.page.mouse.up()
    frame = picture.moved_from(before)
    windows.append(picture.window())
    frame.get_by_role("button", name="Full trace", exact=True).click()
    frame = picture.moved_from(windows[-1])
    tab.page.keyboard.press("b")
    tab.page.keyboard.press("Escape")
    frame = tab.settle()
    noted = tab.state()["bookmarks"]
    frame.locator("[data-testid=timeline] canvas").focus()
    tab.page.keyboard.press("z")
    frame = picture.moved_from(windows[0])
    # Where somebody looks is undone, not what they noted.
    assert picture.window() == windows[1] and tab.state()["bookmarks"] == noted
    tab.page.go_back()
    frame = picture.moved_from(windows[1])
    assert picture.window() == windows[0] and tab.state()["bookmarks"] == noted
    # Z never leaves the timeline.
    tab.page.keyboard.press("z")
    frame = tab.settle()
    assert tab.state()["view"] == "timeline" and picture.window() == windows[0]
    assert_healthy(frame)


def what_is_merged_opens_in_two_steps_and_the_tip_follows(tab: Tab) -> None:
    picture = Picture(tab, run=RUN)
    frame = tab.open(run=RUN, view="timeline", charts="none", colors="name", **whole(picture))
    lane = next(i for i, track in enumerate(picture.head["tracks"]) if track["title"] == "Autograd")
    tip = frame.locator("[data-testid=tip]")
    for x in range(GUTTER + 2, picture.width, 3):
        spot = Point(x, picture.top(lane) + 6 + 2 * 17 + 7)
        tab.page.mouse.move(*picture.on_page(spot))
        frame.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        if tip.count() and "click to zoom in" in tip.inner_text():
            break
    told, before = tip.inner_text(), picture.window()
    swatch = tip.locator("i").evaluate("(node) => getComputedStyle(node).backgroundColor")
    assert swatch != "rgb(0, 0, 0)"
    tab.page.mouse.click(*picture.on_page(spot))
    frame = picture.moved_from(before)
    closer = picture.window()
    assert 1 < (before[1] - before[0]) / span(picture) < 300
    assert not tip.count() or tip.inner_text() != told
    tab.page.keyboard.press("z")
    frame = picture.moved_from(closer)
    assert picture.window() == before
    assert frame.locator("[data-testid=timeline-key]").inner_text() != ""
    assert_healthy(frame)


def bookmarks_live_in_the_link(tab: Tab) -> None:
    picture = Picture(tab, run=RUN)
    frame = tab.open(run=RUN, view="timeline", start_ns="100000000", end_ns="200000000")
    plain = picture.digest()
    spot = Point((GUTTER + picture.width) / 2, HEAD + 30)
    tab.page.mouse.move(*picture.on_page(spot))
    tab.page.keyboard.press("b")
    note = frame.get_by_label("Note at")
    note.wait_for()
    note.fill("<b>late</b>: why?")
    assert not tab.axe()
    tab.page.keyboard.press("Enter")
    frame = tab.settle()
    time, _, text = unquote(tab.state()["bookmarks"].replace("+", " ")).partition(":")
    assert text == "<b>late</b>: why?" and abs(int(time) - 150_000_000) < 200_000
    tab.page.mouse.move(5, 5)
    frame = tab.settle()
    with_flag = picture.digest()
    assert with_flag != plain
    frame = tab.reload()
    assert picture.digest() == with_flag
    # Its flag on the axis opens the note; the list leads there from elsewhere.
    tab.page.mouse.click(*picture.on_page(Point(picture.x(int(time)) + 2, 48)))
    note = frame.get_by_label("Note at")
    note.wait_for()
    assert note.input_value() == "<b>late</b>: why?"
    tab.page.keyboard.press("Escape")
    frame = tab.open(run=RUN, view="timeline", start_ns="0", end_ns="1000000", bookmarks=f"{time}:here")
    frame.get_by_role("button", name="Bookmarks 1").click()
    frame.get_by_title("Go to bookmark").click()
    frame = picture.moved_from((0, 1_000_000))
    low, high = picture.window()
    assert low <= int(time) <= high
    frame.get_by_role("button", name="Remove the bookmark").click()
    frame = tab.settle()
    assert "bookmarks" not in tab.state()
    assert_healthy(frame)


def the_column_of_names_can_be_made_wider(tab: Tab) -> None:
    picture = Picture(tab, run=RUN)
    frame = tab.open(run=RUN, view="timeline", **whole(picture))
    plain = picture.digest()
    tab.page.mouse.move(*picture.on_page(Point(GUTTER - 3, 300)))
    tab.page.mouse.down()
    tab.page.mouse.move(*picture.on_page(Point(GUTTER + 100, 300)), steps=4)
    tab.page.mouse.up()
    tab.page.mouse.move(5, 5)
    frame = tab.settle()
    wider = picture.digest()
    assert wider != plain and "shut" not in tab.state()
    frame = tab.open(run=RUN, view="timeline", **whole(picture))
    assert picture.digest() != plain
    frame.get_by_role("button", name="Tracks").click()
    frame.get_by_role("button", name="Reset").click()
    frame = tab.settle()
    assert_healthy(frame)


def test_windows_and_keys(visit: Open) -> None:
    walk(
        visit,
        a_chosen_event_stays_in_sight_and_its_panel_keeps_its_size,
        enter_walks_the_hits_and_typing_moves_nothing,
        keys_work_wherever_no_text_is_written,
        zooms_and_jumps_are_undone_by_back_and_by_z,
    )


def test_notes_panels_and_columns(visit: Open) -> None:
    walk(
        visit,
        what_is_merged_opens_in_two_steps_and_the_tip_follows,
        bookmarks_live_in_the_link,
        the_column_of_names_can_be_made_wider,
    )
