"""The overview of a trace of nothing but ranges: its sentences, names and threads lead to the stacks behind them."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Open
from tests.browser.expect import assert_healthy

NAME = "ProxyMain::BeginMainFrame"


@pytest.mark.parametrize("run", ["chromium", "viztracer_cpu"])
def test_a_name_leads_to_its_function(open_tab: Open, run: str) -> None:
    tab = open_tab()
    frame = tab.open(run=run, view="overview")
    card = frame.get_by_role("region", name="Ranges with the largest self time")
    first = card.locator("tbody button").first
    name = first.get_attribute("title")
    first.click()
    frame = tab.settle()
    assert_healthy(frame)
    assert (tab.state()["view"], tab.state()["form"]) == ("stacks", "functions")
    assert name is not None and frame.get_by_test_id("sandwich").get_by_text(name, exact=True).count()
    assert tab.axe() == []


def test_evidence_opens_the_function_itself(open_tab: Open) -> None:
    """Also where others have its name in theirs, and more time."""
    tab = open_tab()
    frame = tab.open(run="chromium", view="overview")
    frame.get_by_role("button", name="Show evidence").last.click()
    frame = tab.settle()
    assert frame.get_by_test_id("sandwich").get_by_text(NAME, exact=True).count()
    assert frame.get_by_role("button", name=f"{NAME}::commit").count()


def test_a_thread_leads_to_its_stacks(open_tab: Open) -> None:
    tab = open_tab(size=(1000, 700))
    frame = tab.open(run="chromium", view="overview")
    frame.get_by_role("region", name="Threads with the most time in ranges").locator("tbody button").first.click()
    frame = tab.settle()
    assert_healthy(frame)
    assert tab.state()["view"] == "stacks" and "%253A" in tab.state()["thread"]
