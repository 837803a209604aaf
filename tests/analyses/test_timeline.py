"""The timeline hides nothing: what is merged is counted, and busy time is kept."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tb_plugin.analyses.timeline import draw
from tb_plugin.analyses.timeline.lanes import _GROUP_OF_KIND
from tb_plugin.analyses.timeline.pyramid import Pyramid
from tb_plugin.errors import BadRequest
from tb_plugin.trace.schema import EventKind
from tb_plugin.trace.table import TraceTable
from tests.builders import TraceBuilder, kernel, part, trace
from tests.conftest import SAMPLE_FILES, sample


def drawing(table: TraceTable, steps: tuple[str, ...] | None = None, **extra: Any) -> Any:
    return part(table, "timeline", steps, extra=tuple((k, str(v)) for k, v in extra.items())).payloads["timeline"]


def recount(table: TraceTable, cell_ns: int) -> list[tuple[int, int, int, int, int]]:
    """Start, duration, events, busy time and longest event of each item of the whole trace, one event at a time."""
    rows: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for row in range(len(table)):
        rows[int(table.track[row]), int(_GROUP_OF_KIND[table.kind[row]]), int(table.depth[row])].append(row)
    items = []
    for events in rows.values():
        cells: dict[tuple[str, int], list[int]] = defaultdict(list)
        for row in events:
            wide = cell_ns == 1 or table.dur_ns[row] >= cell_ns
            cells[("alone", row) if wide else ("cell", int(table.start_ns[row] // cell_ns))].append(row)
        for chosen in cells.values():
            start, end = min(table.start_ns[chosen]), max(table.end_ns[chosen])
            longest = max(chosen, key=lambda row: table.dur_ns[row])
            items.append((start, end - start, len(chosen), sum(table.dur_ns[chosen]), longest))
    return items


def assert_whole(table: TraceTable, found: Any) -> None:
    """What is drawn are the items of the whole trace, counted independently, that touch the window."""
    expected = [
        (start, dur, count, busy, table.strings[int(table.name[longest])])
        for start, dur, count, busy, longest in recount(table, found.resolution_ns)
        if start < found.end_ns and start + dur >= found.start_ns
    ]
    names = [found.names[name] for name in found.name]
    assert sorted(zip(found.start, found.dur, found.count, found.busy_ns, names, strict=True)) == sorted(expected)
    assert found.total_events == sum(found.count)
    alone = [i for i, count in enumerate(found.count) if count == 1]
    assert all(found.event[i] >= 0 for i in alone)
    assert all(found.event[i] == -1 for i, count in enumerate(found.count) if count > 1)
    for i in alone:
        event = found.event[i]
        assert (found.start[i], found.dur[i]) == (table.start_ns[event], table.dur_ns[event])
        assert found.names[found.name[i]] == table.strings[int(table.name[event])]
    assert all(0 <= track < len(found.tracks) for track in found.track)
    assert all(row < found.tracks[track].rows for row, track in zip(found.row, found.track, strict=True))
    lengths = {
        len(getattr(found, key)) for key in ("track", "row", "start", "dur", "name", "category", "event", "count")
    }
    assert lengths == {len(found.count)}


def many() -> TraceBuilder:
    builder = trace()
    for i in range(400):
        builder.op("wide" if i % 20 == 0 else "narrow", 10 * i, 200 if i % 20 == 0 else 3, tid=i % 3)
        builder.launches(kernel("k", 4, 10 * i + 5))
    return builder


@pytest.mark.parametrize("resolution_ns", [1, 1_000, 20_000, 500_000, 10**9])
def test_nothing_is_hidden_at_any_resolution(resolution_ns: int) -> None:
    table = many().table()
    for start, end in ((0, table.coverage.end_ns), (100_000, 900_000), (55_000, 55_001)):
        assert_whole(table, draw(table, start, end, resolution_ns))


def test_wide_events_are_never_merged() -> None:
    table = many().table()
    found = draw(table, 0, table.coverage.end_ns, 50_000)
    drawn = Counter(found.names[name] for name, count in zip(found.name, found.count, strict=True) if count == 1)
    assert drawn["wide"] == 20 and max(found.count) > 1


@given(
    st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 2**16), st.integers(0, 2)), max_size=20),
    st.permutations(range(1, 9)),
)
@settings(max_examples=60)
def test_every_level_holds_every_event_whichever_was_made_first(
    drawn: list[tuple[int, int, int]], levels: list[int]
) -> None:
    builder = trace()
    for at, dur, tid in drawn:
        builder.op("a", at / 1000, dur / 1000, tid=tid)
    table = builder.table()
    pyramid = Pyramid(table)
    for level in levels:
        items = pyramid.level(level)
        found = zip(items.first, pyramid.end_ns(items), items.count, items.busy_ns, items.longest, strict=True)
        assert sorted((table.start_ns[f], e - table.start_ns[f], c, b, row) for f, e, c, b, row in found) == sorted(
            recount(table, pyramid.cell_ns(level))
        )
        assert items.count.sum() == len(table) and items.busy_ns.sum() == table.dur_ns.sum()


@pytest.mark.parametrize("shift_by", [0, 2**61])
def test_what_a_window_shows_does_not_depend_on_the_window(shift_by: int) -> None:
    builder = many()
    if shift_by:
        builder.op("far", shift_by / 1000, 1)  # so far that times and lines do not fit one number exactly
    table = builder.table()
    whole = draw(table, 0, table.coverage.end_ns, 20_000)
    part = draw(table, 500_000, 900_000, 20_000)
    columns = ("start", "dur", "count", "busy_ns", "row")
    shown, seen = (set(zip(*(getattr(of, key) for key in columns), strict=True)) for of in (whole, part))
    inside = {item for item in shown if item[0] < 900_000 and item[0] + item[1] >= 500_000}
    assert seen == inside and len(inside) > 10


@pytest.mark.parametrize(
    ("resolution_ns", "level"), [(0, 0), (1, 0), (255, 0), (256, 1), (1023, 1), (1024, 2), (4096, 3), (10**9, 11)]
)
def test_the_level_of_a_resolution(resolution_ns: int, level: int) -> None:
    assert Pyramid.level_for(resolution_ns) == level
    assert Pyramid.cell_ns(level) <= max(1, resolution_ns)


@pytest.mark.parametrize("name", SAMPLE_FILES, ids=lambda n: n.split(".")[0])
def test_nothing_of_a_sample_is_hidden(name: str) -> None:
    table = sample(name)
    assert_whole(table, drawing(table))
    assert_whole(table, drawing(table, start_ns=0, end_ns=table.coverage.end_ns, width=100))


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 30)), max_size=12), st.integers(1, 40_000))
@settings(max_examples=60)
def test_an_event_s_bucket_never_overlaps_the_next_of_its_row(drawn: list[tuple[int, int]], resolution_ns: int) -> None:
    builder = trace()
    for at, dur in drawn:
        builder.op("a", at, dur)
    table = builder.table()
    found = draw(table, 0, 200_000, resolution_ns)
    assert_whole(table, found)
    bars = sorted(zip(found.track, found.row, found.start, found.dur, strict=True))
    for one, other in pairwise(bars):
        if one[:2] == other[:2]:
            assert one[2] + one[3] <= other[2]


def test_the_first_step_is_shown_unless_another_window_is_asked() -> None:
    table = trace().step(4, 10, 50).op("a", 20, 5).step(5, 60, 50).op("b", 70, 5).op("c", 0, 1).table()
    assert (drawing(table).start_ns, drawing(table).end_ns) == (10_000, 60_000)
    assert (drawing(table, ("5",)).start_ns, drawing(table, ("5",)).end_ns) == (60_000, 110_000)
    assert (drawing(table, start_ns=5, end_ns=99).start_ns, drawing(table, start_ns=5, end_ns=99).end_ns) == (5, 99)
    assert drawing(table, end_ns=10**15).end_ns == 110_000


@pytest.mark.parametrize("extra", [{"start_ns": "x"}, {"start_ns": 50, "end_ns": 20}, {"width": "wide"}])
def test_a_window_that_is_none_is_said(extra: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        drawing(trace().op("a", 0, 10).table(), **extra)


def test_devices_come_first_and_kinds_stand_on_rows_of_their_own() -> None:
    builder = trace().op("a", 0, 50).python("f", 0, 60, id=1).launches(kernel("ncclDevKernel_AllReduce", 5))
    builder.device_annotation("ProfilerStep#1", 0, 9).event("overhead", "Buffer Flush", 0, 3, 1, 1)
    found = drawing(builder.event("cuda_sync", "Stream Wait", 2, 2, 0, 7, device=0, stream=7).table())
    kinds = [(track.is_device, track.subtitle) for track in found.tracks]
    assert kinds == [
        (True, ""), (True, "annotations"), (True, "waits"), (False, "operators, runtime"), (False, "Python"),
        (False, "profiler, other"),
    ]  # fmt: skip
    categories = {found.names[n]: found.categories[c] for n, c in zip(found.name, found.category, strict=True)}
    assert categories["ncclDevKernel_AllReduce"] == "communication"
    assert categories["a"] == EventKind.OPERATOR.name.lower()


def test_lanes_keep_their_order_and_their_height_and_devices_stay() -> None:
    builder = trace()
    for at in (0, 10, 20):
        builder.op("few", at, 5, tid=1)
    for at in range(30, 60):
        builder.op("many", at, 1, tid=2)
    builder.op("outer", 70, 20, tid=2).op("inner", 75, 5, tid=2).launches(kernel("k", 5, 80))
    table = builder.table()

    def lanes(start: int, end: int) -> list[tuple[str, bool, int]]:
        found = drawing(table, start_ns=start, end_ns=end)
        return [(track.title, track.is_device, track.rows) for track in found.tracks]

    everything = lanes(0, 95_000)
    assert [is_device for _, is_device, _ in everything] == [True, False, False]
    assert "2" in everything[1][0] and everything[1][2] > 1, "busier, and with nested calls"
    assert lanes(0, 25_000) == [everything[0], everything[2]], "the idle device stays, the idle thread does not"
    assert lanes(30_000, 60_000) == everything[:2]


def test_a_crossing_event_has_a_row_of_its_own() -> None:
    found = drawing(trace().op("a", 0, 30).op("b", 20, 30).table())
    assert sorted(zip((found.names[n] for n in found.name), found.row, strict=True)) == [("a", 0), ("b", 1)]
