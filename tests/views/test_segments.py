"""The views Segments and Allocator events: the usual moment, running out of memory, the map, the list of events."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tb_plugin.analysis.base import Params, Part
from tb_plugin.analysis.snapshot.device_levels import devices_of
from tb_plugin.analysis.snapshot.moment import moment_at
from tb_plugin.errors import BadRequest
from tb_plugin.payloads import MemoryMap, Notice, Notices
from tb_plugin.views.allocator_events.view import PAGE, AllocatorEvents
from tb_plugin.views.segments import picture
from tb_plugin.views.segments.view import Segments
from tests.builders import payload_of
from tests.snapshots import event, frames, segment, snapshot
from tests.wild_allocator import WildAllocator

KIB = 1024
MIB = 1024 * KIB


def part_of(made: Any, view: Any = None, search: str = "", **asked: object) -> Part:
    extra = tuple((key, str(value)) for key, value in asked.items())
    found: Part = (view or Segments()).part(made, Params(search=search, extra=extra))
    return found


def told(part: Part, name: str) -> dict[str, object]:
    return {figure.metric.key: figure.value for figure in part.payloads[name].figures}  # type: ignore[union-attr]


def rows(part: Part, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = part.frames[name].data.to_pylist()
    return found


def notices(part: Part) -> list[Notice]:
    answer = payload_of(part, "answer", Notices)
    return answer.notices


def history() -> Any:
    """A segment of 20 MiB with blocks of 8, 1 and 8 MiB, of which the first goes; one of stream 7; and no room for 10 MiB."""
    line = frames("/home/me/train.py:7:step")
    return snapshot(
        [
            event("segment_alloc", 0, 20 * MIB, frames=line),
            event("alloc", 0, 8 * MIB, frames=line),
            event("alloc", 8 * MIB, MIB, frames=frames("/home/me/cache.py:3:keep")),
            event("alloc", 9 * MIB, 8 * MIB, frames=line),
            event("segment_alloc", 64 * MIB, 16 * MIB, stream=7),
            event("free_requested", 0, 8 * MIB),
            event("free_completed", 0, 8 * MIB),
            event("oom", 0, 10 * MIB, frames=line) | {"device_free": 2 * MIB},
        ],
        [segment(0, 20 * MIB, [(8 * MIB, "inactive"), (MIB, "active_allocated"), (8 * MIB, "active_allocated")]),
         segment(64 * MIB, 16 * MIB, stream=7)],
    )  # fmt: skip


def test_out_of_memory() -> None:
    usual = part_of(history())
    assert told(usual, "place")["event_number"] == 3, "the peak, as in Memory; from there a link leads to event 7"
    assert [notice.evidence and notice.evidence.params["at"] for notice in notices(usual)] == ["7", None]
    part = part_of(history(), at=7)
    (said,) = notices(part)
    assert said.text.endswith("The request would fit if {in_way_blocks} block ({in_way_bytes}) is released.")
    assert told(part, "oom") == {
        "asked_bytes": 10 * MIB, "device_free_bytes": 2 * MIB, "cache_free_bytes": 27 * MIB, "pool_free_bytes": 11 * MIB,
        "pool_gap_bytes": 8 * MIB, "fits_joined": True, "in_way_bytes": 8 * MIB, "in_way_blocks": 1,
    }  # fmt: skip
    (way,) = rows(part, "oom_obstacles")
    assert (way["in_way_bytes"], way["in_way_blocks"], way["address"]) == (8 * MIB, 1, hex(9 * MIB)), "not the 1 MiB"
    assert way["gap_without_bytes"] == 11 * MIB
    assert told(part, "moment")["free_now_bytes"] == 27 * MIB and told(part, "moment")["widest_gap_bytes"] == 16 * MIB
    assert told(part, "request")["request_bytes"] == 10 * MIB
    shares = {row["stream_name"]: row["unusable_ratio"] for row in rows(part, "pools_at")}
    assert shares == {"default": 1.0, "7": 0.0}
    smaller = part_of(history(), at=7, size=4 * MIB)
    assert {row["stream_name"]: row["unusable_ratio"] for row in rows(smaller, "pools_at")} == {
        "default": pytest.approx(3 / 11), "7": 0.0,
    }  # fmt: skip
    assert rows(part, "blocks_in_way") == []
    assert [row["event_number"] for row in rows(part, "oom_moments")] == [7]


def test_the_usual_moment_is_the_peak_as_in_memory() -> None:
    made = snapshot(
        [
            event("segment_alloc", 0, 20 * MIB),
            event("alloc", 0, 8 * MIB),
            event("alloc", 8 * MIB, 8 * MIB),
            event("free_completed", 0, 8 * MIB),
            event("free_completed", 8 * MIB, 8 * MIB),
            event("alloc", 0, MIB),
            event("free_completed", 0, MIB),
            event("segment_free", 0, 20 * MIB),
        ]
    )
    place = told(part_of(made), "place")
    assert place["event_number"] == 2, "where Memory opens as well"
    assert told(part_of(made, at=3), "place")["event_action"] == "free_completed"
    steps = {(f.metric.key, f.metric.title): f.value for f in part_of(made, at=3).payloads["place"].figures}  # type: ignore[union-attr]
    assert [steps["next_event", kind] for kind in ("alloc", "free", "segment", "oom")] == [5, 4, 7, None]
    assert [steps["previous_event", kind] for kind in ("alloc", "free", "segment", "oom")] == [2, None, 0, None]
    with pytest.raises(BadRequest):
        part_of(made, at="then")
    assert told(part_of(made, at=99), "place")["event_number"] == 7


@pytest.mark.parametrize("most", [30_000, 10])
def test_the_map_holds_every_byte(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "MOST_PIECES", most)
    made = snapshot(WildAllocator(5).run(200)["device_traces"][0])
    (held,) = devices_of(made)
    at = held.count // 2
    moment, shown = moment_at(held, at), part_of(made, at=at).payloads["map"]
    assert isinstance(shown, MemoryMap)
    assert sum(shown.piece_bytes) == moment.allocated + moment.pending and sum(shown.piece_blocks) == len(moment.block)
    assert (shown.cell_bytes > 0) == (most < len(moment.block)) and sum(shown.row_bytes) == moment.reserved
    assert sum(group.free_bytes for group in shown.groups) == moment.free
    for row, (low, high) in enumerate(zip(shown.row_first, shown.row_first[1:], strict=False)):
        ends = np.array(shown.piece_offset[low:high]) + np.array(shown.piece_span[low:high])
        assert (ends[:-1] <= shown.piece_offset[low + 1 : high]).all() and (ends <= shown.row_bytes[row]).all()
        assert sum(shown.piece_bytes[low:high]) == shown.row_used_bytes[row]


def test_the_list_of_events() -> None:
    made = history()
    view = AllocatorEvents()
    assert told(part_of(made, view), "found") == {"events_found": 8, "first_found": 0, "near_found": None}
    listed = rows(part_of(made, view, near=7), "events")
    assert [row["event_action"] for row in listed][-1] == "oom" and listed[-1]["address"] is None
    assert told(part_of(made, view, search="cache.py"), "found")["events_found"] == 1
    assert told(part_of(made, view, search="/^segment_/", near=4), "found")["near_found"] == 1
    assert [row["event_number"] for row in rows(part_of(made, view, search=hex(64 * MIB)), "events")] == [4]
    assert [row["event_number"] for row in rows(part_of(made, view, first=6), "events")] == [6, 7]
    with pytest.raises(BadRequest):
        part_of(made, view, search="/(/")
    many = snapshot([event("alloc", i * KIB, KIB) for i in range(2 * PAGE)])
    found = part_of(many, view, near=PAGE)
    assert told(found, "found") == {"events_found": 2 * PAGE, "first_found": PAGE // 2, "near_found": PAGE}
    assert [row["event_number"] for row in rows(found, "events")] == list(range(PAGE // 2, PAGE // 2 + PAGE))
