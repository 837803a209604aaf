"""From a row of a table or a tree to its events in the timeline, and back to the row."""

from __future__ import annotations

from urllib.parse import unquote_plus

import pytest
from playwright.sync_api import Frame

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import Tab
from tests.browser.picture import GUTTER, HEAD, MARK
from tests.depth import sampled

RUN = "synthetic_gpu"
HAS_PIXEL = """
(canvas, [left, top, ...color]) => {
  const scale = devicePixelRatio
  const [x, y] = [left * scale, top * scale]
  const { data } = canvas.getContext('2d').getImageData(x, y, canvas.width - x, canvas.height - y)
  for (let at = 0; at < data.length; at += 4) if (color.every((part, i) => data[at + i] === part)) return true
  return false
}
"""


def hit(tab: Tab) -> list[str]:
    return unquote_plus(tab.state().get("hit", "")).split("\x1f")


def in_sight(frame: Frame) -> bool:
    """Whether the open row's detail can be seen."""
    box = frame.locator("[data-testid=detail]").bounding_box()
    main = frame.locator("main").bounding_box()
    assert box is not None and main is not None
    return box["y"] < main["y"] + main["height"] and box["y"] + box["height"] > main["y"]


ROWS = [
    ("operators", "", ["name", "kind=operator"]),
    ("operators", "operators_by_shape", ["name", "input_shape", "kind=operator"]),
    ("kernels", "", ["name"]),
    ("kernels", "copies", ["name", "kind"]),
    ("launches", "runtime_calls", ["name", "kind=runtime"]),
    ("launches", "runtime_calls_by_caller", ["name", "operator", "caller_phase", "caller_frame", "kind=runtime"]),
]


@pytest.mark.parametrize(("view", "group", "where"), sampled(ROWS, [ROWS[1], ROWS[5]]))
def test_a_row_to_the_timeline_and_back(visit: Open, view: str, group: str, where: list[str]) -> None:
    tab = visit(size=(1440, 760))
    table = group or view
    rows = ask(tab.address, f"table/{view}/{table}", run=RUN)["rows"]
    place = min(len(rows) - 1, 17)
    row = rows[place]
    frame = tab.follow(run=RUN, view=view, **({"group": group} if group else {}))
    if place > 5:
        frame.locator("main").evaluate("(main, top) => main.scrollBy(0, top)", 32 * (place - 3))
        tab.settle()
    frame.locator(f"[role=row][data-index='{place}'] [role=rowheader] button:first-child").click()
    frame = tab.settle()
    left = tab.state()
    frame.locator("[data-testid=detail-name]").get_by_role("button", name="Show in timeline").click()
    frame = tab.settle()
    assert_healthy(frame)
    assert tab.state()["view"] == "timeline" and "search" not in tab.state()
    wanted = [item.replace("=", ":") if "=" in item else f"{item}:{row[item] or ''}" for item in where]
    assert hit(tab) == wanted
    # They are filters that the events view understands, and it finds the row's calls.
    found = ask(tab.address, "table/events/instances", run=RUN, where=wanted[0], limit="1")
    assert found["matched_rows"] > 0
    assert row["name"][:12] in frame.locator("[data-testid=chip]").inner_text()
    frame.get_by_role("button", name="Show in table").click()
    frame = tab.settle()
    assert tab.state() == left
    assert in_sight(frame)
    assert_healthy(frame)


def test_the_first_event_of_a_row_comes_into_sight(visit: Open) -> None:
    """In a window too low for all lanes the highlight of what stands in the last ones is drawn all the same."""
    tab = visit(size=(1000, 480))
    (lowest, *_) = sorted(
        ask(tab.address, "table/find/hits", run=RUN, where="kind:operator", limit="1000")["rows"],
        key=lambda row: (-row["lane"], row["start_ns"]),
    )
    tab.follow(run=RUN, view="timeline", hit=f"name:{lowest['name']}\x1fkind:operator", charts="none")
    canvas = tab.settle().locator("[data-testid=timeline] canvas")
    assert canvas.evaluate(HAS_PIXEL, [GUTTER, HEAD, *MARK])
