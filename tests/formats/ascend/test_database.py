"""Profiles exported as SQLite give the same parts as the text files (tb_plugin/formats/ascend/database/)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.ascend.communication.groups import number_of
from tb_plugin.formats.ascend.reader import AscendReader
from tb_plugin.formats.base import ListedFile
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.schema import EventKind, MatrixUse
from tb_plugin.model.trace.table import RawTrace, TraceTable
from tests.formats.ascend.databases import ANALYSED, PID, QUEUE, ROWS, T0, TID, database, read, training


@pytest.fixture(scope="module")
def raw() -> RawTrace:
    return read(database(training()))


@pytest.fixture(scope="module")
def trace(raw: RawTrace) -> TraceTable:
    return assemble(raw)


def names(trace: Any, row: Any) -> list[str]:
    return [trace.strings[int(name)] for name in trace.name[row]]


def at(trace: Any, name: str) -> int:
    found = [row for row, each in enumerate(names(trace, slice(None))) if each == name]
    assert len(found) == 1, (name, found)
    return found[0]


def fact(trace: Any, key: str, name: str) -> Any:
    column = next(each for each in trace.others if each.key == key)
    place = np.flatnonzero(column.row == at(trace, name))
    if not len(place):
        return None
    value = column.value[place[0]]
    return trace.strings[int(value)] if column.is_text else value


def test_rows_of_all_kinds(raw: RawTrace) -> None:
    kinds = {name: EventKind(int(raw.kind[row])) for row, name in enumerate(names(raw, slice(None)))}
    assert kinds["ProfilerStep#7"] is EventKind.ANNOTATION
    assert kinds["a mark"] is EventKind.ANNOTATION
    assert kinds["aten::mm"] is EventKind.OPERATOR
    assert kinds["Enqueue"] is EventKind.RUNTIME
    assert kinds["AscendCL@aclrtMemcpyAsync"] is EventKind.RUNTIME
    assert kinds["nn.Module: Net_0"] is EventKind.MODULE
    assert kinds["builtin"] is EventKind.PYTHON
    assert kinds["MEMCPY_ASYNC"] is EventKind.MEMCPY
    assert kinds["EVENT_RECORD"] is EventKind.SYNC
    assert kinds["mm_cube"] is EventKind.KERNEL
    assert kinds["hcom_allReduce__1_0_1"] is EventKind.KERNEL
    assert not [issue for issue in raw.report.issues if issue.outcome == "dropped" and issue.code != "lost_task"]


def test_times_are_exact_also_as_text(raw: RawTrace) -> None:
    row = at(raw, "aten::mm")
    assert (raw.start_ns[row], raw.dur_ns[row]) == (T0 + 10, 190)
    row = at(raw, "mm_cube")
    assert (raw.start_ns[row], raw.dur_ns[row]) == (T0 + 260, 40)


def test_threads_and_streams(trace: TraceTable) -> None:
    tracks = {(track.pid, track.tid) for track in trace.tracks}
    assert {(str(PID), str(TID)), (str(PID), str(QUEUE)), ("0", "2"), ("0", "3")} <= tracks
    assert {
        ("0", "Group 0 Communication"),
        ("0", "Plane 0"),
        ("0", "Plane 1"),
        ("0", "Computing"),
        ("0", "Free"),
    } <= tracks
    track = trace.tracks[trace.track[at(trace, "AscendCL@aclrtMemcpyAsync")]]
    assert (track.tid, track.process, track.thread) == (str(QUEUE), "Python (CPU)", f"Thread {QUEUE}")


def test_who_launched_and_who_asked(trace: TraceTable) -> None:
    for kernel, start, operator in (("mm_vec", 100, "aclnnMatmul"), ("mm_cube", 120, "aclnnMatmul")):
        row = at(trace, kernel)
        assert trace.start_ns[trace.launch[row]] == start
        assert names(trace, [trace.operator[row]]) == [operator]
    row = at(trace, "hcom_allReduce__1_0_1")
    assert names(trace, [trace.launch[row]]) == ["Hccl@Launch_Ffts"]
    assert names(trace, [trace.operator[row]]) == ["HcclAllreduce"]
    row = at(trace, "MEMCPY_ASYNC")
    assert names(trace, [trace.launch[row]]) == ["AscendCL@aclrtMemcpyAsync"]
    # No operator states its connection: the call lies in what was taken out of the queue, put there within this one.
    assert names(trace, [trace.operator[row]]) == ["aten::mm"]
    assert names(trace, [trace.forward[at(trace, "MmBackward0")]]) == ["aten::mm"]
    assert names(trace, trace.arrows.tail) == ["Enqueue"]
    assert names(trace, trace.arrows.head) == ["Dequeue@aclnnMatmul"]


def test_a_whole_task_beside_its_parts_is_no_second_kernel(trace: TraceTable) -> None:
    kernels = Counter(names(trace, trace.kind == EventKind.KERNEL))
    assert kernels == {"mm_vec": 1, "mm_cube": 1, "hcom_allReduce__1_0_1": 1}
    assert trace.kind[at(trace, "KERNEL_AICORE")] == EventKind.DEVICE_ANNOTATION


def test_without_descriptions_tasks_are_kernels() -> None:
    rows = training() | {"COMPUTE_TASK_INFO": [], "COMMUNICATION_OP": []}
    raw = read(database(rows))
    assert Counter(names(raw, raw.kind == EventKind.KERNEL)) == {"KERNEL_AIVEC": 1, "KERNEL_AICORE": 2}


def test_facts_of_kernels_have_the_names_of_the_csv(raw: RawTrace) -> None:
    expected: dict[str, Any] = {
        "Type": "MatMulV2", "Accelerator Core": "AI_CORE", "Block Dim": 24, "Stream ID": 2, "Task ID": 3,
        "Model ID": 2**32 - 1, "Context ID": 0, "Input Shapes": "2,3;3,4", "Input Data Types": "FLOAT",
        "Output Formats": "ND", "aicore_time(us)": 39.0005, "aic_mac_ratio": 0.75, "aic_total_cycles": 70_000,
        "connection_id": 101, "Task Type": "KERNEL_AICORE",
    }  # fmt: skip
    assert {key: fact(raw, key, "mm_cube") for key in expected} == expected
    assert fact(raw, "aiv_time(us)", "mm_vec") == 45.5
    assert fact(raw, "Context ID", "mm_vec") is None
    assert fact(raw, "Accelerator Core", "hcom_allReduce__1_0_1") == "COMMUNICATION"
    assert [fact(raw, key, "hcom_allReduce__1_0_1") for key in ("data_type", "alg_type", "count", "group name")] == [
        "FP32", "MESH", 64, "group a",
    ]  # fmt: skip
    assert raw.uses_matrix_unit[at(raw, "mm_cube")] == MatrixUse.YES
    assert raw.uses_matrix_unit[at(raw, "mm_vec")] == MatrixUse.NO
    assert raw.is_collective[at(raw, "hcom_allReduce__1_0_1")]


def test_parts_of_operations_lie_on_planes(raw: RawTrace) -> None:
    row = at(raw, "Memcpy")
    assert raw.strings[int(raw.tid[row])] == "Plane 1"
    assert (raw.start_ns[row], raw.dur_ns[row], raw.kind[row]) == (T0 + 345, 35, EventKind.DEVICE_ANNOTATION)
    assert raw.device_args.bytes[raw.device_args.row == row].tolist() == [4096]
    assert fact(raw, "dst rank", "Memcpy") == 1
    assert [(each.code, each.count) for each in raw.report.issues] == [("lost_task", 1)]


def test_copies_know_their_size_and_way(raw: RawTrace) -> None:
    place = raw.device_args.row.tolist().index(at(raw, "MEMCPY_ASYNC"))
    assert raw.device_args.bytes[place] == 640
    assert raw.strings[int(raw.device_args.direction[place])] == "host to device"


def test_blocks_have_the_name_of_newer_versions_too() -> None:
    more = [f"ALTER TABLE COMPUTE_TASK_INFO RENAME COLUMN {old} TO {new}" for old, new in (("blockDim", "blockNum"),)]
    assert fact(read(database(training(), more)), "Block Dim", "mm_cube") == 24


def test_arguments_of_operators(raw: RawTrace) -> None:
    place = raw.operators.row.tolist().index(at(raw, "aten::mm"))
    text = raw.strings
    assert text[int(raw.operators.shapes[place])] == "[[2, 3], [3, 4]]"
    assert text[int(raw.operators.types[place])] == '["float", "float"]'
    assert text[int(raw.operators.stack[place])] == "inner.py(1): f;outer.py(2): g"
    assert (raw.operators.sequence[place], raw.operators.forward_thread[place]) == (5, 0)


def test_columns_of_shapes_and_types_may_be_swapped() -> None:
    rows = training()
    rows["PYTORCH_API"] = [(*row[:7], row[8], row[7], *row[9:]) for row in rows["PYTORCH_API"]]
    raw = read(database(rows))
    place = raw.operators.row.tolist().index(at(raw, "aten::mm"))
    assert raw.strings[int(raw.operators.shapes[place])] == "[[2, 3], [3, 4]]"
    assert raw.strings[int(raw.operators.types[place])] == '["float", "float"]'


def test_a_number_of_autograd_is_no_connection_of_a_task() -> None:
    rows = training()
    # Torch's own numbers reached those of CANN: forward and backward operator share the number of a kernel's launch.
    forward, backward = rows["PYTORCH_API"][1], rows["PYTORCH_API"][9]
    rows["PYTORCH_API"][1] = (*forward[:3], 50, *forward[4:])
    rows["PYTORCH_API"][9] = (*backward[:3], 51, *backward[4:])
    rows["CONNECTION_IDS"] = [(50, 100), (51, 100), *rows["CONNECTION_IDS"]]
    trace = assemble(read(database(rows)))
    assert names(trace, [trace.operator[at(trace, "mm_vec")]]) == ["aclnnMatmul"]


def test_steps(trace: TraceTable) -> None:
    assert trace.steps.label == ("7",)
    rows = training()
    rows["PYTORCH_API"] = rows["PYTORCH_API"][1:]
    stated = assemble(read(database(rows))).steps
    assert stated.label == ("7",)
    assert (stated.host_end_ns - stated.host_start_ns).tolist() == [900]


def test_memory(raw: RawTrace) -> None:
    text = raw.strings
    assert [text[int(each)] for each in raw.blocks.allocator] == ["PTA", "GE"]
    assert [text[int(each)] for each in raw.blocks.name] == ["aten::empty", "cann::Conv1"]
    assert raw.blocks.bytes.tolist() == [512, 2048]
    assert raw.blocks.start_ns.tolist() == [T0 + 30, T0 + 40]
    assert raw.blocks.end_ns.tolist() == [T0 + 600, -1]
    assert raw.memory.bytes.tolist() == [512, 2048, -512]
    apart = [text[int(each)] if each >= 0 else None for each in raw.reported_memory.allocator]
    assert apart == [None, "GE", None], "the graph engine's blocks are not PyTorch's"
    assert raw.memory.total_allocated[[0, 2]].tolist() == [1024, 512]
    totals = raw.totals
    assert [text[int(each)] for each in totals.allocator] == ["PTA", "APP"]
    assert (totals.allocated.tolist(), totals.reserved.tolist(), totals.active.tolist()) == (
        [1024, -1],
        [4096, 8192],
        [1024, -1],
    )
    modules = next(table for table in raw.reported_tables if table.name == "npu_module_mem")
    assert [column.values.to_pylist() for column in modules.columns][:3] == [[0], ["RUNTIME"], [3]]
    assert [text[int(each)] for each in raw.components.allocator] == ["RUNTIME"]
    assert raw.components.reserved.tolist() == [3 << 20]


def test_counters_have_the_names_of_the_trace_view(raw: RawTrace) -> None:
    text, counters = raw.strings, raw.counters
    found = {
        (text[int(name)], text[int(series)]): (int(time) - T0, float(value))
        for name, series, time, value in zip(
            counters.name, counters.series, counters.time_ns, counters.value, strict=True
        )
    }
    assert found == {
        ("AI Core Freq", "MHz"): (500, 800.0),
        ("HBM 1/Read", "Read(MB/s)"): (2, 3.0),
        ("LLC 0 Read/Throughput", "Throughput(MB/s)"): (3, 1.0),
        ("LLC 0 Read/Hit Rate", "Hit Rate(%)"): (3, 85.5),
        ("read_bandwidth", "acc_id 4"): (4, 1.0),
        ("write_band_width", "acc_id 4"): (4, 2.0),
        ("read_ost", "acc_id 4"): (4, 3.0),
        ("write_ost", "acc_id 4"): (4, 4.0),
        ("Mata Bw Level", "Mata Bw Level"): (5, 2.0),
        ("L2 Buffer Bw Level", "L2 Buffer Bw Level"): (5, 1.0),
        ("QoS OTHERS", "value"): (6, 1.0),
        ("NIC 3/bandwidth", "bandwidth"): (7, 100.0),
        ("NIC 3/rxPacketRate", "rxPacketRate"): (7, 2.5),
        ("HCCS/txThroughput", "txThroughput"): (8, 4.0),
        ("HCCS/rxThroughput", "rxThroughput"): (8, 5.0),
        **{(f"APP/{what}", "KB"): (20, value) for what, value in (("DDR", 0.0), ("HBM", 8.0), ("Memory", 8.0))},
        **{(f"Device/{what}", "KB"): (20, value) for what, value in (("DDR", 0.0), ("HBM", 64.0), ("Memory", 64.0))},
    }
    processes = {raw.process_names[text[int(pid)]].removesuffix(" (NPU)") for pid in counters.pid}
    named = {"AI Core Freq", "HBM", "LLC", "NPU MEM", "Stars Soc Info", "Acc PMU", "QoS", "NIC", "HCCS"}
    assert processes == named


def test_metadata_and_devices(raw: RawTrace) -> None:
    # The rank is that of the file's name, before the table of ranks.
    assert raw.metadata["distributedInfo"] == {"backend": "hccl", "rank": 3, "world_size": 8}
    assert raw.metadata["hostName"] == "node-7"
    assert raw.metadata["odd"] == "{no json"
    assert [(each.id, each.name) for each in raw.devices] == [("0", "Ascend910B")]
    unnamed = read({ROWS.replace("_3.db", ".db"): database(training())})
    assert unnamed.metadata["distributedInfo"]["rank"] == 5


def test_operations_know_their_groups(raw: RawTrace) -> None:
    """By the library's name, of which the number is made that other files have."""
    args, texts = raw.collectives, raw.strings
    names = {texts[int(raw.name[row])]: texts[int(group)] for row, group in zip(args.row, args.group_name, strict=True)}
    assert names and names == {name: number_of(str(fact(raw, "group name", name))) for name in names}


STEPS = [(3, "13", 8903.431, 98071.947, 25258.144)]


def test_analysed_tables_are_stated() -> None:
    raw = read({ANALYSED: database({"StepTraceTime": STEPS})})
    table = raw.reported_tables[0]
    assert (table.name, [column.title for column in table.columns]) == (
        "step_times",
        ["Device", "Step", "Computing", "Exposed", "Free"],
    )
    assert [column.values[0].as_py() for column in table.columns] == [3, "13", 8903431, 98071947, 25258144]


def test_the_text_counts_for_what_it_has() -> None:
    folder = ROWS.rpartition("/")[0]
    files = {
        ROWS: database(training()),
        ANALYSED: database({"StepTraceTime": STEPS}),
        f"{folder}/step_trace_time.csv": b"Step,Computing\n1,5.5\n",
        f"{folder}/operator_memory.csv": b"Name,Size(KB),Allocation Time(us),Release Time(us),Device Type\n"
        b"aten::x,1,5.000\t,,NPU:0\n",
        f"{folder}/memory_record.csv": b"",
    }
    raw = read(files)
    steps = [table for table in raw.reported_tables if table.name == "step_times"]
    assert [[column.key for column in table.columns] for table in steps] == [["rank", "step", "computing_ns"]]
    assert raw.blocks.bytes.tolist() == [1024]
    assert len(raw.totals.time_ns) == 2, "an empty file has nothing, so that the database counts"
    assert "mm_cube" in names(raw, slice(None))


def test_kernels_of_the_csv_stand_at_the_rows_of_the_database() -> None:
    csv = (
        b"Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us)\n"
        b"mm_cube,Text,AI_CORE,1736410576000000.260\t,0.050,0.007\n"
    )
    raw = read({ROWS: database(training()), ROWS.rpartition("/")[0] + "/kernel_details.csv": csv})
    row = at(raw, "mm_cube")
    assert (raw.dur_ns[row], fact(raw, "Type", "mm_cube"), fact(raw, "Wait Time(us)", "mm_cube")) == (50, "Text", 0.007)
    assert fact(raw, "Task Type", "mm_cube") == "KERNEL_AICORE"


def test_kernels_of_the_database_stand_at_the_rows_of_the_trace_view() -> None:
    view = (
        b'[{"ph":"M","name":"process_name","pid":7,"args":{"name":"Ascend Hardware"}},'
        b'{"ph":"X","name":"mm_cube","pid":7,"tid":2,"ts":"1736410576000000.260","dur":0.04,"args":{"Task Type":"AI_CORE"}}]'
    )
    raw = read({ROWS: database(training()), ROWS.rpartition("/")[0] + "/trace_view.json": view})
    assert Counter(names(raw, slice(None))) == {"mm_cube": 1, "mm_vec": 1, "hcom_allReduce__1_0_1": 1}
    assert raw.strings[int(raw.tid[at(raw, "mm_cube")])] == "2"
    assert fact(raw, "Type", "mm_cube") == "MatMulV2"


def test_several_devices_and_groups() -> None:
    rows = training()
    rows["TASK"] = [(*row[:2], 1 if row[4] == 3 else row[2], *row[3:]) for row in rows["TASK"]]
    rows["COMMUNICATION_TASK_INFO"][1] = (
        *rows["COMMUNICATION_TASK_INFO"][1][:4],
        11,
        *rows["COMMUNICATION_TASK_INFO"][1][5:],
    )
    raw = read(database(rows))
    assert [each.id for each in raw.devices] == ["0", "1"]
    assert raw.strings[int(raw.pid[at(raw, "mm_cube")])] == "1"
    assert raw.strings[int(raw.tid[at(raw, "Notify_Wait")])] == "Group 0 Plane 0"
    assert raw.strings[int(raw.tid[at(raw, "Memcpy")])] == "Group 1 Plane 1"


def test_a_folder_of_databases_is_a_profile() -> None:
    for name in (
        "ascend_pytorch_profiler.db",
        "ascend_pytorch_profiler_12.db",
        "analysis.db",
        "ascend_mindspore_profiler_0.db",
    ):
        path = f"run/x_1_20250109081616713_ascend_pt/ASCEND_PROFILER_OUTPUT/{name}"
        found = AscendReader().find([ListedFile(path, 1, "")])
        assert [each.names for each in found] == [(path,)]


def test_of_two_databases_one_is_read() -> None:
    content = database(training())
    raw = read({ROWS: content, ROWS.replace("_3", "_4"): content})
    told = [(issue.code, issue.file) for issue in raw.report.issues if issue.code != "lost_task"]
    assert told == [("second_file", "ascend_pytorch_profiler_4.db")]
    assert names(raw, slice(None)).count("aten::mm") == 1


def test_a_database_of_something_else_is_told() -> None:
    other = database({"OTHER": [(1,)]}, tables={"OTHER": "x INTEGER"})
    with pytest.raises(UnreadableTrace):
        read(other)
    raw = read({ROWS: other, ANALYSED: database({"StepTraceTime": STEPS})})
    assert [issue.code for issue in raw.report.issues] == ["no_tables"]
