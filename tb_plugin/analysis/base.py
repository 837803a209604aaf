"""Interface of analyses: parts, answers and paged tables.

An analysis has two pure functions. ``part`` computes the numbers of one profile. ``answer`` turns one or more parts
into a payload. Both functions run in worker processes. Parts are cached by profile and ``Analysis.part_key``, so
``answer`` must be fast.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Literal, Protocol, TypeVar, runtime_checkable

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from tb_plugin.errors import BadRequest, NotFoundError
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Column, CoverageInfo, Payload, Scalar, Sort, Table, View

Number = int | float | None
M = TypeVar("M")
Scope = Literal["profile", "workers", "pair"]
FLAGS: Mapping[str, Scalar] = MappingProxyType({"true": True, "false": False})
"""Values of optional flags in responses. Texts that are not in this map are sent unchanged."""
NO_BORROWED_NUMBERS: Mapping[str, Sequence[str]] = MappingProxyType({})
Place = Literal["page", "picture", "detail"]


class Traits(msgspec.Struct, frozen=True):
    """How the page, the command line and the cache treat a view."""

    page: str
    """Page of the navigation that contains the view as a tab (``analysis/pages.py``); empty for a ``detail``."""
    place: Place = "page"
    """Place of the view on the page.

    A ``picture`` has no key numbers, so a report includes it only if it is requested by name. A ``detail`` needs a
    selected row, so the navigation does not include it.
    """
    tab: str = ""
    """Title of the tab; empty = the title of the view."""
    cached: bool = False
    """Whether the view's numbers for all steps are cached on disk, because every start needs them."""
    hidden: bool = False
    """Whether the page hides the view for profiles that lack its data. Otherwise, the page disables the view."""
    phase_note: str = "The numbers are not limited to a phase."
    """Reason why the phase filter does not apply to the view. Empty if the phase filter applies."""
    tables: tuple[str, ...] = ()
    """Tables that a JSON report always contains, even if they are empty."""
    reported_tables: tuple[str, ...] = ()
    """Tables about workers. A report contains each of these tables if the profile has it."""
    facts: Mapping[str, str] = msgspec.field(default_factory=dict)
    """For views about workers: maps a key in the report of a worker to a column of the table ``workers``."""
    companion: str = ""
    """Id of a view for another kind of profile in the same run. ``Joining.join`` also receives the parts of that view."""


class Params(msgspec.Struct, frozen=True):
    """Parameters of a request. ``extra`` contains the parameters that are specific to the view (see docs/http.md)."""

    steps: tuple[str, ...] | None = None
    """Labels of the selected steps; None = all steps."""
    phase: str = ""
    pattern: str = ""
    """RE2 pattern, by default numbers. Names that differ only in matches of the pattern form one phase."""
    table: str | None = None
    """Name of the requested table; None = the entire view."""
    sort: str | None = None
    descending: bool = True
    search: str = ""
    where: tuple[tuple[str, str], ...] = ()
    offset: int = 0
    limit: int | None = 100
    """Maximum number of rows; None = no limit."""
    as_columns: bool = False
    """Whether to return a ``ColumnTable``, which is intended for other programs."""
    extra: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()
    """Ids of the rules that the log directory's settings exclude."""

    @property
    def chosen(self) -> tuple[tuple[str, ...] | None, str, str]:
        """Returns the parameters that select events: steps, phase and pattern."""
        return self.steps, self.phase, self.pattern

    def get(self, key: str, default: str = "") -> str:
        """Returns the value of a parameter that is specific to the view."""
        return next(iter(self.values(key)), default)

    def values(self, key: str) -> tuple[str, ...]:
        """Returns all values of a view-specific parameter that may occur several times."""
        return tuple(value for name, value in self.extra if name == key)


class Frame(msgspec.Struct, frozen=True, eq=False, dict=True):
    """A complete table. ``data`` has one column for each ``columns[i].metric.key``, and additional internal columns."""

    name: str
    title: str
    columns: Sequence[Column]
    data: pa.Table
    row_key: Sequence[str]
    name_column: str
    sort: Sort | None = None
    sql: str = ""
    """Query that reproduces the table (docs/reference/sql.md); "" = none."""

    @cached_property
    def totals(self) -> dict[str, Scalar]:
        """Returns the sums of the columns that are shown as shares."""
        shared = (column.metric.key for column in self.columns if column.share)
        return {key: pc.sum(self.data[key]).as_py() or 0 for key in shared}

    @cached_property
    def extremes(self) -> dict[str, list[int | float]]:
        """Returns, for each numeric column, the smallest non-zero absolute value and the largest absolute value."""
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
    """A table stored in columns. ``matching`` contains the indices of the requested rows, in the requested order."""

    data: pa.Table
    matching: Int64


class Part(msgspec.Struct, frozen=True, eq=False, dict=True, weakref=True):
    """Numbers of one profile. ``layout`` contains the names of payloads and frames in page order."""

    coverage: CoverageInfo
    facts: Mapping[str, Number] = msgspec.field(default_factory=dict)
    frames: Mapping[str, Frame] = msgspec.field(default_factory=dict)
    payloads: Mapping[str, Payload] = msgspec.field(default_factory=dict)
    layout: Sequence[str] = ()
    worker: str = ""
    steps: tuple[str, ...] = ()
    """Labels of the profile's steps. Analyses of several profiles select steps by these labels in ``answer``."""
    searched: bool = False
    """Whether ``part`` already applied the search and filters, which then select events instead of table rows."""

    def remaining(self, params: Params) -> Params:
        """Returns ``params`` without the search and filters if ``part`` already applied them."""
        return replace(params, search="", where=()) if self.searched else params


class Missing(msgspec.Struct, frozen=True):
    """Reason why a view does not apply to a profile, and the profiler option that enables the view."""

    why: str
    enable: str


class Analysis(Protocol[M]):
    """Interface of a view. ``views/<id>/__init__.py`` declares each view with a ``ViewEntry``."""

    id: str
    title: str

    @property
    def model(self) -> type[M]:
        """Returns the type of model that the view needs. The view is not available for profiles with other models."""
        ...

    @property
    def traits(self) -> Traits: ...

    @property
    def scope(self) -> Scope:
        """Returns what ``answer`` receives: parts of one profile, of all workers of a run, or of a pair of profiles."""
        ...

    @property
    def borrows(self) -> Mapping[str, Sequence[str]]:
        """Returns the tables and payloads that this view takes from other views, by id of the other view."""
        ...

    def missing(self, model: M, /) -> Missing | None:
        """Returns the reason why the view does not apply to a profile, None if the view applies."""
        ...

    def part_key(self, params: Params) -> tuple[object, ...]:
        """Returns the parameters on which ``part`` depends, as a hashable tuple."""
        ...

    def part(self, model: M, params: Params, /) -> Part:
        """Computes all numbers of one profile.

        Raises BadRequest for unknown steps, and UnreadableTrace if a file lacks data without which all numbers are wrong.
        """
        ...

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        """Returns the view. If ``params`` contains a table name, returns only one page of that table."""
        ...


@runtime_checkable
class Joining(Protocol):
    """A view that merges the parts of all workers once per run. ``answer`` receives the merged part."""

    def join(self, parts: Iterable[Part], beside: Sequence[Part] = ()) -> Part:
        """Merges the parts, releasing each early. ``beside`` are the parts of the view ``Traits.companion``."""
        ...


def view_params(analysis: Analysis[M], params: Params) -> Params:
    """Returns the parameters for a view. If the phase filter does not apply to the view, the phase is removed."""
    return replace(params, phase="", pattern="") if analysis.traits.phase_note else params


def answer_view(analysis: Analysis[M], part: Part, params: Params) -> View | Table:
    """Implements ``answer`` for views of one profile. Raises NotFoundError for an unknown table."""
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
    """Returns one page of a table after filtering and sorting. Raises BadRequest for an unknown column or invalid
    regex.

    Sorting is stable; nulls come last. If ``params.as_columns`` is set, the result is a ``ColumnTable``.
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
        sql=frame.sql,
    )


def rows_of(data: pa.Table, keys: Sequence[str]) -> list[dict[str, Scalar]]:
    """Returns the rows in wire format, reduced to the columns in ``keys``."""
    lists = [values_of(data[key]) for key in keys]
    return [dict(zip(keys, row, strict=True)) for row in zip(*lists, strict=True)]


def values_of(column: pa.ChunkedArray) -> list[Scalar]:
    """Returns the values in wire format. Dictionary columns contain true, false or "unknown"."""
    values: list[Scalar] = column.to_pylist()
    if pa.types.is_dictionary(column.type):
        return [FLAGS.get(str(value), value) for value in values]
    return values


def matching(frame: Frame, params: Params) -> tuple[Int64, Sort | None]:
    """Returns the sorted rows that match, and the sort order. Raises BadRequest for unknown columns or invalid regexes."""
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
    """Returns the indices that sort a column. Sorting is stable; in both directions, nulls come last."""
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
    """Returns the rank of each value among the distinct values. The rank of a null is undefined."""
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
    """Returns a mask of the values equal to ``text``. An empty text matches nulls."""
    if not text or not pa.types.is_integer(values.type):
        return _flags(pc.equal(pc.fill_null(values.cast(pa.large_string()), ""), text))
    if not re.fullmatch(r"0|-?[1-9][0-9]{0,17}", text):
        return np.zeros(len(values), np.bool_)
    return _flags(pc.fill_null(pc.equal(values, int(text)), False))


def coverage_of(parts: Sequence[Part], params: Params) -> CoverageInfo:
    """Returns the combined coverage of several profiles."""
    every = [part.coverage for part in parts]
    return CoverageInfo(
        window_ns=max(c.window_ns or 0 for c in every),
        fraction_read=min(c.fraction_read for c in every),
        complete=all(c.complete for c in every),
        steps=None if params.steps is None else list(params.steps),
        window=next((c.window for c in every if c.window is not None), None),
    )


def bounds_of(trace: TraceTable, params: Params) -> tuple[int, int]:
    """Returns the requested time range, by default that of the trace. Raises BadRequest for an invalid range."""
    start, end = (int_param(params, key) for key in ("start_ns", "end_ns"))
    start = 0 if start is None else max(0, start)
    end = max(trace.coverage.end_ns, start + 1) if end is None else end
    if end <= start:
        raise BadRequest("The range ends before it starts.", "end_ns", f"start_ns={start}, end_ns={end}.")
    return start, end


def int_param(params: Params, key: str) -> int | None:
    """Returns an integer parameter, None if missing. Raises BadRequest if the value is not an integer."""
    text = params.get(key)
    if not text:
        return None
    # int() also accepts spaces, underscores and any number of digits.
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise BadRequest(f"{key} must be a whole number.", key, f"Got {text[:40]!r}.")
    return int(text)


def _within(values: pa.ChunkedArray, key: str, params: Params) -> Iterator[Bool]:
    """Yields masks of the integers between ``min_<key>`` and ``max_<key>``, both included. Nulls never match."""
    if not pa.types.is_integer(values.type):
        return
    for side, keeps in (("min", pc.greater_equal), ("max", pc.less_equal)):
        limit = int_param(params, f"{side}_{key}")
        if limit is not None:
            yield _flags(pc.fill_null(keeps(values, limit), False))


def _holding(frame: Frame, search: str) -> Bool:
    texts = [c.metric.key for c in frame.columns if c.metric.unit in ("text", "code")]
    found = np.zeros(frame.data.num_rows, np.bool_)
    if not texts:
        contains_text(pa.array([], pa.string()), search)  # an invalid regex fails in every table
    for key in texts:
        column = pc.fill_null(frame.data[key].cast(pa.large_string()), "")
        found |= contains_text(column, search)
    return found


def contains_text(texts: pa.Array | pa.ChunkedArray, search: str) -> Bool:
    """Returns whether each text contains ``search``, ignoring case; ``/.../`` is an RE2 regex. May raise BadRequest."""
    regex = re.fullmatch(r"/(.*)/", search)
    if regex is None:
        return _flags(pc.match_substring(texts, search, ignore_case=True))
    _check(regex.group(1))  # also for an empty column
    return _flags(pc.match_substring_regex(texts, regex.group(1)))


def _check(regex: str) -> None:
    try:
        pc.match_substring_regex(pa.array([""]), regex)
    except pa.ArrowInvalid as error:
        raise BadRequest(
            f"The regular expression is not valid: {error}", f"/{regex}/", "Correct the pattern."
        ) from error


def _known(frame: Frame, key: str) -> None:
    if key not in frame.data.column_names:
        raise BadRequest(
            f"The table {frame.name} has no column {key}.", key, f"It has: {', '.join(frame.data.column_names)}."
        )
