"""From raw rows to the model: impossible times, colliding ids, ties, and traces that lack almost everything."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from msgspec.structs import astuple

from tb_plugin.analysis.base import Params
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads.export import to_json
from tests.builders import TraceBuilder, facts, kernel, memcpy, model, name_of, named, row, rows, trace
from tests.samples import OF_TRACES

EPOCH = 1_700_000_000_000_000


def every_view(table: TraceTable) -> dict[str, Any]:
    """All views answer, and the page could parse each."""
    found = {}
    for analysis in OF_TRACES:
        view = analysis.answer([analysis.part(table, Params())], Params())
        found[analysis.id] = json.loads(to_json(view), parse_constant=pytest.fail)
    return found


# impossible times


def test_device_events_at_zero_are_set_aside() -> None:
    """C1: a thousand kernels at 0 for 0 must not stretch the axis over decades."""
    builder = trace().op("aten::mm", EPOCH, 10).launches(kernel("k", 5, EPOCH + 20))
    for i in range(1_000):
        builder.on_device(kernel("k", 0, 0), corr=9_000 + i)
    table = builder.table()
    assert table.coverage.end_ns == 25_000
    assert facts(table)["device.0.kernels"] == 1
    assert table.report.events_quarantined == 1_000
    assert [(i.code, i.count) for i in table.report.issues if i.outcome == "quarantined"] == [
        ("impossible_time", 1_000)
    ]


def test_any_event_at_zero_is_set_aside_in_a_trace_that_counts_from_an_epoch() -> None:
    """One host event whose time was never set would make the window half a century long."""
    table = trace().op("aten::mm", EPOCH, 10).op("aten::add", EPOCH + 20, 10).op("lost", 0, 10).table()
    assert table.coverage.end_ns == 30_000
    assert [r["name"] for r in rows(table, "operators")] == ["aten::add", "aten::mm"]


def test_a_trace_that_begins_at_zero_keeps_its_events() -> None:
    table = trace().op("aten::mm", 0, 10).launches(kernel("k", 5, 0), at=0).table()
    assert facts(table)["device.0.kernels"] == 1 and not table.report.events_quarantined


def test_times_centuries_away_are_set_aside() -> None:
    builder = (
        trace()
        .op("a", 0, 10)
        .op("b", 20, 10)
        .op("c", 30, 10)
        .raw(ph="X", cat="cpu_op", name="lost", pid=1, tid=1, ts=9_000_000_000_000_000, dur=1)
    )
    table = builder.table()
    assert table.report.events_quarantined == 1 and table.coverage.end_ns == 40_000


@pytest.mark.parametrize("dur", [-1, -10_000_000, 9_000_000_000_000_000])
def test_impossible_durations_are_set_aside(dur: int) -> None:
    table = trace().op("a", 0, 10).op("lost", 2, dur).launches(kernel("k", 2, 20), at=3).table()
    assert table.report.events_quarantined == 1
    assert [r["name"] for r in rows(table, "operators")] == ["a"]


@pytest.mark.parametrize(
    "times", [(-4e15, 4e15, 0), (-4.6e15, 4.6e15, 0), (9.2e15, 9.2e15, 9.1e15), (-9.2e15, -9.2e15, 0)]
)
def test_huge_times_never_wrap(times: tuple[float, ...]) -> None:
    builder = trace()
    for i, at in enumerate(times):
        builder.op(f"op{i}", int(at), 4_000_000_000_000_000)
    table = builder.table()
    assert (table.start_ns >= 0).all() and (table.dur_ns >= 0).all() and (table.end_ns >= table.start_ns).all()
    assert (table.self_ns >= 0).all()
    every_view(table)


def test_epoch_times_keep_their_nanoseconds() -> None:
    text = trace().op("a", 1, 1).text().replace('"ts": 1,', f'"ts": {EPOCH}.123,').replace('"dur": 1,', '"dur": 4.567,')
    table = model(text.encode())
    assert table.origin_ns == EPOCH * 1000 + 123 and table.dur_ns.tolist() == [4_567]


# identity


def test_a_host_thread_and_a_stream_with_the_same_ids_stay_apart() -> None:
    builder = trace().event("cpu_op", "aten::mm", 0, 100, 0, 7).event("kernel", "k", 10, 20, 0, 7, device=0, stream=7)
    table = builder.table()
    assert len(table.tracks) == 2
    assert [track.is_device for track in table.tracks] == [False, True]
    assert table.parent.tolist() == [-1, -1]
    assert row(table, "operators", name="aten::mm")["host_self_ns"] == 100_000


def test_threads_of_two_processes_stay_apart() -> None:
    table = trace().event("cpu_op", "a", 0, 100, 1, 7).event("cpu_op", "b", 10, 20, 2, 7).table()
    assert len(table.tracks) == 2 and table.parent.tolist() == [-1, -1]


def test_host_threads_come_before_streams_each_by_first_event() -> None:
    builder = trace().on_device(kernel("k", 1, 0, stream=9)).on_device(kernel("k", 1, 5, stream=8))
    table = builder.op("a", 8, 1, tid=44).op("b", 3, 1, tid=55).table()
    assert [track.tid for track in table.tracks] == ["55", "44", "9", "8"]


def test_thread_names_reach_their_tracks() -> None:
    table = trace().thread_name(5, "python").op("a", 0, 1, tid=5).table()
    assert table.tracks[0].thread == "python"


# order


def test_with_equal_bounds_what_usually_encloses_comes_first() -> None:
    builder = trace().call(0, 10, corr=1).op("aten::mm", 0, 10, ext=2).python("f", 0, 10, id=1).module("M", 0, 10, id=2)
    table = builder.annotation("ProfilerStep#1", 0, 10).table()
    kinds = [EventKind(int(k)).name for k in table.kind]
    assert kinds == ["ANNOTATION", "PYTHON", "MODULE", "OPERATOR", "RUNTIME"]
    assert name_of(table, int(table.parent[named(table, "cudaLaunchKernel")])) == "aten::mm"


def test_equal_operators_nest_by_external_id_whatever_the_file_s_order() -> None:
    for builder in (
        trace().op("a", 0, 10, ext=1).op("b", 0, 10, ext=2),
        trace().op("b", 0, 10, ext=2).op("a", 0, 10, ext=1),
    ):
        table = builder.table()
        assert name_of(table, int(table.parent[named(table, "b")])) == "a"


def test_sections_move_with_their_rows() -> None:
    builder = trace().op("late", 50, 5, shapes=[[2]]).op("early", 0, 5, shapes=[[1]])
    builder.launches(kernel("k", 5, 70, grid=[7, 1, 1]), memcpy(3, 60, bytes=11), at=1)
    found = {r["name"]: r["input_shape"] for r in rows(builder.table(), "operators", "operators_by_shape")}
    assert found == {"late": "[[2]]", "early": "[[1]]"}
    assert row(builder.table(), "kernels", "kernels_by_launch", name="k")["grid"] == "[7, 1, 1]"
    assert rows(builder.table(), "kernels", "copies")[0]["bytes"] == 11


def test_memory_events_before_the_first_event_have_negative_times() -> None:
    table = trace().op("a", 10, 5).memory(12, 100).memory(3, 50).table()
    assert table.memory.time_ns.tolist() == [-7_000, 2_000] and table.memory.bytes.tolist() == [50, 100]


# old names


@pytest.mark.parametrize(
    "name", ["Optimizer.step#SGD.step", "Optimizer.zero_grad#SGD", "DataParallel.forward", "[pl][profile]fit"]
)
def test_ranges_that_old_profilers_wrote_as_operators_are_none(name: str) -> None:
    table = trace().event("Operator", name, 0, 100, 1, 1).event("Operator", "aten::mm", 10, 20, 1, 1).table()
    assert [r["name"] for r in rows(table, "operators")] == ["aten::mm"]


def test_an_operator_that_only_resembles_one_stays() -> None:
    table = trace().op("MyDataParallel.forward", 0, 10).op("aten::Optimizer.x", 20, 10).table()
    assert len(rows(table, "operators")) == 2


# traces that lack almost everything

SPARSE: dict[str, TraceBuilder] = {
    "nothing": trace(),
    "names only": trace().thread_name(1, "python"),
    "memory only": trace().memory(5, 100).memory(9, -100),
    "one operator": trace().op("a", 0, 10),
    "one operator without length": trace().op("a", 5, 0),
    "one kernel": trace().on_device(kernel("k", 5, 3)),
    "one kernel without length": trace().on_device(kernel("k", 0, 3)),
    "one call": trace().call(0, 5, corr=1),
    "one copy": trace().on_device(memcpy(5, 3)),
    "one step": trace().step(1, 0, 10),
    "one step without length": trace().step(1, 5, 0),
    "one python call": trace().python("f", 0, 10, id=1),
    "one module": trace().module("M", 0, 10, id=1),
    "device annotation": trace().device_annotation("ProfilerStep#1", 0, 10),
    "wait": trace().event("cuda_sync", "Stream Wait", 0, 10, 0, 7, device=0, stream=7),
    "unknown category": trace().event("novelty", "x", 0, 10, 1, 1),
    "no category": trace().event(None, "x", 0, 10, 1, 1),
    "device unknown": trace().event("kernel", "k", 0, 10, -1, 7),
    "no properties": trace().meta(deviceProperties=[]).op("a", 0, 5).launches(kernel("k", 5)),
    "properties without kernels": trace().device(0).op("a", 0, 5),
    "no name": trace().raw(ph="X", cat="cpu_op", pid=1, tid=1, ts=0, dur=5),
    "null args": trace().raw(ph="X", cat="kernel", name="k", pid=0, tid=7, ts=1, dur=5, args=None),
    "odd args": trace().raw(
        ph="X", cat="kernel", name="k", pid=0, tid=7, ts=1, dur=5,
        args={"device": "0", "stream": None, "correlation": "x", "grid": 5, "blocks per SM": "many", "External id": 1e99},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", SPARSE)
def test_every_view_answers_for_a_trace_that_lacks_almost_everything(what: str) -> None:
    table = SPARSE[what].table()
    every_view(table)
    for analysis in OF_TRACES:
        analysis.missing(table)


def test_ten_thousand_nested_operators() -> None:
    builder = trace()
    for i in range(10_000):
        builder.op(f"level{i % 7}", i, 40_000 - 2 * i)
    table = builder.launches(kernel("k", 5, 50_000)).table()
    assert sum(r["host_self_ns"] for r in rows(table, "operators")) == 40_000_000
    assert {r["device_total_ns"] for r in rows(table, "operators")} == {5_000}


def test_thousands_of_tracks() -> None:
    builder = trace()
    for i in range(3_000):
        builder.op("a", i, 10, tid=10_000 + i).launches(kernel("k", 5, i, stream=i))
    table = builder.table()
    assert len(table.tracks) == 6_000
    assert row(table, "operators", name="a")["device_self_ns"] == 15_000_000
    every_view(table)


def test_columns_have_the_length_of_the_table() -> None:
    table = trace().step(1, 0, 50).op("a", 0, 10).launches(kernel("k", 5)).table()
    lengths = {len(v) for v in astuple(table) if isinstance(v, np.ndarray)}
    assert lengths == {4}
