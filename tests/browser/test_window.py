"""A trace that does not fit into the memory: the page says which part is open, and leads to the others."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tb_plugin.service.workers.memory_budget import MEMORY_VARIABLE, PROCESS_BYTES
from tb_plugin.service.workers.pool import Pool
from tests.browser import harness
from tests.browser.conftest import TabAt
from tests.browser.expect import ask, assert_healthy
from tests.browser.served import Mounts
from tests.depth import sampled
from tests.service.fakes import need_of


@pytest.fixture(scope="module")
def small_machine(tmp_path_factory: pytest.TempPathFactory, mounts: Mounts) -> Iterator[str]:
    """The plugin with memory for half of the one trace that it has."""
    folder = tmp_path_factory.mktemp("small")
    shutil.copytree(harness.SAMPLES / "synthetic_gpu", folder / "logs" / "run")
    need = need_of(*(folder / "logs").rglob("*.json*"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MEMORY_VARIABLE, str((PROCESS_BYTES + (need - PROCESS_BYTES) // 2) / 1e6))
        with mounts.mount(folder / "logs", folder / "cache", Pool(1)) as address:
            yield address


@pytest.fixture(scope="module")
def tab_of_all(tab_at: TabAt, small_machine: str) -> Iterator[harness.Tab]:
    with tab_at(small_machine) as tab:
        yield tab


@pytest.fixture
def tab(tab_of_all: harness.Tab) -> Iterator[harness.Tab]:
    tab_of_all.refusals = tab_of_all.faults = []
    yield tab_of_all
    assert not tab_of_all.faults
    assert tab_of_all.renew()


def test_the_bar_says_what_is_open_and_leads_on(tab: harness.Tab) -> None:
    frame = tab.follow(view="operators")
    assert_healthy(frame)
    bar = frame.get_by_role("region", name="Window of the trace")
    text = bar.inner_text()
    assert "Steps 0 to 2 open, 3 of 6" in text and "TORCH_TRACE_MEMORY_MB" in text
    assert bar.get_by_role("button", name="Earlier").is_disabled()
    bar.get_by_role("button", name="Later").click()
    frame = tab.settle()
    assert tab.state()["window"] == "3" and tab.state()["view"] == "operators"
    assert "Steps 3 to" in bar.inner_text()
    shown = frame.locator("[role=table]").get_attribute("aria-rowcount")
    server = ask(tab.address, "table/operators/operators", window="3")
    assert shown == str(server["matched_rows"] + 1)
    bar.get_by_role("combobox").select_option("1")
    frame = tab.settle()
    assert tab.state()["window"] == "1" and "Steps 1 to 2 open, 2 of 6" in bar.inner_text()
    tab.page.go_back()
    tab.settle()
    assert tab.state()["window"] == "3"
    assert not tab.axe()


def test_steps_of_another_window_do_not_stay(tab: harness.Tab) -> None:
    frame = tab.follow(steps="1", view="overview")
    frame.get_by_role("region", name="Window of the trace").get_by_role("button", name="Later").click()
    frame = tab.settle()
    assert_healthy(frame)
    assert "steps" not in tab.state()


def test_a_link_to_a_window_that_is_not_there_leads_back(tab: harness.Tab) -> None:
    frame = tab.follow(window="77")
    assert "The trace has no step 77" in frame.inner_text("main")
    frame.get_by_role("button", name="Open from the start").click()
    frame = tab.settle()
    assert_healthy(frame)
    assert "window" not in tab.state()
    assert "Steps 0 to 2 open, 3 of 6" in frame.inner_text("main")


@pytest.mark.parametrize("view", sampled(harness.VIEWS, ("overview", "timeline", "memory")))
def test_every_view_of_a_window(tab: harness.Tab, view: str) -> None:
    frame = tab.follow(window="3", view=view)
    assert "Steps 3 to" in frame.get_by_role("region", name="Window of the trace").inner_text()
    assert_healthy(frame)


def test_the_window_of_a_baseline(tab: harness.Tab) -> None:
    place = {"base_run": "run", "base_worker": "worker0", "base_span": "1"}
    frame = tab.follow(view="diff", window="3-3", base_window="1-1", **place)
    assert_healthy(frame)
    baseline = frame.get_by_role("region", name="Baseline: Window of the trace")
    assert "Step 1 open, 1 of 6" in baseline.inner_text()
    frame.get_by_role("button", name="Swap").click()
    tab.settle()
    assert (tab.state()["window"], tab.state()["base_window"]) == ("1-1", "3-3")
