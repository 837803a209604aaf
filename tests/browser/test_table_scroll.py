"""A table scrolls with the page: one scrollbar, head and tools in sight, and only rows near the window in the page."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Open
from tests.browser.harness import Tab
from tests.browser.journey import walk

_PLACES = """
() => {
  const main = document.querySelector('main').getBoundingClientRect()
  const top = (query) => Math.round(document.querySelector(query).getBoundingClientRect().top - main.top)
  const rows = [...document.querySelectorAll('[data-index]')]
  const inSight = rows.filter((row) => {
    const { top, bottom } = row.getBoundingClientRect()
    return bottom > main.top && top < main.bottom
  })
  const own = [...document.querySelectorAll('[data-testid=grid], [data-testid=grid] *')].filter(
    (node) => node.scrollHeight > node.clientHeight + 1 && ['auto', 'scroll'].includes(getComputedStyle(node).overflowY),
  )
  return {
    tools: top('[data-testid=toolbar]'), head: top('[role=columnheader]'), own: own.length, rows: rows.length,
    inSight: inSight.length, last: Number(rows.at(-1).dataset.index),
  }
}
"""


@pytest.mark.parametrize("size", [(1440, 700), (1000, 500)])
def test_the_wheel_over_a_table_scrolls_the_page(visit: Open, size: tuple[int, int]) -> None:
    tab = visit(size=size)
    frame = tab.open(run="synthetic_gpu", view="operators")
    before = frame.evaluate(_PLACES)
    assert before["own"] == 0
    grid = frame.get_by_test_id("grid").bounding_box()
    assert grid is not None
    tab.page.mouse.move(size[0] / 2, min(grid["y"] + 60, size[1] - 10))
    tab.page.mouse.wheel(0, 20_000)
    frame.wait_for_function("() => document.querySelector('main').scrollTop > 100")
    frame = tab.settle()
    after = frame.evaluate(_PLACES)
    total = int(frame.get_by_test_id("count").inner_text().split()[0])
    assert after["last"] == total - 1
    assert after["rows"] <= after["inSight"] + 24
    assert after["tools"] <= 0 and 0 < after["head"] < 120
    end = frame.locator(f"[data-index='{total - 1}']").bounding_box()
    assert end is not None and end["y"] + end["height"] <= size[1]


def head_and_rows_move_to_the_side_as_one(tab: Tab) -> None:
    tab.resize(700, 600)
    frame = tab.open(run="synthetic_gpu", view="operators")
    frame.get_by_role("columnheader").last.locator("button").first.focus()
    frame.wait_for_function(
        "() => new Set([...document.querySelectorAll('[data-aside]')].map((part) => part.scrollLeft)).size === 1"
    )
    assert frame.locator("[data-aside]").first.evaluate("(head) => head.scrollLeft") > 0
    assert frame.locator("main").evaluate("(main) => main.scrollWidth - main.clientWidth") == 0


def arrows_lead_to_rows_that_come_into_sight(tab: Tab) -> None:
    tab.resize(1440, 500)
    frame = tab.open(run="synthetic_gpu", view="operators")
    frame.locator("[data-index='0'] [role=rowheader] button").first.focus()
    for _ in range(12):
        frame.press(":focus", "ArrowDown")
    assert frame.evaluate("document.activeElement.closest('[data-index]').dataset.index") == "12"
    for _ in range(12):
        frame.press(":focus", "ArrowUp")
    assert frame.evaluate("document.activeElement.closest('[data-index]').dataset.index") == "0"
    box = frame.locator(":focus").bounding_box()
    head = frame.get_by_role("columnheader").first.bounding_box()
    assert box is not None and head is not None and box["y"] >= head["y"] + head["height"]


def test_a_table_scrolls_with_the_page(visit: Open) -> None:
    walk(visit, head_and_rows_move_to_the_side_as_one, arrows_lead_to_rows_that_come_into_sight)
