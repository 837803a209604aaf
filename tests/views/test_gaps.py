"""Gaps between the work of a stream: where they are, what the host did, and a plain recount."""

from __future__ import annotations

import time
from collections import Counter
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.blocking_calls import WAITS
from tb_plugin.analysis.idle import host_activity
from tb_plugin.errors import BadRequest
from tb_plugin.model.trace.schema import DEVICE_WORK, EventKind
from tb_plugin.model.trace.steps.windows import STEP_NAME
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.gaps import view as module
from tb_plugin.views.gaps.view import HOST_BUSY, HOST_WAITS, LAUNCHED, UNKNOWN
from tests.builders import TraceBuilder, kernel, memcpy, memset, name_of, part, trace
from tests.conftest import SAMPLE_FILES, UNLIKE, sample
from tests.depth import examples

HOST = (EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.RUNTIME, EventKind.PYTHON, EventKind.MODULE)


def rows(table: TraceTable, start: Any = "", end: Any = "", shortest: Any = "") -> list[dict[str, Any]]:
    extra = (("start_ns", str(start)), ("end_ns", str(end)), ("min_ns", str(shortest)))
    found: list[dict[str, Any]] = part(table, "gaps", extra=extra).frames["gaps"].data.to_pylist()
    return found


def pair(builder: TraceBuilder | None = None, launch: float = 70) -> TraceBuilder:
    """Work until 30 us and from 90 us on, launched at ``launch``: a gap of 60 us."""
    builder = builder or trace()
    builder.step(1, 0, 200).op("first", 0, 5).launches(kernel("k", 20, 10)).op("last", launch, 5)
    return builder.launches(kernel("l", 10, 90)).device(0)


def test_the_launch_came_late() -> None:
    builder = pair().op("load", 10, 40).op("part", 35, 10).python("f", 51, 15)
    (gap,) = rows(builder.table())
    assert gap == {
        "gap_of": "device",
        "lane": 0,
        "device": "0",
        "stream": "7",
        "start_ns": 30_000,
        "dur_ns": 60_000,
        "event": gap["event"],
        "name": "l",
        "cause": "Operator dispatch",
        "cause_key": "dispatch",
        "why": HOST_BUSY,
        "host_doing": "f",
        "host_operator": None,
        "host_doing_ns": 15_000,
    }, "of the 40 us until the launch: f 15, load and part 10 each, nothing 5"
    table = builder.table()
    assert table.strings[int(table.name[gap["event"]])] == "l"


def test_the_host_waited() -> None:
    (gap,) = rows(pair().call(10, 50, name="cudaStreamSynchronize").table())
    assert (gap["why"], gap["host_doing"], gap["host_doing_ns"]) == (HOST_WAITS, "cudaStreamSynchronize", 30_000)


def copying(name: str, begin: float, dur: float, call: str = "cudaMemcpyAsync") -> dict[str, Any]:
    """A gap of 60 us, until 70 us spent in a copy call from 35 to 65 us in ``aten::item``; the device copies meanwhile."""
    builder = pair().op("aten::item", 31, 36).op("aten::_local_scalar_dense", 33, 34)
    builder.launches(memcpy(dur, begin, name, device=1), at=35, dur=30, name=call)
    (gap,) = [gap for gap in rows(builder.table()) if gap["device"] == "0"]
    return gap


@pytest.mark.parametrize(
    ("name", "begin", "dur", "why"),
    [
        ("Memcpy DtoH (Device -> Pageable)", 36, 1, HOST_WAITS),
        ("Memcpy DtoH (Device -> Pageable)", 64, 9, HOST_WAITS),
        ("Memcpy DtoH (Device -> Pinned)", 60, 5, HOST_WAITS),
        ("Memcpy DtoH (Device -> Pinned)", 60, 5.001, HOST_BUSY),
        ("Memcpy HtoD (Pageable -> Device)", 40, 20, HOST_WAITS),
        ("Memcpy HtoD (Pageable -> Device)", 70, 20, HOST_BUSY),
        ("CopyDeviceToHost (Pageable)", 70, 20, HOST_WAITS),
    ],
)
def test_a_copy_call_waits_if_its_copy_ended_before_it_returned(name: str, begin: float, dur: float, why: str) -> None:
    gap = copying(name, begin, dur)
    assert (gap["why"], gap["host_doing"], gap["host_operator"]) == (
        why,
        "cudaMemcpyAsync",
        "aten::_local_scalar_dense",
    )
    assert gap["host_doing_ns"] == 30_000


def test_of_copy_calls_of_one_name_the_longest_decides() -> None:
    """Two calls that only queue a copy (5 us each), one that waits (20 us): 30 us of cudaMemcpyAsync in all."""
    builder = pair()
    for at, dur, ends in ((31, 5, 99), (40, 20, 59), (62, 5, 99)):
        builder.op(f"copy {at}", at, dur).launches(
            memcpy(1, ends - 1, device=1, stream=at), at=at, dur=dur, name="cudaMemcpyAsync"
        )
    (gap,) = [gap for gap in rows(builder.table()) if gap["device"] == "0"]
    assert (gap["why"], gap["host_operator"], gap["host_doing_ns"]) == (HOST_WAITS, "copy 40", 30_000)


def test_gaps_of_the_device_come_before_idle_side_streams() -> None:
    """Stream 7 works but for [30, 50) and [80, 90), stream 8 at [0, 5), [85, 88) and [200, 205) alone."""
    builder = trace().device(0)
    for begin, end in ((0, 30), (50, 80), (90, 190)):
        builder.on_device(kernel("main", end - begin, begin))
    for begin in (0, 85, 200):
        builder.on_device(kernel("side", 3 if begin == 85 else 5, begin, stream=8))
    table = builder.table()
    found = [
        (gap["gap_of"], gap["stream"], gap["start_ns"] // 1000, gap["dur_ns"] // 1000)
        for gap in rows(table, shortest=1)
    ]
    assert found == [
        ("device", "7", 30, 20), ("device", "8", 190, 10), ("device", "8", 80, 5), ("device", "7", 88, 2),
        ("stream", "8", 88, 112), ("stream", "8", 5, 80), ("stream", "7", 80, 10),
    ]  # fmt: skip


def test_the_work_was_launched_before() -> None:
    (gap,) = rows(pair(launch=40).op("later", 50, 60).table())
    assert (gap["why"], gap["host_doing"], gap["host_doing_ns"]) == (LAUNCHED, "later", 40_000)


@pytest.mark.parametrize(("launch", "why"), [(59.999, LAUNCHED), (60, HOST_BUSY)])
def test_half_of_the_gap_decides_of_a_stream_alone(launch: float, why: str) -> None:
    builder = pair(launch=launch).op("x", 0, 100).on_device(kernel("m", 100, 0, stream=8))
    assert [(gap["why"], gap["cause"]) for gap in rows(builder.table())] == [(why, None)]


def test_the_cause_decides_of_a_device() -> None:
    """A launch that begins at 50 us, in the first half of the gap, and takes 35: the host is what holds the device up."""
    builder = trace().op("first", 0, 5).launches(kernel("k", 20, 10)).op("last", 49, 40)
    builder.launches(kernel("l", 10, 90), at=50, dur=35)
    (gap,) = rows(builder.device(0).table())
    assert (gap["cause"], gap["why"]) == ("Launch calls", HOST_BUSY)


def test_nothing_speaks_for_it() -> None:
    (gap,) = rows(pair().table())
    assert (gap["why"], gap["host_doing"], gap["host_doing_ns"]) == (UNKNOWN, None, 40_000), "a step tells nothing"
    (alone,) = rows(trace().op("a", 0, 99).on_device(kernel("k", 5, 10)).on_device(memset(5, 40)).table())
    assert (alone["why"], alone["host_doing"], alone["host_doing_ns"]) == (UNKNOWN, None, None)


def test_another_stream_and_another_device_meanwhile() -> None:
    builder = pair().on_device(kernel("m", 15, 30, stream=8)).on_device(kernel("n", 60, 30, device=1))
    device, stream = rows(builder.table())
    assert (stream["gap_of"], stream["stream"], stream["dur_ns"]) == ("stream", "7", 60_000)
    assert (device["gap_of"], device["stream"], device["dur_ns"]) == ("device", "7", 45_000)


def test_what_still_runs_leaves_no_gap() -> None:
    builder = trace().op("a", 0, 200).on_device(kernel("long", 80, 0)).on_device(kernel("short", 5, 10))
    builder.on_device(kernel("late", 5, 100)).on_device(kernel("later", 5, 110))
    assert [(gap["start_ns"], gap["dur_ns"]) for gap in rows(builder.table())] == [(80_000, 20_000)]
    assert len(rows(builder.table(), shortest=5_000)) == 2


def test_a_gap_that_touches_the_window_is_whole() -> None:
    table = pair().table()
    assert rows(table, 80_000, 85_000) == rows(table)
    assert rows(table, 90_000, 99_000) == rows(table, 0, 30_000) == rows(table, shortest=60_001) == []


def test_the_longest_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LISTED", 2)
    builder = trace().op("a", 0, 900)
    for at in (0, 20, 60, 80, 200):
        builder.on_device(kernel("k", 5, at))
    table = builder.table()
    assert [gap["dur_ns"] for gap in rows(table)] == [115_000, 35_000]


@pytest.mark.parametrize("bounds", [(5, 5), (9, 2), ("x", 2), (0, 9, "1.5")])
def test_what_is_asked_wrongly_is_said(bounds: tuple[Any, ...]) -> None:
    with pytest.raises(BadRequest):
        rows(pair().table(), *bounds)


def recount(table: TraceTable, start: int, end: int, shortest: int) -> list[dict[str, Any]]:
    """Event by event; host time by walking over all changes inside a gap."""
    found = []
    kinds, strings = table.kind.tolist(), table.strings
    names = [strings[name] for name in table.name.tolist()]
    work = [i for i, kind in enumerate(kinds) if kind in DEVICE_WORK]
    host = [i for i, kind in enumerate(kinds) if kind in HOST and not STEP_NAME.match(names[i])]
    starts, ends = table.start_ns.tolist(), table.end_ns.tolist()
    # Work of zero length makes no device busy; on its stream it is an event like others.
    busy = [i for i in work if ends[i] > starts[i]]
    for column, events in ((table.device.tolist(), busy), (table.track.tolist(), work)):
        for one in {column[i] for i in work}:
            reach = None
            for i in (i for i in events if column[i] == one):
                begin = starts[i]
                if reach is not None and begin - reach >= max(shortest, 1) and reach < end and begin > start:
                    found.append(explained(table, names, host, starts, ends, reach, begin, i))
                reach = max(reach or 0, ends[i])
    return found


def explained(
    table: TraceTable, names: list[str], host: list[int], starts: list[int], ends: list[int],
    low: int, high: int, next: int,
) -> dict[str, Any]:  # fmt: skip
    gap: dict[str, Any] = {"start_ns": low, "dur_ns": high - low, "event": next}
    launch = int(table.launch[next])
    if launch < 0:
        return gap | {"why": UNKNOWN, "spent": None}
    begun = min(max(starts[launch], low), high)
    late = 2 * (begun - low) >= high - low
    until = begun if late else high
    around = [i for i in host if starts[i] < until and ends[i] > low]
    spent, calls = doing(around, table.track[launch], table, names, starts, ends, low, until)
    asks = int(table.operator[next])
    # A thread that waits for its queue has nothing open: whoever filled the queue is asked.
    if spent[None] == max(spent.values()) and asks >= 0 and table.track[asks] != table.track[launch]:
        spent, calls = doing(around, table.track[asks], table, names, starts, ends, low, until)
    return gap | {"why": None if late else LAUNCHED, "spent": spent, "calls": calls}


def doing(
    around: list[int], track: int, table: TraceTable, names: list[str], starts: list[int], ends: list[int],
    low: int, until: int,
) -> tuple[Counter[str | None], dict[str | None, set[int]]]:  # fmt: skip
    """How long a thread was innermost in each name, and in which calls."""
    mine = [i for i in around if table.track[i] == track]
    moments = {low, until, *(t for i in mine for t in (starts[i], ends[i]) if low < t < until)}
    spent: Counter[str | None] = Counter()
    calls: dict[str | None, set[int]] = {}
    for a, b in pairwise(sorted(moments)):
        open_now = [i for i in mine if starts[i] <= a and ends[i] > a]
        name = names[open_now[-1]] if open_now else None
        spent[name] += b - a
        calls.setdefault(name, set()).update(open_now[-1:])
    return spent, calls


def waits(table: TraceTable, call: int) -> bool:
    """By its name, or because a copy of it had ended when it returned, or goes to pageable memory."""
    copies = [i for i in np.flatnonzero(table.launch == call).tolist() if table.kind[i] == EventKind.MEMCPY]
    return WAITS.search(table.strings[int(table.name[call])]) is not None or any(
        table.end_ns[i] <= table.end_ns[call] or "DtoH (Device -> Pageable)" in table.strings[int(table.name[i])]
        for i in copies
    )


ONLY = {
    "Synchronizing calls": {HOST_WAITS},
    "Launch latency": {LAUNCHED},
    "Between kernels": {LAUNCHED},
    "Other stream": {LAUNCHED},
    "Unexplained": {LAUNCHED},
    "Not recorded": {UNKNOWN},
    "Python": {UNKNOWN, HOST_BUSY},
    "Graph launch": {LAUNCHED, HOST_BUSY},
}
"""What a gap of a device may say with each cause; with all others the host is busy."""


def assert_recounted(table: TraceTable, start: int, end: int, shortest: int) -> None:
    expected = {(gap["event"], gap["start_ns"]): gap for gap in recount(table, start, end, shortest)}
    found = rows(table, start, end, shortest)
    assert {(gap["event"], gap["start_ns"]) for gap in found} == set(expected)
    for gap in found:
        other = expected[gap["event"], gap["start_ns"]]
        assert gap["dur_ns"] == other["dur_ns"]
        if gap["gap_of"] == "device":
            assert gap["why"] in ONLY.get(gap["cause"], {HOST_BUSY})
            if gap["cause"] == "Python":
                assert gap["why"] == (UNKNOWN if gap["host_doing"] is None else HOST_BUSY)
        if other["spent"] is None:
            assert gap["gap_of"] == "device" or gap["why"] == UNKNOWN
            assert (gap["host_doing"], gap["host_doing_ns"]) == (None, None)
            continue
        most = max(other["spent"].values())
        assert gap["host_doing_ns"] == most == other["spent"][gap["host_doing"]], "of equals any"
        calls = other["calls"][gap["host_doing"]]
        longest = [i for i in calls if table.dur_ns[i] == max(table.dur_ns[j] for j in calls)]
        late = {HOST_WAITS if waits(table, i) else HOST_BUSY for i in longest} if calls else {UNKNOWN}
        if gap["gap_of"] == "stream":
            assert gap["why"] in ({other["why"]} if other["why"] else late), "of equals any"
        assert gap["host_operator"] in {name_of(table, int(table.operator[i])) for i in longest} or not longest


@pytest.mark.parametrize("name", UNLIKE, ids=lambda n: n.split(".")[0])
def test_a_sample_recounted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = sample(name)
    assert_recounted(table, 0, table.coverage.end_ns + 1, 10_000)
    monkeypatch.setattr(host_activity, "_MAX_PIECES", 50)  # few names at a time
    assert_recounted(table, table.coverage.end_ns // 3, table.coverage.end_ns // 2, 50_000)


drawn_work = st.lists(
    st.tuples(st.integers(0, 80), st.integers(0, 12), st.integers(0, 2), st.integers(0, 60)), max_size=10
)
drawn_host = st.lists(st.tuples(st.integers(0, 80), st.integers(0, 40), st.integers(0, 3)), max_size=10)


@given(drawn_work, drawn_host, st.integers(0, 90_000), st.integers(1, 90_000), st.integers(0, 9_000))
@examples(suite=25, deep=500)
def test_any_gaps_recounted(
    work: list[tuple[int, int, int, int]], host: list[tuple[int, int, int]], start: int, length: int, shortest: int
) -> None:
    builder = trace()
    for at, dur, what in host:
        if what == 3:
            builder.python("f", at, dur, tid=1)
        else:
            builder.op(("a", "b", "cudaDeviceSynchronize")[what], at, dur, tid=1 + at % 2)
    for i, (at, dur, stream, launched) in enumerate(work):
        if launched < 50:
            builder.call(launched, 1, corr=i + 1, tid=1 + i % 2)
        builder.on_device(kernel("k", dur, at, stream=stream), corr=i + 1)
    assert_recounted(builder.table(), start, start + length, shortest)


def test_lanes_are_those_of_the_timeline() -> None:
    table = sample(next(name for name in SAMPLE_FILES if name.startswith("synthetic_gpu")))
    timeline: Any = part(table, "timeline", extra=(("start_ns", "0"), ("end_ns", str(table.coverage.end_ns)))).payloads
    for gap in rows(table):
        track = timeline["timeline"].tracks[gap["lane"]]
        assert track.id == f"{gap['device']}/{gap['stream']}/work" and track.is_device
    for of in ("device", "stream"):
        lengths = [gap["dur_ns"] for gap in rows(table) if gap["gap_of"] == of]
        assert lengths == sorted(lengths, reverse=True)


def test_the_longest_activity_takes_linear_time() -> None:
    """Intervals of one name are far apart."""

    def seconds(count: int) -> float:
        host = object.__new__(host_activity.Host)
        rows = np.arange(count, dtype=np.int32)
        begin, names = rows.astype(np.int64) * 10, np.random.default_rng(7).integers(0, 997, count, np.int32)
        host._trace = SimpleNamespace(name=names, dur_ns=rows[::-1].copy())  # type: ignore[assignment]
        host._known = {0: (begin, rows)}
        spent = []
        for _ in range(3):
            start = time.process_time()
            found = host.longest_event(0, begin, begin + 10, host._trace.name.astype(np.int64))
            spent.append(time.process_time() - start)
            assert np.array_equal(found, rows)
        return min(spent)

    assert seconds(80_000) < 9 * seconds(20_000)
