"""Pages of random tables against plain Python: order, search, filters, bounds, cuts, sums."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tb_plugin.analysis.base import ColumnTable, Frame, Params, matching, page
from tb_plugin.errors import BadRequest
from tb_plugin.payloads import Column, Metric, Sort
from tb_plugin.payloads.base import Unit
from tests.depth import examples

TEXTS = ("", "a", "aten::mm", "MM_kernel", "true", "false", "unknown", "a.b(c)", "é", "π", "/", "0", "-5", "x\ny")
SEARCHES = ("A", "mm", "É", ".", "(", "nothing like it", "/", "π", "::", "\n")
REGEXES = ("^a", "m+$", "(?i)ATEN|KERNEL", "zzz", "", "e:|/")
BROKEN = ("/(/", "/[/", "/*/")
NUMBERS = ("0", "5", "-5", "300", "05", "+5", " 5", "5.0", "", "9" * 18, "9" * 30, "true", "a")

TEXT, WHOLE, REAL, OTHER = (("text", "code"), ("ns", "count", "bytes"), ("ratio", "number"), ("bool", "count"))
FLAGS = pa.dictionary(pa.int8(), pa.string())
TYPES: Sequence[tuple[Any, tuple[Unit, ...]]] = (
    *((kind, TEXT) for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.large_string()))),
    *((kind, WHOLE) for kind in (pa.int64(), pa.int32(), pa.int16(), pa.int8())),
    (pa.float64(), REAL),
    (pa.bool_(), ("bool",)),
    (FLAGS, ("bool",)),
    (pa.null(), get_args(Unit)),
)
"""Every type that a column of a view has, with units that it comes with."""


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    if pa.types.is_integer(kind):
        most = min(2 ** (kind.bit_width - 1) - 1, 7 * 10**17)  # twelve of them add up in 64 bits
        return st.one_of(st.sampled_from([0, 5, -5]), st.integers(-most, most))
    if pa.types.is_floating(kind):
        return st.one_of(st.sampled_from([0.0, 1.5, -1.5, math.nan]), st.floats(-1e6, 1e6))
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_null(kind):
        return st.none()
    return st.sampled_from(("true", "false", "unknown") if kind == FLAGS else TEXTS)


@dataclass(frozen=True)
class Grid:
    """A frame, and its columns as Python has them."""

    frame: Frame
    kinds: dict[str, Any]
    units: dict[str, Unit]
    cells: dict[str, list[Any]]

    @property
    def length(self) -> int:
        return self.frame.data.num_rows

    def sent(self, row: int) -> dict[str, Any]:
        """A row as the page gets it: flags that may be unknown are flags where they are known."""
        flags = {"true": True, "false": False}
        return {
            key: flags.get(cells[row], cells[row]) if pa.types.is_dictionary(self.kinds[key]) else cells[row]
            for key, cells in self.cells.items()
        }


@st.composite
def grids(draw: Callable[[Any], Any]) -> Grid:
    """One to four columns of any types, of up to twelve rows with nulls, in chunks."""
    chosen = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4))
    length = draw(st.integers(0, 12))
    cut = draw(st.integers(0, length))
    kinds, units, cells, columns, chunked = {}, {}, {}, [], {}
    for i, (kind, possible) in enumerate(chosen):
        key, unit = f"c{i}", draw(st.sampled_from(possible))
        values = draw(st.lists(st.one_of(st.none(), values_of(kind)), min_size=length, max_size=length))
        kinds[key], units[key], cells[key] = kind, unit, values
        columns.append(Column(Metric(key, key, unit, "It is invented."), share=unit in (*WHOLE, *REAL)))
        arrays = [pa.array(part, getattr(kind, "value_type", kind)) for part in (values[:cut], values[cut:])]
        if pa.types.is_dictionary(kind):
            arrays = [pa.array(part).cast(kind) for part in arrays]
        chunked[key] = pa.chunked_array(arrays, kind)
    order = Sort("c0", True) if draw(st.booleans()) else None
    return Grid(Frame("t", "T", columns, pa.table(chunked), ["c0"], "c0", order), kinds, units, cells)


def readings(grid: Grid, key: str) -> list[str]:
    """What a filter compares with; of a float only whether there is one."""
    kind, cells = grid.kinds[key], grid.cells[key]
    if pa.types.is_boolean(kind):
        return ["" if cell is None else str(cell).lower() for cell in cells]
    return ["" if cell is None else str(cell) for cell in cells]


def place(kind: Any, value: Any, sign: int) -> Any:
    if isinstance(value, str):
        return value.encode()
    return (math.isnan(value), sign * value) if pa.types.is_floating(kind) else value


def in_order(grid: Grid, rows: list[int], key: str, descending: bool) -> list[int]:
    """Equal rows stay as they are; numbers that are none come after the others, nulls last."""
    kind, cells = grid.kinds[key], grid.cells[key]
    known = [row for row in rows if cells[row] is not None]
    if pa.types.is_floating(kind):
        known.sort(key=lambda row: place(kind, cells[row], -1 if descending else 1))
    else:
        known.sort(key=lambda row: place(kind, cells[row], 1), reverse=descending)
    return [*known, *(row for row in rows if cells[row] is None)]


def holds(grid: Grid, row: int, search: str) -> bool:
    texts = [grid.cells[key][row] or "" for key, unit in grid.units.items() if unit in TEXT]
    if len(search) > 1 and search[0] == search[-1] == "/":
        return any(re.search(search[1:-1], text) for text in texts)
    return any(search.lower() in text.lower() for text in texts)


def whole_numbers(grid: Grid) -> list[str]:
    return [key for key, kind in grid.kinds.items() if pa.types.is_integer(kind)]


@st.composite
def questions(draw: Callable[[Any], Any], grid: Grid) -> Params:
    """An order and a cut, and some of a search, a filter and bounds."""
    keys = list(grid.kinds)
    narrowed = draw(st.sets(st.sampled_from(["search", "where", "bounds"]), max_size=2))
    searches = [*SEARCHES, *(f"/{regex}/" for regex in REGEXES)]
    search = draw(st.sampled_from(searches)) if "search" in narrowed else ""
    where, extra = [], []
    if "where" in narrowed:
        key = draw(st.sampled_from(keys))
        real = pa.types.is_floating(grid.kinds[key])
        stood = [""] if real else sorted(set(readings(grid, key)))
        where.append((key, draw(st.sampled_from(["", "no such value", *stood, *(() if real else NUMBERS)]))))
    if whole_numbers(grid) and "bounds" in narrowed:
        key, side = draw(st.sampled_from(whole_numbers(grid))), draw(st.sampled_from(["min", "max"]))
        extra.append((f"{side}_{key}", str(draw(values_of(grid.kinds[key])))))
    return Params(
        sort=draw(st.sampled_from([None, *keys])),
        descending=draw(st.booleans()),
        search=search,
        where=tuple(where),
        offset=draw(st.sampled_from([0, 0, 1, 5, 10**9])),
        limit=draw(st.sampled_from([None, None, 0, 1, 3, 100])),
        extra=tuple(extra),
    )


def fits(grid: Grid, row: int, params: Params) -> bool:
    for key, value in params.where:
        if readings(grid, key)[row] != value:
            return False
    for name, limit in params.extra:
        side, _, key = name.partition("_")
        value = grid.cells[key][row]
        if value is None or (value < int(limit) if side == "min" else value > int(limit)):
            return False
    return not params.search or holds(grid, row, params.search)


def alike(one: Any, other: Any) -> bool:
    """Equal, where a number that is none is equal to another."""
    return repr(one) == repr(other)


@examples(50, 2_000)
@given(grids())
def test_any_column_orders_the_rows(grid: Grid) -> None:
    for key in grid.kinds:
        for descending in (True, False):
            found = page(grid.frame, Params(sort=key, descending=descending, limit=None)).rows
            order = in_order(grid, list(range(grid.length)), key, descending)
            assert alike(found, [grid.sent(row) for row in order]), (key, descending)


@examples(30, 2_000)
@given(grids().filter(lambda grid: set(grid.units.values()) & set(TEXT)))
def test_any_search_and_any_filter_finds_rows(grid: Grid) -> None:
    for search in (*SEARCHES, *(f"/{regex}/" for regex in REGEXES)):
        found = page(grid.frame, Params(search=search, limit=None)).rows
        expected = [grid.sent(row) for row in range(grid.length) if holds(grid, row, search)]
        assert alike(found, expected), search
    for key, kind in grid.kinds.items():
        texts = readings(grid, key)
        for text in {""} if pa.types.is_floating(kind) else {"", "no such value", *texts}:
            found = page(grid.frame, Params(where=((key, text),), limit=None)).rows
            assert alike(found, [grid.sent(row) for row in range(grid.length) if texts[row] == text]), (key, text)


@examples(200, 20_000)
@given(st.data())
def test_pages_of_any_table(data: st.DataObject) -> None:
    grid = data.draw(grids())
    params = data.draw(questions(grid))
    rows = [row for row in range(grid.length) if fits(grid, row, params)]
    if params.sort:
        rows = in_order(grid, rows, params.sort, params.descending)
    stop = len(rows) if params.limit is None else params.offset + params.limit
    cut = rows[params.offset : stop]

    found = page(grid.frame, params)
    assert alike(found.rows, [grid.sent(row) for row in cut])
    assert (found.total_rows, found.matched_rows) == (grid.length, len(rows))
    assert (found.offset, found.limit) == (params.offset, len(cut) if params.limit is None else params.limit)
    assert found.sort == (Sort(params.sort, params.descending) if params.sort else grid.frame.sort)
    assert (found.name, found.row_key, found.name_column) == ("t", ["c0"], "c0")
    whole = page(grid.frame, replace(params, as_columns=True))
    assert isinstance(whole, ColumnTable) and whole.matching.tolist() == rows and whole.data is grid.frame.data
    assert (whole.matched_rows, whole.limit, whole.offset, whole.rows) == (len(rows), len(rows), 0, [])


@given(grids())
def test_sums_and_extremes_are_those_of_all_rows(grid: Grid) -> None:
    found = page(grid.frame, Params(limit=1, search="mm"))
    for column in grid.frame.columns:
        key = column.metric.key
        cells = [cell for cell in grid.cells[key] if cell is not None]
        if column.share:
            total = found.totals[key]
            assert total == pytest.approx(sum(cells), nan_ok=True) and (cells or total == 0)
        sizes = [abs(cell) for cell in cells if not isinstance(cell, (str, bool)) and cell]
        if not any(math.isnan(size) for size in sizes):
            assert found.extremes.get(key) == ([min(sizes), max(sizes)] if sizes else None), key
    assert found.totals.keys() == {column.metric.key for column in grid.frame.columns if column.share}


@given(grids(), st.sampled_from(BROKEN))
def test_wrong_questions_are_refused(grid: Grid, broken: str) -> None:
    wrong = [Params(sort="nothing"), Params(where=(("nothing", "x"),)), Params(search=broken)]
    wrong += [Params(extra=((f"min_{key}", text),)) for key in whole_numbers(grid) for text in ("five", "1_0", " 5")]
    for params in wrong:
        with pytest.raises(BadRequest):
            matching(grid.frame, params)
