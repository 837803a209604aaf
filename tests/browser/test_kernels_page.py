"""Kernels and Operators in the browser: classes filter the table, and (no operator) says what stands behind it."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Open
from tests.browser.expect import assert_healthy
from tests.browser.harness import Tab
from tests.browser.journey import walk

RUN = "synthetic_gpu"


@pytest.mark.parametrize("run", [RUN, "synthetic_ddp"])
def test_no_text_of_a_table_is_clipped(visit: Open, run: str) -> None:
    """What does not fit ends in an ellipsis; columns that are scrolled away lie under the names, their edges as well."""
    tab = visit()
    for width, height in ((1440, 900), (1000, 700)):
        tab.page.set_viewport_size({"width": width, "height": height})
        for group in ("", "kernels_by_launch", "copies"):
            frame = tab.follow(run=run, view="kernels", group=group)
            grid = frame.locator("[role=table]").first
            assert grid.evaluate(_CLIPPED) == []
            frame.get_by_test_id("grid").locator("[data-aside]").last.evaluate("(bar) => { bar.scrollLeft = 1e6 }")
            tab.settle()
            assert grid.evaluate(_CLIPPED) == []
            assert grid.evaluate(_SHOWS_THROUGH) == 0


_CLIPPED = """
(grid) => {
  const found = []
  const ends = (node, cell) => {
    for (; node !== cell.parentElement; node = node.parentElement)
      if (getComputedStyle(node).textOverflow === 'ellipsis') return true
    return false
  }
  for (const cell of grid.querySelectorAll('[role=cell], [role=columnheader], [role=rowheader]')) {
    const box = cell.getBoundingClientRect()
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT)
    while (texts.nextNode()) {
      const range = document.createRange()
      range.selectNodeContents(texts.currentNode)
      const { left, right, width } = range.getBoundingClientRect()
      const beyond = right > box.right + 0.5 && !ends(texts.currentNode.parentElement, cell)
      if (width > 0 && (left < box.left - 0.5 || beyond)) found.push(texts.currentNode.textContent)
    }
  }
  return found
}
"""

_SHOWS_THROUGH = """
(grid) => {
  const head = grid.querySelector('[role=columnheader]')
  const { left, right, top, bottom } = head.getBoundingClientRect()
  let others = 0
  for (let x = left + 2; x < right - 6; x += 3)
    if (!head.contains(document.elementFromPoint(x, (top + bottom) / 2))) others++
  return others
}
"""


def kernels_of_npus_by_type_by_core_and_one_by_one(tab: Tab) -> None:
    frame = tab.follow(run="synthetic_ascend", view="kernels", group="kernels_by_type")
    every = frame.inner_text("[data-testid=count]")
    frame.get_by_role("checkbox", name="Communication").click()
    tab.page.wait_for_url("**communication=0**")
    frame = tab.settle()
    cores = frame.locator("[role=row]:has([role=rowheader]) [role=cell]:nth-child(2)").all_inner_texts()
    assert frame.inner_text("[data-testid=count]") != every and cores and "COMMUNICATION" not in cores
    frame.get_by_role("button", name="Charts of the top 10").click()
    frame.get_by_text("Cores", exact=True).click()
    frame.get_by_label("Cores").get_by_role("button", name="AI_CORE").click()
    tab.page.wait_for_url("**core:AI_CORE**")
    frame = tab.settle()
    assert set(frame.locator("[role=row]:has([role=rowheader]) [role=cell]:nth-child(2)").all_inner_texts()) == {
        "AI_CORE"
    }
    # A class is no column of this table: its slice leads to the first one.
    frame.get_by_label("Classes").get_by_role("button", name="GEMM").click()
    tab.page.wait_for_url("**class:gemm**")
    assert_healthy(tab.settle())


def one_kernel_of_an_npu_has_all_that_the_file_says(tab: Tab) -> None:
    frame = tab.follow(run="synthetic_ascend", view="kernels", group="kernel_rows")
    frame.get_by_role("textbox", name="Step of kernels").fill("13")
    tab.page.wait_for_url("**step:13**")
    frame = tab.settle()
    assert "of" in frame.inner_text("[data-testid=count]")
    frame.locator("[role=rowheader] [aria-expanded=false]").first.click()
    tab.settle()
    detail = frame.inner_text("[data-testid=detail]")
    assert all(word in detail for word in ("Accelerator Core", "Wait Time(us)", "Block Dim", "Type"))


def test_kernels_of_npus(visit: Open) -> None:
    walk(visit, kernels_of_npus_by_type_by_core_and_one_by_one, one_kernel_of_an_npu_has_all_that_the_file_says)
