"""Runtime calls by name and by caller: their time, the time in which the device idles, and a plain recount."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.base import Params
from tb_plugin.model.trace.schema import DEVICE_WORK, EventKind, of_kind
from tb_plugin.model.trace.steps.windows import STEP_NAME
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.launches.view import CALLERS
from tests.builders import TraceBuilder, analysis, kernel, memcpy, model, part, row, rows, trace
from tests.conftest import UNLIKE, sample
from tests.depth import examples

BY_CALLER = "runtime_calls_by_caller"
STANDARD = "|".join(sorted(sys.stdlib_module_names))
THEIRS = re.compile(
    rf"(.*/(site|dist)-packages/)?torch/|.*lib/python3[.\d]*/(?!(site|dist)-packages)|<(built-in|frozen|method|slot)|({STANDARD})(/|\.py)"
)
"""Lines of PyTorch and of Python itself."""


def figures(table: TraceTable, name: str) -> dict[str, Any]:
    payload: Any = part(table, "launches").payloads[name]
    return {figure.metric.key: figure.value for figure in payload.figures}


def copying() -> TraceBuilder:
    """The device runs until 30 us and its copy from 60 to 70; the host is in the call of the copy from 20 to 72."""
    builder = trace().step(1, 0, 200).annotation("load", 5, 90).python("train.py(7): step", 6, 80)
    builder.python("<built-in method to of Tensor object>", 8, 70).op("aten::gemm", 8, 4).launches(kernel("k", 20, 10))
    return builder.op("aten::copy_", 19, 60).launches(memcpy(10, 60, bytes=64), at=20, dur=52, name="cudaMemcpyAsync")


def test_the_call_in_which_the_device_idles_stands_first() -> None:
    table = copying().table()
    first, second = rows(table, "launches", BY_CALLER)
    assert first == {
        "name": "cudaMemcpyAsync",
        "operator": "aten::copy_",
        "caller_phase": "load",
        "caller_frame": "train.py(7): step",
        "calls": 1,
        "device_idle_ns": 32_000,  # 30 to 60, and 70 to 72
        "host_total_ns": 52_000,
        "host_self_ns": 52_000,
        "max_ns": 52_000,
        "launched": 1,
        "bytes": 64,
    }
    assert (second["name"], second["operator"], second["device_idle_ns"], second["bytes"]) == (
        "cudaLaunchKernel", "aten::gemm", 0, None,
    )  # fmt: skip
    assert [found["name"] for found in rows(table, "launches", "runtime_calls")] == [first["name"], second["name"]]
    assert figures(table, "longest_call")["name"] == "cudaMemcpyAsync"
    assert figures(table, "longest_caller")["operator"] == "aten::copy_"
    assert figures(table, "summary") == {"calls": 2, "host_self_ns": 52_000, "device_idle_ns": 32_000}


def test_before_the_first_and_after_the_last_work_the_device_idles_too() -> None:
    builder = trace().op("a", 0, 100).launches(kernel("k", 10, 40), at=0, dur=45, name="cudaMalloc")
    table = builder.call(48, 10, name="cudaFree").table()
    assert row(table, "launches", "runtime_calls", name="cudaMalloc")["device_idle_ns"] == 40_000
    assert row(table, "launches", "runtime_calls", name="cudaFree")["device_idle_ns"] == 8_000


def test_a_call_inside_a_call_has_its_own_time() -> None:
    builder = trace().op("a", 0, 50).on_device(kernel("k", 5, 12)).call(10, 20, name="cudaLaunchKernel")
    builder.call(11, 8, name="cuLaunchKernel", category="cuda_driver")
    outer = row(builder.table(), "launches", "runtime_calls", name="cudaLaunchKernel")
    inner = row(builder.table(), "launches", "runtime_calls", name="cuLaunchKernel")
    assert (outer["host_total_ns"], outer["host_self_ns"], outer["device_idle_ns"]) == (20_000, 12_000, 12_000)
    assert (inner["host_total_ns"], inner["host_self_ns"], inner["device_idle_ns"]) == (8_000, 8_000, 3_000)
    frame = part(builder.table(), "launches").frames["runtime_calls"]
    assert not any(column.hidden for column in frame.columns)
    plain = part(copying().table(), "launches").frames["runtime_calls"]
    assert [column.metric.key for column in plain.columns if column.hidden] == ["host_self_ns"]
    again = builder.call(12, 2, name="cudaLaunchKernel").table()
    assert row(again, "launches", "runtime_calls", name="cudaLaunchKernel")["host_total_ns"] == 20_000


def test_a_thread_is_measured_against_the_devices_that_it_feeds() -> None:
    builder = trace().op("a", 0, 45, tid=1).launches(kernel("k", 10, 0, device=0))
    builder.op("b", 0, 45, tid=2).launches(kernel("k", 10, 20, device=1))
    for tid, name in ((1, "first"), (2, "second"), (3, "either")):
        builder.call(0, 40, tid=tid, name=name)
    table = builder.table()
    idle = {found["name"]: found["device_idle_ns"] for found in rows(table, "launches", "runtime_calls")}
    assert (idle["first"], idle["second"], idle["either"]) == (30_000, 30_000, 20_000)


def test_what_is_unknown_is_left_out() -> None:
    hidden = trace().op("a", 0, 9).call(1, 5)
    (found,) = rows(hidden.table(), "launches", "runtime_calls")
    assert "device_idle_ns" not in found and "bytes" in found
    frame = part(hidden.table(), "launches").frames[BY_CALLER]
    shown = [column.metric.key for column in frame.columns]
    assert [key for key in shown if key in CALLERS] == list(CALLERS)
    assert "bytes" not in [column.metric.key for column in frame.columns]
    assert part(hidden.table(), "launches").facts["launches.device_idle_ns"] is None
    assert part(copying().raw(ph="X").table(), "launches").facts["launches.device_idle_ns"] == 32_000
    cut = copying().bytes()[:-8]
    assert part(model(cut), "launches").facts["launches.device_idle_ns"] is None, "what was cut off may have been work"


def test_frames_of_recorded_stacks() -> None:
    builder = trace().op("outer", 0, 50, stack="a.py(3): f;b.py(4): g").op("inner", 5, 20).call(6, 3).call(40, 2)
    builder.op("other", 60, 10, stack="a.py(3): f").call(61, 1).call(80, 1)
    found = rows(builder.table(), "launches", BY_CALLER)
    assert {(each["operator"], each["caller_frame"], each["calls"]) for each in found} == {
        ("inner", "a.py(3): f", 1), ("outer", "a.py(3): f", 1), ("other", "a.py(3): f", 1), (None, None, 1),
    }  # fmt: skip


@pytest.mark.parametrize("recorded", ["calls", "stack"])
def test_the_line_is_the_person_s_where_there_is_one(recorded: str) -> None:
    """Of the framework's lines the innermost stands where nobody else's is around."""

    def called(outside: list[str]) -> str:
        frames = [*outside, "torch/nn/modules/conv.py(548): forward", "/usr/lib/python3.11/queue.py(3): get"]
        builder = trace()
        for depth, name in enumerate(frames if recorded == "calls" else []):
            builder.python(name, depth, 90 - 2 * depth)
        stack = {"stack": ";".join(reversed(frames))} if recorded == "stack" else {}
        (found,) = rows(builder.op("a", 20, 9, **stack).call(21, 2).table(), "launches", BY_CALLER)
        return str(found["caller_frame"])

    installed = "/env/lib/python3.11/site-packages/torchvision/resnet.py(8): forward"
    assert called(["train.py(7): step", installed]) == installed
    assert called(["threading.py(3): run"]) == "/usr/lib/python3.11/queue.py(3): get"


def test_a_row_stands_for_its_events() -> None:
    table = copying().call(150, 1).table()
    for found in rows(table, "launches", BY_CALLER):
        where = (*((key, found[key] or "") for key in CALLERS), ("kind", "runtime"))
        events = analysis("events").part(table, Params(where=where))
        assert events.frames["instances"].data.num_rows == found["calls"] == 1, found
    for where in (("caller_phase", "none such"), ("caller_frame", "none such"), ("operator", "none such")):
        assert analysis("events").part(table, Params(where=(where,))).frames["instances"].data.num_rows == 0


def test_steps_choose_calls_by_their_begin() -> None:
    builder = trace().step(1, 0, 50).step(2, 50, 50).op("a", 0, 99).call(10, 5).call(45, 10).call(60, 5)
    assert row(builder.table(), "launches", "runtime_calls", steps=("1",))["calls"] == 2
    assert row(builder.table(), "launches", "runtime_calls", steps=("2",))["host_total_ns"] == 5_000


def test_without_calls_it_says_what_to_record() -> None:
    table = trace().op("a", 0, 5).meta(distributedInfo={}).table()
    missing = analysis("launches").missing(table)
    assert missing is not None and "runtime" in missing.why and "ProfilerActivity.CUDA" in missing.enable
    assert analysis("launches").missing(copying().table()) is None


def test_operators_say_what_host_self_leaves_out() -> None:
    table = copying().table()
    found = row(table, "operators", name="aten::copy_")
    assert (found["host_self_ns"], found["runtime_self_ns"], found["runtime_ratio"]) == (8_000, 52_000, 52 / 60)
    keys = [
        column.metric.key for column in part(trace().op("a", 0, 5).table(), "operators").frames["operators"].columns
    ]
    assert "runtime_ratio" not in keys


def recount(table: TraceTable) -> list[dict[str, Any]]:
    """Call by call, each over all moments at which anything changes."""
    at = range(len(table))
    names = [table.strings[int(name)] for name in table.name]
    start, end = table.start_ns.tolist(), table.end_ns.tolist()
    kind, track, device = table.kind.tolist(), table.track.tolist(), table.device.tolist()
    calls = [i for i in at if kind[i] == EventKind.RUNTIME]
    work = [i for i in at if kind[i] in DEVICE_WORK]
    feeds: dict[object, set[int]] = defaultdict(set)
    launched: dict[int, list[int]] = defaultdict(list)
    for i in work:
        if (launch := int(table.launch[i])) >= 0:
            launched[launch].append(i)
            feeds[track[launch]].add(device[i])
            feeds[table.tracks[track[launch]].pid].add(device[i])
    parents: dict[int, list[int]] = defaultdict(list)
    for i in at:
        parents[int(table.parent[i])].append(i)
    size = dict(zip(table.device_args.row.tolist(), table.device_args.bytes.tolist(), strict=True))
    phases = [i for i in at if kind[i] == EventKind.ANNOTATION and not STEP_NAME.match(names[i])]
    found = []
    for i in calls:
        own = feeds.get(track[i]) or feeds.get(table.tracks[track[i]].pid) or set(device)
        near = [j for j in work if start[j] < end[i] and end[j] > start[i] and device[j] in own] + parents[i]
        moments = sorted({start[i], end[i], *(t for j in near for t in (start[j], end[j]) if start[i] < t < end[i])})
        idle = sum(b - a for a, b in pairwise(moments) if not any(start[j] <= a and end[j] >= b for j in near))
        around = [j for j in phases if start[j] <= start[i] < end[j] and track[j] == track[i]]
        bytes_known = [size[j] for j in launched[i] if size[j] >= 0]
        found.append(
            {
                "event": i,
                "name": names[i],
                "operator": names[table.operator[i]] if table.operator[i] >= 0 else None,
                "caller_phase": names[around[-1]] if around else None,
                "caller_frame": frame(table, names, i),
                "device_idle_ns": idle if work else None,
                "host_self_ns": int(table.self_ns[i]),
                "launched": len(launched[i]),
                "bytes": sum(bytes_known) if bytes_known else None,
            }
        )
    return found


def frame(table: TraceTable, names: list[str], call: int) -> str | None:
    frames = []
    around = int(table.python_parent[call])
    while around >= 0:
        if table.kind[around] == EventKind.PYTHON and re.search(r"[(:]\d+\)", names[around]):
            frames.append(names[around])
        around = int(table.python_parent[around])
    operator = call
    stacks = {} if frames else dict(zip(table.operators.row.tolist(), table.operators.stack.tolist(), strict=True))
    while not frames and operator >= 0:
        if stacks.get(operator, -1) >= 0:
            frames = table.strings[stacks[operator]].split(";")
        operator = int(table.operator[operator])
    return next((each for each in frames if not THEIRS.match(each)), frames[0] if frames else None)


def assert_recounted(table: TraceTable) -> None:
    every = recount(table)
    for name, by in (("runtime_calls", ("name",)), (BY_CALLER, CALLERS)):
        expected: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
        for call in every:
            expected[tuple(call[key] for key in by)].append(call)
        found = {tuple(each[key] for key in by): each for each in rows(table, "launches", name)}
        assert found.keys() == expected.keys()
        for key, calls in expected.items():
            one = found[key]
            assert one["calls"] == len(calls)
            assert one["max_ns"] == max(int(table.dur_ns[call["event"]]) for call in calls)
            for column in ("host_self_ns", "launched", "device_idle_ns"):
                if (total := calls[0][column]) is not None:
                    total = sum(call[column] for call in calls)
                assert one.get(column) == total, (key, column)
            sizes = [call["bytes"] for call in calls if call["bytes"] is not None]
            assert one["bytes"] == (sum(sizes) if sizes else None)
    operators = defaultdict(int)
    for call in every:
        operators[call["operator"]] += call["host_self_ns"]
    for each in rows(table, "operators"):
        assert each["runtime_self_ns"] == operators[each["name"]]


@pytest.mark.parametrize("name", UNLIKE, ids=lambda n: n.split(".")[0])
def test_a_sample_recounted(name: str) -> None:
    table = sample(name)
    if (table.kind == EventKind.RUNTIME).any():
        assert_recounted(table)
        facts = part(table, "launches").facts
        assert facts["launches.calls"] == part(table, "overview").facts["trace.runtime_calls"]
        if of_kind(table.kind, *DEVICE_WORK).any():
            assert 0 <= facts["launches.device_idle_ns"] <= facts["launches.host_ns"]
        else:
            assert facts["launches.device_idle_ns"] is None
    else:
        assert analysis("launches").missing(table) is not None


drawn_host = st.lists(
    st.tuples(st.sampled_from("aoocpppnb"), st.integers(0, 60), st.integers(0, 30), st.integers(1, 2)), max_size=14
)
drawn_work = st.lists(
    st.tuples(st.integers(0, 80), st.integers(0, 12), st.integers(0, 1), st.integers(0, 6)), max_size=8
)


@given(drawn_host, drawn_work)
@examples(suite=25, deep=500)
def test_any_calls_recounted(host: list[tuple[str, int, int, int]], work: list[tuple[int, int, int, int]]) -> None:
    builder = trace()
    for i, (what, at, dur, tid) in enumerate(host):
        if what == "a":
            builder.annotation(f"phase {i % 2}", at, dur, tid=tid)
        elif what == "o":
            builder.op(f"op {i % 3}", at, dur, tid=tid, stack="s.py(1): f;t.py(2): g" if i % 4 == 0 else None)
        elif what in "pb":
            builder.python("<built-in x>" if what == "b" else f"f.py({i}): f", at, dur, tid=tid)
        elif what == "n":
            builder.step(i, at, dur, tid=tid)
        else:
            builder.call(at, dur, tid=tid, corr=i + 1, name=f"cuda{i % 2}")
    for i in range(3):
        builder.call(20 * i, 15, corr=20 + i, tid=1 + i % 2, name=f"cuda{i % 2}")
    for at, dur, device, launch in work:
        size = {"bytes": at} if at % 2 else {}
        builder.on_device(memcpy(dur, at, device=device, **size), corr=(1, 2, 20, 21, 22, 30, None)[launch])
    assert_recounted(builder.table())
