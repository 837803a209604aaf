"""Findings: what to change first, its events on the timeline, and leaving a finding out by the link or for all."""

from __future__ import annotations

import shutil
from pathlib import Path

from playwright.sync_api import Frame, Locator

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import SAMPLES, Tab

RUN = "synthetic_gpu"
SIZES = ((1440, 900), (1000, 700))


def card(frame: Frame, rule: str) -> Locator:
    return frame.locator(f"[data-testid=finding][data-rule={rule}]")


def shown(frame: Frame) -> list[str | None]:
    return [each.get_attribute("data-rule") for each in frame.get_by_test_id("finding").all()]


def focused(frame: Frame) -> str:
    return str(frame.evaluate("document.activeElement.id"))


def found(tab: Tab, **more: str) -> list[str]:
    notices = ask(tab.address, "view/findings", run=RUN, **more)["payloads"]["findings"]["notices"]
    saving = [notice["rule"] for notice in notices if notice["saving"]]
    return saving + [notice["rule"] for notice in notices if not notice["saving"]]


def test_the_first_screen_says_what_to_change_first(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(run=RUN, view="findings")
    assert_healthy(frame)
    assert shown(frame) == found(tab)
    first = ask(tab.address, "view/findings", run=RUN)["payloads"]["findings"]["notices"][0]
    answer = frame.get_by_test_id("answer").inner_text()
    assert answer.startswith(f"Fix first: {first['title']}. Saves ") and first["todo"] in answer
    for width, height in SIZES:
        tab.page.set_viewport_size({"width": width, "height": height})
        tab.settle()
        for each in (frame.get_by_test_id("headline"), frame.get_by_test_id("answer"), card(frame, first["rule"])):
            box = each.bounding_box()
            assert box and box["y"] + box["height"] <= height
        assert tab.overflow() == 0
    assert tab.axe() == []


def test_an_open_finding_is_in_the_address_and_leads_to_its_events(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(run=RUN, view="findings")
    (rule, *_) = found(tab)
    title = card(frame, rule).get_by_role("button").first
    title.focus()
    tab.page.keyboard.press("Enter")
    frame = tab.settle()
    assert tab.state()["rule"] == rule and title.get_attribute("aria-expanded") == "true"
    assert_healthy(frame)
    assert tab.axe() == []
    events = ask(tab.address, f"table/findings/finding_events?where=rule:{rule}&", run=RUN)["rows"]
    rows = card(frame, rule).locator("tbody tr")
    assert rows.count() == len(events)
    assert card(frame, rule).get_by_role("heading", name=f"{len(events)} events").is_visible()
    rows.first.get_by_role("button", name="Show in timeline").click()
    frame = tab.settle()
    state, event = tab.state(), events[0]
    assert (state["view"], state["event"], state["gaps"]) == ("timeline", str(event["event"]), "1")
    assert int(state["end_ns"]) - int(state["start_ns"]) <= 2 * event["dur_ns"] + 1
    tab.page.go_back()
    frame = tab.settle()
    assert card(frame, rule).locator("tbody tr").count() == len(events), "as it was left"
    tab.page.go_back()
    frame = tab.settle()
    assert card(frame, rule).locator("tbody").count() == 0


def test_the_events_of_a_finding_sort(open_tab: Open) -> None:
    tab = open_tab()
    (rule, *_) = found(tab)
    frame = tab.open(run=RUN, view="findings", rule=rule)
    head = card(frame, rule).get_by_role("columnheader", name="Start")
    for descending in (True, False):
        head.get_by_role("button").click()
        frame = tab.settle()
        assert head.get_attribute("aria-sort") == ("descending" if descending else "ascending")
        assert (tab.state()["sort"], tab.state()["desc"]) == ("start_ns", str(int(descending)))
        heads = card(frame, rule).locator("thead th").all_inner_texts()
        at = next(i for i, text in enumerate(heads) if text.startswith("Start"))
        cells = [
            float(row.locator("td").nth(at).inner_text().replace(",", ""))
            for row in card(frame, rule).locator("tbody tr").all()
        ]
        assert cells == sorted(cells, reverse=descending) and len(cells) > 1
    assert tab.axe() == []


def test_a_dismissed_finding_stays_away_until_it_is_restored(open_tab: Open) -> None:
    tab = open_tab()
    rule, *others = found(tab)
    frame = tab.open(run=RUN, view="findings", rule=rule)
    before = frame.get_by_test_id("headline").inner_text()
    card(frame, rule).get_by_role("button", name="Dismiss").focus()
    tab.page.keyboard.press("Enter")
    frame = tab.settle()
    assert tab.state()["dismissed"] == rule
    assert focused(frame) == f"finding-{others[0]}-title", "the focus goes to the next one"
    assert shown(frame) == others == found(tab, without=rule)
    assert frame.get_by_test_id("headline").inner_text() != before, "what all save is computed without it"
    frame.get_by_role("navigation").get_by_role("button", name="Overview").click()
    frame = tab.settle()
    assert_healthy(frame)
    rows = frame.get_by_role("region", name="Findings").get_by_role("listitem")
    assert rows.count() == min(len(others), 4)
    left = frame.get_by_role("region", name="Findings").get_by_text("1 dismissed.")
    left.get_by_role("button", name="Show in Findings").click()
    frame = tab.settle()
    assert tab.state()["view"] == "findings"
    frame = tab.open(run=RUN, view="findings", dismissed=rule)
    left = frame.get_by_role("region", name="dismissed")
    assert left.inner_text().startswith("1 dismissed:")
    left.get_by_role("button", name="Show").click()
    assert tab.axe() == []
    left.get_by_role("button", name="Restore").focus()
    tab.page.keyboard.press("Enter")
    frame = tab.settle()
    assert "dismissed" not in tab.state() and shown(frame) == [rule, *others]
    assert focused(frame) == f"finding-{rule}-title"
    assert frame.get_by_test_id("headline").inner_text() == before


def test_the_overview_leads_to_each_card(open_tab: Open) -> None:
    tab = open_tab(size=(1000, 700))
    frame = tab.open(run=RUN, view="overview")
    every = frame.get_by_role("region", name="Findings")
    rows = every.get_by_role("listitem")
    for box in (rows.nth(i).bounding_box() for i in range(min(3, rows.count()))):
        assert box and box["y"] + box["height"] <= 700
    second = found(tab)[1]
    rows.nth(1).get_by_role("button").click()
    frame = tab.settle()
    assert (tab.state()["view"], tab.state()["rule"]) == ("findings", second)
    assert card(frame, second).get_by_role("button").first.get_attribute("aria-expanded") == "true"
    frame = tab.open(run=RUN, view="overview")
    frame.get_by_role("button", name=f"All {len(found(tab))} findings").click()
    frame = tab.settle()
    assert tab.state()["view"] == "findings" and "rule" not in tab.state()


def test_evidence_of_the_largest_costs_leads_to_their_rows(open_tab: Open) -> None:
    tab = open_tab()
    costs = ask(tab.address, "view/overview", run=RUN)["payloads"]["largest_costs"]["notices"]
    for i, link in enumerate(notice["evidence"] for notice in costs):
        frame = tab.open(run=RUN, view="overview")
        frame.get_by_role("button", name="Show evidence").nth(i).click()
        frame = tab.settle()
        assert_healthy(frame)
        assert tab.state()["view"] == link["view"]
        if link["view"] == "timeline":
            assert tab.state()["event"] == link["params"]["event"]
            assert frame.get_by_test_id("hits").inner_text().split()[0] != "0"
        else:
            assert frame.get_by_test_id("grid").get_by_role("row").count() > 1, "more than its head"


def test_the_log_directory_leaves_a_finding_out_for_all(open_tab: Open, tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / RUN, tmp_path / RUN)
    (tmp_path / "torch_trace_ignore").write_text("data_loading\n<b>bold</b>\n")
    tab = open_tab(tmp_path)
    frame = tab.open(run=RUN, view="findings")
    assert "data_loading" not in shown(frame)
    left = frame.get_by_role("region", name="ignored by torch_trace_ignore")
    left.get_by_role("button", name="Show").click()
    assert "Data loading" in left.inner_text() and left.get_by_role("button", name="Restore").count() == 0
    about = frame.get_by_role("region", name="About torch_trace_ignore").inner_text()
    assert "<b>bold</b>" in about, "what the file says is text"


def test_nothing_found_says_what_was_looked_for(open_tab: Open) -> None:
    tab = open_tab()
    every = ",".join(found(tab))
    frame = tab.open(run=RUN, view="findings", dismissed=every)
    looked = {
        figure["metric"]["key"]: figure["value"]
        for figure in ask(tab.address, "view/findings", run=RUN, without=every)["payloads"]["together"]["figures"]
    }
    answer = frame.get_by_test_id("answer").inner_text()
    assert answer.startswith(f"No problems found ({looked['rules_looked']} checks run).") and "60.8 %" in answer
    said = f"{looked['rules_looked']} of {looked['rules']} checks ran ({len(found(tab))} ignored)."
    assert frame.get_by_text(said).is_visible()
