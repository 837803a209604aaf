"""The page Segments: the map of memory at a moment, steps along the events, a block that is kept, what the address says."""

from __future__ import annotations

from playwright.sync_api import Frame, expect

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import Tab
from tests.browser.journey import walk

OOM = {"run": "synthetic_memory", "worker": "out_of_memory", "view": "segments"}


def moment(frame: Frame) -> int:
    """The event that the bar names."""
    return int(frame.inner_text("[data-testid=moment] b").removeprefix("event ").replace(",", ""))


def figures(address: str, name: str, **more: str) -> dict[str, object]:
    place = {"run": OOM["run"], "worker": OOM["worker"], **more}
    view = ask(address, "view/segments", **place)
    return {each["metric"]["key"] + each["metric"]["title"] * (name == "place"): each["value"]
            for each in view["payloads"][name]["figures"]}  # fmt: skip


def memory_at_a_moment(tab: Tab) -> None:
    frame = tab.follow(**OOM)
    assert_healthy(frame)
    # It opens at the peak, as Memory does, and leads to where memory ran out, with what stood in the way.
    peak = ask(tab.address, "view/allocations", run=OOM["run"], worker=OOM["worker"])["payloads"]["moment"]["figures"][
        0
    ]
    assert moment(frame) == peak["value"] == figures(tab.address, "place")["event_numberEvent"]
    frame.get_by_role("button", name="Show that event").click()
    frame = tab.settle()
    at = int(tab.state()["at"])
    place = figures(tab.address, "place", at=str(at))
    assert moment(frame) == at and place["event_actionAction"] == "oom"
    assert (
        "The request would fit if 2 adjacent blocks (15.0 MiB) are released."
        in frame.get_by_test_id("answer").inner_text()
    )
    chosen = frame.locator("[data-testid=allocator-events] [aria-selected=true]")
    expect(chosen).to_contain_text("oom")
    # To the allocation before it, by the button; from there on by keys.
    frame.get_by_label("Step to").select_option("alloc")
    tab.settle()
    frame.get_by_role("button", name="Previous", exact=True).click()
    frame = tab.settle()
    assert moment(frame) == place["previous_eventalloc"] == int(tab.state()["at"])
    frame.locator("[data-testid=allocator-events]").press(".")
    frame = tab.settle()
    forward = figures(tab.address, "place", at=str(place["previous_eventalloc"]))["next_eventalloc"]
    assert tab.state()["at"] == str(place["previous_eventalloc"] if forward is None else forward)
    # A click in the list is a step of its own: Back undoes it.
    before = tab.state()["at"]
    frame.locator("[data-testid=allocator-events] [role=option]").first.click()
    frame = tab.settle()
    assert tab.state()["at"] != before and moment(frame) == int(tab.state()["at"])
    tab.page.go_back()
    frame = tab.settle()
    assert tab.state()["at"] == before
    assert_healthy(frame)
    assert tab.overflow() <= 0 and tab.axe() == []


def a_block_is_kept(tab: Tab) -> None:
    frame = tab.follow(**OOM)
    canvas = frame.locator("[data-testid=memory-map] canvas")
    canvas.press("ArrowRight")
    frame = tab.settle()
    row = tab.state()["block"]
    detail = frame.locator("[data-testid=chosen-block]")
    place = {"run": OOM["run"], "worker": OOM["worker"]}
    (block,) = ask(tab.address, "table/segments/blocks_at", where=f"block_row:{row}", **place)["rows"]
    assert block["address"] in detail.inner_text()
    assert str(block["allocation_stack"]).partition(":")[0].rpartition("/")[2].partition("(")[0] in detail.inner_text()
    # It stays while one goes to a moment before it, where it is not.
    frame = tab.follow(**OOM, block=row, at="-1")
    assert "Not allocated after event" in frame.inner_text("[data-testid=chosen-block]")
    frame.get_by_role("button", name="Deselect").click()
    tab.settle()
    assert "block" not in tab.state()


def the_list_finds_events(tab: Tab) -> None:
    frame = tab.follow(**OOM, find="segment_alloc")
    options = frame.locator("[data-testid=allocator-events] [role=option]")
    found = ask(tab.address, "view/allocator_events", run=OOM["run"], worker=OOM["worker"], search="segment_alloc")
    count = found["payloads"]["found"]["figures"][0]["value"]
    label = frame.locator("[data-testid=allocator-events]").get_attribute("aria-label")
    assert label == f"{count:,} allocator events"
    assert all("segment alloc" in text for text in options.all_inner_texts())


def test_segments(visit: Open) -> None:
    walk(visit, memory_at_a_moment, a_block_is_kept, the_list_finds_events)
