"""The capture of replayed graphs on the page: found beside the trace and said so, changed, and one that cannot be used."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.browser.expect import assert_healthy

RUN = "synthetic_graphs_beside"


def test_what_lies_beside_is_chosen_and_may_be_changed(visit: Open) -> None:
    tab = visit(size=(1000, 700))
    frame = tab.follow(view="kernels", run=RUN)
    picker = frame.get_by_role("button", name=re.compile("^Capture"))
    expect(picker).to_have_text("Capture (found): capture_traces/bs_8")
    assert tab.overflow() == 0
    picker.click()
    frame.get_by_role("option", name="use the trace alone").click()
    expect(picker).to_have_text("Capture: none")
    tab.settle()
    assert tab.state()["capture"] == "none"
    frame = tab.follow(view="kernels", run=RUN, capture="nothing/w/1")
    expect(frame.get_by_test_id("capture")).to_contain_text("There is no profile nothing/w/1.")
    assert_healthy(frame)
