"""Findings of the memory view: each on a training that has it, with its figures, and none on one that has not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.memory.trace_devices import devices_of
from tb_plugin.analysis.memory.window import peak_without, window_of
from tb_plugin.findings import finding
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.memory.reserved import unused_of
from tests.builders import TraceBuilder, part, trace
from tests.conftest import WITH_MEMORY, sample

MIB = 1 << 20
GIB = 1 << 30
STEP_US = 1000


class Run:
    """A training on a device: says what is allocated and released when, and keeps count of both."""

    def __init__(self, steps: int, memory_bytes: int = 0) -> None:
        self.builder: TraceBuilder = trace()
        if memory_bytes:
            self.builder.device(0, totalGlobalMem=memory_bytes)
        for i in range(steps):
            self.builder.step(i, i * STEP_US, STEP_US)
        self.allocated = self.reserved = 0
        self._addresses = 0
        self._sizes: dict[int, int] = {}
        self._events: list[tuple[int, int, int, int | None]] = []

    def op(self, name: str, at: int, dur: int = 10, **args: Any) -> None:
        self.builder.op(name, at, dur, **args)

    def get(self, at: int, size: int, reserved: int | None = None) -> int:
        """Allocates; ``reserved`` is what the allocator holds from then on."""
        self._addresses += 1
        self._sizes[self._addresses] = size
        self._events.append((at, self._addresses, size, reserved))
        return self._addresses

    def free(self, at: int, address: int, reserved: int | None = None) -> None:
        self._events.append((at, address, -self._sizes[address], reserved))

    def table(self) -> TraceTable:
        for at, address, size, reserved in sorted(self._events, key=lambda event: event[0]):
            self.allocated += size
            self.reserved = max(self.reserved, self.allocated) if reserved is None else reserved
            totals = {"Total Allocated": self.allocated, "Total Reserved": self.reserved}
            self.builder.memory(at, size, 1, 0, Addr=address, **totals)
        return self.builder.table()


def notices(table: TraceTable, **params: Any) -> dict[str, Any]:
    found: Any = part(table, "memory", **params).payloads["advice"]
    assert len({notice.rule for notice in found.notices}) == len(found.notices)
    return {notice.rule: notice for notice in found.notices}


def figures(notice: Any) -> dict[str, Any]:
    return {figure.metric.key: figure.value for figure in notice.figures if figure.metric.key != "device"}


def healthy(run: Run, steps: int, size: int = 4 * MIB) -> None:
    """In each step activations, a gradient that the next step clears, and in the first the state of the optimizer."""
    gradient = 0
    for i in range(steps):
        at = i * STEP_US
        run.op("aten::linear", at + 10)
        activation = run.get(at + 12, size)
        if gradient:
            run.free(at + 100, gradient)
        run.op("aten::mm", at + 200)
        gradient = run.get(at + 202, size)
        run.free(at + 300, activation)
        if i == 0:
            run.op("aten::zeros_like", at + 400)
            run.get(at + 402, 8 * size)


def leak(run: Run, step: int, size: int, module: str = "") -> None:
    at = step * STEP_US
    if module:
        run.builder.python("train.py(7): keep", at + 490, 30).module(module, at + 495, 20)
    run.op("aten::clone", at + 500)
    run.get(at + 502, size)


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 6, 12])
def test_a_healthy_training_has_no_finding(steps: int) -> None:
    run = Run(steps)
    healthy(run, steps)
    assert notices(run.table()) == {}


def test_what_every_step_keeps_is_a_leak() -> None:
    run = Run(6)
    healthy(run, 6)
    for i in range(6):
        leak(run, i, MIB, "Memory")
    found = notices(run.table())
    assert list(found) == ["memory_growth"]
    notice = found["memory_growth"]
    # The first of six steps also sets up what stays.
    assert figures(notice) == {
        "step_growth_bytes": MIB, "step_growth_blocks": 1.0, "growing_steps": 5, "counted_steps": 5,
        "left_bytes": 5 * MIB, "left_blocks": 5, "name": "aten::clone", "module": "Memory_0",
        "allocation_frame": "train.py(7): keep", "leak_confidence": 1.0,
    }  # fmt: skip
    assert (notice.severity, notice.measure, notice.threshold) == ("high", "leak_confidence", 0.7)
    assert notice.evidence.params == {
        "device": "cuda:0", "group": "memory_steps", "where": "allocation_frame:train.py(7): keep"
    }  # fmt: skip
    assert finding(notice).text == (
        "Memory of cuda:0 grows by 1.00 MiB per step: 5 of 5 steps left 5 unreleased blocks (5.00 MiB), allocated by "
        "aten::clone in Memory_0, line train.py(7): keep."
    )


def test_the_largest_of_several_leaks_is_named() -> None:
    run = Run(4)
    healthy(run, 4)
    for i in range(4):
        leak(run, i, MIB)
        run.op("aten::stack", i * STEP_US + 600)
        run.get(i * STEP_US + 602, 3 * MIB)
    notice = notices(run.table())["memory_growth"]
    found = figures(notice)
    assert (found["step_growth_bytes"], found["step_growth_blocks"], found["counted_steps"]) == (4 * MIB, 2, 3)
    assert found["name"] == "aten::stack" and "mostly allocated by" in notice.text


def test_slow_growth_and_two_steps_are_no_finding() -> None:
    for steps, size in ((6, 65535), (2, MIB)):
        run = Run(steps)
        for i in range(steps):
            leak(run, i, size)
        assert notices(run.table()) == {}, (steps, size)


def test_what_a_step_left_out_is_no_leak() -> None:
    """Two steps of five keep nothing, or the last two: the first step keeps nothing either."""
    for sizes in ((0, 3, 0, 3, 0, 3), (0, 3, 3, 3, 0, 0)):
        run = Run(6)
        for i, size in enumerate(sizes):
            if size:
                leak(run, i, size * MIB)
        assert notices(run.table()) == {}


def test_a_queue_is_no_leak() -> None:
    """Every step fills a place that lasts five steps, and empties the oldest: of the first five the allocation is older."""
    run = Run(4)
    older = [run.get(0, MIB) for _ in range(5)]
    run._events.clear()
    run.allocated = 5 * MIB
    for i in range(4):
        run.op("aten::cat", i * STEP_US + 500)
        run.free(i * STEP_US + 501, older[i])
        run.get(i * STEP_US + 502, MIB)
    assert notices(run.table()) == {}


@pytest.mark.parametrize("lasts", [1, 3, 4, 5])
def test_a_queue_whose_beginning_was_not_recorded(lasts: int) -> None:
    """Hosts do not record the release of what is older than the trace: then only lives tell a queue from a leak."""
    run = Run(6)
    blocks = []
    for i in range(6):
        run.op("aten::cat", i * STEP_US + 500)
        blocks.append(run.get(i * STEP_US + 502, MIB))
        if i >= lasts:
            run.free(i * STEP_US + 501, blocks[i - lasts])
    assert notices(run.table()) == {}


def test_a_leak_beside_what_lasts_a_step() -> None:
    run = Run(6)
    block = 0
    for i in range(6):
        run.op("aten::cat", i * STEP_US + 500)
        if block:
            run.free(i * STEP_US + 501, block)
        block = run.get(i * STEP_US + 502, 7 * MIB)
        run.get(i * STEP_US + 503, MIB)
    assert figures(notices(run.table())["memory_growth"])["step_growth_bytes"] == MIB


def test_a_cache_that_is_filled_and_never_emptied() -> None:
    run = Run(6)
    healthy(run, 6)
    for i in (0, 0, 2, 4):
        leak(run, i, MIB)
    found = notices(run.table())
    assert list(found) == ["memory_cache"]
    assert figures(found["memory_cache"]) == {
        "step_growth_bytes": 2 * MIB / 5, "step_growth_blocks": 0.4, "growing_steps": 2, "counted_steps": 5,
        "left_bytes": 2 * MIB, "left_blocks": 2, "name": "aten::clone", "cache_bytes": 4 * MIB,
    }  # fmt: skip
    assert found["memory_cache"].severity == "low"
    once = Run(6)
    for i in (0, 0, 2):
        leak(once, i, MIB)
    assert notices(once.table()) == {}, "one later step is no habit"


def test_growth_is_of_the_chosen_steps() -> None:
    run = Run(8)
    for i in range(8):
        leak(run, i, MIB)
    table = run.table()
    assert figures(notices(table, steps=("2", "3", "4", "5"))["memory_growth"])["counted_steps"] == 3
    assert notices(table, steps=("0", "2", "4", "6")) == {}, "nobody said what happened between them"


def used(run: Run, size: int, reserved: int) -> None:
    """One block that lives for most of the step."""
    run.op("aten::empty", 10)
    run.free(900, run.get(12, size, reserved), reserved)


def test_reserved_for_a_higher_peak_before() -> None:
    run = Run(1)
    used(run, GIB, 2 * GIB)
    notice = notices(run.table())["memory_fragmentation"]
    assert figures(notice) == {
        "unused_reserved_ratio": 0.5, "unused_reserved_bytes": GIB, "peak_reserved_bytes": 2 * GIB,
        "fragmentation_cause": "reserved before",
    }  # fmt: skip
    assert "empty_cache" in notice.todo and notice.severity == "low"
    assert notice.evidence.params == {"device": "cuda:0", "at_ns": "12000"}
    for size, reserved in ((GIB, GIB + 250 * MIB), (200 * MIB, 300 * MIB)):
        run = Run(1)
        used(run, size, reserved)
        assert notices(run.table()) == {}, "less than a fifth, or less than 256 MiB"


def test_it_is_loud_where_the_device_is_nearly_full() -> None:
    for memory, severity in ((2 * GIB, "medium"), (3 * GIB, "low")):
        run = Run(1, memory)
        used(run, GIB, 2 * GIB)
        assert notices(run.table())["memory_fragmentation"].severity == severity
    run = Run(1, 80 * GIB)
    used(run, GIB, 2 * GIB)
    assert "memory_fragmentation" not in notices(run.table()), "a fiftieth of the device is 1.6 GiB"


def test_growth_beside_free_memory() -> None:
    """Each step asks for what does not fit into the gaps that the others left, though as much lies free."""
    run = Run(4)
    for i in range(4):
        at, reserved = i * STEP_US, (i + 1) * 512 * MIB
        run.op("aten::bmm", at + 10)
        run.free(at + 900, run.get(at + 12, 512 * MIB, reserved), reserved)
    notice = notices(run.table())["memory_fragmentation"]
    assert figures(notice) == {
        "unused_reserved_ratio": 0.75, "unused_reserved_bytes": 3 * 512 * MIB, "peak_reserved_bytes": 4 * 512 * MIB,
        "fragmentation_cause": "gaps between blocks", "gap_growths": 3, "gap_growth_bytes": 3 * 512 * MIB,
        "distinct_sizes": 1,
    }  # fmt: skip
    assert "max_split_size_mb" in notice.todo


def test_steps_of_different_shapes_leave_gaps() -> None:
    run = Run(3)
    used_bytes, held = (900, 700, 800), (900, 1600, 2400)
    for i, (size, reserved) in enumerate(zip(used_bytes, held, strict=True)):
        at = i * STEP_US
        run.op("aten::bmm", at + 10)
        run.free(at + 900, run.get(at + 12, size * MIB, reserved * MIB), reserved * MIB)
        run.free(at + 950, run.get(at + 940, 10 * MIB, reserved * MIB), reserved * MIB)
    found = figures(notices(run.table())["memory_fragmentation"])
    assert found["fragmentation_cause"] == "changing sizes"
    assert (found["gap_growths"], found["gap_growth_bytes"]) == (2, 1500 * MIB)
    assert found["varying_sizes_ratio"] == 2400 / 2430
    assert found["unused_reserved_bytes"] == 1600 * MIB


def test_one_block_larger_than_what_is_free() -> None:
    run = Run(1)
    run.op("aten::cat", 10)
    first = run.get(11, 900 * MIB, 900 * MIB)
    run.free(12, first, 900 * MIB)
    run.free(900, run.get(13, 1000 * MIB, 1900 * MIB), 1900 * MIB)
    found = figures(notices(run.table())["memory_fragmentation"])
    assert (found["fragmentation_cause"], found["block_bytes"], found["name"]) == (
        "one large block", 1000 * MIB, "aten::cat"
    )  # fmt: skip


def saw(run: Run, cycles: int) -> None:
    for i in range(cycles):
        at = 10 + 100 * i
        run.op("aten::mm", at)
        block = run.get(at + 1, GIB, GIB)
        run.free(at + 50, block, GIB)
        run.free(at + 60, run.get(at + 55, 2 * MIB, 2 * MIB), 2 * MIB)


def test_reserved_memory_that_comes_and_goes() -> None:
    run = Run(1)
    saw(run, 4)
    run.builder.call(20, 100, name="cudaMalloc").call(130, 50, name="cudaFree")
    found = notices(run.table())
    notice = found["reserved_oscillation"]
    # It falls four times; after the last fall it stays low.
    assert figures(notice) == {
        "reserved_cycles": 3, "returned_bytes": 4 * (GIB - 2 * MIB), "peak_reserved_bytes": GIB, "name": "aten::mm",
        "driver_memory_ns": 150_000,
    }  # fmt: skip
    assert notice.severity == "medium" and "empty_cache" in notice.todo, "15 % of the step"
    assert (notice.evidence.params["start_ns"], notice.evidence.params["end_ns"]) == ("60000", "311000")
    assert found["driver_memory_calls"].severity == "medium", "what the calls cost is said there as before"
    run = Run(1)
    saw(run, 3)
    assert "reserved_oscillation" not in notices(run.table()), "twice is no habit"


def spike(life_us: int, like: int = 1) -> TraceTable:
    """A gibibyte that stays, and for a while one more in each step."""
    run = Run(3)
    run.op("aten::linear", 1)
    run.get(2, GIB)
    for i in range(3):
        at = i * STEP_US + 100
        run.op("aten::log_softmax", at)
        for k in range(like):
            run.free(at + 5 + life_us, run.get(at + 1 + k, GIB // like))
    return run.table()


def test_a_peak_by_one_temporary_block() -> None:
    notice = notices(spike(50))["memory_spike"]
    assert figures(notice) == {
        "peak_drop_ratio": 0.5, "block_bytes": GIB, "lifetime_ns": 54_000, "peak_allocated_bytes": 2 * GIB,
        "peak_without_bytes": GIB, "name": "aten::log_softmax",
    }  # fmt: skip
    assert notice.evidence.params == {"device": "cuda:0", "group": "memory_events", "where": "block_number:1"}
    assert "memory_spike" not in notices(spike(200)), "a fifth of the step is not short"
    assert "memory_spike" not in notices(spike(50, like=2)), "two blocks make it"


def changing_shapes() -> Run:
    """Four steps: aten::bmm has a shape of its own in three of them, aten::add the same in all."""
    run = Run(4)
    for i, length in enumerate((8, 16, 24, 32)):
        at = i * STEP_US
        run.op("aten::add", at + 10, shapes=[[4, 4], [], []])
        run.free(at + 900, run.get(at + 12, MIB))
        run.op("aten::bmm", at + 100, 50, shapes=[[2, length], [length, 2]])
        run.op("aten::empty", at + 110, 20, shapes=[[], []])
        run.builder.call(at + 112, 4 + i, name="cudaMalloc")
        run.free(at + 900, run.get(at + 120, length * MIB))
    return run


def test_shapes_that_change_from_step_to_step() -> None:
    table = changing_shapes().table()
    found = part(table, "memory").frames["memory_shapes"].data.to_pylist()
    # The first of four steps also sets up what stays: it is left out.
    assert found == [
        {"name": "aten::bmm", "device": "cuda:0", "shapes": 3, "varying_shapes": 3, "varying_allocations": 3,
         "varying_bytes": (16 + 24 + 32) * MIB, "varying_calls": 3, "varying_calls_ns": 18_000}
    ]  # fmt: skip
    notice = notices(table)["memory_shapes"]
    assert figures(notice) == {
        "varying_calls_ratio": 1.0, "varying_calls": 3, "varying_calls_ns": 18_000, "name": "aten::bmm", "shapes": 3,
        "growth_steps": 3,
    }  # fmt: skip
    assert notice.evidence.view == "operators"
    assert notice.evidence.params == {"group": "operators_by_shape", "where": "name:aten::bmm"}


def test_driver_calls_elsewhere_are_not_for_shapes() -> None:
    run = changing_shapes()
    run.builder.call(2500, 40, name="cudaMalloc")
    assert "memory_shapes" not in notices(run.table()), "18 of 58 us"


def test_shapes_that_stay_have_no_table() -> None:
    run = Run(4)
    for i in range(4):
        # The second operator is there in one step only: it has no shapes that change.
        run.op("aten::add", i * STEP_US + 10, shapes=[[4, 4], [], []])
        run.free(i * STEP_US + 900, run.get(i * STEP_US + 12, MIB))
        if i == 2:
            run.op("aten::bmm", i * STEP_US + 100, shapes=[[4, 4]])
            run.free(i * STEP_US + 900, run.get(i * STEP_US + 102, MIB))
    assert not part(run.table(), "memory").frames["memory_shapes"].data.num_rows


@pytest.mark.parametrize(("memory", "room"), [(4, 3), (2, 1), (1.5, None)])
def test_room(memory: float, room: int | None) -> None:
    run = Run(1, int(memory * GIB))
    used(run, GIB, GIB)
    table = run.table()
    found = notices(table)
    if room is None:
        assert found == {}
    else:
        assert figures(found["memory_unused"]) == {
            "room_ratio": room / memory, "room_bytes": room * GIB, "memory_bytes": memory * GIB
        }  # fmt: skip
        assert found["memory_unused"].severity == "info"
    summary: Any = part(table, "memory").payloads["summary"]
    assert {f.metric.key: f.value for f in summary.figures}["room_bytes"] == int((memory - 1) * GIB)


@pytest.mark.parametrize("name", WITH_MEMORY)
def test_samples_have_no_finding_but_room(name: str) -> None:
    assert set(notices(sample(name))) <= {"memory_unused", "driver_memory_calls"}
    assert "memory_shapes" not in part(sample(name), "memory").layout


@given(
    st.integers(3, 7),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9), st.integers(1, 64)), max_size=20),
    st.integers(0, 40),
)
def test_a_leak_is_found_with_its_size_and_nothing_without_one(
    steps: int, others: list[tuple[int, int, int]], blocks: int
) -> None:
    """Other blocks may live up to three steps, if they are gone when the last step begins."""
    run = Run(steps)
    healthy(run, steps)
    for step, life, size in others:
        begin, end = step * STEP_US + 600, step * STEP_US + 601 + life * 300
        if end < (steps - 1) * STEP_US:
            run.free(end, run.get(begin, size * MIB))
    for i in range(steps):
        for _ in range(blocks):
            leak(run, i, 64 * 1024)
    found = notices(run.table())
    if not blocks:
        assert "memory_growth" not in found and "memory_cache" not in found
        return
    assert figures(found["memory_growth"])["step_growth_bytes"] == blocks * 64 * 1024
    assert figures(found["memory_growth"])["step_growth_blocks"] == blocks


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9), st.integers(0, 12), st.integers(0, 6)), max_size=15))
def test_idle_memory_and_the_peak_without_a_block_recounted(blocks: list[tuple[int, int, int, int]]) -> None:
    """Blocks by (when, size, how long; 12 = for ever, what is reserved beyond what is allocated then)."""
    run = Run(1)
    run.op("aten::empty", 0, 100)
    total, events = 0, []
    for place, (at, size, life, more) in enumerate(blocks):
        events.append((at, place, size, more))
        events += [(at + life, place, -size, more)] if 0 < life < 12 else []
    rows = []
    for at, place, size, more in sorted(events, key=lambda event: event[0]):
        total += size
        rows.append((total, total + more, place, size))
        held = {"Total Allocated": total, "Total Reserved": total + more}
        run.builder.memory(at, size, 1, 0, Addr=place + 1, **held)
    if not rows:
        return
    table = run.builder.table()
    (device,) = devices_of(table)
    window = window_of(table, Params())
    most = max(reserved for _, reserved, _, _ in rows)
    idle = most - max(allocated for allocated, reserved, _, _ in rows if reserved == most)
    found = unused_of(device, window)
    assert found is not None and (found[0].value, found[1]) == (most, idle)
    first = {place: number for number, place in enumerate(dict.fromkeys(place for _, _, place, _ in rows))}
    for chosen in first:
        level, left = 0, [0]
        for _, _, place, size in rows:
            level += size * (place != chosen)
            left.append(level)
        without = np.zeros(len(first), np.bool_)
        without[first[chosen]] = True
        assert peak_without(device, window, without).value == max(left)
