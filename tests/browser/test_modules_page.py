"""Modules: the order of the rows and the way back from it, and compiled code."""

from __future__ import annotations

from playwright.sync_api import Frame

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.test_show_in_timeline import hit


def names(frame: Frame, level: int = 2) -> list[str]:
    return frame.locator(f"[role=treeitem][aria-level='{level}']").all_inner_texts()


def first_words(frame: Frame) -> list[str]:
    return [text.split("\n")[0] for text in names(frame)]


def test_rows_stand_in_order_of_execution_of_names_or_of_time(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(run="transformer_cpu", view="modules")
    tree = ask(tab.address, "view/modules", run="transformer_cpu")["payloads"]["tree"]
    value = tree["value_columns"][0]
    roots = [i for i, above in enumerate(tree["parent"]) if above < 0]
    inside = [row for row, above in zip(tree["rows"], tree["parent"], strict=True) if above == roots[0]]
    as_they_came = [row["module"] for row in inside]
    assert first_words(frame)[: len(inside)] == as_they_came
    frame.get_by_label("Order of the rows").select_option("By time")
    tab.settle()
    by_time = [row["module"] for row in sorted(inside, key=lambda row: -row[value])]
    assert tab.state()["sort"] == "value"
    assert [name for name in first_words(frame) if name in by_time][: len(inside)] == by_time
    note = frame.get_by_text("count for no module").inner_text()
    assert note.startswith(
        "9 backward operators count for no module (3.44 ms on the host): the forward operator ran outside"
    )
    assert_healthy(frame)
    frame = tab.open(run="transformer_cpu", view="modules", sort="name")
    shown = [name for name in first_words(frame) if name in as_they_came]
    assert shown[: len(inside)] == sorted(
        as_they_came, key=lambda name: (name.rpartition("_")[0], int(name.rpartition("_")[2]))
    )


def test_compiled_code_without_calls_of_modules(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(run="compiled_cpu", view="modules")
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
