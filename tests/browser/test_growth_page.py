"""Growth, stacks, ranks and the comparison of memory snapshots: from a finding to what leaks, two moments, two snapshots."""

from __future__ import annotations

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import Tab
from tests.browser.journey import walk

PLACE = {"run": "synthetic_memory", "worker": "leaking"}


def from_a_finding_to_what_grows_and_what_changed(tab: Tab) -> None:
    frame = tab.follow(view="allocations", **PLACE)
    frame.get_by_role("button", name="Show its growth").click()
    frame = tab.settle()
    assert tab.state()["view"] == "growth" and tab.state()["stack"].isdecimal()
    assert_healthy(frame)
    assert tab.axe() == []
    # The stack of the finding is open, and its blocks are as many as the finding says.
    assert frame.get_by_role("button", name="Show blocks").is_visible()
    (advice,) = ask(tab.address, "view/allocations", **PLACE)["payloads"]["advice"]["notices"]
    counts = {figure["metric"]["key"]: figure["value"] for figure in advice["figures"]}
    row = ask(tab.address, "table/growth/growth_stacks", **PLACE)["rows"][0]
    assert str(row["stack_number"]) == tab.state()["row"] == tab.state()["stack"]
    assert [row[key] for key in ("left_blocks", "last_step_blocks")] == [9, 10]
    assert counts["left_blocks"] == 9
    assert "train.py(64): remember_loss grows by 4.00 MiB per step" in frame.get_by_test_id("answer").inner_text()
    curve = frame.get_by_role("img", name="Live memory at the start of every step")
    assert "0: 0 MiB, 1: 3.00 MiB, 2: 7.00 MiB" in (curve.get_attribute("aria-label") or "")
    # Another row, another curve.
    frame.get_by_role("button", name="optim.py(40): init_state").first.click()
    frame = tab.settle()
    assert frame.get_by_text("/home/user/train/optim.py(40): init_state").count() >= 2
    assert "1: 288 MiB" in (frame.get_by_role("img", name="Live memory at").get_attribute("aria-label") or "")
    frame.get_by_text("Two events", exact=True).click()
    frame = tab.settle()
    # What changed of the stack that the finding led to, until somebody wants all of them.
    assert tab.state()["where"].endswith(tab.state()["stack"])
    frame.get_by_role("button", name="Remove filter").click()
    frame = tab.settle()
    assert "where" not in tab.state()
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
    assert tab.overflow() == 0


def the_flame_graph_says_what_was_asked(tab: Tab) -> None:
    tab.resize(1000, 700)
    frame = tab.follow(view="allocation_stacks", **PLACE)
    assert_healthy(frame)
    assert tab.axe() == []
    tree = frame.get_by_role("tree")
    peak = ask(tab.address, "view/allocations", **PLACE)["payloads"]["summary"]["figures"][0]["value"]
    told = ask(tab.address, "view/allocation_stacks", **PLACE)["payloads"]["stacks"]["rows"][0]
    assert told["place_bytes"] == peak and tree.get_by_text("Allocated at the peak").count() == 1
    frame.get_by_label("Which blocks the stacks show").select_option("left")
    frame = tab.settle()
    frame.get_by_label("From event").fill("1000")
    frame.get_by_label("From event").press("Enter")
    frame = tab.settle()
    frame.get_by_label("To event").fill("1800")
    frame.get_by_label("To event").press("Enter")
    frame = tab.settle()
    assert frame.get_by_text("Allocated in between and unreleased, events 1,001 to 1,800").count() >= 1
    frame.get_by_label("Group stacks by").select_option("file")
    frame = tab.settle()
    asked = {"of": "left", "against": "1000", "at": "1800", "by": "file"}
    rows = ask(tab.address, "view/allocation_stacks", **asked, **PLACE)["payloads"]["stacks"]["rows"]
    assert tab.state()["by"] == "file" and frame.get_by_role("treeitem").count() == len(rows)
    assert tab.overflow() == 0
    frame.get_by_role("searchbox").fill("train.py")
    frame.get_by_test_id("count").get_by_text(f"1 of {len(rows)} match").wait_for()


def two_snapshots_side_by_side(tab: Tab) -> None:
    base = {"base_run": "synthetic_memory", "base_worker": "fragmented", "base_span": "default"}
    frame = tab.follow(view="snapshot_diff", **base, **PLACE)
    assert_healthy(frame)
    assert tab.axe() == []
    told = ask(tab.address, "view/snapshot_diff", **base, **PLACE)["payloads"]
    # The sentence and the table are in one unit.
    answer = frame.get_by_test_id("answer").inner_text()
    assert "The peak changes by -0.194 GiB, from 0.862 GiB to 0.668 GiB" in answer
    assert frame.get_by_role("row", name="Peak allocated 0.862 0.668 -0.194").is_visible()
    first = told["peak_stacks"]["rows"][0]["allocation_line"].rpartition("/")[2]
    assert frame.get_by_role("button", name=first).count() >= 1
    frame.get_by_text("At the snapshot", exact=True).last.click()
    frame = tab.settle()
    assert frame.get_by_text("appears", exact=True).count() == 1 and frame.get_by_text("gone", exact=True).count() == 1
    assert tab.overflow() == 0


def ranks_side_by_side(tab: Tab) -> None:
    tab.resize(1000, 700)
    frame = tab.follow(view="ranks_memory", **PLACE)
    assert_healthy(frame)
    assert tab.axe() == []
    rows = ask(tab.address, "table/ranks_memory/rank_memory", run=PLACE["run"])["rows"]
    largest = max(rows, key=lambda row: row["most_allocated_bytes"])
    answer = frame.get_by_test_id("answer").inner_text()
    assert answer.startswith(f"{largest['worker']} has the largest peak of {len(rows)} ranks: 1.12 GiB")
    bars = frame.get_by_role("img", name="Memory at the peak, by category")
    assert f"{largest['worker']}: 1.12 GiB" in (bars.get_attribute("aria-label") or "")
    legend = frame.get_by_role("listitem").all_inner_texts()
    assert {"Parameters", "Optimizer state", "Activations"} <= set(legend)
    frame.get_by_role("button", name="out_of_memory").click()
    frame = tab.settle()
    assert tab.state()["row"] == "out_of_memory" and tab.state()["worker"] == PLACE["worker"]
    assert tab.overflow() == 0


def test_growth_stacks_and_comparison(visit: Open) -> None:
    walk(
        visit,
        from_a_finding_to_what_grows_and_what_changed,
        the_flame_graph_says_what_was_asked,
        two_snapshots_side_by_side,
        ranks_side_by_side,
    )
