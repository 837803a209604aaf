"""Stacks of allocations: every byte at exactly one place, the root is what is allocated; recounted in plain Python."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, devices_of, levels_of
from tb_plugin.analysis.snapshot.labels import NO_STACK, stack_words
from tb_plugin.errors import BadRequest
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.payloads import Tree
from tb_plugin.views.allocation_stacks.view import AllocationStacks
from tests.depth import examples
from tests.samples import OURS, made
from tests.snapshots import event, frames, snapshot

VIEW = AllocationStacks()
MEMORY = [sample.name for sample in OURS if sample.model.type is Snapshot]


def tree_of(model: Snapshot, **extra: str) -> Tree:
    payload: Any = VIEW.part(model, Params(extra=tuple(extra.items()))).payloads["stacks"]
    return payload


def told(tree: Tree) -> dict[tuple[str, ...], tuple[Any, ...]]:
    """Path -> bytes, own bytes and blocks."""
    paths: list[tuple[str, ...]] = []
    for row, parent in zip(tree.rows, tree.parent, strict=True):
        above = () if parent < 0 else paths[parent]
        paths.append((*above, str(row["name"])))
    return {path[1:]: tuple(row[key] for key in ("place_bytes", "place_own_bytes", "place_blocks"))
            for path, row in zip(paths, tree.rows, strict=True)}  # fmt: skip


def recount(held: DeviceLevels, rows: list[int]) -> dict[tuple[str, ...], tuple[int, int, int]]:
    stacks, words = held.snapshot.stacks, stack_words(held.snapshot)
    whole, own, blocks = Counter[tuple[str, ...]](), Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for row in rows:
        stack, size = int(held.block("stack")[row]), int(held.block("size")[row])
        path = [NO_STACK]
        if stack >= 0 and stacks.first[stack] < stacks.first[stack + 1]:
            path = [words.frame_text[i] for i in stacks.frame[stacks.first[stack] : stacks.first[stack + 1]]][::-1]
        own[tuple(path)] += size
        for end in range(len(path) + 1):
            whole[tuple(path[:end])] += size
            blocks[tuple(path[:end])] += 1
    return {path: (whole[path], own[path], blocks[path]) for path in {(), *whole}}


def chosen(held: DeviceLevels, of: str, at: int, against: int) -> list[int]:
    first, last = min(at, against), max(at, against)
    lives = list(zip(held.block("begin").tolist(), held.block("freed").tolist(), strict=True))
    if of == "held":
        return [i for i, (begin, freed) in enumerate(lives) if begin <= at < freed]
    return [i for i, (begin, freed) in enumerate(lives) if first < begin <= last and (of == "made" or freed > last)]


@pytest.mark.parametrize("name", MEMORY)
def test_stacks_of_samples_recounted(name: str) -> None:
    for held in devices_of(made(name)):
        levels = levels_of(held)
        assert told(tree_of(made(name)))[()][0] == levels.allocated.max()
        for of, at, against in (("held", 700, 0), ("made", 900, 300), ("left", 300, 900)):
            asked = {"at": str(at), "of": of} | ({} if of == "held" else {"against": str(against)})
            tree = told(tree_of(made(name), **asked))
            assert tree == recount(held, chosen(held, of, at, against))
            if of == "held":
                assert tree[()][0] == levels.allocated[at + 1]


@given(st.lists(st.tuples(st.lists(st.integers(0, 3), max_size=4), st.integers(1, 4), st.booleans()), max_size=12),
       st.integers(-1, 14), st.integers(-1, 14), st.sampled_from(["held", "made", "left"]))  # fmt: skip
@examples(suite=25, deep=500)
def test_any_allocation_stacks_recounted(
    blocks: list[tuple[list[int], int, bool]], at: int, against: int, of: str
) -> None:
    events = []
    for i, (lines, size, gone) in enumerate(blocks):
        events.append(event("alloc", 4096 * i, 512 * size, frames=frames(*(f"a.py:{line}:f" for line in lines))))
        if gone:
            events.append(event("free_completed", 4096 * i, 512 * size))
    model = snapshot([*events, event("alloc", 1 << 30, 512)])
    (held,) = devices_of(model)
    last = held.count - 1
    asked = {"at": str(at), "of": of} | ({} if of == "held" else {"against": str(against)})
    assert told(tree_of(model, **asked)) == recount(held, chosen(held, of, min(at, last), min(against, last)))


def test_lines_functions_and_files() -> None:
    stack = frames("/a/ops.py:5:mul", "/a/ops.py:9:run", "/a/main.py:3:main")
    other = frames("/a/ops.py:6:mul", "/a/ops.py:9:run", "/a/main.py:3:main")
    model = snapshot([event("alloc", 0, 512, frames=stack), event("alloc", 512, 1024, frames=other),
                      event("alloc", 4096, 512)])  # fmt: skip
    assert set(told(tree_of(model))) == {
        (), (NO_STACK,), ("/a/main.py(3): main",), ("/a/main.py(3): main", "/a/ops.py(9): run"),
        ("/a/main.py(3): main", "/a/ops.py(9): run", "/a/ops.py(5): mul"),
        ("/a/main.py(3): main", "/a/ops.py(9): run", "/a/ops.py(6): mul"),
    }  # fmt: skip
    by_function = told(tree_of(model, by="function"))
    assert by_function["/a/main.py: main", "/a/ops.py: run", "/a/ops.py: mul"] == (1536, 1536, 2)
    assert told(tree_of(model, by="file")) == {
        (): (2048, 0, 3), (NO_STACK,): (512, 512, 1), ("/a/main.py",): (1536, 0, 2),
        ("/a/main.py", "/a/ops.py"): (1536, 1536, 2),
    }  # fmt: skip
    assert [row["package"] for row in tree_of(model, by="file").rows] == ["", "a", "a", ""]


def test_the_answer_is_the_line_that_allocated_most() -> None:
    model = snapshot([event("alloc", 0, 512, frames=frames("/a/ops.py:5:mul")),
                      event("alloc", 512, 1024, frames=frames("/a/ops.py:6:mul")), event("alloc", 4096, 512)])  # fmt: skip
    answer: Any = VIEW.part(model, Params()).payloads["answer"]
    (notice,) = answer.notices
    assert notice.text.startswith("Allocated at the peak: {place_bytes}. The line that allocated most is")
    assert [figure.value for figure in notice.figures] == ["/a/ops.py(6): mul", 1024, 0.5, 2048]
    assert "answer" not in VIEW.part(model, Params(extra=(("against", "0"),))).payloads


def test_questions_that_make_no_sense() -> None:
    model = snapshot([event("alloc", 0, 512, frames=frames("a.py:1:f"))])
    for asked in ({"by": "colour"}, {"of": "all"}, {"of": "left"}, {"at": "soon"}):
        with pytest.raises(BadRequest):
            tree_of(model, **asked)
    assert VIEW.missing(model) is None and VIEW.missing(snapshot([])) is not None
    assert told(tree_of(snapshot([]))) == {(): (0, 0, 0)}
