"""Memory by category: recounted in plain Python."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.memory_categories import TITLES
from tb_plugin.errors import BadRequest
from tb_plugin.model.category_memory import CATEGORIES, CategoryMemory
from tb_plugin.payloads import Breakdown, Notices, Series
from tb_plugin.views.categories.view import Categories
from tests.builders import payload_of
from tests.category_memory import EPOCH, category_memory
from tests.depth import examples
from tests.samples import BY_NAME, made

NAMES = [name for name in BY_NAME if name.startswith("memory_timeline_cpu/") and "pt.trace" not in name]
"""Of one recording: in levels, and raw."""


SMALL = [
    [-1, 1, 100, 0],  # a parameter that was there
    [0, 2, 40, 4],
    [10, 2, 60, 4],
    [10, 4, -40, 4],  # at the same time: the 200 before never were there
    [20, 3, -60, 4],
    [20, 3, 60, 5],  # becomes a gradient
    [30, 2, 10, 7],
    [40, 4, -60, 5],
]


def ask(model: CategoryMemory, **extra: int) -> Any:
    return Categories().part(model, Params(extra=tuple((key, str(value)) for key, value in extra.items())))


def table(part: Any) -> dict[str, tuple[int, int, int, int | None]]:
    """Category: bytes, own maximum, its time, and what was allocated."""
    rows = part.frames["memory_categories"].data.to_pylist()
    keys = ("category_bytes", "category_peak_bytes", "category_peak_time_ns", "category_allocated_bytes")
    return {row["tensor_category"]: tuple(row.get(key) for key in keys) for row in rows}


def test_by_hand() -> None:
    part = ask(category_memory(*SMALL))
    assert part.facts["memory.categories.peak_bytes"] == 170 and part.facts["memory.categories.peak_time_ns"] == 30
    assert table(part) == {
        "Parameters": (100, 100, 0, 0),
        "Gradients": (60, 60, 20, 0),
        "Activations": (0, 60, 10, 100),
        "Unknown": (10, 10, 30, 10),
    }
    curve = part.payloads["curve"]
    assert isinstance(curve, Series) and curve.x == [0, 10, 20, 30, 40]
    assert {line.category: line.values for line in curve.lines} == {
        "parameter": [100] * 5,
        "gradient": [0, 0, 60, 60, 0],
        "activation": [40, 60, 0, 0, 0],
        "unknown": [0, 0, 0, 10, 10],
    }
    assert [line.category for line in curve.lines] == ["parameter", "gradient", "activation", "unknown"]
    answer, notes = (part.payloads[name] for name in ("answer", "data_quality"))
    assert isinstance(answer, Notices) and isinstance(notes, Notices)
    (said,) = answer.notices
    figures = {figure.metric.key: figure.value for figure in said.figures}
    assert said.text.endswith(
        "parameters ({parameter_bytes}), gradients ({gradient_bytes}) and unknown ({unknown_bytes})."
    )
    assert figures == {
        "categories_peak_time_ns": 30, "categories_peak_bytes": 170, "parameter_bytes": 100, "gradient_bytes": 60,
        "unknown_bytes": 10,
    }  # fmt: skip
    assert [note.rule for note in notes.notices] == ["categories_before"]


def test_a_window_and_a_moment() -> None:
    model = category_memory(*SMALL)
    part = ask(model, start_ns=5, end_ns=25, at_ns=5)
    assert part.facts["memory.categories.peak_bytes"] == 160 and part.facts["memory.categories.peak_time_ns"] == 10
    assert table(part) == {
        "Parameters": (100, 100, 5, 0),
        "Activations": (40, 60, 10, 60),
        "Gradients": (0, 60, 20, 0),
    }
    assert part.payloads["curve"].x == [5, 10, 20, 25]
    assert part.payloads["composition"].total == 140
    with pytest.raises(BadRequest):
        ask(model, start_ns=20, end_ns=10)


def test_what_was_released_and_never_allocated_was_there_before() -> None:
    part = ask(category_memory([0, 2, 10, 4], [5, 4, -30, 4], [6, 4, -7, 0]))
    assert table(part)["Activations"][1:3] == (30, 0) and table(part)["Parameters"][1] == 7
    notes = payload_of(part, "data_quality", Notices)
    (note,) = notes.notices
    assert (note.rule, note.figures[0].value) == ("categories_unmatched", 27)


def test_nothing_but_what_was_there() -> None:
    part = ask(category_memory([-1, 1, 8, 0]))
    assert part.payloads["curve"].x == [0] and part.facts["memory.categories.peak_bytes"] == 8
    empty = ask(category_memory([-1, 1, 0, 0]))
    assert empty.facts["memory.categories.peak_bytes"] == 0 and empty.payloads["answer"].notices == []


row = st.tuples(st.integers(-1, 30), st.integers(2, 4), st.integers(-50, 50), st.integers(0, 7)).map(
    lambda row: [row[0], 1 if row[0] < 0 else row[1], *row[2:]]
)


@examples(suite=20, deep=500)
@given(
    rows=st.lists(row, min_size=1, max_size=30),
    low=st.integers(0, 30),
    length=st.integers(0, 30),
    at=st.integers(0, 30),
)
def test_recounted(rows: list[list[int]], low: int, length: int, at: int) -> None:
    recount(category_memory(*rows), [[t if t < 0 else EPOCH + t, *rest] for t, *rest in rows], low, low + length, at)


def recount(model: CategoryMemory, rows: list[list[int]], low: int, high: int, at: int) -> None:
    """Every moment of a window, row by row."""
    changes = sorted((row for row in rows if row[0] >= 0), key=lambda row: row[0])
    origin = changes[0][0] if changes else 0
    last = max((row[0] - origin for row in changes), default=0)
    low, high, at = min(low, last), min(high, last), min(at, last)
    level = [sum(row[2] for row in rows if row[0] < 0 and row[3] == c) for c in range(8)]
    moments = {-1: list(level)}
    for time, _, size, category in changes:
        level[category] += size
        moments[time - origin] = list(level)
    missing = [max(0, -min(found[c] for found in moments.values())) for c in range(8)]

    def then(time: int) -> list[int]:
        found = moments[max(each for each in moments if each <= time)]
        return [have + more for have, more in zip(found, missing, strict=True)]

    seen = sorted({low, *(time for time in moments if low < time <= high)})
    part = ask(model, start_ns=low, end_ns=high, at_ns=at)
    peak = max(seen, key=lambda time: (sum(then(time)), -time))
    assert part.facts["memory.categories.peak_bytes"] == sum(then(peak))
    assert part.facts["memory.categories.peak_time_ns"] == peak
    found = table(part)
    for number, category in enumerate(CATEGORIES):
        assert part.facts[f"memory.categories.{category}_bytes"] == then(peak)[number]
        top = max(seen, key=lambda time: (then(time)[number], -time))
        if then(top)[number]:
            new = sum(r[2] for r in changes if r[1] == 2 and r[3] == number and low <= r[0] - origin <= high)
            told = new if model.has_actions else None
            assert found[TITLES[category]] == (then(at)[number], then(top)[number], top, told)
    composition, curve = part.payloads["composition"], part.payloads["curve"]
    assert isinstance(composition, Breakdown) and isinstance(curve, Series)
    assert composition.total == sum(part.value for part in composition.parts) == sum(then(at))
    for i, time in enumerate(curve.x):
        assert {line.category: line.values[i] for line in curve.lines if line.values[i]} == {
            name: value for name, value in zip(CATEGORIES, then(int(time)), strict=True) if value
        }
    assert set(seen) <= set(curve.x) or len(seen) > 4 * 600


def test_the_sample_recounted() -> None:
    levels, raw = (made(name) for name in NAMES)
    rows = [
        [raw.origin_ns + int(t), int(a), int(b), int(c)]
        for t, a, b, c in zip(raw.time_ns, raw.action, raw.bytes, raw.category, strict=True)
    ]
    recount(raw, rows, 0, 10**12, raw.end_ns // 2)
    one, other = ask(levels).facts, ask(raw).facts
    assert all(one[key] == other[key] for key in one if not key.endswith("time_ns"))
    assert abs(one["memory.categories.peak_time_ns"] - other["memory.categories.peak_time_ns"]) < 2000


@pytest.mark.parametrize("width", [50, 60])
def test_no_extreme_of_a_pixel_column_is_lost(width: int) -> None:
    raw = made(NAMES[1])
    all_of, some = (ask(raw, width=columns).payloads["curve"] for columns in (5000, width))
    assert isinstance(all_of, Series) and isinstance(some, Series) and len(some.x) < len(all_of.x)
    step = raw.end_ns // width + 1

    def edges(series: Series) -> dict[tuple[int, str], tuple[int, int]]:
        found: dict[tuple[int, str], list[int]] = {}
        for i, time in enumerate(series.x):
            height = 0
            for line in series.lines:
                height += int(line.values[i] or 0)
                found.setdefault((int(time) // step, line.category), []).append(height)
        return {key: (min(values), max(values)) for key, values in found.items()}

    assert edges(some) == edges(all_of)
