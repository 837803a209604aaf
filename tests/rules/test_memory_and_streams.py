"""Rules of memory that stays unused or comes and goes, and of modules that leave a device half empty, by hand."""

from __future__ import annotations

import random

import pytest

from tb_plugin.payloads import Notice
from tb_plugin.rules import regular_rules
from tb_plugin.rules._base import Scene
from tests.builders import TraceBuilder, figures, kernel, trace

GIB = 1 << 30


def told(rule: str, builder: TraceBuilder) -> Notice | None:
    (found,) = [each for each in regular_rules() if each.id == rule]
    seen = found.look(Scene(builder.table()))
    return seen and seen.notice


def reserved(*levels: int, device: int = 0, builder: TraceBuilder | None = None) -> TraceBuilder:
    """What a device of 16 GiB has reserved, an event each 10 us of a step."""
    builder = builder or trace().step(1, 0, 1000).device(0).device(1)
    builder.op("aten::mm", 0, 10).launches(kernel("mm", 5, 20, device=device))
    for i, level in enumerate(levels):
        totals = {"Total Allocated": level * GIB // 2, "Total Reserved": level * GIB}
        builder.memory(100 + 10 * i, 1 << 20, 1, device, **totals)
    return builder


def test_half_of_the_memory_unused_is_worth_a_word() -> None:
    assert figures(told("memory_unused", reserved(4, 8, 6))) == {
        "room_ratio": 0.5, "device": "cuda:0", "room_bytes": 8 * GIB, "memory_bytes": 16 * GIB
    }  # fmt: skip
    assert told("memory_unused", reserved(4, 9)) is None
    assert told("memory_unused", trace().step(1, 0, 10).device(0)) is None


def test_the_device_with_least_room_counts() -> None:
    assert figures(told("memory_unused", reserved(6, device=1, builder=reserved(4))))["room_bytes"] == 10 * GIB
    assert told("memory_unused", reserved(9, device=1, builder=reserved(4))) is None


def test_memory_that_comes_and_goes_three_times_is_a_habit() -> None:
    builder = reserved(8, 4, 8, 4, 8, 4, 8).call(300, 50, name="cudaFree")
    assert figures(told("reserved_oscillation", builder)) == {
        "reserved_cycles": 3, "device": "cuda:0", "returned_bytes": 12 * GIB, "peak_reserved_bytes": 8 * GIB,
        "driver_memory_ns": 50_000,
    }  # fmt: skip
    assert told("reserved_oscillation", reserved(8, 4, 8, 4, 8, 4)) is None


def branches(*modules: tuple[str, int], blocks_per_sm: float = 0.3, dur: int = 30, gap: int = 0) -> TraceBuilder:
    """Two kernels of each module, one after another on one stream, in a step of 1000 us."""
    builder = trace().step(1, 0, 100)
    at = 100
    for i, (name, number) in enumerate(modules):
        builder.module(name, 10 * i, 10, number, id=i + 1)
        for _ in range(2):
            builder.op("aten::cumsum", 10 * i + 2, 3)
            builder.launches(kernel("scan", dur, at, blocks_per_sm=blocks_per_sm))
            at += dur + gap
    return builder.op("aten::mm", 95, 2).launches(kernel("mm", 1000 - at, at, blocks_per_sm=8.0))


def test_neighbours_of_one_class_that_leave_half_of_the_device_empty() -> None:
    """60 us of each branch: the second could run beside the first."""
    notice = told("one_stream", branches(("Branch", 0), ("Branch", 1)))
    assert figures(notice) == {
        "neighbours": "Branch_0, Branch_1",
        "part_filled_ns": 120_000,
        "could_overlap_ns": 60_000,
    }
    assert notice and notice.saving is None and notice.confidence == "low"


@pytest.mark.parametrize(
    "builder",
    [
        branches(("Branch", 0)),
        branches(("Linear", 0), ("Norm", 0)),  # a chain, as far as anybody can tell
        branches(("Branch", 0), ("Branch", 1), blocks_per_sm=0.5),
        branches(("Branch", 0), ("Branch", 1), dur=19),
        branches(("Branch", 0), ("Branch", 1)).op("aten::mm", 98, 1).launches(kernel("beside", 300, 90, stream=9)),
    ],
)
def test_what_fills_the_device_is_short_or_has_no_neighbour_is_silent(builder: TraceBuilder) -> None:
    assert told("one_stream", builder) is None


def test_of_three_neighbours_one_pair_counts() -> None:
    notice = told("one_stream", branches(("Branch", 0), ("Branch", 1), ("Branch", 2)))
    assert figures(notice)["could_overlap_ns"] == 60_000


@pytest.mark.parametrize("rule", ["one_stream", "memory_unused", "reserved_oscillation"])
def test_the_order_of_events_changes_nothing(rule: str) -> None:
    builder = reserved(8, 4, 8, 4, 8, 4, 8, builder=branches(("Branch", 0), ("Branch", 1)).device(0))
    before = told(rule, builder)
    random.Random(1).shuffle(builder.events)
    assert told(rule, builder) == before is not None
