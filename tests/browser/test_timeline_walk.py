"""From place to place in the timeline: to a kernel and on to its Python frame, from hit to hit, back from a link."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.picture import MARK, Picture, Point, figure, whole
from tests.depth import sampled

RUN = "synthetic_gpu"
CHARTS = 3
LINK_PARTS = ("event", "search", "pin", "shut", "lanes", "colors", "flows", "gaps", "charts")

EVENT_IS_NOT = "(old) => (location.hash.match(/torch_trace\\.event=([^&]*)/)?.[1] ?? '') !== old"


def kernel_of_the_forward(address: str) -> dict[str, object]:
    """The longest kernel of an operator of the main thread, where Python was recorded."""
    rows = ask(address, "table/events/instances", run=RUN, where="kind:kernel", limit="1000")["rows"]
    row: dict[str, object] = next(row for row in rows if row["operator"] == "aten::addmm")
    return row


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_zoom_to_a_kernel_and_follow_it_to_python(open_tab: Open, dark: bool) -> None:
    tab = open_tab()
    picture = Picture(tab, charts=CHARTS, run=RUN)
    kernel = kernel_of_the_forward(tab.address)
    start, dur = int(str(kernel["start_ns"])), int(str(kernel["dur_ns"]))
    tab.open(run=RUN, view="timeline", **whole(picture))
    if dark:
        tab.set_dark()
    before = picture.window()
    tab.page.mouse.dblclick(*picture.on_page(picture.spot(str(kernel["event"]))))
    frame = picture.moved_from(before)
    assert tab.state()["event"] == str(kernel["event"])
    assert picture.window() == pytest.approx((start - 0.1 * dur, start + 1.1 * dur), abs=1)
    # It is drawn in the colour that the tip and the legend give its kind, and framed as the chosen one.
    spot = picture.spot(str(kernel["event"]))
    tab.page.mouse.move(*picture.on_page(spot))
    frame.locator("[data-testid=tip]").wait_for()
    swatch = frame.locator("[data-testid=tip] i").evaluate("(node) => getComputedStyle(node).backgroundColor")
    low = Point(picture.x(start) + 20, spot.y + 6)  # below the label
    assert picture.pixel(low) == tuple(map(int, re.findall(r"\d+", swatch)))
    tab.page.mouse.move(5, 5)
    assert picture.pixel(Point(picture.x(start) + 20, spot.y + 9)) == MARK
    span = picture.window()[1] - picture.window()[0]
    for partner in ("launch", "operator"):
        payloads = ask(tab.address, "view/events", run=RUN, event=tab.state()["event"])["payloads"]
        frame.get_by_role("button", name=f"Go to {partner}").click()
        tab.page.wait_for_function(
            "(event) => location.hash.includes(`p.torch_trace.event=${event}`)",
            arg=figure(payloads[partner], "event"),
        )
        frame = tab.settle()
        if partner == "launch":
            frame = picture.moved_from((round(start - 0.1 * dur), round(start + 1.1 * dur)))
        # It is in sight, at the same zoom.
        low_ns, high_ns = picture.window()
        assert low_ns <= figure(payloads[partner], "start_ns") <= high_ns and high_ns - low_ns == span
    assert frame.locator("section[aria-label='Event details'] h2 > span").inner_text() == "aten::addmm"
    stack = figure(
        ask(tab.address, "view/events", run=RUN, event=tab.state()["event"])["payloads"]["stack"], "call_stack"
    )
    innermost_of_python = stack.split(";")[1]
    assert innermost_of_python.split("/")[-1].split("(")[0] in frame.locator("[data-testid=event-stack]").inner_text()
    assert_healthy(frame)
    left = tab.state()
    frame.get_by_role("button", name="Show in operators").click()
    frame = tab.settle()
    assert tab.state()["view"] == "operators" and frame.locator("[data-testid=detail]").count() == 1
    tab.page.go_back()
    frame = tab.settle()
    assert tab.state() == left
    python = ask(tab.address, "view/events", run=RUN, event=left["event"])["payloads"]["python"]
    frame.get_by_role("button", name="Go to python frame").click()
    frame = tab.settle()
    assert tab.state()["event"] == str(figure(python, "event"))
    assert figure(python, "name") == stack.split(";")[0]


def test_a_link_opens_the_same_picture(open_tab: Open) -> None:
    tab = open_tab()
    kernel = kernel_of_the_forward(tab.address)
    start, end = int(str(kernel["start_ns"])), int(str(kernel["start_ns"])) + int(str(kernel["dur_ns"]))
    picture = Picture(tab, run=RUN)
    lanes = [track["id"] for track in picture.head["tracks"]]
    place = {"start_ns": str(start - 20_000_000), "end_ns": str(end + 5_000_000), "view": "timeline"}
    extras = {
        "event": str(kernel["event"]),
        "from_ns": str(start),
        "to_ns": str(end),
        "search": "gemm",
        "pin": lanes[5],
        "shut": f"{lanes[1]},{lanes[3]}",
        "lanes": lanes[4],
        "colors": "name",
        "flows": "1",
        "gaps": "1",
        "charts": "all",
    }
    tab.open(run=RUN, **place)
    plain = picture.digest()
    seen = {plain}
    # Each part of the link is seen in the picture.
    for key in sampled(LINK_PARTS, LINK_PARTS[::2]):
        frame = tab.open(run=RUN, **place, **{key: extras[key]})
        digest = picture.digest()
        assert digest not in seen, key
        seen.add(digest)
    tab.open(run=RUN, **place, **extras)
    state, digest = tab.state(), picture.digest()
    frame = tab.reload()
    assert_healthy(frame)
    assert tab.state() == state and {**state, **extras, **place}.keys() == state.keys()
    assert picture.digest() == digest
    assert (
        frame.locator("section[aria-label$=' marked']").count() == 1
        and frame.locator("section[aria-label='Event details']").count() == 1
    )


def test_search_counts_and_walks(open_tab: Open) -> None:
    tab = open_tab()
    picture = Picture(tab, run=RUN)
    search = "ProfilerStep#3"
    everywhere = ask(tab.address, "view/find", run=RUN, search=search)["payloads"]
    hits = everywhere["hits"]["rows"]
    assert 2 <= len(hits) <= 10
    # The window begins behind the first hit: the next one is the second.
    window = {"start_ns": str(hits[0]["start_ns"] + 1), "end_ns": str(hits[0]["start_ns"] + 2_000_000)}
    frame = tab.open(run=RUN, view="timeline", search=search, **window)
    inside = ask(tab.address, "view/find", run=RUN, search=search, **window)["payloads"]
    text = frame.locator("[data-testid=found]").inner_text()
    total = figure(everywhere["summary"], "events")
    assert f"{total} found, " in text and f" · {figure(inside['summary'], 'events')} visible" in text
    assert total == len(hits)
    order = [*range(1, len(hits)), 0, 1]
    for place in order:
        before = tab.state().get("event")
        frame.get_by_role("button", name="Next hit").click()
        tab.page.wait_for_function(EVENT_IS_NOT, arg=before or "")
        tab.page.wait_for_function(
            "(event) => location.hash.includes(`p.torch_trace.event=${event}`)", arg=hits[place]["event"]
        )
        frame = tab.settle()
        assert f"{place + 1} of {total}" in frame.locator("[data-testid=hits]").inner_text()
    for place in (0, len(hits) - 1):
        frame.get_by_role("button", name="Previous hit").click()
        tab.page.wait_for_function(
            "(event) => location.hash.includes(`p.torch_trace.event=${event}`)", arg=hits[place]["event"]
        )
        frame = tab.settle()
    frame.wait_for_function("() => document.querySelector('[data-testid=hits]').textContent.includes(' of ')")
    low, high = picture.window()
    assert low <= hits[-1]["start_ns"] + hits[-1]["dur_ns"] and hits[-1]["start_ns"] <= high
    assert not tab.axe()


def test_nothing_found_is_said_and_leads_nowhere(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(run=RUN, view="timeline", search="no such name")
    assert "0 found, 0 ns total · 0 visible" in frame.locator("[data-testid=found]").inner_text()
    assert frame.get_by_role("button", name="Next hit").is_disabled()
    assert_healthy(frame)


def test_clicks_faster_than_answers_each_go_one_hit_on(open_tab: Open) -> None:
    tab = open_tab()
    hits = ask(tab.address, "view/find", run=RUN, search="ProfilerStep")["payloads"]["hits"]["rows"]
    frame = tab.open(run=RUN, view="timeline", search="ProfilerStep", start_ns="0", end_ns="100000000")
    frame.get_by_role("button", name="Next hit").evaluate("(button) => { for (let i = 0; i < 3; i++) button.click() }")
    tab.page.wait_for_url(f"**p.torch_trace.event={hits[2]['event']}**")
    frame = tab.settle()
    assert f"3 of {len(hits)}" in frame.locator("[data-testid=hits]").inner_text()


@pytest.mark.parametrize("search", ["/(/", "/(?<!a+)b/"], ids=["senseless", "not_for_this_server"])
def test_a_search_that_cannot_be_made_does_not_wait_for_ever(open_tab: Open, search: str) -> None:
    tab = open_tab(refusals=True)
    frame = tab.open(run=RUN, view="timeline", search=search)
    assert "…" not in "".join(frame.locator("[data-testid=hits]").all_inner_texts())
    assert "regular expression" in frame.inner_text("[data-testid=toolbar]")


def test_a_window_between_nanoseconds_is_the_nearest_one(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(run=RUN, view="timeline", start_ns="100000000.5", end_ns="101000000.25")
    assert "1.00 ms visible" in frame.locator("[data-testid=timeline-foot]").inner_text()
    assert_healthy(frame)


def test_events_of_a_row_are_counted_and_walked(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(run=RUN, view="kernels")
    row = ask(tab.address, "table/kernels/kernels", run=RUN)["rows"][0]
    frame.locator("[role=row][data-index='0'] [role=rowheader] button:first-child").click()
    frame = tab.settle()
    frame.locator("[data-testid=detail-name]").get_by_role("button", name="Show in timeline").click()
    frame = tab.settle()
    hits = ask(tab.address, "view/find", run=RUN, where=f"name:{row['name']}")["payloads"]["hits"]
    assert hits["matched_rows"] == row["calls"]
    assert f"{row['calls']} found" in frame.locator("[data-testid=hits]").inner_text()
    frame.get_by_role("button", name="Next hit").click()
    tab.page.wait_for_url(re.compile(r"p\.torch_trace\.event="))
    frame = tab.settle()
    assert int(tab.state()["event"]) in [hit["event"] for hit in hits["rows"]]
    assert frame.locator("section[aria-label='Event details'] h2 > span").inner_text() == row["name"]
    assert_healthy(frame)


def test_as_text_lists_what_is_in_sight(open_tab: Open) -> None:
    tab = open_tab()
    window = {"start_ns": "100000000", "end_ns": "101000000"}
    frame = tab.open(run=RUN, view="timeline", **window)
    frame.get_by_role("button", name="As text").click()
    frame = tab.settle()
    server = ask(tab.address, "table/events/instances", run=RUN, **window)
    table = frame.get_by_role("table", name="Visible events")
    assert table.get_attribute("aria-rowcount") == str(server["matched_rows"] + 1)
    names = table.locator("[role=rowheader]").all_inner_texts()
    # Names of all kinds stand as they are; those of kernels are shortened.
    assert [name.strip() for name in names[:3]] == [row["name"] for row in server["rows"][:3]]
    table.locator("[role=row][data-index='1'] [role=rowheader] button:first-child").click()
    frame = tab.settle()
    assert tab.state()["event"] == str(server["rows"][1]["event"])
    assert frame.locator("section[aria-label='Event details'] h2 > span").inner_text() == server["rows"][1]["name"]
    assert not tab.axe()
    frame.get_by_role("button", name="As chart").click()
    assert_healthy(tab.settle())
