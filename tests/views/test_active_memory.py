"""Tiles of the active-memory timeline: compared with a replay of the history in plain Python, block by block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.base import Params
from tb_plugin.errors import BadRequest
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.payloads import Bands, Figures, Series, View
from tb_plugin.views.active_memory import layers, tiles
from tb_plugin.views.active_memory.view import ActiveMemory
from tests.builders import payload_of
from tests.depth import examples
from tests.snapshots import event, frames, segment, snapshot

Json = dict[str, Any]
LINE = frames("/site-packages/torch/nn/modules/linear.py:10:forward", "/home/user/train.py:7:main")


def ask(model: Snapshot, **asked: object) -> View:
    analysis = ActiveMemory()
    params = Params(extra=tuple((key.strip("_"), str(value)) for key, value in asked.items()))
    view = analysis.answer([analysis.part(model, params)], params)
    assert isinstance(view, View)
    return view


def bands(model: Snapshot, **asked: object) -> Bands:
    return payload_of(ask(model, **{"tile": 0, **asked}), "bands", Bands)


def stacked(tile: Bands, column: int) -> list[int]:
    """Sizes of the blocks that are listed in a column, the lowest first."""
    return [
        size for size, first, end in zip(tile.size_bytes, tile.first, tile.end, strict=True) if first <= column < end
    ]


def small() -> Snapshot:
    """Two blocks that overlap, one of them released late, and one from before."""
    return snapshot(
        [
            event("alloc", 1024, 2048, 0, frames=LINE),
            event("alloc", 4096, 512, 2),
            event("free_requested", 1024, 2048, 5),
            event("free_requested", 9216, 1024, 6),
            event("free_completed", 9216, 1024, 6),
            event("free_completed", 1024, 2048, 9),
        ],
        [segment(4096, 2048, [(512, "active_allocated")])],
    )


def test_every_event_is_a_column_and_every_block_a_band() -> None:
    tile = bands(small())
    assert tile.event == [-1, 0, 1, 2, 3, 4, 5]
    assert tile.active_bytes == [1024, 3072, 3584, 3584, 3584, 2560, 512]
    assert [stacked(tile, column) for column in range(7)] == [
        [1024], [1024, 2048], [1024, 2048, 512], [1024, 2048, 512], [1024, 2048, 512], [2048, 512], [512],
    ]  # fmt: skip
    assert (tile.begin, tile.freed, tile.life_ns) == ([-1, 0, 1], [3, 2, -1], [-1, 5000, -1])
    assert tile.lines[tile.stack[1]] == "/home/user/train.py(7): main"
    assert (tile.peak_bytes, tile.peak_event, tile.extent, tile.levels, tile.hidden) == (3584, 1, 7, 1, 0)
    assert tile.time_ns == [0, 0, 2000, 5000, 6000, 6000, 9000]


def test_a_column_without_events_shows_the_state_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "COLUMNS", 9)
    tile = bands(small(), axis="time")
    # Columns of 1,024 ns: events at 0, 2, 5, 6, 6 and 9 microseconds.
    assert tile.event == [0, 1, 1, 1, 2, 3, 4, 4, 5]
    assert tile.active_bytes == [3072, 3584, 3584, 3584, 3584, 3584, 2560, 2560, 512]


def test_small_blocks_are_summed() -> None:
    tile = bands(small(), detail=1)
    assert tile.size_bytes == [2048]
    assert tile.rest_bytes == [1024, 1024, 1536, 1536, 1536, 512, 512]
    assert tile.hidden == 2


def test_a_block_is_told_with_all_that_is_known() -> None:
    found = payload_of(ask(small(), block=1), "block", Figures)
    values = {figure.metric.key: figure.value for figure in found.figures}
    assert (values["block_size_bytes"], values["begin_event"], values["end_event"], values["reusable_event"]) == (
        2048,
        0,
        2,
        5,
    )
    assert (values["begin_ns"], values["end_ns"], values["life_ns"]) == (0, 5000, 5000)
    assert (values["address"], values["stream_name"], values["pool_name"]) == ("0x400", "default", None)
    assert str(values["allocation_stack"]).endswith("/home/user/train.py(7): main")
    assert values["requested_bytes"] is None and values["memory_category"] is None


def test_the_curve_of_a_part() -> None:
    by_event = ask(small(), from_=1, to=3).payloads["curve"]
    by_time = ask(small(), axis="time", from_ns=2500, to_ns=6000).payloads["curve"]
    assert isinstance(by_event, Series) and isinstance(by_time, Series)
    assert by_event.x == [1, 2, 3] and by_time.x == [2000, 5000, 6000, 6000]


@pytest.mark.parametrize("asked", [
    {"block": 3}, {"block": -1}, {"tile": 1}, {"tile": -1}, {"tile": 0, "level": 1}, {"tile": 0, "level": -1},
    {"tile": 0, "detail": 99}, {"tile": 0, "detail": "some"}, {"tile": 0, "layer": "pool"}, {"segment": 9},
    {"device": "cuda:7"}, {"from_ns": 9000, "to_ns": 1},
])  # fmt: skip
def test_what_is_not_there_is_refused(asked: Json) -> None:
    with pytest.raises(BadRequest):
        ask(small(), **asked)


def test_of_many_blocks_those_of_the_largest_area_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "MOST", 2)
    tile = bands(small(), detail="all")
    assert (tile.size_bytes, tile.hidden) == ([1024, 2048], 1)
    assert tile.rest_bytes == [0, 0, 512, 512, 512, 512, 512]


@st.composite
def histories(draw: st.DrawFn) -> tuple[Json, list[int]]:
    """A history in which every block has a size of its own, and the sizes of blocks that were there before."""
    events: list[Json] = []
    before = [512 * (1 + place) for place in range(draw(st.integers(0, 3)))]
    live = [(1 << 20) + size for size in before]
    sizes = dict(zip(live, before, strict=True))
    time, made = 0, len(before)
    for _ in range(draw(st.integers(0, 40))):
        time += draw(st.sampled_from([0, 1, 3, 700]))
        is_release = draw(st.booleans())
        if live and is_release:
            address = live.pop(draw(st.integers(0, len(live) - 1)))
            if draw(st.booleans()):
                events.append(event("free_requested", address, sizes[address], time))
            events.append(event("free_completed", address, sizes[address], time))
        else:
            made += 1
            address, size = (2 << 20) + 4096 * made, 512 * made * draw(st.sampled_from([1, 1, 64])) + made
            sizes[address] = size
            live.append(address)
            events.append(event("alloc", address, size, time))
    # What is left is told by the final state, as a snapshot has it.
    left = [segment(address, sizes[address], [(sizes[address], "active_allocated")]) for address in live]
    return {"events": events, "segments": left}, before


def replay(events: Sequence[Json], before: Sequence[int]) -> list[list[int]]:
    """Sizes of the blocks that are there before the first event and after each one, in order of their begin."""
    there = {(1 << 20) + size: size for size in before}
    states = [list(there.values())]
    for one in events:
        if one["action"] == "alloc":
            there[one["addr"]] = one["size"]
        elif one["action"] == "free_completed":
            del there[one["addr"]]
        states.append(list(there.values()))
    return states


def same(found: list[int], expected: list[int], before: int) -> bool:
    """Whether blocks lie on each other alike; those from before the history in any order."""
    older = [size for size in expected if size <= 512 * before]
    return sorted(found[: len(older)]) == sorted(older) and found[len(older) :] == expected[len(older) :]


@examples(suite=20, deep=500)
@given(histories(), st.sampled_from(["events", "time"]), st.sampled_from([1, 3, "all"]))
def test_columns_are_states_of_the_history(made: tuple[Json, list[int]], axis: str, detail: object) -> None:
    file, before = made
    model, states = snapshot(file["events"], file["segments"]), replay(file["events"], before)
    times = [max(0, one["time_us"] - file["events"][0]["time_us"]) * 1000 for one in file["events"]]
    peak = max(map(sum, states))
    least = 0 if detail == "all" else peak >> int(str(detail))
    seen: dict[int, tuple[list[int], int]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "COLUMNS", 8)
        whole = bands(model, axis=axis, detail=detail)
        by_time = axis == "time" and bool(times)
        for level in {whole.levels - 1, max(0, whole.levels - 2), max(0, whole.levels - 4)}:
            width = 1 << level
            for number in range(min(8, (whole.extent - 1) // (8 * width) + 1)):
                tile = bands(model, axis=axis, detail=detail, level=level, tile=number)
                assert len(tile.event) == min(8, -(-whole.extent // width) - 8 * number)
                for column, after in enumerate(tile.event):
                    low = (8 * number + column) * width
                    covered = [
                        state for state in range(len(states))
                        if low <= (state if not by_time else times[state - 1] if state else 0) < low + width
                    ]  # fmt: skip
                    if covered:
                        assert after + 1 in covered
                        assert tile.active_bytes[column] == max(sum(states[state]) for state in covered)
                    else:
                        assert after == max(i for i, time in enumerate(times) if time < low)
                    expected = states[after + 1]
                    assert tile.active_bytes[column] == sum(expected)
                    listed = stacked(tile, column)
                    assert same(listed, [size for size in expected if size >= least], len(before))
                    assert tile.rest_bytes[column] == sum(expected) - sum(listed)
                    # Levels agree where they show the same state.
                    assert seen.setdefault(after, (listed, tile.rest_bytes[column])) == (
                        listed,
                        tile.rest_bytes[column],
                    )
                there = {size for after in tile.event for size in states[after + 1]}
                assert tile.hidden == len(there) - len(tile.block)


def pooled() -> Snapshot:
    """A block in the default pool, and a private pool of two segments, of which one is given back."""
    private = {"pool_id": (1, 2)}
    return snapshot(
        [
            event("segment_alloc", 0, 4096),
            event("alloc", 0, 1024),
            event("segment_alloc", 8192, 2048, **private),
            event("alloc", 8192, 512, **private),
            event("segment_alloc", 16384, 1024, **private),
            event("segment_free", 16384, 1024, **private),
            event("free_completed", 8192, 512, **private),
        ],
        [
            segment(0, 4096, [(1024, "active_allocated")]),
            segment(8192, 2048, segment_pool_id=(1, 2)),
        ],
    )


def test_a_private_pool_is_as_high_as_it_ever_was() -> None:
    tile = bands(pooled(), layer="pools", detail="all")
    assert [(one.name, one.height_bytes) for one in tile.envelopes] == [
        ("private 1.2 pool, stream default", [0, 0, 0, 2048, 2048, 3072, 3072, 3072])
    ]
    assert (tile.size_bytes, tile.envelope, tile.rest_bytes) == ([1024, 512], [-1, 0], [0] * 8)
    assert (tile.peak_bytes, tile.peak_event) == (4096, 4)
    plain = bands(pooled(), detail="all")
    assert plain.has_private_pools and not plain.envelopes and not plain.envelope
    assert (plain.peak_bytes, plain.active_bytes) == (1536, tile.active_bytes)
    assert not bands(small(), layer="pools").envelopes


def test_segments_are_bands_as_well() -> None:
    tile = bands(pooled(), layer="segments", detail="all")
    assert tile.size_bytes == [4096, 2048, 1024]
    assert tile.active_bytes == [0, 4096, 4096, 6144, 6144, 7168, 6144, 6144]
    found = payload_of(ask(pooled(), segment=2), "segment", Figures)
    values = {figure.metric.key: figure.value for figure in found.figures}
    assert (values["block_size_bytes"], values["begin_event"], values["end_event"]) == (1024, 4, 5)
    assert (values["pool_name"], values["address"]) == ("private 1.2", "0x4000")


POOLS = [(0, 0), (1, 0), (2, 0)]
STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.sampled_from([512, 1024, 7 * 512])), max_size=30)


@examples(suite=20, deep=500)
@given(STEPS, st.booleans(), st.sampled_from([2, 16]))
def test_envelopes_are_a_replay(steps: list[tuple[bool, int, int]], stated: bool, most: int) -> None:
    """Every block has a segment of its own, which outlives it; pools are stated by events, or by what is left at the end."""
    events: list[Json] = []
    segments: list[Json] = []
    live: list[tuple[int, int, tuple[int, int]]] = []
    active, reserved, top = (dict.fromkeys(POOLS, 0) for _ in range(3))
    highs: list[tuple[int, ...]] = []

    def add(action: str, address: int, size: int, pool: tuple[int, int]) -> None:
        events.append(event(action, address, size, **({"pool_id": pool} if stated else {})))
        if action.startswith("segment"):
            reserved[pool] += size
        else:
            active[pool] += size if action == "alloc" else -size
        top[pool] = max(top[pool], active[pool], reserved[pool])
        highs.append((active[POOLS[0]], top[POOLS[1]], top[POOLS[2]]))

    for number, (is_release, place, size) in enumerate(steps):
        if is_release and live:
            add("free_completed", *live.pop(place % len(live)))
            continue
        address, pool = 65536 * (number + 1), POOLS[place % 3]
        add("segment_alloc", address, size, pool)
        add("alloc", address, size, pool)
        live.append((address, size, pool))
        segments.append(segment(address, size, segment_pool_id=pool))
    kept = {address for address, *_ in live}
    for one in segments:
        if one["address"] in kept:
            one["blocks"] = segment(one["address"], one["total_size"], [(one["total_size"], "active_allocated")])[
                "blocks"
            ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers, "MOST_ENVELOPES", most)
        tile = bands(snapshot(events, segments), layer="pools", detail="all")
    heights = [one.height_bytes for one in tile.envelopes]
    for column, after in enumerate(tile.event):
        default, *private = highs[after] if after >= 0 else (0, 0, 0)
        assert sum(height[column] for height in heights) == sum(private)
        on_top = [
            size
            for size, first, end, place in zip(
                tile.size_bytes, tile.first, tile.end, tile.envelope or [-1] * len(tile.block), strict=True
            )
            if first <= column < end and place == -1
        ]
        assert sum(on_top) + tile.rest_bytes[column] == default


CALL = "/site-packages/torch/nn/modules/module.py:1750:_call_impl"
INNER = "/site-packages/torch/nn/modules/module.py:1803:inner"
QUALIFIED = "/site-packages/torch/nn/modules/module.py:1803:Module."


@pytest.mark.parametrize(("stack", "module"), [
    # The module that a person wrote, not the Linear in it; two classes of a file differ by who calls them.
    (("/site-packages/torch/nn/modules/linear.py:10:forward", CALL, "/u/m.py:7:forward", CALL, "/u/m.py:20:forward"),
     "/u/m.py: forward, called at m.py(20)"),
    (("/u/m.py:8:forward", CALL, CALL, "/u/m.py:21:forward", CALL, "/u/train.py:5:main"),
     "/u/m.py: forward, called at m.py(21)"),
    # Where functions are recorded with their class, that names it.
    (("/u/m.py:8:helper", "/u/m.py:9:Attention.forward", CALL, "/u/m.py:21:Block.forward"), "/u/m.py: Attention.forward"),
    # Only modules of the framework: the innermost.
    (("/site-packages/torch/nn/modules/linear.py:10:Linear.forward", CALL, "/u/train.py:5:main"),
     "/site-packages/torch/nn/modules/linear.py: Linear.forward"),
    # A profiler names instances. What is made is no forward.
    (("/site-packages/torch/nn/modules/linear.py:10:forward", CALL, "none:0:nn.Module# Linear_3", "/u/train.py:5:main"),
     "Linear_3"),
    (("/u/m.py:8:__init__", CALL, "/u/train.py:5:main"), None),
    (("/u/train.py:5:main",), None),
    # Frames of the interpreter stand between those of Python; a module with hooks calls its forward from `inner`.
    (("??:0:at##empty", "/u/m.py:9:Attention.forward", ":0:PyObject_Call", CALL, "??:0:_PyEval_EvalFrameDefault", CALL,
      "/u/train.py:5:main"), "/u/m.py: Attention.forward"),
    (("/u/m.py:9:Attention.forward", INNER, CALL, "/u/train.py:5:main"), "/u/m.py: Attention.forward"),
    (("/u/m.py:9:forward", f"{QUALIFIED}_call_impl.<locals>.inner", "??:0:_PyObject_Call", f"{QUALIFIED}_call_impl",
      f"{QUALIFIED}_wrapped_call_impl", "/u/train.py:5:main"), "/u/m.py: forward, called at train.py(5)"),
])  # fmt: skip
def test_the_module_of_a_stack(stack: tuple[str, ...], module: str | None) -> None:
    told = [{**one, "name": one["name"].replace("#", ":")} for one in frames(*stack)]
    model = snapshot([event("alloc", 0, 512, frames=told), event("alloc", 4096, 512)])
    tile = bands(model, detail="all")
    assert [tile.modules[place] or None for place in tile.stack] == [module, None]
    found = payload_of(ask(model, block=0), "block", Figures)
    assert {figure.metric.key: figure.value for figure in found.figures}["block_module"] == module
