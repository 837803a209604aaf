"""The overview of a trace of nothing but ranges: its sentences, names and threads lead to the stacks behind them."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Open
from tests.browser.expect import assert_healthy
from tests.browser.harness import Tab
from tests.browser.journey import walk

NAME = "ProxyMain::BeginMainFrame"


@pytest.mark.parametrize("run", ["chromium", "viztracer_cpu"])
def test_a_name_leads_to_its_function(visit: Open, run: str) -> None:
    tab = visit()
    frame = tab.follow(run=run, view="overview")
    card = frame.get_by_role("region", name="Ranges with the largest self time")
    first = card.locator("tbody button").first
    name = first.get_attribute("title")
    first.click()
    frame = tab.settle()
    assert_healthy(frame)
    assert (tab.state()["view"], tab.state()["form"]) == ("stacks", "functions")
    assert name is not None and frame.get_by_test_id("sandwich").get_by_text(name, exact=True).count()


def evidence_opens_the_function_itself(tab: Tab) -> None:
    """Also where others have its name in theirs, and more time."""
    frame = tab.follow(run="chromium", view="overview")
    frame.get_by_role("button", name="Show evidence").last.click()
    frame = tab.settle()
    assert frame.get_by_test_id("sandwich").get_by_text(NAME, exact=True).count()
    assert frame.get_by_role("button", name=f"{NAME}::commit").count()


def a_thread_leads_to_its_stacks(tab: Tab) -> None:
    tab.resize(1000, 700)
    frame = tab.follow(run="chromium", view="overview")
    frame.get_by_role("region", name="Threads with the most time in ranges").locator("tbody button").first.click()
    frame = tab.settle()
    assert_healthy(frame)
    assert tab.state()["view"] == "stacks" and "%253A" in tab.state()["thread"]


def test_ranges(visit: Open) -> None:
    walk(visit, evidence_opens_the_function_itself, a_thread_leads_to_its_stacks)
