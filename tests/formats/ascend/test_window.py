"""A window of an Ascend profile: the rows of the full read that touch it, with what the tables say of them."""

from __future__ import annotations

import functools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.errors import WindowUnsupported
from tb_plugin.formats.ascend.reader import AscendReader
from tb_plugin.formats.base import FileSize, ReadOptions, no_progress
from tb_plugin.formats.format_entry import as_windowed_reader
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.order import overlaps_range
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable, Window
from tb_plugin.model.trace.window import Survey, WindowRequest, choose, parse_window
from tb_plugin.storage.files import FileSource
from tests.conftest import SAMPLES
from tests.depth import examples
from tests.formats.ascend.folders import ALEXNET, OUTPUT, Files, folder, needs_recorded
from tests.formats.test_kineto_window import EVERYTHING, identities, linked

(RANK,) = (SAMPLES / "synthetic_ascend").glob("rank_1_*")


def survey_of(source: FileSource | Files, chunk_bytes: int = 512 * 1024) -> Survey:
    return AscendReader().survey(source, ReadOptions(chunk_bytes), no_progress)


def read(source: FileSource | Files, window: Window | None = None, chunk_bytes: int = 512 * 1024) -> TraceTable:
    return assemble(AscendReader().read(source, ReadOptions(chunk_bytes, window), no_progress))


@functools.cache
def full() -> TraceTable:
    return read(folder(RANK))


@functools.cache
def known() -> Survey:
    return survey_of(folder(RANK))


def between(begin: int, end: int) -> Window:
    return choose(known(), WindowRequest(times_ns=(begin, end)), EVERYTHING, 0, 0)


def expected_rows(table: TraceTable, window: Window) -> np.ndarray:
    """What touches the window, all calls that launched its work, and all work that its calls launched."""
    inside = overlaps_range(table.start_ns, table.end_ns, window.begin_ns, window.end_ns)
    call, work = table.kind == EventKind.RUNTIME, np.isin(table.kind, DEVICE_WORK)
    number = np.where(table.correlation > 0, table.correlation, MISSING)
    launching = call & np.isin(number, number[inside & work & (number != MISSING)])
    launched = work & np.isin(number, number[inside & call & (number != MISSING)])
    return np.asarray(inside | launching | launched)


def facts(table: TraceTable, rows: np.ndarray) -> Counter[tuple[object, ...]]:
    """What is stated of rows, under their names."""
    ids = identities(table)
    return Counter(
        (ids[row], column.key, table.strings[value] if column.is_text else value)
        for column in table.others
        for row, value in zip(column.row.tolist(), column.value.tolist(), strict=True)
        if rows[row]
    )


@needs_recorded
def test_the_survey_finds_what_the_full_read_of_a_recording_finds() -> None:
    table, found = read(folder(ALEXNET)), survey_of(folder(ALEXNET))
    assert (found.origin_ns, found.end_ns) == (table.origin_ns, table.coverage.end_ns)
    assert found.label == table.steps.label and found.lag_ns > 0
    assert np.abs(np.array(found.step_end_ns) - table.steps.end_ns).max() < 1000, (
        "the table has more digits of durations"
    )


@pytest.mark.parametrize("chunk_bytes", [512 * 1024, 5_000])
def test_the_survey_finds_what_the_full_read_finds(chunk_bytes: int) -> None:
    table, found = full(), survey_of(folder(RANK), chunk_bytes)
    steps = table.steps
    assert (found.origin_ns, found.end_ns) == (table.origin_ns, table.coverage.end_ns)
    assert (found.label, found.dropped) == (steps.label, steps.dropped) == (("12", "13"), ())
    assert (found.start_ns, found.step_end_ns) == (tuple(steps.start_ns), tuple(steps.end_ns))
    assert (found.host_start_ns, found.host_end_ns) == (tuple(steps.host_start_ns), tuple(steps.host_end_ns))
    launched = np.flatnonzero(table.launch != MISSING)
    assert found.lag_ns == (table.end_ns[launched] - table.start_ns[table.launch[launched]]).max()
    assert found.label and found.lag_ns > 0


def test_the_survey_counts_the_tables_that_are_cut() -> None:
    """A window that fits takes in its rows of the tables too."""
    source = folder(RANK)
    sizes = {name: source.size(name) for name in source.names()}
    cut = sum(
        size for name, size in sizes.items() if name.endswith(("kernel_details.csv", "_memory.csv", "_record.csv"))
    )
    view = sizes[f"{OUTPUT}trace_view.json"]
    need = AscendReader().peak_memory_bytes(
        {name: FileSize(size) for name, size in sizes.items() if not name.endswith("info_1.json")}
    )
    assert view + cut <= sum(known().cell_bytes) * 1.05 and 2 * sum(known().cell_bytes) <= need * 1.05


@examples(suite=8, deep=100)
@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from([2_000, 20_000, 1 << 20]))
def test_a_window_is_the_rows_of_the_full_read_that_touch_it(one: float, other: float, chunk_bytes: int) -> None:
    table, length = full(), known().end_ns
    begin, end = sorted((int(one * length), int(other * length)))
    window = between(begin, end + 1)
    part = read(folder(RANK), window, chunk_bytes)
    rows = expected_rows(table, window)
    ids = identities(table)
    assert Counter(identities(part)) == Counter(ids[i] for i in np.flatnonzero(rows).tolist())
    assert facts(part, np.ones(len(part), np.bool_)) == facts(table, rows)
    work = np.isin(table.kind, DEVICE_WORK)
    assert linked(part, "launch", np.isin(part.kind, DEVICE_WORK)) == linked(table, "launch", rows & work)
    inside = overlaps_range(table.start_ns, table.end_ns, window.begin_ns, window.end_ns)
    part_inside = overlaps_range(part.start_ns, part.end_ns, window.begin_ns, window.end_ns)
    assert linked(part, "parent", part_inside) == linked(table, "parent", inside)


def test_a_step_alone_has_its_kernels_memory_and_counters() -> None:
    table, window = full(), choose(known(), parse_window("13"), EVERYTHING, 0, 0)
    part = read(folder(RANK), window)
    assert part.steps.label == ("13",) and not part.coverage.complete
    begin, end = window.begin_ns, window.end_ns
    for of in ("totals", "counters"):
        times = getattr(table, of).time_ns
        assert getattr(part, of).time_ns.tolist() == times[(times >= begin) & (times < end)].tolist() != []
    held = (table.blocks.start_ns < end) & ((table.blocks.end_ns == MISSING) | (table.blocks.end_ns >= begin))
    assert part.blocks.bytes.tolist() == table.blocks.bytes[held].tolist() != table.blocks.bytes.tolist()
    report, whole = part.report, table.report
    assert report.events_in_file == whole.events_in_file
    assert report.events_loaded + report.events_outside == whole.events_loaded and report.events_outside > 0


def test_what_is_asked_by_an_operator_inside_has_it() -> None:
    table, window = full(), choose(known(), parse_window("13"), EVERYTHING, 0, 0)
    part = read(folder(RANK), window)
    asked = linked(part, "operator", np.isin(part.kind, DEVICE_WORK))
    everywhere = linked(table, "operator", np.isin(table.kind, DEVICE_WORK))
    there = set(identities(part))
    assert asked == {row: everywhere[row] if everywhere[row] in there else None for row in asked}
    assert sum(operator is not None for operator in asked.values()) > 10


def test_a_profile_without_a_trace_view_is_opened_whole_or_not() -> None:
    source = Files({f"{OUTPUT}kernel_details.csv": b"Name,Start Time(us),Duration(us)\na,1,2\n"})
    assert as_windowed_reader(AscendReader()) is not None
    with pytest.raises(WindowUnsupported, match="without a trace view"):
        survey_of(source)


def test_a_database_beside_a_window_is_named() -> None:
    source = folder(RANK)
    content = {name: source.open(name).read() for name in source.names()}
    content[f"{OUTPUT}ascend_pytorch_profiler_1.db"] = b"no database"
    part = read(Files(content), choose(known(), parse_window("13"), EVERYTHING, 0, 0))
    assert [(issue.code, issue.file) for issue in part.report.issues] == [
        ("database_left_out", "ascend_pytorch_profiler_1.db")
    ]


def test_what_each_kind_of_file_needs() -> None:
    def need(**sizes: int) -> int:
        return AscendReader().peak_memory_bytes(
            {name.replace("__", "."): FileSize(size) for name, size in sizes.items()}
        )

    assert need(trace_view__json=1000) == 2000
    assert need(kernel_details__csv=1000) == need(operator_memory__csv=1000) == need(l2_cache__csv=1000) == 4000
    assert need(ascend_pytorch_profiler__db=1000) == need(analysis__db=1000) == 6000
    assert need(trace_view__json=1000, operator_details__csv=1000) == 2000, "calls are not read where the view has them"
    assert need(kernel_details__csv=1000, operator_details__csv=1000) == 8000
    packed = AscendReader().peak_memory_bytes(
        {"trace_view.json.gz": FileSize(1000, True), "kernel_details.csv.gz": FileSize(10, True)}
    )
    assert packed == 15 * (2000 + 40)
