"""Stacks: what is one place, whose time it is, which thread, and nothing lost."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.flame.nodes import FlameGraph
from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.stack_frames import FRAMES
from tb_plugin.errors import BadRequest
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.stacks import view as stacks
from tb_plugin.views.stacks.options import WEIGHTS, Choice, choice_of
from tb_plugin.views.stacks.places import merged_stacks
from tests.builders import TraceBuilder, analysis, kernel, part, rows, trace
from tests.conftest import UNLIKE, sample

OPERATOR, RUNTIME, PYTHON, MODULE = EventKind.OPERATOR, EventKind.RUNTIME, EventKind.PYTHON, EventKind.MODULE
ANNOTATION = EventKind.ANNOTATION


def places(
    table: TraceTable,
    steps: tuple[str, ...] | None = None,
    by_thread: bool = False,
    thread: str | tuple[str, ...] = (),
    **choice: str,
) -> FlameGraph:
    """Of one thread or of several."""
    threads = (thread,) if isinstance(thread, str) else thread
    return merged_stacks(table, select_rows(table, steps), Choice(threads=threads, **choice), by_thread)


def paths(found: FlameGraph) -> list[str]:
    texts: list[str] = []
    for name, above in zip(found.name, found.parent.tolist(), strict=True):
        assert above < len(texts), "a place stands before what is beneath it"
        texts.append(name if above < 0 else f"{texts[above]};{name}")
    return texts


def folded(found: FlameGraph, weight: str = "host") -> list[tuple[str, int]]:
    """FlameGraph with time of their own, in microseconds."""
    own = (found.host_ns if weight == "host" else found.device_ns).tolist()
    return [(path, ns // 1000) for path, ns in zip(paths(found), own, strict=True) if ns]


def training() -> TraceBuilder:
    builder = trace().python("train.py(1): main", 0, 100).module("Net", 10, 60)
    builder.op("aten::mm", 20, 30).launches(kernel("gemm", 7), at=25, dur=5)
    return builder.op("aten::relu", 80, 5).launches(kernel("relu", 2))


def test_python_frames_with_the_operators_beneath_them() -> None:
    found = places(training().table())
    assert folded(found) == [
        ("train.py(1): main", 35), ("train.py(1): main;nn.Module: Net_0", 30),
        ("train.py(1): main;nn.Module: Net_0;aten::mm", 25),
        ("train.py(1): main;nn.Module: Net_0;aten::mm;cudaLaunchKernel", 5), ("train.py(1): main;aten::relu", 5),
    ]  # fmt: skip
    assert found.host_total_ns[0] == 100_000 == found.host_ns.sum()
    assert found.kind.tolist() == [PYTHON, MODULE, OPERATOR, RUNTIME, OPERATOR]


def test_python_alone_and_operators_alone() -> None:
    table = training().table()
    assert folded(places(table, of="python")) == [
        ("train.py(1): main", 40), ("train.py(1): main;nn.Module: Net_0", 60),
    ]  # fmt: skip
    assert folded(places(table, of="operators")) == [
        ("aten::mm", 25),
        ("aten::mm;cudaLaunchKernel", 5),
        ("aten::relu", 5),
    ]


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        ("both", [("train.py(1): main;nn.Module: Net_0;aten::mm", 7), ("train.py(1): main;aten::relu", 2)]),
        ("python", [("train.py(1): main", 2), ("train.py(1): main;nn.Module: Net_0", 7)]),
        ("operators", [("aten::mm", 7), ("aten::relu", 2)]),
    ],
)
def test_device_time_stands_at_the_frame_that_launched_it(of: str, expected: list[tuple[str, int]]) -> None:
    found = places(training().table(), of=of, weight="device")
    assert sorted(folded(found, "device")) == sorted(expected)


def test_a_launch_in_python_inside_an_operator_belongs_to_the_python_call() -> None:
    """As a kernel that Triton launches inside an autograd function."""
    builder = trace().op("Fused", 0, 100).python("fused.py(3): forward", 10, 80).launches(kernel("triton", 9), at=20)
    table = builder.table()
    assert folded(places(table, weight="device"), "device") == [("Fused;fused.py(3): forward", 9)]
    assert folded(places(table, of="operators", weight="device"), "device") == [("Fused", 9)]


def test_a_nanosecond_is_time() -> None:
    table = trace().op("short", 0, 0.001).op("none", 5, 0).table()
    found = places(table)
    assert (found.name, found.host_ns.tolist(), found.matches) == (["short"], [1], 1)


@pytest.mark.parametrize(("of", "rest"), [("both", 4), ("operators", 9), ("python", 4)])
def test_device_time_without_a_frame_is_kept(of: str, rest: int) -> None:
    builder = trace().python("main", 0, 50).launches(kernel("bare", 5), at=10)
    table = builder.on_device(kernel("stray", 4, at=70)).table()
    found = places(table, of=of, weight="device")
    name = "(no Python call)" if of == "python" else "(no operator)"
    assert dict(folded(found, "device"))[name] == rest
    assert found.calls[found.name.index(name)] == 0, "no frame, no call"
    assert found.device_ns.sum() == 9_000
    assert not len(places(table, of="operators"))
    assert name not in places(table, of=of, weight="device", thread="1:1").name, "it belongs to no thread"


def test_the_same_place_is_one_and_the_heavier_one_comes_first() -> None:
    builder = trace()
    for at in (0, 100):
        builder.python("main", at, 50).python("light", at, 10).python("heavy", at + 20, 20).op("aten::mm", at + 21, 3)
    found = places(builder.table())
    assert paths(found) == ["main", "main;heavy", "main;heavy;aten::mm", "main;light"]
    assert found.calls.tolist() == [2, 2, 2, 2]
    assert found.host_ns.tolist() == [40_000, 34_000, 6_000, 20_000]
    assert found.host_total_ns.tolist() == [100_000, 40_000, 6_000, 20_000]


def test_recursion_is_as_deep_as_it_was() -> None:
    builder = trace().python("f", 0, 30).python("f", 5, 20).python("f", 10, 5)
    assert folded(places(builder.table())) == [("f", 10), ("f;f", 15), ("f;f;f", 5)]


def test_of_calls_that_overlap_in_part_the_later_one_has_the_time() -> None:
    """It is a root of its own, as on the timeline; no nanosecond counts twice."""
    builder = trace().python("f", 0, 10).python("g", 5, 10)
    assert sorted(folded(places(builder.table()))) == [("f", 5), ("g", 10)]


def threads() -> TraceTable:
    builder = trace().op("aten::mm", 0, 10).launches(kernel("a", 3)).thread_name(1, "main").thread_name(2, "autograd")
    return builder.op("aten::mm", 0, 20, tid=2).launches(kernel("b", 4)).table()


def test_in_the_order_of_time_only_calls_that_follow_each_other_are_one() -> None:
    builder = trace().python("main", 0, 100)
    for number, name in enumerate(("load", "step", "step", "load")):
        builder.python(name, 20 * number, 10).op("aten::mm", 20 * number + 1, 5 + number)
    found = places(builder.table(), order="time")
    assert list(zip(paths(found), found.calls.tolist(), strict=True)) == [
        ("main", 1), ("main;load", 1), ("main;load;aten::mm", 1), ("main;step", 2), ("main;step;aten::mm", 2),
        ("main;load", 1), ("main;load;aten::mm", 1),
    ]  # fmt: skip
    assert found.host_ns.tolist() == [60_000, 5_000, 5_000, 7_000, 13_000, 2_000, 8_000]


def test_in_the_order_of_time_threads_stand_side_by_side() -> None:
    builder = trace()
    for at in (0, 20):
        builder.op("a", at, 5).op("b", at + 2, 5, tid=2)
    found = places(builder.table(), order="time")
    assert list(zip(found.name, found.host_ns.tolist(), strict=True)) == [("a", 10_000), ("b", 10_000)]


def test_threads_are_laid_over_each_other_unless_kept_apart() -> None:
    table = threads()
    assert folded(places(table)) == [("aten::mm", 30)]
    apart = places(table, by_thread=True)
    assert folded(apart) == [("aten::mm", 20), ("aten::mm", 10)]
    assert [table.tracks[i].tid for i in apart.thread] == ["2", "1"]


@pytest.mark.parametrize("thread", ["1:2", "2", "autograd"])
def test_one_thread(thread: str) -> None:
    assert folded(places(threads(), thread=thread)) == [("aten::mm", 20)]
    assert folded(places(threads(), thread=thread, weight="device"), "device") == [("aten::mm", 4)]


@pytest.mark.parametrize("thread", ["3", "0:7", "7", "<b>"])
def test_a_thread_that_is_not_there_is_said(thread: str) -> None:
    with pytest.raises(BadRequest, match="1:2, 1:1"):
        places(threads(), thread=thread)


def test_a_name_that_two_threads_have_names_neither() -> None:
    table = trace().op("a", 0, 1).op("b", 0, 1, tid=2).thread_name(1, "t").thread_name(2, "t").table()
    with pytest.raises(BadRequest, match="Several threads match"):
        places(table, thread="t")


def test_chosen_steps_keep_the_frames_around_them() -> None:
    builder = trace().python("main", 0, 210).step(1, 10, 90).step(2, 110, 90)
    builder.op("aten::mm", 20, 10).launches(kernel("k", 3)).op("aten::mm", 120, 30).launches(kernel("k", 4))
    table = builder.table()
    assert folded(places(table, ("2",))) == [("main;aten::mm", 30)], "main itself began before the step"
    assert folded(places(table, ("2",), weight="device"), "device") == [("main;aten::mm", 4)]
    assert places(table, ("2",)).calls.tolist() == [0, 1]


@pytest.mark.parametrize(("key", "value"), [("of", "kernels"), ("weight", "memory"), ("order", "size")])
def test_a_choice_that_is_none_is_said(key: str, value: str) -> None:
    with pytest.raises(BadRequest, match=f"{key} cannot be {value}"):
        choice_of(Params(extra=((key, value),)))
    assert choice_of(Params(extra=((key, ""),))) == Choice()


def test_nothing() -> None:
    assert len(places(trace().table())) == len(places(trace().table(), weight="device")) == 0


spans = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 30), st.integers(0, 15)), max_size=20)


@given(spans, st.lists(st.integers(0, 30), max_size=3), st.sampled_from([*FRAMES]), st.sampled_from(WEIGHTS))
def test_nothing_is_lost_and_the_heavy_comes_first(
    calls: list[tuple[int, int, int, int]], launches: list[int], of: str, weight: str
) -> None:
    builder = trace()
    for tid, which, at, dur in calls:
        if which == 0:
            builder.op(f"op{dur % 3}", at, dur, tid=tid)
        else:
            builder.python(f"f{dur % 3}", at, dur, tid=tid)
    for number, at in enumerate(launches):
        builder.call(at, 1, corr=number + 1, tid=0).on_device(kernel("k", number + 1, at=50 + at), corr=number + 1)
    table = builder.table()
    found = places(table, of=of, weight=weight)
    apart = places(table, of=of, weight=weight, by_thread=True)
    kept = found.host_ns if weight == "host" else found.device_ns
    work = of_kind(table.kind, *DEVICE_WORK)
    assert kept.sum() == (own_time(table, of) if weight == "host" else table.dur_ns[work].sum())
    assert kept.sum() == (apart.host_ns if weight == "host" else apart.device_ns).sum()
    timed = places(table, of=of, weight=weight, order="time")
    for one, other in ((apart, timed), (found, apart)):
        assert own_by_path(one, weight) == own_by_path(other, weight)
    total = (found.host_total_ns if weight == "host" else found.device_total_ns).tolist()
    beneath: dict[int, list[int]] = defaultdict(list)
    for place, above in enumerate(found.parent.tolist()):
        beneath[above].append(total[place])
    assert all(part == sorted(part, reverse=True) for part in beneath.values())
    for place in range(len(found)):
        assert total[place] == int(kept[place]) + sum(beneath[place]) > 0
    assert len(set(zip(paths(found), found.kind.tolist(), strict=True))) == len(found)


def own_by_path(found: FlameGraph, weight: str) -> dict[str, int]:
    sums: dict[str, int] = defaultdict(int)
    for path, ns in folded(found, weight):
        sums[path] += ns
    return sums


def own_time(table: TraceTable, of: str) -> int:
    """The time in which each thread is in any call, counted one microsecond at a time."""
    calls = [i for i in range(len(table)) if table.kind[i] in FRAMES[of]]
    busy = {
        (int(table.track[i]), moment)
        for i in calls
        for moment in range(int(table.start_ns[i]) // 1000, int(table.end_ns[i]) // 1000)
    }
    return 1000 * len(busy)


def recounted(table: TraceTable, of: str) -> tuple[dict[str, int], dict[str, int]]:
    """Own host and device time by path, one event at a time, of a trace whose calls nest; ranges are cut to nest as well."""
    starts, ends, kinds = table.start_ns.tolist(), table.end_ns.tolist(), table.kind.tolist()
    names = [re.sub(" at 0x[0-9a-f]+", "", name) for name in table.strings.take(table.name).to_pylist()]
    host: dict[str, int] = defaultdict(int)
    device: dict[str, int] = defaultdict(int)
    by_thread: dict[int, list[int]] = defaultdict(list)
    for i in np.flatnonzero(of_kind(table.kind, *FRAMES[of])).tolist():
        if kinds[i] != ANNOTATION:
            by_thread[int(table.track[i])].append(i)
    for i in np.flatnonzero((table.kind == ANNOTATION) & (ANNOTATION in FRAMES[of])).tolist():
        if not names[i].startswith("ProfilerStep#"):
            calls = by_thread[int(table.track[i])]
            first, last = starts[i], ends[i]
            starts[i] = max([ends[j] for j in calls if starts[j] < first < ends[j] < last], default=first)
            ends[i] = min([starts[j] for j in calls if first < starts[j] < last < ends[j]], default=last)
            by_thread[int(table.track[i])].append(i)
    path: dict[int, str] = {}
    for members in by_thread.values():
        members.sort(key=lambda i: (starts[i], -ends[i], i))
        around: list[int] = []
        for i in members:
            start, end = starts[i], ends[i]
            while around and ends[around[-1]] <= start:
                around.pop()
            assert not around or end <= ends[around[-1]]
            path[i] = ";".join(names[j] for j in (*around, i))
            host[path[i]] += end - start
            if around:
                host[path[around[-1]]] -= end - start
            around.append(i)
    for i in np.flatnonzero(of_kind(table.kind, *DEVICE_WORK)).tolist():
        source = int(table.launch[i] if table.launch[i] >= 0 else table.operator[i])
        at = starts[source]
        open_then = [
            j for j in by_thread[int(table.track[source])]
            if starts[j] <= at and (at < ends[j] or j == source) and kinds[j] != RUNTIME
        ]  # fmt: skip
        device[path[open_then[-1]] if source >= 0 and open_then else "none"] += int(table.dur_ns[i])
    return host, device


RECOUNTED = [name for name in UNLIKE if name.startswith(("torch215_cpu", "synthetic_gpu", "no_steps_cpu"))]


@pytest.mark.parametrize("name", RECOUNTED)
@pytest.mark.parametrize("of", [*FRAMES])
def test_every_place_of_a_sample_counted_one_event_at_a_time(name: str, of: str) -> None:
    table = sample(name)
    host, device = recounted(table, of)
    by_path: dict[str, int] = defaultdict(int)
    found = places(table, of=of)
    for text, ns in zip(paths(found), found.host_ns.tolist(), strict=True):
        by_path[text] += ns
    assert {k: v for k, v in by_path.items() if v} == {k: v for k, v in host.items() if v}
    found = places(table, of=of, weight="device")
    by_path = defaultdict(int)
    for text, ns in zip(paths(found), found.device_ns.tolist(), strict=True):
        by_path["none" if text.startswith("(no ") else text] += ns
    assert {k: v for k, v in by_path.items() if v} == {k: v for k, v in device.items() if v}


@pytest.mark.parametrize("name", UNLIKE)
def test_the_operators_have_the_times_of_the_operators_view(name: str) -> None:
    table = sample(name)
    if table.overlaps[table.kind == EventKind.RUNTIME].any():
        pytest.skip("calls that were invented cross the operators of a recording")
    ours: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for column, weight in enumerate(WEIGHTS):
        found = places(table, of="operators", weight=weight)
        own = (found.host_ns, found.device_ns)[column].tolist()
        for text, kind, ns in zip(found.name, found.kind.tolist(), own, strict=True):
            if kind != RUNTIME:
                ours[text][column] += ns
    # Ranges that the profiler counts among operators are annotations here.
    ranges = set(table.strings.take(table.name[table.kind == EventKind.ANNOTATION]).to_pylist())
    theirs = {
        r["name"]: [r["host_self_ns"], r["device_self_ns"]]
        for r in rows(table, "operators")
        if not (table.recorder.ranges_are_calls and r["name"] in ranges)
    }
    # Modules called by an operator are no part of its own time there; here no frame stands for them.
    within = table.parent[(table.kind == EventKind.MODULE) & (table.parent != MISSING)]
    for text in set(table.strings.take(table.name[within]).to_pylist()):
        ours[text][0] = theirs.get(text, [0])[0]
    assert {k: v for k, v in ours.items() if any(v)} == {k: v for k, v in theirs.items() if any(v)}


def test_the_page() -> None:
    found = part(training().table(), "stacks")
    tree: Any = found.payloads["stacks"]
    assert tree.value_columns == ["host_ns"] and tree.total_nodes == len(tree.rows) == 5
    assert tree.parent == [-1, 0, 1, 2, 0]
    assert tree.rows[2] == {
        "name": "aten::mm", "node_kind": "operator", "package": "aten", "framework": True, "calls": 1,
        "host_ns": 30_000, "host_own_ns": 25_000, "device_ns": 7_000, "device_own_ns": 7_000,
    }  # fmt: skip
    assert found.frames["threads"].data.to_pylist() == [
        {
            "thread": "Main thread", "thread_key": "1:1", "events": 6, "thread_host_ns": 100_000, "thread_wait_ns": 0,
            "thread_idle": False,
        }
    ]  # fmt: skip


def test_the_page_lists_all_threads_whichever_is_chosen() -> None:
    found = part(threads(), "stacks", extra=(("thread", "2"), ("weight", "device")))
    tree: Any = found.payloads["stacks"]
    assert [row["device_ns"] for row in tree.rows] == [4_000] and tree.value_columns == ["device_ns"]
    assert [row["thread"] for row in found.frames["threads"].data.to_pylist()] == ["autograd", "Main thread"]


def test_a_named_range_that_states_its_call_stack_is_a_frame_of_python_as_well() -> None:
    line = "train.py(3): loop"
    builder = trace().op("aten::mm", 30, 10, stack="train.py(9): net;train.py(3): loop")
    builder.op("load", 0, 20, stack=line, category="user_annotation").op("aten::copy_", 5, 10, stack=line)
    expected = [(f"{line};load", 10), (line, 10), (f"{line};train.py(9): net", 10)]
    assert sorted(folded(places(builder.table(), of="python"))) == sorted(expected)
    assert (f"{line};load", 10) in folded(places(builder.table()))


def test_a_page_gets_the_places_with_most_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "NODES_SENT", 3)
    builder = trace().python("main", 0, 100).python("a", 0, 10).python("b", 20, 40).python("c", 25, 30)
    tree: Any = part(builder.table(), "stacks").payloads["stacks"]
    assert ([row["name"] for row in tree.rows], tree.parent, tree.total_nodes) == (["main", "b", "c"], [-1, 0, 1], 4)


def test_a_trace_without_calls_says_how_to_get_them() -> None:
    missing = analysis("stacks").missing(trace().on_device(kernel("k", 1, at=0)).table())
    assert missing is not None and "with_stack" in missing.enable


def test_device_time_that_there_is_not_is_an_empty_picture_of_it() -> None:
    tree: Any = part(trace().op("a", 0, 5).table(), "stacks", extra=(("weight", "device"),)).payloads["stacks"]
    assert (tree.rows, tree.value_columns) == ([], ["device_ns"])
    assert "device_ns" in [column.metric.key for column in tree.columns]
    tree = part(trace().op("a", 0, 5).table(), "stacks").payloads["stacks"]
    assert "device_ns" not in [column.metric.key for column in tree.columns]
