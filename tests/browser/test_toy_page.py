"""A profile of a model that this page knows nothing about: it opens on its own default view, drawn by payload kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tb_plugin.service.workers.pool import InlineWorkers
from tests.browser.conftest import TabAt
from tests.browser.expect import assert_healthy
from tests.browser.served import Mounts

SAMPLES = Path(__file__).parent.parent / "toy" / "samples"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, mounts: Mounts):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_TRACE_EXTENSIONS", "tests.toy")
        with mounts.mount(SAMPLES, tmp_path_factory.mktemp("cache"), InlineWorkers()) as address:
            yield address


@pytest.fixture(scope="module")
def tab(tab_at: TabAt, address: str):
    with tab_at(address) as tab:
        tab.refusals = tab.faults
        yield tab
        assert tab.faults == []


def test_it_opens_on_its_own_view_and_lists_its_own(tab):
    frame = tab.follow()
    assert_healthy(frame)
    assert frame.get_by_role("navigation", name="Pages").get_by_role("button").all_inner_texts() == ["Numbers"]
    assert frame.get_by_role("tab").all_inner_texts() == ["Numbers", "Shares"]
    main = frame.inner_text("#main")
    assert "Total" in main and "10" in main
    for name in ("apples", "figs", "pears"):
        assert name in main
    assert frame.get_by_role("button", name="Numbers", exact=True).get_attribute("aria-current") == "page"
    assert frame.locator("h1").inner_text() == "Numbers"
    frame.get_by_role("tab", name="Shares").click()
    assert_healthy(frame := tab.settle())
    assert "30" in frame.inner_text("#main")
    assert tab.state()["view"] == "shares"


def test_a_view_that_it_does_not_have_opens_its_default(tab):
    frame = tab.follow(run="market", view="overview")
    assert_healthy(frame)
    assert frame.locator("h1").inner_text() == "Numbers"
    frame.get_by_role("button", name="Share", exact=True).click()
    frame.get_by_role("menuitem", name="Original file").wait_for()
    assert frame.get_by_text("Chrome trace for Perfetto").count() == 0
