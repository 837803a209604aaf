"""Every rule of Chrome's trace format, one small case each: which rows, arrows and tracks come of it.

docs/formats/chrome.md lists where the rules are silent, what is done there, and what Perfetto does.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.formats.chrome_json.reader import ChromeJsonReader
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import TraceTable
from tests.builders import Bytes
from tests.formats.sources import issues

Json = dict[str, Any]


def table(events: Any, **root: Any) -> TraceTable:
    text = events if isinstance(events, bytes) else json.dumps({"traceEvents": events, **root}).encode()
    return assemble(ChromeJsonReader().read(Bytes(text, "x.json"), ReadOptions(), no_progress))


def ev(ph: str, ts: Any, name: str | None = "a", **more: Any) -> Json:
    event = {"ph": ph, "name": name, "pid": 1, "tid": 2, "ts": ts, **more}
    return {key: value for key, value in event.items() if value is not None}


def track_of(trace: TraceTable, row: int) -> str:
    track = trace.tracks[int(trace.track[row])]
    return f"{track.pid}/{'~' if track.is_async else ''}{track.tid}"


def rows(trace: TraceTable) -> list[str]:
    """Each row in a line: track, depth, name, begin and end in microseconds counted from the first."""
    return [
        f"{track_of(trace, i)} {'+' * int(trace.depth[i])}{trace.strings[int(trace.name[i])]}"
        f" {trace.start_ns[i] / 1000:g}-{trace.end_ns[i] / 1000:g}"
        for i in range(len(trace))
    ]


def arrows(trace: TraceTable) -> list[str]:
    names = trace.strings.take(trace.name).to_pylist()
    return [
        f"{names[a]}>{names[b]}" for a, b in zip(trace.arrows.tail.tolist(), trace.arrows.head.tolist(), strict=True)
    ]


SLICES: dict[str, tuple[Any, list[str], dict[str, int]]] = {
    "X": ([ev("X", 0, dur=5), ev("X", 1, "b", dur=2)], ["1/2 a 0-5", "1/2 +b 1-3"], {}),
    "X without a duration": ([ev("X", 0)], ["1/2 a 0-0"], {"missing_duration": 1}),
    "B and E nest": (
        [ev("B", 0), ev("B", 1, "b"), ev("E", 2, "b"), ev("E", 5)], ["1/2 a 0-5", "1/2 +b 1-2"], {},
    ),
    "E without a name closes the innermost": (
        [ev("B", 0), ev("B", 1, "b"), ev("E", 2, None), ev("E", 5, None)], ["1/2 a 0-5", "1/2 +b 1-2"], {},
    ),
    "E with a name closes the innermost of that name": (
        [ev("B", 0), ev("B", 1, "b"), ev("E", 5, "a")], ["1/2 a 0-5", "1/2 +b 1-5"], {"unfinished_range": 1},
    ),
    "B takes the name of its E": ([ev("B", 0, None), ev("E", 5, None)], ["1/2  0-5"], {}),
    "equal times stand in file order": (
        [ev("B", 0), ev("B", 0, "b"), ev("E", 3, "b"), ev("E", 3), ev("B", 3, "c"), ev("E", 4, "c")],
        ["1/2 a 0-3", "1/2 +b 0-3", "1/2 c 3-4"], {},
    ),
    "the file is in no order": ([ev("E", 5), ev("B", 0)], ["1/2 a 0-5"], {}),
    "threads do not mix": ([ev("B", 0), ev("E", 5, tid=3)], ["1/2 a 0-5"], {"unfinished_range": 1, "unmatched_end": 1}),
    "B without E lasts to the end": (
        [ev("B", 1), ev("X", 2, "b", dur=6)], ["1/2 a 0-7", "1/2 +b 1-7"], {"unfinished_range": 1},
    ),
    "E alone": ([ev("E", 1), ev("X", 2, "b", dur=1)], ["1/2 b 0-1"], {"unmatched_end": 1}),
    "i of a thread": ([ev("X", 0, dur=5), ev("i", 2, "i")], ["1/2 a 0-5", "1/2 +i 2-2"], {}),
    "I and R as i": ([ev("I", 0, s="t"), ev("R", 2, "r")], ["1/2 a 0-0", "1/2 r 2-2"], {}),
    "i of the process": ([ev("i", 0, s="p")], ["1/~Process instants a 0-0"], {}),
    "i of the trace": ([ev("i", 0, s="g")], ["/~Global instants a 0-0"], {}),
    "P": ([ev("P", 3)], ["1/2 a 0-0"], {}),
    "b and e": ([ev("b", 0, id=1), ev("e", 5, id=1, tid=9)], ["1/~a a 0-5"], {}),
    "b and e of one id nest": (
        [ev("b", 0, id=1), ev("b", 1, "c", id=1), ev("e", 2, "c", id=1), ev("n", 3, "m", id=1), ev("e", 5, id=1)],
        ["1/~a a 0-5", "1/~a +c 1-2", "1/~a +m 3-3"], {},
    ),
    "operations of one name share lanes": (
        [ev("b", 0, id=1), ev("b", 1, id=2), ev("e", 3, id=1), ev("b", 4, id=3), ev("e", 6, id=2), ev("e", 7, id=3)],
        ["1/~a a 0-3", "1/~a +a 1-6", "1/~a a 4-7"], {},
    ),
    "ids of two categories": (
        [ev("b", 0, id=1, cat="c"), ev("b", 1, "d", id=1, cat="d"), ev("e", 2, id=1, cat="c"),
         ev("e", 3, "d", id=1, cat="d")],
        ["1/~a a 0-2", "1/~d d 1-3"], {},
    ),
    "ids of two scopes": (
        [ev("b", 0, id=1, scope="x"), ev("e", 2, id=1, scope="y")],
        ["1/~a a 0-2"], {"unfinished_range": 1, "unmatched_end": 1},
    ),
    "a local id is the process's": (
        [ev("b", 0, id2={"local": 1}), ev("e", 2, id2={"local": 1}, pid=3)],
        ["1/~a a 0-2"], {"unfinished_range": 1, "unmatched_end": 1},
    ),
    "a global id is everybody's": ([ev("b", 0, id2={"global": "0xf"}), ev("e", 2, id=15, pid=3)], ["1/~a a 0-2"], {}),
    "legacy S, T, p, F": (
        [ev("S", 0, id=1), ev("T", 1, id=1, args={"step": "half"}), ev("p", 2, id=1), ev("F", 3, id=1)],
        ["1/~a a 0-3", "1/~a +half 1-1", "1/~a +a 2-2"], {},
    ),
    "objects live": (
        [ev("N", 0, id="0x1"), ev("O", 1, id="0x1", args={"snapshot": {}}), ev("D", 4, id="0x1")],
        ["1/~a a 0-4", "1/~a +a 1-1"], {},
    ),
    "an object that nobody destroys": (
        [ev("N", 0, id=1), ev("X", 1, "b", dur=8)], ["1/~a a 0-9", "1/2 b 1-9"], {"unfinished_range": 1},
    ),
    "ids as numbers and texts": ([ev("B", 0, pid="1", tid="2"), ev("E", 2)], ["1/2 a 0-2"], {}),
    "negative and huge pids": (
        [ev("X", 0, dur=1, pid=-1), ev("X", 2, dur=1, pid=2**40)], ["-1/2 a 0-1", f"{2**40}/2 a 2-3"], {},
    ),
    "times as texts": ([ev("X", "1.5", dur="2.25"), ev("X", "3", "b", dur=1)], ["1/2 a 0-2.25", "1/2 +b 1.5-2.5"], {}),
    "no time": ([ev("X", None, dur=1), ev("X", 1, "b", dur=1)], ["1/2 b 0-1"], {"missing_time": 1}),
    "memory dumps and clocks are not shown": (
        [ev("X", 0, dur=1), ev("v", 0), ev("V", 0), ev("c", 0), ev("(", 0), ev(")", 0)], ["1/2 a 0-1"], {"not_shown": 5},
    ),
    "a phase that nobody knows": ([ev("X", 0, dur=1), ev("?", 0)], ["1/2 a 0-1"], {"not_shown": 1}),
    "an array cut off": (
        b'[{"ph":"B","name":"a","pid":1,"tid":2,"ts":0},\n{"ph":"E","pid":1,"tid":2,"ts":4},\n{"ph":',
        ["1/2 a 0-4"], {"truncated_tail": 1, "unclosed_list": 1},
    ),
    "an array that ends in a comma": (
        b'[{"ph":"X","name":"a","pid":1,"tid":2,"ts":0,"dur":4},\n', ["1/2 a 0-4"], {"unclosed_list": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("events", "expected", "issues"), SLICES.values(), ids=SLICES)
def test_rows(events: Any, expected: list[str], issues: dict[str, int]) -> None:
    trace = table(events)
    found: dict[str, int] = {}
    for issue in trace.report.issues:
        found[issue.code] = found.get(issue.code, 0) + issue.count
    assert (rows(trace), found) == (expected, issues)


A, B = ev("X", 0, "a", dur=10), ev("X", 20, "b", dur=10)
FLOWS: dict[str, tuple[list[Json], list[str]]] = {
    "bp e binds the range around": ([A, B, ev("s", 5, id=1), ev("f", 25, id=1, bp="e")], ["a>b"]),
    "else the next range is meant": ([A, B, ev("s", 5, id=1), ev("f", 15, id=1)], ["a>b"]),
    "and one around its end is not": ([A, B, ev("X", 40, "c", dur=1), ev("s", 5, id=1), ev("f", 25, id=1)], ["a>c"]),
    "a step binds the range around": (
        [A, B, ev("X", 40, "c", dur=1), ev("s", 5, id=1), ev("t", 25, id=1), ev("f", 40, id=1)], ["a>b", "b>c"],
    ),
    "the begin of a range belongs to it": ([A, B, ev("s", 0, id=1), ev("f", 20, id=1, bp="e")], ["a>b"]),
    "another category": ([A, B, ev("s", 5, id=1, cat="x"), ev("f", 25, id=1, bp="e", cat="y")], []),
    "no range there": ([A, ev("s", 5, id=1), ev("f", 15, id=1, bp="e")], []),
    "ranges say it themselves": (
        [ev("X", 0, "a", dur=9, bind_id="0x7", flow_out=True), ev("X", 0, "in a", dur=2),
         ev("X", 20, "b", dur=9, bind_id="0x7", flow_in=True, flow_out=True),
         ev("X", 40, "c", dur=9, bind_id=7, flow_in=True)],
        ["a>b", "b>c"],
    ),
    "begins say it themselves": (
        [ev("B", 0, bind_id=7, flow_out=True), ev("E", 5), ev("b", 9, "b", id=4, bind_id=7, flow_in=True),
         ev("e", 10, "b", id=4)],
        ["a>b"],
    ),
    "from operators of B and E": ([ev("B", 0), ev("s", 1, id=1), ev("E", 5), B, ev("f", 20, id=1)], ["a>b"]),
}  # fmt: skip


@pytest.mark.parametrize(("events", "expected"), FLOWS.values(), ids=FLOWS)
def test_arrows(events: list[Json], expected: list[str]) -> None:
    assert arrows(table(events)) == expected


def facts(trace: TraceTable, row: int = 0) -> Json:
    found: Json = {}
    for column in trace.others:
        for at, value in zip(column.row.tolist(), column.value.tolist(), strict=True):
            if at == row:
                found[column.key] = trace.strings[value] if column.is_text else value
    return found


FACTS: dict[str, tuple[list[Json], Json]] = {
    "arguments of the end go before those of the begin": (
        [ev("B", 0, args={"x": 1, "y": 1}), ev("E", 5, args={"y": 2, "z": 3})], {"x": 1, "y": 2, "z": 3},
    ),
    "also where the end stands first in the file": ([ev("E", 5, args={"y": 2}), ev("B", 0, args={"y": 1})], {"y": 2}),
    "of operations too": ([ev("b", 0, id=9, args={"y": 1}), ev("e", 5, id=9, args={"y": 2})], {"y": 2, "id": "9"}),
    "clocks of threads": ([ev("X", 0, dur=5, tts=7, tdur=2.5)], {"thread time": 2500, "thread clock": 7000}),
    "clocks of threads at both ends": ([ev("B", 0, tts=7), ev("E", 5, tts=9)], {"thread time": 2000, "thread clock": 7000}),
    "the stack at the end": ([ev("X", 0, dur=5, estack=["main", "f"])], {"end stack": "f;main"}),
    "lists and objects as text": ([ev("X", 0, args={"x": [1, {"y": None}]})], {"x": '[1, {"y": null}]'}),
}  # fmt: skip


@pytest.mark.parametrize(("events", "expected"), FACTS.values(), ids=FACTS)
def test_facts(events: list[Json], expected: Json) -> None:
    assert facts(table(events)) == expected


FRAMES = {
    "1": {"name": "main", "category": "libc"},
    "2": {"name": "a;b", "parent": 1},
    "3": {"name": "loop", "parent": "3"},
}


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        ({"sf": 2}, "a,b;main"),
        ({"sf": "1"}, "main"),
        ({"sf": 3}, "loop"),
        ({"sf": 9}, None),
        ({"stack": ["main", "f"]}, "f;main"),
    ],
)
def test_call_stacks(stack: Json, expected: str | None) -> None:
    for events in ([ev("X", 0, dur=1, **stack)], [ev("B", 0, **stack), ev("E", 1)], [ev("P", 0, **stack)]):
        trace = table(events, stackFrames=FRAMES)
        found = [trace.strings[i] for i in trace.operators.stack.tolist()]
        assert found == ([expected] if expected else [])
        assert "stackFrames" not in trace.metadata


def test_counters() -> None:
    trace = table(
        [
            ev("C", 0, "q", args={"a": 1, "b": "2.5"}),
            ev("C", 2, "q", id=7, args={"a": 3}),
            ev("C", 3, "q", args={"a": "x"}),
        ]
    )
    found = trace.counters
    series = [(trace.strings[int(n)], trace.strings[int(s)]) for n, s in zip(found.name, found.series, strict=True)]
    assert list(zip(series, found.value.tolist(), strict=True)) == [
        (("q", "a"), 1), (("q", "b"), 2.5), (("q[7]", "a"), 3),
    ]  # fmt: skip
    assert issues(trace) == {"bad_counter": 1}


def test_names_and_order() -> None:
    def meta(what: str, **args: Any) -> Json:
        return ev("M", None, what, args=args)

    trace = table(
        [
            meta("process_name", name="old"), meta("process_name", name="new"), meta("process_labels", labels="GPU"),
            meta("process_sort_index", sort_index=-3), meta("thread_name", name="t"), meta("thread_sort_index", sort_index=4),
            ev("M", None, "thread_name", tid=99, args={"name": "has no events"}),
            ev("X", 0, dur=1), ev("b", 0, id=1), ev("e", 1, id=1),
        ]
    )  # fmt: skip
    thread, operation = trace.tracks
    assert (thread.process, thread.thread, thread.process_order, thread.thread_order) == ("new (GPU)", "t", -3, 4)
    assert (operation.process, operation.thread, operation.is_async, operation.thread_order) == (
        "new (GPU)",
        "",
        True,
        0,
    )


SOUP = st.recursive(
    st.just([]),
    lambda inner: st.lists(st.tuples(st.integers(0, 2), st.sampled_from("ab"), inner, st.integers(0, 2)), max_size=3),
    max_leaves=12,
)
"""Ranges beside and in each other: time before it, name, what is in it, time after that."""


@given(st.lists(SOUP, min_size=1, max_size=3))
def test_the_same_from_begin_and_end_as_whole(threads: list[Any]) -> None:
    marks: list[Json] = []
    whole: list[Json] = []
    parents: list[tuple[int, str, float, float, int]] = []

    def lay(tid: int, ranges: Any, at: int, deep: int) -> int:
        for before, name, inner, after in ranges:
            begin = at + before
            place = len(whole)
            whole.append(ev("X", begin, name, tid=tid))
            marks.append(ev("B", begin, name, tid=tid, args={"k": place}))
            at = lay(tid, inner, begin, deep + 1) + after
            marks.append(ev("E", at, name, tid=tid))
            whole[place] |= {"dur": at - begin, "args": {"k": place}}
            parents.append((tid, name, begin, at, place))
        return at

    for tid, ranges in enumerate(threads):
        lay(tid, ranges, 0, 0)
    by_marks, by_whole = table(marks), table(whole)
    assert rows(by_marks) == rows(by_whole)
    assert [facts(by_marks, i) for i in range(len(by_marks))] == [facts(by_whole, i) for i in range(len(by_whole))]
    first = min((begin for _, _, begin, _, _ in parents), default=0)
    expected = sorted((tid, name, (b - first) * 1000, (e - first) * 1000, k) for tid, name, b, e, k in parents)
    found = sorted(
        (int(by_marks.tracks[by_marks.track[i]].tid), by_marks.strings[int(by_marks.name[i])],
         int(by_marks.start_ns[i]), int(by_marks.end_ns[i]), facts(by_marks, i)["k"])
        for i in range(len(by_marks))
    )  # fmt: skip
    assert found == expected
    assert not issues(by_marks) and not issues(by_whole)


@given(st.lists(SOUP, min_size=1, max_size=2), st.randoms(use_true_random=False))
def test_operations_keep_their_lanes(threads: list[Any], random: Any) -> None:
    """Whatever the ids: no two rows of a lane overlap, and the tracks are as many as there are names."""
    events: list[Json] = []

    def lay(id_: int, ranges: Any, at: int) -> int:
        for before, name, inner, after in ranges:
            begin = at + before
            events.append(ev("b", begin, name, id=id_))
            at = lay(id_, inner, begin) + after
            events.append(ev("e", at, name, id=id_))
        return at

    for id_, ranges in enumerate(threads):
        lay(id_, ranges, random.randrange(3))
    trace = table(events)
    assert len(trace.tracks) <= 2 and all(track.is_async for track in trace.tracks)
    assert set(trace.kind.tolist()) <= {EventKind.ASYNC}
    for i in range(len(trace)):
        for j in range(i + 1, len(trace)):
            if (trace.track[i], trace.depth[i]) == (trace.track[j], trace.depth[j]):
                assert trace.end_ns[i] <= trace.start_ns[j] or trace.start_ns[i] == trace.start_ns[j] == trace.end_ns[i]


def _before_1980(ts: int) -> list[dict[str, Any]]:
    return [ev("X", 1000 * i, dur=800) for i in range(5)] + [ev("b", ts, "loop", id=1), ev("e", 4000, "loop", id=1)]


YEARS_46 = 1_461_972_216_707_720


@pytest.mark.parametrize(
    ("events", "set_aside"),
    [
        (_before_1980(-YEARS_46), 1),
        (_before_1980(YEARS_46), 1),
        ([*_before_1980(0)[:5], ev("X", -YEARS_46, dur=1)], 1),
        ([*_before_1980(0)[:5], ev("X", 10, dur=YEARS_46)], 1),
        ([*_before_1980(0)[:5], ev("C", -YEARS_46, args={"n": 1})], 1),
        ([*_before_1980(0)[:5], ev("i", YEARS_46, s="t")], 1),
        (_before_1980(0), 0),
    ],
)
def test_times_years_away_are_set_aside(events: Any, set_aside: int) -> None:
    trace = table(events)
    assert trace.report.events_quarantined == set_aside and trace.coverage.end_ns == 4_800_000
    assert [issue.count for issue in trace.report.issues if issue.code == "impossible_time"] == [1] * set_aside
