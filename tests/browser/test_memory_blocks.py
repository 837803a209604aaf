"""Blocks of memory on the page: what is live by line, what steps keep, filters in the URL, and findings that lead there."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote_plus

from playwright.sync_api import Frame

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import Tab
from tests.views.test_memory_findings import MIB, Run, changing_shapes, healthy, leak

GPU = {"run": "synthetic_gpu", "device": "cuda:0"}


def rows(frame: Frame) -> int:
    return int(frame.locator("[role=table]").get_attribute("aria-rowcount") or 0) - 1


def state_of(tab: Tab) -> dict[str, str]:
    """The address as the page reads it."""
    return {key: unquote_plus(value) for key, value in tab.state().items()}


def back(tab: Tab) -> Frame:
    tab.page.go_back()
    return tab.settle()


def test_live_by_line_and_phase(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(**GPU, view="memory")
    group = frame.get_by_label("Group live memory by")
    group.select_option(label="Python line")
    frame = tab.settle()
    assert tab.state()["live"] == "line"
    card = "section[aria-label='Live at the peak']"
    assert "model.py(49): forward" in frame.inner_text(card)
    frame.get_by_label("Group live memory by").select_option(label="Phase")
    frame = tab.settle()
    assert tab.state()["live"] == "phase" and "no phase" in frame.inner_text(card)
    frame = back(tab)
    assert "model.py(49): forward" in frame.inner_text(card)
    frame.get_by_role("button", name="model.py(49): forward").click()
    frame = tab.settle()
    server = ask(tab.address, "table/memory/memory_peak", **GPU, where=state_of(tab)["where"])
    assert state_of(tab)["where"].startswith("allocation_frame:") and rows(frame) == server["matched_rows"] > 0


def test_every_filter_of_blocks_stands_in_the_address(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(**GPU, view="memory", group="memory_events")
    every = rows(frame)
    frame.get_by_label("Block state").select_option(value="never released")
    frame = tab.settle()
    server = ask(tab.address, "table/memory/memory_events", **GPU, where="block_state:never released")
    assert rows(frame) == server["matched_rows"] == 53 < every
    frame = back(tab)
    assert rows(frame) == every and "where" not in tab.state()
    frame.locator("[role=rowheader] button").first.click()
    frame = tab.settle()
    for title, key in ((r"^Step:", "allocation_step"), (r"^Module:", "module"), (r"^Python:", "allocation_frame")):
        frame.get_by_role("button", name="Filter by", exact=True).click()
        frame.get_by_role("menuitem", name=re.compile(title)).click()
        frame = tab.settle()
        assert f"{key}:" in state_of(tab)["where"] and "row" not in tab.state()
        frame.locator("[role=rowheader] button").first.click()
        frame = tab.settle()
    filters = state_of(tab)["where"].split("\u001f")
    assert sorted(filters) == [
        "allocation_frame:train.py(52): forward_and_loss", "allocation_step:0", "module:CrossEntropyLoss_0"
    ]  # fmt: skip
    route = "table/memory/memory_events?" + "".join(f"where={item.replace(' ', '%20')}&" for item in filters)
    few = rows(frame)
    assert few == ask(tab.address, route, **GPU)["matched_rows"] < 60
    frame = tab.open(**state_of(tab))
    assert rows(frame) == few, "the address alone shows the same"
    assert_healthy(frame)


def test_what_a_step_keeps_leads_to_its_blocks(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(**GPU, view="memory", group="memory_steps")
    first = ask(tab.address, "table/memory/memory_steps", **GPU)["rows"][0]
    frame.locator("[role=rowheader] button").first.click()
    frame = tab.settle()
    frame.get_by_role("button", name="Show blocks").click()
    frame = tab.settle()
    assert rows(frame) == first["kept_blocks"] == 53 and tab.state()["group"] == "memory_events"
    back(tab)
    assert tab.state()["group"] == "memory_steps"


def test_findings_lead_to_what_they_speak_of(open_tab: Open, tmp_path: Path) -> None:
    leaking = Run(6)
    healthy(leaking, 6)
    for i in range(6):
        leak(leaking, i, MIB)
    for name, run in (("leaking", leaking), ("shapes", changing_shapes())):
        run.table()
        (tmp_path / name).mkdir()
        (tmp_path / name / "worker0.1.pt.trace.json").write_bytes(run.builder.bytes())
    tab = open_tab(tmp_path, size=(1000, 700))
    frame = tab.open(run="leaking", view="memory")
    frame.get_by_role("button", name="Show by step").click()
    frame = tab.settle()
    assert tab.state()["group"] == "memory_steps" and rows(frame) == 6, "one row a step"
    assert frame.locator("[role=table]").is_visible()
    box = frame.locator("[data-testid=toolbar]").bounding_box()
    assert box is not None and box["y"] < 650, "brought into sight"
    assert tab.axe() == []

    frame = tab.open(run="shapes", view="memory", group="memory_shapes")
    assert rows(frame) == 1
    frame.locator("[role=rowheader] button").first.click()
    frame = tab.settle()
    frame.get_by_role("button", name="Show shapes").last.click()
    frame = tab.settle()
    assert (tab.state()["view"], tab.state()["group"]) == ("operators", "operators_by_shape")
    assert rows(frame) == 4, "a row each shape"
    assert_healthy(frame)
