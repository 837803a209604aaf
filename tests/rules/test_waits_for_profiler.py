"""While a program waits for a thread that is busy with the profiler's own work, that time is nobody's to save."""

from __future__ import annotations

import gzip
import re
from typing import Any

import pytest

from tb_plugin.analysis.blocking_calls import profiler_waits
from tb_plugin.analysis.step_shares import break_down
from tb_plugin.findings import finding
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Saving
from tb_plugin.rules._base import Scene
from tb_plugin.rules._ordered_findings import findings_of
from tb_plugin.rules._slow_steps import step_lengths
from tests.builders import part
from tests.formats.sources import DATA, needs_data
from tests.megengine.test_timeline import called, event, operator, raw, span, table

MS = 1_000_000


def saving(trace: TraceTable, rule: str) -> Saving:
    found = {each.rule.id: each.notice for each in findings_of(trace, None).all}[rule]
    assert found.saving is not None
    return found.saving


def costs(trace: TraceTable) -> list[dict[str, Any]]:
    """The figures of each sentence on the largest costs."""
    payload: Any = part(trace, "overview").payloads["largest_costs"]
    return [{f.metric.key: f.value for f in notice.figures} for notice in payload.notices]


def held(start: float = 0, end: float = 800, wait: float = 1000) -> TraceTable:
    """A step of 1.2 ms: from 20 us on the program waits for a worker that first starts the profiler, then runs operators."""
    return table(
        called("worker", 0), called("interpreter", 1), called("gpux:0", 2),
        *span("StartProfile", start, end),
        *operator("A", 1, 810, device=(815, 860)), *operator("A", 2, 870, device=(875, 920)),
        *operator("A", 3, 930, device=(935, 980)),
        *span("TensorWaitProp", 20, wait, tid=1),
        event("i", 1200, "StopStep", 1),
        *operator("A", 4, 1205, device=(1206, 1250)),
        event("i", 1260, "StopStep", 1),
        *span("StopProfile", 1300, 1310),
    )  # fmt: skip


def test_the_wait_for_the_profiler_is_the_only_answer() -> None:
    trace = held()
    (only,) = costs(trace)
    assert (only["limit"], only["held_name"]) == ("profiler", "StartProfile")
    assert only["largest_ns"] == 780_000 / 2, "from the begin of the wait at 20 us to the end of the start; two steps"
    parts = {category: int(ns.sum()) for category, ns in break_down(trace, None).parts.items()}
    assert parts["runtime"] == 780_000 + 50_000


def test_what_the_profiler_holds_up_is_no_saving_of_others() -> None:
    saved = saving(held(), "synchronising_calls")
    assert saved.high_ns * 2 <= 1.03 * 200_000, "of 980 us of waiting 200 are left"
    trace = held()
    notice = next(each.notice for each in findings_of(trace, None).all if each.rule.id == "synchronising_calls")
    assert {f.metric.key: f.value for f in notice.figures}["sync_ns"] == 100_000
    mine = saving(trace, "profiler_overhead")
    assert mine.low_ns * 2 >= 0.97 * 780_000, "what waits for it is surely gone with it"
    assert mine.high_ns * 2 == 780_000, "no more than it takes: the step begins with the wait"
    assert step_lengths(Scene(trace)).tolist()[0] == 1_180_000 - 780_000


def test_a_profiler_that_nobody_waits_for_changes_nothing() -> None:
    for trace in (held(0, 20), held(1000, 1010, wait=1000)):
        assert not len(profiler_waits(trace))
        assert all("held_ns" not in figures for figures in costs(trace))


def test_the_profiler_of_another_process_holds_nobody_up() -> None:
    trace = table(
        called("worker", 0), called("interpreter", 1), called("worker", 0, 8),
        *span("StartProfile", 0, 800, pid=8), *operator("A", 1, 810), *span("TensorWaitProp", 20, 1000, tid=1),
    )  # fmt: skip
    assert not len(profiler_waits(trace))


@needs_data
@pytest.mark.parametrize(("folder", "held_us"), [("all", 5450.746), ("backtrace", 0), ("plain", 0), ("scopes", 0)])
def test_recordings(folder: str, held_us: float) -> None:
    """Of all: TensorWaitProp begins at 2,172.353 us after StartProfile, which ends at 7,623.099."""
    (path,) = (DATA / "megengine" / folder).glob("*.chrome_timeline.json*")
    content = path.read_bytes()
    trace = assemble(raw(gzip.decompress(content) if path.suffix == ".gz" else content))
    found = profiler_waits(trace)
    assert round((found.end - found.start).sum() / 1000, 3) == held_us
    waits = next(each for each in findings_of(trace, None).all if each.rule.id == "synchronising_calls")
    figures = {f.metric.key: f.value for f in waits.notice.figures}
    assert waits.notice.saving is not None
    assert waits.notice.saving.high_ns <= 1.03 * float(figures["sync_ns"] or 0)
    if held_us:
        assert figures["sync_ns"] == pytest.approx(2.953 * MS, rel=1e-3), "5.68 ms less what the profiler holds up"
        assert costs(trace)[0]["largest_ns"] == pytest.approx(held_us * 1000 / 2)
        profiler = saving(trace, "profiler_overhead")
        told = findings_of(trace, None).all[0]
        assert told.notice.todo.startswith("The profiler starts in the first step.")
        assert told.rule.id == "profiler_overhead" and re.search(r"takes 3\.74 ms", finding(told.notice).text)
        assert held_us * 1000 / 2 * 0.97 <= profiler.low_ns <= profiler.high_ns < 3.745 * MS
