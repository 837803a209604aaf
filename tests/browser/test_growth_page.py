"""Growth and stacks of a memory snapshot: from a finding to the curve of what leaks, two moments, and the flame graph."""

from __future__ import annotations

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy

PLACE = {"run": "synthetic_memory", "worker": "leaking"}


def test_from_a_finding_to_what_grows_and_what_changed(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="allocations", **PLACE)
    frame.get_by_role("button", name="Show its growth").click()
    frame = tab.settle()
    assert tab.state()["view"] == "growth" and tab.state()["stack"].isdecimal()
    assert_healthy(frame)
    assert "train.py(64): remember_loss grows by 4.00 MiB a step" in frame.get_by_test_id("answer").inner_text()
    curve = frame.get_by_role("img", name="Live at the begin of each step")
    assert "0: 0 MiB, 1: 3.00 MiB, 2: 7.00 MiB" in (curve.get_attribute("aria-label") or "")
    # Another row, another curve.
    frame.get_by_role("button", name="optim.py(40): init_state").first.click()
    frame = tab.settle()
    assert frame.get_by_text("/home/user/train/optim.py(40): init_state").count() >= 2
    assert "1: 288 MiB" in (frame.get_by_role("img", name="Live at").get_attribute("aria-label") or "")
    frame.get_by_text("Two moments", exact=True).click()
    frame = tab.settle()
    frame.get_by_label("From event").fill("-1")
    frame.get_by_label("From event").press("Enter")
    frame = tab.settle()
    assert tab.state()["against"] == "-1"
    rows = ask(tab.address, "table/growth/changed_stacks", against="-1", **PLACE)["rows"]
    assert {row["memory_change"] for row in rows} == {"appears"}
    assert frame.get_by_text("appears", exact=True).count() == len(rows)
    tab.page.go_back()
    tab.settle()
    assert "against" not in tab.state()
    assert tab.axe() == [] and tab.overflow() == 0


def test_the_flame_graph_says_what_was_asked(open_tab: Open) -> None:
    tab = open_tab(size=(1000, 700))
    frame = tab.open(view="allocation_stacks", **PLACE)
    assert_healthy(frame)
    tree = frame.get_by_role("tree")
    peak = ask(tab.address, "view/allocations", **PLACE)["payloads"]["summary"]["figures"][0]["value"]
    told = ask(tab.address, "view/allocation_stacks", **PLACE)["payloads"]["stacks"]["rows"][0]
    assert told["place_bytes"] == peak and tree.get_by_text("Allocated at the peak").count() == 1
    frame.get_by_label("Blocks of the stacks").select_option("left")
    frame = tab.settle()
    frame.get_by_label("From event").fill("1000")
    frame.get_by_label("From event").press("Enter")
    frame = tab.settle()
    frame.get_by_label("To event").fill("1800")
    frame.get_by_label("To event").press("Enter")
    frame = tab.settle()
    assert frame.get_by_text("Allocated in between and left, events 1,001 to 1,800").count() >= 1
    frame.get_by_label("Places of the stacks").select_option("file")
    frame = tab.settle()
    asked = {"of": "left", "against": "1000", "at": "1800", "by": "file"}
    rows = ask(tab.address, "view/allocation_stacks", **asked, **PLACE)["payloads"]["stacks"]["rows"]
    assert tab.state()["by"] == "file" and frame.get_by_role("treeitem").count() == len(rows)
    assert tab.axe() == [] and tab.overflow() == 0
    frame.get_by_role("searchbox").fill("train.py")
    frame.get_by_test_id("count").get_by_text(f"1 of {len(rows)} match").wait_for()


def test_two_snapshots_side_by_side(open_tab: Open) -> None:
    tab = open_tab()
    base = {"base_run": "synthetic_memory", "base_worker": "fragmented", "base_span": "default"}
    frame = tab.open(view="snapshot_diff", **base, **PLACE)
    assert_healthy(frame)
    told = ask(tab.address, "view/snapshot_diff", **base, **PLACE)["payloads"]
    assert "The peak changes by -198 MiB" in frame.get_by_test_id("answer").inner_text()
    first = told["peak_stacks"]["rows"][0]["allocation_line"].rpartition("/")[2]
    assert frame.get_by_role("button", name=first).count() >= 1
    frame.get_by_text("At the snapshot", exact=True).last.click()
    frame = tab.settle()
    assert frame.get_by_text("appears", exact=True).count() == 1 and frame.get_by_text("gone", exact=True).count() == 1
    assert tab.axe() == [] and tab.overflow() == 0
