"""The comparison of two profiles: choosing them, going down the tree, and the ways into each side's own view."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from urllib.parse import unquote_plus

import pytest
from playwright.sync_api import Frame

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.harness import SAMPLES, Tab

EVIL = "<img src=x onerror=alert(1)>"
SPANS = {"run": "resnet_cpu", "span": "2", "base_run": "resnet_cpu", "base_worker": "worker0", "base_span": "1"}


def _headline(frame: Frame) -> list[str]:
    return frame.locator("[data-testid=headline] dd b").all_inner_texts()


def _calls(frame: Frame) -> list[str]:
    """Full names of the shown level, the sum at its end left out."""
    return frame.locator("[data-testid=call-tree] tbody [data-testid=call]").evaluate_all(
        "(all) => all.map((e) => e.title)"
    )


def _choose(tab: Tab, picker: str, choice: str) -> Frame:
    frame = tab.frame()
    frame.get_by_role("region", name="Comparison").get_by_role("button", name=picker).click()
    frame.get_by_role("option", name=choice).click()
    return tab.settle()


def test_a_baseline_chosen_by_hand_and_back(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="diff", run="resnet_cpu", span="2")
    first = _headline(frame)
    # The page chose one, and names it: the link shows the same when other runs have come.
    chosen = {key: value for key, value in tab.state().items() if key.startswith("base_")}
    assert chosen == {"base_run": "resnet_cpu", "base_worker": "worker0", "base_span": "1"}
    frame = _choose(tab, "Run", "transformer_cpu")
    assert_healthy(frame)
    assert tab.state()["base_run"] == "transformer_cpu"
    server = ask(tab.address, "view/diff", run="resnet_cpu", span="2", base_run="transformer_cpu", base_span="1")
    figures = {f["metric"]["key"]: f["value"] for f in server["payloads"]["headline"]["figures"]}
    exact = frame.locator("[data-testid=headline] dd b [title]").evaluate_all("(all) => all.map((e) => e.title)")
    assert exact[:3] == [f"{figures[key]:,} ns" for key in ("base_step_ns", "exp_step_ns", "delta_step_ns")]
    assert _headline(frame) != first
    tab.page.go_back()
    frame = tab.settle()
    assert tab.state()["base_run"] == "resnet_cpu"
    assert _headline(frame) == first


def test_the_steps_of_the_baseline(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="diff", **SPANS)
    frame.get_by_role("region", name="Comparison").get_by_role("button", name="Steps").click()
    frame.get_by_role("button", name="only").first.click()
    frame = tab.settle()
    steps = ask(tab.address, "profile", run="resnet_cpu", span="1")["steps"]
    assert tab.state()["base_steps"] == steps[0]["label"]
    assert "1 step" in frame.inner_text("[data-testid=headline]")
    assert_healthy(frame)


def test_swap_turns_every_sign(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="diff", steps="8", base_steps="3", **SPANS)
    before, change = _headline(frame)[:2], _headline(frame)[2]
    frame.get_by_role("button", name="Swap").click()
    frame = tab.settle()
    assert_healthy(frame)
    state = tab.state()
    assert (state["span"], state["steps"], state["base_span"], state["base_steps"]) == ("1", "3", "2", "8")
    assert _headline(frame)[:2] == before[::-1]
    assert _headline(frame)[2] == (change.replace("-", "+") if "-" in change else change.replace("+", "-"))
    tab.page.go_back()
    frame = tab.settle()
    assert _headline(frame)[:2] == before


def test_down_the_tree_and_up(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="diff", measure="host_total_ns", **SPANS)
    top = _calls(frame)
    assert top == ["Data loading", "Forward", "Backward", "Optimizer"]
    frame.get_by_role("button", name="Forward:").click()
    frame = tab.settle()
    inside = _calls(frame)
    assert inside
    assert set(inside).isdisjoint(top)
    assert tab.state()["node"] == "Forward"
    # The running sum ends at the change of the whole.
    assert (
        frame.locator("[data-testid=call-tree] tbody tr:last-child td:last-child").inner_text()
        == frame.locator("[data-testid=call-tree] table tfoot td").nth(4).inner_text()
    )
    # By keyboard: the first row has the focus; Enter goes down, the left arrow up again.
    tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("ArrowUp")
    assert frame.evaluate("document.activeElement.closest('tr').querySelector('[data-testid=call]').title") == inside[0]
    tab.page.keyboard.press("Enter")
    frame = tab.settle()
    assert tab.state()["node"].startswith("Forward%1F")
    frame.get_by_role("button", name="Forward", exact=True).click()
    frame = tab.settle()
    assert _calls(frame) == inside
    frame.locator("[data-testid=call-tree] table tbody button").first.press("ArrowLeft")
    frame = tab.settle()
    assert _calls(frame) == top
    assert frame.evaluate("document.activeElement.getAttribute('aria-label')").startswith("Forward")
    tab.page.go_back()
    frame = tab.settle()
    assert _calls(frame) == inside


def test_a_leaf_says_that_nothing_is_below(open_tab: Open) -> None:
    tab = open_tab()
    sides = {"view": "diff", "run": "synthetic_gpu", "base_run": "resnet_cpu", "base_span": "1"}
    frame = tab.open(**sides, node="Forward")
    for _ in range(12):
        if frame.locator("[data-testid=call-tree] table tbody button").count() == 0:
            break
        frame.locator("[data-testid=call-tree] table tbody button").first.click()
        frame = tab.settle()
    leaf = _calls(frame)[0]
    node = unquote_plus(tab.state()["node"])
    frame = tab.open(**sides, node=f"{node}\x1f{leaf}")
    assert "No nested calls recorded" in frame.inner_text("[data-testid=call-tree]")


def test_largest_change_first(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="diff", node="Backward", **SPANS)
    called = _calls(frame)
    frame.get_by_text("Largest change", exact=True).click()
    frame = tab.settle()
    assert tab.state()["order"] == "change"
    assert sorted(_calls(frame)) == sorted(called)
    changes = [
        abs(float(text.replace("<", "").replace(">", "").replace(",", "")))
        for text in frame.locator(
            "[data-testid=call-tree] tbody tr:has([data-testid=call]) td:nth-child(6)"
        ).all_inner_texts()
    ]
    assert changes == sorted(changes, reverse=True)


def test_measure_and_scaling_drive_tree_and_tables(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="diff", **SPANS)
    # No device on either side: nothing to choose there.
    options = frame.get_by_label("Time in the call tree and the tables").locator("option").all_inner_texts()
    assert options == ["Time: automatic", "Host self time", "Host total time"]
    rows = frame.locator("[role=rowheader]").all_inner_texts()
    frame.get_by_label("Time in the call tree and the tables").select_option("host_total_ns")
    frame = tab.settle()
    assert tab.state()["measure"] == "host_total_ns"
    assert frame.locator("[role=rowheader]").all_inner_texts() != rows
    mean = frame.locator("[data-testid=call-tree] table tfoot").inner_text()
    frame.get_by_text("Total", exact=True).click()
    frame = tab.settle()
    assert tab.state()["per"] == "total"
    assert frame.locator("[data-testid=call-tree] table tfoot").inner_text() != mean


def test_the_waterfall_as_a_table(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="diff", **SPANS)
    card = frame.get_by_role("region", name="From the baseline's step to the experiment's")
    assert "Data loading" in (card.get_by_role("img").get_attribute("aria-label") or "")
    card.get_by_text("Table").click()
    payload = ask(tab.address, "view/diff", **SPANS)["payloads"]["waterfall"]
    rows = card.locator("tbody tr")
    assert rows.count() == len(payload["parts"]) + 2
    exact = card.locator("tbody tr td:nth-child(2) [title]").evaluate_all("(all) => all.map((e) => e.title)")
    assert exact == [f"{part['value']:,} ns" for part in payload["parts"]]


def test_a_row_leads_to_either_side_and_back(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="diff", search="aten::conv2d", steps="8", base_steps="3", **SPANS)
    frame.get_by_role("rowheader").get_by_role("button", name="aten::conv2d", exact=True).click()
    frame.locator("[data-testid=detail] table").wait_for()
    frame = tab.settle()
    assert_healthy(frame)
    detail = frame.inner_text("[data-testid=detail]")
    assert "Host self" in detail and "Host total" in detail
    # A CPU has no device time: a line of zeros says nothing.
    assert "Device" not in detail
    diff = tab.state()
    frame.get_by_role("button", name="Open in baseline").click()
    frame = tab.settle()
    assert_healthy(frame)
    state = tab.state()
    assert (state["view"], state["run"], state["span"], state["steps"]) == ("operators", "resnet_cpu", "1", "3")
    assert state["where"] == "name:aten::conv2d"
    assert [text.split()[0] for text in frame.locator("[role=rowheader]").all_inner_texts()] == ["aten::conv2d"]
    assert frame.locator("[data-testid=detail]").count() == 1
    tab.page.go_back()
    frame = tab.settle()
    assert tab.state() == diff
    assert frame.inner_text("[data-testid=detail]") == detail
    frame.get_by_role("button", name="Open in experiment").click()
    tab.settle()
    assert (tab.state()["span"], tab.state()["steps"]) == ("2", "8")
    # The navigation leads back to the same comparison, not to one of the experiment with itself.
    tab.frame().get_by_role("navigation", name="Views").get_by_text("Diff").click()
    tab.settle()
    assert tab.state() == diff


def test_devices_of_two_makers_stand_beside_each_other(open_tab: Open) -> None:
    tab = open_tab()
    sides = {"run": "synthetic_gpu", "base_run": "synthetic_ascend", "base_worker": "rank0"}
    frame = tab.open(view="diff", group="kernels_by_operator", **sides)
    assert_healthy(frame)
    titles = frame.locator("h2, h3").all_inner_texts()
    for title in ("Overall", "Computing by family", "Communication by operation", "Memory"):
        assert any(text.startswith(title) for text in titles), title
    # What makes the comparison unfair stands before the first chart.
    mind, chart = (next(i for i, text in enumerate(titles) if text.startswith(t)) for t in ("Before you", "From the"))
    assert mind < chart
    groups = frame.get_by_role("radiogroup", name="Group rows by").inner_text().splitlines()
    assert "Kernels by operator" in groups and "Kernels" not in groups
    frame.get_by_role("rowheader").get_by_role("button", name="aten::addmm").first.click()
    frame.get_by_role("button", name="Open in baseline").click()
    frame = tab.settle()
    assert_healthy(frame)
    state = tab.state()
    assert (state["view"], state["run"], state["worker"]) == ("kernels", "synthetic_ascend", "rank0")
    assert state["where"] == "name:aclnnAddmm_MatMulCommon_MatMulV2"
    assert frame.locator("[role=rowheader]").count() == 1


def test_a_new_row_has_no_baseline(open_tab: Open) -> None:
    tab = open_tab()
    sides = {"run": "transformer_cpu", "base_run": "resnet_cpu", "base_span": "1"}
    frame = tab.open(view="diff", group="modules", sort="delta_ns", desc="1", **sides)
    frame.locator("[role=row]:has([data-testid=new]) [aria-expanded=false]").first.click()
    frame.locator("[data-testid=detail] table").wait_for()
    assert frame.get_by_role("button", name="Open in baseline").count() == 0
    name = frame.locator("[data-index]:has([aria-expanded=true]) [role=rowheader] [title]").get_attribute("title")
    frame.get_by_role("button", name="Open in experiment").click()
    frame = tab.settle()
    assert_healthy(frame)
    assert tab.state()["view"] == "modules"
    assert frame.locator("[role=rowheader] [title]").first.get_attribute("title") == name


def test_a_link_shows_the_same(open_tab: Open) -> None:
    tab = open_tab()
    tab.open(
        view="diff", node="Backward", order="change", measure="host_total_ns", per="total", group="modules", **SPANS
    )
    frame = tab.frame()
    shown, state = frame.inner_text("#main"), tab.state()
    frame = tab.reload()
    assert tab.state() == state
    assert frame.inner_text("#main") == shown


def test_the_baseline_survives_other_views_and_another_experiment(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="diff", node="Forward", **SPANS)
    before = tab.state()
    for title in ("Overview", "Diff"):
        frame.get_by_role("navigation", name="Views").get_by_text(title).click()
        frame = tab.settle()
    assert tab.state() == before
    frame.get_by_role("region", name="Profile").get_by_role("button", name="Run").click()
    frame.get_by_role("option", name="transformer_cpu").click()
    frame = tab.settle()
    assert_healthy(frame)
    assert tab.state()["run"] == "transformer_cpu"
    assert tab.state()["base_run"] == "resnet_cpu"


def test_a_profile_like_no_other_is_compared_with_what_the_person_chooses(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="diff", run="transformer_cpu")
    assert "Choose a baseline" in frame.inner_text("#main")
    assert not tab.axe()
    frame = _choose(tab, "Run", "resnet_cpu")
    assert_healthy(frame)
    assert _headline(frame) and tab.state()["base_run"] == "resnet_cpu"


def test_one_profile_has_nothing_to_compare_with(open_tab: Open, tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "transformer_cpu", tmp_path / "only")
    tab = open_tab(tmp_path)
    frame = tab.open(view="diff")
    assert "No second profile to compare with" in frame.inner_text("#main")
    # Its steps can be compared with each other.
    frame.get_by_role("button", name="Compare with step").click()
    frame = tab.settle()
    assert_healthy(frame)
    assert len(_headline(frame)) == 4


def test_a_baseline_that_is_not_there(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="diff", run="resnet_cpu", span="2", base_run="<b>gone</b>")
    alert = frame.get_by_role("alert")
    assert "There is no profile <b>gone</b> in the log directory." in alert.inner_text()
    assert "<b>gone</b>" in frame.get_by_role("region", name="Comparison").inner_text()
    alert.get_by_role("button", name="Compare with").click()
    frame = tab.settle()
    assert_healthy(frame)
    assert len(_headline(frame)) == 4


def test_steps_that_the_baseline_does_not_have(open_tab: Open) -> None:
    tab = open_tab()
    frame = tab.open(view="diff", base_steps="99", **SPANS)
    assert "The baseline has no step 99." in frame.get_by_role("alert").inner_text()
    frame.get_by_role("button", name="Compare all steps").click()
    frame = tab.settle()
    assert_healthy(frame)
    assert len(_headline(frame)) == 4


def test_a_baseline_that_is_being_read(open_tab: Open) -> None:
    tab = open_tab()
    reading = {**ask(tab.address, "profile", run="transformer_cpu"), "state": "loading", "fraction": 0.43}
    pattern = re.compile(r"/profile\?run=transformer_cpu")
    tab.page.route(pattern, lambda route: route.fulfill(status=200, json=reading))
    frame = tab.start(view="diff", run="resnet_cpu", span="2", base_run="transformer_cpu")
    frame.get_by_text("Baseline: Reading the trace").wait_for()
    frame.get_by_text("43 %").wait_for()
    tab.page.unroute(pattern)
    frame = tab.settle()
    assert_healthy(frame)
    assert len(_headline(frame)) == 4


def _write(logdir: Path, run: str, events: object) -> None:
    (logdir / run).mkdir()
    path = logdir / run / "worker0.1700000000000.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that no training writes."""
    logdir = tmp_path_factory.mktemp("made")
    shutil.copytree(SAMPLES / "transformer_cpu", logdir / "good")
    _write(logdir, "bad", 7)
    common = {"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1}
    for run in ("markup_a", "markup_b"):
        outer, inner = {"name": EVIL, "ts": 10, "dur": 50}, {"name": "<b>in</b>", "ts": 20, "dur": 9}
        _write(logdir, run, [{**common, **outer, "args": {}}, {**common, **inner, "args": {}}])
    for run, factor in (("many_a", 1), ("many_b", 2)):
        _write(logdir, run, [{**common, "name": f"op{i}", "ts": 1000 * i, "dur": i * factor} for i in range(1, 151)])
    return logdir


def test_a_baseline_that_cannot_be_read(open_tab: Open, made: Path) -> None:
    tab = open_tab(made, refusals=True)
    frame = tab.open(view="diff", run="good", base_run="bad")
    assert frame.get_by_role("alert").inner_text().startswith("Baseline: bad")


def test_texts_of_a_trace_are_no_markup(open_tab: Open, made: Path) -> None:
    tab = open_tab(made)
    frame = tab.open(view="diff", run="markup_b", base_run="markup_a")
    assert _calls(frame) == ["Forward"]
    frame.get_by_role("button", name="Forward:").click()
    frame = tab.settle()
    assert _calls(frame) == [EVIL]
    frame.locator("[data-testid=call-tree] table tbody button").click()
    frame = tab.settle()
    assert EVIL in frame.inner_text("[data-testid=crumbs]")
    assert frame.locator("#main img").count() == 0


def test_a_level_with_many_calls(open_tab: Open, made: Path) -> None:
    tab = open_tab(made)
    frame = tab.open(view="diff", run="many_b", base_run="many_a", node="Forward")
    assert _calls(frame) == [f"op{i}" for i in range(111, 151)]
    assert "110 others" in frame.inner_text("[data-testid=call-tree] table")
    frame.get_by_role("button", name="Show 110 more").click()
    assert _calls(tab.settle()) == [f"op{i}" for i in range(1, 151)]
