"""Traces of tools that nobody here knows: what their pages say, and what is not offered."""

from __future__ import annotations

from typing import Any

import pytest

from tb_plugin import registry
from tb_plugin.analysis.range_traces import is_range_trace
from tb_plugin.analysis.thread_and_stream_names import track_names
from tb_plugin.analysis.timeline.lanes import lanes_of, tracks_of
from tb_plugin.model.trace.extra_columns import NEVER_ENDED
from tb_plugin.payloads import Figures, Notices, Timeline, Tree
from tests.builders import part, payload_of, trace
from tests.conftest import sample
from tests.formats.test_chrome_rules import ev, table

OTHERS = (
    "chromium/startup_trace.json.gz",
    "clang/rows.json.gz",
    "jax_cpu/perfetto_trace.json.gz",
    "node/node_trace.1.log",
)
OFFERED = {"overview", "timeline", "stacks", "phases", "diff", "sql"}
PAGES = [analysis for analysis in registry.analyses() if analysis.traits.place != "detail"]


@pytest.mark.parametrize("name", [*OTHERS, "viztracer_cpu/result.json.gz"])
def test_only_pages_that_have_something_are_offered(name: str) -> None:
    table = sample(name)
    assert is_range_trace(table)
    offered = {page.id for page in PAGES if isinstance(table, page.model) and page.missing(table) is None}
    assert offered - {"distributed"} == OFFERED - ({"phases"} if name.startswith("viztracer") else set())


def said(payload: Any) -> list[str]:
    assert isinstance(payload, Notices)
    return [
        notice.text.format(**{figure.metric.key: figure.value for figure in notice.figures})
        for notice in payload.notices
    ]


def test_a_range_that_nothing_ends_is_told_where_it_leads() -> None:
    made = table(
        [ev("B", 0, "open"), ev("X", 2, "done", dur=3), ev("X", 20, "other", dur=80), ev("X", 0, "done", dur=1, tid=3)]
    )
    assert said(part(made, "overview").payloads["largest_costs"]) == [
        "other has the largest self time: 80000 of 101000 in ranges.",
        "open has the largest total time: 100000; 1 of its ranges never ends and lasts to the end of the trace.",
    ]
    (column,) = [column for column in made.others if column.key == NEVER_ENDED]
    assert [made.strings[int(made.name[row])] for row in column.row] == ["open"]


def test_ranges_of_0_ns_count_on_their_thread() -> None:
    found = part(table([ev("X", 0, "a", dur=5), ev("X", 1, "b", dur=0)]), "overview").frames["busiest_threads"]
    assert found.data["ranges"].to_pylist() == [2]


def test_overview_names_what_took_the_time() -> None:
    trace = table(
        [
            ev("X", 0, "outer", dur=10), ev("X", 1, "inner", dur=7), ev("X", 0, "other", dur=4, tid=3),
            ev("b", 0, "request", id=1), ev("e", 9, "request", id=1), ev("b", 2, "request", id=2),
            ev("e", 4, "request", id=2), ev("i", 5, "mark"), ev("M", None, "process_name", args={"name": "server"}),
        ]
    )  # fmt: skip
    found = part(trace, "overview")
    assert said(found.payloads["largest_costs"]) == [
        "inner has the largest self time: 7000 of 14000 in ranges.",
        "outer has the largest total time: 10000.",
    ]
    headline = payload_of(found, "headline", Figures)
    assert {figure.metric.key: figure.value for figure in headline.figures} == {
        "step_time_mean_ns": 10000, "ranges": 3, "range_threads": 2, "async_ranges": 2, "instants": 1,
    }  # fmt: skip
    rows = found.frames["longest_ranges"].data.select(["name", "range_own_ns", "range_total_ns"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("inner", 7000, 7000),
        ("other", 4000, 4000),
        ("outer", 3000, 10000),
    ]
    threads = found.frames["busiest_threads"].data.select(["thread", "thread_ranges_ns"]).to_pylist()
    assert [tuple(row.values()) for row in threads] == [("Thread 2", 10000), ("Thread 3", 4000)]
    (operation,) = found.frames["operations"].data.to_pylist()
    assert operation == {"name": "request", "calls": 2, "operation_total_ns": 11000, "operation_max_ns": 9000}
    assert "findings" not in found.payloads and "average_step" not in found.payloads


def test_only_moments_have_an_overview_too() -> None:
    found = part(table([ev("i", 5, "mark")]), "overview")
    assert "largest_costs" not in found.payloads and set(found.frames) == {"steps"}


def test_a_training_is_none_of_these() -> None:
    assert not is_range_trace(trace().op("aten::mm", 0, 5).table())


def test_threads_of_several_processes_stand_together_in_the_order_of_the_trace() -> None:
    def about(pid: int, name: str, order: int) -> list[Any]:
        return [
            ev("M", None, "process_name", pid=pid, args={"name": name}),
            ev("M", None, "process_sort_index", pid=pid, args={"sort_index": order}),
        ]

    trace = table(
        [
            *about(1, "page", 2), *about(7, "page", 1), *about(5, "browser", -1),
            *[ev("X", at, dur=1, pid=1) for at in range(3)], ev("X", 0, dur=1, pid=7, tid=7), ev("X", 0, dur=1, pid=7, tid=8),
            ev("M", None, "thread_sort_index", pid=7, tid=8, args={"sort_index": -5}),
            ev("b", 0, "load", pid=5, id=1), ev("e", 2, "load", pid=5, id=1), ev("X", 3, dur=1, pid=5, tid=5),
            ev("i", 3, "end", s="g"),
        ]
    )  # fmt: skip
    lanes = lanes_of(trace)
    drawn = [(track.title, track.subtitle) for track in tracks_of(trace, lanes, lanes.events)]
    assert drawn == [
        ("browser · Main thread", "ranges · 5"),
        ("browser · load", "asynchronous"),
        ("Global instants", "asynchronous"),
        ("page 7 · Thread 8", "ranges · 8"),
        ("page 7 · Main thread", "ranges · 7"),
        ("page 1 · Thread 2", "ranges · 2"),
    ]
    assert len({name.title for name in track_names(trace)}) == len(trace.tracks)


def test_operations_are_in_no_time_of_threads() -> None:
    trace = table([ev("X", 0, "a", dur=2), ev("b", 0, "load", id=1), ev("e", 9, "load", id=1), ev("i", 10, "end")])
    stacks = part(trace, "stacks")
    tree = stacks.payloads["stacks"]
    assert isinstance(tree, Tree) and [row["name"] for row in tree.rows] == ["a"]
    assert part(trace, "phases").frames["phases"].data["phase"].to_pylist() == ["a"]
    head = part(trace, "timeline").payloads["timeline"]
    assert isinstance(head, Timeline) and head.is_range_trace and not head.busy_is_device
    assert sum(head.busy) / len(head.busy) == pytest.approx(0.2, abs=0.01)


def test_moments_and_operations_are_found_and_counted_in_a_range_of_time() -> None:
    trace = table([ev("X", 0, "a", dur=9), ev("b", 0, "load", id=1), ev("e", 9, "load", id=1), ev("i", 5, "mark")])
    found = part(trace, "range", extra=(("start_ns", "4000"), ("end_ns", "6000"))).frames["range"].data.to_pylist()
    assert {(row["name"], row["kind"]) for row in found} == {
        ("a", "annotation"),
        ("load", "async"),
        ("mark", "instant"),
    }
    hits = part(trace, "find", search="mark").frames["hits"].data
    assert hits.num_rows == 1


def test_thread_time_is_a_duration_and_arrows_are_recorded() -> None:
    trace = table(
        [ev("X", 0, "a", dur=5, tts=3, tdur=2), ev("X", 9, "b", dur=1), ev("s", 1, "go", id=1), ev("f", 8, "go", id=1)]
    )
    event = payload_of(part(trace, "events", extra=(("event", "0"),)), "event", Figures)
    figure = next(figure for figure in event.figures if figure.metric.key == "args.thread time")
    assert (figure.value, figure.metric.unit, figure.metric.title) == (2000, "ns", "Thread time")
    flows: Any = part(trace, "flows", extra=(("event", "0"),)).payloads["flows"]
    assert [(flows.event[a], flows.event[b]) for a, b in zip(flows.from_, flows.to, strict=True)] == [(0, 1)]
    assert [flows.names[label] for label in flows.label] == ["go"]
