"""The capture of replayed graphs on the page: found beside the trace and said so, changed, and one that cannot be used."""

from __future__ import annotations

import shutil
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.browser.expect import assert_healthy
from tests.conftest import SAMPLES

RUN = "synthetic_graphs_beside"


def test_what_lies_beside_is_chosen_and_may_be_changed(open_tab: Open, tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / RUN, tmp_path / "logs" / RUN)
    shutil.copytree(SAMPLES / "no_steps_cpu", tmp_path / "logs" / "eager")
    damaged = tmp_path / "logs" / "damaged"
    damaged.mkdir()
    (damaged / "w.1.pt.trace.json").write_text('{"traceEvents": 5}' + " " * 2000)
    tab = open_tab(logdir=tmp_path / "logs", size=(1000, 700))
    frame = tab.open(view="kernels", run=RUN)
    assert_healthy(frame)
    picker = frame.get_by_role("button", name="Capture")
    expect(picker).to_have_text("Capture (found): capture_traces/bs_8")
    assert tab.axe() == [] and tab.overflow() == 0
    picker.click()
    frame.get_by_role("option", name="only what the trace itself tells").click()
    expect(picker).to_have_text("Capture: none")
    tab.settle()
    assert tab.state()["capture"] == "none"
    picker.click()
    frame.get_by_role("option", name="damaged/w/1").click()
    expect(frame.get_by_test_id("capture")).to_contain_text("There is no list of events.")
    tab.settle()
    assert_healthy(frame)
    # A trace without graphs has no such choice.
    frame = tab.open(view="kernels", run="eager")
    expect(frame.get_by_role("button", name="Run")).to_be_visible()
    assert frame.get_by_role("button", name="Capture").count() == 0 and frame.get_by_text("Capture").count() == 0
