"""MegEngine's timelines: slices in the order of the file, what each is, and what of it is tied to what."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.step_shares import break_down
from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.base import ListedFile, ReadOptions, no_progress
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import RawTrace, TraceTable
from tb_plugin.views.stacks.view import Choice, merged_stacks
from tests.builders import Bytes
from tests.conftest import SAMPLES
from tests.depth import examples
from tests.formats.sources import DATA, issues, needs_data
from torch_trace_megengine.timeline.events import stack_of
from torch_trace_megengine.timeline.reader import MegEngineReader

RECORDED = SAMPLES / "megengine_cpu" / "23744.chrome_timeline.json.gz"
REAL = [RECORDED, *sorted((DATA / "megengine").glob("*/*.chrome_timeline.json"))]
Json = dict[str, Any]


def raw(content: bytes, chunk_bytes: int = 512 * 1024) -> RawTrace:
    return MegEngineReader().read(Bytes(content, "7.chrome_timeline.json"), ReadOptions(chunk_bytes), no_progress)


def written(*events: Json, **root: Any) -> bytes:
    return json.dumps({"traceEvents": events, **root}).encode()


def table(*events: Json, **root: Any) -> TraceTable:
    return assemble(raw(written(*events, **root)))


def event(ph: str, ts: float, name: str, tid: int = 0, pid: int = 7, **more: Any) -> Json:
    return {"ph": ph, "ts": ts, "name": name, "tid": tid, "pid": pid, **more}


def span(name: str, begin: float, end: float, *inside: Json, tid: int = 0, pid: int = 7, **args: Any) -> list[Json]:
    more = {"args": args} if args else {}
    return [event("B", begin, name, tid, pid), *inside, event("E", end, name, tid, pid, **more)]


def flow(ph: str, ts: float, cat: str, number: int, tid: int = 0, pid: int = 7) -> Json:
    return event(ph, ts, str(pid), tid, pid, cat=cat, id=number, scope=str(pid))


def called(name: str, tid: int, pid: int = 7) -> Json:
    return {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}


def tensor(number: int, shape: str = "{2,3}", dtype: str = "Float32") -> Json:
    return {
        "id": number,
        "shape": shape,
        "dtype": dtype,
        "nr_elements": 6,
        "device": 'CompNode("gpu1:0" from "gpux:0")',
    }


def operator(name: str, number: int, begin: float, *, device: tuple[float, float] | None = None) -> list[Json]:
    """An operator of 10 us on the worker (thread 0), its dispatch (thread 1) and its work (lane 2)."""
    stated = {"__id__": number, "__name__": name}
    work: list[Json] = []
    if device is not None:
        work = [
            flow("s", begin + 1, "KernelLaunch", 10 * number),
            event("B", device[0], name, 2, cat="Kernel"),
            flow("f", device[0], "KernelLaunch", 10 * number, 2),
            event("E", device[1], name, 2, cat="Kernel", args=stated),
        ]
    return [
        *span("OpDispatch", begin - 5, begin - 5, flow("s", begin - 5, "OpDispatch", number, 1), tid=1, **stated),
        *span(name, begin, begin + 10, flow("t", begin, "OpDispatch", number), *work, **stated),
    ]


def names(trace: TraceTable, rows: Any) -> list[str]:
    return [trace.strings[int(trace.name[row])] for row in rows]


def of_kind(trace: TraceTable, *kinds: EventKind) -> list[str]:
    return names(trace, np.flatnonzero(np.isin(trace.kind, kinds)))


# ------------------------------------------------------------------------------------------------ which files


@pytest.mark.parametrize(
    ("path", "run", "worker", "certain"),
    [
        ("a/7.chrome_timeline.json", "a", "7", True),
        ("7.chrome_timeline.json.gz", "", "7", True),
        ("a/b/merge.chrome_timeline.json", "a/b", "merge", True),
        ("a/other.json", "a", "other", False),
    ],
)
def test_names_say_run_and_worker(path: str, run: str, worker: str, certain: bool) -> None:
    (found,) = MegEngineReader().find([ListedFile(path, 1, "")])
    assert (found.run, found.worker, found.span, found.certain) == (run, worker, None, certain)


@pytest.mark.parametrize(
    ("head", "known"),
    [
        (
            b'{"traceEvents":[{"args":{"value":45.2},"name":"train_time_ratio","ph":"C","pid":7,"tid":0,"ts":0.0}]}',
            True,
        ),
        (b'{"traceEvents":[{"cat":"OpDispatch","id":4,"name":"7","ph":"s","pid":7,"tid":0,"ts":0.0}]}', True),
        (b'{"traceEvents":[{"ph":"X","name":"OpDispatch","ts":1,"dur":1}]}', False),
        (b'{"nr_alive_tensor": 1}', False),
    ],
)
def test_marks_that_only_megengine_writes(head: bytes, known: bool) -> None:
    assert MegEngineReader().sniff(head) is known


# ------------------------------------------------------------------------------------------------ slices


def recount(document: Json) -> dict[tuple[str, str], list[int]]:
    """(Name of the lane, name without the number of a tensor) -> durations: stacks by thread, in the order of the file."""
    lanes = {(e["pid"], e["tid"]): e["args"]["name"] for e in document["traceEvents"] if e["ph"] == "M"}
    stacks: dict[tuple[int, int], list[Json]] = defaultdict(list)
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for each in document["traceEvents"]:
        key = (each["pid"], each["tid"])
        if each["ph"] == "B":
            stacks[key].append(each)
        elif each["ph"] == "E" and stacks[key]:
            begun = stacks[key].pop()
            dur = round(each["ts"] * 1000) - round(begun["ts"] * 1000)
            word, _, number = each["name"].partition(" ")
            found[lanes.get(key, ""), word if number.isdecimal() else each["name"]].append(max(dur, 0))
    return found


@pytest.mark.parametrize("path", REAL, ids=lambda path: f"{path.parent.name}")
def test_slices_are_those_of_a_plain_recount(path: Path) -> None:
    content = path.read_bytes()
    document = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    trace = assemble(MegEngineReader().read(Bytes(content, path.name), ReadOptions(), no_progress))
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    others = (EventKind.INSTANT, EventKind.RUNTIME)
    for row in range(len(trace)):
        name = trace.strings[int(trace.name[row])]
        if trace.kind[row] not in others or name not in ("KernelLaunch", "TensorGetProp", "StopStep"):
            found[trace.tracks[trace.track[row]].thread, name].append(int(trace.dur_ns[row]))
    expected = recount(document)
    assert {key: sorted(durs) for key, durs in found.items()} == {key: sorted(durs) for key, durs in expected.items()}
    # Calls and time of operators: the worker's rows with the number of an operator, and scopes of the backward pass.
    stated = {e["name"] for e in document["traceEvents"] if "__id__" in e.get("args", {})} - {"OpDispatch"}
    operators = np.flatnonzero(trace.kind == EventKind.OPERATOR)
    wanted = {name: durs for (lane, name), durs in expected.items() if lane == "worker"}
    for name, count in Counter(names(trace, operators)).items():
        assert name in stated or name.endswith("Backward")
        own = [int(trace.dur_ns[row]) for row in operators if trace.strings[int(trace.name[row])] == name]
        assert (count, sum(own)) == (len(wanted[name]), sum(wanted[name]))
    assert trace.report.complete and trace.report.issues == () and trace.report.events_dropped == 0


@needs_data
def test_all_recordings_are_there() -> None:
    assert len(REAL) == 7


@st.composite
def soups(draw: st.DrawFn) -> list[Json]:
    """Begins and ends of three threads in an order that a file may have, with times that stand still or go back."""
    events: list[Json] = []
    depth = Counter[int]()
    for _ in range(draw(st.integers(0, 40))):
        tid = draw(st.integers(0, 2))
        opens = draw(st.booleans())
        depth[tid] += 1 if opens else -1
        events.append(event("B" if opens else "E", draw(st.integers(0, 6)), draw(st.sampled_from("ab")), tid))
    return events


@given(soups())
@examples(suite=25, deep=2_000)
def test_any_order_of_marks_gives_the_slices_of_a_stack(events: list[Json]) -> None:
    if not events:
        return
    read = raw(written(*events))
    expected = Counter(dur for durs in recount({"traceEvents": events}).values() for dur in durs)
    assert Counter(read.dur_ns.tolist()) == expected
    lonely = len(events) - 2 * sum(expected.values())
    assert issues(read) == ({"unmatched_begin": lonely} if lonely else {})


# ------------------------------------------------------------------------------------------------ what they are


TRAINING = [
    called("worker", 0), called("interpreter", 1), called("gpux:0", 2),
    *span("StartProfile", 0, 1),
    event("B", 5, "fwd"), event("B", 2, "fwd", 1),
    *operator("MUL", 3, 10, device=(12, 30)),
    event("E", 22, "fwd"), event("E", 9, "fwd", 1),
    event("B", 23, "backward"),
    event("B", 24, "ElemwiseBackward"),
    *operator("ADD", 4, 25, device=(30, 31)),
    event("E", 36, "ElemwiseBackward"), event("E", 37, "backward"),
    *span("step", 38, 39),
]  # fmt: skip


def test_kinds_lanes_and_the_work_behind_each_operator() -> None:
    mode = {"mode": "MUL", "__id__": 3, "__name__": "MUL"}
    events = [{**e, "args": mode} if e["ph"] == "E" and e["name"] == "MUL" else e for e in TRAINING]
    trace = table(*events)
    assert [(t.pid, t.tid, t.thread, t.is_device) for t in trace.tracks] == [
        ("7", "0", "worker", False), ("7", "1", "interpreter", False), ("gpux", "gpux:0", "gpux:0", True),
    ]  # fmt: skip
    assert [device.id for device in trace.devices] == ["gpux"]
    assert of_kind(trace, EventKind.OPERATOR) == ["MUL", "ElemwiseBackward", "ADD"]
    assert of_kind(trace, EventKind.MODULE) == ["fwd"] and of_kind(trace, EventKind.PYTHON) == ["fwd"]
    assert of_kind(trace, EventKind.ANNOTATION) == ["backward", "step"]
    assert of_kind(trace, EventKind.OVERHEAD) == ["StartProfile"]
    kernels = np.flatnonzero(trace.kind == EventKind.KERNEL)
    assert names(trace, trace.operator[kernels]) == names(trace, kernels) == ["MUL", "ADD"]
    assert names(trace, trace.launch[kernels]) == ["KernelLaunch", "KernelLaunch"]
    (scope,) = [row for row in range(len(trace)) if trace.forward[row] != MISSING]
    assert names(trace, [scope, trace.forward[scope]]) == ["ElemwiseBackward", "MUL"]
    assert {(a, b) for a, b in zip(names(trace, trace.arrows.tail), names(trace, trace.arrows.head), strict=True)} == {
        ("OpDispatch", "MUL"), ("OpDispatch", "ADD"),
    }  # fmt: skip


def test_tensors_are_dependencies_and_tell_shapes() -> None:
    made = [event("B", 14, "Output 9"), flow("s", 14, "TensorLink", 9), event("E", 15, "Output 9", args=tensor(9))]
    used = [event("B", 31, "Input 9"), flow("t", 31, "TensorLink", 9), event("E", 32, "Input 9", args=tensor(9))]
    trace = table(
        *span("A", 10, 20, flow("t", 10, "OpDispatch", 1), *made, __id__=1),
        *span("B", 30, 40, flow("t", 30, "OpDispatch", 2), *used, __id__=2),
        *span("Del 9", 50, 51, flow("t", 50, "TensorLink", 9), flow("f", 51, "TensorLink", 9), **tensor(9)),
    )
    arrows = trace.arrows
    pairs = list(zip(names(trace, arrows.tail), names(trace, arrows.head), strict=True))
    assert pairs == [("A", "B"), ("A", "Del")] and {trace.strings[int(name)] for name in arrows.name} == {"tensor"}
    (row,) = np.flatnonzero(trace.operators.shapes != MISSING)
    assert trace.strings[int(trace.operators.shapes[row])] == "[[2, 3]]"
    assert trace.strings[int(trace.operators.types[row])] == '["Float32"]'
    assert names(trace, [trace.operators.row[row]]) == ["B"]
    results = next(column for column in trace.others if column.key == "Output Dims")
    assert (names(trace, results.row), trace.strings[int(results.value[0])]) == (["A"], "[[2, 3]]")


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ([event("i", 50, "StopStep")], [(5, 50), (50, 80)]),
        ([event("i", 50, "StopStep", 1), event("i", 55, "StopStep")], [(5, 50), (50, 80)]),
        ([event("i", 60, "StopStep"), *operator("B", 3, 72, device=(74, 88))], [(5, 60), (60, 88)]),
        ([event("i", 85, "StopStep")], [(5, 85)]),
        (span("step", 30, 40) + span("step", 60, 65), [(5, 40), (40, 65)]),
        (span("step", 30, 40) + span("step", 6, 8, tid=1) + span("step", 20, 22, tid=1), [(5, 8), (8, 22)]),
        ([], []),
    ],
    ids=["a mark", "the program's mark", "device", "nothing after the last", "updates", "the program's", "none"],
)
def test_steps(marks: list[Json], expected: list[tuple[int, int]]) -> None:
    trace = table(
        called("gpux:0", 2),
        *span("StartProfile", 0, 1),
        *operator("A", 1, 10),
        *operator("A", 2, 70),
        *marks,
        *span("Del 3", 83, 84),
        *span("StopProfile", 90, 95),
    )
    assert trace.steps.recorded is bool(expected)
    if expected:
        found = zip(
            (trace.steps.start_ns + trace.origin_ns).tolist(),
            (trace.steps.end_ns + trace.origin_ns).tolist(),
            strict=True,
        )
        assert [(begin // 1000, end // 1000) for begin, end in found] == expected


def test_what_the_program_waits_for_comes_before_its_wait() -> None:
    trace = table(
        *span("A", 10, 20, event("B", 12, "Input 3"), event("E", 14, "Input 3"), __id__=1),
        *span("TensorWaitProp", 5, 30, tid=1),
        event("i", 40, "StopStep", 1),
    )
    shares = break_down(trace, None)
    assert {key: ns.tolist() for key, ns in shares.parts.items() if ns.any()} == {
        "runtime": [17_000], "cpu": [8_000], "other": [10_000],
    }  # fmt: skip


def test_copies_say_where_they_go_and_how_much() -> None:
    kinds = {
        "bytes": "64",
        "src_kind": "CUPTI_ACTIVITY_MEMORY_KIND_DEVICE",
        "dst_kind": "CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE",
    }
    trace = table(
        *span("Memcpy", 1, 2, flow("s", 1, "CUPTILink", 5)),
        *span("Memcpy", 3, 4, flow("f", 3, "CUPTILink", 5, 4), tid=4, **kinds),
        *span("Memset", 5, 5, flow("f", 5, "CUPTILink", 6, 4), tid=4, bytes="8", value="0"),
    )
    assert of_kind(trace, EventKind.MEMCPY, EventKind.MEMSET) == ["Memcpy DtoH (Device -> Pageable)", "Memset"]
    assert trace.device_args.bytes.tolist() == [64, 8]
    (copy,) = np.flatnonzero(trace.kind == EventKind.MEMCPY)
    assert names(trace, [trace.launch[copy]]) == ["Memcpy"] and trace.kind[trace.launch[copy]] == EventKind.RUNTIME
    given_ = tensor(9, "{6}", "Float16")
    put = span("Put 9", 1, 9, *span("HostToDevice", 3, 4, tid=2, **given_), **given_)
    trace = table(called("gpux:0", 2), *operator("A", 1, 20), *put)
    (copy,) = np.flatnonzero(trace.kind == EventKind.MEMCPY)
    assert (names(trace, [copy, trace.launch[copy]]), trace.device_args.bytes.tolist()) == (
        ["HostToDevice", "Put"],
        [12],
    )
    assert [device.id for device in trace.devices] == ["gpu1"]


@pytest.mark.parametrize("name", ["gpu_usgae_ratio", "gpu_usage_ratio"])
def test_counters_in_both_spellings_with_units(name: str) -> None:
    values = {name: 40.0, "device_ahead_ms": 2.0, "gpu0:0_alloc_mem": 5e6, "nr_op_pending": 3.0}
    read = raw(written(*(event("C", 1, key, args={"value": value}) for key, value in values.items())))
    texts, series = read.strings, read.counter_series
    assert {texts[int(each)] for each in read.counters.name} == {"gpu_usage_ratio", *list(values)[1:]}
    assert {texts[int(n)]: texts[int(u)] for n, u in zip(series.name, series.unit, strict=True)} == {
        "gpu_usage_ratio": "%", "device_ahead_ms": "ms", "gpu0:0_alloc_mem": "bytes",
    }  # fmt: skip
    assert read.memory.total_allocated.tolist() == [5_000_000] and read.memory.device_type.tolist() == [1]


def test_a_backtrace_is_a_stack() -> None:
    text = "Python Backtrace: train.py , line 88, in <module>\nscope: <c>\na b.py , line 7, in f;g\n"
    assert stack_of(text) == "a b.py(7): f,g;train.py(88): <module>"
    assert [stack_of(text) for text in ("", "Python Backtrace: ", "nothing")] == ["", "", ""]


def test_a_wait_carries_its_line() -> None:
    where = "Python Backtrace: train.py , line 61, in main\n"
    trace = table(*span("TensorWaitProp", 1, 9, **tensor(3), python_backtrace=where))
    assert trace.operators.row.tolist() == [0]
    assert trace.strings[int(trace.operators.stack[0])] == "train.py(61): main"


# ------------------------------------------------------------------------------------------------ several processes


@pytest.mark.parametrize("old", [False, True], ids=["metadata", "Metadata event"])
def test_several_processes_in_one_file(old: bool) -> None:
    start = 1_790_857_026_000_000_000
    first = [event("B", 0, "Metadata", args={"localTime": start})] if old else []
    root = {} if old else {"metadata": {"localTime": str(start)}}
    both = [
        each
        for pid in (7, 8)
        for each in (
            called("worker", 0, pid), called("gpux:0", 2, pid),
            *({**one, "pid": pid, "scope": str(pid)} for one in operator("A", 3, 10, device=(12, 20 + pid))),
        )
    ]  # fmt: skip
    trace = table(*first, *both, **root)
    assert trace.base_time_ns == start
    assert [issue.code for issue in trace.report.issues] == ["merged_processes"]
    kernels = np.flatnonzero(trace.kind == EventKind.KERNEL)
    assert [device.id for device in trace.devices] == ["gpux of 7", "gpux of 8"]
    # Numbers of operators and launches count anew in each process: nobody gets the work of another.
    launching = trace.operator[kernels]
    owners = {
        trace.tracks[trace.track[row]].pid: int(trace.dur_ns[k]) for k, row in zip(kernels, launching, strict=True)
    }
    assert owners == {"7": 15_000, "8": 16_000}
    assert len(trace.arrows.tail) == 2


# ------------------------------------------------------------------------------------------------ damage


def test_chunks_of_any_size_give_the_same() -> None:
    content = gzip.decompress(RECORDED.read_bytes())
    whole = raw(content)
    for size in (997, 65_536):
        other = raw(content, size)
        for column in ("start_ns", "dur_ns", "kind", "correlation", "external_id"):
            assert np.array_equal(getattr(whole, column), getattr(other, column))
        assert [whole.strings[int(i)] for i in whole.name] == [other.strings[int(i)] for i in other.name]
        assert whole.report == other.report


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.9, 0.999])
def test_a_file_that_ends_early_opens_as_far_as_it_goes(share: float) -> None:
    content = gzip.decompress(RECORDED.read_bytes())
    read = raw(content[: int(share * len(content))])
    assert not read.report.complete and len(read.start_ns) > 0
    trace = assemble(read)
    assert len(trace) == len(read.start_ns) and "unclosed_list" in issues(read)
    # Names of threads stand at the end: without them lanes are known by what is on them.
    assert [track.is_device for track in trace.tracks].count(True) <= 1


HOSTILE = [
    [event("E", 1, "a"), event("B", 2, "b")],
    [event("B", 9, "a"), event("E", 1, "a")],
    [flow("f", 1, "KernelLaunch", 1), flow("t", 1, "TensorLink", -1), flow("s", 1, "CUPTILink", 2**62)],
    [event("s", 1, "7", cat="OpDispatch", id="0x1f"), event("t", 1, "7", cat="OpDispatch", id={"a": [1]})],
    span("MUL", 1, 2, __id__="text", python_backtrace=["no", "text"], shape={"a": 1}, mode=3.5),
    span("Input 4", 1, 2, id=1e300, nr_elements=float(2**62), dtype="Float" + "9" * 5000, shape="{" * 5000),
    [
        event("C", 1, "gpu9999999999:0_alloc_mem", args={"value": -5}),
        event("C", 1, "cpu0_alloc_mem", args={"value": 1e300}),
    ],
    [event("i", 5, "StopStep"), event("i", 5, "StopStep"), event("I", -5, "StopStep")],
    [{"ph": "B", "ts": 1, "name": None, "cat": None, "pid": None, "tid": [1]}, {"ph": "E", "ts": 2}],
    span("ElemwiseBackward", 1, 2) * 3 + span("backward", 3, 4, *span("ReduceBackward", 3, 4)),
    [called("gpux:0", 0), *span("x", 1, 2, tid=0), event("X", 1, "y", 0, dur=5)],
    [event("M", 1, "thread_name"), event("O", 1, "object"), event("", 1, "nothing")],
]


@pytest.mark.parametrize("events", HOSTILE, ids=range(len(HOSTILE)))
def test_odd_events_neither_end_the_read_nor_vanish(events: list[Json]) -> None:
    read = raw(written(*operator("A", 1, 10, device=(12, 20)), *events, metadata={"localTime": "x" * 30}))
    trace = assemble(read)
    assert "A" in of_kind(trace, EventKind.OPERATOR) and trace.base_time_ns is None
    report = trace.report
    assert report.events_in_file == report.events_loaded + report.events_dropped + report.events_other


@pytest.mark.parametrize("content", [b'{"traceEvents":null,"metadata":null}', b'{"traceEvents":[],"metadata":{}}'])
def test_a_profile_without_events_opens_empty(content: bytes) -> None:
    assert len(assemble(raw(content))) == 0


def test_deep_nesting_is_read_in_little_time() -> None:
    depth = 3_000
    marks = [event("B", i, "a") for i in range(depth)] + [event("E", depth + i, "a") for i in range(depth)]
    trace = table(*marks)
    assert len(trace) == depth and int(trace.dur_ns.max()) == (2 * depth - 1) * 1000


def test_what_is_no_timeline_is_said_so() -> None:
    with pytest.raises(UnreadableTrace):
        raw(b"[1, 2]")


# ------------------------------------------------------------------------------------------------ stacks of backtraces


def backtrace(*frames: str) -> Json:
    """A backtrace as MegEngine writes it, the outermost frame first, of frames ``file:line function``."""
    parts = [frame.replace(":", " ").split(" ") for frame in frames]
    return {"python_backtrace": "\n".join(f"{file} , line {line}, in {function}" for file, line, function in parts)}


CALLED = [
    called("gpux:0", 2),
    event("B", 5, "fwd"), event("B", 2, "fwd", 1),
    *span("A", 10, 20, *span("Input 3", 12, 14), flow("s", 15, "KernelLaunch", 1), __id__=1,
          **backtrace("t.py:1 main", "m.py:7 forward")),
    event("E", 50, "fwd"), event("E", 4, "fwd", 1),
    *span("B", 60, 65, __id__=2, **backtrace("t.py:1 main")),
    event("B", 30, "A", 2, cat="Kernel"), flow("f", 30, "KernelLaunch", 1, 2), event("E", 42, "A", 2, cat="Kernel"),
]  # fmt: skip


@pytest.mark.parametrize("order", ["heavy", "time"])
@pytest.mark.parametrize(
    ("of", "expected"),
    [
        ("python", {
            "fwd": (2, 37, 0), "t.py(1): main": (1, 5, 0), "t.py(1): main;m.py(7): forward": (1, 10, 12),
        }),
        ("both", {
            "fwd": (2, 37, 0), "t.py(1): main": (0, 0, 0), "t.py(1): main;m.py(7): forward": (0, 0, 0),
            "t.py(1): main;m.py(7): forward;A": (1, 8, 12), "t.py(1): main;m.py(7): forward;A;Input": (1, 2, 0),
            "t.py(1): main;B": (1, 5, 0),
        }),
    ],
)  # fmt: skip
def test_backtraces_of_operators_are_frames_around_them(
    of: str, expected: dict[str, tuple[int, int, int]], order: str
) -> None:
    """Scopes of both threads are one place; what an operator did stands under who called it, and not under the scope."""
    trace = table(*CALLED)
    found = merged_stacks(trace, select_rows(trace, None), Choice(of=of, order=order))
    paths: list[str] = []
    sums: dict[str, Any] = defaultdict(lambda: np.zeros(3, np.int64))
    for name, parent, *values in zip(
        found.name, found.parent, found.calls, found.host_ns // 1000, found.device_ns // 1000, strict=True
    ):
        paths.append(f"{paths[parent]};{name}" if parent >= 0 else name)
        sums[paths[-1]] += np.array(values)
    assert {path: tuple(values.tolist()) for path, values in sums.items()} == expected
