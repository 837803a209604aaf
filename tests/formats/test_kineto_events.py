"""Schema drift (user-demand section 4 B) and meaning (4 C): what became of each event."""

# ruff: noqa: E501  raw events and kernel names stay on one line, and JSON is full of braces
from __future__ import annotations

import numpy as np
import pytest

from tb_plugin.model.trace.schema import EventKind

from .sources import issues, kinds, names, op, read, read_events, trace_text

K = EventKind


def kernel(name="k", ts=1, dur=2, cat="kernel", pid=0, tid=7, **args):
    return op(name, ts, dur, cat, pid, tid, **args)


def texts(trace, ids):
    return [trace.strings[i] for i in ids]


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("Operator", "cpu_op", K.OPERATOR),
        ("Kernel", "kernel", K.KERNEL),
        ("Memcpy", "gpu_memcpy", K.MEMCPY),
        ("Memset", "gpu_memset", K.MEMSET),
        ("Runtime", "cuda_runtime", K.RUNTIME),
        ("Runtime", "cuda_driver", K.RUNTIME),
        ("Runtime", "xpu_runtime", K.RUNTIME),
        ("Trace", "Trace", K.WINDOW),
        ("python_function", "python_function", K.PYTHON),
    ],
)
def test_B1_categories_of_all_releases(old, new, kind):
    assert kinds(read_events(op("a", cat=old), op("a", cat=new))) == [kind, kind]


def test_B2_thread_ids_as_strings_and_numbers_are_one_key():
    trace = read_events(
        op(tid=7),
        op(tid="7"),
        op(tid=7.0),
        op(pid="1", tid="stream 7"),
        {"ph": "M", "name": "thread_name", "pid": "1", "tid": 7, "args": {"name": "main"}},
    )
    assert texts(trace, trace.tid) == ["7", "7", "7", "stream 7"]
    assert set(texts(trace, trace.pid)) == {"1"}
    assert trace.thread_names == {("1", "7"): "main"}


def test_B3_renamed_arguments():
    trace = read_events(
        op(**{"external id": 5, "Input dims": [[2, 3]]}),
        op(**{"External id": 6, "Input Dims": [[2, 3]]}),
        op(**{"External id": "7"}),
    )
    assert trace.external_id.tolist() == [5, 6, 7]
    assert texts(trace, trace.operators.shapes) == ["[[2, 3]]", "[[2, 3]]"]
    assert trace.operators.row.tolist() == [0, 1]


def test_B4_python_ids_and_modules():
    trace = read_events(
        op("f", cat="python_function", **{"Python id": 1, "Python parent id": None, "Python module id": None}),
        op(
            "nn.Module: Linear_0",
            cat="python_function",
            **{"Python id": 2, "Python parent id": 1, "Python module id": 0},
        ),
    )
    assert kinds(trace) == [K.PYTHON, K.MODULE]
    assert trace.python.parent_id.tolist() == [-1, 1]
    assert trace.python.module_id.tolist() == [-1, 0]


def test_B5_B6_B7_correlation_and_external_id_are_kept_apart():
    trace = read_events(
        op("cudaLaunchKernel", cat="cuda_runtime", **{"External id": 0, "correlation": 9}),
        kernel(**{"External id": 369908, "correlation": 9}),
        kernel(),
    )
    assert trace.correlation.tolist() == [9, 9, -1]
    assert trace.external_id.tolist() == [0, 369908, -1]


def test_B9_fractions_of_microseconds_are_exact():
    trace = read_events(
        *(
            f'{{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":{ts},"dur":{dur}}}'
            for ts, dur in [
                ("4337153179272.905", "66592.351"),
                ("4403246511104.017", "0.001"),
                ("8796093022207.999", "5"),
            ]
        )
    )
    assert trace.start_ns.tolist() == [4337153179272905, 4403246511104017, 8796093022207999]
    assert trace.dur_ns.tolist() == [66592351, 1, 5000]


@pytest.mark.parametrize("first", ["1712195495505582.988", '"1712195495505582.988"', "1712195495505582.9880"])
def test_B9_epoch_times_with_fractions_keep_their_nanoseconds(first):
    rows = [
        f'{{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":{ts},"dur":4.928}}'
        for ts in (first, "1712195495505772.650", "12", "1e3")
    ]
    trace = read_events(*rows)
    assert trace.start_ns.tolist() == [1712195495505582988, 1712195495505772650, 12000, 1000000]


def test_B9_times_in_odd_forms():
    rows = [
        f'{{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":{ts},"dur":1}}'
        for ts in ('"12.5"', "1.5e-1", "-7", "5.966000000000349", "99999999999999999999", "-1e300", "1e400")
    ]
    trace = read_events(*rows)
    assert trace.start_ns.tolist()[:4] == [12500, 150, -7000, 5966]
    assert trace.start_ns.tolist()[4] == 2**63 - 1
    assert issues(trace)["time_out_of_range"] >= 1


def test_B10_whole_epoch_microseconds():
    trace = read_events(op(ts=1623142623460121, dur=7))
    assert (trace.start_ns.tolist(), trace.dur_ns.tolist()) == ([1623142623460121000], [7000])


MEMORY = {
    "Bytes": -512,
    "Addr": 140000000000000,
    "Total Allocated": 1024,
    "Total Reserved": 0,
    "Device Type": 1,
    "Device Id": 0,
}


@pytest.mark.parametrize(
    "event",
    [
        {"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": 2, "ts": 3, "args": MEMORY},
        {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 2, "ts": 3, "args": MEMORY},
        {"ph": "I", "name": "[memory]", "pid": 1, "tid": 2, "ts": 3, "args": MEMORY},
        {
            "ph": "X",
            "cat": "cpu_instant_event",
            "name": "[memory]",
            "pid": 1,
            "tid": 2,
            "ts": 3,
            "dur": 999,
            "args": MEMORY,
        },
        {"ph": "X", "cat": "cpu_op", "name": "[memory]", "pid": 1, "tid": 2, "ts": 3, "dur": 0, "args": MEMORY},
    ],
)
def test_B11_memory_events_in_every_disguise(event):
    trace = read_events(op(), event)
    assert len(trace.name) == 1
    memory = trace.memory
    assert (memory.time_ns.tolist(), memory.bytes.tolist(), memory.address.tolist()) == (
        [3000],
        [-512],
        [140000000000000],
    )
    assert (memory.total_allocated.tolist(), memory.device_type.tolist(), memory.device_id.tolist()) == (
        [1024],
        [1],
        [0],
    )
    assert (texts(trace, memory.pid), texts(trace, memory.tid)) == (["1"], ["2"])
    assert trace.report.events_loaded == 2


def test_B12_B13_distributed_info_is_optional_and_opaque():
    assert read_events(op()).metadata == {}
    info = {"backend": "nccl", "rank": 0, "pg_config": {"a": "[0, 1]"}}
    assert read_events(op(), distributedInfo=info).metadata["distributedInfo"] == info


COLLECTIVE = {
    "Collective name": "allreduce",
    "dtype": "Float",
    "In msg nelems": 8,
    "Out msg nelems": 8,
    "Group size": 2,
    "Process Group Name": "0",
    "Process Group Ranks": "[0, 1, ...]",
    "Seq": 4,
}


def test_B14_B15_B16_collective_arguments():
    trace = read_events(
        op("record_param_comms", **COLLECTIVE),
        kernel("ncclDevKernel_AllReduce_Sum_f32(args)"),
        kernel("mystery", **COLLECTIVE),
        kernel("gemm"),
    )
    assert trace.is_collective.tolist() == [True, True, True, False]
    c = trace.collectives
    assert c.row.tolist() == [0, 2]
    assert texts(trace, c.name) == ["allreduce"] * 2
    assert texts(trace, c.group_ranks) == ["[0, 1, ...]"] * 2
    assert (c.in_elements.tolist(), c.group_size.tolist(), c.sequence.tolist()) == ([8, 8], [2, 2], [4, 4])


def test_B17_no_device_properties():
    trace = read_events(kernel(device=3), deviceProperties=[])
    assert [device.id for device in trace.devices] == ["3"]
    assert trace.devices[0].has_matrix_unit is None


def test_B19_unknown_arguments_and_categories():
    trace = read_events(
        kernel(**{"graph node id": 5, "anything": {"x": [1]}}), op("new", cat="brand_new"), op("new", cat="brand_new")
    )
    assert kinds(trace) == [K.KERNEL, K.UNKNOWN, K.UNKNOWN]
    assert trace.report.events_unknown == 2
    assert issues(trace) == {"unknown_category": 2}
    assert "brand_new" in trace.report.issues[0].text


def test_C1_kernels_at_time_zero_are_left_to_the_table():
    assert read_events(kernel(ts=0, dur=0)).start_ns.tolist() == [0]


def test_C8_one_correlation_of_many_kernels():
    trace = read_events(*(kernel(correlation=5) for _ in range(1000)))
    assert set(trace.correlation.tolist()) == {5}


def test_C9_C10_rows_on_a_device_that_are_no_work():
    trace = read_events(
        kernel("step", cat="gpu_user_annotation"),
        kernel("Stream Sync", cat="cuda_sync", stream=-1, device=1),
        kernel("Event", cat="cuda_event"),
    )
    assert kinds(trace) == [K.DEVICE_ANNOTATION, K.SYNC, K.SYNC]
    assert [trace.devices[i].id for i in trace.device] == ["0", "1", "0"]


def test_C11_rocm_streams_and_correlations():
    trace = read_events(
        kernel(stream="0", correlation=-1),
        kernel(stream=0),
        op("hipLaunchKernel", cat="cuda_runtime", correlation="12"),
    )
    assert texts(trace, trace.device_args.stream) == ["0", "0"]
    assert trace.correlation.tolist() == [-1, -1, 12]


def test_C22_times_as_strings():
    trace = read_events(op(ts="1712195495505582.988", dur="1.001"))
    assert (trace.start_ns.tolist(), trace.dur_ns.tolist()) == ([1712195495505582988], [1001])


def test_device_arguments():
    trace = read_events(
        kernel(
            device=0,
            stream=7,
            grid=[4, 106, 1],
            block=[128, 1, 1],
            bytes="256",
            **{"registers per thread": 30, "shared memory": 0, "blocks per SM": "inf", "est. achieved occupancy %": 33},
        ),
        op("cudaLaunchKernel", cat="cuda_runtime", grid=[1, 1, 1]),
    )
    d = trace.device_args
    assert d.row.tolist() == [0]
    assert (texts(trace, d.grid), texts(trace, d.block), texts(trace, d.stream)) == (
        ["[4, 106, 1]"],
        ["[128, 1, 1]"],
        ["7"],
    )
    assert (d.registers.tolist(), d.shared_memory.tolist(), d.bytes.tolist()) == ([30], [0], [256])
    assert np.isnan(d.blocks_per_sm[0])
    assert d.occupancy.tolist() == [0.33]


def test_operator_arguments_are_normalised_text():
    text = '{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":{"Input Dims":[[2,\n 8],[]],"Input type":["float",""],"Sequence number":0,"Fwd thread id":1,"Concrete Inputs":["inf","é"]}}'
    trace = read_events(text, op("b"))
    o = trace.operators
    assert (texts(trace, o.shapes), texts(trace, o.types), texts(trace, o.concrete)) == (
        ["[[2, 8], []]"],
        ['["float", ""]'],
        ['["inf", "é"]'],
    )
    assert (o.sequence.tolist(), o.forward_thread.tolist(), o.strides.tolist()) == ([0], [1], [-1])


@pytest.mark.parametrize("name", ["[pl][module]Linear: fc", "nn.Module: fc (Linear)"])
def test_ranges_of_modules_are_modules_where_no_calls_are_recorded(name):
    ranges = (op(name, cat="user_annotation"), op("nn.Module backward: fc (Linear)"))
    assert kinds(read_events(*ranges)) == [K.MODULE, K.OPERATOR]
    called = op("nn.Module: Linear_0", cat="python_function", **{"Python module id": 0})
    assert kinds(read_events(*ranges, called)) == [K.ANNOTATION, K.OPERATOR, K.MODULE]  # a call counts once


def test_forward_backward_arrows_pair_by_id_and_category():
    def flow(ph, i, ts, cat="fwdbwd", tid=1):
        return {"ph": ph, "id": i, "pid": 1, "tid": tid, "ts": ts, "cat": cat, "name": cat}

    trace = read_events(
        flow("f", 1, 9, tid=2),
        flow("s", 1, 1),
        flow("s", "2", 3),
        flow("f", 2, 7, "forward_backward"),
        flow("s", 1, 5, "ac2g"),
        flow("s", 8, 5),
    )
    flows = trace.flows
    assert (flows.start_time_ns.tolist(), flows.end_time_ns.tolist()) == ([1000, 3000], [9000, 7000])
    assert (texts(trace, flows.start_tid), texts(trace, flows.end_tid)) == (["1", "1"], ["2", "1"])
    assert issues(trace) == {"unpaired_flow": 1}
    assert trace.report.events_other == 6


def test_begin_and_end_marks_match_by_time_within_a_thread():
    def mark(ph, ts, name="outer", tid=1, **args):
        return {"ph": ph, "cat": "cpu_op", "name": name, "pid": 1, "tid": tid, "ts": ts, "args": args}

    trace = read_events(
        mark("E", 9),
        mark("B", 2, "inner", **{"External id": 4}),
        mark("B", 1),
        mark("E", 5, "inner", **{"Sequence number": 3}),
        mark("B", 3, "open", tid=2),
        mark("E", 4, tid=3),
    )
    rows = dict(
        zip(
            names(trace),
            zip(trace.start_ns.tolist(), trace.dur_ns.tolist(), trace.external_id.tolist(), strict=True),
            strict=True,
        )
    )
    assert rows == {"outer": (1000, 8000, -1), "inner": (2000, 3000, 4), "open": (3000, 6000, -1)}
    assert trace.operators.sequence.tolist() == [3]
    assert issues(trace) == {"unfinished_range": 1, "unmatched_end": 1}


def test_missing_times():
    trace = read_events(
        {"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1},
        {"ph": "X", "cat": "cpu_op", "name": "b", "dur": 1},
        op("c", ts="soon"),
    )
    assert names(trace) == ["a"]
    assert trace.dur_ns.tolist() == [0]
    assert issues(trace) == {"missing_duration": 1, "missing_time": 2}
    assert (trace.report.events_in_file, trace.report.events_loaded, trace.report.events_dropped) == (3, 1, 2)


def test_process_names_and_labels():
    meta = [
        {"ph": "M", "name": name, "pid": 5, "tid": 0, "args": args}
        for name, args in [
            ("process_name", {"name": "old"}),
            ("process_name", {"name": "python"}),
            ("process_labels", {"labels": "CPU"}),
        ]
    ]
    assert read_events(*meta).process_names == {"5": "python (CPU)"}


def test_devices_match_their_properties_by_id():
    listed = [
        {"id": 1, "name": "NVIDIA H100", "computeMajor": 9, "computeMinor": 0, "numSms": 132, "totalGlobalMem": 5},
        {"id": 0, "name": "Tesla P100", "computeMajor": 6, "computeMinor": 0},
    ]
    trace = read_events(
        kernel(device=1), kernel(pid=4), op(), deviceProperties=listed, baseTimeNanoseconds=1790857026000000000
    )
    assert [device.id for device in trace.devices] == ["1", "4", "0"]
    assert [device.has_matrix_unit for device in trace.devices] == [True, None, False]
    assert (trace.devices[0].vendor, trace.devices[0].capability, trace.devices[0].sm_count) == ("cuda", "9.0", 132)
    assert trace.device.tolist() == [0, 1, -1]
    assert trace.base_time_ns == 1790857026000000000


@pytest.mark.parametrize("chunk_bytes", [300, 1 << 20])
def test_marks_keep_the_shapes_of_a_chunk_that_is_gone(chunk_bytes):
    """A begin mark waits for its end while the buffer that it was decoded from is written anew."""
    begin = {
        "ph": "B",
        "cat": "cpu_op",
        "name": "aten::mm",
        "pid": 1,
        "tid": 1,
        "ts": 1,
        "args": {"Input Dims": [[3, 5], [5, 7]]},
    }
    between = [op(f"aten::op{i}", ts=10 + i, tid=2, **{"Input Dims": [[i, i]]}) for i in range(50)]
    text = trace_text(begin, *between, {"ph": "E", "pid": 1, "tid": 1, "ts": 500})
    trace = read(text, chunk_bytes)
    shapes = dict(zip(trace.operators.row.tolist(), trace.operators.shapes.tolist(), strict=True))
    row = names(trace).index("aten::mm")
    assert trace.strings[shapes[row]] == "[[3, 5], [5, 7]]"
    assert trace.operators.types.tolist() == [-1] * len(shapes), "nobody stated any"
