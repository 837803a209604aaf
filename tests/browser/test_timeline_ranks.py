"""Ranks on one timeline: sections on one axis, the same collective linked across them, an event of any of them."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

from playwright.sync_api import Frame, Route

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import Tab
from tests.browser.journey import walk
from tests.browser.picture import GUTTER, HEAD, Picture, Point

RUN = "synthetic_ddp"
SECTION, COMMUNICATION = 30, 16
"""Height of the head of a section, and where its bar of communication stands in it."""
_BLUE = (0x3B, 0x6F, 0xD4)
_PURPLE = (0x8B, 0x5C, 0xF6)


def sections(frame: Frame) -> list[tuple[str, float]]:
    found = frame.get_by_test_id("section").all()
    return [
        (str(one.text_content()).partition(",")[0], float(one.get_attribute("data-shift") or "nan")) for one in found
    ]


def foot(frame: Frame) -> str:
    return frame.get_by_test_id("timeline-foot").inner_text()


def met(tab: Tab, *workers: str) -> list[dict[str, Any]]:
    """The calls of the first collective, before which nothing communicates."""
    within = "&".join(f"within={worker}:0:{10**12}" for worker in workers)
    rows = ask(tab.address, f"table/distributed/meetings?{within}&", run=RUN, limit="1000")["rows"]
    first = min(rows, key=lambda row: int(row["start_ns"]))
    return [row for row in rows if row["match"] == first["match"]]


def ranks_stand_below_each_other_on_one_axis_with_their_collectives_linked(tab: Tab) -> None:
    workers = ("rank1", "rank0", "rank2")
    calls = {row["worker"]: row for row in met(tab, *workers)}
    start = min(int(row["start_ns"]) for row in calls.values())
    end = max(int(row["start_ns"]) + int(row["dur_ns"]) for row in calls.values())
    room = (end - start) // 2
    frame = tab.follow(
        run=RUN, worker="rank1", view="timeline", ranks="rank0,rank2", align="wall",
        turned=".closed,rank0.closed,rank2.closed", start_ns=str(start - room), end_ns=str(end + room),
    )  # fmt: skip
    assert_healthy(frame)
    assert [name for name, _ in sections(frame)] == list(workers)
    clocks = {
        worker: int(ask(tab.address, "profile", run=RUN, worker=worker)["clock"]["start_unix_ns"]) for worker in workers
    }
    shifts = [shift for _, shift in sections(frame)]
    assert shifts == [clocks[worker] - clocks["rank1"] for worker in workers]
    assert "collectives linked" in foot(frame) or "1 collective linked" in foot(frame)
    # The edges of the kernel stand where the axis says, in the head of each closed section.
    picture = Picture(tab, run=RUN, worker="rank1")
    for at, (worker, shift) in enumerate(zip(workers, shifts, strict=True)):
        y = HEAD + at * SECTION + COMMUNICATION + 5
        row = calls[worker]
        begin = picture.x(int(row["start_ns"]) + shift)
        assert picture.pixel(Point(begin + 3, y)) == _PURPLE
        assert picture.pixel(Point(begin - 4, y)) != _PURPLE
    # Between two of them there is a band where a head is empty otherwise.
    first, second = (calls[worker] for worker in workers[:2])
    middle = int(first["start_ns"]) + min(int(first["dur_ns"]), int(second["dur_ns"])) / 2
    band = Point(picture.x(middle), HEAD + SECTION + COMMUNICATION - 2)
    linked = picture.pixel(band)
    # It runs behind the bar of what computes, which keeps its colour.
    crossed = [Point(x, HEAD + SECTION + 9) for x in range(GUTTER + 4, int(picture.width), 8)]
    computing = [picture.pixel(point) for point in crossed]
    tab.follow(**{key: unquote(value) for key, value in tab.state().items()}, links="none")
    assert "linked" not in foot(tab.settle())
    assert picture.pixel(band) != linked
    assert [picture.pixel(point) for point in crossed] == computing and computing.count(_BLUE) > 3


def an_event_of_another_rank_opens_its_own_panel(tab: Tab) -> None:
    row = next(one for one in met(tab, "rank0", "rank3") if one["worker"] == "rank3")
    start, dur = int(row["start_ns"]), int(row["dur_ns"])
    frame = tab.follow(
        run=RUN, worker="rank0", view="timeline", ranks="rank3", turned=".closed,rank3.closed", align="start",
        start_ns=str(start - dur), end_ns=str(start + 2 * dur),
    )  # fmt: skip
    shift = sections(frame)[1][1]
    picture = Picture(tab, run=RUN, worker="rank0")
    spot = Point(picture.x(start + shift + dur / 2), HEAD + SECTION + COMMUNICATION + 5)
    tab.page.mouse.click(*picture.on_page(spot))
    tab.page.wait_for_function("location.hash.includes('p.torch_trace.at=rank3')")
    frame = tab.settle()
    event = ask(tab.address, "view/events", run=RUN, worker="rank3", event=tab.state()["event"])["payloads"]["event"]
    facts = {figure["metric"]["key"]: figure["value"] for figure in event["figures"]}
    assert (facts["start_ns"], facts["dur_ns"]) == (start, dur)
    assert str(facts["name"]) in frame.get_by_role("region", name="Event details").inner_text()
    assert not tab.axe()
    # Hits and the table are those of the rank whose event is chosen.
    tab.follow(**{key: unquote(value) for key, value in tab.state().items()}, search=str(facts["name"]))
    frame = tab.settle()
    frame.get_by_role("button", name="Next hit").click()
    frame = tab.settle()
    assert "rank3: " in frame.get_by_test_id("hits").inner_text() and tab.state()["at"] == "rank3"
    frame.get_by_role("button", name="As text").click()
    tab.settle()
    frame.get_by_role("table", name="Visible events").get_by_text(str(facts["name"])).first.wait_for()
    assert frame.get_by_label("Rank as text").input_value() == "rank3"


def ranks_are_chosen_from_the_menu_and_one_that_fails_says_so(tab: Tab) -> None:
    tab.resize(1000, 700)
    frame = tab.follow(run=RUN, worker="rank0", view="timeline", align="wall")
    frame.get_by_test_id("toolbar").get_by_role("button", name="Ranks", exact=True).click()
    frame.get_by_role("checkbox", name="rank2").click()
    frame = tab.settle()
    assert tab.state()["ranks"] == "rank2" and [name for name, _ in sections(frame)] == ["rank0", "rank2"]
    # The menu stays open though the page for several ranks is another one.
    frame.get_by_label("Filter ranks").fill("1, 3-7")
    assert frame.get_by_test_id("rank").all_inner_texts() == ["rank1", "rank3"]
    frame.get_by_label("Filter ranks").fill("")
    frame.get_by_role("button", name="Show all 4").click()
    frame = tab.settle()
    assert tab.state()["ranks"] == "*" and len(sections(frame)) == 4
    frame.get_by_role("radio", name="By step: the selected or first common one").click()
    frame = tab.settle()
    assert tab.state()["align"] == "start" and "by step" in foot(frame)
    tab.follow(**{key: unquote(value) for key, value in tab.state().items()} | {"ranks": "rank3,rank2,rank1"})
    frame.get_by_label("Order of the ranks").select_option("rank")
    frame = tab.settle()
    assert [name for name, _ in sections(frame)] == ["rank0", "rank1", "rank2", "rank3"]
    frame.get_by_role("button", name="rank0 alone").click()
    frame = tab.settle()
    assert "ranks" not in tab.state() and not frame.get_by_test_id("section").count()
    frame = tab.follow(run=RUN, worker="rank0", view="timeline", ranks="rank1,nobody", align="wall")
    texts = frame.get_by_test_id("section").all_inner_texts()
    assert "There is no worker nobody." in texts[2] and "wall clock" in texts[1]
    # A click on the name of a section closes it.
    picture = Picture(tab, run=RUN, worker="rank0")
    tab.page.mouse.click(*picture.on_page(Point(40, HEAD + SECTION / 2)))
    tab.settle()
    assert tab.state()["turned"] == ".closed"


def the_way_to_a_partner_stays_among_the_ranks(tab: Tab) -> None:
    calls = {row["worker"]: row for row in met(tab, "rank0", "rank1", "rank2")}
    state = {"run": RUN, "worker": "rank0", "view": "timeline", "ranks": "rank1", "align": "wall", "steps": "0"}
    tab.follow(**state, event=str(calls["rank0"]["event"]))
    frame = tab.frame()
    find = frame.get_by_role("button", name="Find this call on 3 other ranks")
    if find.count():
        find.click()
        tab.settle()
    partners = frame.get_by_test_id("event-partners")
    # They stand beside the first facts, not below all arguments.
    tops = [place.bounding_box() for place in (partners, frame.get_by_test_id("event-event"))]
    assert len({box["y"] for box in tops if box}) == 1
    for worker, ranks in (("rank1", "rank1"), ("rank2", "rank1,rank2"), ("rank0", "rank1,rank2")):
        partners.get_by_role("row", name=worker).get_by_role("button", name="Show this call").click()
        frame = tab.settle()
        now = {key: unquote(value) for key, value in tab.state().items()}
        at = "" if worker == "rank0" else worker
        expected = state | {"ranks": ranks, "event": str(calls[worker]["event"]), **({"at": at} if at else {})}
        assert {key: now.get(key) for key in expected} == expected and now.get("at", "") == at
        assert partners.get_by_role("row", name="this rank").inner_text().startswith(worker)
    # From there the table of the page Ranks comes into sight, though it stands below all pictures.
    frame.get_by_role("button", name="Show in Ranks").click()
    frame = tab.settle()
    table = frame.get_by_role("table", name="Single collectives")
    assert len(table.get_by_role("row").all()) == 5
    box = table.bounding_box()
    assert box is not None and box["y"] < 900 - 5 * 32


def all_sections_are_opened_and_closed_from_the_menu(tab: Tab) -> None:
    frame = tab.follow(run=RUN, worker="rank0", view="timeline", ranks="*", align="wall", turned="rank1.closed")
    picture = Picture(tab, run=RUN, worker="rank0")
    bar = Point(40, HEAD + 2 * SECTION + 3)
    frame.get_by_role("button", name="Ranks (4)").click()
    frame.get_by_role("button", name="Close all").click()
    tab.settle()
    assert tab.state()["sections"] == "closed" and "turned" not in tab.state()
    closed = picture.pixel(bar)
    frame.get_by_role("button", name="Open all").click()
    tab.settle()
    assert tab.state()["sections"] == "open" and picture.pixel(bar) != closed


def closer_and_further_are_there_on_a_narrow_page(tab: Tab) -> None:
    tab.resize(900, 700)
    frame = tab.follow(run=RUN, worker="rank0", view="timeline", ranks="rank1", align="wall")
    assert all(frame.get_by_role("button", name=name).is_visible() for name in ("Zoom in", "Zoom out"))
    tops = frame.locator("[data-testid=toolbar] > *").evaluate_all("all => all.map(one => one.offsetTop)")
    assert max(tops) - min(tops) < 30
    frame = tab.follow(run=RUN, worker="rank0", view="timeline")
    assert all(frame.get_by_role("button", name=name).is_visible() for name in ("Zoom in", "Zoom out"))


def a_partner_that_is_still_read_has_its_own_panel_and_takes_nobody_back(tab: Tab) -> None:
    call = next(row for row in met(tab, "rank0", "rank1", "rank2") if row["worker"] == "rank0")
    last = ask(tab.address, "profile", run=RUN, worker="rank0")["steps"][-1]
    held: list[Route] = []
    of_rank2 = re.compile(r"/torch_trace/(profile|view/timeline)\?.*worker=rank2")
    tab.page.route(of_rank2, lambda route: held.append(route))
    # The window is far from the call.
    frame = tab.start(
        run=RUN, worker="rank0", view="timeline", ranks="rank1,rank2", align="wall", event=str(call["event"]),
        start_ns=str(last["host_start_ns"]), end_ns=str(last["host_end_ns"]),
    )  # fmt: skip
    partners = frame.get_by_test_id("event-partners")
    own, other = (
        partners.get_by_role("row", name=worker).get_by_role("button", name="Show this call")
        for worker in ("rank0", "rank2")
    )
    other.click()
    # Its own row leads nowhere, that of the open rank leads back.
    own.wait_for()
    assert not other.count() and tab.state()["at"] == "rank2"
    tab.page.go_back()
    tab.page.wait_for_function("!location.hash.includes('at=rank2')")
    window = [tab.state()[key] for key in ("start_ns", "end_ns")]
    for route in held:
        route.continue_()
    tab.page.unroute(of_rank2)
    frame.get_by_test_id("section").get_by_text("rank2, wall clock").wait_for(state="attached")
    tab.settle()
    assert [tab.state()[key] for key in ("start_ns", "end_ns")] == window


def test_ranks_on_one_axis(visit: Open) -> None:
    walk(
        visit,
        ranks_stand_below_each_other_on_one_axis_with_their_collectives_linked,
        an_event_of_another_rank_opens_its_own_panel,
        ranks_are_chosen_from_the_menu_and_one_that_fails_says_so,
        the_way_to_a_partner_stays_among_the_ranks,
        refusals=True,
    )


def test_ranks_from_menu_to_partner(visit: Open) -> None:
    walk(
        visit,
        all_sections_are_opened_and_closed_from_the_menu,
        closer_and_further_are_there_on_a_narrow_page,
        a_partner_that_is_still_read_has_its_own_panel_and_takes_nobody_back,
        refusals=True,
    )
