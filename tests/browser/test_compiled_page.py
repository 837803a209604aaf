"""The page of compiled code: its tables, and the ways from them to the timeline."""

from __future__ import annotations

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.test_show_in_timeline import hit

RUN = {"run": "compiled_breaks_cpu", "worker": "warm"}


def test_regions_breaks_and_kernels_lead_to_their_calls(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="compiled", **RUN)
    assert "Graph breaks\n1" in frame.locator("#main").inner_text()
    (broken,) = ask(tab.address, "table/compiled/graph_breaks", **RUN)["rows"]
    said = frame.get_by_test_id("answer").inner_text()
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


def test_a_compiled_region_of_a_module_leads_to_its_calls(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="modules", **RUN)
    frame.get_by_text("compiled region 0/1").last.click()
    frame = tab.settle()
    assert_healthy(frame)
    frame.get_by_role("button", name="Show in timeline").first.click()
    tab.settle()
    assert hit(tab) == ["name:Torch-Compiled Region: 0/1"]


def test_a_trace_without_compiled_code_has_no_such_page(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(run="resnet_cpu", view="modules")
    assert "Compiled" not in frame.locator("nav").first.inner_text()
    frame = tab.open(view="modules", **RUN)
    assert "Compiled" in frame.locator("nav").first.inner_text()


def test_the_page_of_roles_answers_by_method_and_says_of_how_many_steps(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(run="synthetic_sharded", view="parallelism")
    assert_healthy(frame)
    said = frame.get_by_test_id("answer").inner_text()
    assert said.startswith("Device time in 2 steps: experts ")
    rows = ask(tab.address, "table/parallelism/roles", run="synthetic_sharded")["rows"]
    sums = sum(row["role_device_ns"] for row in rows if row["method"] == "pipeline")
    assert f"pipeline {sums / 1e6:.3g} ms (" in said
