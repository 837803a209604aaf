"""Pages about all ranks of a job: an analysis of it, and kernels of its ranks side by side."""

from __future__ import annotations

from tests.browser.conftest import Open
from tests.browser.expect import assert_healthy


def test_an_analysis_and_kernels_of_ranks(open_tab: Open) -> None:
    tab = open_tab(size=(1000, 700))
    frame = tab.open(view="ranks_kernels", run="synthetic_ddp")
    assert_healthy(frame)
    assert "rank2 is the slowest for" in frame.get_by_test_id("answer").last.inner_text()
    assert tab.axe() == [] and tab.overflow() == 0
    frame = tab.open(view="cluster", run="synthetic_ascend_cluster")
    assert_healthy(frame)
    assert "Rank 4 computes" in frame.locator("main").inner_text()
    frame.get_by_text("Bytes over links", exact=True).click()
    frame.get_by_role("heading", name="Bytes over links (").wait_for()
    assert tab.overflow() == 0
    tab.set_dark()
    assert tab.axe() == []
