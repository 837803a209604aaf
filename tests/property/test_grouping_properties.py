"""Groups and outermost calls against their definitions, one row at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis import forest
from tb_plugin.lib import groupby

calls = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 40), st.integers(0, 20)), max_size=25)


@pytest.mark.parametrize("fits", [2**62, 0], ids=["offsets", "ranks"])
@given(calls)
def test_outermost_calls_by_definition(fits: int, found: list[tuple[int, int, int, int]]) -> None:
    """No earlier call of the same key and thread reaches as far, unless it ended before this one began."""
    found = sorted(found, key=lambda call: (call[2], -call[3]))
    key, track, start, dur = (np.array([call[i] for call in found], np.int64) for i in range(4))
    expected = [
        all(
            end < start[i] + dur[i] or end <= start[i]
            for j in range(i)
            if (key[j], track[j]) == (key[i], track[i])
            for end in [start[j] + dur[j]]
        )
        for i in range(len(found))
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groupby, "_FITS", fits)
        spans = forest.Spans(track.astype(np.int32), start, start + dur)
        assert forest.is_top_level(key, spans).tolist() == expected


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-(2**40), 2**40), st.integers(0, 1)), max_size=30))
def test_groups_are_numbered_by_first_appearance(found: list[tuple[int, int, int]]) -> None:
    groups = groupby.group(*(np.array([row[i] for row in found], np.int64) for i in range(3)))
    order = list(dict.fromkeys(found))
    assert groups.of.tolist() == [order.index(row) for row in found]
    assert groups.first.tolist() == [found.index(row) for row in order]


@given(st.lists(st.tuples(st.integers(-1, 20), st.integers(0, 1), st.integers(0, 1)), max_size=20))
def test_runs_by_definition(found: list[tuple[int, int, int]]) -> None:
    """A row has the number of the row before it at the same place, when their labels agree."""
    parent = [min(above, row - 1) for row, (above, _, _) in enumerate(found)]
    last: dict[tuple[object, ...], int] = {}
    expected: list[int] = []
    for row, (_, root, label) in enumerate(found):
        place = (expected[parent[row]],) if parent[row] >= 0 else ("root", root)
        before = last.get(place)
        same = before is not None and found[before][2] == label
        expected.append(expected[before] if same and before is not None else row)
        last[place] = row
    runs = forest.Forest(np.array(parent, np.int32)).runs(*(np.array([r[i] for r in found], np.int64) for i in (1, 2)))
    assert groupby.group(runs).of.tolist() == groupby.group(np.array(expected, np.int64)).of.tolist()


@pytest.mark.parametrize("few", [0, 1000], ids=["many rows", "few rows"])
@given(st.lists(st.tuples(st.integers(-1, 20), st.integers(0, 1), st.integers(0, 1)), max_size=20))
def test_paths_by_definition(few: int, found: list[tuple[int, int, int]]) -> None:
    """Rows share a number when their labels agree all the way up."""
    parent = [min(above, row - 1) for row, (above, _, _) in enumerate(found)]
    expected: list[tuple[object, ...]] = []
    for row, labels in enumerate(found):
        expected.append((*(expected[parent[row]] if parent[row] >= 0 else ()), labels[1:]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forest, "_MAX_ROWS_IN_LOOP", few)
        paths = forest.Forest(np.array(parent, np.int32)).paths(
            *(np.array([row[i] for row in found], np.int64) for i in (1, 2))
        )
    same = [[a == b for a in expected] for b in expected]
    assert [[a == b for a in paths.tolist()] for b in paths.tolist()] == same


def test_calls_that_nest_deep_are_not_numbered_level_by_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """60,000 nested events of one time: a level of one row each."""
    calls = []
    real = groupby.number_groups
    monkeypatch.setattr(groupby, "number_groups", lambda values: calls.append(len(values)) or real(values))
    n = 3000
    chain = forest.Forest(np.arange(-1, n - 1, dtype=np.int32))
    label = np.arange(n, dtype=np.int64) % 7
    assert chain.paths(label, label).tolist() == list(range(n))
    assert chain.runs(np.zeros(n, np.int64), label).tolist() == list(range(n))
    assert len(calls) <= 3
