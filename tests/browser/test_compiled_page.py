"""The page of compiled code: its tables, and the ways from them to the timeline."""

from __future__ import annotations

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import Tab
from tests.browser.journey import walk
from tests.browser.test_show_in_timeline import hit

RUN = {"run": "compiled_breaks_cpu", "worker": "warm"}


def regions_breaks_and_kernels_lead_to_their_calls(tab: Tab) -> None:
    frame = tab.follow(view="compiled", **RUN)
    assert_healthy(frame)
    assert "Graph breaks\n1" in frame.locator("#main").inner_text()
    tab.resize(1000, 700)
    tab.settle()
    assert tab.axe() == [] and tab.overflow() <= 0
    (broken,) = ask(tab.address, "table/compiled/graph_breaks", **RUN)["rows"]
    said = frame.get_by_test_id("answer").last.inner_text()
    assert said.startswith("No compilation in the selected steps. 1 graph break: ")
    assert (broken["break_at"] or f"region {broken['break_from']} continues as") in said
    for table, label, column in (
        ("regions", "Regions", "region"),
        ("graph_breaks", "Graph breaks", "break_to"),
        ("generated_kernels", "Kernels", "generated_kernel"),
    ):
        frame.get_by_text(label, exact=True).last.click()
        frame = tab.settle()
        row = ask(tab.address, f"table/compiled/{table}", **RUN)["rows"][0]
        frame.locator("[role=rowheader] button").first.click()
        frame = tab.settle()
        assert_healthy(frame)
        frame.get_by_test_id("detail").get_by_role("button", name="Show in timeline").click()
        tab.settle()
        name = row[column] if table == "generated_kernels" else f"Torch-Compiled Region: {row[column]}"
        assert hit(tab) == [f"name:{name}"]
        tab.page.go_back()
        frame = tab.settle()


def a_compiled_region_of_a_module_leads_to_its_calls(tab: Tab) -> None:
    frame = tab.follow(view="modules", **RUN)
    frame.get_by_text("compiled region 0/1").last.click()
    frame = tab.settle()
    assert_healthy(frame)
    frame.get_by_role("button", name="Show in timeline").first.click()
    tab.settle()
    assert hit(tab) == ["name:Torch-Compiled Region: 0/1"]


def test_compiled(visit: Open) -> None:
    walk(visit, regions_breaks_and_kernels_lead_to_their_calls, a_compiled_region_of_a_module_leads_to_its_calls)
