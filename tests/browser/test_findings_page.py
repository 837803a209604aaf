"""Findings: what to change first, its events on the timeline, and leaving a finding out by the link or for all."""

from __future__ import annotations

from playwright.sync_api import Frame, Locator

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import Tab
from tests.browser.journey import walk

RUN = "synthetic_gpu"
SIZES = ((1440, 900), (1000, 700))


def card(frame: Frame, rule: str) -> Locator:
    return frame.locator(f"[data-testid=finding][data-rule={rule}]")


def shown(frame: Frame) -> list[str | None]:
    return [each.get_attribute("data-rule") for each in frame.get_by_test_id("finding").all()]


def found(tab: Tab, **more: str) -> list[str]:
    notices = ask(tab.address, "view/findings", run=RUN, **more)["payloads"]["findings"]["notices"]
    saving = [notice["rule"] for notice in notices if notice["saving"]]
    return saving + [notice["rule"] for notice in notices if not notice["saving"]]


def the_first_screen_says_what_to_change_first(tab: Tab) -> None:
    frame = tab.follow(run=RUN, view="findings")
    assert_healthy(frame)
    assert shown(frame) == found(tab)
    first = ask(tab.address, "view/findings", run=RUN)["payloads"]["findings"]["notices"][0]
    answers = frame.get_by_test_id("answer")
    assert answers.nth(1).inner_text().startswith(f"Fix first: {first['title']} (saves ")
    for width, height in SIZES:
        tab.page.set_viewport_size({"width": width, "height": height})
        tab.settle()
        for each in (frame.get_by_test_id("headline"), *answers.all()):
            box = each.bounding_box()
            assert box and box["y"] + box["height"] <= height
        assert tab.overflow() == 0


def the_first_finding_stands_on_the_first_screen_of_the_overview(tab: Tab) -> None:
    tab.resize(1440, 900)
    frame = tab.follow(run=RUN, view="overview")
    box = frame.get_by_test_id("finding").first.bounding_box()
    assert box and box["y"] + box["height"] <= 900


def test_findings(visit: Open) -> None:
    walk(
        visit,
        the_first_screen_says_what_to_change_first,
        the_first_finding_stands_on_the_first_screen_of_the_overview,
    )
