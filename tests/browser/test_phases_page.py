"""The page of phases: the sentence, the pattern of names, and a phase that the other views are limited to."""

from __future__ import annotations

from urllib.parse import unquote

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy

RUN = {"run": "synthetic_gpu"}
PHASE = "Optimizer.step#AdamW.step"
CHIP = "[data-testid=phase]"


def test_a_phase_limits_other_views_until_it_is_cleared(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="phases", **RUN)
    assert "is the largest phase" in frame.inner_text("[aria-label=Answer]")
    frame.get_by_role("treeitem", name=PHASE).click()
    assert frame.get_by_role("treeitem", name=PHASE).locator("svg[role=img]").count() == 1
    frame.get_by_role("button", name="Select this phase").click()
    frame = tab.settle()
    assert_healthy(frame)
    assert frame.locator(CHIP).inner_text().splitlines() == ["Phase", PHASE]
    frame.get_by_role("navigation").get_by_role("button", name="Operators").click()
    frame = tab.settle()
    names = {row["name"] for row in ask(tab.address, "table/operators/operators", phase=PHASE, **RUN)["rows"]}
    everything = ask(tab.address, "table/operators/operators", **RUN)
    assert 0 < len(names) < everything["total_rows"]
    assert frame.inner_text("[data-testid=count]") == f"{len(names)} rows"
    assert frame.locator("[data-testid=not-limited]").count() == 0
    frame.get_by_role("navigation").get_by_role("button", name="Overview").click()
    frame = tab.settle()
    assert PHASE in frame.inner_text("[data-testid=not-limited]")
    assert tab.axe() == []
    frame.locator(CHIP).get_by_role("button").click()
    frame = tab.settle()
    assert "phase" not in tab.state() and frame.locator(CHIP).count() == 0
    tab.page.go_back()
    frame = tab.settle()
    assert frame.locator(CHIP).count() == 1


def test_the_pattern_is_shown_and_can_be_changed(open_tab: Open) -> None:
    tab = open_tab(size=(1000, 700), refusals=True)
    frame = tab.open(view="phases", **RUN)
    field = frame.get_by_label("Counters in names")
    assert field.input_value() == r"\d+"
    assert frame.get_by_role("treeitem", name="ProfilerStep#").count() == 1
    field.fill(r"[^\s\S]")
    field.press("Enter")
    frame = tab.settle()
    assert_healthy(frame)
    assert frame.get_by_role("treeitem", name="ProfilerStep#").count() == 6
    field = frame.get_by_label("Counters in names")
    field.fill("(")
    field.press("Enter")
    frame = tab.settle()
    assert "The pattern is not valid" in frame.inner_text("#main")
    frame.get_by_role("button", name="Reset phases and grouping").click()
    frame = tab.settle()
    assert "pattern" not in tab.state()
    assert frame.get_by_role("treeitem", name="ProfilerStep#*").count() == 1


def test_a_row_opens_to_its_own_calls(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="phases", form="table", row=PHASE, **RUN)
    assert_healthy(frame)
    (calls,) = (r["calls"] for r in ask(tab.address, "table/phases/phases", **RUN)["rows"] if r["phase"] == PHASE)
    assert frame.inner_text("[data-testid=detail] h3 small").startswith(f"{calls},")
    frame.locator("[data-testid=detail]").get_by_role("button", name="Show in timeline").click()
    tab.settle()
    assert (tab.state()["view"], tab.state()["from_view"]) == ("timeline", "phases")


def test_a_pattern_that_is_none_can_be_corrected(open_tab: Open) -> None:
    tab = open_tab(refusals=True)
    frame = tab.open(view="phases", **RUN)
    field = frame.get_by_label("Counters in names")
    field.fill("[A-Z")
    field.press("Enter")
    frame = tab.settle()
    assert "The pattern is not valid" in frame.inner_text("[role=alert]")
    assert field.input_value() == "[A-Z"
    field.fill("[0-9]")
    field.press("Enter")
    frame = tab.settle()
    assert_healthy(frame)
    assert unquote(tab.state()["pattern"]) == "[0-9]"


def test_what_is_wrong_with_a_search_stands_over_the_table(open_tab: Open) -> None:
    frame = open_tab().open(view="operators", **RUN)
    frame.get_by_placeholder("Search operators").fill("/[a/")
    said = frame.get_by_text("Not a valid")
    said.wait_for()
    # What lies on top there is the message itself.
    assert said.evaluate(
        """(message) => {
          const { x, y, width, height } = message.getBoundingClientRect()
          return message.contains(document.elementFromPoint(x + width / 2, y + height - 3))
        }"""
    )
