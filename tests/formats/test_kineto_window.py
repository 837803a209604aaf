"""A window of a trace: exactly the rows of the full read that touch it, with their links, whatever the chunk."""

from __future__ import annotations

import functools
import gzip
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin import registry
from tb_plugin.errors import BadRequest, UnreadableTrace
from tb_plugin.formats._chrome.survey import Bounds
from tb_plugin.formats.base import GZIP_MAGIC, ReadOptions, no_progress
from tb_plugin.formats.kineto.reader import KinetoReader
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.order import LONG, overlaps_range
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING
from tb_plugin.model.trace.table import TraceTable, Window
from tb_plugin.model.trace.window import Survey, WindowRequest, choose, parse_window
from tests.builders import Bytes, kernel, trace
from tests.conftest import SAMPLE_FILES, SAMPLES, UNLIKE
from tests.depth import examples, needs_time, sampled
from tests.samples import OURS

(PERFETTO,) = [reader for reader in registry.readers() if reader.id == "perfetto"]
KINETO = [sample.name for sample in OURS if sample.reader.id == "kineto"]
EVERYTHING = 10**15
STEPPED = next(name for name in SAMPLE_FILES if name.startswith("synthetic_gpu"))
PYTHON = next(name for name in SAMPLE_FILES if name.startswith("transformer_cpu"))
SOME = (STEPPED, PYTHON, next(name for name in SAMPLE_FILES if name.startswith("synthetic_groups")))


@functools.cache
def content(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


def reader_of(data: bytes) -> Any:
    """Packets become PyTorch's JSON, of which windows are opened in the same way."""
    return PERFETTO if data[:2] == GZIP_MAGIC and PERFETTO.sniff(gzip.decompress(data)) else KinetoReader()


def survey_of(data: bytes, chunk_bytes: int = 512 * 1024) -> Survey:
    return reader_of(data).survey(Bytes(data, "x.json"), ReadOptions(chunk_bytes), no_progress)


def read(data: bytes, window: Window | None = None, chunk_bytes: int = 512 * 1024) -> TraceTable:
    return assemble(reader_of(data).read(Bytes(data, "x.json"), ReadOptions(chunk_bytes, window), no_progress))


@functools.cache
def full(name: str) -> TraceTable:
    return read(content(name))


@functools.cache
def known(name: str) -> Survey:
    return survey_of(content(name))


def between(name: str, begin: int, end: int) -> Window:
    return choose(known(name), WindowRequest(times_ns=(begin, end)), EVERYTHING, 0, 0)


def identities(table: TraceTable) -> list[tuple[object, ...]]:
    names = table.strings.take(table.name).to_pylist()
    where = [(track.pid, track.tid, track.is_device) for track in table.tracks]
    columns = (table.start_ns.tolist(), table.dur_ns.tolist(), names, table.kind.tolist(), table.correlation.tolist())
    return [(*row, where[track]) for *row, track in zip(*columns, table.track.tolist(), strict=True)]


def expected_rows(table: TraceTable, window: Window) -> np.ndarray:
    inside = overlaps_range(table.start_ns, table.end_ns, window.begin_ns, window.end_ns)
    launched = table.launch != MISSING
    rows = inside.copy()
    rows[table.launch[inside & launched]] = True
    rows[np.flatnonzero(launched)[inside[table.launch[launched]]]] = True
    return rows


def linked(table: TraceTable, column: str, rows: np.ndarray) -> dict[tuple[object, ...], object]:
    """Row -> the row that it points to, as identities."""
    ids, to = identities(table), getattr(table, column)
    return {ids[i]: ids[to[i]] if to[i] != MISSING else None for i in np.flatnonzero(rows).tolist()}


@needs_time
@pytest.mark.parametrize("name", sampled(KINETO, [name for name in KINETO if name in UNLIKE]))
def test_the_survey_finds_what_the_full_read_finds(name):
    table, found = full(name), known(name)
    assert (found.origin_ns, found.end_ns) == (table.origin_ns, table.coverage.end_ns)
    steps = table.steps
    if steps.recorded:
        assert (found.label, found.dropped) == (steps.label, steps.dropped)
        assert (found.start_ns, found.step_end_ns) == (tuple(steps.start_ns), tuple(steps.end_ns))
        assert (found.host_start_ns, found.host_end_ns) == (tuple(steps.host_start_ns), tuple(steps.host_end_ns))
    else:
        assert found.label == ()
    if table.report.format == "perfetto":  # what counts is the JSON that the packets become
        assert sum(found.cell_bytes) > table.report.text_bytes
    else:
        assert sum(found.cell_bytes) == pytest.approx(table.report.text_bytes, rel=0.03, abs=1000)


@needs_time
@pytest.mark.parametrize("chunk_bytes", sampled([2_000, 10_000], [10_000]))
def test_the_survey_does_not_depend_on_the_chunk_but_for_its_estimate(chunk_bytes):
    one, other = known(STEPPED), survey_of(content(STEPPED), chunk_bytes)
    assert one.lag_ns > 0
    assert [getattr(other, name) for name in ("origin_ns", "end_ns", "lag_ns", "label", "start_ns", "step_end_ns")] == [
        getattr(one, name) for name in ("origin_ns", "end_ns", "lag_ns", "label", "start_ns", "step_end_ns")
    ]


@needs_time
@examples(suite=8, deep=100)
@given(st.sampled_from(SOME), st.floats(0, 1), st.floats(0, 1), st.sampled_from([2_000, 20_000, 1 << 20]))
def test_a_window_is_the_rows_of_the_full_read_that_touch_it(name, one, other, chunk_bytes):
    table, length = full(name), known(name).end_ns
    begin, end = sorted((int(one * length), int(other * length)))
    window = between(name, begin, end + 1)
    part = read(content(name), window, chunk_bytes)
    rows = expected_rows(table, window)
    ids = identities(table)
    assert Counter(identities(part)) == Counter(ids[i] for i in np.flatnonzero(rows).tolist())
    inside = overlaps_range(table.start_ns, table.end_ns, window.begin_ns, window.end_ns)
    part_inside = overlaps_range(part.start_ns, part.end_ns, window.begin_ns, window.end_ns)
    for column in ("parent", "python_parent"):
        assert linked(part, column, part_inside) == linked(table, column, inside), column
    work = np.isin(table.kind, DEVICE_WORK)
    assert linked(part, "launch", np.isin(part.kind, DEVICE_WORK)) == linked(table, "launch", rows & work)
    whole = (table.start_ns >= window.begin_ns) & (table.end_ns <= window.end_ns)
    part_whole = (part.start_ns >= window.begin_ns) & (part.end_ns <= window.end_ns)
    assert part.self_ns[part_whole].sum() == table.self_ns[whole].sum()


@pytest.mark.parametrize("name", SOME)
def test_nothing_is_lost_without_a_count(name):
    table, window = full(name), between(name, 10**7, 3 * 10**7)
    report, whole = read(content(name), window).report, table.report
    assert report.events_in_file == whole.events_in_file
    assert report.events_loaded + report.events_outside == whole.events_loaded, (
        "the trace has as many events for any window"
    )
    assert report.events_other == whole.events_other
    assert 0 < report.events_loaded < whole.events_loaded
    moments = ((table.memory.time_ns >= 10**7) & (table.memory.time_ns < 3 * 10**7)).sum()
    assert report.events_loaded == expected_rows(table, window).sum() + moments


def test_a_row_that_crosses_the_edge_owns_only_what_is_inside():
    builder = trace().op("outer", 0, 100).op("before", 10, 20).op("inside", 50, 10).op("after", 80, 10)
    data = builder.bytes()
    window = choose(survey_of(data), WindowRequest(times_ns=(40_000, 70_000)), EVERYTHING, 0, 0)
    part = read(data, window)
    found = dict(zip(part.strings.take(part.name).to_pylist(), part.self_ns.tolist(), strict=True))
    assert found == {"outer": 20_000, "inside": 10_000}, "of 30 us inside the window 10 belong to the child"


def test_the_launch_of_what_runs_inside_and_what_was_launched_inside():
    builder = trace().op("first", 0, 10).launches(kernel("late", 105, 10)).op("alone", 12, 5)
    builder.op("second", 100, 10).launches(kernel("later", 300, 10)).op("last", 400, 1)
    data = builder.bytes()
    part = read(data, choose(survey_of(data), WindowRequest(times_ns=(90_000, 200_000)), EVERYTHING, 0, 0))
    names = part.strings.take(part.name).to_pylist()
    assert sorted(names) == ["cudaLaunchKernel", "cudaLaunchKernel", "late", "later", "second"]
    assert (part.launch[[names.index("late"), names.index("later")]] != MISSING).all()


def steps_of(window: Window) -> tuple[str, ...]:
    return window.steps.label


def test_as_many_whole_steps_as_fit():
    survey = known(STEPPED)
    room = [sum(survey.cell_bytes) * i // 12 for i in range(13)]
    fitting = [steps_of(choose(survey, WindowRequest(), each, 0, 0)) for each in room]
    assert fitting[0] == () and fitting[-1] == survey.label
    assert all(label == survey.label[: len(label)] for label in fitting)
    assert [len(label) for label in fitting] == sorted(len(label) for label in fitting)
    assert len(set(fitting)) > 2


def test_what_was_asked_for_bounds_the_window():
    survey = known(STEPPED)

    def chosen(text: str, room: int = EVERYTHING) -> Window:
        return choose(survey, parse_window(text), room, 7, 5)

    assert steps_of(chosen("2")) == ("2", "3", "4", "5")
    assert steps_of(chosen("2-3")) == ("2", "3")
    some = chosen("2", sum(survey.cell_bytes) // 3)
    assert some.steps.label[0] == "2" and 0 < len(some.steps.label) < 4
    assert (some.full.peak_memory_bytes, some.full.budget_bytes, some.full.steps) == (7, 5, survey.label)
    times = chosen("1000ns-90000000ns")
    assert (times.begin_ns, times.end_ns) == (1000, 90_000_000)
    assert chosen("1000ns", 10_000).end_ns < 90_000_000
    assert chosen("0ns").end_ns == survey.end_ns + 1, "the last event belongs to the trace"


@pytest.mark.parametrize("text", ["x", "5-", "-5", "9ns-3ns", "1-2-3", "1ns-2", "²", " 1", "1" * 30])
def test_no_window(text):
    with pytest.raises(BadRequest):
        parse_window(text)


@pytest.mark.parametrize("text", ["77", "3-2", "999999999999ns"])
def test_windows_that_the_trace_does_not_have(text):
    with pytest.raises(BadRequest):
        choose(known(STEPPED), parse_window(text), EVERYTHING, 0, 0)


def test_steps_of_a_trace_without_steps():
    survey = known(next(name for name in SAMPLE_FILES if name.startswith("no_steps")))
    with pytest.raises(BadRequest):
        choose(survey, parse_window("1"), EVERYTHING, 0, 0)
    half = choose(survey, WindowRequest(), sum(survey.cell_bytes) // 2, 0, 0)
    assert half.begin_ns == 0 and 0 < half.end_ns < survey.end_ns
    assert not half.steps.recorded


def test_the_steps_inside_are_those_of_the_full_read():
    table = full(STEPPED)
    part = read(content(STEPPED), choose(known(STEPPED), parse_window("2-3"), EVERYTHING, 0, 0))
    assert part.steps.label == ("2", "3") and part.steps.recorded
    for column in ("start_ns", "end_ns", "host_start_ns", "host_end_ns"):
        assert getattr(part.steps, column).tolist() == getattr(table.steps, column)[2:4].tolist()
    assert (part.coverage.complete, part.coverage.start_ns) == (False, table.steps.host_start_ns[2])


def test_times_that_cannot_be_right_move_no_survey():
    builder = trace().op("a", 1_700_000_000_000_000, 10).op("b", 1_700_000_000_000_050, 10)
    whole = read(builder.op("c", 0, 5).op("d", 1_700_000_000_000_020, -7).bytes())
    found = survey_of(builder.bytes())
    assert (found.origin_ns, found.end_ns) == (whole.origin_ns, whole.coverage.end_ns)


def test_no_list_no_survey():
    with pytest.raises(UnreadableTrace):
        survey_of(b'{"a": 1}')
    with pytest.raises(UnreadableTrace):
        survey_of(b'[{"a": 1}]')
    empty = survey_of(b'{"traceEvents": []}')
    assert (empty.origin_ns, empty.end_ns, empty.cell_ns) == (0, 0, ())


@pytest.mark.parametrize(("median", "first"), [(LONG - 1, -5), (LONG, -5), (LONG + 1, 7)])
def test_times_before_zero_count_where_most_begin_within_a_day_of_it(median: int, first: int) -> None:
    bounds = Bounds()
    bounds.add(np.array([-5, 7]), np.array([-1, 9]))
    assert bounds.take(median) == (first, 9)


@pytest.mark.parametrize(("steps", "more"), [(20, ""), (21, ", ...")])
def test_of_many_steps_some_are_named(steps: int, more: str) -> None:
    builder = trace()
    for i in range(steps):
        builder.step(i, at=10 * i, dur=10).op("aten::mm", 10 * i, 5)
    with pytest.raises(BadRequest) as refused:
        choose(survey_of(builder.bytes()), parse_window("99"), EVERYTHING, 0, 0)
    assert refused.value.do == f"It has: {', '.join(map(str, range(20)))}{more}."
