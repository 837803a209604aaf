"""The timeline driven as a person does: a range is marked, read, narrowed, opened again from its link, and cleared."""

from __future__ import annotations

from playwright.sync_api import Frame

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import Tab
from tests.browser.journey import walk

RUN = "synthetic_gpu"


def mark(tab: Tab, frame: Frame) -> dict[str, str]:
    """Drags with shift over the middle of the picture; the range of the address."""
    box = frame.locator("[data-testid=timeline] canvas").bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    tab.page.keyboard.down("Shift")
    tab.page.mouse.move(box["x"] + box["width"] * 0.5, y)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + box["width"] * 0.8, y, steps=4)
    tab.page.mouse.up()
    tab.page.keyboard.up("Shift")
    tab.settle()
    state = tab.state()
    return {"start_ns": state["from_ns"], "end_ns": state["to_ns"]}


def shown(frame: Frame) -> str | None:
    return frame.locator("section[aria-label$=' marked'] [role=table]").get_attribute("aria-rowcount")


def a_marked_range_says_what_ran_in_it(tab: Tab) -> None:
    frame = tab.follow(run=RUN, view="timeline")
    window = mark(tab, frame)
    assert_healthy(frame)
    server = ask(tab.address, "view/range", run=RUN, **window)["payloads"]
    kernels = ask(tab.address, "table/range/range", run=RUN, where="range_group:kernel", **window)
    assert shown(frame) == str(kernels["matched_rows"] + 1), "kernels come first"
    head = frame.locator("section[aria-label$=' marked'] header").inner_text()
    events = next(f["value"] for f in server["summary"]["figures"] if f["metric"]["key"] == "events")
    (device,) = server["range_devices"]["rows"]
    assert f"{events:,} events" in head
    assert f"device {device['device']} busy" in head and f"{100 * device['busy_ratio']:.1f}" in head
    first = frame.locator("section[aria-label$=' marked'] [role=row]").nth(1).inner_text()
    assert kernels["rows"][0]["kind"] in first
    assert not tab.axe()
    # The link holds the range; a search of the timeline narrows the list too.
    again = tab.follow(run=RUN, view="timeline", from_ns=window["start_ns"], to_ns=window["end_ns"], search="aten::")
    found = ask(tab.address, "table/range/range", run=RUN, search="aten::", where="range_group:operator", **window)
    assert shown(again) == str(found["matched_rows"] + 1) and found["matched_rows"] > 0
    again.get_by_role("button", name="Clear", exact=True).click()
    again = tab.settle()
    assert "from_ns" not in tab.state() and not again.locator("section[aria-label$=' marked']").count()


def keys_walk_mark_and_fit(tab: Tab) -> None:
    rows = ask(tab.address, "table/events/instances", run=RUN, where="name:ProfilerStep#1")["rows"]
    step = next(row for row in rows if not row["thread"].startswith("device"))
    frame = tab.follow(
        run=RUN, view="timeline", event=str(step["event"]), start_ns="0", end_ns=str(step["start_ns"] * 4)
    )
    frame.locator("[data-testid=timeline] canvas").focus()
    tab.page.keyboard.press("m")
    tab.settle()
    state = tab.state()
    assert (int(state["from_ns"]), int(state["to_ns"])) == (step["start_ns"], step["start_ns"] + step["dur_ns"])
    tab.page.keyboard.press("f")
    # The address follows when the window rests.
    tab.page.wait_for_url(lambda url: "p.torch_trace.start_ns=0" not in url.split("&"))
    tab.settle()
    state = tab.state()
    margin = step["dur_ns"] * 0.1
    assert abs(int(state["start_ns"]) - (step["start_ns"] - margin)) <= 2
    assert abs(int(state["end_ns"]) - (step["start_ns"] + step["dur_ns"] + margin)) <= 2
    tab.page.keyboard.press("ArrowDown")
    frame = tab.settle()
    assert_healthy(frame)
    inner = ask(tab.address, "view/events", run=RUN, event=tab.state()["event"])["payloads"]["event"]["figures"]
    facts = {figure["metric"]["key"]: figure["value"] for figure in inner}
    assert tab.state()["event"] != str(step["event"])
    assert step["start_ns"] <= facts["start_ns"] < step["start_ns"] + step["dur_ns"]
    tab.page.keyboard.press("ArrowUp")
    tab.settle()
    assert tab.state()["event"] == str(step["event"])


def test_a_range_and_keys(visit: Open) -> None:
    walk(visit, a_marked_range_says_what_ran_in_it, keys_walk_mark_and_fit)
