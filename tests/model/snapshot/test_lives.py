"""Blocks and segments out of events: hand-sized histories, and an allocator's own against a plain replay."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from tb_plugin.analysis.snapshot.device_levels import devices_of, levels_of
from tb_plugin.model.snapshot.assemble import assemble
from tb_plugin.model.snapshot.table import HOST, NEVER, Snapshot
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model_kinds.rows import SNAPSHOT
from tests.depth import examples
from tests.formats.sources import DATA
from tests.snapshots import event, frames, read, segment, snapshot
from tests.synthetic_memory import generator


def lives(made: Snapshot) -> list[tuple[int, ...]]:
    """(address, size, begin, freed, end) of each block, NEVER as None."""
    columns = [getattr(made.blocks, name).tolist() for name in ("address", "size", "begin", "freed", "end")]
    return [tuple(None if value == NEVER else value for value in row) for row in zip(*columns, strict=True)]  # type: ignore[misc]


def test_a_block_from_its_allocation_to_its_release() -> None:
    made = snapshot([event("alloc", 0, 512), event("free_requested", 0, 512), event("free_completed", 0, 512)])
    assert lives(made) == [(0, 512, 0, 1, 2)]
    (held,) = devices_of(made)
    levels = levels_of(held)
    assert (levels.allocated.tolist(), levels.active.tolist()) == ([0, 512, 0, 0], [0, 512, 512, 0])


def test_an_address_is_given_again() -> None:
    history = [event("alloc", 0, 512), event("free_completed", 0, 512), event("alloc", 0, 1024)]
    assert lives(snapshot(history)) == [(0, 512, 0, 1, 1), (0, 1024, 2, None, None)]


def test_kinds_of_events_may_be_left_out() -> None:
    history = [event("alloc", 0, 512), event("free_requested", 0, 512), event("alloc", 512, 512)]
    assert lives(snapshot(history)) == [(0, 512, 0, 1, 1), (512, 512, 2, None, None)]
    pending = [segment(0, 1024, [(512, "active_pending_free"), (512, "active_allocated")])]
    assert lives(snapshot(history, pending)) == [(0, 512, 0, 1, None), (512, 512, 2, None, None)]


def test_what_was_there_before_the_history() -> None:
    history = [event("free_requested", 512, 100), event("free_completed", 512, 100), event("alloc", 2048, 512)]
    state = [segment(0, 4096, [(512, "active_allocated"), (1536, "inactive"), (512, "active_allocated")])]
    made = snapshot(history, state)
    assert lives(made) == [(0, 512, -1, None, None), (512, 100, -1, 0, 1), (2048, 512, 2, None, None)]
    assert made.blocks.requested.tolist() == [512, -1, 512]
    pending = [segment(0, 4096, [(512, "active_pending_free")])]
    assert snapshot([event("alloc", 2048, 512)], pending).blocks.requested.tolist()[0] == 512


def test_the_stack_of_a_block_from_before_the_history() -> None:
    """The release states it only where releases repeat the stack of the allocation: in this file all do, or none is told."""
    make, drop = frames("train.py:7:make"), frames("train.py:9:drop")

    def stacks(whole: list[Any], old: list[Any], left: list[Any] | None = None) -> list[str | None]:
        release = [
            event(f"free_{what}", 0, 512, frames=old, compile_context="old") for what in ("requested", "completed")
        ]
        history = [*release[: 1 if left else 2], event("alloc", 4096, 512, frames=make)]
        history += [event("free_requested", 4096, 512, frames=whole)] if whole else []
        state = [segment(0, 8192, [(512, "active_pending_free")])] if left else []
        for one in state:
            one["blocks"][0]["frames"] = left
        made = snapshot(history, state)
        assert made.blocks.begin.tolist() == [-1, 1 if left else 2] and made.blocks.context[0] == MISSING
        names = made.strings.take(made.stacks.name).to_pylist()
        return [names[made.stacks.frame[made.stacks.first[stack]]] if stack != MISSING else None
                for stack in made.blocks.stack.tolist()]  # fmt: skip

    assert stacks(make, make) == ["make", "make"], "releases repeat the stack"
    assert stacks(drop, drop) == [None, "make"], "releases have a stack of their own"
    assert stacks([], drop) == [None, "make"], "nothing tells"
    assert stacks(drop, drop, left=make) == ["make", "make"], "the final state tells"


def test_what_does_not_fit_is_counted() -> None:
    history = [
        event("alloc", 0, 512), event("alloc", 0, 256), event("free_completed", 0, 256), event("free_completed", 0, 256),
        event("segment_free", 0, 512), event("segment_free", 0, 512), event("alloc", 4096, 512),
    ]  # fmt: skip
    made = snapshot(history, [segment(0, 512)])
    (odd,) = made.oddities
    assert (odd.unreleased_reuse, odd.unmatched_releases, odd.lost_blocks, odd.unmatched_segments) == (1, 1, 1, 1)
    assert lives(made)[:2] == [(0, 512, 0, 1, 1), (0, 256, 1, 2, 2)]


def test_events_of_pytorch_state_what_was_asked_for() -> None:
    """Their sizes are then no multiples of 512: the block is as large as the end says, else rounded."""
    history = [event("alloc", 0, 700), event("alloc", 4096, 100), event("free_requested", 4096, 100)]
    history.append(event("alloc", 8192, 512))
    state = [segment(0, 2048, [(1536, "active_allocated")])]
    made = snapshot(history, state, allocator_settings={})
    assert (made.blocks.size.tolist(), made.blocks.requested.tolist()) == ([1536, 512, 512], [700, 100, 512])
    assert snapshot(history[3:], state).blocks.requested.tolist() == [1536, -1], "whole sizes say nothing of requests"


def test_a_segment_and_an_expandable_one() -> None:
    state = [segment(0, 1024), segment(8192, 3072, is_expandable=True)]
    history = [
        event("segment_alloc", 0, 1024), event("segment_map", 8192, 2048), event("segment_map", 10240, 2048),
        event("segment_unmap", 11264, 1024), event("segment_free", 4096, 512),
    ]  # fmt: skip
    made = snapshot(history, state)
    found = sorted(
        zip(*(getattr(made.segments, name).tolist() for name in ("address", "size", "begin", "end")), strict=True)
    )
    assert found == [
        (0, 1024, 0, NEVER), (4096, 512, -1, 4), (8192, 2048, 1, NEVER), (10240, 1024, 2, NEVER), (11264, 1024, 2, 3)
    ]  # fmt: skip
    assert made.segments.is_expandable[made.segments.address >= 8192].all()


def test_devices_in_order_and_the_host_last() -> None:
    content = {"segments": [segment(0, 512, device=3)], "device_traces": [[], [event("alloc", 0, 512)]],
               "host_traces": [event("segment_alloc", 0, 4096)]}  # fmt: skip
    made = assemble(read(pickle.dumps(content)))
    assert made.device_ids == (1, 3, HOST) and made.first.tolist() == [0, 1, 1, 2]
    assert [held.name for held in devices_of(made)] == ["cuda:1", "cuda:3", "pinned host memory"]


@pytest.mark.parametrize("traces", [[], [[]], [[event("snapshot", 0, 0)]], [[event("snapshot", 0, 0)] * 2, []]])
def test_marks_alone_are_no_history(traces: list[Any]) -> None:
    state = [segment(0, 1024, [(512, "active_allocated")])]
    made = assemble(read(pickle.dumps({"segments": state, "device_traces": traces})))
    assert not made.has_history and len(made.events.action) == 0 and lives(made) == [(0, 512, -1, None, None)]
    traces = [[event("snapshot", 0, 0)], [event("alloc", 0, 512), event("snapshot", 0, 0)]]
    made = assemble(read(pickle.dumps({"segments": state, "device_traces": traces})))
    assert made.has_history and [held.count for held in devices_of(made)] == [0, 2]


def test_times_count_from_the_first_event_and_never_go_back() -> None:
    history = [event("alloc", 0, 1, 500), event("alloc", 1, 1, 300), {"action": "alloc", "addr": 2, "size": 1}]
    made = snapshot(history)
    assert made.events.time_ns.tolist() == [200_000, 200_000, 200_000] and made.has_times
    assert not snapshot([{"action": "alloc", "addr": 2, "size": 1}]).has_times


def test_the_file_holds_everything(tmp_path: Any) -> None:
    made = assemble(read(pickle.dumps(generator.RUNS["leaking"](0, 3).snapshot())))
    SNAPSHOT.write(made, str(tmp_path / "kept"))
    back = SNAPSHOT.read(str(tmp_path / "kept"))
    for part in ("events", "blocks", "segments", "stacks", "annotations"):
        for name, values in asdict(getattr(made, part)).items():
            assert getattr(getattr(back, part), name).tolist() == values.tolist()
    assert list(back.strings) == list(made.strings) and back.recorder == made.recorder
    assert (back.report, back.settings, back.pools, back.oddities) == (
        made.report,
        made.settings,
        made.pools,
        made.oddities,
    )


# -- against a plain replay

Replayed = list[tuple[dict[int, int], dict[int, int], dict[int, int]]]


def replay(history: list[dict[str, Any]]) -> Replayed:
    """Allocated blocks, active blocks and segments by address after each event (and before the first), in plain Python."""
    allocated: dict[int, int] = {}
    active: dict[int, int] = {}
    segments: dict[int, int] = {}
    states: Replayed = [({}, {}, {})]
    for each in history:
        action, address, size = each["action"], each.get("addr"), each["size"]
        if action == "alloc":
            allocated[address], active[address] = size, size
        elif action == "free_requested":
            del allocated[address]
        elif action == "free_completed":
            del active[address]
        elif action == "segment_alloc":
            segments[address] = size
        elif action == "segment_free":
            del segments[address]
        states.append((dict(allocated), dict(active), dict(segments)))
    return states


@st.composite
def programs(draw: st.DrawFn) -> tuple[dict[str, Any], int]:
    """What an allocator wrote of a random program, and how many of its events fell out of the ring."""
    allocator = generator.Allocator(96 << 20, draw(st.integers(0, 1000)))
    live: list[int] = []
    waiting: list[int] = []
    sizes = st.sampled_from([1, 512, 513, 70_000, 1 << 20, (1 << 20) + 1, 3 << 20, 9 << 20, 12 << 20, 33 << 20])
    for kind in draw(st.lists(st.integers(0, 9), max_size=60)):
        if kind < 5:
            try:
                pool = (0, draw(st.integers(0, 1)))
                live.append(
                    allocator.allocate(draw(sizes), generator.stack(("a.py", kind, "f")), draw(st.integers(0, 1)), pool)
                )
            except generator.OutOfMemory:
                pass
        elif kind < 8 and live:
            address = live.pop(draw(st.integers(0, len(live) - 1)))
            wait = draw(st.booleans())
            allocator.free(address, wait)
            if wait:
                waiting.append(address)
        elif kind == 8 and waiting:
            allocator.complete(waiting.pop(0))
        elif kind == 9:
            allocator.empty_cache()
    told = allocator.snapshot()
    lost = draw(st.integers(0, len(told["device_traces"][0]) - 1))
    return told, lost


@given(programs())
@examples(25, 1000)
def test_every_moment_is_what_a_replay_says(program: tuple[dict[str, Any], int]) -> None:
    """Also where the first events fell out of the ring: the rest and the final state tell the same."""
    told, lost = program
    states = replay(told["device_traces"][0])[lost:]
    told["device_traces"][0] = told["device_traces"][0][lost:]
    made = assemble(read(pickle.dumps(told)))
    assert made.oddities in ((), (type(made.oddities[0])(),))
    (held,) = devices_of(made)
    levels = levels_of(held)
    # Where the dump's own mark is all that is left, there is no history.
    for e, (allocated, active, segments) in enumerate(states[: held.count + 1], start=-1):
        for rows, expected in ((held.allocated(e), allocated), (held.live(e), active)):
            assert (
                dict(zip(held.block("address")[rows].tolist(), held.block("size")[rows].tolist(), strict=True))
                == expected
            )
        there = np.flatnonzero((held.segment("begin") <= e) & (held.segment("end") > e))
        found = zip(held.segment("address")[there].tolist(), held.segment("size")[there].tolist(), strict=True)
        assert dict(found) == segments
        sums = [int(each[e + 1]) for each in (levels.allocated, levels.active, levels.reserved)]
        assert sums == [sum(each.values()) for each in (allocated, active, segments)]


@given(st.data())
@examples(25, 600)
def test_pieces_of_expandable_segments(data: st.DataObject) -> None:
    """Pages are mapped and unmapped in any runs; what the end shows and the events say is what was there all the time."""
    mapped: set[int] = set()
    history, states = [], [set(mapped)]
    for _ in range(data.draw(st.integers(0, 14))):
        at, length = data.draw(st.integers(0, 12)), data.draw(st.integers(1, 4))
        pages = set(range(at, at + length))
        if not pages & mapped:
            mapped |= pages
            history.append(event("segment_map", at * 1024, length * 1024))
        elif pages <= mapped:
            mapped -= pages
            history.append(event("segment_unmap", at * 1024, length * 1024))
        else:
            continue
        states.append(set(mapped))
    runs = [page for page in sorted(mapped) if page - 1 not in mapped]
    final = []
    for page in runs:
        length = next(n for n in range(1, 20) if page + n not in mapped)
        final.append(segment(page * 1024, length * 1024, is_expandable=True))
    lost = data.draw(st.integers(0, len(history)))
    made = snapshot(history[lost:], final)
    for e, pages in enumerate(states[lost:], start=-1):
        there = (made.segments.begin <= e) & (made.segments.end > e)
        found: list[int] = []
        for at, size in zip(made.segments.address[there].tolist(), made.segments.size[there].tolist(), strict=True):
            found += range(at // 1024, (at + size) // 1024)
        assert sorted(found) == sorted(pages)


FILES = [path for path in sorted((DATA / "memsnap").glob("*.pickle")) if not path.name.startswith("EVIL")]


@pytest.mark.parametrize("what", [*sorted(generator.RUNS), *FILES], ids=lambda what: getattr(what, "name", what))
def test_torch_says_the_same(what: str | Path) -> None:
    """PyTorch's own tool counts the segments of the same snapshot, where it is installed."""
    viz = pytest.importorskip("torch.cuda._memory_viz", reason="PyTorch is not installed")
    told = (
        pickle.loads(what.read_bytes()) if isinstance(what, Path) else generator.RUNS[what](1, 8).snapshot()
    )  # of our own making
    told = {"segments": told, "device_traces": []} if isinstance(told, list) else told
    made = assemble(read(pickle.dumps(told)))
    reserved = asked = segments = 0
    for held in devices_of(made):
        rows = held.allocated(held.count - 1)
        # It counts what was asked for, not what it was rounded to.
        asked += int(held.block("requested")[rows].sum())
        reserved += int(levels_of(held).reserved[-1])
        segments += int((held.segment("end") == NEVER).sum())
    text = viz.segsum(told)
    assert f"segments: {segments}\n" in text
    assert f"total_reserved: {viz.Bytes(reserved)}\n" in text
    assert f"total_allocated: {viz.Bytes(asked)}\n" in text


def test_when_it_was_recorded() -> None:
    model = SNAPSHOT
    clock = model.outline(snapshot([event("alloc", 0, 1, 5), event("alloc", 1, 1, 9)])).clock
    assert clock is not None and (clock.start_unix_ns, clock.length_ns) == ("1000005000", 4000)
    assert model.outline(snapshot([])).clock is None


def test_the_size_of_a_block_that_is_left_is_what_the_snapshot_states() -> None:
    """A rest that is too small to split stays in the block, also where all that was asked for is whole blocks."""
    events = [event("alloc", place << 20, 2 << 20) for place in (0, 20, 40)]
    events += [event("free_requested", 0, 2 << 20), event("free_completed", 0, 2 << 20)]
    left = [segment(place << 20, 20 << 20, [(3 << 20, "active_allocated")]) for place in (20, 40)]
    made = snapshot(events, left)
    assert [size for _, size, *_ in lives(made)] == [2 << 20, 3 << 20, 3 << 20]
    assert levels_of(devices_of(made)[0]).allocated.tolist()[-1] == 6 << 20
