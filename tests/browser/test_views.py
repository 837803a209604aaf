"""Every view of every kind of profile, as a person sees it: nothing missing, nothing failing, nothing fetched outside."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from playwright.sync_api import Frame

from tests import synthetic
from tests.browser.conftest import Open
from tests.browser.expect import assert_healthy, assert_shows
from tests.browser.harness import CONTRAST, SAMPLES, V100, VIEWS, tensorboard
from tests.browser.test_boxes import box_faults
from tests.builders import kernel, trace
from tests.depth import sampled

PROFILES = {
    "gpu": (SAMPLES, {"run": "synthetic_gpu"}),
    "first_span": (SAMPLES, {"run": "resnet_cpu", "span": "1"}),
    "second_span": (SAMPLES, {"run": "resnet_cpu", "span": "2"}),
    "no_steps": (SAMPLES, {"run": "no_steps_cpu"}),
    "ddp": (SAMPLES, {"run": "synthetic_ddp", "worker": "rank0"}),
    "groups": (SAMPLES, {"run": "synthetic_groups", "worker": "rank3"}),
    "stacks": (SAMPLES, {"run": "transformer_cpu"}),
    "v100": (V100, {"run": "resnet50_num_workers_0", "span": "1"}),
}


BASELINE = {"base_run": "resnet_cpu", "base_worker": "worker0", "base_span": "1"}
"""What samples are compared with: they are no series of runs, so the page would ask."""
EVERY_PAGE = [(name, view) for name in PROFILES for view in VIEWS]
SOME_PAGES = [
    *(("gpu", view) for view in ("overview", "timeline", "operators", "diff")),
    *(("no_steps", view) for view in VIEWS),
    *(("v100", view) for view in ("overview", "timeline", "kernels", "memory")),
    *(("stacks", view) for view in ("stacks", "modules", "memory")),
    *(("ddp", view) for view in ("overview", "distributed", "diff")),
    ("groups", "distributed"),
    ("first_span", "overview"),
    ("second_span", "diff"),
]
"""Each view without a device, and what the other profiles are there for; with a device the next test opens each."""


@pytest.mark.parametrize(("name", "view"), sampled(EVERY_PAGE, SOME_PAGES))
def test_a_view_of_a_profile(visit_in_tensorboard: Open, visit: Open, name: str, view: str) -> None:
    """Samples within TensorBoard's own page; it and the plugin are loaded once."""
    logdir, place = PROFILES[name]
    if not logdir.exists():
        pytest.skip(f"{logdir} is not on this machine")
    tab = (visit_in_tensorboard if logdir == SAMPLES else visit)(logdir)
    place = {**place, **(BASELINE if view == "diff" and logdir == SAMPLES else {})}
    frame = tab.follow(view=view, **place)
    assert_shows(frame, tab.address, view, place)
    assert frame.get_attribute("html", "lang") == "en"
    # What the link said is what the page shows.
    assert tab.state()["view"] == view
    assert tab.state()["run"] == place["run"]


def test_legends_of_donuts_stand_line_below_line(open_tab: Open) -> None:
    tab = open_tab(size=(1000, 700))
    frame = tab.open(run="synthetic_gpu", view="operators")
    boxes = [name.bounding_box() for name in frame.locator("[data-testid=legend]").first.locator("li > button").all()]
    places = [(box["x"], box["y"], box["width"]) for box in boxes if box]
    assert len(places) == len(boxes) > 3 and len({x for x, _, _ in places}) == 1
    assert [y for _, y, _ in places] == sorted({y for _, y, _ in places}) and min(wide for _, _, wide in places) > 60


@pytest.mark.parametrize("view", VIEWS)
def test_by_day_and_by_night_and_in_a_small_window(open_tab: Open, view: str) -> None:
    """No serious finding of axe; a view that was opened small is complete, no wider than its frame, and its controls have
    sensible boxes in either size."""
    tab = open_tab(size=(1000, 700))
    place = {"run": "synthetic_gpu", **(BASELINE if view == "diff" else {})}
    frame = tab.open(view=view, **place)
    assert_shows(frame, tab.address, view, place)
    assert tab.overflow() <= 0 and box_faults(tab) == []
    # What is taller than the frame scrolls inside it: a jump to a table would move the bar above out of sight for good.
    assert frame.evaluate("document.documentElement.scrollHeight - innerHeight") == 0
    tab.page.set_viewport_size({"width": 1440, "height": 900})
    frame = tab.settle()
    assert_healthy(frame)
    assert tab.axe() == box_faults(tab) == []
    tab.set_dark()
    assert_healthy(frame)
    assert tab.axe(*CONTRAST) == []


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory with a job of 18 ranks of which one is missing, and a process that drives eight devices."""
    folder = tmp_path_factory.mktemp("crowd")
    config = synthetic.Config(steps=2, ranks=18, layers=1, slow_rank=4, slow_factor=1.6, absent_ranks=(9,), seed=1)
    synthetic.write(synthetic.generate(config), folder / "many")
    builder = trace().step(1, 0, 1000).step(2, 1000, 1000)
    for number in range(16):
        builder.op("a", 10 + 125 * number, 50).launches(kernel("k", 40, device=number % 8), dur=30)
    for number in range(8):
        builder.device(number)
    (folder / "eight").mkdir()
    (folder / "eight" / "worker0.pt.trace.json").write_bytes(builder.bytes())
    return folder


def test_eight_devices_stand_side_by_side(open_tab: Open, crowd: Path) -> None:
    tab = open_tab(crowd)
    frame = tab.open(run="eight", view="overview")
    assert_healthy(frame)
    cards = [card.bounding_box() for card in frame.get_by_test_id("devices").locator("section").all()]
    assert len(cards) == 8 and len({card["y"] for card in cards if card}) == 2
    assert tab.overflow() <= 0
    box = frame.get_by_test_id("chart").first.bounding_box()
    assert box is not None
    # The first of two bars is 1 ms high on an axis of 1.2 ms, between the margins of the plot; its runtime part begins at
    # 0.35 ms.
    x, foot, height = (
        box["x"] + 58 + (box["width"] - 58 - 14) / 4,
        box["y"] + box["height"] - 42,
        box["height"] - 42 - 26,
    )
    tab.page.mouse.click(x, foot - height * 0.2 / 1.2)
    tab.settle()
    assert (tab.state()["view"], tab.state()["steps"]) == ("overview", "1")
    tab.page.mouse.click(x, foot - height * 0.5 / 1.2)
    tab.settle()
    assert (tab.state()["view"], tab.state()["steps"]) == ("launches", "1")


def test_many_workers_stand_as_a_map_with_its_scale(open_tab: Open, crowd: Path) -> None:
    """17 ranks of 18: too many for bars. The finding names the planted straggler and says what a missing rank means."""
    tab = open_tab(crowd, size=(1000, 700))
    frame = tab.open(run="many", view="distributed")
    assert_healthy(frame)
    maps = frame.locator("[data-testid=heat]")
    assert maps.count() == 2  # both cards of bars
    assert maps.nth(0).locator("tbody tr").count() == 17
    assert maps.nth(0).locator("tbody tr").nth(9).locator("th").inner_text() == "rank10"
    assert frame.locator("[data-testid=heat-legend]").nth(1).inner_text().endswith("ms")
    for one in maps.all():  # nothing is cut: no map is wider than its card
        assert one.evaluate("node => node.scrollWidth - node.clientWidth") <= 0
    text = frame.inner_text("#main")
    assert "Other ranks wait for rank4" in text and "It arrives last at 100.0 % of its collectives" in text
    assert "17 of 18 ranks are loaded" in text and "Wait (min)" in text
    assert tab.overflow() <= 0
    tab.set_dark()
    assert tab.axe() == []
    frame.get_by_text("Bars").first.click()
    assert maps.count() == 1
    assert tab.axe() == []


def test_a_cell_of_the_map_of_ranks_leads_to_its_rank(open_tab: Open, crowd: Path) -> None:
    tab = open_tab(crowd, size=(1000, 700))
    frame = tab.open(run="many", view="distributed")
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
    assert tab.axe() == []
    tab.page.keyboard.press("Escape")
    assert kept.count() == 0
    box = picture.locator("canvas").bounding_box()
    assert box is not None
    tab.page.mouse.click(box["x"] + box["width"] * 0.9, box["y"] + 3)
    frame.get_by_role("button", name="Overview of rank4").last.click()
    tab.settle()
    assert (tab.state()["view"], tab.state()["worker"], tab.state()["steps"]) == ("overview", "rank4", "1")


def test_a_view_that_every_object_has_is_none(open_tab: Open) -> None:
    frame = open_tab().open(run="synthetic_gpu", view="__proto__")
    assert frame.locator("h1").inner_text() == "Overview"
    assert_healthy(frame)


def test_dark_mode_follows_tensorboard(open_in_tensorboard: Open) -> None:
    tab = open_in_tensorboard()
    frame = tab.open(run="synthetic_gpu", view="overview")
    background = "getComputedStyle(document.body).backgroundColor"
    light = frame.evaluate(background)
    frame = tab.set_dark()
    assert frame.evaluate(background) != light


def test_a_link_survives_a_reload(open_in_tensorboard: Open) -> None:
    tab = open_in_tensorboard()
    tab.open(run="resnet_cpu", span="2", view="operators", search="conv")
    before = tab.state()
    frame = tab.reload()
    assert tab.state() == before
    assert before["search"] == "conv"
    rows = frame.locator("[role=rowheader]").all_inner_texts()
    assert rows
    assert all("conv" in row.lower() for row in rows)


def test_back_returns_to_the_view_before(open_in_tensorboard: Open) -> None:
    tab = open_in_tensorboard()
    frame = tab.open(run="synthetic_gpu", view="overview")
    navigation = frame.get_by_role("navigation").first
    for title in ("Operators", "Kernels"):
        navigation.get_by_text(title, exact=True).click()
        tab.page.wait_for_url(f"**view={title.lower()}**")
        tab.settle()
    tab.page.go_back()
    tab.page.wait_for_url("**view=operators**")
    tab.settle()
    assert tab.state()["view"] == "operators"


@pytest.mark.parametrize("view", ["operators", "kernels"])
def test_a_row_opens_to_its_events(open_tab: Open, view: str) -> None:
    tab = open_tab()
    frame = tab.open(run="synthetic_gpu", view=view)
    frame.locator("[role=rowheader] [aria-expanded=false]").first.click()
    frame.locator("[data-testid=detail]").wait_for()
    tab.settle()
    assert_healthy(frame)
    assert len(frame.inner_text("[data-testid=detail]")) > 50


def test_a_click_on_a_header_sorts(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(run="synthetic_gpu", view="kernels")
    frame.get_by_role("columnheader", name="Calls").get_by_role("button").first.click()
    tab.page.wait_for_url("**sort=calls**")
    frame = tab.settle()
    shown = [int(text.replace(",", "")) for text in _column(frame, "Calls")]
    assert len(shown) > 3
    assert shown == sorted(shown, reverse=True)


def _column(frame: Frame, title: str) -> list[str]:
    heads = frame.locator("[role=columnheader]").all_inner_texts()
    at = next(i for i, head in enumerate(heads) if title in head)
    rows = frame.locator("[role=table] [role=row]:has([role=rowheader])")
    return [row.locator("[role=rowheader], [role=cell]").nth(at).inner_text() for row in rows.all()]


def test_a_first_answer_without_a_click(open_in_tensorboard: Open) -> None:
    tab = open_in_tensorboard()
    frame = tab.open()
    place = frame.evaluate("document.title").split(" · ")
    assert_shows(frame, tab.address, "overview", {"run": place[1], "span": "1"})


def test_behind_a_path_prefix(open_tab: Open) -> None:
    tab = open_tab(SAMPLES, "--path_prefix", "/deep/er")
    assert tab.address.endswith("/deep/er/")
    frame = tab.open(run="synthetic_gpu", view="kernels")
    assert_shows(frame, tab.address, "kernels", {"run": "synthetic_gpu"})


def test_nothing_found_says_what_was_looked_at(open_tab: Open, tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text('{"learning_rate": 0.1}')
    frame = open_tab(tmp_path).open_alone()
    text = frame.inner_text("body")
    assert str(tmp_path) in text
    assert "notes.json" in text


def test_a_broken_file_says_so(open_tab: Open, tmp_path: Path) -> None:
    (tmp_path / "worker0.pt.trace.json").write_text('{"schemaVersion": 1, "deviceProperties": []}')
    whole = gzip.decompress(next((SAMPLES / "synthetic_gpu").glob("*.gz")).read_bytes())
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "worker0.1.pt.trace.json").write_bytes(whole[: len(whole) * 6 // 10])
    tab = open_tab(tmp_path, refusals=True)
    frame = tab.open_alone(run=tmp_path.name)
    assert "worker0.pt.trace.json" in frame.inner_text("body")
    for view in ("overview", "operators"):
        frame = tab.open(run="cut", view=view)
        assert "This file is truncated." in frame.inner_text("[data-testid=cut]")
        tab.set_dark()
        assert not tab.axe()


def test_an_unknown_run_says_so(open_in_tensorboard: Open) -> None:
    frame = open_in_tensorboard(refusals=True).open(run="no_such_run", view="overview")
    assert "no_such_run" in frame.inner_text("body")


def test_tensorboard_ends_without_leftovers(tmp_path: Path) -> None:
    """Guards the other tests: a TensorBoard that does not end would hold its port and its workers."""
    with tensorboard(tmp_path, tmp_path / "cache") as address:
        assert address.startswith("http://127.0.0.1:")


def test_of_a_worker_that_a_run_does_not_have_the_others_can_be_chosen(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="overview", run="synthetic_ddp", worker="rank37")
    alert = frame.get_by_role("alert")
    assert "There is no profile synthetic_ddp / rank37 in the log directory." in alert.inner_text()
    assert "Choose another worker above." in alert.inner_text()
    profile = frame.get_by_role("region", name="Profile")
    assert "synthetic_ddp" in profile.get_by_role("button", name="Run").inner_text()
    worker = profile.get_by_role("button", name="Worker")
    assert "rank37" in worker.inner_text()
    worker.click()
    frame.get_by_role("option", name="rank2").click()
    frame = tab.settle()
    assert_healthy(frame)
    assert (tab.state()["run"], tab.state()["worker"]) == ("synthetic_ddp", "rank2")
