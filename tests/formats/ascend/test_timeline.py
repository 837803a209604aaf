"""The trace view: what the rows of each lane are, and who launched what."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tb_plugin.analysis.thread_and_stream_names import track_names
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import RawTrace, TraceTable
from tests.formats.ascend.folders import (
    ALEXNET,
    Json,
    arrow,
    files,
    folder,
    needs_recorded,
    process,
    raw_of,
    table_of,
    thread,
    x,
)

HOST, QUEUE, AUTOGRAD = 41200, 41511, 41740
BASE = 1763985600000000  # microseconds


def lane(sort: int, device: int = 4) -> int:
    """Number of a process that torch_npu invents."""
    return HOST << 10 | sort << 5 | device


CANN, NPU, GROUPS, ANALYSIS, GC = lane(7), lane(13), lane(15), lane(23), lane(1)


def at(us: float) -> str:
    whole, part = divmod(round(us * 1000), 1000)
    return f"{BASE + whole}.{part:03d}"


def names(groups: str = "Communication") -> list[Json]:
    return [
        *process(HOST, "Python", "CPU"), *process(GC, "Python GC", "CPU"), *process(CANN, "CANN", "CPU"),
        *process(NPU, "Ascend Hardware", "NPU 4"), *process(GROUPS, groups, "NPU 4"),
        *process(ANALYSIS, "Overlap Analysis", "NPU 4"),
        thread(NPU, 2, "Stream 2"), thread(GROUPS, 0, "Group 0 Communication"), thread(GROUPS, 1, "Plane 0"),
        thread(ANALYSIS, 0, "Computing"), thread(ANALYSIS, 3, "Free"),
    ]  # fmt: skip


def task(name: str, us: float, dur: float, kind: str = "AI_CORE", stream: int = 2, **args: Any) -> Json:
    return x(name, NPU, stream, at(us), dur, **{"Task Type": kind, "Physic Stream Id": stream, **args})


def view(*events: Json | list[Json], groups: str = "Communication") -> Any:
    flat = [each for event in events for each in (event if isinstance(event, list) else [event])]
    return files(trace_view=[*names(groups), *flat])


def kinds(raw: RawTrace) -> dict[str, str]:
    texts = raw.strings.take(raw.name).to_pylist()
    return {name: EventKind(kind).name for name, kind in zip(texts, raw.kind.tolist(), strict=True)}


def row_of(table: TraceTable, name: str) -> int:
    (row,) = (i for i in range(len(table)) if table.strings[int(table.name[i])] == name)
    return row


def name_of(table: TraceTable, row: int) -> str | None:
    return table.strings[int(table.name[row])] if row != MISSING else None


@pytest.mark.parametrize("groups", ["Communication", "HCCL"])
def test_kinds_of_each_lane(groups: str) -> None:
    op = {"Sequence number": -1, "Fwd thread id": 0}
    raw = raw_of(
        view(
            x("ProfilerStep#12", HOST, HOST, at(0), 90, "cpu_op", **op),
            x("aten::mm", HOST, HOST, at(1), 9, "cpu_op", **op),
            x("Enqueue", HOST, HOST, at(2), 1, "enqueue", correlation_id=7),
            x("Dequeue@aclnnMm", HOST, QUEUE, at(4), 5, "dequeue", correlation_id=7),
            x("train.py(3): step", HOST, HOST, at(0), 95, "python_function", **{"Python id": 1, "Python parent id": 0}),
            x("nn.Module: Net_0", HOST, HOST, at(0.5), 30, "python_function", **{"Python id": 2, "Python parent id": 1}),
            x("marked", HOST, HOST, at(50), 2, "user_annotation"),
            x("GC", GC, HOST, at(60), 5, "GC"),
            x("AscendCL@aclnnMm", CANN, QUEUE, at(5), 3, level="acl", connection_id=70),
            task("mm", 20, 10), task("cast", 31, 1, "AI_VECTOR_CORE"), task("both", 32, 1, "MIX_AIC"),
            task("host", 33, 1, "AI_CPU"),
            task("random", 34, 1, "DSA_SQE"), task("copy", 35, 1, "PCIE_DMA_SQE"), task("between", 36, 1, "SDMA_SQE"),
            task("waits", 37, 1, "EVENT_WAIT_SQE"), task("records", 38, 1, "EVENT_RECORD_SQE"),
            task("notified", 39, 1, "Notify Wait"), task("writes", 40, 1, "Write Value"),
            task("holds", 41, 1, "PLACE_HOLDER_SQE"), task("nobody knows", 42, 1, "NEW_KIND"),
            x("hcom_allReduce__1_0_1", GROUPS, 0, at(50), 9, connection_id=71),
            x("Memcpy", GROUPS, 1, at(51), 4, **{"task type": "Memcpy", "size(Byte)": 4096}),
            x("Computing", ANALYSIS, 0, at(20), 10),
            groups=groups,
        )
    )  # fmt: skip
    assert kinds(raw) == {
        "ProfilerStep#12": "ANNOTATION", "aten::mm": "OPERATOR", "Enqueue": "RUNTIME", "Dequeue@aclnnMm": "RUNTIME",
        "train.py(3): step": "PYTHON", "nn.Module: Net_0": "MODULE", "marked": "ANNOTATION", "GC": "PYTHON",
        "AscendCL@aclnnMm": "RUNTIME", "mm": "KERNEL", "cast": "KERNEL", "both": "KERNEL", "host": "KERNEL",
        "random": "KERNEL", "copy": "MEMCPY", "between": "MEMCPY", "waits": "SYNC", "records": "SYNC", "notified": "SYNC",
        "writes": "SYNC", "holds": "DEVICE_ANNOTATION", "nobody knows": "KERNEL", "hcom_allReduce__1_0_1": "KERNEL",
        "Memcpy": "DEVICE_ANNOTATION", "Computing": "DEVICE_ANNOTATION",
    }  # fmt: skip
    assert raw.recorder.host.collecting, "names of PyTorch hold for torch_npu"
    collective = raw.strings.take(raw.name[raw.is_collective]).to_pylist()
    assert "hcom_allReduce__1_0_1" in collective and "mm" not in collective


def test_rows_stand_on_streams_and_calls_of_cann_on_their_threads() -> None:
    table = table_of(
        view(
            x("aten::mm", HOST, HOST, at(1), 9, "cpu_op"),
            x("Dequeue@aclnnMm", HOST, QUEUE, at(4), 9, "dequeue"),
            x("AscendCL@aclnnMm", CANN, QUEUE, at(5), 3, connection_id=70),
            task("mm", 20, 10),
            x("hcom_send__1_0_1", GROUPS, 0, at(50), 9),
        )
    )
    queue, call = row_of(table, "Dequeue@aclnnMm"), row_of(table, "AscendCL@aclnnMm")
    assert table.track[queue] == table.track[call] and table.parent[call] == queue
    track = table.tracks[table.track[row_of(table, "mm")]]
    assert (track.is_device, track.tid) == (True, "2") and table.devices[table.device[row_of(table, "mm")]].id == "4"
    assert table.tracks[table.track[row_of(table, "hcom_send__1_0_1")]].is_device


def test_lanes_of_a_device_are_called_what_they_are_and_stand_in_order() -> None:
    """Streams, groups, their planes, analyses; among each other as the trace view orders them, else by their numbers."""
    rows = [x("Free", ANALYSIS, 3, at(0), 1), x("Computing", ANALYSIS, 0, at(1), 1), x("Memcpy", GROUPS, 1, at(2), 1)]
    rows += [task("mm", 3, 1), x("hcom_send__1_0_1", GROUPS, 0, at(4), 1)]
    table = table_of(view(*rows))
    names = [name for name, track in zip(track_names(table), table.tracks, strict=True) if track.is_device]
    assert [name.title for name in sorted(names, key=lambda name: name.order)] == [
        "Stream 2 · compute", "Group 0 Communication · HCCL …1", "Plane 0", "Computing", "Free",
    ]  # fmt: skip


def launch_of(table: TraceTable, name: str) -> tuple[str | None, str | None]:
    row = row_of(table, name)
    return name_of(table, int(table.launch[row])), name_of(table, int(table.operator[row]))


def test_a_task_belongs_to_the_operator_whose_arrow_ends_where_it_begins() -> None:
    """The innermost of those that begin at the arrow's start; its launch is the call of the same connection."""
    start = round((BASE + 20) * 1000) + 123
    table = table_of(
        view(
            x("aten::mm", HOST, HOST, at(1), 9, "cpu_op"),
            x("aclnnMm", HOST, HOST, at(1), 7, "cpu_op"),
            x("Node@launch", CANN, QUEUE, at(5), 3, connection_id=70),
            task("mm", 20.123, 10, connection_id=70),
            arrow("async_npu", "torch_to_npu", start, (HOST, HOST, at(1)), (NPU, 2, at(20.123))),
            arrow("HostToDevice", "HostToDevice70", "70", (CANN, QUEUE, at(5)), (NPU, 2, at(20.123))),
        )
    )
    assert launch_of(table, "mm") == ("Node@launch", "aclnnMm")


def of_tasks(*begins: float) -> list[str | None]:
    """The operators of tasks on two streams, each launched by one of its own; an arrow's number is when its task begins."""
    events: list[Any] = []
    for number, us in enumerate(begins):
        stream = 2 + number % 2
        start = BASE * 1000 + round(us * 1000)
        events += [
            x(f"op{number}", HOST, HOST, at(1 + number), 0.5, "cpu_op"),
            task(f"k{number}", us, 2, stream=stream),
            arrow("async_npu", "torch_to_npu", start, (HOST, HOST, at(1 + number)), (NPU, stream, at(us))),
        ]
    table = table_of(view(*events))
    return [launch_of(table, f"k{number}")[1] for number in range(len(begins))]


def test_numbers_of_arrows_above_what_floats_hold() -> None:
    assert of_tasks(20.001, 20.002, 20.003) == ["op0", "op1", "op2"]


def test_tasks_that_begin_at_once_on_two_streams() -> None:
    """Both arrows have one number: their ends stand side by side in the file."""
    assert of_tasks(30.0, 30.0) == ["op0", "op1"]
    assert of_tasks(30.0, 30.0, 40.0, 40.0) == ["op0", "op1", "op2", "op3"]


def test_without_arrows_the_connection_tells_the_call() -> None:
    table = table_of(
        view(
            x("aten::mm", HOST, HOST, at(1), 9, "cpu_op"),
            x("AscendCL@aclnnMm", CANN, HOST, at(2), 3, connection_id=70),
            x("AscendCL@other", CANN, HOST, at(6), 3, connection_id="71"),
            task("mm", 20, 10, connection_id=70),
            task("late", 40, 10, connection_id="71"),
            task("nobody's", 60, 10, connection_id=0),
            task("unknown", 80, 10, connection_id=99),
        )
    )
    assert launch_of(table, "mm") == ("AscendCL@aclnnMm", "aten::mm")
    assert launch_of(table, "late") == ("AscendCL@other", "aten::mm")
    assert launch_of(table, "nobody's") == launch_of(table, "unknown") == (None, None)


def test_forward_and_backward_are_tied() -> None:
    table = table_of(
        view(
            x("aten::mm", HOST, HOST, at(1), 9, "cpu_op", **{"Sequence number": 5, "Fwd thread id": 0}),
            x("MmBackward0", HOST, AUTOGRAD, at(50), 9, "cpu_op", **{"Sequence number": 5, "Fwd thread id": 1}),
            arrow("fwdbwd", "fwdbwd", 5, (HOST, HOST, at(1)), (HOST, AUTOGRAD, at(50))),
        )
    )
    assert name_of(table, int(table.forward[row_of(table, "MmBackward0")])) == "aten::mm"


TIMES = {
    "texts": ("1763985600000020.123", "1763985600000030.5", 1.5),
    "numbers of 2023": (1763985600000020, 1763985600000030.5, 1.5),
    "relative numbers": (20.123, 30.5, 1.5),
    "durations as texts": ("1763985600000020.123", "1763985600000030.500", "1.500"),
}


@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES)
def test_times_are_read_by_their_digits(times: tuple[Any, Any, Any]) -> None:
    first, second, dur = times
    events = [
        x("a", NPU, 2, first, dur, **{"Task Type": "AI_CORE"}),
        x("b", NPU, 2, second, dur, **{"Task Type": "AI_CORE"}),
    ]
    raw = raw_of(view(*events))
    start = {name: int(ns) for name, ns in zip(raw.strings.take(raw.name).to_pylist(), raw.start_ns, strict=True)}
    whole = BASE * 1000 if float(first) > 1e9 else 0
    assert start == {"a": whole + (20_000 if isinstance(first, int) else 20_123), "b": whole + 30_500}
    assert raw.dur_ns.tolist() == [1500, 1500]


def test_arguments_of_operators() -> None:
    stack = "/opt/torch/nn/linear.py(12): forward;\r\n/home/me/train.py(7): step"
    table = table_of(
        view(
            x(
                "aten::mm", HOST, HOST, at(1), 9, "cpu_op", **{
                    "Input Dims": "32,256;\r\n;\r\n256;\r\n", "Input type": "float;\r\nScalar;\r\nc10::Half",
                    "Call stack": stack, "Sequence number": 9, "Fwd thread id": 0,
                },
            )
        )
    )  # fmt: skip
    said = table.operators
    assert table.strings[int(said.shapes[0])] == "[[32, 256], [], [256], []]"
    assert table.strings[int(said.types[0])] == '["float", "Scalar", "c10::Half"]'
    assert table.strings[int(said.stack[0])] == "/opt/torch/nn/linear.py(12): forward;/home/me/train.py(7): step"
    assert said.sequence.tolist() == [9]


def test_copies_have_bytes_and_a_direction() -> None:
    raw = raw_of(
        view(task("c", 1, 2, "PCIE_DMA_SQE", **{"data size(Byte)": 4096, "memcpy direction": "host to device"}))
    )
    (row,) = np.flatnonzero(raw.device_args.row == np.flatnonzero(raw.kind == EventKind.MEMCPY)[0])
    assert raw.device_args.bytes[row] == 4096
    assert raw.strings[int(raw.device_args.direction[row])] == "host to device"


def test_devices_by_label_and_by_the_number_of_the_process() -> None:
    labelled = [*process(HOST, "Python"), *process(NPU, "Ascend Hardware", "NPU 6")]
    numbered = [*process(HOST, "Python"), *process(NPU, "Ascend Hardware", "NPU")]
    older = [*process(HOST, "Python"), *process(17, "NPU")]
    for metadata, pid, device in ((labelled, NPU, "6"), (numbered, NPU, "4"), (older, 17, "0")):
        raw = raw_of(files(trace_view=[*metadata, x("k", pid, 2, at(1), 2, **{"Task Type": "AI_CORE"})]))
        assert [each.id for each in raw.devices] == [device] and raw.kind.tolist() == [EventKind.KERNEL]


def test_events_of_wrong_types_cost_themselves_alone() -> None:
    good = task("mm", 20, 10)
    bad: list[Any] = [
        {"ph": "X", "name": 5, "pid": NPU, "tid": 2, "ts": at(1), "dur": 1}, {"ph": "X", "name": "a", "ts": "soon", "dur": 1},
        {"ph": "X", "name": "b", "pid": [], "tid": {}, "ts": at(1), "dur": "long"}, 7, None, "text", [],
        {"ph": "X", "name": "c", "pid": NPU, "tid": 2, "ts": at(5), "dur": 1, "args": {"Task Type": 7, "connection_id": []}},
        {"ph": "X", "name": "d", "pid": NPU, "tid": 2, "ts": at(6), "dur": 1, "args": "none"},
        *arrow("async_npu", "torch_to_npu", None, (HOST, HOST, None), (NPU, 2, "x")),
    ]  # fmt: skip
    raw = raw_of(view(good, *bad))
    assert "mm" in kinds(raw) and raw.report.issues


@needs_recorded
def test_a_recorded_trace_view() -> None:
    """Every arrow from an operator ends at a task, and every launch is a call of CANN."""
    table = table_of(folder(ALEXNET))
    kernels = np.flatnonzero((table.kind == EventKind.KERNEL) | (table.kind == EventKind.MEMCPY))
    assert (table.operator[kernels] != MISSING).sum() == 210
    launches = table.launch[kernels]
    assert (launches != MISSING).sum() >= 206
    called = {name_of(table, int(row)) for row in launches[launches != MISSING]}
    assert all(
        (name or "").startswith(("AscendCL@", "Node@", "Runtime@", "HCCL@", "Communication@")) for name in called
    )
    assert table.steps.label == ("50",)


@pytest.mark.parametrize(
    ("written", "read"),
    [([0.25, 1.0], [25.0, 100.0]), ([0.0, 0.0], [0.0, 0.0]), ([0.25, 85.5], [0.25, 85.5])],
    ids=["shares of 1", "nothing hits", "per cent"],
)
def test_hit_rates_are_per_cent_as_their_name_says(written: list[float], read: list[float]) -> None:
    events = [*names(), task("mm", 1, 2)]
    for at_us, value in enumerate(written):
        for name, key in (("LLC 0 Read/Hit Rate", "Hit Rate(%)"), ("LLC 0 Read/Throughput", "Throughput(MB/s)")):
            events.append({"ph": "C", "name": name, "pid": 9, "tid": 0, "ts": at(at_us), "args": {key: value}})
    raw = raw_of(files(trace_view=events))
    series = [raw.strings[each] for each in raw.counters.series.tolist()]
    values: dict[str, list[float]] = {}
    for key, value in zip(series, raw.counters.value.tolist(), strict=True):
        values.setdefault(key, []).append(value)
    assert values == {"Hit Rate(%)": read, "Throughput(MB/s)": written}
