"""``kernel_details.csv``: its rows are those of the trace view, with more digits and facts; what only it has is drawn too."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.base import Params
from tb_plugin.formats.ascend.kernel_details import Kernels, places_among
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.schema import MISSING, EventKind, MatrixUse
from tb_plugin.model.trace.table import RawTrace
from tb_plugin.views.overview.view import Overview
from tests.depth import examples
from tests.formats.ascend.folders import ALEXNET, GPT, QWEN, codes, files, folder, needs_recorded, raw_of, table_of
from tests.formats.ascend.test_timeline import GROUPS, at, names, task, x

HEAD = (
    "Step Id,Device_id,Task ID,Stream ID,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim"
)


def line(name: str, us: float, dur: str, core: str = "AI_CORE", stream: str = "2", **more: str) -> str:
    step, device = more.get("step", "12"), more.get("device", "4")
    return f"{step},{device},77,{stream},{name},{more.get('type', 'T')},{core},{at(us)}\t,{dur},0,24"


def profile(lines: list[str], *events: Any, head: str = HEAD) -> Any:
    content = {"kernel_details": "\r\n".join([head, *lines]) + "\r\n"}
    return files(trace_view=[*names(), *events], **content) if events else files(**content)


def rows(raw: RawTrace) -> list[tuple[str, int, int]]:
    """Name, begin and duration of each row, in nanoseconds."""
    texts = raw.strings.take(raw.name).to_pylist()
    return sorted(zip(texts, raw.start_ns.tolist(), raw.dur_ns.tolist(), strict=True))


def fact(raw: RawTrace, key: str) -> dict[str, Any]:
    """A fact by the name of its row."""
    (column,) = (each for each in raw.others if each.key == key)
    texts = raw.strings.take(raw.name[column.row]).to_pylist()
    values = raw.strings.take(column.value).to_pylist() if column.is_text else column.value.tolist()
    return dict(zip(texts, values, strict=True))


def ns(us: float) -> int:
    return int(at(us).replace(".", ""))


def test_durations_are_the_digits_of_the_file() -> None:
    """The trace view rounds; the table has the kernel's duration, and there is one row of each."""
    raw = raw_of(profile([line("mm", 20.123, "10.123")], task("mm", 20.123, 10.1)))
    assert rows(raw) == [("mm", ns(20.123), 10123)]
    assert (
        fact(raw, "Type") == {"mm": "T"} and fact(raw, "Step Id") == {"mm": 12} and fact(raw, "Block Dim") == {"mm": 24}
    )


@pytest.mark.parametrize(("off_ns", "is_one"), [(0, True), (999, True), (-1000, True), (1001, False)])
def test_a_kernel_is_that_of_its_name_within_a_microsecond(off_ns: int, is_one: bool) -> None:
    raw = raw_of(profile([line("mm", 20 + off_ns / 1000, "7.5")], task("mm", 20, 10)))
    assert len(raw.start_ns) == (1 if is_one else 2)
    assert raw.dur_ns[0] == (7500 if is_one else 10_000) and raw.start_ns[0] == ns(20)


def test_the_nearest_has_the_row_and_others_get_rows_of_their_own() -> None:
    lines = [line("mm", 20.4, "1"), line("mm", 20.1, "2"), line("add", 20, "3")]
    raw = raw_of(profile(lines, task("mm", 20, 9), task("relu", 20, 9)))
    assert rows(raw) == [("add", ns(20), 3000), ("mm", ns(20), 2000), ("mm", ns(20.4), 1000), ("relu", ns(20), 9000)]


def test_without_a_trace_view_kernels_stand_on_streams_of_their_device() -> None:
    send = line("hcom_send__1_0_1", 40, "5", "COMMUNICATION", "N/A")
    lines = [line("mm", 20, "10"), line("add", 31, "2", "AI_VECTOR_CORE", "3"), send]
    table = table_of(profile(lines))
    assert [int(kind) for kind in table.kind] == [EventKind.KERNEL] * 3
    tracks = [table.tracks[track] for track in table.track]
    assert [track.tid for track in tracks] == ["2", "3", "Communication"] and all(track.is_device for track in tracks)
    assert [device.id for device in table.devices] == ["4"] and table.is_collective.tolist() == [False, False, True]
    assert table.dur_ns.tolist() == [10_000, 2000, 5000] and table.start_ns.tolist() == [0, 11_000, 20_000]


@pytest.mark.parametrize("label", ["COMMUNICATION", "HCCL"])
def test_communication_of_each_era_is_known_by_its_core(label: str) -> None:
    raw = raw_of(profile([line("my_exchange", 20, "10", label, "N/A")], x("my_exchange", GROUPS, 0, at(20), 10)))
    assert raw.is_collective.tolist() == [True] and len(raw.start_ns) == 1


def test_cores_tell_the_matrix_unit() -> None:
    cores = {
        "AI_CORE": "YES",
        "MIX_AIC": "YES",
        "AI_VECTOR_CORE": "NO",
        "MIX_AIV": "NO",
        "AI_CPU": "NO",
        "DSA_SQE": "NO",
    }
    cores |= {"COMMUNICATION": "NO", "N/A": "UNKNOWN"}
    lines = [line(f"k{core}", 10 * i, "1", core) for i, core in enumerate(cores)]
    raw = raw_of(profile(lines))
    found = dict(zip(raw.strings.take(raw.name).to_pylist(), raw.uses_matrix_unit.tolist(), strict=True))
    assert {core: MatrixUse(found[f"k{core}"]).name for core in cores} == cores


def test_level_0_has_eight_columns() -> None:
    head = "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim"
    raw = raw_of(profile([f"50,mm,N/A,N/A,{at(1)}\t,2.5,0,0"], head=head))
    assert rows(raw) == [("mm", ns(1), 2500)] and raw.uses_matrix_unit.tolist() == [MatrixUse.UNKNOWN]


def test_columns_that_nobody_knows_are_kept_as_they_are() -> None:
    head = f"{HEAD},aic_new_ratio,Free words,Whole"
    raw = raw_of(profile([f"{line('mm', 1, '2')},0.25,a b,7", f"{line('add', 9, '2')},N/A,,8"], head=head))
    assert fact(raw, "aic_new_ratio") == {"mm": 0.25} and fact(raw, "Free words") == {"mm": "a b"}
    assert fact(raw, "Whole") == {"mm": 7, "add": 8}


def test_facts_of_both_files_are_the_tables() -> None:
    raw = raw_of(profile([line("mm", 20, "10")], task("mm", 20, 10, **{"Task ID": 5, "Batch Id": 3})))
    assert fact(raw, "Task ID") == {"mm": 77} and fact(raw, "Batch Id") == {"mm": 3}


def test_rows_that_cannot_be_kernels_are_counted() -> None:
    lines = [
        line("good", 1, "2"), line("", 2, "2"), line("no duration", 3, ""), line("before its begin", 4, "-1"),
        line("text", 5, "long"), line("k", 6, "1").replace(at(6), "soon"),
        line("k", 7, "1").replace(at(7), "9223372036854775807"),
    ]  # fmt: skip
    raw = raw_of(profile(lines))
    assert [name for name, *_ in rows(raw)] == ["good"]
    told = {issue.code: issue.count for issue in raw.report.issues}
    assert told == {"bad_row": 6, "bad_cell": 3} and raw.report.events_dropped == 6


def test_times_that_cannot_be_right_match_nothing() -> None:
    raw = raw_of(profile([line("mm", 20, "1").replace(at(20), "-9000000000000000")], task("mm", 20, 9)))
    assert len(raw.start_ns) == 2


@pytest.mark.parametrize("missing", ["Name", "Start Time(us)", "Duration(us)"])
def test_without_what_makes_a_kernel_none_is_read_and_the_rest_opens(missing: str) -> None:
    head = HEAD.replace(missing, "Other")
    raw = raw_of(profile([line("mm", 20, "1")], task("mm", 20, 9), head=head))
    assert rows(raw) == [("mm", ns(20), 9000)] and codes(raw, "kernel_details.csv") == {"missing_columns"}


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6000)), max_size=8),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6000)), max_size=8),
)
@examples(25, 2000)
def test_places_are_of_the_same_name_and_near_and_taken_once(
    ours: list[tuple[int, int]], theirs: list[tuple[int, int]]
) -> None:
    name, start = (np.array([each[i] for each in ours], dtype) for i, dtype in ((0, np.int32), (1, np.int64)))
    other_name, other_start = (
        np.array([each[i] for each in theirs], dtype) for i, dtype in ((0, np.int32), (1, np.int64))
    )
    none = np.full(len(ours), MISSING, np.int32)
    flags = np.zeros(len(ours), np.bool_)
    kernels = Kernels(name, start, start, none, none, flags, flags.astype(np.uint8), ())
    places = places_among(kernels, other_name, other_start, np.arange(len(theirs))).tolist()
    taken = [place for place in places if place != MISSING]
    assert len(set(taken)) == len(taken)
    for place, (its_name, its_start) in zip(places, ours, strict=True):
        near = [abs(its_start - s) for n, s in theirs if n == its_name and abs(its_start - s) <= 1000]
        if place != MISSING:
            assert theirs[place][0] == its_name and abs(theirs[place][1] - its_start) == min(near)
    unique = {each for each in ours if ours.count(each) == 1}
    for each in unique & {each for each in theirs if theirs.count(each) == 1}:
        assert places[ours.index(each)] != MISSING, "what is in both files is found"


@needs_recorded
def test_the_recorded_kernels_of_alexnet() -> None:
    """Counts and sums that the specification names, and a row of the trace view for every kernel."""
    raw = raw_of(folder(ALEXNET))
    core = fact_of_rows(raw, "Accelerator Core")
    assert Counter(core) == {"AI_VECTOR_CORE": 149, "AI_CORE": 23, "MIX_AIV": 13, "DSA_SQE": 2, "HCCL": 4}
    (column,) = (each for each in raw.others if each.key == "Accelerator Core")
    is_group = np.array(core) == "HCCL"
    assert raw.dur_ns[column.row[is_group]].sum() == 105_991_876  # rounded row by row, 105991.878 in all
    assert abs(int(raw.dur_ns[column.row[~is_group]].sum()) - 8_873_756) < 200
    drawn = next(each for each in raw.others if each.key == "Physic Stream Id").row
    assert set(column.row[~is_group].tolist()) <= set(drawn.tolist()), "every kernel is one of the trace view"
    assert raw.report.complete and codes(raw) == {"links_in_group"}


@needs_recorded
@pytest.mark.parametrize(("path", "count"), [(QWEN, 2463), (GPT, 20)], ids=["late 2025", "2023"])
def test_recorded_kernels_without_a_trace_view(path: Any, count: int) -> None:
    raw = raw_of(folder(path))
    assert (raw.kind == EventKind.KERNEL).sum() == len(raw.kind) == count
    core = np.array(fact_of_rows(raw, "Accelerator Core"))
    assert raw.is_collective.sum() == np.isin(core, ("HCCL", "COMMUNICATION")).sum() > 0


def fact_of_rows(raw: RawTrace, key: str) -> list[str]:
    (column,) = (each for each in raw.others if each.key == key)
    return list(raw.strings.take(column.value).to_pylist())


def test_at_level0_the_trace_view_tells_what_runs_on_cube_units() -> None:
    head = "Name,Type,Accelerator Core,Start Time(us),Duration(us)"
    lines = [f"{name},N/A,N/A,{at(us)}\t,2" for name, us in (("mm", 1), ("add", 5), ("odd", 9))]
    tasks = (task("mm", 1, 2, "AI_CORE"), task("add", 5, 2, "AI_VECTOR_CORE"))
    raw = raw_of(profile(lines, *tasks, head=head))
    use = dict(zip(raw.strings.take(raw.name).to_pylist(), raw.uses_matrix_unit.tolist(), strict=True))
    assert use == {"mm": MatrixUse.YES, "add": MatrixUse.NO, "odd": MatrixUse.UNKNOWN}


def test_ai_core_alone_in_a_trace_view_is_either_kind_of_core() -> None:
    """Trace views of January 2025 write it of kernels on vector cores, too; what the table lacks is then not known."""
    lines = [f"{name},T,{core},{at(us)}\t,2" for name, core, us in (("mm", "AI_CORE", 1), ("add", "AI_VECTOR_CORE", 5))]
    tasks = [task(name, us, 2, word) for name, us, word in (
        ("mm", 1, "AI_CORE"), ("add", 5, "AI_CORE"), ("cut", 9, "AI_CORE"), ("cpu", 20, "AI_CPU"), ("new", 30, "hcom_odd"),
    )]  # fmt: skip
    raw = raw_of(profile(lines, *tasks, head="Name,Type,Accelerator Core,Start Time(us),Duration(us)"))
    use = dict(zip(raw.strings.take(raw.name).to_pylist(), raw.uses_matrix_unit.tolist(), strict=True))
    assert use == {
        "mm": MatrixUse.YES, "add": MatrixUse.NO, "cut": MatrixUse.UNKNOWN, "cpu": MatrixUse.NO, "new": MatrixUse.UNKNOWN
    }  # fmt: skip
    assert fact(raw, "Core by Task Type") == {"cut": "AI_CORE or AI_VECTOR_CORE", "cpu": "AI_CPU"}
    facts = Overview().part(assemble(raw), Params()).facts
    assert {key: value for key, value in facts.items() if ".core." in key} == {
        f"device.4.core.{key}_ns": 2000
        for key in ("ai_core_cube", "ai_vector_core", "ai_core_cube_or_vector", "ai_cpu", "not_stated")
    }
