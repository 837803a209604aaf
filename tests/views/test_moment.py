"""Memory at a moment: equal to the history undone in plain Python, block by block, segment by segment, gap by gap."""

from __future__ import annotations

import gzip
import pickle
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, devices_of, levels_of
from tb_plugin.analysis.snapshot.moment import Moment, moment_at, obstacles_to, pinned_by, stuck_of
from tb_plugin.model.snapshot.assemble import assemble
from tb_plugin.model.snapshot.table import HOST
from tests.depth import DEEP, examples, needs_time, sampled
from tests.replayed import PAGE, State, backwards
from tests.samples import REPO
from tests.snapshots import event, read, segment, snapshot
from tests.wild_allocator import WildAllocator

MEMSNAP = REPO.parent / "shared" / "data" / "memsnap"
FILES = sorted(
    path
    for path in (*MEMSNAP.glob("*.pickle*"), *(REPO / "samples" / "synthetic_memory").glob("*.pickle.gz"))
    if "EVIL" not in path.name and "cpu_real" not in path.name
)
SOME_FILES = sampled(FILES, [path for path in FILES if path.name != "snapshot_big.pickle.gz"])
MOMENTS = 25
"""Of each random history: 40 of them are 1,000 moments in all."""


def devices(root: Any) -> list[DeviceLevels]:
    return [one for one in devices_of(assemble(read(pickle.dumps(root)))) if one.snapshot.device_ids[one.place] != HOST]


def blocks_of(moment: Moment) -> dict[int, tuple[int, bool]]:
    held = moment.levels
    rows = np.concatenate((moment.block, moment.outside))
    columns = (held.block(name)[rows].tolist() for name in ("address", "size", "freed"))
    return {address: (size, freed <= moment.event) for address, size, freed in zip(*columns, strict=True)}


def rows_of(moment: Moment, with_pool: bool) -> list[tuple[Any, ...]]:
    snapshot, rows = moment.levels.snapshot, moment.rows
    columns = (column.tolist() for column in (rows.address, rows.size, rows.stream, rows.pool, rows.is_expandable))
    return [
        (address, size, (snapshot.streams[stream], snapshot.pools[pool] if with_pool else None), expandable)
        for address, size, stream, pool, expandable in zip(*columns, strict=True)
    ]


def address_of(moment: Moment, position: Any, row: Any) -> Any:
    return moment.rows.address[row] + position - moment.rows.first[row]


def gaps_of(moment: Moment) -> list[tuple[int, int]]:
    gaps = moment.gaps
    return list(zip(address_of(moment, gaps.start, gaps.row).tolist(), gaps.size.tolist(), strict=True))


def assert_equal(moment: Moment, state: State, with_pool: bool = True) -> None:
    found = blocks_of(moment)
    unknown = {address for address, (_, is_pending) in state.blocks.items() if is_pending is None}
    assert {
        at: (size, None if at in unknown else is_pending) for at, (size, is_pending) in found.items()
    } == state.blocks
    wanted = [(at, size, (key[0], key[1] if with_pool else None), kind) for at, size, key, kind in state.rows()]
    assert rows_of(moment, with_pool) == wanted
    assert gaps_of(moment) == state.gaps()
    assert moment.allocated + moment.pending + sum(moment.levels.block("size")[moment.outside]) == sum(
        size for size, _ in state.blocks.values()
    )


def chosen_moments(count: int, wanted: int, seed: int) -> set[int]:
    events = range(-1, count)
    return {-1, count - 1, *random.Random(seed).sample(events, min(wanted, len(events)))}


def compare(root: Any, wanted: int, seed: int, with_pool: bool = True) -> int:
    seen = 0
    for held in devices(root):
        chosen = chosen_moments(held.count, wanted, seed)
        levels = levels_of(held)
        for at, state in backwards(root, held.snapshot.device_ids[held.place]):
            if at in chosen:
                moment = moment_at(held, at)
                assert_equal(moment, state, with_pool)
                assert moment.reserved == levels.reserved[at + 1]
                seen += 1
    return seen


@pytest.mark.parametrize("seed", sampled(range(40), range(4)))
def test_any_moment_is_a_replay(seed: int) -> None:
    trimmed = 150 if seed % 2 else None
    assert compare(WildAllocator(seed, trimmed).run(350), MOMENTS, seed) >= MOMENTS


@needs_time
@pytest.mark.parametrize("path", SOME_FILES, ids=[path.name for path in SOME_FILES])
def test_moments_of_files_are_a_replay(path: Path) -> None:
    content = path.read_bytes()
    root = pickle.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    if isinstance(root, list):
        root = {"segments": root, "device_traces": []}
    assert compare(root, 1000 if DEEP else 15, 1, with_pool="legacy" not in path.name) >= 1


def page_of(row: tuple[int, int, Any, bool], moment: Moment, i: int) -> int:
    return (20 * PAGE // 2 if moment.rows.is_large[i] else PAGE) if row[3] else row[1]


def returnable(rows: Sequence[tuple[int, int, Any, bool]], moment: Moment, state: State) -> int:
    """Bytes of all pages (or whole segments) in which no block lies."""
    total = 0
    for i, row in enumerate(rows):
        page = page_of(row, moment, i)
        for low in range(row[0], row[0] + row[1] - page + 1, page):
            if not any(at < low + page and at + size > low for at, (size, _) in state.blocks.items()):
                total += page
    return total


@given(st.integers(0, 10_000), st.integers(20, 90))
@examples(suite=12, deep=300)
def test_what_a_block_keeps_from_going_back(seed: int, operations: int) -> None:
    root = WildAllocator(seed).run(operations)
    (held,) = devices(root)
    at = random.Random(seed).randrange(-1, held.count)
    state = next(state for event, state in backwards(root, 0) if event == at)
    moment, rows = moment_at(held, at), state.rows()
    free = sum(size for _, size in state.gaps())
    now = returnable(rows, moment, state)
    assert int(stuck_of(moment).sum()) == free - now
    freed = dict(zip(address_of(moment, moment.start, moment.row).tolist(), pinned_by(moment).tolist(), strict=True))
    for address in list(state.blocks):
        gone = state.blocks.pop(address)
        assert freed[address] == returnable(rows, moment, state) - now
        state.blocks[address] = gone


@given(st.integers(0, 10_000), st.integers(20, 90), st.integers(1, 60 << 20))
@examples(suite=12, deep=300)
def test_what_stands_in_the_way_of_a_request(seed: int, operations: int, asked: int) -> None:
    root = WildAllocator(seed).run(operations)
    (held,) = devices(root)
    at = random.Random(seed).randrange(-1, held.count)
    state = next(state for event, state in backwards(root, 0) if event == at)
    moment = moment_at(held, at)
    chosen = np.arange(len(moment.rows)) % 3 != 1
    wanted = {}
    for i, (start, size, _, _) in enumerate(state.rows()):
        inside = sorted((low, low + n) for low, (n, _) in state.blocks.items() if start <= low < start + size)
        for first in range(len(inside) + 1):
            for last in range(first, len(inside) + 1):
                low = inside[first - 1][1] if first else start
                high = inside[last][0] if last < len(inside) else start + size
                live = sum(b - a for a, b in inside[first:last])
                if chosen[i] and high - low >= asked and live < wanted.get(i, (1 << 60,))[0]:
                    wanted[i] = (live, last - first, low, high - low)
    runs = obstacles_to(moment, asked, chosen)
    columns = (runs.row, runs.live_bytes, runs.count, address_of(moment, runs.gap_start, runs.row), runs.gap_bytes)
    found = {row: rest for row, *rest in zip(*(column.tolist() for column in columns), strict=True)}
    assert {row: rest[0] for row, rest in found.items()} == {row: one[0] for row, one in wanted.items()}
    assert runs.live_bytes.tolist() == sorted(runs.live_bytes.tolist())
    told = (column.tolist() for column in (runs.first, runs.count, runs.live_bytes, runs.gap_bytes))
    for first, count, live, gap in zip(*told, strict=True):
        assert int(moment.size[first : first + count].sum()) == live and gap >= asked


def test_one_moment_by_hand() -> None:
    made = snapshot(
        [
            event("segment_alloc", 0x1000, 4096),
            event("alloc", 0x1000, 1024),
            event("alloc", 0x1800, 512),
            event("free_requested", 0x1000, 1024),
            event("oom", 0, 3000) | {"device_free": 100},
            event("free_completed", 0x1000, 1024),
            event("alloc", 0x9000, 512),
        ],
        [segment(0x1000, 4096, [(2048, "inactive"), (512, "active_allocated")])],
    )
    (held,) = devices_of(made)
    moment = moment_at(held, 4)
    assert (moment.reserved, moment.allocated, moment.pending, moment.free) == (4096, 512, 1024, 2560)
    assert gaps_of(moment) == [(0x1400, 1024), (0x1A00, 1536)] and moment.largest_gap == 1536
    assert stuck_of(moment).tolist() == [1024, 1536] and pinned_by(moment).tolist() == [0, 0]
    runs = obstacles_to(moment, 3000, np.array([True]))
    assert (runs.first.tolist(), runs.count.tolist(), runs.live_bytes.tolist(), runs.gap_bytes.tolist()) == (
        [1], [1], [512], [3072],
    )  # fmt: skip
    later = moment_at(held, 5)
    assert pinned_by(later).tolist() == [4096]
    assert moment_at(held, 6).outside.tolist() == [2], "no segment is known there"
    assert len(moment_at(held, -1).rows) == 0 and moment_at(held, -1).free == 0


def test_a_device_without_anything() -> None:
    held = DeviceLevels(snapshot([]), 0, "", *[slice(0, 0)] * 3)
    moment = moment_at(held, -1)
    assert (moment.reserved, moment.free, len(moment.block), len(pinned_by(moment))) == (0, 0, 0, 0)
    assert len(obstacles_to(moment, 5, np.zeros(0, np.bool_)).row) == 0
