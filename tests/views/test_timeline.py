"""The timeline hides nothing: what is merged is counted, busy time is kept, and every tile shows what touches it."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.timeline.lanes import lane_of
from tb_plugin.analysis.timeline.pyramid import Pyramid, build, cell_ns, tile_ns
from tb_plugin.analysis.timeline.tiles import CATEGORIES, ENOUGH_ITEMS, Tile, category_of, encode, parse_tiles
from tb_plugin.errors import BadRequest, CacheFileLost
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model_kinds import timeline_levels as pyramids
from tb_plugin.views.timeline.view import head_of
from tests.builders import TraceBuilder, kernel, memcpy, part, trace
from tests.conftest import SAMPLE_FILES, UNLIKE, sample
from tests.depth import examples, sampled


def recount(table: TraceTable, cell: int) -> list[tuple[int, int, int, int, int]]:
    """Start, duration, events, busy time and longest event of each item of the whole trace, one event at a time."""
    rows: dict[tuple[int, int], list[int]] = defaultdict(list)
    lane = lane_of(table)
    for row in range(len(table)):
        rows[int(lane[row]), int(table.depth[row])].append(row)
    items = []
    for events in rows.values():
        cells: dict[tuple[str, int], list[int]] = defaultdict(list)
        for row in events:
            wide = table.dur_ns[row] >= cell
            cells[("alone", row) if wide else ("cell", int(table.start_ns[row] // cell))].append(row)
        for chosen in cells.values():
            start, end = min(table.start_ns[chosen]), max(table.end_ns[chosen])
            longest = max(chosen, key=lambda row: table.dur_ns[row])
            items.append((int(start), int(end - start), len(chosen), int(sum(table.dur_ns[chosen])), longest))
    return items


def tiles_of(pyramid: Pyramid, level: int) -> list[Tile]:
    """All tiles of a level."""
    last = int(pyramid.trace.coverage.end_ns // tile_ns(level))
    return [Tile(group, number) for group in range(len(pyramid.groups) - 1) for number in range(last + 1)]


def decoded(pyramid: Pyramid, level: int, tiles: list[Tile]) -> list[list[dict[str, Any]]]:
    """Rows of each tile, asked for as the page does: again for those that an answer leaves out."""
    found: list[list[dict[str, Any]]] = []
    while len(found) < len(tiles):
        table = pa.ipc.open_stream(encode(pyramid, level, tiles[len(found) :])).read_all()
        count = int(table.schema.metadata[b"tiles"])
        assert count > 0
        rows = table.to_pylist()
        found += [[row for row in rows if row["tile"] == tile] for tile in range(count)]
    return found


def item(row: dict[str, Any]) -> tuple[int, int, int, int, int]:
    return (int(row["start"]), int(row["dur"]), row["count"], int(row["dur"] - row["idle"]), row["event"])


def assert_whole(table: TraceTable, levels: list[int] | None = None) -> None:
    """Every tile holds the items of the whole trace, counted independently, that touch it; all of them hold all."""
    pyramid = build(table)
    for level in range(len(pyramid.levels)) if levels is None else levels:
        tiles = tiles_of(pyramid, level)[:400]
        expected = recount(table, pyramid.levels[level].cell_ns)
        assert sum(count for _, _, count, _, _ in expected) == len(table)
        seen = set()
        for tile, rows in zip(tiles, decoded(pyramid, level, tiles), strict=True):
            start, end = tile.number * tile_ns(level), (tile.number + 1) * tile_ns(level)
            lanes = {int(lane) for lane in pyramid.lane[pyramid.groups[tile.group] : pyramid.groups[tile.group + 1]]}
            assert {row["lane"] for row in rows} <= lanes
            assert [(r["lane"], r["row"], r["start"]) for r in rows] == sorted(
                (r["lane"], r["row"], r["start"]) for r in rows
            )
            for row in rows:
                assert row["start"] < end and (row["start"] + row["dur"] > start or row["start"] >= start)
                event = row["event"]
                assert row["name"] == table.strings[int(table.name[event])] and row["row"] == table.depth[event]
            seen |= {(row["lane"], item(row)) for row in rows}
            if len(pyramid.groups) == 2:
                touching = [e for e in expected if e[0] < end and (e[0] + e[1] > start or e[0] >= start)]
                assert sorted(map(item, rows)) == sorted(touching)
        if len(tiles) == len(tiles_of(pyramid, level)):
            assert sorted(found for _, found in seen) == sorted(expected)


def many() -> TraceBuilder:
    builder = trace()
    for i in range(400):
        builder.op("wide" if i % 20 == 0 else "narrow", 10 * i, 200 if i % 20 == 0 else 3, tid=i % 3)
        builder.launches(kernel("k", 4, 10 * i + 5))
        for j in range(5):
            builder.op("tiny", 10 * i + j, 0.5, tid=7)
    return builder


def test_nothing_is_hidden_at_any_level() -> None:
    assert_whole(many().table())


def test_wide_events_are_never_merged() -> None:
    table = many().table()
    pyramid = build(table)
    level = len(pyramid.levels) - 1
    drawn = Counter(
        row["name"] for rows in decoded(pyramid, level, tiles_of(pyramid, level)) for row in rows if row["count"] == 1
    )
    assert drawn["wide"] == 20 and pyramid.levels[level].cell_ns > 1000


@given(st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 2**16), st.integers(0, 2)), min_size=1, max_size=20))
@examples(suite=25, deep=300)
def test_every_level_holds_every_event(drawn: list[tuple[int, int, int]]) -> None:
    builder = trace()
    for at, dur, tid in drawn:
        builder.op("a", at / 1000, dur / 1000, tid=tid)
    table = builder.table()
    pyramid = build(table)
    assert tile_ns(len(pyramid.levels) - 1) >= table.coverage.end_ns
    for level in pyramid.levels:
        items = level.items(table)
        found = zip(items.first, pyramid.end_ns(items), items.count, items.busy_ns, items.longest, strict=True)
        assert sorted((table.start_ns[f], e - table.start_ns[f], c, b, row) for f, e, c, b, row in found) == sorted(
            recount(table, level.cell_ns)
        )
        assert items.count.sum() == len(table) and items.busy_ns.sum() == table.dur_ns.sum()
    for finer, coarser in pairwise(pyramid.levels):
        assert coarser is finer or 2 * len(coarser.first) <= len(finer.first)
    assert_whole(table)


def test_a_level_is_kept_where_it_is_half_of_the_one_below() -> None:
    pyramid = build(many().table())
    assert len({id(level) for level in pyramid.levels}) < len(pyramid.levels), (
        "narrow ones take 3 µs: finer levels are one"
    )
    for number, level in enumerate(pyramid.levels):
        assert level.cell_ns <= cell_ns(number)


def test_marks_without_length_do_not_fill_a_tile() -> None:
    builder = trace()
    for _ in range(3000):
        builder.op("mark", 5, 0)
    builder.op("mark", 5.001, 0)
    pyramid = build(builder.table())
    (rows,) = decoded(pyramid, 0, [Tile(0, 0)])
    assert [(row["start"], row["dur"], row["count"]) for row in rows] == [(0, 0, 3000), (1, 0, 1)]


def test_far_times_are_found() -> None:
    table = many().op("far", 2**50 / 1000, 1).table()
    pyramid = build(table)
    level = len(pyramid.levels) - 1
    found = decoded(pyramid, 0, [Tile(group, 2**50 // tile_ns(0)) for group in range(len(pyramid.groups) - 1)])
    (rows,) = (rows for rows in found if rows)
    assert [row["name"] for row in rows] == ["far"] and tile_ns(level) >= 2**50


def test_an_answer_is_small_and_never_empty() -> None:
    builder = trace()
    for i in range(3 * ENOUGH_ITEMS):
        builder.op("a", i, 0.9)
    pyramid = build(builder.table())
    tiles = tiles_of(pyramid, 0)
    table = pa.ipc.open_stream(encode(pyramid, 0, tiles)).read_all()
    assert 0 < int(table.schema.metadata[b"tiles"]) < len(tiles)
    assert table.num_rows < 2 * ENOUGH_ITEMS
    assert sum(map(len, decoded(pyramid, 0, tiles))) >= 3 * ENOUGH_ITEMS


def test_what_is_said_of_an_item() -> None:
    builder = trace().module("Net", 0, 90).module("Net.layer", 5, 60)
    builder.op("aten::mm", 10, 20, ext=1).launches(kernel("ampere_s1688gemm", 30, 40))
    table = builder.table()
    rows = [row for tile in decoded(build(table), 0, tiles_of(build(table), 0)) for row in tile]
    by_name = {row["name"]: row for row in rows}
    assert by_name["aten::mm"]["module"] == "nn.Module: Net.layer_0"
    assert by_name["ampere_s1688gemm"]["module"] == "nn.Module: Net.layer_0", "where it was launched"
    assert CATEGORIES[by_name["ampere_s1688gemm"]["category"]] == "kernel"
    assert {row["matrix"] for row in rows} <= {0, 1}
    head = head_of(build(table))
    assert head.has_modules and head.total_events == len(table) and head.kernels == ["ampere_s1688gemm"]
    assert [track.events for track in head.tracks if track.is_device] == [1]


def test_kernels_with_the_most_time_come_first_without_communication_and_copies() -> None:
    builder = trace().op("a", 0, 50).launches(kernel("short", 5), kernel("long", 8), kernel("short", 6), memcpy(90))
    builder.launches(kernel("ncclDevKernel_AllReduce", 500))
    assert head_of(build(builder.table())).kernels == ["short", "long"]
    assert head_of(build(trace().op("a", 0, 50).table())).kernels == []


@pytest.mark.parametrize("name", UNLIKE, ids=lambda n: n.split(".")[0])
def test_the_table_of_kernels_classifies_all_that_the_timeline_draws(name: str) -> None:
    """The page colours by class with it: each name that is drawn is there, with what the trace says of it."""
    table = sample(name)
    kernels = np.flatnonzero(table.kind == EventKind.KERNEL)
    if not len(kernels):
        return
    view = part(table, "kernels")
    rows = view.frames["kernels"].data
    named = dict(zip(rows["name"].to_pylist(), rows["class"].to_pylist(), strict=True))
    assert set(named) == {table.strings[int(i)] for i in set(table.name[kernels].tolist())}
    parts = view.payloads["classes"].parts
    assert {each.metric.key for each in parts} == {named[table.strings[int(table.name[row])]] for row in kernels}
    assert all(CATEGORIES[i] in ("kernel", "communication") for i in category_of(table, kernels).tolist())


def test_work_of_a_cpu_process_group_is_communication() -> None:
    table = trace().op("aten::mm", 0, 5).op("gloo:all_reduce", 10, 20).table()
    named = {table.strings[int(name)]: row for row, name in enumerate(table.name.tolist())}
    kinds = category_of(table, np.array([named["aten::mm"], named["gloo:all_reduce"]]))
    assert [CATEGORIES[i] for i in kinds] == ["operator", "communication"]
    assert part(table, "timeline").payloads["timeline"].has_communication
    alone = trace().op("aten::mm", 0, 5).table()
    assert not part(alone, "timeline").payloads["timeline"].has_communication


def test_modules_stand_around_what_was_called_in_them() -> None:
    table = trace().module("A", 0, 50).op("in", 10, 5).op("out", 60, 5).table()
    pyramid = build(table)
    named = {table.strings[int(table.name[row])]: row for row in range(len(table))}
    found = pyramid.modules(np.array([named["in"], named["out"]]))
    assert table.strings[int(found[0])] == "nn.Module: A_0" and found[1] == MISSING
    assert build(many().table()).module is None


def test_how_busy_the_whole_is() -> None:
    head = part(
        trace().op("a", 0, 100).launches(kernel("k", 25, 50)).launches(memcpy(25, 60)).table(), "timeline"
    ).payloads["timeline"]
    assert head.busy_is_device
    assert sum(head.busy) / len(head.busy) == pytest.approx(0.35, abs=0.002), "what overlaps counts once"
    host = part(trace().op("a", 0, 25).op("b", 75, 25).table(), "timeline").payloads["timeline"]
    assert not host.busy_is_device and sum(host.busy) / len(host.busy) == pytest.approx(0.5, abs=0.002)


def test_the_head_is_the_same_for_any_steps() -> None:
    table = trace().step(1, 0, 10).step(2, 10, 10).op("a", 0, 20).table()
    assert part(table, "timeline", ("1",)).payloads == part(table, "timeline").payloads


@pytest.mark.parametrize("text", ["", "1", "1.2.3", "1.2,", "-1.2", "a.b", "1.2 ,3.4", ",".join(["1.1"] * 65)])
def test_what_is_no_tile(text: str) -> None:
    with pytest.raises(BadRequest):
        parse_tiles(text)


def test_tiles_that_are_not_there() -> None:
    pyramid = build(many().table())
    for level, tile in ((99, Tile(0, 0)), (0, Tile(99, 0))):
        with pytest.raises(BadRequest):
            encode(pyramid, level, [tile])
    assert decoded(pyramid, 0, [Tile(0, 10**15)]) == [[]]
    assert parse_tiles("0.1,2.3") == (Tile(0, 1), Tile(2, 3))


@pytest.mark.parametrize("name", UNLIKE, ids=lambda n: n.split(".")[0])
def test_nothing_of_a_sample_is_hidden(name: str) -> None:
    table = sample(name)
    top = len(build(table).levels) - 1
    assert_whole(table, [top, max(0, top - 3)])


@pytest.mark.parametrize("name", sampled(SAMPLE_FILES[:3], SAMPLE_FILES[:1]), ids=lambda n: n.split(".")[0])
def test_levels_are_kept_as_they_were_made(name: str, tmp_path: Path) -> None:
    table, path = sample(name), str(tmp_path / "a.levels")
    made = build(table)
    pyramids.write(made, path)
    kept = pyramids.read(table, path)
    assert head_of(kept) == head_of(made)
    for level in range(len(made.levels)):
        tiles = tiles_of(made, level)[:64]
        assert encode(kept, level, tiles) == encode(made, level, tiles)


def test_levels_that_are_damaged_or_of_something_else_are_lost(tmp_path: Path) -> None:
    table, path = many().table(), tmp_path / "a.levels"
    with pytest.raises(CacheFileLost, match="gone"):
        pyramids.read(table, str(path))
    pyramids.write(build(table), str(path))
    whole = path.read_bytes()
    with pytest.raises(CacheFileLost, match="another trace"):
        pyramids.read(trace().op("a", 0, 1).table(), str(path))
    for content in (b"", whole[:5], whole[:-1], whole[: len(whole) // 2], whole[:500] + b"x" + whole[501:]):
        path.write_bytes(content)
        with pytest.raises(CacheFileLost, match="damaged"):
            pyramids.read(table, str(path))


def drawn_of(table: TraceTable) -> list[dict[str, Any]]:
    """Everything as the finest level draws it."""
    pyramid = build(table)
    return [row for tile in decoded(pyramid, 0, tiles_of(pyramid, 0)) for row in tile]


def test_devices_come_first_and_kinds_stand_on_rows_of_their_own() -> None:
    builder = trace().op("a", 0, 50).python("f", 0, 60, id=1).launches(kernel("ncclDevKernel_AllReduce", 5))
    builder.device_annotation("ProfilerStep#1", 0, 9).event("overhead", "Buffer Flush", 0, 3, 1, 1)
    table = builder.event("cuda_sync", "Stream Wait", 2, 2, 0, 7, device=0, stream=7).table()
    head = head_of(build(table))
    kinds = [(track.is_device, track.subtitle) for track in head.tracks]
    assert kinds == [
        (True, "GPU 0"), (True, "GPU 0"), (True, "GPU 0"),
        (False, "operators, runtime · 1"), (False, "1"), (False, "profiler, other · 1"),
    ]  # fmt: skip
    assert len({track.id for track in head.tracks}) == len(head.tracks)
    categories = {row["name"]: CATEGORIES[row["category"]] for row in drawn_of(table)}
    assert categories["ncclDevKernel_AllReduce"] == "communication"
    assert categories["a"] == EventKind.OPERATOR.name.lower()


def test_busy_threads_stand_before_others() -> None:
    builder = trace()
    for at in (0, 10, 20):
        builder.op("few", at, 5, tid=2)
    for at in range(30, 60):
        builder.op("many", at, 1, tid=3)
    builder.op("outer", 70, 20, tid=3).op("inner", 75, 5, tid=3).launches(kernel("k", 5, 80))
    tracks = head_of(build(builder.table())).tracks
    assert [track.is_device for track in tracks] == [True, False, False]
    assert tracks[1].title == "Thread 3" and tracks[1].rows > 1, "busier, and with nested calls"


def test_groups_are_whole_lanes() -> None:
    builder = trace()
    for tid in range(60):
        builder.op("a", tid, 5, tid=tid)
    pyramid = build(builder.table())
    head = head_of(pyramid)
    assert head.groups[0] == 0 and head.groups[-1] == len(head.tracks) == 60
    assert [b - a for a, b in pairwise(head.groups)] == [24, 24, 12]
    assert_whole(builder.table())


def test_a_crossing_event_has_a_row_of_its_own() -> None:
    found = drawn_of(trace().op("a", 0, 30).op("b", 20, 30).table())
    assert sorted((row["name"], row["row"]) for row in found) == [("a", 0), ("b", 1)]
