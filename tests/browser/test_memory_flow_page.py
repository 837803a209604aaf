"""The page of memory flows: a tensor, a moment and a part are chosen by hand and by keyboard, and are in the URL."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import SAMPLES, Tab
from tests.browser.journey import walk
from tests.megengine.memory_flow import T, svg

PLACE = {"run": "memory_flow_cpu", "worker": "25915"}
PICTURE = "[data-testid=memory-flow] canvas"


def a_tensor_a_moment_and_a_part(tab: Tab) -> None:
    tab.resize(1000, 700)
    frame = tab.follow(**PLACE)
    assert_healthy(frame)
    assert frame.locator("h1").inner_text() == "Memory flow"
    said = frame.get_by_test_id("answer").inner_text()
    assert said.startswith("Memory use peaks at 11.0 ms: 854 KiB in 11 tensors, of which 256 KiB made by block2.ADD")
    assert tab.overflow() == 0 and tab.axe() == []

    flow = ask(tab.address, "view/memory_flow", **PLACE)["payloads"]["flow"]
    picture = frame.locator(PICTURE)
    picture.focus()
    tab.page.keyboard.press("ArrowRight")
    tab.page.keyboard.press("ArrowRight")
    frame = tab.settle()
    assert tab.state()["tensor"] == str(flow["row"][1])
    size = frame.get_by_test_id("chosen-tensor").inner_text()
    assert "B" in size and flow["layouts"][flow["layout"][1]] in size
    tab.page.keyboard.press("Escape")
    frame = tab.settle()
    assert "tensor" not in tab.state() and frame.get_by_test_id("chosen-tensor").count() == 0

    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    assert box is not None
    largest = max(
        range(len(flow["row"])), key=lambda i: flow["size_bytes"][i] * (flow["released_ns"][i] - flow["created_ns"][i])
    )
    x = box["x"] + 62 + (box["width"] - 80) * 0.5
    y = (
        box["y"]
        + 4
        + (box["height"] - 8) * (flow["offset"][largest] + flow["size_bytes"][largest] / 2) / flow["extent_bytes"]
    )
    tab.page.mouse.click(x, y)
    frame = tab.settle()
    assert tab.state()["tensor"] == str(flow["row"][largest])

    tab.page.mouse.move(x, y)
    tab.page.mouse.down()
    tab.page.mouse.move(x + 100, y + 40, steps=4)
    tab.page.mouse.up()
    frame = tab.settle()
    assert_healthy(frame)
    state = tab.state()
    part = {key: state[key] for key in ("start_ns", "end_ns", "low", "high")}
    shown = ask(tab.address, "view/memory_flow", **PLACE, **part)["payloads"]["flow"]
    assert (
        frame.get_by_test_id("memory-flow").get_attribute("data-tensors")
        == str(len(shown["row"]))
        != str(len(flow["row"]))
    )
    tab.page.mouse.dblclick(x, y)
    frame = tab.settle()
    assert not part.keys() & tab.state().keys()

    frame.locator("[data-testid=curve]").click()
    frame = tab.settle()
    moment = tab.state()["at_ns"]
    figures = ask(tab.address, "view/memory_flow", **PLACE, at_ns=moment)["payloads"]["moment"]["figures"]
    there = next(figure["value"] for figure in figures if figure["metric"]["key"] == "flow_moment_tensors")
    assert frame.get_by_test_id("count").inner_text() == f"{there} rows"


def test_it_leads_to_the_timeline_of_its_worker(visit: Open, tmp_path: Path) -> None:
    """A trace that lies beside it under the number of the process, whatever recorded that."""
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(next((SAMPLES / "memory_flow_cpu").glob("*.svg")), run)
    shutil.copy(next((SAMPLES / "no_steps_cpu").glob("*.json")), run / "25915.pt.trace.json")
    tab = visit(tmp_path)
    # PyTorch's trace stands first: the drawing is the second span.
    frame = tab.follow(run="run", worker="25915", span="default-2")
    frame.get_by_role("button", name="Timeline of this worker").click()
    frame = tab.settle()
    assert_healthy(frame)
    assert frame.locator("h1").inner_text() == "Timeline"
    state = tab.state()
    assert (state["worker"], state["span"], state["view"]) == ("25915", "default", "timeline")


def memory_leads_to_tensors_and_a_tensor_to_its_operator(tab: Tab) -> None:
    tab.resize(1000, 700)
    place = {"run": "synthetic_megengine", "worker": "4100"}
    frame = tab.follow(**place, span="default", view="memory")
    # Of levels nothing is known of a moment: a click chooses none.
    assert "live memory at that time" not in frame.inner_text("#main")
    frame.get_by_test_id("curve").click()
    frame = tab.settle()
    assert "at_ns" not in tab.state()
    frame.get_by_role("button", name="Open the memory flow").click()
    frame = tab.settle()
    assert_healthy(frame)
    assert (tab.state()["view"], tab.state()["span"]) == ("memory_flow", "default-2")
    assert frame.get_by_role("button", name="Timeline of this worker").count()

    frame = tab.follow(**place, span="default-2", tensor="9")
    where = {**place, "span": "default-2", "where": "tensor_number:9"}
    (row,) = ask(tab.address, "table/memory_flow/tensors", **where)["rows"]
    frame.get_by_role("button", name="Operator on the timeline").click()
    frame.get_by_role("heading", name="Timeline").wait_for()
    frame = tab.settle()
    assert_healthy(frame)
    state = tab.state()
    event = ask(tab.address, "view/events", **place, span="default", event=state["event"])["payloads"]["event"]
    told = {figure["metric"]["key"]: figure["value"] for figure in event["figures"]}
    assert told["external_id"] == str(row["tensor_operator_number"]) and told["name"] in row["tensor_name"]
    assert int(state["start_ns"]) <= told["start_ns"] < int(state["end_ns"])


def test_words_of_the_tip_stay_whole_beside_a_long_layout(visit: Open, tmp_path: Path) -> None:
    (tmp_path / "7.memory_flow.svg").write_text(svg(T(0, 512, 0, 1000, layout="{" + "16x32x64x128x" * 9 + "4}")))
    tab = visit(tmp_path)
    frame = tab.follow()
    frame.locator(PICTURE).hover()
    tip = frame.get_by_test_id("tip")
    tip.wait_for()
    lines = tip.evaluate("""(tip) => [...tip.querySelectorAll('div > span:first-child')].map((word) => {
      const range = document.createRange()
      range.selectNodeContents(word)
      return [word.textContent, new Set([...range.getClientRects()].map(({ top }) => top)).size]
    })""")
    assert [word for word, _ in lines][:2] == ["Size", "Layout"] and dict(lines)["Layout"] == 1


def test_memory_flow(visit: Open) -> None:
    walk(visit, a_tensor_a_moment_and_a_part, memory_leads_to_tensors_and_a_tensor_to_its_operator)
