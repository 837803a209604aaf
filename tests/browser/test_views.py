"""Every view as a person sees it: nothing missing, nothing failing, nothing fetched outside, by day and by night."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.browser.boxes import box_faults
from tests.browser.conftest import Open
from tests.browser.expect import assert_healthy, assert_shows
from tests.browser.harness import CONTRAST, SAMPLES, V100, VIEWS
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
    *(("no_steps", view) for view in ("overview", "timeline", "kernels")),
    *(("v100", view) for view in ("timeline", "memory")),
    *(("stacks", view) for view in ("stacks", "modules", "memory")),
    *(("ddp", view) for view in ("overview", "distributed", "diff")),
    ("groups", "distributed"),
    ("second_span", "diff"),
]
"""What these profiles are there for. test_a_view opens each view with a device, and test_answers.py each without one."""
BY_NIGHT = {"overview", "findings", "timeline", "kernels", "stacks", "diff"}
"""Views that use all colours of the theme between them."""


class Companion(NamedTuple):
    """A view of another model, or one that not every trace has. Those with a test of their own are looked at there."""

    view: str
    place: dict[str, str]
    said: str
    """What stands on it."""


COMPANIONS = (
    Companion("collectives", {"run": "flight_recorder_gloo", "worker": "rank0", "row": "1"}, "recorded calls"),
    Companion("stack_profile", {"run": "export_stacks_cpu"}, "itself has the largest share"),
    Companion("stack_profile", {"run": "export_stacks_cpu", "form": "functions"}, "itself has the largest share"),
    Companion("execution_nodes", {"run": "execution_trace_cpu"}, "contains no times"),
    Companion("ranks_kernels", {"run": "synthetic_ddp"}, "rank2 is the slowest for"),
    Companion("cluster", {"run": "synthetic_ascend_cluster"}, "Rank 4 computes"),
    Companion("parallelism", {"run": "synthetic_sharded"}, "GPU time in 2 steps: experts"),
)


@pytest.mark.parametrize("view", VIEWS)
def test_a_view(open_tab: Open, view: str) -> None:
    tab = open_tab(size=(1000, 700))
    place = {"run": "synthetic_gpu", **(BASELINE if view == "diff" else {})}
    # Opened small it is complete, no wider than its frame, and its controls have sensible boxes.
    frame = tab.open(view=view, **place)
    assert_shows(frame, tab.address, view, place)
    assert tab.overflow() <= 0 and box_faults(tab) == []
    # What is taller than the frame scrolls inside it: a jump to a table would move the bar above out of sight for good.
    assert frame.evaluate("document.documentElement.scrollHeight - innerHeight") == 0
    if view == "operators":  # names of a donut stand line below line
        frame.get_by_role("button", name="Charts of the top 10").click()
        boxes = [name.bounding_box() for name in frame.get_by_test_id("legend").first.locator("li > button").all()]
        places = [(box["x"], box["y"], box["width"]) for box in boxes if box]
        assert len(places) == len(boxes) > 3 and len({x for x, _, _ in places}) == 1
        assert [y for _, y, _ in places] == sorted({y for _, y, _ in places}) and min(w for *_, w in places) > 60
    # In a large window as well; axe has nothing serious to say.
    tab.page.set_viewport_size({"width": 1440, "height": 900})
    frame = tab.settle()
    assert_healthy(frame)
    assert tab.axe() == box_faults(tab) == []
    if view in BY_NIGHT:
        tab.set_dark()
        assert_healthy(frame)
        assert tab.axe(*CONTRAST) == []


@pytest.mark.parametrize("page", COMPANIONS, ids=lambda page: f"{page.view}-{len(page.place)}")
def test_a_view_of_other_files(visit: Open, page: Companion) -> None:
    tab = visit(size=(1000, 700))
    frame = tab.follow(view=page.view, **page.place)
    assert_healthy(frame)
    assert page.said in frame.inner_text("#main")
    assert tab.axe() == [] and tab.overflow() <= 0


def test_profiles(visit: Open) -> None:
    """Each view of each kind of profile shows what the server says; links lead from profile to profile."""
    tabs = {logdir: visit(logdir) for logdir in {logdir for logdir, _ in PROFILES.values()} if logdir.exists()}
    for name, view in sampled(EVERY_PAGE, SOME_PAGES):
        logdir, place = PROFILES[name]
        if logdir not in tabs:
            continue
        tab = tabs[logdir]
        place = {**place, **(BASELINE if view == "diff" and logdir == SAMPLES else {})}
        frame = tab.follow(view=view, **place)
        assert_shows(frame, tab.address, view, place)
        assert frame.get_attribute("html", "lang") == "en"
        # What the link said is what the page shows.
        assert (tab.state()["view"], tab.state()["run"]) == (view, place["run"])


def test_profiles_within_tensorboard(open_in_tensorboard: Open) -> None:
    """TensorBoard's own page and the plugin are loaded once; links lead from profile to profile."""
    tab = open_in_tensorboard(refusals=True)
    # There is an answer without a click.
    frame = tab.open()
    assert_shows(frame, tab.address, "overview", {"run": frame.evaluate("document.title").split(" · ")[1], "span": "1"})
    # The page is dark when TensorBoard is.
    background = "getComputedStyle(document.body).backgroundColor"
    light = frame.evaluate(background)
    frame = tab.set_dark()
    assert frame.evaluate(background) != light
    tab.page.evaluate("document.body.classList.remove('dark-mode')")
    # Back goes to the view before.
    frame.get_by_role("navigation").first.get_by_role("button", name="Operators & kernels").click()
    for title in ("Operators", "Kernels"):
        frame.get_by_role("tab", name=title, exact=True).click()
        tab.page.wait_for_url(f"**view={title.lower()}**")
        tab.settle()
    tab.page.go_back()
    tab.page.wait_for_url("**view=operators**")
    tab.settle()
    # A link survives a reload of everything.
    tab.follow(run="resnet_cpu", span="2", view="operators", search="conv")
    before = tab.state()
    frame = tab.reload()
    assert tab.state() == before and before["search"] == "conv"
    rows = frame.locator("[role=rowheader]").all_inner_texts()
    assert rows and all("conv" in row.lower() for row in rows)
    for name, view in (("no_steps", "timeline"), ("ddp", "distributed")):
        _, place = PROFILES[name]
        frame = tab.follow(view=view, **place)
        assert_shows(frame, tab.address, view, place)
        assert (tab.state()["view"], tab.state()["run"]) == (view, place["run"])
    assert not tab.refusals
    assert "no_such_run" in tab.follow(run="no_such_run", view="overview").inner_text("body")


def test_eight_devices_stand_side_by_side(visit: Open, tmp_path: Path) -> None:
    builder = trace().step(1, 0, 1000).step(2, 1000, 1000)
    for number in range(16):
        builder.op("a", 10 + 125 * number, 50).launches(kernel("k", 40, device=number % 8), dur=30)
    for number in range(8):
        builder.device(number)
    (tmp_path / "worker0.pt.trace.json").write_bytes(builder.bytes())
    tab = visit(tmp_path)
    frame = tab.follow(view="overview")
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


def test_each_page_of_steps_is_one_request(visit: Open, tmp_path: Path) -> None:
    """1,001 steps: the table shows 200 per page, in order or longest first."""
    builder = trace()
    for i in range(1001):
        dur = 200 if i == 700 else 100
        builder.step(i, i * 200, dur).op("aten::mm", i * 200, dur - 1)
    (tmp_path / "worker0.pt.trace.json").write_bytes(builder.bytes())
    tab = visit(tmp_path)
    frame = tab.follow(view="overview")
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url) if "/table/overview" in request.url else None)
    frame.get_by_label("View of the steps").get_by_text("Table").click()
    frame = tab.settle()
    table = frame.get_by_role("region", name="Steps", exact=True)
    assert table.locator("tbody tr").count() == 200 and len(asked) == 1
    card = table.locator("..")
    assert "Rows 1 to 200 of 1,001" in card.inner_text()
    for page in range(1, 6):
        frame.get_by_role("button", name="Next steps").click()
        table.get_by_role("button", name=str(200 * page), exact=True).wait_for()
    assert table.locator("tbody tr").count() == 1 and len(asked) == 6
    assert "Rows 1,001 to 1,001 of 1,001" in card.inner_text()
    assert frame.get_by_role("button", name="Next steps").is_disabled()
    asked.clear()
    table.get_by_role("button", name="Total").click()
    frame = tab.settle()
    assert len(asked) == 1 and "Rows 1 to 200 of 1,001" in card.inner_text()
    table.locator("tbody tr").first.get_by_role("button").click()
    tab.settle()
    assert tab.state()["steps"] == "700"


def test_files_that_cannot_be_read_are_named(visit: Open, tmp_path: Path) -> None:
    """A log directory without a trace, a file that is broken and one that ends early."""
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "notes.json").write_text('{"learning_rate": 0.1}')
    text = visit(tmp_path / "none").open_alone().inner_text("body")
    assert str(tmp_path / "none") in text and "notes.json" in text
    logs = tmp_path / "logs"
    (logs / "cut").mkdir(parents=True)
    (logs / "worker0.pt.trace.json").write_text('{"schemaVersion": 1, "deviceProperties": []}')
    whole = gzip.decompress(next((SAMPLES / "synthetic_gpu").glob("*.gz")).read_bytes())
    cut = logs / "cut" / "worker0.1.pt.trace.json"
    cut.write_bytes(whole[: len(whole) * 6 // 10])
    os.utime(cut, (1_700_000_000, 1_700_000_000))  # a new file is still being written
    tab = visit(logs, refusals=True)
    assert "worker0.pt.trace.json" in tab.open_alone(run=logs.name).inner_text("body")
    for view in ("overview", "operators"):
        frame = tab.open(run="cut", view=view)
        assert "This file is truncated." in frame.inner_text("[data-testid=cut]")
        tab.set_dark()
        assert not tab.axe(*CONTRAST)
