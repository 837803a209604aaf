"""Pages of companion files: flight recorders, files of stacks, execution traces, and what one says of an event."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

from tests.browser.conftest import Open
from tests.browser.expect import assert_healthy
from tests.browser.harness import Tab
from tests.browser.journey import walk
from tests.execution_traces import document, node, tensor
from tests.formats.sources import op, trace_text

LINES = """(cell) => {
  const range = document.createRange()
  range.selectNodeContents(cell)
  return new Set([...range.getClientRects()].map(({ top }) => top)).size
}"""
"""How many lines the text of an element takes."""


def ranks_show_when_and_where_a_collective_was_called(tab: Tab) -> None:
    """Without moving the table to the side; the line with its file and number."""
    tab.resize(1000, 700)
    frame = tab.open(view="ranks_collectives", run="flight_recorder_gloo")
    assert_healthy(frame)
    assert "match and are finished" in frame.inner_text("#main")
    assert tab.axe() == [] and tab.overflow() <= 0
    tab.resize(1440, 900)
    tab.settle()
    edge = frame.get_by_test_id("grid").evaluate("(grid) => grid.getBoundingClientRect().right")
    for title in ("First called", "Spread", "Line"):
        box = frame.get_by_role("columnheader", name=title).bounding_box()
        assert box is not None and box["x"] + box["width"] <= edge + 1, title
    assert frame.get_by_role("columnheader", name="Not called by").count() == 0
    assert re.search(r"\w+\.py\(\d+\)", frame.get_by_role("cell").filter(has_text=".py").first.inner_text())


def test_from_an_operator_to_what_made_its_input(visit: Open, tmp_path: Path) -> None:
    logs = tmp_path / "run"
    logs.mkdir()
    events = [op("aten::mm", 1, 2, **{"Record function id": 5}), op("aten::relu", 4, 2, **{"Record function id": 6})]
    (logs / "rank0.pt.trace.json").write_text(trace_text(*events))
    nodes = document(
        node(2, 1, "aten::mm", [tensor(10)], [tensor(11)], 5), node(3, 1, "aten::relu", [tensor(11)], [tensor(12)], 6)
    )
    (logs / "rank0.et.json.gz").write_bytes(gzip.compress(json.dumps(nodes).encode()))
    tab = visit(tmp_path)
    frame = tab.open(view="timeline", run="run", worker="rank0", event="1")
    frame.get_by_role("button", name="Read the execution trace").click()
    frame.get_by_text("made its input", exact=True).wait_for()
    panel = frame.get_by_test_id("event-tensors")
    assert "[2, 3]" in panel.inner_text() and "aten::mm" in panel.inner_text()
    panel.get_by_role("button", name="Show this operator in the timeline").click()
    frame.get_by_text("uses its output", exact=True).wait_for()
    assert tab.state()["event"] == "0" and tab.axe() == []


def from_a_node_to_its_tensors(tab: Tab) -> None:
    frame = tab.open(run="execution_trace_cpu", view="execution_nodes", search="aten::mm")
    frame.get_by_role("rowheader").get_by_role("button", name="aten::mm").first.click()
    frame = tab.settle()
    told = frame.get_by_test_id("node").inner_text()
    assert "[" in told and "Float" in told.title() and "Signature" not in told and "Function id" not in told


def test_from_a_node_to_its_event(visit: Open, tmp_path: Path) -> None:
    """Where the trace of the same recording lies beside it nobody is told to put it there."""
    logs = tmp_path / "run"
    logs.mkdir()
    events = [op("aten::mm", 1, 2, **{"Record function id": 5}), op("aten::relu", 4, 2, **{"Record function id": 6})]
    (logs / "rank0.pt.trace.json").write_text(trace_text(*events))
    nodes = document(
        node(2, 1, "aten::mm", [tensor(10)], [tensor(11)], 5), node(3, 1, "aten::relu", [tensor(11)], [tensor(12)], 6)
    )
    (logs / "rank0.et.json.gz").write_bytes(gzip.compress(json.dumps(nodes).encode()))
    tab = visit(tmp_path)
    frame = tab.open(run="run", worker="rank0.et", row="3")
    assert "into one folder" not in frame.get_by_test_id("answer").first.inner_text()
    panel = frame.get_by_test_id("node")
    assert "[2, 3]" in panel.inner_text() and "made its input" in panel.inner_text()
    panel.get_by_role("button", name="aten::mm").click()
    frame = tab.settle()
    assert tab.state()["row"] == "2" and "uses its output" in frame.get_by_test_id("node").inner_text()
    frame.get_by_role("button", name="Show in timeline").click()
    frame.get_by_role("heading", name="Timeline").wait_for()
    frame = tab.settle()
    assert_healthy(frame)
    state = tab.state()
    assert (state["view"], state["worker"], state["event"]) == ("timeline", "rank0", "0")


def test_what_is_passed_over_is_one_click_away(visit: Open, tmp_path: Path) -> None:
    """Also where traces open; and a file with nothing in it is not the first picture."""
    (tmp_path / "a.pt.trace.json").write_text(trace_text())
    (tmp_path / "b.pt.trace.json").write_text(trace_text(op("aten::mm", 1, 2)))
    (tmp_path / "train.nsys-rep").write_bytes(b"x")
    name = "worker0.1623143089861.pt.trace.json"
    (tmp_path / name).write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    tab = visit(tmp_path, size=(1000, 700))
    frame = tab.open()
    frame.get_by_role("button", name="2 skipped").click()
    told = frame.get_by_role("dialog", name="About the log directory").inner_text()
    assert "train.nsys-rep" in told and "Open it in Nsight Systems" in told and "git lfs pull" in told
    # A name as long as those that PyTorch gives stands in one line.
    for size in ({"width": 1000, "height": 700}, {"width": 1440, "height": 900}):
        tab.page.set_viewport_size(size)
        assert [frame.get_by_role("rowheader", name=each).evaluate(LINES) for each in ("nsys", name)] == [1, 1]
    frame.get_by_role("button", name="Close").click()
    frame.get_by_role("button", name="Worker").filter(has_text="b").wait_for()


def a_remark_on_a_file_is_a_number_and_what_it_counts(tab: Tab) -> None:
    frame = tab.open(run="chromium")
    frame.get_by_role("button", name="note").first.click()
    frame.get_by_role("heading", name="Data issues").wait_for()
    told = frame.get_by_role("dialog").inner_text()
    assert "8 · ranges without an end" in told and "8 note" not in told


def files_and_formats_are_told(tab: Tab) -> None:
    """By the lists of the top bar, and in the drawer of a profile."""
    frame = tab.open(run="synthetic_megengine", worker="4100")
    frame.get_by_role("button", name="Worker").click()
    told = frame.get_by_role("option", name="4100")
    assert "MegEngine trace, MegEngine memory flow" in told.inner_text()
    files = "synthetic_megengine/4100.chrome_timeline.json.gz\nsynthetic_megengine/4100.memory_flow.svg"
    assert told.get_attribute("title") == files
    tab.page.keyboard.press("Escape")
    frame.get_by_role("button", name="notes").or_(frame.get_by_role("button", name="1 note")).first.click()
    drawer = frame.get_by_role("dialog")
    drawer.get_by_role("heading", name="How the file was read").wait_for()
    told_files = drawer.get_by_test_id("files").inner_text()
    assert told_files.split() == ["synthetic_megengine/4100.chrome_timeline.json.gz"]
    assert "MegEngine trace" in drawer.inner_text()


def test_companion_files(visit: Open) -> None:
    walk(
        visit,
        ranks_show_when_and_where_a_collective_was_called,
        from_a_node_to_its_tensors,
        a_remark_on_a_file_is_a_number_and_what_it_counts,
        files_and_formats_are_told,
    )
