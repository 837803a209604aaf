"""Growth: recounted block by block in plain Python, for any history and for all samples."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.memory.growth import change_of, live_of
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, devices_of
from tb_plugin.analysis.snapshot.steps import Steps, growth_of_device, steps_of
from tb_plugin.errors import BadRequest, NotFoundError
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.views.growth.view import GrowthAnalysis
from tests.depth import examples
from tests.samples import OURS, made
from tests.snapshots import Json, event, frames, snapshot

VIEW = GrowthAnalysis()
MEMORY = [sample.name for sample in OURS if sample.model.type is Snapshot]


def history(script: list[list[tuple[int, int]]], annotated: bool = True) -> Snapshot:
    """Steps of (line, lifetime in events of the script; 0 = for good); a block of the line's number in KiB each."""
    events: list[Json] = []
    marks: list[Json] = []
    due: dict[int, list[tuple[int, int]]] = defaultdict(list)
    clock = address = 0
    for number, step in enumerate(script):
        if annotated:
            marks.append({"name": f"ProfilerStep#{number}", "stage": "START", "device": 0,
                          "time_us": 1_000_001 + 2 * len(events)})  # fmt: skip
        for line, life in step:
            clock += 1
            for place, size in due.pop(clock, []):
                events.append(event("free_completed", place, size, 2 * len(events) + 2))
            address += 1 << 20
            size = 1024 * line
            events.append(event("alloc", address, size, 2 * len(events) + 2, frames=frames(f"train.py:{line}:step")))
            if life:
                due[clock + life].append((address, size))
    last, end = f"ProfilerStep#{len(script) - 1}", 1_000_001 + 2 * len(events)
    marks.append({"name": last, "stage": "END", "device": 0, "time_us": end})
    return snapshot(events, external_annotations=marks if annotated else [])


def device(model: Snapshot) -> DeviceLevels:
    (held,) = devices_of(model)
    return held


def recounted(held: DeviceLevels, steps: Steps) -> dict[int, dict[str, Any]]:
    """What each stack keeps, block by block."""
    last = int(steps.moments[-1])

    def step_of(at: int) -> int:
        return sum(at > moment for moment in steps.moments.tolist()) - 1

    blocks = list(zip(*(held.block(key).tolist() for key in ("stack", "size", "begin", "freed")), strict=True))
    found: dict[int, dict[str, Any]] = {}
    for stack in {block[0] for block in blocks}:
        mine = [(size, begin, freed) for one, size, begin, freed in blocks if one == stack and begin <= last]
        waits = max([step_of(freed) - step_of(begin) for _, begin, freed in mine if begin > steps.moments[0]
                     and freed <= last], default=0)  # fmt: skip
        counted = max(len(steps) - 1 - waits, 0)
        left = defaultdict(int)
        number = 0
        for size, begin, freed in mine:
            if freed > last and 1 <= step_of(begin) < 1 + counted:
                left[step_of(begin)] += size
                number += 1
        at_first = sum(size for size, begin, freed in mine if begin <= steps.moments[1] < freed)
        at_last = sum(size for size, begin, freed in mine if freed > last)
        quarter = max(counted // 4, 2)
        late = sum(step > counted - quarter for step in left)
        mean = sum(left.values()) / max(len(left), 1)
        off = sum(abs(size - mean) for size in left.values()) / max(len(left), 1)
        sure = counted >= 3 and 2 * late >= quarter and mean > 0
        found[stack] = {
            "kept": sum(left.values()), "blocks": number, "counted": counted, "growing": len(left), "first": at_first,
            "last": at_last, "confidence": len(left) / counted * max(1 - off / mean / 2, 0) if sure else 0.0,
        }  # fmt: skip
    return {stack: numbers for stack, numbers in found.items() if numbers["first"] or numbers["last"]}


def compare(held: DeviceLevels) -> None:
    steps, growth = steps_of(held), growth_of_device(held)
    if len(steps) < 2:
        assert len(growth.owner) == 0
        return
    expected = recounted(held, steps)
    assert set(growth.owner.tolist()) == set(expected)
    for i, stack in enumerate(growth.owner.tolist()):
        told = {
            "kept": growth.left_bytes[i], "blocks": growth.left_blocks[i], "counted": growth.counted[i],
            "growing": growth.growing[i], "first": growth.first_bytes[i], "last": growth.last_bytes[i],
            "confidence": pytest.approx(growth.confidence[i]),
        }  # fmt: skip
        assert told == expected[stack]
    blocks = list(zip(*(held.block(key).tolist() for key in ("stack", "size", "begin", "freed")), strict=True))
    for stack in (None, *growth.owner.tolist()[:3]):
        mine = held.table.take(np.flatnonzero(held.table.owner == stack)) if stack is not None else held.table
        size, number = live_of(mine, steps.moments)
        for i, moment in enumerate(steps.moments.tolist()):
            there = [b for b in blocks if b[2] <= moment < b[3] and stack in (None, b[0])]
            assert (size[i], number[i]) == (sum(b[1] for b in there), len(there))
    first, second = int(steps.moments[1]), held.count - 1
    change = change_of(held.table, first, second)
    for i, stack in enumerate(change.owner.tolist()):
        one, other = ({b for b in enumerate(blocks) if b[1][0] == stack and b[1][2] <= at < b[1][3]}
                      for at in (first, second))  # fmt: skip
        told = (change.first_bytes[i], change.second_bytes[i], change.first_blocks[i], change.second_blocks[i])
        assert told == (sum(b[1][1] for b in one), sum(b[1][1] for b in other), len(one), len(other))
        assert (change.both_blocks[i], change.both_bytes[i]) == (len(one & other), sum(b[1][1] for b in one & other))


@given(st.lists(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 12)), min_size=1, max_size=6), min_size=2, max_size=9),
       st.booleans())  # fmt: skip
@examples(suite=25, deep=500)
def test_any_growth_recounted(script: list[list[tuple[int, int]]], annotated: bool) -> None:
    compare(device(history(script, annotated)))


@pytest.mark.parametrize("name", MEMORY)
def test_growth_of_samples_recounted(name: str) -> None:
    for held in devices_of(made(name)):
        compare(held)


def rows_of(model: Snapshot, table: str, **extra: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = VIEW.part(model, Params(extra=tuple(extra.items()))).frames[table].data.to_pylist()
    return found


def test_a_leak_among_what_comes_and_goes() -> None:
    # Line 1 lives for one event; line 2 into the next step; line 3 for good.
    model = history([[(1, 1), (2, 4), (3, 0)]] * 6)
    rows = {row["allocation_line"]: row for row in rows_of(model, "growth_stacks")}
    leak = rows["train.py(3): step"]
    assert (leak["step_growth_bytes"], leak["growing_steps"], leak["counted_steps"]) == (3072.0, 5, 5)
    assert (leak["first_step_bytes"], leak["last_step_bytes"], leak["leak_confidence"]) == (3072, 6 * 3072, 1.0)
    assert rows["train.py(2): step"]["counted_steps"] == 4, "those of the last step may yet be released"
    assert rows["train.py(2): step"]["leak_confidence"] == 0
    view: Any = VIEW.part(model, Params()).payloads
    assert view["live"].lines[0].values == [3072 * i for i in range(7)]
    assert view["live"].x == ["0", "1", "2", "3", "4", "5", "end"]


def test_what_fills_and_stops_is_no_leak() -> None:
    rows = rows_of(history([[(4, 0)]] * 4 + [[(1, 1)]] * 4), "growth_stacks")
    (row,) = [row for row in rows if row["allocation_line"] == "train.py(4): step"]
    assert (row["growing_steps"], row["counted_steps"], row["leak_confidence"]) == (3, 7, 0.0)


def test_two_moments() -> None:
    # After event 2: lines 1, 2 and 3; after the last event lines 3, 4 and a second 2.
    events = [event("alloc", 512 * i, 512, i, frames=frames(f"a.py:{line}:f")) for i, line in enumerate((1, 2, 3))]
    events += [event("free_completed", 0, 512, 4), event("alloc", 2048, 512, 5, frames=frames("a.py:2:f"))]
    events += [event("alloc", 4096, 1024, 6, frames=frames("a.py:4:f"))]
    model = snapshot(events)
    rows = {row["allocation_line"]: row for row in rows_of(model, "changed_stacks", at="2", against="5")}
    assert {name: row["memory_change"] for name, row in rows.items()} == {
        "a.py(1): f": "gone", "a.py(2): f": "grew", "a.py(3): f": "same", "a.py(4): f": "appears",
    }  # fmt: skip
    assert rows["a.py(2): f"]["still_blocks"] == 1 and rows["a.py(2): f"]["delta_held_bytes"] == 512
    blocks = rows_of(model, "changed_blocks", at="5", against="2")
    assert [row["block_change"] for row in blocks] == [
        "appears",
        "gone",
        "allocated at both events",
        "allocated at both events",
        "appears",
    ]
    assert [row["memory_change"] for row in rows_of(model, "changed_stacks")] == ["appears"] * 3, "all of the history"


def test_repetition_makes_no_steps() -> None:
    events = [event("alloc", i << 20, 512, i, frames=frames(f"a.py:{1 + i % 2}:f")) for i in range(32)]
    model = snapshot(events)
    assert len(steps_of(device(model))) == 0
    assert rows_of(model, "growth_stacks") == []
    payloads: Any = VIEW.part(model, Params()).payloads
    assert payloads["answer"].notices[0].text.startswith("No steps were recorded.")


def test_what_happens_at_a_begin_belongs_to_the_step() -> None:
    """Annotations that adjoin have one time, and so may events have: in whole microseconds."""
    events = [event("alloc", 512 * i, 512, i) for i in range(8)]
    times = [0, 2, 2, 5, 5, 8]
    marks = [
        {"name": f"ProfilerStep#{i // 2}", "stage": ("START", "END")[i % 2], "device": 0, "time_us": 1_000_000 + at}
        for i, at in enumerate(times)
    ]
    steps = steps_of(device(snapshot(events, external_annotations=marks)))
    assert (steps.moments.tolist(), steps.labels) == ([-1, 1, 4, 7], ("0", "1", "2"))


def test_questions_that_make_no_sense() -> None:
    model = history([[(1, 0)]] * 3)
    with pytest.raises(NotFoundError):
        rows_of(model, "growth_stacks", stack="77")
    for key in ("at", "stack"):
        with pytest.raises(BadRequest):
            rows_of(model, "growth_stacks", **{key: "x"})
    assert VIEW.missing(snapshot([])) is not None and VIEW.missing(model) is None
