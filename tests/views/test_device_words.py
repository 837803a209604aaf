"""What the figure *GPU busy* is called where no device is a GPU, and what devices without a name are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tb_plugin.analysis.device_time import busy_title
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.table import TraceTable
from tests.builders import TraceBuilder, kernel, part, trace
from tests.formats.sources import DATA, needs_data
from tests.megengine.test_timeline import called, event, operator, raw, span, table, tensor


def titles(table: TraceTable) -> dict[str, str]:
    """Every place that tells the figure."""
    overview, findings = part(table, "overview"), part(table, "findings")
    counters: Any = part(table, "counters").payloads["counters"]
    headline: Any = overview.payloads["headline"]
    notices: Any = findings.payloads["findings"]
    together: Any = findings.payloads["together"]
    figures = [
        *(("headline", figure) for figure in headline.figures),
        *(("together", figure) for figure in together.figures),
        *((notice.rule, figure) for notice in notices.notices for figure in notice.figures),
    ]
    found = {place: figure.metric.title for place, figure in figures if figure.metric.key == "utilization"}
    (track,) = (one.title for one in counters.counters if one.key.startswith("utilization:"))
    return found | {"timeline": track}


def of_megengine(stream: str, physical: str = "") -> TraceTable:
    stated = {"device": f'CompNode("{physical}" from "{stream}")'} if physical else {}
    return table(
        called("worker", 0), called("interpreter", 1), called(stream, 2),
        *operator("A", 1, 10, device=(20, 60)), *span("Put", 70, 71, **{**tensor(3), **stated}),
        event("i", 500, "StopStep", 1),
    )  # fmt: skip


def of_pytorch(builder: TraceBuilder) -> TraceTable:
    return builder.step(1, 0, 99).op("a", 0, 9).launches(kernel("k", 20, 30)).table()


@pytest.mark.parametrize(
    ("made_by", "expected"),
    [
        (lambda: of_megengine("xpux:0", "cpu0:0"), "Device busy"),
        (lambda: of_megengine("gpux:0", "gpu0:0"), "GPU busy"),
        (lambda: of_megengine("gpux:0"), "GPU busy"),
        (lambda: of_megengine("cpu0:0"), "Device busy"),
        (lambda: of_megengine("atlas0:0"), "NPU busy"),
        (lambda: of_pytorch(trace().device(0, name="Ascend910B")), "NPU busy"),
        (lambda: of_pytorch(trace().device(0)), "GPU busy"),
        (lambda: of_pytorch(trace()), "GPU busy"),
    ],
    ids=["a processor", "gpu0", "gpux", "cpu0", "atlas", "Ascend", "CUDA", "unknown"],
)  # fmt: skip
def test_no_processor_is_called_a_gpu(made_by: Any, expected: str) -> None:
    found = titles(made_by())
    assert found and set(found.values()) == {expected}
    assert {"headline", "together", "timeline"} <= set(found)


def test_devices_of_several_kinds_are_devices() -> None:
    both = trace().device(0).device(1, name="Ascend910B").step(1, 0, 99).op("a", 0, 9).launches(kernel("k", 20, 30))
    both.op("b", 40, 9).launches(kernel("k", 20, 50, device=1))
    table = both.table()
    assert [busy_title(table), busy_title(table, "0"), busy_title(table, "1")] == [
        "Device busy",
        "GPU busy",
        "NPU busy",
    ]


@needs_data
@pytest.mark.parametrize(("path", "size"), [("plain/23722", 300_000), ("all/23766", 150_000), ("all/23766", 500_000)])
def test_a_timeline_that_ends_before_its_lanes_are_named(path: str, size: int) -> None:
    """Arguments of tensors tell which stream there is."""
    content = Path(DATA / "megengine" / f"{path}.chrome_timeline.json").read_bytes()[:size]
    found = assemble(raw(content))
    assert [device.id for device in found.devices] == ["cpu0"]
    assert {track.tid for track in found.tracks if track.is_device} == {"xpux:0"}


def test_a_lane_of_which_nothing_tells_the_name() -> None:
    found = table(*operator("A", 1, 10, device=(20, 60)))
    assert [device.id for device in found.devices] == ["unnamed"]
