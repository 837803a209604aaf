"""Totals that a profile states of several allocators, parts of the software, and blocks whose asker is named: by hand."""

from __future__ import annotations

import random
import sqlite3
from typing import Any

import numpy as np
import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.memory.trace_devices import allocators_of, devices_of
from tb_plugin.errors import BadRequest
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.memory.view import Memory
from tests.depth import needs_time
from tests.formats.ascend.folders import RECORDED, files, folder, needs_recorded, process, table_of, thread, x

Json = dict[str, Any]
MIB = 1 << 20
BASE = 1763985600000000
"""Microseconds since 1970 at which the profiles below begin."""
TOTALS = "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),Stream Ptr,Device Type"
OLD_TOTALS = "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Device Type"
BLOCKS = (
    "Name,Size(KB),Allocation Time(us),Release Time(us),Active Release Time(us),Duration(us),Active Duration(us),"
    "Allocation Total Allocated(MB),Allocation Total Reserved(MB),Allocation Total Active(MB),Release Total Allocated(MB),"
    "Release Total Reserved(MB),Release Total Active(MB),Stream Ptr,Device Type"
)
MODULES = "Device_id,Component,Timestamp(us),Total Reserved(MB),Device"


def at(us: float | None) -> str:
    return "" if us is None else f"{BASE + us:.3f}\t"


def total(name: str, us: float, used: object, kept: object, active: object = "", device: int = 0) -> str:
    return f"{name},{at(us)},{used},{kept},{active},,NPU:{device}"


def block(
    name: str, kib: float, begin: float | None, end: float | None, levels: str = ",,,,,", pooled: float | None = None
) -> str:
    return f"{name},{kib},{at(begin)},{at(end)},{at(pooled)},,,{levels},,NPU:0"


def module(name: str, us: float, mib: object, device: int = 0) -> str:
    return f"{device},{name},{at(us)},{mib},NPU:{device}"


def csv(head: str, *rows: str) -> str:
    return "\r\n".join([head, *rows]) + "\r\n"


def profile(**tables: Any) -> TraceTable:
    return table_of(files(**tables))


def asked(trace: TraceTable, **extra: object) -> Any:
    steps = extra.pop("steps", None)
    return Memory().part(trace, Params(steps=steps, extra=tuple((k, str(v)) for k, v in extra.items())))  # type: ignore[arg-type]


def table(trace: TraceTable, name: str, **extra: object) -> list[Json]:
    return list(asked(trace, **extra).frames[name].data.to_pylist())


def peaks(trace: TraceTable, key: str, **extra: object) -> dict[str, int | None]:
    return {row["allocator"]: row[f"stated_peak_{key}_bytes"] for row in table(trace, "memory_allocators", **extra)}


SEVERAL = (
    total("APP", 5, "", 92.25), total("APP", 25, "", 404.0625), total("APP", 15, "", 404.0625),
    total("PTA", 10, 9.5, 20.0, 9.5), total("PTA+GE", 10, 10.5, 30.0, 9.5),
    total("GE", 11, 2.0, 10.0), total("PTA+GE", 11, 11.5, 30.0, 9.5),
    total("WORKSPACE", 12, 300.0, 512.0),
    total("PTA", 20, 4.0, 20.0, 5.0), total("PTA+GE", 20, 6.0, 30.0, 5.0),
)  # fmt: skip
"""Not in order of time, as the file is not; 92.25 is the larger text."""


def test_peaks_are_those_of_numbers_and_of_each_allocator_alone() -> None:
    trace = profile(memory_record=csv(TOTALS, *SEVERAL))
    rows = {row["allocator"]: row for row in table(trace, "memory_allocators")}
    assert list(rows) == ["WORKSPACE", "APP", "PTA+GE", "PTA", "GE"], "what reserved most first"
    levels = {name: (row["stated_peak_allocated_bytes"], row["stated_peak_active_bytes"], row["stated_peak_reserved_bytes"])
              for name, row in rows.items()}  # fmt: skip
    assert levels == {
        "APP": (None, None, 404.0625 * MIB),
        "PTA": (9.5 * MIB, 9.5 * MIB, 20 * MIB),
        "GE": (2 * MIB, None, 10 * MIB),
        "PTA+GE": (11.5 * MIB, 9.5 * MIB, 30 * MIB),
        "WORKSPACE": (300 * MIB, None, 512 * MIB),
    }
    # Time counts from the first total; the peak is where it was first reached.
    assert (
        rows["APP"]["stated_peak_reserved_at_ns"] == 10_000 and rows["PTA+GE"]["stated_peak_allocated_at_ns"] == 6_000
    )
    assert [rows[name]["stated_samples"] for name in rows] == [1, 3, 3, 2, 1]
    facts = asked(trace).facts
    assert facts["memory.npu:0.allocator.WORKSPACE.peak_reserved_bytes"] == 512 * MIB
    assert facts["memory.npu:0.allocator.PTA+GE.peak_allocated_bytes"] == 11.5 * MIB
    assert "memory.npu:0.allocator.APP.peak_allocated_bytes" not in facts


def test_without_blocks_the_page_has_totals_and_says_how_to_record_the_rest() -> None:
    found = asked(profile(memory_record=csv(TOTALS, *SEVERAL)))
    assert "curve" not in found.payloads and "memory_operators" not in found.layout
    assert {"allocator_curve", "memory_allocators"} <= set(found.layout)
    (notice,) = found.payloads["data_quality"].notices
    assert notice.rule == "memory_totals_only" and "profile_memory=True" in notice.todo


def test_the_curve_of_one_allocator_is_its_samples() -> None:
    trace = profile(memory_record=csv(TOTALS, *SEVERAL))
    series = asked(trace, allocator="PTA").payloads["allocator_curve"]
    assert series.x == [0, 5_000, 15_000, 20_000]
    assert {line.metric.title: line.values for line in series.lines} == {
        "Allocated": [None, 9.5 * MIB, 4 * MIB, 4 * MIB],
        "Active": [None, 9.5 * MIB, 5 * MIB, 5 * MIB],
        "Reserved": [None, 20 * MIB, 20 * MIB, 20 * MIB],
    }
    every = asked(trace).payloads["allocator_curve"]
    assert [line.metric.title for line in every.lines] == ["WORKSPACE", "APP", "PTA+GE", "PTA", "GE"]
    assert every.lines[1].values[1] == 92.25 * MIB and every.lines[1].values[-1] == 404.0625 * MIB
    with pytest.raises(BadRequest, match="PTB"):
        asked(trace, allocator="PTB")


def test_a_window_holds_what_was_reserved_when_it_began() -> None:
    """Brushed: from 12 to 18 us after the first total only what PTA had before is known of it."""
    trace = profile(memory_record=csv(TOTALS, *SEVERAL))
    rows = {row["allocator"]: row for row in table(trace, "memory_allocators", start_ns=7_500, end_ns=14_000)}
    assert rows["PTA"]["stated_peak_allocated_bytes"] == 9.5 * MIB and rows["PTA"]["stated_samples"] == 0
    assert rows["PTA"]["stated_peak_allocated_at_ns"] == 7_500
    assert rows["APP"]["stated_peak_reserved_bytes"] == 404.0625 * MIB
    assert rows["WORKSPACE"]["stated_peak_reserved_bytes"] == 512 * MIB
    early = {row["allocator"]: row for row in table(trace, "memory_allocators", start_ns=0, end_ns=1_000)}
    assert early["PTA"]["stated_peak_allocated_bytes"] is None and early["APP"]["stated_samples"] == 1


def test_columns_of_2023_and_a_total_of_both_that_nobody_recorded() -> None:
    """Five columns; PTA+GE is added up from the last totals of both, and WORKSPACE stays out of it."""
    rows = [
        f"{name},{BASE + us},{used},{kept},NPU:{device}"
        for name, us, used, kept, device in (
            ("PTA", 1, 10, 20, 0), ("GE", 2, 5, 8, 0), ("PTA", 3, 12, 20, 0), ("GE", 4, 1, 8, 0),
            ("WORKSPACE", 5, 100, 100, 0), ("PTA", 1, 7, 9, 1), ("PTA+GE", 1, 7, 9, 1),
        )
    ]  # fmt: skip
    trace = profile(memory_record=csv(OLD_TOTALS, *rows))
    both = {row["device"]: row for row in table(trace, "memory_allocators") if row["allocator"] == "PTA+GE"}
    assert (
        both["npu:0"]["stated_peak_allocated_bytes"] == 17 * MIB
        and both["npu:0"]["stated_peak_allocated_at_ns"] == 2_000
    )
    assert both["npu:0"]["stated_peak_reserved_bytes"] == 28 * MIB and both["npu:0"]["stated_samples"] == 4
    assert both["npu:1"]["stated_samples"] == 1
    (issue,) = trace.report.issues
    assert (issue.code, issue.count, issue.file) == ("added_up", 4, "memory_record.csv")
    series = asked(trace, allocator="PTA+GE", device="npu:0").payloads["allocator_curve"]
    assert series.x == [0, 0, 1_000, 2_000, 3_000, 4_000]
    assert series.lines[0].values == [None, *(each * MIB for each in (10, 15, 17, 13, 13))]


def test_devices_are_apart() -> None:
    rows = [
        total("PTA", us, used, 64.0, used, device)
        for us, used, device in ((1, 3.0, 5), (2, 9.0, 0), (3, 4.0, 5), (4, 1.0, 0))
    ]
    trace = profile(memory_record=csv(TOTALS, *rows, *(total("PTA+GE", 1, 1, 1, 1, d) for d in (0, 5))))
    assert peaks(trace, "allocated", device="npu:5") == {"PTA": 4 * MIB, "PTA+GE": MIB}
    assert peaks(trace, "allocated", device="npu:0") == {"PTA": 9 * MIB, "PTA+GE": MIB}
    assert len(table(trace, "memory_allocators")) == 4
    assert asked(trace, device="npu:5").payloads["allocator_curve"].subtitle == "npu:5"
    offered = asked(trace, device="npu:5").payloads["allocator_devices"].figures
    assert [(each.metric.title, each.value) for each in offered] == [("npu:0", 64 * MIB), ("npu:5", 64 * MIB)]
    with pytest.raises(BadRequest, match="npu:7"):
        asked(trace, device="npu:7")


def test_peaks_and_curves_do_not_depend_on_the_order_of_rows() -> None:
    """And the highest point of a curve is the largest sample, however few pixels there are."""
    chance = random.Random(7)
    rows = [
        total(name, us, round(chance.uniform(0, 900), 3), 1000 + us % 7, "", device)
        for us in range(3000) for device in (0, 3) for name in ("PTA", "PTA+GE")
    ]  # fmt: skip
    shuffled = rows.copy()
    chance.shuffle(shuffled)
    one, other = (profile(memory_record=csv(TOTALS, *some)) for some in (rows, shuffled))
    assert table(one, "memory_allocators") == table(other, "memory_allocators")
    largest: dict[tuple[str, int], float] = {}
    for line in rows:
        name, _, used, *_, device = line.split(",")
        key = (name, int(device.removeprefix("NPU:")))
        largest[key] = max(largest.get(key, 0.0), float(used))
    for device in (0, 3):
        for name in ("PTA", "PTA+GE"):
            extra = {"device": f"npu:{device}", "allocator": name, "width": 50}
            series, again = (asked(each, **extra).payloads["allocator_curve"] for each in (one, other))
            assert series == again and len(series.x) < 600, "of 3,000 samples"
            assert max(v for v in series.lines[0].values if v is not None) == round(largest[name, device] * MIB)


def test_components_have_a_peak_unless_only_releases_were_seen() -> None:
    """CANN writes -1 KB where it saw a release alone: no number, and never the largest one."""
    rows = [
        module("HCCL", 1, 92.2), module("HCCL", 2, 404.1), module("HCCL", 3, 404.1), module("SLOG", 1, 0.0),
        module("SLOG", 2, 0.0), module("TDT", 1, -0.0009765625), module("TDT", 2, -0.0009765625),
        module("DRV", 1, -0.0009765625), module("DRV", 2, 3.5), module("HCCL", 1, 8.0, 4),
    ]  # fmt: skip
    trace = profile(npu_module_mem=csv(MODULES, *rows))
    found = {(row["component"], row["device"]): row for row in table(trace, "memory_components")}
    assert [(key, row["stated_peak_reserved_bytes"]) for key, row in found.items()] == [
        (("HCCL", "npu:0"), round(404.1 * MIB)), (("HCCL", "npu:4"), 8 * MIB),
        (("DRV", "npu:0"), 3.5 * MIB), (("TDT", "npu:0"), None),
    ]  # fmt: skip
    assert found["HCCL", "npu:0"]["stated_peak_reserved_at_ns"] == 1_000
    assert {key[0]: row["stated_release_samples"] for key, row in found.items()} == {"HCCL": 0, "DRV": 1, "TDT": 2}
    assert [row["component"] for row in table(trace, "memory_components", zeros=1, device="npu:0")][-2:] == [
        "SLOG",
        "TDT",
    ]
    counts = {f.metric.key: f.value for f in asked(trace, device="npu:0").payloads["component_counts"].figures}
    assert counts == {"components": 4, "zero_components": 1, "release_components": 1}
    facts = asked(trace).facts
    assert facts == {
        "memory.npu:0.component.HCCL.peak_reserved_bytes": round(404.1 * MIB),
        "memory.npu:0.component.DRV.peak_reserved_bytes": 3.5 * MIB,
        "memory.npu:4.component.HCCL.peak_reserved_bytes": 8 * MIB,
    }


VIEW = [
    *process(10, "Python", "CPU"), thread(10, 1, "main"), thread(10, 2, "other"),
    x("aten::linear", 10, 1, f"{BASE}.000", 30, "cpu_op"), x("aten::mm", 10, 1, f"{BASE + 5}.000", 20, "cpu_op"),
    x("aten::mm", 10, 2, f"{BASE + 6}.000", 2, "cpu_op"), x("aten::empty", 10, 1, f"{BASE + 40}.000", 2, "cpu_op"),
]  # fmt: skip
OF_BLOCKS = (
    block("aten::mm", 512.0, 10, 30, "10.0,20.0,10.0,9.5,20.0,9.5", 29),
    block("aten::add", 0.5, 12, None, "10.5,20.0,10.5,,,"),
    block("", -3072.0, None, 20, ",,,7.0,20.0,7.0", 19.5),
    block("cann::trans_TransData_0", 2048.0, 14, 16, "26.0,64.0,,24.0,64.0,"),
)


@pytest.fixture(scope="module")
def named() -> TraceTable:
    return profile(operator_memory=csv(BLOCKS, *OF_BLOCKS), trace_view=VIEW)


def test_blocks_have_who_asked_as_the_file_names_it(named: TraceTable) -> None:
    """And what stands around: the call of that name that is open, on whatever thread."""
    found = table(named, "memory_events", device="npu:0")
    assert [(row["name"], row["outermost_operator"], row["caller"], row["block_state"]) for row in found] == [
        ("(before the trace)", None, None, "allocated before"),
        ("aten::mm", "aten::linear", "aten::linear", "released"),
        ("aten::add", "aten::add", None, "never released"),
    ]
    assert [(row["block_bytes"], row["signed_bytes"]) for row in found] == [
        (3 * MIB, -3 * MIB), (512 * 1024, 512 * 1024), (512, 512)
    ]  # fmt: skip
    assert [row["pooled_at_ns"] for row in found] == [19_500, 29_000, None]
    assert [row["released_at_ns"] for row in found] == [20_000, 30_000, None]


def test_sums_of_operators_hold_no_block_twice_and_none_of_another_allocator(named: TraceTable) -> None:
    rows = {row["name"]: row for row in table(named, "memory_operators", device="npu:0")}
    keys = ("calls", "self_allocation_bytes", "self_size_increase_bytes")
    assert {name: tuple(row[key] for key in keys) for name, row in rows.items()} == {
        "aten::mm": (2, 512 * 1024, 512 * 1024), "aten::linear": (1, 0, 0), "aten::add": (None, 512, 512),
        "(no operator)": (0, 0, -512 * 1024 - 3 * MIB),
    }  # fmt: skip
    assert rows["aten::linear"]["allocation_bytes"] == 512 * 1024
    outer = {row["name"]: row["allocation_bytes"] for row in table(named, "memory_operators_outermost", device="npu:0")}
    assert outer == {"aten::linear": 512 * 1024, "aten::add": 512, "(no operator)": 0}
    graph = {row["name"]: row["self_allocation_bytes"] for row in table(named, "memory_operators", device="npu:0 GE")}
    assert graph == {"cann::trans_TransData_0": 2 * MIB, "(no operator)": 0}
    assert [device.name for device in devices_of(named)] == ["npu:0"], (
        "other views know the framework's allocator alone"
    )
    assert [device.name for device in allocators_of(named)] == ["npu:0", "npu:0 GE"]


def test_each_allocator_has_its_own_curve_and_peak(named: TraceTable) -> None:
    ours, graph = (asked(named, device=name) for name in ("npu:0", "npu:0 GE"))
    assert ours.facts["memory.npu:0.allocations"] == 2 and ours.facts["memory.npu:0.unreleased_bytes"] == 512
    assert ours.facts["memory.npu:0.peak_allocated_bytes"] == 10.5 * MIB
    figures = {f.metric.key: f.value for f in graph.payloads["summary"].figures}
    assert (
        figures["peak_allocated_bytes"] == 26 * MIB and figures["allocations"] == 1 and figures["unreleased_bytes"] == 0
    )
    assert not [key for key in graph.facts if " GE" in key], "gates name it by its totals"


def test_what_a_file_leaves_open_is_said(named: TraceTable) -> None:
    notices = {notice.rule: notice for notice in asked(named, device="npu:0").payloads["data_quality"].notices}
    assert set(notices) == {"memory_named", "memory_older"}
    said = {f.metric.key: f.value for f in notices["memory_named"].figures}
    assert (said["allocations"], said["blocks"]) == (2, 1), "aten::add has no call"
    older = {f.metric.key: f.value for f in notices["memory_older"].figures}
    assert (older["blocks"], older["block_bytes"]) == (1, 3 * MIB)


def test_the_last_call_of_a_name_that_is_open_asked() -> None:
    """Calls of one name inside of each other, one on another thread that ended, and none at all."""
    view = [
        *process(10, "Python", "CPU"), thread(10, 1, "main"), thread(10, 2, "other"),
        x("outer", 10, 1, f"{BASE}.000", 100, "cpu_op"), x("a", 10, 1, f"{BASE + 10}.000", 50, "cpu_op"),
        x("a", 10, 1, f"{BASE + 20}.000", 10, "cpu_op"), x("elsewhere", 10, 2, f"{BASE + 5}.000", 60, "cpu_op"),
        x("a", 10, 2, f"{BASE + 40}.000", 5, "cpu_op"),
    ]  # fmt: skip
    lines = [block("a", 1.0, us, None) for us in (5, 25, 35, 42, 50, 80)]
    found = table(profile(operator_memory=csv(BLOCKS, *lines), trace_view=view), "memory_events")
    by_time = sorted(found, key=lambda row: row["allocated_at_ns"])
    assert [(row["caller"], row["outermost_operator"]) for row in by_time] == [
        (None, "a"), ("a", "outer"), ("outer", "outer"), ("elsewhere", "elsewhere"), ("outer", "outer"), (None, "a"),
    ]  # fmt: skip


def test_chosen_steps_limit_totals_components_and_blocks_alike() -> None:
    """What was held when a step began counts for it, what comes after it does not."""
    view = [
        *process(10, "Python", "CPU"), thread(10, 1, "main"),
        *(x(f"ProfilerStep#{n}", 10, 1, f"{BASE + us}.000", 10, "cpu_op") for n, us in ((1, 0), (2, 20), (3, 40))),
        *(x("aten::mm", 10, 1, f"{BASE + us}.000", 5, "cpu_op") for us in (1, 21, 41)),
    ]  # fmt: skip
    trace = profile(
        trace_view=view,
        memory_record=csv(
            TOTALS, *(total("PTA", us, used, 9, used) for us, used in ((2, 8.0), (12, 3.0), (22, 4.0), (42, 7.0)))
        ),
        operator_memory=csv(
            BLOCKS, *(block("aten::mm", 1.0 + us, us, us + 12, "10.0,20.0,10.0,9.0,20.0,9.0") for us in (2, 22, 42))
        ),
        npu_module_mem=csv(MODULES, *(module("HCCL", us, mib) for us, mib in ((5, 30.0), (25, 20.0), (45, 25.0)))),
    )
    chosen = {"steps": ("2",)}
    assert peaks(trace, "allocated", **chosen) == {"PTA": 4 * MIB} and peaks(trace, "allocated") == {"PTA": 8 * MIB}
    held = [row["stated_peak_reserved_bytes"] for row in table(trace, "memory_components", **chosen)]
    assert held == [30 * MIB], "when the step began"
    assert [row["allocation_step"] for row in table(trace, "memory_events", **chosen)] == ["2"]
    kept = [(row["allocation_step"], row["kept_bytes"]) for row in table(trace, "memory_steps")]
    assert sorted(kept) == [("1", 3 * 1024), ("2", 23 * 1024), ("3", 43 * 1024)]
    series = asked(trace, allocator="PTA", **chosen).payloads["allocator_curve"]
    assert (series.x[0], series.x[-1]) == (20_000, 30_000)
    at_moment = table(trace, "memory_peak", at_ns=23_000)
    assert [(row["name"], row["live_bytes"]) for row in at_moment if row["blocks"]] == [("aten::mm", 23 * 1024)]


def test_totals_of_no_time_are_set_aside_and_counted() -> None:
    view = [*process(10, "Python", "CPU"), thread(10, 1, "main"), x("aten::mm", 10, 1, f"{BASE}.000", 30, "cpu_op")]
    rows = [total("PTA", 3, 5.0, 9, 5.0), "PTA,0,700.0,900,700.0,,NPU:0"]
    modules = ["0,HCCL,0,80.0,NPU:0", module("HCCL", 2, 7.0)]
    trace = profile(trace_view=view, memory_record=csv(TOTALS, *rows), npu_module_mem=csv(MODULES, *modules))
    assert peaks(trace, "allocated") == {"PTA": 5 * MIB}
    assert [row["stated_peak_reserved_bytes"] for row in table(trace, "memory_components")] == [7 * MIB]
    (issue,) = trace.report.issues
    assert (issue.code, issue.outcome, issue.count) == ("impossible_time", "quarantined", 2)


@needs_recorded
@needs_time
@pytest.mark.parametrize("rank", [0, 1])
def test_a_recorded_database_has_the_numbers_of_its_tables(rank: int) -> None:
    """Spec 6 of the run that was exported as a database: its own peaks, and as many blocks as the text run has."""
    (path,) = (RECORDED / "alexnet_db_level1").glob(f"rank_{rank}_*")
    (file,) = path.rglob("ascend_pytorch_profiler*.db")
    database = sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)
    ask = database.execute
    names = "join STRING_IDS s on s.id ="
    said = dict(ask(f"select s.value, max(totalReserved) from MEMORY_RECORD {names} component group by 1"))
    used = dict(ask(f"select s.value, max(totalAllocated) from MEMORY_RECORD {names} component group by 1"))
    (process,) = ask(f"select max(hbm + ddr) from NPU_MEM {names} type where s.value = 'app'").fetchone()
    modules = dict(
        ask("select e.name, max(totalReserved) from NPU_MODULE_MEM join ENUM_MODULE e on e.id = moduleId group by 1")
    )
    count, held = ask("select count(*), sum(releaseTime is null) from OP_MEMORY").fetchone()
    trace = table_of(folder(path))
    assert peaks(trace, "reserved") == {**said, "APP": process}
    assert peaks(trace, "allocated") == {**used, "APP": None} and peaks(trace, "active")["GE"] is None
    assert {name: round(peak / MIB, 1) for name, peak in peaks(trace, "reserved").items() if peak and name != "APP"} == {
        "PTA+GE": 1526.8, "PTA": 1452.0, "GE": 74.8
    }  # fmt: skip
    assert {
        row["component"]: row["stated_peak_reserved_bytes"] for row in table(trace, "memory_components", zeros=1)
    } == modules
    blocks = table(trace, "memory_events")
    assert (len(blocks), sum(row["block_state"] == "never released" for row in blocks)) == (count, held) == (184, 24)


@needs_recorded
@needs_time
@pytest.mark.parametrize("rank", [0, 1])
def test_a_recorded_text_run_has_the_numbers_of_the_specification(rank: int) -> None:
    (path,) = (RECORDED / "alexnet_text_level1").glob(f"rank_{rank}_*")
    trace = table_of(folder(path))
    assert {name: round(peak / MIB, 1) for name, peak in peaks(trace, "reserved").items() if peak} == {
        "APP": 2113.7, "PTA+GE": 1526.8, "PTA": 1452.0, "GE": 74.8
    }  # fmt: skip
    assert round((peaks(trace, "allocated")["PTA+GE"] or 0) / MIB, 1) == 1261.0
    blocks = table(trace, "memory_events")
    assert (len(blocks), sum(row["block_state"] == "never released" for row in blocks)) == (184, 24)
    asks = trace.reported_memory.name[trace.memory.bytes > 0]
    assert (asks != MISSING).all() and not np.isin([row["name"] for row in blocks], ["(no operator)"]).any()
