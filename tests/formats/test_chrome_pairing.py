"""Begins with their ends, and the ends of arrows with each other: against a recount in plain Python."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.formats._chrome.arrows import Arrows, scoped_key
from tb_plugin.formats._chrome.events import ChromeEvent
from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.formats._chrome.pairing import matched_ends

MARKS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6), st.booleans()), max_size=24)


@given(MARKS)
def test_a_stack_of_each_key_finds_the_same_pairs(marks: list[tuple[int, int, bool]]) -> None:
    stacks: dict[int, list[int]] = defaultdict(list)
    expected = []
    for i, (key, _, opens) in sorted(enumerate(marks), key=lambda mark: (mark[1][1], mark[0])):
        if opens:
            stacks[key].append(i)
        elif stacks[key]:
            expected.append((stacks[key].pop(), i))
    key, time, opens = (
        (np.array(column, np.int64) for column in zip(*marks, strict=True)) if marks else [np.empty(0, int)] * 3
    )
    begins, ends = matched_ends(key, time, opens.astype(np.bool_))
    assert sorted(zip(begins.tolist(), ends.tolist(), strict=True)) == sorted(expected)


def flow(ph: str, at: int, id: Any = 1, **more: Any) -> tuple[ChromeEvent, int]:
    return ChromeEvent(ph=ph, id=id, **{"cat": "c", "name": ph, "pid": 1, "tid": at, **more}), at


CASES: dict[str, tuple[list[tuple[ChromeEvent, int]], list[tuple[int, int]], int]] = {
    "one": ([flow("s", 1), flow("f", 5)], [(1, 5)], 0),
    "steps": ([flow("s", 1), flow("t", 2), flow("t", 3), flow("f", 5)], [(1, 2), (2, 3), (3, 5)], 0),
    "the end stands first in the file": ([flow("f", 5), flow("s", 1)], [(1, 5)], 0),
    "the end lies before the begin": ([flow("s", 5), flow("f", 4)], [(5, 4)], 0),
    "several ends": ([flow("s", 1), flow("f", 5), flow("f", 7)], [(1, 5), (1, 7)], 0),
    "an id is used again": ([flow("s", 1), flow("f", 2), flow("s", 3), flow("f", 4)], [(1, 2), (3, 4)], 0),
    "nothing begins": ([flow("f", 2), flow("f", 3)], [], 2),
    "a step carries on what nothing began": ([flow("t", 2), flow("f", 3)], [(2, 3)], 0),
    "nothing ends": ([flow("s", 2)], [], 1),
    "another category": ([flow("s", 1), flow("f", 5, cat="d")], [], 2),
    "another scope": ([flow("s", 1, scope="x"), flow("f", 5, scope="y")], [], 2),
    "one id in three spellings": ([flow("s", 1, 31), flow("t", 2, "0x1F"), flow("f", 3, "31")], [(1, 2), (2, 3)], 0),
    "local ids of two processes": (
        [flow("s", 1, None, id2={"local": 1}), flow("f", 5, None, id2={"local": 1}, pid=2)], [], 2,
    ),
    "a global id": ([flow("s", 1, None, id2={"global": 1}), flow("f", 5, None, id2={"global": "0x1"}, pid=2)], [(1, 5)], 0),
    "an id that is no id": ([flow("s", 1, ["a"]), flow("f", 5, ["a"])], [(1, 5)], 0),
}  # fmt: skip


@pytest.mark.parametrize(("events", "expected", "alone"), CASES.values(), ids=CASES)
def test_arrows(events: list[tuple[ChromeEvent, int]], expected: list[tuple[int, int]], alone: int) -> None:
    arrows = Arrows(Interner())
    arrows.add([event for event, _ in events], np.array([at for _, at in events], np.int64))
    ends, left = arrows.take()
    assert sorted(zip(ends.start_time_ns.tolist(), ends.end_time_ns.tolist(), strict=True)) == sorted(expected)
    assert left == alone


def test_how_an_end_is_bound() -> None:
    arrows = Arrows(Interner())
    events = [flow("s", 1), flow("t", 2), flow("f", 3), flow("f", 4, bp="e")]
    arrows.add([event for event, _ in events], np.array([at for _, at in events], np.int64))
    ends, _ = arrows.take()
    assert dict(zip(ends.end_time_ns.tolist(), ends.to_next.tolist(), strict=True)) == {2: False, 3: True, 4: False}


@given(st.lists(st.tuples(st.sampled_from("stf"), st.integers(0, 5), st.integers(0, 1)), max_size=14))
def test_a_plain_recount_joins_the_same(soup: list[tuple[str, int, int]]) -> None:
    made = [flow(ph, at, id) for ph, at, id in soup]
    arrows = Arrows(Interner())
    arrows.add([event for event, _ in made], np.array([at for _, at in made], np.int64))
    ends, alone = arrows.take()
    expected, used = [], set()
    for key in {scoped_key(event) for event, _ in made}:
        mine = [(at, "stf".index(event.ph), i) for i, (event, at) in enumerate(made) if scoped_key(event) == key]
        mine.sort()
        first = next((mark for mark in mine if mark[1] == 0), None)
        if first:
            mine.remove(first)
            mine.insert(0, first)
        source = None
        for at, rank, i in mine:
            if rank and source is not None:
                expected.append((source[0], at))
                used |= {source[1], i}
            if rank < 2:
                source = (at, i)
    assert sorted(zip(ends.start_time_ns.tolist(), ends.end_time_ns.tolist(), strict=True)) == sorted(expected)
    assert alone == len(soup) - len(used)
