"""The comparison of two profiles: choosing them, going down the tree, and the ways into each side's own view."""

from __future__ import annotations

from playwright.sync_api import Frame

from tests.browser.conftest import Open
from tests.browser.expect import assert_healthy
from tests.browser.harness import Tab
from tests.browser.journey import walk

EVIL = "<img src=x onerror=alert(1)>"
SPANS = {"run": "resnet_cpu", "span": "2", "base_run": "resnet_cpu", "base_worker": "worker0", "base_span": "1"}


def _headline(frame: Frame) -> list[str]:
    return frame.locator("[data-testid=headline] dd b").all_inner_texts()


def _choose(tab: Tab, picker: str, choice: str) -> Frame:
    frame = tab.frame()
    frame.get_by_role("region", name="Comparison").get_by_role("button", name=picker).click()
    frame.get_by_role("option", name=choice).click()
    return tab.settle()


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


def a_profile_like_no_other_is_compared_with_what_the_person_chooses(tab: Tab) -> None:
    frame = tab.follow(view="diff", run="transformer_cpu")
    assert "Choose a baseline" in frame.inner_text("#main")
    assert not tab.axe()
    frame = _choose(tab, "Run", "resnet_cpu")
    assert_healthy(frame)
    assert _headline(frame) and tab.state()["base_run"] == "resnet_cpu"


def test_diff(visit: Open) -> None:
    walk(
        visit,
        devices_of_two_makers_stand_beside_each_other,
        a_profile_like_no_other_is_compared_with_what_the_person_chooses,
    )
