"""Interface of analyses: parts, answers and paged tables.

An analysis is pure: ``part`` turns one model into numbers, ``answer`` turns parts into a payload. Both run in worker
processes. ``part`` is cached by (profile, ``Params.part_key``); ``answer`` is cheap (sort, filter, cut).

This one file is all that the author of an analysis needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.errors import BadRequest, NotFoundError
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Column, CoverageInfo, Payload, Scalar, Sort, Table, View

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

Number = int | float | None
M = TypeVar("M")
Scope = Literal["profile", "workers", "pair"]
FLAGS: Mapping[str, Scalar] = MappingProxyType({"true": True, "false": False})
"""Texts in filters for columns of optional flags; other texts stand for themselves."""
NO_BORROWED_NUMBERS: Mapping[str, Sequence[str]] = MappingProxyType({})
Place = Literal["page", "picture", "detail"]
Group = Literal["Summary", "Time", "Work", "Memory", "Ranks", "Compare", "Ask"]


@dataclass(frozen=True)
class Traits:
    """How the page, the command line and the cache treat a view."""

    group: Group
    place: Place = "page"
    """A picture has no facts, so reports omit it unless named. A detail needs a selection: rows lead to it, the navigation
    does not.
    """
    cached: bool = False
    """Its numbers for all steps are cached on disk, because every start needs them."""
    hidden: bool = False
    """Hidden instead of disabled if a profile lacks its data."""
    phase_note: str = "The numbers are not limited to a phase."
    """Sentence on why the phase filter does not apply; empty if it does."""
    tables: tuple[str, ...] = ()
    """Tables that a JSON report always contains, if necessary empty."""
    reported_tables: tuple[str, ...] = ()
    """Tables about workers that a report contains for profiles that report them."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts per worker in a report -> columns of the table ``workers``; for views about workers."""
    companion: str = ""
    """A view of another kind of profiles in the same run, whose parts ``Joining.join`` also gets."""


@dataclass(frozen=True)
class Params:
    """Parameters of a request. ``extra`` holds the view's own ones (documented in docs/http.md)."""

    steps: tuple[str, ...] | None = None
    """Labels of selected steps, None = whole trace."""
    phase: str = ""
    pattern: str = ""
    """Text that may differ within a phase (RE2); empty = counters."""
    table: str | None = None
    """Name of the requested table; None = whole view."""
    sort: str | None = None
    descending: bool = True
    search: str = ""
    where: tuple[tuple[str, str], ...] = ()
    offset: int = 0
    limit: int | None = 100
    """None = all rows."""
    as_columns: bool = False
    """True to get a table as columns (``Whole``), for other programs."""
    extra: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()
    """Ids of rules that the log directory ignores."""

    @property
    def chosen(self) -> tuple[tuple[str, ...] | None, str, str]:
        """Returns the parameters that select rows of a trace."""
        return self.steps, self.phase, self.pattern

    def get(self, key: str, default: str = "") -> str:
        """Returns one of the view's own parameters."""
        return next(iter(self.values(key)), default)

    def values(self, key: str) -> tuple[str, ...]:
        """Returns a repeatable parameter of the view."""
        return tuple(value for name, value in self.extra if name == key)


@dataclass(frozen=True, eq=False)
class Frame:
    """A full table: one ``data`` column per ``columns[i].metric.key``, plus internal ones."""

    name: str
    title: str
    columns: Sequence[Column]
    data: pa.Table
    row_key: Sequence[str]
    name_column: str
    sort: Sort | None = None

    @cached_property
    def totals(self) -> dict[str, Scalar]:
        """Sums of columns with shares."""
        shared = (column.metric.key for column in self.columns if column.share)
        return {key: pc.sum(self.data[key]).as_py() or 0 for key in shared}

    @cached_property
    def extremes(self) -> dict[str, list[int | float]]:
        """Returns the smallest non-zero and the largest magnitude of each numeric column."""
        extremes: dict[str, list[int | float]] = {}
        for column in self.columns:
            values = self.data[column.metric.key]
            if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
                sizes = pc.abs(values)
                found = pc.min_max(sizes.filter(pc.not_equal(sizes, 0))).as_py()
                if found["max"] is not None:
                    extremes[column.metric.key] = [found["min"], found["max"]]
        return extremes


class ColumnTable(Table, frozen=True, kw_only=True):
    """A table to send: its columns, and the requested rows in order."""

    data: pa.Table
    matching: Int64


@dataclass(frozen=True, eq=False)
class Part:
    """Numbers of one profile: facts, full tables and payloads.

    ``layout`` lists payload names, or frame names for their first page, in page order.
    """

    coverage: CoverageInfo
    facts: Mapping[str, Number] = field(default_factory=dict)
    frames: Mapping[str, Frame] = field(default_factory=dict)
    payloads: Mapping[str, Payload] = field(default_factory=dict)
    layout: Sequence[str] = ()
    worker: str = ""
    steps: tuple[str, ...] = ()
    """Labels of the profile's steps, for analyses of several profiles, which select steps in ``answer``."""
    searched: bool = False
    """True if ``part`` applied search and filters, which then select events instead of table rows."""

    def remaining(self, params: Params) -> Params:
        """Returns the search and filters that still apply to tables."""
        return replace(params, search="", where=()) if self.searched else params


@dataclass(frozen=True)
class Missing:
    """Why a view does not apply to a trace, and the profiler option that enables it."""

    why: str
    enable: str


class Analysis(Protocol[M]):
    """The analysis of one view, declared in ``views/<id>/__init__.py`` (``view_entry.py``)."""

    id: str
    title: str

    @property
    def model(self) -> type[M]:
        """Returns the model type of the view; profiles of other models lack the view."""
        ...

    @property
    def traits(self) -> Traits:
        """Returns how the page, the command line and the cache treat the view."""
        ...

    @property
    def scope(self) -> Scope:
        """Returns the input of ``answer``: one profile, all workers of a run and span, or two profiles."""
        ...

    @property
    def borrows(self) -> Mapping[str, Sequence[str]]:
        """Returns tables and payloads that parts reuse from other views, by view id."""
        ...

    def missing(self, model: M, /) -> Missing | None:
        """Returns why the view does not apply; None if it does."""
        ...

    def part_key(self, params: Params) -> tuple[object, ...]:
        """Returns the parameters that ``part`` depends on; hashable."""
        ...

    def part(self, model: M, params: Params, /) -> Part:
        """Returns all numbers of one profile. Raises BadRequest for unknown steps."""
        ...

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        """Returns the payload for a request: the view, or one page of one table."""
        ...


@runtime_checkable
class Joining(Protocol):
    """A view that merges all workers' parts once per run; ``answer`` gets the merged part."""

    def join(self, parts: Iterable[Part], beside: Sequence[Part] = ()) -> Part:
        """Returns the merged part; ``beside`` are parts of the view named by ``Traits.beside``.

        Releases parts it no longer needs.
        """
        ...


def view_params(analysis: Analysis[M], params: Params) -> Params:
    """Returns the parameters for a view, without a phase if it does not apply."""
    return replace(params, phase="", pattern="") if analysis.traits.phase_note else params


def answer_view(analysis: Analysis[M], part: Part, params: Params) -> View | Table:
    """Returns the ``answer`` of a single-profile view. Raises NotFoundError for an unknown table."""
    params = part.remaining(params)
    if params.table is not None:
        if params.table not in part.frames:
            raise NotFoundError(
                f"The view {analysis.id} has no table {params.table}.", params.table, _names(part.frames)
            )
        return page(part.frames[params.table], params)
    payloads: dict[str, Payload] = {}
    for name in part.layout:
        payloads[name] = part.payloads[name] if name in part.payloads else page(part.frames[name], params)
    return View(analysis.id, analysis.title, part.coverage, payloads)


def _names(frames: Mapping[str, Frame]) -> str:
    return f"It has: {', '.join(frames) or 'none'}."


def page(frame: Frame, params: Params) -> Table:
    """Filters, sorts and cuts a frame. Sorting is stable; nulls come last. Raises BadRequest for an unknown column or
    invalid regex.

    Requests for a full table return ``Whole``.
    """
    rows, sort = matching(frame, params)
    if params.as_columns:
        return ColumnTable(
            name=frame.name,
            title=frame.title,
            columns=list(frame.columns),
            rows=[],
            row_key=list(frame.row_key),
            name_column=frame.name_column,
            total_rows=frame.data.num_rows,
            matched_rows=len(rows),
            offset=0,
            limit=len(rows),
            sort=sort,
            data=frame.data,
            matching=rows,
        )
    stop = len(rows) if params.limit is None else params.offset + params.limit
    cut = rows[params.offset : max(params.offset, stop)]
    return Table(
        name=frame.name,
        title=frame.title,
        columns=list(frame.columns),
        rows=rows_of(frame.data.take(cut), [column.metric.key for column in frame.columns]),
        row_key=list(frame.row_key),
        name_column=frame.name_column,
        total_rows=frame.data.num_rows,
        matched_rows=len(rows),
        offset=params.offset,
        limit=len(cut) if params.limit is None else params.limit,
        sort=sort,
        totals=frame.totals,
        extremes=frame.extremes,
    )


def rows_of(data: pa.Table, keys: Sequence[str]) -> list[dict[str, Scalar]]:
    """Returns rows in wire format, with these columns."""
    lists = [values_of(data[key]) for key in keys]
    return [dict(zip(keys, row, strict=True)) for row in zip(*lists, strict=True)]


def values_of(column: pa.ChunkedArray) -> list[Scalar]:
    """Returns values in wire format. A dictionary column holds optional flags: true, false, "unknown"."""
    values: list[Scalar] = column.to_pylist()
    if pa.types.is_dictionary(column.type):
        return [FLAGS.get(str(value), value) for value in values]
    return values


def matching(frame: Frame, params: Params) -> tuple[Int64, Sort | None]:
    """Positions of rows that match search and filters, sorted, and the applied sort. Raises BadRequest."""
    data = frame.data
    found = np.ones(data.num_rows, np.bool_)
    for key, value in params.where:
        _known(frame, key)
        found &= _equal(data[key], value)
    for column in frame.columns:
        for flags in _within(data[column.metric.key], column.metric.key, params):
            found &= flags
    if params.search:
        found &= _holding(frame, params.search)
    rows = np.flatnonzero(found)
    if not params.sort:
        return rows, frame.sort
    _known(frame, params.sort)
    order = _order(data[params.sort].take(rows), params.descending)
    return rows[order], Sort(params.sort, params.descending)


def _order(values: pa.ChunkedArray, descending: bool) -> Int64:
    """Positions sorted by a column; stable, with nulls last in both directions."""
    unknown = _flags(pc.is_null(values))
    if pa.types.is_floating(values.type):
        numbers = pc.fill_null(values, 0).to_numpy()
        keys = -numbers if descending else numbers
    else:
        if pa.types.is_integer(values.type):
            ranks = pc.fill_null(values, 0).to_numpy().astype(np.int64)
        else:
            ranks = _ranks(values)
        keys = ~ranks if descending else ranks  # unlike negation, the complement cannot overflow
    known = np.flatnonzero(~unknown)
    return np.concatenate((known[np.argsort(keys[known], kind="stable")], np.flatnonzero(unknown)))


def _ranks(values: pa.ChunkedArray) -> Int64:
    """Rank of each text or flag among the distinct ones, because texts repeat. Ranks of nulls are unused."""
    encoded = values.combine_chunks().dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()
    rank = np.empty(len(order) + 1, np.int64)
    rank[order] = np.arange(len(order))
    found: Int64 = rank[pc.fill_null(encoded.indices, len(order)).to_numpy()]
    return found


def _flags(values: pa.ChunkedArray) -> Bool:
    flags: Bool = values.to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values.to_numpy()
    return flags.astype(np.bool_)


def _equal(values: pa.ChunkedArray, text: str) -> Bool:
    """Flags of values equal to ``text``; an empty text matches null."""
    if not text or not pa.types.is_integer(values.type):
        return _flags(pc.equal(pc.fill_null(values.cast(pa.large_string()), ""), text))
    if not re.fullmatch(r"0|-?[1-9][0-9]{0,17}", text):
        return np.zeros(len(values), np.bool_)
    return _flags(pc.fill_null(pc.equal(values, int(text)), False))


def coverage_of(parts: Sequence[Part], params: Params) -> CoverageInfo:
    """Returns the coverage of an answer about several profiles."""
    every = [part.coverage for part in parts]
    return CoverageInfo(
        window_ns=max(c.window_ns or 0 for c in every),
        fraction_read=min(c.fraction_read for c in every),
        complete=all(c.complete for c in every),
        steps=None if params.steps is None else list(params.steps),
        window=next((c.window for c in every if c.window is not None), None),
    )


def bounds_of(trace: TraceTable, params: Params) -> tuple[int, int]:
    """Returns ``start_ns`` and ``end_ns``, by default the bounds of the trace. Raises BadRequest."""
    start, end = (int_param(params, key) for key in ("start_ns", "end_ns"))
    start = 0 if start is None else max(0, start)
    end = max(trace.coverage.end_ns, start + 1) if end is None else end
    if end <= start:
        raise BadRequest("The range ends before it starts.", "end_ns", f"start_ns={start}, end_ns={end}.")
    return start, end


def int_param(params: Params, key: str) -> int | None:
    """Returns an integer parameter of the view, None if missing. Raises BadRequest."""
    text = params.get(key)
    if not text:
        return None
    # int() also accepts spaces, underscores and any number of digits.
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise BadRequest(f"{key} must be a whole number.", key, f"Got {text[:40]!r}.")
    return int(text)


def _within(values: pa.ChunkedArray, key: str, params: Params) -> Iterator[Bool]:
    """Flags of integers between ``min_<key>`` and ``max_<key>``; nulls never match."""
    if not pa.types.is_integer(values.type):
        return
    for side, keeps in (("min", pc.greater_equal), ("max", pc.less_equal)):
        limit = int_param(params, f"{side}_{key}")
        if limit is not None:
            yield _flags(pc.fill_null(keeps(values, limit), False))


def _holding(frame: Frame, search: str) -> Bool:
    """Rows with a text column that contains ``search``. Raises BadRequest for an invalid regex."""
    texts = [c.metric.key for c in frame.columns if c.metric.unit in ("text", "code")]
    found = np.zeros(frame.data.num_rows, np.bool_)
    if not texts:
        holding(pa.array([], pa.string()), search)  # an invalid regex fails in every table
    for key in texts:
        column = pc.fill_null(frame.data[key].cast(pa.large_string()), "")
        found |= holding(column, search)
    return found


def holding(texts: pa.Array | pa.ChunkedArray, search: str) -> Bool:
    """Returns which texts contain ``search``, ignoring case; ``/.../`` is a regex.

    RE2 runs in time linear in the text. Raises BadRequest for an invalid regex.
    """
    regex = re.fullmatch(r"/(.*)/", search)
    if regex is None:
        return _flags(pc.match_substring(texts, search, ignore_case=True))
    _check(regex.group(1))  # also for an empty column
    return _flags(pc.match_substring_regex(texts, regex.group(1)))


def _check(regex: str) -> None:
    try:
        pc.match_substring_regex(pa.array([""]), regex)
    except pa.ArrowInvalid as error:
        raise BadRequest(f"The regular expression is not valid: {error}", f"/{regex}/", "Correct it.") from error


def _known(frame: Frame, key: str) -> None:
    if key not in frame.data.column_names:
        raise BadRequest(
            f"The table {frame.name} has no column {key}.", key, f"It has: {', '.join(frame.data.column_names)}."
        )
