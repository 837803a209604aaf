"""A run of a thousand workers: the page lists, finds and opens one, and asks for no other."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.browser.conftest import Open
from tests.browser.expect import assert_healthy
from tests.browser.harness import PLUGIN
from tests.service.fakes import write_trace

WORKERS = 1000


@pytest.fixture(scope="session")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    logdir = tmp_path_factory.mktemp("many")
    for worker in range(WORKERS):
        write_trace(logdir / "run" / f"rank{worker}.1.pt.trace.json")
    return logdir


def test_a_worker_of_a_thousand_is_found_by_its_name(visit: Open, logdir: Path) -> None:
    tab = visit(logdir)
    frame = tab.follow(run="run", worker="rank500", view="operators")
    frame.locator("[aria-label=Profile] button", has_text="rank500").click()
    options = frame.get_by_role("option")
    frame.get_by_role("option", name="rank500").wait_for()
    assert options.count() == 100, "not a thousand"
    assert frame.get_by_text("450 more before").count() == frame.get_by_text("450 more after").count() == 1
    frame.get_by_label("Filter workers").press_sequentially("rank77")
    frame.get_by_role("option", name="rank777").wait_for()
    assert [text.splitlines()[0] for text in options.all_inner_texts()] == [
        "rank77",
        *(f"rank77{i}" for i in range(10)),
    ]
    frame.get_by_role("option", name="rank777").click()
    assert_healthy(tab.settle())
    assert tab.state()["worker"] == "rank777"
    with urlopen(f"{tab.address}data/plugin/{PLUGIN}/runs") as answer:
        (run,) = json.load(answer)["runs"]
    states = {worker["name"]: worker["spans"][0]["state"] for worker in run["workers"]}
    assert {name for name, state in states.items() if state != "found"} == {"rank500", "rank777"}
