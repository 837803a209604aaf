"""MTIA: one category for all work of a device."""

from __future__ import annotations

from typing import Any

from tb_plugin.devices import describe_all
from tb_plugin.model.trace.schema import EventKind
from tests.builders import TraceBuilder, facts, rows, trace


def on_mtia() -> TraceBuilder:
    """A kernel of 100 us, a wait of 500, a record, and copies of 4,000 and 1,000 bytes in 2 us each; one thread for all."""
    builder = trace().device(0, name="MTIA 2i").op("aten::mm", 0, 9)

    def work(name: str, at: int, dur: int, stream: int, **args: Any) -> None:
        builder.event("mtia_ccp_events", name, at, dur, 0, 77, device=0, stream=stream, **args)

    work("fc_kernel", 10, 100, 3)
    work("event_wait", 110, 500, 3)
    work("event_record", 610, 1, 3)
    work("dma_request", 20, 2, 4, size=4_000, direction="H2D")
    work("dma_request", 30, 2, 4, size=1_000, direction="D2H")
    return builder


def test_waits_and_records_are_no_device_time() -> None:
    """N17: 100 us of a kernel, 2 + 2 of copies beside it, in a window from 10 to 110."""
    found = facts(on_mtia().table())
    keys = ("kernels", "memcpys", "busy_ns", "window_ns", "idle_ns")
    assert [found[f"device.0.{key}"] for key in keys] == [1, 2, 100_000, 100_000, 0]


def test_a_code_name_is_recognised_by_its_properties() -> None:
    properties = {"name": "X1", "maxGridHeight": 8, "maxGridWidth": 8}
    (device,) = describe_all(("0",), {"0": properties}, (), frozenset())
    assert (device.vendor, device.word) == ("mtia", "Device")


def test_copies_have_bytes_and_directions() -> None:
    table = on_mtia().table()
    copies = [(r["name"], r["direction"], r["bytes"], r["bandwidth"]) for r in rows(table, "kernels", "copies")]
    assert copies == [("dma_request", "D2H", 1_000, 5e8), ("dma_request", "H2D", 4_000, 2e9)]
    assert [r["name"] for r in rows(table, "kernels")] == ["fc_kernel"]


def test_lanes_are_the_recorded_streams() -> None:
    table = on_mtia().table()
    lanes = {
        (table.strings[int(table.name[row])], table.tracks[int(table.track[row])].tid)
        for row in range(len(table))
        if table.tracks[int(table.track[row])].is_device
    }
    assert lanes == {("fc_kernel", "3"), ("event_wait", "3"), ("event_record", "3"), ("dma_request", "4")}


def test_instances_of_one_direction() -> None:
    table = on_mtia().table()
    events = rows(table, "events", "instances", where=(("name", "dma_request"), ("direction", "D2H")))
    assert [event["start_ns"] for event in events] == [30_000]


def test_names_of_other_vendors_mean_what_their_category_says() -> None:
    table = trace().event("kernel", "event_wait", 0, 5, 0, 7, device=0, stream=3).table()
    assert table.kind.tolist() == [EventKind.KERNEL] and table.tracks[0].tid == "7"
