"""The comparison of two profiles: choosing them, going down the tree, and the ways into each side's own view."""

from __future__ import annotations

from tests.browser.conftest import Open
from tests.browser.expect import assert_healthy
from tests.browser.harness import Tab
from tests.browser.journey import walk

EVIL = "<img src=x onerror=alert(1)>"
SPANS = {"run": "resnet_cpu", "span": "2", "base_run": "resnet_cpu", "base_worker": "worker0", "base_span": "1"}


def devices_of_two_makers_stand_beside_each_other(tab: Tab) -> None:
    sides = {"run": "synthetic_gpu", "base_run": "synthetic_ascend", "base_worker": "rank0"}
    frame = tab.follow(view="diff", group="kernels_by_class", **sides)
    assert_healthy(frame)
    titles = frame.locator("h2, h3").all_inner_texts()
    # The warning about the comparison stands before the first chart.
    mind, chart = (
        next(i for i, text in enumerate(titles) if text.startswith(t)) for t in ("Before you compare", "From the")
    )
    assert mind < chart
    groups = frame.get_by_role("radiogroup", name="Group rows by").inner_text().splitlines()
    assert "Kernels by class" in groups and "Kernels" not in groups
    frame.get_by_role("rowheader").get_by_role("button", name="gemm").first.click()
    frame.get_by_role("button", name="Open in baseline").click()
    frame = tab.settle()
    assert_healthy(frame)
    state = tab.state()
    assert (state["view"], state["run"], state["worker"]) == ("kernels", "synthetic_ascend", "rank0")
    assert state["where"] == "class:gemm"
    assert frame.locator("[role=rowheader]").count() > 0


def test_diff(visit: Open) -> None:
    walk(visit, devices_of_two_makers_stand_beside_each_other)
