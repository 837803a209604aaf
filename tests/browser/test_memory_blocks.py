"""Blocks of memory on the page: what is live by line, what steps keep, filters in the URL, and findings that lead there."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Frame

from tests.browser.conftest import Open
from tests.browser.expect import assert_healthy
from tests.views.test_memory_findings import MIB, Run, changing_shapes, healthy, leak

GPU = {"run": "synthetic_gpu", "device": "cuda:0"}


def rows(frame: Frame) -> int:
    return int(frame.locator("[role=table]").get_attribute("aria-rowcount") or 0) - 1


def test_findings_lead_to_what_they_speak_of(visit: Open, tmp_path: Path) -> None:
    leaking = Run(6)
    healthy(leaking, 6)
    for i in range(6):
        leak(leaking, i, MIB)
    for name, run in (("leaking", leaking), ("shapes", changing_shapes())):
        run.table()
        (tmp_path / name).mkdir()
        (tmp_path / name / "worker0.1.pt.trace.json").write_bytes(run.builder.bytes())
    tab = visit(tmp_path, size=(1000, 700))
    frame = tab.follow(run="leaking", view="memory")
    frame.get_by_role("button", name="Show by step").click()
    frame = tab.settle()
    assert tab.state()["group"] == "memory_steps" and rows(frame) == 6, "one row a step"
    assert frame.locator("[role=table]").is_visible()
    box = frame.locator("[data-testid=toolbar]").bounding_box()
    assert box is not None and box["y"] < 650, "brought into sight"

    frame = tab.follow(run="shapes", view="memory", group="memory_shapes")
    assert rows(frame) == 1
    frame.locator("[role=rowheader] button").first.click()
    frame = tab.settle()
    frame.get_by_role("button", name="Show shapes").last.click()
    frame = tab.settle()
    assert (tab.state()["view"], tab.state()["group"]) == ("operators", "operators_by_shape")
    assert rows(frame) == 4, "a row each shape"
    assert_healthy(frame)
