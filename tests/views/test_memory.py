"""Memory: the old plugin's two cases, windows, pairing by device and address, and the numbers of its samples."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from typing import Any

import numpy as np
import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.driver_calls import driver_calls, sets_up, step_time
from tb_plugin.errors import BadRequest
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tests.builders import TraceBuilder, analysis, kernel, part, row, rows, trace
from tests.conftest import SAMPLE_FILES, WITH_MEMORY, loaded, needs_shared, sample

KEYS = (
    "self_size_increase_bytes", "self_allocation_bytes", "self_allocation_count", "size_increase_bytes",
    "allocation_bytes", "allocation_count", "calls",
)  # fmt: skip
"""The order of the old plugin's test."""


def asked(table: TraceTable, steps: tuple[str, ...] | None = None, **own: Any) -> Any:
    """The part of a request with the view's own parameters."""
    extra = tuple((key, str(value)) for key, value in own.items())
    return part(table, "memory", steps, extra=extra)


def frame(found: Any, name: str) -> list[dict[str, Any]]:
    return found.frames[name].data.to_pylist()  # type: ignore[no-any-return]


def page(table: TraceTable, name: str, **own: Any) -> Any:
    """A table as a request gets it, all rows."""
    extra = tuple((key, str(value)) for key, value in own.items())
    return analysis("memory").answer([part(table, "memory")], Params(table=name, limit=None, extra=extra))


def figures(found: Any, payload: str = "summary") -> dict[str, Any]:
    return {figure.metric.key: figure.value for figure in found.payloads[payload].figures}


def old_statistics() -> TraceTable:
    builder = trace().op("aten::to", 10, 10, tid=123).step(1, 50, 400, tid=123)
    builder.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100, 180, tid=123)
    builder.op("aten::to", 200, 60, tid=123).op("aten::nll_loss_backward", 340, 70, tid=123).step(2, 500, 500, tid=123)
    for name, at, dur in (
        ("to", 510, 150), ("copy_", 520, 100), ("liner", 700, 100), ("t", 705, 40), ("transpose", 710, 30),
        ("tranas_stride", 720, 10), ("addmm", 750, 40), ("to", 900, 100),
    ):  # fmt: skip
        builder.op(f"aten::{name}", at, dur, tid=123)
    host = {90: 4, 150: 4, 200: 4, 450: 1_000_000, 729: 50, 746: 100, 749: -100}
    device = {
        210: 4, 265: 4, 300: 4, 350: 10, 360: -10, 515: 100, 520: 100, 600: -100, 690: 100, 701: 100, 708: 100,
        715: 50, 725: 50, 728: -50, 735: -50, 742: -100, 747: 20, 760: 30, 780: -30, 795: 10, 796: -100, 799: -10,
    }  # fmt: skip
    for at, size in host.items():
        builder.memory(at, size, 0, -1, tid=123, Addr=690 if size == -100 else at)
    for at, size in device.items():
        builder.memory(at, size, 1, 0, tid=123, Addr=515 if at == 796 else at)
    return builder.table()


def test_statistics_of_the_old_plugin() -> None:
    table = old_statistics()
    found = {
        (r["device"], r["name"].removeprefix("aten::")): [r[key] for key in KEYS]
        for r in rows(table, "memory", "memory_operators")
    }
    outside = {key: found.pop(key) for key in list(found) if key[1] == "(no operator)"}
    assert found == {
        ("cuda:0", "to"): [104, 104, 2, 104, 204, 3, 4],
        ("cuda:0", "nll_loss_backward"): [0, 10, 1, 0, 10, 1, 1],
        ("cuda:0", "copy_"): [0, 100, 1, 0, 100, 1, 1],
        ("cuda:0", "addmm"): [0, 30, 1, 0, 30, 1, 1],
        ("cuda:0", "tranas_stride"): [0, 50, 1, 0, 50, 1, 1],
        ("cuda:0", "transpose"): [0, 50, 1, 0, 100, 2, 1],
        ("cuda:0", "t"): [0, 100, 1, 0, 200, 3, 1],
        ("cuda:0", "liner"): [20, 130, 3, 20, 360, 7, 1],
        ("cpu", "to"): [4, 4, 1, 4, 4, 1, 4],
        ("cpu", "liner"): [0, 100, 1, 50, 150, 2, 1],
        ("cpu", "tranas_stride"): [50, 50, 1, 50, 50, 1, 1],
        ("cpu", "transpose"): [0, 0, 0, 50, 50, 1, 1],
        ("cpu", "t"): [0, 0, 0, 50, 50, 1, 1],
    }
    # Deviation: what the old plugin left out because no operator was open has a row of its own.
    assert outside == {
        ("cuda:0", "(no operator)"): [108, 108, 3, 108, 108, 3, 0],
        ("cpu", "(no operator)"): [1_000_008, 1_000_008, 3, 1_000_008, 1_000_008, 3, 0],
    }


HOST = (
    (1, 1, 4, 4), (20, 1, -4, 0), (100, 2, 8000, 8000), (200, 2, -8000, 0), (300, 3, 4, 4), (400, 4, 16, 20),
    (500, 5, 4000, 4020), (600, 4, -16, 4004), (700, 7, 80, 4084), (800, 3, -4, 4080), (900, 7, -80, 4000),
    (905, 4, -4000, 0),
)  # fmt: skip
DEVICE = (
    (2, 11, 400, 400, 512), (22, 11, -400, 0, 512), (105, 12, 5000, 5000, 10240), (106, 13, 3000, 8000, 10240),
    (205, 12, -5000, 3000, 10240), (401, 14, 1024, 4024, 10240), (499, 15, 4, 4028, 10240),
    (501, 13, -3000, 1028, 10240), (502, 15, -4, 1024, 10240), (906, 14, -1024, 0, 10240),
)  # fmt: skip


def old_curve() -> TraceTable:
    builder = trace().op("a", 1, 910)
    for at, address, size, total in HOST:
        builder.memory(at, size, Addr=address, **{"Total Allocated": total, "Total Reserved": 0})
    for at, address, size, total, reserved in DEVICE:
        builder.memory(at, size, 1, 0, Addr=address, **{"Total Allocated": total, "Total Reserved": reserved})
    return builder.table()


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_curve_of_the_old_plugin(device: str) -> None:
    found = asked(old_curve(), device=device)
    series = found.payloads["curve"]
    records = HOST if device == "cpu" else DEVICE
    # Deviation: nanoseconds, and both ends of the window with the level there.
    assert series.x == [0, *((r[0] - 1) * 1000 for r in records), 910_000]
    assert series.lines[0].values == [0, *(r[3] for r in records), records[-1][3]]
    if device == "cpu":
        assert len(series.lines) == 1, "nothing is reserved on the host"
    else:
        assert series.lines[1].values == [512, *(r[4] for r in DEVICE), 10240]
    assert figures(found)["peak_allocated_bytes"] == 8000


def test_facts() -> None:
    facts = part(old_curve(), "memory").facts
    assert facts == {
        "memory.cuda:0.peak_allocated_bytes": 8000, "memory.cuda:0.peak_reserved_bytes": 10240,
        "memory.cuda:0.peak_time_ns": 105_000, "memory.cuda:0.allocations": 5, "memory.cuda:0.unreleased_bytes": 0,
        "memory.cpu.peak_allocated_bytes": 8000, "memory.cpu.peak_reserved_bytes": 0,
        "memory.cpu.peak_time_ns": 99_000, "memory.cpu.allocations": 6, "memory.cpu.unreleased_bytes": 4000,
    }  # fmt: skip


def test_blocks_of_the_old_curve() -> None:
    blocks = [r for r in rows(old_curve(), "memory", "memory_events") if r["device"] == "cpu"]
    found = [(r["block_bytes"], r["allocated_at_ns"], r["released_at_ns"], r["block_state"]) for r in blocks]
    assert found == [
        (8000, 99_000, 199_000, "released"), (4000, 499_000, None, "never released"),
        # The block at that address was released before: the allocation must be missing.
        (4000, None, 904_000, "unpaired"), (80, 699_000, 899_000, "released"),
        (16, 399_000, 599_000, "released"), (4, 0, 19_000, "released"), (4, 299_000, 799_000, "released"),
    ]  # fmt: skip


def test_pairing_is_by_device_and_address() -> None:
    builder = trace().op("a", 0, 100).memory(10, 5, 1, 0, Addr=7).memory(20, 6, 1, 1, Addr=7)
    builder.memory(30, -5, 1, 0, Addr=7).memory(40, -6, 1, 1, Addr=7)
    found = {
        r["device"]: (r["block_bytes"], r["lifetime_ns"]) for r in rows(builder.table(), "memory", "memory_events")
    }
    assert found == {"cuda:0": (5, 20_000), "cuda:1": (6, 20_000)}


def test_devices_are_named_as_torch_does_and_unknown_ones_by_number() -> None:
    builder = trace().op("a", 0, 100)
    kinds = [(0, -1), (1, 1), (6, 0), (12, 0), (19, 2), (20, 0), (77, 3), (1, 0), (None, None)]
    for i, (kind, number) in enumerate(kinds):
        builder.memory(i + 1, 8, kind, number, Addr=i + 1)
    names = [figure.metric.title for figure in part(builder.table(), "memory").payloads["devices"].figures]
    assert names == ["unknown", "cuda:0", "cuda:1", "hip:0", "xpu:0", "mtia:2", "privateuseone:0", "type77:3", "cpu"]


def with_steps() -> TraceBuilder:
    """A block from before, one across steps, one within, one that stays; peak 160 in step 2."""
    builder = trace().step(1, 0, 100).step(2, 100, 100).op("x", 5, 10).op("y", 110, 40).op("z", 120, 10)
    total = 50
    for at, address, size in ((10, 1, 30), (112, 2, 60), (125, 3, 20), (140, 9, -50), (150, 1, -30), (190, 3, -20)):
        total += size
        builder.memory(at, size, 1, 0, Addr=address, **{"Total Allocated": total, "Total Reserved": 200})
    return builder


def test_live_at_the_peak_sums_to_it() -> None:
    found = asked(with_steps().table())
    assert [(r["name"], r["blocks"], r["live_bytes"]) for r in frame(found, "memory_peak")] == [
        ("y", 1, 60), ("(before the trace)", 1, 50), ("x", 1, 30), ("z", 1, 20),
    ]  # fmt: skip
    bar = found.payloads["live_operators"]
    assert bar.total == 160 == sum(p.value for p in bar.parts)
    summary = figures(found)
    assert (summary["peak_allocated_bytes"], summary["peak_time_ns"], summary["live_before_bytes"]) == (
        160,
        125_000,
        50,
    )
    assert summary["fragmentation"] == 1 - 160 / 200 and summary["unreleased_bytes"] == 60
    assert found.payloads["summary"].figures[0].note == "by z in y"


def test_the_answer_says_what_the_peak_consists_of() -> None:
    table = with_steps().table()
    peak = {figure.metric.key: figure.value for figure in asked(table).payloads["answer"].notices[0].figures}
    assert (peak["peak_allocated_bytes"], peak["peak_time_ns"]) == (160, 125_000)
    assert (peak["part"], peak["part_bytes"], peak["part_ratio"]) == ("y", 80, 0.5)
    (later,) = asked(table, at_ns=130_000).payloads["answer"].notices
    assert later.text.startswith("At {moment_ns}")


def test_the_outermost_operator_is_the_other_owner() -> None:
    builder = trace().op("aten::linear", 0, 100).op("aten::addmm", 10, 80).op("aten::empty", 20, 10)
    builder.op("aten::empty", 200, 20)
    for at, size, total in ((25, 40, 40), (85, 8, 48), (210, 16, 64), (300, 4, 68)):
        builder.memory(at, size, 1, 0, Addr=at, **{"Total Allocated": total})
    builder.memory(400, -40, 1, 0, Addr=25, **{"Total Allocated": 28})
    found = asked(builder.table())
    assert [
        (r["name"], r["outer_calls"], r["size_increase_bytes"], r["allocation_count"], r["allocation_bytes"])
        for r in frame(found, "memory_operators_outermost")
    ] == [("aten::linear", 1, 48, 2, 48), ("aten::empty", 1, 16, 1, 16), ("(no operator)", 0, -36, 1, 4)]
    assert {
        (r["name"], r["caller"], r["outermost_operator"]): r["block_bytes"] for r in frame(found, "memory_events")
    } == {
        ("aten::empty", "aten::addmm", "aten::linear"): 40,
        ("aten::addmm", "aten::linear", "aten::linear"): 8,
        ("aten::empty", None, "aten::empty"): 16,
        ("(no operator)", None, None): 4,
    }
    bar = found.payloads["live_outermost"]
    assert {p.metric.title: p.value for p in bar.parts} == {"aten::linear": 48, "aten::empty": 16, "no operator": 4}
    assert bar.parts[0].link.params == {"group": "memory_peak", "where": "outermost_operator:aten::linear"}
    live = {(r["name"], r["outermost_operator"]): r["live_bytes"] for r in frame(found, "memory_peak")}
    assert live["aten::empty", "aten::linear"] == 40 and live["aten::empty", "aten::empty"] == 16
    inside = frame(asked(builder.table(), start_ns=80_000, end_ns=250_000), "memory_operators_outermost")
    # aten::linear began before the window
    assert [(r["name"], r["outer_calls"], r["allocation_bytes"]) for r in inside] == [
        ("aten::empty", 1, 16), ("aten::linear", 0, 8)
    ]  # fmt: skip


def test_samples_with_memory_are_known_without_reading_them() -> None:
    # MegEngine states levels of whole devices, which nobody allocated.
    assert [name for name in SAMPLE_FILES if sample(name).memory.bytes.any()] == WITH_MEMORY


@pytest.mark.parametrize("name", WITH_MEMORY)
def test_the_outermost_operators_recounted(name: str) -> None:
    table = sample(name)
    memory = table.memory
    operators = [
        (str(table.tracks[track].tid), int(start), int(start + dur), table.strings[text])
        for track, start, dur, text, around, kind in zip(
            table.track, table.start_ns, table.dur_ns, table.name, table.operator, table.kind, strict=True
        )
        if kind == EventKind.OPERATOR and around == MISSING
    ]
    by_thread: dict[str, list[tuple[int, int, str]]] = {}
    for tid, start, end, text in operators:
        by_thread.setdefault(tid, []).append((start, end, text))
    expected: Counter[str] = Counter()
    stated = table.reported_memory.name.tolist() or [MISSING] * len(memory.time_ns)
    rows_named: dict[int, list[int]] = {}
    for operator in np.flatnonzero(table.kind == EventKind.OPERATOR).tolist():
        rows_named.setdefault(int(table.name[operator]), []).append(operator)
    for at, size, tid, name in zip(
        memory.time_ns.tolist(), memory.bytes.tolist(), memory.tid.tolist(), stated, strict=True
    ):
        if name != MISSING:  # the last call of the name that is open; its root stands on the same thread
            calls_of = [r for r in rows_named.get(name, []) if table.start_ns[r] <= at < table.ends(np.array([r]))[0]]
            thread = table.tracks[table.track[calls_of[-1]]].tid if calls_of else ""
        else:
            thread = table.strings[tid]
        calls = by_thread.get(thread, [])
        place = bisect_right(calls, (at, 1 << 62, "")) - 1
        inside = place >= 0 and calls[place][0] <= at < calls[place][1]
        nobody = "(no operator)" if name == MISSING else table.strings[name]
        expected[calls[place][2] if inside else nobody] += max(size, 0)
    found: Counter[str] = Counter()
    for r in rows(table, "memory", "memory_operators_outermost"):
        found[r["name"]] += r["allocation_bytes"]
    assert +found == +expected


def test_a_chosen_moment() -> None:
    table = with_steps().table()
    assert [r["live_bytes"] for r in frame(asked(table, at_ns=50_000), "memory_peak")] == [50, 30]
    assert [r["live_bytes"] for r in frame(asked(table, at_ns=2), "memory_peak")] == [50]
    assert frame(asked(table, at_ns=145_000), "memory_peak")[1]["name"] == "x", "the block from before is gone"


@pytest.mark.parametrize("own", [{"start_ns": 100_000, "end_ns": 145_000}, {"steps": ("2",)}], ids=["range", "steps"])
def test_a_window_drives_both_tables(own: dict[str, Any]) -> None:
    found = asked(with_steps().table(), **own)
    operators = {r["name"]: (r["calls"], r["self_size_increase_bytes"]) for r in frame(found, "memory_operators")}
    assert operators == {"y": (1, 10), "z": (1, 20)} if "start_ns" in own else {"y", "z"} <= operators.keys()
    names = {(r["name"], r["block_bytes"]) for r in frame(found, "memory_events")}
    assert ("x", 30) not in names if "start_ns" in own else ("x", 30) in names
    summary = figures(found)
    assert (summary["live_before_bytes"], summary["peak_allocated_bytes"]) == (80, 160)
    series = found.payloads["curve"]
    assert series.x[0] == 100_000 and series.lines[0].values[0] == 80


def test_blocks_that_outlast_the_window_are_marked() -> None:
    for own in ({"start_ns": 5_000, "end_ns": 99_000}, {"steps": ("1",)}):
        found = frame(asked(with_steps().table(), **own), "memory_events")
        assert [(r["name"], r["block_state"], r["lifetime_ns"]) for r in found] == [("x", "released later", 140_000)]
    found = frame(asked(with_steps().table(), ("2",)), "memory_events")
    assert [(r["block_bytes"], r["block_state"]) for r in found] == [
        (60, "never released"), (50, "allocated before"), (30, "allocated before"), (20, "released")
    ]  # fmt: skip
    assert [r["allocated_at_ns"] for r in found] == [112_000, None, 10_000, 125_000]


def test_a_window_that_begins_at_its_highest_point() -> None:
    found = asked(with_steps().table(), start_ns=145_000)
    assert found.facts["memory.cuda:0.peak_allocated_bytes"] == 110
    assert found.payloads["summary"].figures[0].note == "by (before the window)"


@pytest.mark.parametrize(
    ("own", "sizes"),
    [
        ({}, [60, 50, 30, 20]),
        ({"min_block_bytes": 50}, [60, 50]),
        ({"max_block_bytes": 30}, [30, 20]),
        ({"min_block_bytes": 30, "max_block_bytes": 50}, [50, 30]),
        ({"min_lifetime_ns": 65_000}, [30, 20]),
        ({"max_lifetime_ns": 65_000}, [20]),
        ({"min_lifetime_ns": 65_001, "max_lifetime_ns": 140_000}, [30]),
        ({"min_lifetime_ns": 1, "max_block_bytes": 20}, [20]),
        ({"min_block_bytes": 61}, []),
    ],
)
def test_blocks_by_ranges_of_size_and_lifetime(own: dict[str, int], sizes: list[int]) -> None:
    """Both ends belong to a range; a block without a lifetime is in no range of lifetimes."""
    found = page(with_steps().table(), "memory_events", **own)
    assert [r["block_bytes"] for r in found.rows] == sizes
    assert (found.matched_rows, found.total_rows) == (len(sizes), 4), "a filter leaves the number of all rows"


def test_a_range_of_blocks_leaves_other_tables_alone() -> None:
    table = with_steps().table()
    every = page(table, "memory_operators")
    assert page(table, "memory_operators", min_block_bytes=10**9) == every
    narrow = page(table, "memory_operators", min_self_allocation_bytes=31)
    assert [r["name"] for r in narrow.rows] == ["y"], "any whole number can be a range"


def test_backward_memory_belongs_to_the_module_of_its_forward() -> None:
    builder = trace().module("Net", 0, 40).op("mm", 5, 20, sequence=3).memory(10, 8, Addr=1)
    builder.op("MmBackward", 100, 20, tid=2, sequence=3, forward_thread=1).memory(110, 16, tid=2, Addr=2)
    blocks = rows(builder.table(), "memory", "memory_events")
    assert {(r["name"], r["module"]) for r in blocks} == {("mm", "Net_0"), ("MmBackward", "Net_0")}


def test_a_spike_survives_the_level_of_detail() -> None:
    builder = trace().op("a", 0, 100_000)
    total = 0
    for i in range(4_000):
        size = 1_000_000 if i == 1_234 else 10 + i % 7
        for step, change in enumerate((size, -size)):
            total += change
            builder.memory(20 * i + step, change, 1, 0, Addr=i + 1, **{"Total Allocated": total, "Total Reserved": 9})
    series = asked(builder.table(), width=100).payloads["curve"]
    assert len(series.x) < 700
    assert max(series.lines[0].values) == 1_000_000 and min(series.lines[0].values) == 0
    assert series.x == sorted(series.x)


def test_driver_calls_inside_steps() -> None:
    builder = with_steps().call(20, 5, name="cudaMalloc").call(150, 7, name="cudaFree").call(300, 9, name="cudaMalloc")
    builder.call(30, 3, name="hipMallocAsync").call(40, 2, name="cuMemUnmap").call(50, 2, name="cudaMallocHost")
    found = asked(builder.table())
    assert figures(found, "driver_calls") == {"malloc_calls": 2, "malloc_ns": 8_000, "free_calls": 2, "free_ns": 9_000}
    (notice,) = found.payloads["advice"].notices
    assert notice.rule == "driver_memory_calls" and notice.severity == "medium"
    assert not asked(with_steps().table()).payloads["advice"].notices
    host = asked(builder.memory(5, 1, **{"Total Allocated": 1}).table(), device="cpu")
    assert not host.payloads["advice"].notices, "the host has no driver"


def test_without_steps_the_share_is_that_of_the_whole_recording() -> None:
    """The host is done long before the device is; a call after the last operator counts too."""
    builder = (
        trace().device(0).op("aten::mm", 0, 100).launches(kernel("gemm", 900, at=50)).call(150, 19, name="cudaMalloc")
    )
    builder.memory(1, 10, 1, 1)
    assert not driver_notices(builder.table(), "overview", "findings", None), "the device does not wait for it"
    (notice,) = driver_notices(builder.table(), "memory", "advice", None)
    assert {f.metric.key: f.value for f in notice.figures}["driver_memory_ratio"] == 19 / 950
    assert notice.severity == "low"


def driver_notices(table: TraceTable, view: str, payload: str, steps: tuple[str, ...] | None) -> list[Any]:
    notices: Any = part(table, view, steps).payloads[payload]
    return [n for n in notices.notices if n.rule == "driver_memory_calls"]


@pytest.mark.parametrize("steps", [None, ("1",), ("2",)])
def test_the_overview_says_the_same_of_driver_calls(steps: tuple[str, ...] | None) -> None:
    table = with_steps().call(20, 5, name="cudaMalloc").call(150, 7, name="cudaFree").table()
    (there,) = driver_notices(table, "overview", "findings", steps)
    (here,) = driver_notices(table, "memory", "advice", steps)
    assert there.figures == here.figures and there.text == here.text and there.todo == here.todo
    values = {figure.metric.key: figure.value for figure in there.figures}
    gets, gives = steps in (None, ("1",)), steps in (None, ("2",))
    assert values == {
        "malloc_calls": int(gets), "malloc_ns": 5_000 * gets, "free_calls": int(gives), "free_ns": 7_000 * gives,
        "driver_memory_ratio": (5 * gets + 7 * gives) / (200 if steps is None else 100),
    }  # fmt: skip
    assert (there.evidence.view, here.evidence.view) == ("memory", "timeline")


def test_setting_the_driver_up_is_not_churn() -> None:
    """N16: a first release of 6 s beside five allocations of 10 us each, in a step of 10 s."""
    builder = trace().step(1, 0, 10_000_000).memory(1, 10, 1, 0, **{"Total Allocated": 10})
    builder.call(100, 6_000_000, name="cudaFree")
    for i in range(5):
        builder.call(7_000_000 + 100 * i, 10, name="cudaMalloc")
    assert not driver_notices(builder.table(), "overview", "findings", None), "it would save nothing to speak of"
    (notice,) = driver_notices(builder.table(), "memory", "advice", None)
    assert {figure.metric.key: figure.value for figure in notice.figures} == {
        "malloc_calls": 5, "malloc_ns": 50_000, "free_calls": 1, "free_ns": 6_000_000_000,
        "setup_calls": 1, "setup_ns": 6_000_000_000, "driver_memory_ratio": 0.000_005,
    }  # fmt: skip
    assert notice.severity == "low"


def test_a_release_that_waits_for_the_device_does_not_set_the_driver_up() -> None:
    """6 s of kernel, which the release waits for, after five allocations of 10 us each."""
    builder = trace().step(1, 0, 10_000_000).op("a", 0, 10).launches(kernel("k", 6_000_000, 100))
    for i in range(5):
        builder.call(20 + 10 * i, 10, name="cudaMalloc")
    table = builder.call(100, 6_000_000, name="cudaFree").table()
    calls = driver_calls(table, step_time(table.steps))
    assert (calls.free_ns, calls.setup_calls, calls.usual_ns) == (6_000_000_000, 0, 6_000_050_000)


def test_one_long_call_alone_is_no_churn() -> None:
    builder = trace().step(1, 0, 10_000_000).call(100, 6_000_000, name="cudaFree")
    assert not driver_notices(builder.table(), "overview", "findings", None)


@pytest.mark.parametrize(
    ("durations", "apart"),
    [
        ([], []),
        ([40_000, 2_000, 2_000], [False, False, False]),  # far longer, but no more than 1 ms
        ([1_000_001, 2_000, 2_000], [True, False, False]),
        ([1_300_000, 65_000, 65_000], [False, False, False]),  # 20 times
        ([1_300_001, 65_000, 65_000], [True, False, False]),
        ([9_000_000, 2_000], [True, False]),
        ([500_000_001], [True]),
        ([500_000_000], [False]),
    ],
)
def test_which_calls_set_the_driver_up(durations: list[int], apart: list[bool]) -> None:
    assert sets_up(np.array(durations, np.int64)).tolist() == apart


def test_driver_calls_without_allocator_events_or_steps() -> None:
    table = trace().op("a", 0, 100).call(20, 5, name="cudaMalloc").table()
    (notice,) = driver_notices(table, "overview", "findings", None)
    assert notice.evidence.view == "timeline", "there is no memory view to show"
    assert "While recording" in notice.text and "profiler.step()" in notice.todo
    assert not driver_notices(trace().step(1, 0, 9).call(20, 5, name="cudaMalloc").table(), "overview",
                              "findings", None), "outside the steps"  # fmt: skip


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("cudaMalloc", (1, 0)), ("cuMemAlloc_v2", (1, 0)), ("cuMemCreate", (1, 0)), ("cudaMallocAsync", (1, 0)),
        ("hipExtMallocWithFlags", (1, 0)), ("zeMemAllocDevice", (1, 0)), ("hipFree", (0, 1)), ("cudaFreeAsync", (0, 1)),
        ("cuMemUnmap", (0, 1)), ("cuMemRelease", (0, 1)), ("zeMemFree", (0, 1)), ("cudaFreeHost", (0, 0)),
        ("cudaHostAlloc", (0, 0)), ("cuMemAllocHost_v2", (0, 0)), ("cuMemcpyHtoD_v2", (0, 0)), ("cudaMemset", (0, 0)),
    ],
)  # fmt: skip
def test_which_calls_are_the_driver_s_memory(name: str, counts: tuple[int, int]) -> None:
    found = figures(asked(with_steps().call(20, 5, name=name).table()), "driver_calls")
    assert (found["malloc_calls"], found["free_calls"]) == counts


def test_a_runtime_call_and_the_driver_call_in_it_are_one() -> None:
    builder = with_steps().call(20, 9, name="cudaMalloc").call(22, 5, name="cuMemAlloc_v2").call(30, 2, name="cudaFree")
    assert figures(asked(builder.table()), "driver_calls") == {
        "malloc_calls": 1, "malloc_ns": 9_000, "free_calls": 1, "free_ns": 2_000
    }  # fmt: skip


@pytest.mark.parametrize(("name", "said"), [("cudaMalloc", True), ("cuMemMap", False), ("hipMemCreate", False)])
def test_expandable_segments_are_advised_where_they_are_not_used(name: str, said: bool) -> None:
    (notice,) = asked(with_steps().call(20, 5, name=name).table()).payloads["advice"].notices
    assert ("expandable_segments" in notice.todo) is said and "largest input" in notice.todo


def test_an_event_belongs_to_its_host_thread() -> None:
    """Also where a stream of a device has the same numbers."""
    builder = trace().op("a", 0, 50).launches(kernel("k", 5, device=1, stream=1)).memory(10, 8, 1, 0, Addr=1)
    assert [r["name"] for r in rows(builder.table(), "memory", "memory_events")] == ["a"]


def test_the_driver_s_share_is_of_the_time_that_counts() -> None:
    table = with_steps().call(20, 5, name="cudaMalloc").table()
    (notice,) = asked(table, start_ns=10_000, end_ns=59_999).payloads["advice"].notices
    assert notice.figures[-1].value == 0.1


def test_events_without_addresses_and_totals_show_what_they_have() -> None:
    builder = trace().op("a", 0, 50).memory(10, 8, 1, 0, Addr=None).memory(20, -8, 1, 0, Addr=None)
    found = asked(builder.table())
    assert found.facts["memory.cuda:0.peak_allocated_bytes"] is None and found.facts["memory.cuda:0.allocations"] == 1
    assert [r["block_state"] for r in frame(found, "memory_events")] == ["unpaired", "unpaired"]
    assert found.payloads["curve"].lines[0].metric.key == "change_bytes"
    assert found.payloads["curve"].lines[0].values == [0, 8, 0, 0]
    assert [n.rule for n in found.payloads["data_quality"].notices] == ["memory_incomplete"]


def apart() -> TraceBuilder:
    """Three steps; the middle one has the highest point and leaves 70 behind, which the last one begins with."""
    builder = (
        trace().step(1, 0, 100).step(2, 100, 100).step(3, 200, 100).op("x", 0, 90).op("y", 101, 90).op("z", 201, 90)
    )
    total = 0
    for at, address, size in (
        (10, 1, 30), (20, 1, -30), (110, 2, 500), (120, 3, 70), (130, 2, -500), (210, 4, 5), (220, 3, -70)
    ):  # fmt: skip
        total += size
        reserved = 900 if 110 <= at < 130 else 100
        builder.memory(at, size, 1, 0, Addr=address, **{"Total Allocated": total, "Total Reserved": reserved})
    return builder


def test_steps_that_are_not_adjacent() -> None:
    """What lies between them is neither counted nor drawn."""
    found = asked(apart().table(), ("1", "3"))
    series = found.payloads["curve"]
    points = list(zip(series.x, series.lines[0].values, strict=True))
    assert points == [
        (0, 0), (10_000, 30), (20_000, 0), (100_000, 0), (100_000, None),
        (200_000, None), (200_000, 70), (210_000, 75), (220_000, 5), (300_000, 5),
    ]  # fmt: skip
    assert set(series.lines[1].values) == {100, None}, "reserved as well"
    summary = figures(found)
    assert (summary["peak_allocated_bytes"], summary["peak_time_ns"]) == (75, 210_000)
    assert summary["peak_reserved_bytes"] == 100 and summary["allocations"] == 2 and summary["live_before_bytes"] == 0
    assert {r["name"] for r in frame(found, "memory_operators")} == {"x", "z"}
    assert [(r["name"], r["block_bytes"]) for r in frame(found, "memory_events")] == [("y", 70), ("x", 30), ("z", 5)]
    (notice,) = found.payloads["data_quality"].notices
    assert notice.rule == "steps_apart" and notice.figures[0].value == 1
    assert not asked(apart().table(), ("1", "2")).payloads["data_quality"].notices
    assert None not in asked(apart().table(), ("1", "2")).payloads["curve"].lines[0].values


def test_a_step_that_begins_at_the_highest_point() -> None:
    """The level that a later step inherits counts as its own."""
    builder = trace().step(1, 0, 100).step(2, 100, 100).step(3, 200, 100).op("x", 0, 90)
    for at, address, size, total in ((10, 1, 10, 10), (150, 2, 90, 100), (210, 2, -90, 10)):
        builder.memory(at, size, 1, 0, Addr=address, **{"Total Allocated": total, "Total Reserved": 2 * total})
    found = asked(builder.table(), ("1", "3"))
    summary = figures(found)
    assert (summary["peak_allocated_bytes"], summary["peak_time_ns"]) == (100, 200_000)
    assert (summary["peak_reserved_bytes"], summary["peak_reserved_time_ns"]) == (200, 200_000)
    assert max(v for v in found.payloads["curve"].lines[0].values if v is not None) == 100
    assert sum(r["live_bytes"] for r in frame(found, "memory_peak")) == 100


@pytest.mark.parametrize("own", [{"start_ns": 150_000, "end_ns": 250_000}, {"start_ns": 110_000, "end_ns": 190_000}])
def test_a_range_beyond_the_chosen_steps(own: dict[str, int]) -> None:
    """Only the steps in it count: of the first range half of step 3, of the second nothing."""
    found = asked(apart().table(), ("1", "3"), **own)
    series = found.payloads["curve"]
    assert (series.x[0], series.x[-1]) == (own["start_ns"], own["end_ns"])
    values = [value for value in series.lines[0].values if value is not None]
    if own["end_ns"] == 250_000:
        assert values == [70, 75, 5, 5] and figures(found)["peak_allocated_bytes"] == 75
    else:
        assert values == [] and figures(found)["allocations"] == 0


def test_a_window_without_events_keeps_its_levels() -> None:
    summary = figures(asked(apart().table(), start_ns=140_000, end_ns=190_000))
    assert (summary["peak_allocated_bytes"], summary["peak_reserved_bytes"], summary["fragmentation"]) == (
        70,
        100,
        1 - 70 / 100,
    )
    assert (summary["peak_time_ns"], summary["peak_reserved_time_ns"]) == (140_000, 140_000)


def test_an_address_that_is_allocated_again() -> None:
    """Its release is missing: it is gone all the same, and it is no leak."""
    builder = trace().op("a", 0, 100)
    for at, size, total in ((10, 8, 8), (20, 6, 6), (30, 5, 11)):
        address = 7 if size != 5 else 9
        builder.memory(at, size, 1, 0, Addr=address, **{"Total Allocated": total, "Total Reserved": 99})
    found = asked(builder.table())
    states = {r["block_bytes"]: r["block_state"] for r in frame(found, "memory_events")}
    assert states == {8: "unpaired", 6: "never released", 5: "never released"}
    assert figures(found)["unreleased_bytes"] == 11
    assert [(r["name"], r["blocks"], r["live_bytes"]) for r in frame(found, "memory_peak")] == [("a", 2, 11)]


def test_single_events_without_an_address() -> None:
    """Nobody knows when such a block is gone: it is never among what is live, nor a leak."""
    builder = trace().op("a", 0, 100)
    for at, address, size, total in ((10, 1, 8, 8), (20, 0, 5, 13), (30, None, -5, 8)):
        builder.memory(at, size, 1, 0, Addr=address, **{"Total Allocated": total, "Total Reserved": 99})
    found = asked(builder.table(), at_ns=40_000)
    assert [(r["name"], r["blocks"], r["live_bytes"]) for r in frame(found, "memory_peak")] == [("a", 1, 8)]
    assert [r["block_state"] for r in frame(found, "memory_events")] == ["never released", "unpaired", "unpaired"]
    assert figures(found)["unreleased_bytes"] == 8


def test_a_total_below_the_known_blocks_says_that_releases_are_missing() -> None:
    builder = trace().op("a", 0, 100)
    for at, address, size, total in ((10, 1, 8, 8), (20, 2, 6, 11)):
        builder.memory(at, size, 1, 0, Addr=address, **{"Total Allocated": total, "Total Reserved": 99})
    found = asked(builder.table())
    assert [(r["name"], r["live_bytes"]) for r in frame(found, "memory_peak")] == [
        ("a", 14), ("(releases not recorded)", -3)
    ]  # fmt: skip
    bar = found.payloads["live_operators"]
    assert [(p.metric.title, p.value) for p in bar.parts] == [("a", 14), ("releases not recorded", -3)]
    assert bar.total == 11


def test_a_missing_total_is_counted_on() -> None:
    """Also a total of -1, which stands for none: allocators of other backends may count below zero."""
    builder = trace().op("a", 0, 100)
    for at, size, total in ((10, 8, None), (20, 6, 26), (30, -8, None), (40, -6, 12), (50, -13, -1), (60, 5, 4)):
        builder.memory(at, size, 20, 0, Addr=abs(size), **({} if total is None else {"Total Allocated": total}))
    series = asked(builder.table()).payloads["curve"]
    assert series.lines[0].metric.key == "allocated_bytes"
    assert series.lines[0].values == [12, 20, 26, 18, 12, -1, 4, 4]


def test_empty_events_and_one_moment() -> None:
    """Events of 0 bytes are points of the curve and nothing else; of one moment the order of the file holds."""
    builder = trace().op("a", 0, 100)
    for size, total in ((8, 8), (0, 8), (-8, 0), (8, 8), (-8, 0)):
        builder.memory(10, size, 1, 0, Addr=3, **{"Total Allocated": total, "Total Reserved": 9})
    found = asked(builder.table())
    assert [(r["lifetime_ns"], r["block_state"]) for r in frame(found, "memory_events")] == [(0, "released")] * 2
    assert found.facts["memory.cuda:0.allocations"] == 2 and found.facts["memory.cuda:0.unreleased_bytes"] == 0
    assert found.payloads["curve"].lines[0].values == [0, 8, 8, 0, 8, 0, 0]


def test_calls_are_those_of_the_operator_view() -> None:
    """Also on threads that never allocate."""
    builder = with_steps().op("x", 20, 5, tid=2).op("x", 120, 5, tid=3)
    for steps, calls in ((None, 3), (("1",), 2)):
        mine = row(builder.table(), "memory", "memory_operators", steps, name="x")
        assert mine["calls"] == calls == row(builder.table(), "operators", steps=steps, name="x")["calls"]


def test_what_is_asked_wrongly() -> None:
    table = with_steps().table()
    for own in ({"device": "cuda:7"}, {"start_ns": "x"}, {"start_ns": 9000, "end_ns": 10}, {"at_ns": "9" * 30}):
        with pytest.raises(BadRequest):
            asked(table, **own)
    for limit in ({"min_block_bytes": "1e3"}, {"max_lifetime_ns": "1_000"}, {"min_lifetime_ns": " 5"}):
        with pytest.raises(BadRequest):
            page(table, "memory_events", **limit)


def test_the_page_speaks_of_one_device_and_a_table_of_all() -> None:
    table = old_curve()
    found = part(table, "memory")
    view: Any = analysis("memory").answer([found], Params())
    assert {r["device"] for r in view.payloads["memory_operators"].rows} == {"cuda:0"}
    page: Any = analysis("memory").answer([found], Params(table="memory_operators"))
    assert {r["device"] for r in page.rows} == {"cuda:0", "cpu"}


@needs_shared
def test_numbers_of_the_old_plugin_s_sample() -> None:
    table = loaded("shared/data/kineto/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz")

    def kib(device: str, name: str) -> tuple[float, ...]:
        found = row(table, "memory", "memory_operators", device=device, name=name)
        return tuple(found[key] / (1024 if key.endswith("bytes") else 1) for key in KEYS)

    assert kib("cuda:0", "aten::empty") == (33203886.0, 33203886.0, 2694, 33203886.0, 33203886.0, 2694, 4404)
    assert kib("cuda:0", "aten::cudnn_convolution") == (4844874.0, 8362752.0, 318, 8362752.0, 11880630.0, 468, 318)
    assert kib("cpu", "aten::empty_strided")[3:] == (112896.75, 112896.75, 384, 402)
    operators = [r["device"] for r in rows(table, "memory", "memory_operators") if r["name"] != "(no operator)"]
    assert (operators.count("cpu"), operators.count("cuda:0")) == (12, 44)


def test_an_option_that_was_on_is_not_advised() -> None:
    from tb_plugin.views.memory import VIEW
    from tests.builders import trace as built

    for builder, enable in ((built(), True), (built().meta(profile_memory=1), False)):
        missing = VIEW.missing(builder.op("aten::mm", 0, 5).table())
        assert missing is not None and bool(missing.enable) == enable
