"""Counter events: every series of every event, whatever it is called; what is no number or no time is counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.formats.kineto.reader import KinetoReader
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.table import CounterEvents, RawTrace, TraceTable
from tb_plugin.model.trace.window import WindowRequest, choose
from tests.builders import Bytes, TraceBuilder, model, read, trace
from tests.formats.sources import issues

EPOCH = 1_700_000_000_000_000


def values(table: TraceTable | RawTrace) -> list[tuple[Any, ...]]:
    counters = table.counters
    texts = [[table.strings[int(i)] for i in ids] for ids in (counters.name, counters.series, counters.pid)]
    return list(zip(counters.time_ns.tolist(), *texts, counters.value.tolist(), strict=True))


def test_every_series_of_every_event_by_time() -> None:
    builder = trace().op("a", 10, 90).counter(30, "GPU", pid=0, used=5, free=2.5).counter(20.5, "GPU", pid=0, used=4)
    table = builder.counter(30, pid="x", value=-1).table()
    assert values(table) == [
        (10_500, "GPU", "used", "0", 4.0),
        (20_000, "GPU", "used", "0", 5.0),
        (20_000, "GPU", "free", "0", 2.5),
        (20_000, "c", "value", "x", -1.0),
    ]
    assert table.counters.event.tolist() == [1, 0, 0, 2]
    assert (table.report.events_loaded, table.report.events_other, table.report.issues) == (4, 0, ())


def test_ids_tell_counters_apart() -> None:
    builder = trace().op("a", 0, 9).raw(ph="C", name="n", id=7, pid=1, ts=1, args={"v": 1})
    assert [row[1] for row in values(builder.counter(2, "n", v=2).table())] == ["n[7]", "n"]


@pytest.mark.parametrize("bad", ["x", None, [1], {"a": 1}, "nan", "inf", "1e999", 10**400])
def test_what_is_no_number_is_left_out_and_counted(bad: Any) -> None:
    table = trace().op("a", 0, 9).counter(1, v=1, w=bad).counter(2, w=bad).counter(3).counter(4, v="2.5").table()
    assert [row[4] for row in values(table)] == [1.0, 2.5]
    found = {issue.code: (issue.outcome, issue.count) for issue in table.report.issues}
    assert found == {"bad_counter": ("dropped", 2), "bad_counter_value": ("note", 1)}
    report = table.report
    assert (report.events_in_file, report.events_loaded, report.events_dropped, report.events_other) == (5, 3, 2, 0)


@pytest.mark.parametrize("args", ["7", "null", "[1]", '"x"', "{}"])
def test_arguments_that_are_none(args: str) -> None:
    text = '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}, '
    raw = read((text + '{"ph": "C", "name": "c", "pid": 1, "ts": 1, "args": ' + args + "}]}").encode())
    assert (
        len(raw.counters.value) == 0
        and issues(raw).pop("bad_counter") == 1
        and set(issues(raw)) <= {"bad_counter", "odd_type"}
    )


def test_an_odd_neighbour_of_the_arguments() -> None:
    raw = trace().op("a", 0, 1).raw(ph="C", name=5, pid=1, ts=1, args={"v": 1}).raw_trace()
    assert values(raw) == [(1000, "5", "v", "1", 1.0)] and issues(raw) == {"odd_type": 1}


def test_times_that_cannot_be_right_are_counted() -> None:
    builder = trace().op("a", EPOCH, 10).op("b", EPOCH + 50, 10).counter(EPOCH + 5, v=1)
    for time in (0, -5, 9_000_000_000_000_000, -(10**40)):
        builder.counter(time, v=2, w=3)
    table = builder.counter("soon", v=4).table()  # type: ignore[arg-type]
    assert [row[0] for row in values(table)] == [5000]
    found = {issue.code: issue.count for issue in table.report.issues}
    assert (found["impossible_time"], found["missing_time"]) == (4, 1)
    report = table.report
    assert (report.events_in_file, report.events_loaded, report.events_dropped, report.events_quarantined) == (
        8,
        3,
        1,
        4,
    )


def test_epoch_times_keep_their_nanoseconds() -> None:
    text = trace().op("a", EPOCH, 9).counter(EPOCH, v=1).text()
    assert (
        values(model(text.replace(f'"ts": {EPOCH}, "args": {{"v"', f'"ts": {EPOCH}.001, "args": {{"v"').encode()))[0][0]
        == 1
    )


def test_a_trace_of_counters_alone() -> None:
    assert [row[0] for row in values(trace().counter(7, v=1).counter(5, v=2).table())] == [0, 2000]


def test_a_damaged_neighbour_does_not_matter() -> None:
    text = trace().op("a", 0, 1).counter(1, v=1).op("C:\\U", 2, 1).counter(3, v=2).text()
    raw = read(text.replace("C:\\\\U", "C:\\U").encode())
    assert [row[4] for row in values(raw)] == [1.0, 2.0] and issues(raw) == {"bad_escape": 1}


def window(data: bytes, begin: int, end: int) -> TraceTable:
    source, reader = Bytes(data, "x.json"), KinetoReader()
    survey = reader.survey(source, ReadOptions(), no_progress)
    chosen = choose(survey, WindowRequest(times_ns=(begin, end)), 10**15, 0, 0)
    return assemble(reader.read(source, ReadOptions(window=chosen), no_progress))


def test_a_window_holds_those_inside() -> None:
    data = trace().op("a", 0, 100).counter(10, v=1).counter(20, v=2, w=0).counter(30, v=3).bytes()
    part, whole = window(data, 20_000, 30_000), model(data)
    assert [row[::4] for row in values(part)] == [(20_000, 2.0), (20_000, 0.0)]
    assert (part.report.events_loaded, part.report.events_outside) == (2, 2)
    assert part.report.events_loaded + part.report.events_outside == whole.report.events_loaded


numbers = st.one_of(st.integers(-(10**20), 10**20), st.floats(), st.text(max_size=3), st.none(), st.booleans())
series = st.dictionaries(st.text(max_size=3), numbers, max_size=4)
drawn_events = st.lists(st.tuples(st.integers(0, 10**6), st.text(max_size=2), st.integers(0, 2), series), max_size=12)


def expected(events: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    found = []
    for at, name, pid, stated in events:
        for key, value in stated.items():
            try:
                number = float(value)
            except (TypeError, ValueError, OverflowError):
                continue
            if np.isfinite(number):
                found.append((at * 1000, name, key, str(pid), number))
    return found


@given(drawn_events, st.sampled_from([64, 300, 1 << 20]))
def test_any_counters_in_any_chunks(events: list[tuple[Any, ...]], chunk_bytes: int) -> None:
    builder: TraceBuilder = trace()
    for i, (at, name, pid, stated) in enumerate(events):
        builder.op(f"op{i}", at, 1).raw(ph="C", name=name, pid=pid, ts=at, args=stated)
    text = builder.text()
    if any(isinstance(v, float) and not np.isfinite(v) for *_, stated in events for v in stated.values()):
        raw = read(text.encode())  # the damaged piece is repaired: its numbers are none
        assert len(raw.start_ns) == len(events)
        return
    raw = read(text.encode(), chunk_bytes)
    assert values(raw) == expected(events)
    report = raw.report
    assert report.events_in_file == 2 * len(events) == report.events_loaded + report.events_dropped
    assert isinstance(raw.counters, CounterEvents) and raw.counters.event.max(initial=-1) < len(events)
