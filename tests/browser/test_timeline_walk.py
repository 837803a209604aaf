"""From place to place in the timeline: to a kernel and on to its Python frame, from hit to hit, back from a link."""

from __future__ import annotations

import re
import time

import pytest

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import Tab
from tests.browser.journey import walk
from tests.browser.picture import MARK, Picture, Point, figure, whole
from tests.depth import sampled

RUN = "synthetic_gpu"
CHARTS = 3
LINK_PARTS = ("event", "search", "pin", "shut", "lanes", "colors", "flows", "gaps", "path", "charts")

EVENT_IS_NOT = "(old) => (location.hash.match(/torch_trace\\.event=([^&]*)/)?.[1] ?? '') !== old"


def kernel_of_the_forward(address: str) -> dict[str, object]:
    """The longest kernel of an operator of the main thread, where Python was recorded."""
    rows = ask(address, "table/events/instances", run=RUN, where="kind:kernel", limit="1000")["rows"]
    row: dict[str, object] = next(row for row in rows if row["operator"] == "aten::addmm")
    return row


def zoom_to_a_kernel_and_follow_it_to_python(tab: Tab) -> None:
    picture = Picture(tab, charts=CHARTS, run=RUN)
    kernel = kernel_of_the_forward(tab.address)
    start, dur = int(str(kernel["start_ns"])), int(str(kernel["dur_ns"]))
    tab.open(run=RUN, view="timeline", **whole(picture))
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


def a_link_opens_the_same_picture(tab: Tab) -> None:
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
        "path": "1",
        "charts": "all",
    }
    tab.follow(run=RUN, **place)
    plain = picture.digest()
    seen = {plain}
    # Each part of the link is seen in the picture.
    for key in sampled(LINK_PARTS, LINK_PARTS[::2]):
        frame = tab.follow(run=RUN, **place, **{key: extras[key]})
        digest = picture.digest()
        assert digest not in seen, key
        seen.add(digest)
    tab.open(run=RUN, **place, **extras)
    state, digest = tab.state(), picture.digest()
    frame = tab.reload()
    assert_healthy(frame)
    assert tab.state() == state and {**state, **extras, **place}.keys() == state.keys()
    # On a busy machine, the last tiles may come after the page is quiet.
    end = time.monotonic() + 10
    while (again := picture.digest()) != digest and time.monotonic() < end:
        time.sleep(0.2)
    assert again == digest
    assert (
        frame.locator("section[aria-label$=' marked']").count() == 1
        and frame.locator("section[aria-label='Event details']").count() == 1
    )


def test_from_a_kernel_to_python_and_back_from_a_link(visit: Open) -> None:
    walk(visit, zoom_to_a_kernel_and_follow_it_to_python, a_link_opens_the_same_picture)
