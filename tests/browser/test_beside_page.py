"""A trace and a snapshot of one process: a block leads to the operator that allocated it, and an operator to its blocks."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.conftest import SAMPLES, sample
from tests.snapshots import recorded_beside

TRACE = "synthetic_gpu/worker0.1795200788815973544.pt.trace.json.gz"
SNAPSHOT = {"run": "job", "worker": "worker0_memory"}


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("beside")
    (path / "job").mkdir()
    shutil.copy(SAMPLES / TRACE, path / "job")
    (path / "job" / "worker0_memory.pickle").write_bytes(recorded_beside(sample(TRACE)))
    return path


def small_block(address: str) -> dict[str, Any]:
    """A block that an operator asked for, and gave back after a while."""
    params = {"group": "held_blocks", "from": "0", "to": "100000", **SNAPSHOT}
    rows = ask(address, "table/allocations/held_blocks", limit="1000", **params)["rows"]
    return next(row for row in rows if row["begin_ns"] and row["life_ns"] and row["life_ns"] < 100_000_000)


def test_a_block_leads_to_its_operator_and_back(visit: Open, logdir: Path) -> None:
    tab = visit(logdir)
    tab.follow(view="allocations", **SNAPSHOT)
    block = small_block(tab.address)
    frame = tab.follow(view="allocations", block=str(block["block_row"]), **SNAPSHOT)
    # Nobody loads the trace unasked.
    frame.locator("[data-testid=block]").wait_for()
    frame.get_by_role("button", name="Find the operator").click()
    frame.get_by_role("button", name="Show the operator in the timeline").wait_for()
    frame = tab.settle()
    assert_healthy(frame)
    told = frame.get_by_role("region", name="Allocated in").inner_text()
    assert "matched by address and time" in told
    assert tab.overflow() <= 0
    frame.get_by_role("button", name="Show the operator in the timeline").click()
    frame = tab.settle()
    state = tab.state()
    assert (state["view"], state["worker"]) == ("timeline", "rank0")
    details = frame.locator("[aria-label='Event details']")
    details.get_by_role("button", name="Blocks in the snapshot").wait_for()
    facts = ask(tab.address, "view/events", run="job", worker="worker0", event=state["event"])["payloads"]["event"]
    operator = {figure["metric"]["key"]: figure["value"] for figure in facts["figures"]}
    assert operator["kind"] == "operator" and operator["name"] in told
    details.get_by_role("button", name="Blocks in the snapshot").click()
    frame = tab.settle()
    assert_healthy(frame)
    state = tab.state()
    assert (state["view"], state["worker"], state["group"]) == ("allocations", "worker0_memory", "held_blocks")
    low, high = int(state["min_begin_ns"]), int(state["max_begin_ns"])
    assert low <= block["begin_ns"] <= high and high - low <= operator["dur_ns"] + 1000
    filtered = {key: state[key] for key in ("min_begin_ns", "max_begin_ns", "from_ns", "to_ns")}
    rows = ask(tab.address, "table/allocations/held_blocks", **SNAPSHOT, **filtered)["rows"]
    assert block["block_row"] in [row["block_row"] for row in rows]
    assert frame.inner_text("[data-testid=count]").startswith(f"{len(rows)} ")
    tab.page.go_back()
    tab.settle()
    assert tab.state()["view"] == "timeline" and tab.state()["event"] == str(operator["event"])
