"""Modules: the order of the rows and the way back from it, and compiled code."""

from __future__ import annotations

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.test_show_in_timeline import hit


def test_compiled_code_without_calls_of_modules(visit: Open) -> None:
    tab = visit()
    frame = tab.follow(run="compiled_cpu", view="modules")
    (row,) = ask(tab.address, "table/modules/compiled", run="compiled_cpu")["rows"]
    assert frame.locator("[role=rowheader] button").first.inner_text().strip() == row["region"]
    frame.locator("[role=rowheader] button").first.click()
    frame = tab.settle()
    assert_healthy(frame)
    detail = frame.get_by_test_id("detail").inner_text().replace("\t", "\n")
    assert f"Calls\n{row['calls']}" in detail
    frame.get_by_test_id("detail").get_by_role("button", name="Show in timeline").click()
    tab.settle()
    assert hit(tab) == [f"name:Torch-Compiled Region: {row['region']}"]
    tab.page.go_back()
    tab.settle()
    assert tab.state()["view"] == "modules"
