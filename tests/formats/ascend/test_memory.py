"""Blocks and totals of allocators: what began before the recording, what is held at its end, and who gave it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tb_plugin.analysis.base import Params
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.extra_columns import RELEASE_WITHOUT_ALLOCATION
from tb_plugin.model.trace.job_tables import LINKS, as_reported_table, job_table
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import RawTrace
from tb_plugin.views.stated.view import VendorTables
from tests.formats.ascend.folders import ALEXNET, GPT, QWEN, codes, files, folder, needs_recorded, raw_of, table_of
from tests.formats.ascend.test_timeline import names, task

MIB = 1 << 20
BASE = "17639856000000"
NEW = (
    "Name,Size(KB),Allocation Time(us),Release Time(us),Active Release Time(us),Duration(us),Active Duration(us),"
    "Allocation Total Allocated(MB),Allocation Total Reserved(MB),Allocation Total Active(MB),Release Total Allocated(MB),"
    "Release Total Reserved(MB),Release Total Active(MB),Stream Ptr,Device Type"
)
OLD = (
    "Name,Size(KB),Allocation Time(us),Release Time(us),Duration(us),Allocation Total Allocated(MB),"
    "Allocation Total Reserved(MB),Release Total Allocated(MB),Release Total Reserved(MB),Device Type"
)


def at(us: int) -> str:
    return f"{BASE}{us:02d}.500\t"


def ns(us: int) -> int:
    return int(f"{BASE}{us:02d}500")


def block(name: str, kib: str, begin: str, end: str, totals: str = "10.0,20.0,10.0,9.5,20.0,9.5") -> str:
    return f"{name},{kib},{begin},{end},,,,{totals},7,NPU:4"


def read(*lines: str, head: str = NEW, **more: Any) -> RawTrace:
    return raw_of(files(operator_memory="\r\n".join([head, *lines]) + "\r\n", **more))


LINES = (
    block("aten::mm", "512.0", at(10), at(30)),
    block("aten::add", "0.5", at(12), ""),
    block("", "-3072.0", "", at(20), ",,,7.0,20.0,7.0"),
    block("cann::trans_TransData_0", "2048.0", at(14), at(16), "26.0,64.0,,24.0,64.0,"),
)


def test_blocks_have_begin_and_end_where_the_file_has() -> None:
    raw = read(*LINES)
    blocks = raw.blocks
    assert raw.strings.take(blocks.allocator).to_pylist() == ["PTA", "PTA", "PTA", "GE"]
    assert blocks.start_ns.tolist() == [ns(10), ns(12), MISSING, ns(14)]
    assert blocks.end_ns.tolist() == [ns(30), MISSING, ns(20), ns(16)]
    assert np.abs(blocks.bytes).tolist() == [512 * 1024, 512, 3 * MIB, 2 * MIB]
    assert raw.strings.take(blocks.name).to_pylist()[:2] == ["aten::mm", "aten::add"]
    assert blocks.device_id.tolist() == [4] * 4 and codes(raw) == set()


def test_events_are_the_allocations_and_releases_of_blocks() -> None:
    """With the totals of their allocator: PyTorch's has none, the graph engine's its own."""
    raw = read(*LINES)
    events, stated = raw.memory, raw.reported_memory
    assert events.time_ns.tolist() == [ns(10), ns(12), ns(14), ns(16), ns(20), ns(30)]
    assert events.bytes.tolist() == [512 * 1024, 512, 2 * MIB, -2 * MIB, -3 * MIB, -512 * 1024]
    assert events.total_allocated.tolist() == [10 * MIB, 10 * MIB, 26 * MIB, 24 * MIB, 7 * MIB, 9.5 * MIB]
    assert events.total_reserved.tolist() == [20 * MIB, 20 * MIB, 64 * MIB, 64 * MIB, 20 * MIB, 20 * MIB]
    first, second, graph, again, older, last = events.address.tolist()
    assert first == last and graph == again and len({first, second, graph, older}) == 4, (
        "a release is known by its block"
    )
    names = [None if name == MISSING else raw.strings[name] for name in stated.name.tolist()]
    assert names == ["aten::mm", "aten::add", "cann::trans_TransData_0", None, None, None], "nobody says who released"
    allocators = [None if each == MISSING else raw.strings[each] for each in stated.allocator.tolist()]
    assert allocators == [None, None, "GE", "GE", None, None]
    assert stated.pooled_ns.tolist() == [MISSING] * 6


def test_a_release_may_come_before_the_memory_is_free() -> None:
    line = f"aten::mm,4.0,{at(10)},{at(30)},{at(34)},,,10.0,20.0,10.0,9.5,20.0,9.5,7,NPU:4"
    assert read(line).reported_memory.pooled_ns.tolist() == [MISSING, ns(34)]


def test_components() -> None:
    rows = (f"4,HCCL,{at(1)},404.0625,NPU:4", f"4,TDT,{at(1)},-0.0009765625,NPU:4", f"4,SLOG,{at(2)},,NPU:4")
    raw = raw_of(
        files(npu_module_mem="\r\n".join(["Device_id,Component,Timestamp(us),Total Reserved(MB),Device", *rows]))
    )
    found = raw.components
    assert raw.strings.take(found.allocator).to_pylist() == ["HCCL", "TDT", "SLOG"]
    assert found.reserved.tolist() == [404.0625 * MIB, RELEASE_WITHOUT_ALLOCATION, MISSING]
    assert found.time_ns.tolist() == [ns(1), ns(1), ns(2)] and found.device_id.tolist() == [4] * 3
    assert [device.id for device in raw.devices] == ["4"], "also one without kernels has its name"


def test_columns_of_2023() -> None:
    line = f"aten::mm,512,{BASE}10.5,{BASE}30,19.5,10,20,9.5,20,NPU:0"
    raw = read(line, head=OLD)
    assert raw.blocks.start_ns.tolist() == [ns(10)] and raw.blocks.end_ns.tolist() == [ns(30) - 500]
    assert raw.memory.total_allocated.tolist() == [10 * MIB, 9.5 * MIB]


def test_what_has_no_time_or_no_size_is_no_block() -> None:
    raw = read(
        block("a", "1.0", "", ""),
        block("b", "", at(10), at(20)),
        block("c", "large", at(10), ""),
        block("d", "4.0", at(30), ""),
    )
    assert raw.strings.take(raw.blocks.name).to_pylist() == ["d"] and len(raw.memory.time_ns) == 1
    assert "bad_cell" in codes(raw, "operator_memory.csv")


@pytest.mark.parametrize("head", ["Name,Size(KB)", "Allocation Time(us),Release Time(us)", "Other"])
def test_without_the_columns_there_are_no_blocks(head: str) -> None:
    raw = read(",".join(["1"] * (head.count(",") + 1)), head=head, step_trace_time="Step\n1\n")
    assert len(raw.blocks.start_ns) == len(raw.memory.time_ns) == 0
    assert codes(raw, "operator_memory.csv") == {"missing_columns"}


def test_totals_of_every_component() -> None:
    rows = (
        f"APP,{at(1)},,2113.7265625,,,NPU:4",
        f"PTA,{at(11)},600.5,640.0,600.5,7,NPU:4",
        f"PTA+GE,{at(11)},624.5,704.0,600.5,7,NPU:4",
        f"GE,{at(5)},24.0,64.0,,,NPU:4",
        f"WORKSPACE,{at(7)},16.0,64.0,,7,NPU:4",
    )
    head = "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),Stream Ptr,Device Type"
    totals = (raw := raw_of(files(memory_record="\r\n".join([head, *rows]) + "\r\n"))).totals
    assert raw.strings.take(totals.allocator).to_pylist() == ["APP", "PTA", "PTA+GE", "GE", "WORKSPACE"]
    assert totals.time_ns.tolist() == [ns(1), ns(11), ns(11), ns(5), ns(7)]
    assert totals.allocated.tolist() == [MISSING, 600.5 * MIB, 624.5 * MIB, 24 * MIB, 16 * MIB]
    assert totals.reserved.tolist() == [2113.7265625 * MIB, 640 * MIB, 704 * MIB, 64 * MIB, 64 * MIB]
    assert totals.active.tolist() == [MISSING, 600.5 * MIB, 600.5 * MIB, MISSING, MISSING]
    assert totals.device_id.tolist() == [4] * 5


def test_more_names_than_any_machine_has_are_left_out_and_counted() -> None:
    rows = [f"C{i},{at(1)},1.0,NPU:{i % 3}" for i in range(2_100)]
    raw = raw_of(files(npu_module_mem="\n".join(["Component,Timestamp(us),Total Reserved(MB),Device", *rows])))
    assert len(raw.components.time_ns) == 2_000
    (issue,) = raw.report.issues
    assert (issue.code, issue.outcome, issue.count, issue.file) == ("many_names", "dropped", 100, "npu_module_mem.csv")


def test_times_of_a_trace_without_rows_count_from_its_first_moment() -> None:
    table = table_of(files(operator_memory="\r\n".join([NEW, *LINES]) + "\r\n"))
    times = table.blocks.start_ns[table.blocks.start_ns != MISSING]
    assert int(times.min()) >= 0 and int(times.max()) < 10**9, "not nanoseconds since 1970"
    end = dict(zip(np.abs(table.blocks.bytes).tolist(), table.blocks.end_ns.tolist(), strict=True))
    assert end[3 * MIB] - int(times.min()) == 10_000, "the block that is older than the window"


@needs_recorded
@pytest.mark.parametrize(
    ("path", "blocks", "held", "peaks"),
    [
        (ALEXNET, 184, 24, {"APP": 2113.7, "PTA": 1452.0, "GE": 74.75}),
        (QWEN, None, None, {"APP": None, "PTA": None}),
        (GPT, None, None, {}),
    ],
    ids=["alexnet", "qwen", "gpt"],
)
def test_recorded_memory(path: Any, blocks: int | None, held: int | None, peaks: dict[str, float | None]) -> None:
    raw = raw_of(folder(path))
    assert len(raw.blocks.start_ns) > 0 and (raw.blocks.start_ns != MISSING).any()
    if blocks is not None:
        assert len(raw.blocks.start_ns) == blocks and (raw.blocks.end_ns == MISSING).sum() == held
        both = np.array(raw.strings.take(raw.totals.allocator).to_pylist()) == "PTA+GE"
        assert round(raw.totals.allocated[both].max() / MIB, 1) == 1261.0
    components = np.array(raw.strings.take(raw.totals.allocator).to_pylist())
    for component, peak in peaks.items():
        found = raw.totals.reserved[components == component].max() / MIB
        assert peak is None or abs(found - peak) < 0.05, component


def test_no_digit_of_a_stated_table_is_lost() -> None:
    """Times of a clock are whole nanoseconds, on pages from the first event; other numbers beyond floats stay text."""
    rows = [
        "SLOG,1736408883657086.220\t,1234567890.1234567891,0.1,1.5",
        "SLOG,1736408883657086.731\t,0.5,2,84.49799999999999",
    ]
    raw = raw_of(files(
        trace_view=[*names(), task("k", 1, 2)],
        npu_module_mem="\n".join(["Component,Timestamp(us),Odd,Total Reserved(MB),Time(us)", *rows]),
    ))  # fmt: skip
    (table,) = raw.reported_tables
    found = {column.key: (column.title, column.unit, column.values.to_pylist()) for column in table.columns}
    stamps = [1736408883657086220, 1736408883657086731]
    assert found["timestamp_ns"] == ("Timestamp", "ns since 1970", stamps)
    assert found["odd"] == ("Odd", "", ["1234567890.1234567891", "0.5"])
    assert found["time_us"] == ("Time", "us", [1.5, 84.49799999999999])
    trace = assemble(
        replace(
            raw, reported_tables=(table, as_reported_table(LINKS, job_table(LINKS, {"bytes_per_second": [1.8e10]})))
        )
    )
    frames = VendorTables().part(trace, Params()).frames
    (speed,) = (one.metric for one in frames[LINKS].columns if one.metric.key == "bytes_per_second")
    assert (speed.title, speed.unit) == ("Bytes per second", "bytes_per_second")
    frame = frames["npu_module_mem"]
    assert (
        frame.data["timestamp_ns"].to_pylist() == [stamp - trace.origin_ns for stamp in stamps] and trace.origin_ns > 0
    )
    assert next(one.metric for one in frame.columns if one.metric.key == "timestamp_ns").unit == "ns"
