"""A recorded training of AlexNet on NPUs: the numbers that the specification names, and its tables against its trace view."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.lib.intervals import measure, subtract, union
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.operators.view import Operators
from tests.depth import needs_time
from tests.formats.ascend.folders import ALEXNET, OUTPUT, folder, needs_recorded, table_of

pytestmark = [needs_recorded, needs_time]


@pytest.fixture(scope="module")
def trace() -> TraceTable:
    return table_of(folder(ALEXNET))


def stated(name: str) -> list[dict[str, str]]:
    with (ALEXNET / OUTPUT / name).open(encoding="utf-8-sig", newline="") as text:
        return list(csv.DictReader(text))


def test_every_event_is_accounted_for(trace: TraceTable) -> None:
    """Of the trace view: rows, counters, and what is neither (names, ends of arrows)."""
    report = trace.report
    events = json.loads((ALEXNET / OUTPUT / "trace_view.json").read_bytes())
    assert report.events_in_file == len(events) and report.complete
    assert [issue.code for issue in report.issues] == ["links_in_group"], "nobody states who the ranks are"
    assert report.events_loaded == sum(event["ph"] in "XC" for event in events)
    assert report.events_dropped == report.events_repaired == 0
    assert [*trace.steps.label] == ["50"] and trace.metadata["distributedInfo"]["rank"] == 0


def test_operators_are_the_calls_of_the_table(trace: TraceTable) -> None:
    """859 calls of 133 names; device time to a nanosecond a kernel, which is where both files round."""
    rows = stated("operator_details.csv")
    said: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        said[row["Name"]].append(row)
    assert (len(rows), len(said)) == (859, 133)
    found = {row["name"]: row for row in Operators().part(trace, Params()).frames["operators"].data.to_pylist()}
    assert {name for name, row in found.items() if row["calls"]} == set(said)
    for name, calls in said.items():
        ours = found[name]
        assert ours["calls"] == len(calls), name
        for key, title in (
            ("device_self_ns", "Device Self Duration(us)"),
            ("device_total_ns", "Device Total Duration(us)"),
        ):
            total = sum(float(call[title]) for call in calls)
            if (name, key) == ("HcclAllreduce", "device_total_ns"):
                total /= 2  # each call is recorded inside of another one of its name, and the file adds both up
            assert ours[key] / 1000 == pytest.approx(total, abs=0.004 * 30), (name, key)
        own = sum(float(call["Host Self Duration(us)"]) for call in calls)
        assert (ours["host_self_ns"] + ours["runtime_self_ns"]) / 1000 == pytest.approx(own, abs=0.01), name


def test_times_of_the_step_are_those_of_the_kernels(trace: TraceTable) -> None:
    """Computing, communication and what of it is not hidden, by the union of rows; the file sums rounded bars."""
    (said,) = stated("step_trace_time.csv")
    kernels = trace.kind == EventKind.KERNEL
    ranges = {}
    for what, chosen in (
        ("Computing", kernels & ~trace.is_collective),
        ("Communication", kernels & trace.is_collective),
    ):
        rows = np.flatnonzero(chosen)
        ranges[what] = union(trace.start_ns[rows], trace.ends(rows))
    alone = subtract(ranges["Communication"], ranges["Computing"])
    for title, length in (
        ("Computing", measure(ranges["Computing"])),
        ("Communication", measure(ranges["Communication"])),
        ("Communication(Not Overlapped)", measure(alone)),
    ):
        assert length / 1000 == pytest.approx(float(said[title]), abs=0.05), title
    assert float(said["Computing"]) == 8873.756000000001


def test_pairs_of_host_and_device(trace: TraceTable) -> None:
    """210 arrows to the device, 159 through the queue, 27 from forward to backward."""
    texts = trace.strings
    names = np.array([texts[int(name)] for name in trace.arrows.name])
    assert (names == "enqueue_to_dequeue").sum() == 159
    work = np.isin(trace.kind, (EventKind.KERNEL, EventKind.MEMCPY))
    assert (work & (trace.operator != MISSING)).sum() == 210
    tied = np.flatnonzero(trace.forward != MISSING)
    assert len(tied) >= 27 and all(trace.kind[row] == EventKind.OPERATOR for row in tied)


def test_memory(trace: TraceTable) -> None:
    totals: Any = trace.totals
    component = np.array(trace.strings.take(totals.allocator).to_pylist())
    peaks = {name: totals.reserved[component == name].max() / 2**20 for name in ("APP", "PTA", "GE")}
    assert {name: round(peak, 1) for name, peak in peaks.items()} == {"APP": 2113.7, "PTA": 1452.0, "GE": 74.8}
    assert round(totals.allocated[component == "PTA+GE"].max() / 2**20, 1) == 1261.0
    assert len(trace.blocks.start_ns) == 184 and (trace.blocks.end_ns == MISSING).sum() == 24
