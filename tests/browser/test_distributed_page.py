"""Ways out of Distributed: from names to workers, onto a timeline that is aligned at once; summaries that stand alone."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tb_plugin import cli
from tests import synthetic
from tests.browser.conftest import Open
from tests.browser.expect import assert_healthy
from tests.browser.harness import SAMPLES

RANKS = 17
"""More than are read for their clocks without being asked."""


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crowd")
    config = synthetic.Config(steps=2, ranks=RANKS, layers=1, slow_rank=4, slow_factor=1.6, seed=1)
    synthetic.write(synthetic.generate(config), folder / "many")
    return folder


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four ranks of which one trace is here, and the summaries of all."""
    logs, to = (tmp_path_factory.mktemp(name) for name in ("logs", "told"))
    shutil.copytree(SAMPLES / "synthetic_ddp", logs / "ddp")
    assert cli.main(["summarize", str(logs), "--to", str(to), "--workers", "0"]) == 0
    (trace,) = (logs / "ddp").glob("rank0.*")
    shutil.copy(trace, to / "ddp")
    return to


def test_names_lead_to_workers_and_the_timeline_is_aligned_at_once(open_tab: Open, crowd: Path) -> None:
    beside = {"run": "many", "worker": "rank4", "view": "timeline", "ranks": "rank1"}
    tab = open_tab(crowd)
    frame = tab.open(**beside)
    # Nobody has read all traces: status and menu agree that clocks are as recorded.
    foot = frame.get_by_test_id("timeline-foot")
    assert "aligned by wall clocks" in foot.inner_text() and "linked" not in foot.inner_text()
    align = frame.get_by_role("button", name="Align and link")
    assert align.count() == 1
    frame.get_by_role("button", name="Ranks (2)").click()
    assert frame.get_by_role("radio", name="By wall clocks").is_checked()
    cost = frame.get_by_role("radio", name="By corrected clocks").get_attribute("title") or ""
    # Of those that are shown the list of profiles may know already.
    assert re.search(rf"reads the other traces: ({RANKS}|{RANKS - 1}|{RANKS - 2}) at most$", cost)
    assert align.get_attribute("title") == cost
    tab.follow(run="many", view="distributed")
    frame = tab.settle()
    assert_healthy(frame)
    findings = frame.locator("section", has_text="Findings").first
    assert findings.get_by_test_id("saving-bar").count() == 1 and "saves " in findings.inner_text()
    frame.get_by_role("button", name="Beside each other on the timeline").first.click()
    frame = tab.settle()
    assert (tab.state()["view"], tab.state()["worker"]) == ("timeline", "rank4")
    assert "aligned by corrected clocks" in foot.inner_text() and "linked" in foot.inner_text() and align.count() == 0
    # The same page knows it, whichever way one comes.
    tab.follow(**beside)
    tab.settle()
    assert "aligned by corrected clocks" in foot.inner_text() and align.count() == 0
    tab.follow(run="many", view="distributed")
    frame = tab.settle()
    frame.get_by_test_id("headline").get_by_role("button", name="rank4").click()
    tab.settle()
    assert (tab.state()["view"], tab.state()["worker"]) == ("overview", "rank4")


def test_ranks_of_which_the_summary_alone_is_here_say_so(open_tab: Open, told: Path) -> None:
    tab = open_tab(told, size=(1000, 700))
    frame = tab.open(run="ddp", view="distributed")
    assert_healthy(frame)
    why = "is not here, only its summary: open the log directory that has the trace."
    assert frame.get_by_role("img", name=f"The trace of rank2 {why}").count() > 0
    assert frame.get_by_role("button", name="Beside each other on the timeline").count() == 0
    assert tab.overflow() <= 0 and tab.axe() == []
    frame.get_by_role("button", name="Worker").first.click()
    notes = [option.inner_text().split("\n") for option in frame.locator("[data-combobox-option]").all()]
    assert [note[0] for note in notes] == ["rank0", "rank1", "rank2", "rank3"]
    assert "PyTorch trace" in notes[0][1] and all(note[1] == "summary" for note in notes[1:])
    tab.page.keyboard.press("Escape")
    frame.get_by_test_id("headline").get_by_role("button", name="rank2").click()
    frame = tab.settle()
    assert tab.state()["view"] == "distributed" and tab.state()["group"] == "workers"
    frame.get_by_role("rowheader", name="rank2").get_by_role("button").first.click()
    assert f"The trace of rank2 {why}" in tab.settle().get_by_test_id("detail").inner_text()
    # Ranks that are to stand on the timeline have a trace.
    frame = tab.open(run="ddp", worker="rank0", view="timeline")
    assert frame.get_by_role("button", name="Ranks").count() == 0
