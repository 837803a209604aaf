"""The seam between a table and its numbers: what an analysis is, what it returns, and how its tables are paged.

An analysis is pure: ``part`` turns one model into numbers, ``answer`` turns parts into a payload. Both run in worker
processes. ``part`` is cached by (profile, ``Params.part_key``); ``answer`` is cheap (sort, filter, cut).

In one file, for whoever writes an analysis needs all of it and nothing else.
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
"""What texts of a column of flags that may be unknown stand for; another text stands for itself."""
NO_BORROWED_NUMBERS: Mapping[str, Sequence[str]] = MappingProxyType({})
"""``Analysis.borrows`` of a view that needs no numbers of others."""
Place = Literal["page", "picture", "detail"]
Group = Literal["Summary", "Time", "Work", "Memory", "Ranks", "Compare", "Ask"]


@dataclass(frozen=True)
class Traits:
    """How a view is offered by the page, the command line and the cache."""

    group: Group
    """The group of the navigation it stands in."""
    place: Place = "page"
    """A picture has no facts: no report waits for it unless it is named. A detail needs a selection to say anything: it is
    reached from a row, not from the navigation."""
    kept: bool = False
    """Its numbers about everything are kept beside the column file: they are asked for after every start."""
    hidden: bool = False
    """It is left out, and not greyed, where a profile of its model misses data."""
    whole: str = "Its numbers are not limited to a phase."
    """Why a choice of a phase does not apply to it, a sentence; empty: it does."""
    tables: tuple[str, ...] = ()
    """Tables that a report in JSON always has, empty when the profile has nothing for them."""
    where_stated: tuple[str, ...] = ()
    """Tables about workers that a report has where profiles state them."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Numbers of each worker in a report and their columns of the table ``workers``, of a view about workers."""
    beside: str = ""
    """A view about another kind of profiles; ``Joining.join`` gets its parts of those that lie in the same run."""


@dataclass(frozen=True)
class Params:
    """Params say what a person asked for. ``extra`` holds the view's own parameters (documented in docs/http.md)."""

    steps: tuple[str, ...] | None = None
    """Labels of chosen steps, None = the whole trace."""
    phase: str = ""
    """Name of a phase: only what lies in its calls."""
    pattern: str = ""
    """What names of one phase may differ in (RE2); empty: counters."""
    table: str | None = None
    """Name of the one table wanted; None = the whole view."""
    sort: str | None = None
    descending: bool = True
    search: str = ""
    where: tuple[tuple[str, str], ...] = ()
    offset: int = 0
    limit: int | None = 100
    """None = all rows."""
    whole: bool = False
    """A table is wanted as columns (``Whole``), for another program."""
    extra: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()
    """Ids of rules that the log directory leaves out."""

    @property
    def chosen(self) -> tuple[tuple[str, ...] | None, str, str]:
        """Returns what chooses rows of a trace."""
        return self.steps, self.phase, self.pattern

    def get(self, key: str, default: str = "") -> str:
        """Returns one of the view's own parameters."""
        return next(iter(self.values(key)), default)

    def values(self, key: str) -> tuple[str, ...]:
        """Returns one of the view's own parameters that may be repeated."""
        return tuple(value for name, value in self.extra if name == key)


@dataclass(frozen=True, eq=False)
class Frame:
    """A whole table: ``data`` has one column per ``columns[i].metric.key`` (and may have more, not sent)."""

    name: str
    title: str
    columns: Sequence[Column]
    data: pa.Table
    row_key: Sequence[str]
    name_column: str
    sort: Sort | None = None
    """The order of ``data``."""

    @cached_property
    def totals(self) -> dict[str, Scalar]:
        """Sums of the columns whose cells show a share."""
        shared = (column.metric.key for column in self.columns if column.share)
        return {key: pc.sum(self.data[key]).as_py() or 0 for key in shared}

    @cached_property
    def extremes(self) -> dict[str, list[int | float]]:
        """Returns the smallest (other than 0) and largest magnitude of each numeric column that has any."""
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
    """A table without rows as they go on the wire: the columns, and which rows are asked for, in their order."""

    data: pa.Table
    found: Int64


@dataclass(frozen=True, eq=False)
class Part:
    """The numbers of one profile: flat facts, whole tables, and ready payloads in reading order.

    ``layout`` holds names of payloads, or of frames for their first page, in the order of the view.
    """

    coverage: CoverageInfo
    facts: Mapping[str, Number] = field(default_factory=dict)
    frames: Mapping[str, Frame] = field(default_factory=dict)
    payloads: Mapping[str, Payload] = field(default_factory=dict)
    layout: Sequence[str] = ()
    worker: str = ""
    """Whose part it is, where an answer has several; the service fills it in."""
    steps: tuple[str, ...] = ()
    """Labels of the profile's steps, for the analyses of several profiles: they choose steps in ``answer``."""
    searched: bool = False
    """``part`` has applied search and filters: they speak of events, not of the columns of the tables."""

    def remaining(self, params: Params) -> Params:
        """Returns what of a question is still to be applied to the tables."""
        return replace(params, search="", where=()) if self.searched else params


@dataclass(frozen=True)
class Missing:
    """Why a view does not apply to a trace, and which profiler option would enable it."""

    why: str
    enable: str


class Analysis(Protocol[M]):
    """One view's numbers. A view is declared in ``views/<id>/__init__.py`` (``view_entry.py``)."""

    id: str
    title: str

    @property
    def model(self) -> type[M]:
        """Returns the type that it is about (see ``models``): profiles of another model do not have this view."""
        ...

    @property
    def traits(self) -> Traits:
        """Returns how it is offered."""
        ...

    @property
    def scope(self) -> Scope:
        """Returns what ``answer`` speaks of: one profile, all workers of a run and span, or two profiles (one part each)."""
        ...

    @property
    def borrows(self) -> Mapping[str, Sequence[str]]:
        """Tables and payloads of other views (by id) that a part gets as well, so that they need no second definition."""
        ...

    def missing(self, model: M, /) -> Missing | None:
        """Returns None when the view applies."""
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
    """A view of all workers whose parts are made one before anything is asked, once for a run: ``answer`` gets that part."""

    def join(self, parts: Iterable[Part], beside: Sequence[Part] = ()) -> Part:
        """Returns the parts of all workers as one; ``beside`` are those of the view that ``Traits.beside`` names.

        It lets go of parts that it is done with.
        """
        ...


def view_params(analysis: Analysis[M], params: Params) -> Params:
    """Returns what of a question is put to a view: no phase to one that it does not apply to."""
    return replace(params, phase="", pattern="") if analysis.traits.whole else params


def answer_view(analysis: Analysis[M], part: Part, params: Params) -> View | Table:
    """Returns the ``answer`` of every view of a single profile. Raises NotFound for an unknown table."""
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
    """Filters, sorts and cuts a frame. Sorting is stable; nulls come last. Raises BadRequest for a bad column or regex.

    Where a question is for a whole table, the answer is one.
    """
    rows, sort = matching(frame, params)
    if params.whole:
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
            found=rows,
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
    """Rows as they go on the wire, with these columns."""
    lists = [values_of(data[key]) for key in keys]
    return [dict(zip(keys, row, strict=True)) for row in zip(*lists, strict=True)]


def values_of(column: pa.ChunkedArray) -> list[Scalar]:
    """Values as they go on the wire. A dictionary column holds flags that may be unknown: true, false, "unknown"."""
    values: list[Scalar] = column.to_pylist()
    if pa.types.is_dictionary(column.type):
        return [FLAGS.get(str(value), value) for value in values]
    return values


def matching(frame: Frame, params: Params) -> tuple[Int64, Sort | None]:
    """Positions of the rows that match the search and the filters, sorted, and the sort in force. Raises BadRequest."""
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
    """Positions in order of a column; equal ones as they are, nulls last whatever the direction."""
    unknown = _flags(pc.is_null(values))
    if pa.types.is_floating(values.type):
        numbers = pc.fill_null(values, 0).to_numpy()
        keys = -numbers if descending else numbers
    else:
        if pa.types.is_integer(values.type):
            ranks = pc.fill_null(values, 0).to_numpy().astype(np.int64)
        else:
            ranks = _ranks(values)
        keys = ~ranks if descending else ranks  # unlike the negative, the complement never overflows
    known = np.flatnonzero(~unknown)
    return np.concatenate((known[np.argsort(keys[known], kind="stable")], np.flatnonzero(unknown)))


def _ranks(values: pa.ChunkedArray) -> Int64:
    """For each text or flag its place among the distinct ones, for texts repeat. The place of a null is not used."""
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
    """Which values read as ``text``; an empty one stands for null."""
    if not text or not pa.types.is_integer(values.type):
        return _flags(pc.equal(pc.fill_null(values.cast(pa.large_string()), ""), text))
    if not re.fullmatch(r"0|-?[1-9][0-9]{0,17}", text):
        return np.zeros(len(values), np.bool_)
    return _flags(pc.fill_null(pc.equal(values, int(text)), False))


def coverage_of(parts: Sequence[Part], params: Params) -> CoverageInfo:
    """Returns what stands behind an answer about several profiles."""
    every = [part.coverage for part in parts]
    return CoverageInfo(
        window_ns=max(c.window_ns or 0 for c in every),
        fraction_read=min(c.fraction_read for c in every),
        complete=all(c.complete for c in every),
        steps=None if params.steps is None else list(params.steps),
        window=next((c.window for c in every if c.window is not None), None),
    )


def bounds_of(trace: TraceTable, params: Params) -> tuple[int, int]:
    """Returns ``start_ns`` and ``end_ns``, by default those of the trace. Raises BadRequest."""
    start, end = (int_param(params, key) for key in ("start_ns", "end_ns"))
    start = 0 if start is None else max(0, start)
    end = max(trace.coverage.end_ns, start + 1) if end is None else end
    if end <= start:
        raise BadRequest("The range ends before it starts.", "end_ns", f"start_ns={start}, end_ns={end}.")
    return start, end


def int_param(params: Params, key: str) -> int | None:
    """Returns one of the view's own parameters, None when it is not given. Raises BadRequest."""
    text = params.get(key)
    if not text:
        return None
    # Not int() alone: it takes spaces, underscores and any number of digits.
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise BadRequest(f"{key} must be a whole number.", key, f"Got {text[:40]!r}.")
    return int(text)


def _within(values: pa.ChunkedArray, key: str, params: Params) -> Iterator[Bool]:
    """Which whole numbers lie between ``min_<key>`` and ``max_<key>``; a row without one does not."""
    if not pa.types.is_integer(values.type):
        return
    for side, keeps in (("min", pc.greater_equal), ("max", pc.less_equal)):
        limit = int_param(params, f"{side}_{key}")
        if limit is not None:
            yield _flags(pc.fill_null(keeps(values, limit), False))


def _holding(frame: Frame, search: str) -> Bool:
    """Rows whose text columns contain ``search``. Raises BadRequest for a regex that is none."""
    texts = [c.metric.key for c in frame.columns if c.metric.unit in ("text", "code")]
    found = np.zeros(frame.data.num_rows, np.bool_)
    if not texts:
        holding(pa.array([], pa.string()), search)  # a regex that is none is one everywhere
    for key in texts:
        column = pc.fill_null(frame.data[key].cast(pa.large_string()), "")
        found |= holding(column, search)
    return found


def holding(texts: pa.Array | pa.ChunkedArray, search: str) -> Bool:
    """Returns which texts contain ``search`` in any case, or match it when it stands between slashes.

    RE2: linear in the text. Raises BadRequest for a regex that is none.
    """
    regex = re.fullmatch(r"/(.*)/", search)
    if regex is None:
        return _flags(pc.match_substring(texts, search, ignore_case=True))
    _check(regex.group(1))  # also when there are no texts to try it on
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
