"""Graphs: how much is replayed, what stands behind it, and from a graph to its nodes, its replays and the timeline."""

from __future__ import annotations

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy

RUN = "synthetic_graphs"


def test_from_a_graph_to_its_nodes_and_to_the_timeline(visit: Open) -> None:
    tab = visit(size=(1000, 700))
    frame = tab.follow(run=RUN, view="graphs")
    said = frame.get_by_test_id("answer").inner_text()
    assert said.startswith("73.5 % of GPU time is graph replays: 2.42 ms in 6 replays of 2 graphs.")
    assert said.endswith("Operators are known for 100.0 % of this time; mostly from the capture in this trace.")
    assert_healthy(frame)
    assert tab.axe() == [] and tab.overflow() <= 0
    first = ask(tab.address, "table/graphs/graphs", run=RUN)["rows"][0]
    frame = tab.follow(run=RUN, view="graphs", row=first["captured_graph"])
    nodes = frame.get_by_test_id("graph-nodes").locator("tbody tr")
    assert nodes.count() == first["graph_nodes"] and "aten::index_select" in nodes.first.inner_html()
    assert frame.get_by_test_id("graph-replays").locator("tbody tr").count() == first["replays"]
    assert_healthy(frame)
    frame.get_by_role("button", name="Show the first replay in the timeline").click()
    tab.settle()
    assert (tab.state()["view"], tab.state()["event"]) == ("timeline", str(first["event"]))
