"""Ways out of Distributed: from names to workers, onto a timeline that is aligned at once; summaries that stand alone."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Route

from tb_plugin import cli
from tests import synthetic
from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import SAMPLES, Tab

KNOWN = re.compile("/view/ranks_kernels.*known=1")
STEPS = "steps=1"
RANKS = 17
"""More than are read for their clocks without being asked; the job had one more."""


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crowd")
    config = synthetic.Config(
        steps=2, ranks=RANKS + 1, layers=1, slow_rank=4, slow_factor=1.6, absent_ranks=(9,), seed=1
    )
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


def test_names_lead_to_workers_and_the_timeline_is_aligned_at_once(visit: Open, crowd: Path) -> None:
    beside = {"run": "many", "worker": "rank4", "view": "timeline", "ranks": "rank1"}
    tab = visit(crowd)
    frame = tab.follow(**beside)
    # Nobody has read all traces: status and menu agree that clocks are as recorded.
    foot = frame.get_by_test_id("timeline-foot")
    assert "aligned by wall clocks" in foot.inner_text() and "linked" not in foot.inner_text()
    align = frame.get_by_role("button", name="Align and link")
    assert align.count() == 1
    frame.get_by_role("button", name="Ranks (2)").click()
    assert frame.get_by_role("radio", name="By wall clocks").is_checked()
    cost = frame.get_by_text("By corrected clocks").inner_text()
    # Of those that are shown the list of profiles may know already.
    assert re.search(rf"\(reads up to ({RANKS}|{RANKS - 1}|{RANKS - 2}) traces\)$", cost)
    # Nothing of a button is cut where the menu has no room for all.
    boxes = [
        frame.get_by_role("button", name=name).bounding_box()
        for name in ("By node, group or cost", f"Show all {RANKS}")
    ]
    assert boxes[0] and boxes[1] and boxes[0]["height"] >= boxes[1]["height"]
    assert align.inner_text() == cost.replace("By corrected clocks", "Align and link")
    tab.follow(run="many", view="distributed")
    frame = tab.settle()
    assert_healthy(frame)
    findings = frame.locator("section", has_text="Findings").first
    # A rank is missing: the straggler is named, and its cost is not estimated.
    assert findings.get_by_test_id("saving-bar").count() == 0 and "cost is not estimated" in findings.inner_text()
    frame.get_by_role("button", name="Compare on the timeline").first.click()
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


def test_many_workers_stand_as_maps_and_a_cell_leads_to_its_rank(visit: Open, crowd: Path) -> None:
    """Too many for bars. The finding names the planted straggler and says what a missing rank means."""
    tab = visit(crowd, size=(1000, 700))
    frame = tab.follow(run="many", view="distributed")
    assert_healthy(frame)
    maps = frame.locator("[data-testid=heat]")
    assert maps.count() == 2  # both cards of bars
    assert maps.nth(0).locator("tbody tr").count() == RANKS
    assert maps.nth(0).locator("tbody tr").nth(9).locator("th").inner_text() == "rank10"
    assert frame.locator("[data-testid=heat-legend]").nth(1).inner_text().endswith("ms")
    for one in maps.all():  # nothing is cut: no map is wider than its card
        assert one.evaluate("node => node.scrollWidth - node.clientWidth") <= 0
    text = frame.inner_text("#main")
    assert "Other ranks wait for rank4" in text and "This rank arrives last at 100.0 % of its collectives" in text
    assert "17 of 18 ranks are loaded" in text and "Wait (min)" in text
    assert tab.overflow() <= 0
    # The picture of ranks and steps, by keys and by hand.
    picture = frame.locator("[data-testid=matrix]").first
    assert (picture.get_attribute("data-rows"), picture.get_attribute("data-columns")) == ("17", "2")
    frame.get_by_label("Measure", exact=True).select_option("compute_ns")
    tab.settle()
    assert tab.state()["by"] == "compute_ns"
    frame.get_by_label("Order of the ranks").select_option("value")
    picture.locator("canvas").focus()
    for key in ("ArrowDown", "ArrowRight"):  # the first cell, then the one beside it
        tab.page.keyboard.press(key)
    kept = frame.locator("[data-testid=kept-rank]")
    assert kept.inner_text().startswith("rank4\nstep 1 · Compute")
    tab.set_dark()
    assert tab.axe() == []
    tab.page.keyboard.press("Escape")
    assert kept.count() == 0
    frame.get_by_text("Bars").first.click()
    assert maps.count() == 1
    picture.scroll_into_view_if_needed()
    box = picture.locator("canvas").bounding_box()
    assert box is not None
    tab.page.mouse.click(box["x"] + box["width"] * 0.9, box["y"] + 3)
    frame.get_by_role("button", name="Overview of rank4").last.click()
    tab.settle()
    assert (tab.state()["view"], tab.state()["worker"], tab.state()["steps"]) == ("overview", "rank4", "1")


def test_ranks_of_which_the_summary_alone_is_here_say_so(visit: Open, told: Path) -> None:
    tab = visit(told, size=(1000, 700))
    frame = tab.follow(run="ddp", view="distributed")
    assert_healthy(frame)
    why = "Only the summary of rank2 is available. Open the log directory that contains its trace."
    assert frame.get_by_role("img", name=why).count() > 0
    assert frame.get_by_role("button", name="Compare on the timeline").count() == 0
    assert tab.overflow() <= 0 and tab.axe() == []
    frame.get_by_role("button", name="Worker").first.click()
    notes = [option.inner_text().split("\n") for option in frame.locator("[data-combobox-option]").all()]
    assert [note[0] for note in notes] == ["rank0", "rank1", "rank2", "rank3"]
    assert "PyTorch trace" in notes[0][1] and all(note[1] == "summary" for note in notes[1:])
    tab.page.keyboard.press("Escape")
    frame.get_by_test_id("headline").get_by_role("button", name="rank2").click()
    frame = tab.settle()
    assert tab.state()["view"] == "distributed" and tab.state()["group"] == "workers"
    assert frame.evaluate("document.activeElement.id") == "rows-of-ranks"
    frame.get_by_role("rowheader", name="rank2").get_by_role("button").first.click()
    assert why in tab.settle().get_by_test_id("detail").inner_text()
    # Ranks that are to stand on the timeline have a trace.
    frame = tab.follow(run="ddp", worker="rank0", view="timeline")
    assert frame.get_by_test_id("toolbar").get_by_role("button", name="Ranks").count() == 0


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of eight ranks on CPUs, and the same with one file that cannot be read."""
    folder = tmp_path_factory.mktemp("broken")
    for run in ("gloo", "bad"):
        shutil.copytree(SAMPLES / "ddp_gloo8", folder / run)
    next((folder / "bad").glob("rank4.*")).write_text("no trace")
    return folder


def test_a_rank_says_what_the_job_says_of_it_and_lies_beside_another_where_it_shows(visit: Open, broken: Path) -> None:
    tab = visit(broken)
    frame = tab.follow(run="gloo", worker="rank5", view="overview")
    answer = frame.get_by_test_id("answer")
    # Nobody has read the others, nor does so for this.
    assert "is waiting for other ranks (8 workers in this run)" in answer.first.inner_text()
    tab.follow(run="gloo", worker="rank5", view="findings")
    frame = tab.settle()
    assert not any("This rank" in one.inner_text() for one in answer.all())
    frame.get_by_role("button", name="See in Distributed how much of the communication is waiting").click()
    frame = tab.settle()
    assert tab.state()["view"] == "distributed"
    frame.get_by_test_id("headline").get_by_role("button", name="rank5").click()
    tab.settle()
    assert tab.state()["view"] == "overview"
    said = answer.first.inner_text()
    assert said.startswith("This rank costs the other ranks ") and "cause: computation, mostly aten::mm" in said
    tab.follow(run="gloo", worker="rank0", view="findings")
    frame = tab.settle()
    assert "This rank waits " in answer.first.inner_text() and "mostly because of rank5" in answer.first.inner_text()
    assert answer.first.inner_text().endswith("Do not optimize only this rank: it would wait longer. Ranks")
    assert answer.nth(1).inner_text().startswith("On this rank, fix first: ")
    assert_healthy(frame)
    answer.first.get_by_role("button", name="rank5").click()
    tab.settle()
    assert (tab.state()["view"], tab.state()["worker"]) == ("overview", "rank5")
    answer.first.get_by_role("button", name="Ranks", exact=True).click()
    frame = tab.settle()
    frame.get_by_role("button", name="Compare on the timeline").first.click()
    tab.settle()
    # It computes on its host: all tracks stand there, at the step in which it costs most.
    assert {key: tab.state()[key] for key in ("view", "worker", "steps", "detail")} == {
        "view": "timeline", "worker": "rank5", "steps": "3", "detail": "all",
    }  # fmt: skip


def test_a_rank_that_could_not_be_read_is_no_dead_end(visit: Open, broken: Path) -> None:
    tab = visit(broken)
    frame = tab.follow(run="bad", worker="rank4", view="distributed")
    assert_healthy(frame)
    assert frame.get_by_test_id("headline").get_by_role("button", name="rank5").count() == 1
    failed = frame.get_by_role("listitem").filter(has_text="Skipped because unreadable: rank4")
    assert frame.get_by_text("ranks are loaded; not loaded: rank 4.").count() == 1
    failed.get_by_role("button", name="rank4").first.click()
    frame = tab.settle()
    assert (tab.state()["view"], tab.state()["worker"]) == ("overview", "rank4")
    assert frame.get_by_role("button", name="Try again").count() == 1


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of more ranks than are read unasked, and one of two."""
    folder = tmp_path_factory.mktemp("many")
    (trace,) = (SAMPLES / "synthetic_ddp").glob("rank0.*")
    for run, ranks in (("many", 70), ("two", 2)):
        (folder / run).mkdir()
        for rank in range(ranks):
            shutil.copy(trace, folder / run / trace.name.replace("rank0", f"rank{rank}"))
    return folder


def unread(tab: Tab) -> int:
    (run,) = (run for run in ask(tab.address, "runs")["runs"] if run["name"] == "many")
    return [span["state"] for worker in run["workers"] for span in worker["spans"]].count("found")


def test_what_is_known_of_many_traces_stands_for_no_other_steps(visit: Open, many: Path) -> None:
    tab = visit(many)
    (worker, *_) = next(run["workers"] for run in ask(tab.address, "runs")["runs"] if run["name"] == "two")
    place = {"run": "two", "worker": "", "span": worker["spans"][0]["id"]}
    view = ask(tab.address, "view/ranks_kernels", **place)
    table = ask(tab.address, "table/ranks_kernels/kernels_across_ranks", **place)
    asked: list[str] = []

    def rows(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(json=table)

    # As if all were read before, of all steps.
    tab.page.route(KNOWN, lambda route: route.continue_() if STEPS in route.request.url else route.fulfill(json=view))
    tab.page.route(re.compile("/table/ranks_kernels/"), rows)
    frame = tab.follow(run="many", worker="rank0", view="ranks_kernels")
    asks = frame.get_by_test_id("reads-all")
    assert asks.count() == 0 and frame.locator("[role=table]").count() > 0
    frame = tab.follow(run="many", worker="rank0", view="ranks_kernels", steps="1")
    assert asks.count() == 1 and frame.locator("[role=table]").count() == 0
    assert asked and not any(STEPS in url for url in asked)
    assert unread(tab) == 69


def test_a_view_of_many_traces_asks_before_it_reads_them_and_stops(visit: Open, many: Path) -> None:
    """It reads some of them: no test after it finds all unread."""
    tab = visit(many)
    held: list[Route] = []
    tab.page.route(KNOWN, lambda route: held.append(route))
    with tab.page.expect_request(KNOWN):
        frame = tab.start(run="many", worker="rank0", view="ranks_kernels")
    asks = frame.get_by_test_id("reads-all")
    # While nobody knows whether anything has to be read nobody is asked.
    assert asks.count() == 0 and frame.locator("#main [aria-busy=true]").count() > 0
    for route in held:
        route.continue_()
    tab.page.unroute(KNOWN)
    tab.settle()
    # The list of profiles may not have heard yet that the open one is read.
    assert re.match("This view reads up to (69|70) traces", asks.inner_text())
    assert unread(tab) == 69
    frame.get_by_role("button", name="Start reading").click()
    stop = frame.get_by_role("button", name="Stop")
    stop.wait_for()
    assert "of 70" in frame.get_by_role("status").first.inner_text()
    stop.click()
    frame = tab.settle()
    assert asks.count() == 1
