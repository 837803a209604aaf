"""Total times of operators include nested ones: no sum of the page is larger than the whole."""

from __future__ import annotations

from typing import Any

from tests.builders import TraceBuilder, kernel, part, rows, trace


def nested(device: bool = True) -> TraceBuilder:
    """Three operators around each other, the innermost launches 70 us, and one beside them launches 30 us."""
    builder = trace().op("aten::linear", 0, 40).op("aten::addmm", 5, 30).op("aten::mm", 10, 20)
    if device:
        builder.launches(kernel("gemm", 70, 50))
    builder.op("aten::add", 60, 10)
    return builder.launches(kernel("add", 30, 150)) if device else builder


def bar(builder: TraceBuilder, name: str) -> Any:
    return part(builder.table(), "operators").payloads[name]


def test_the_totals_that_are_added_are_those_of_outermost_operators() -> None:
    """The column of the table has 3 x 70 + 30 = 240 us, the device worked for 100."""
    assert sum(each["device_total_ns"] for each in rows(nested().table(), "operators")) == 240_000
    total = bar(nested(), "device_total")
    assert total.total == bar(nested(), "device_self").total == 100_000
    assert [(each.metric.title, each.value) for each in total.parts] == [
        ("aten::linear", 70_000),
        ("aten::add", 30_000),
    ]
    assert total.parts[0].link.params == {"group": "operators_outermost", "where": "name:aten::linear"}
    host = bar(nested(), "host_total")
    assert [(each.metric.title, each.value) for each in host.parts] == [("aten::linear", 40_000), ("aten::add", 10_000)]
    assert host.total == 50_000


def test_device_time_without_an_operator_is_in_both() -> None:
    builder = nested().on_device(kernel("alone", 20, 200))
    assert bar(builder, "device_total").total == bar(builder, "device_self").total == 120_000


def test_a_trace_of_the_host_has_bars_of_the_host_alone() -> None:
    names = set(part(nested(device=False).table(), "operators").payloads)
    assert {"host_self", "host_total"} <= names and not {"device_self", "device_total"} & names
