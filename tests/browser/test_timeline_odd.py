"""Odd traces in the timeline: next to nothing, everything at once, thousands of threads, one side only, centuries."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import Open
from tests.browser.expect import assert_healthy
from tests.browser.picture import GUTTER, HEAD, Picture, Point
from tests.builders import TraceBuilder, kernel, trace

LARGEST_ANSWER = 200_000
YEAR_US = 365 * 24 * 3600 * 1_000_000


def same_moment() -> TraceBuilder:
    built = trace()
    for i in range(10_000):
        built.op(f"op{i % 7}", at=5, dur=0)
    return built


def many_threads(threads: int) -> TraceBuilder:
    built = trace()
    for tid in range(1, threads + 1):
        built.op("aten::mm", at=tid * 10, dur=100, tid=tid)
    return built


def on_devices() -> TraceBuilder:
    built = trace().device(0)
    for i in range(50):
        built.on_device(kernel(f"gemm{i % 3}", dur=20, at=i * 30))
    return built


def on_hosts() -> TraceBuilder:
    built = trace().step(1, at=0, dur=2000)
    for i in range(50):
        built.op("aten::mm", at=i * 30, dur=20)
    return built


def centuries() -> TraceBuilder:
    built = on_hosts()
    for i in range(3):
        built.op("aten::far", at=(i + 1) * 300 * YEAR_US, dur=10)
    return built


TRACES = {
    "one": lambda: trace().op("aten::mm", at=0, dur=5),
    "same_moment": same_moment,
    "on_devices": on_devices,
    "on_hosts": on_hosts,
    "centuries": centuries,
}


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    for name, make in [*TRACES.items(), ("threads", lambda: many_threads(3000))]:
        (folder / name).mkdir()
        (folder / name / "worker0.pt.trace.json.gz").write_bytes(make().bytes(compressed=True))
    return folder


@pytest.mark.parametrize("name", TRACES)
def test_an_odd_trace_is_shown(visit: Open, logdir: Path, name: str) -> None:
    tab = visit(logdir)
    frame = tab.follow(run=name, view="timeline")
    assert_healthy(frame)
    picture = Picture(tab, run=name)
    for button in ("Zoom in", "Zoom in", "Zoom out", "Full trace"):
        frame.get_by_role("button", name=button, exact=True).click()
        frame = tab.settle()
        assert_healthy(frame)
    frame.get_by_role("button", name="As text").click()
    frame = tab.settle()
    count = picture.head["total_events"]
    assert frame.get_by_role("table").get_attribute("aria-rowcount") == str(count + 1)


def test_events_of_one_moment_can_be_reached(visit: Open, logdir: Path) -> None:
    """No zoom takes them apart: a click leads to one of them all the same."""
    tab = visit(logdir)
    picture = Picture(tab, run="same_moment")
    tab.follow(run="same_moment", view="timeline", charts="none")
    tab.page.mouse.click(*picture.on_page(Point(GUTTER + 1, picture.top(0) + 13)))
    frame = tab.settle()
    assert frame.locator("section[aria-label='Event details'] h2 > span").inner_text().startswith("op")
    assert_healthy(frame)


def test_times_of_centuries_are_told_and_stretch_nothing(visit: Open, logdir: Path) -> None:
    tab = visit(logdir)
    assert Picture(tab, run="centuries").head["end_ns"] == 2_000_000
    frame = tab.follow(run="centuries", view="timeline")
    frame.get_by_role("button", name="notes on this trace").click()
    tab.settle()
    assert "3 × Events with impossible times" in frame.inner_text("body")


def test_thousands_of_threads(visit: Open, logdir: Path) -> None:
    tab = visit(logdir)
    sizes: list[tuple[int, str]] = []
    tab.page.on(
        "requestfinished",
        lambda request: (
            sizes.append((request.sizes()["responseBodySize"], request.url)) if "/data/" in request.url else None
        ),
    )
    frame = tab.open(run="threads", view="timeline", charts="none")
    assert_healthy(frame)
    picture = Picture(tab, run="threads")
    assert len(picture.head["tracks"]) == 3000
    first = picture.digest()
    tab.page.mouse.move(*picture.on_page(Point(60, HEAD + 100)))
    tab.page.mouse.wheel(0, 60_000)
    frame = tab.settle()
    assert picture.digest() != first
    frame.get_by_role("button", name="Tracks").click()
    frame.get_by_label("Filter tracks").fill("2999")
    tab.page.keyboard.press("Escape")
    frame = tab.settle()
    assert frame.get_by_role("button", name="Tracks (1 of 3000)").count() == 1
    assert_healthy(frame)
    asked = [(size, url) for size, url in sizes if "/view/" in url or "/tiles" in url or "/table/" in url]
    assert asked and max(asked)[0] <= LARGEST_ANSWER, max(asked)
