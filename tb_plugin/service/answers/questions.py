"""Questions about loaded profiles, for worker processes."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from tb_plugin.analysis.base import Analysis, ColumnTable, Number, Params, Part, coverage_of, matching, rows_of
from tb_plugin.analysis.failure_notices import failed_payloads
from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.skipped_workers import LeftOut
from tb_plugin.analysis.timeline.pyramid import MOST_NS
from tb_plugin.analysis.timeline.tiles import Tile, encode
from tb_plugin.analysis.view_entry import joining
from tb_plugin.errors import NotFoundError, UserError
from tb_plugin.lib.isolation import Isolation, isolated
from tb_plugin.lib.malloc_trim import give_back_memory
from tb_plugin.lib.model_cache import MEMO
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Notices, StepInfo
from tb_plugin.payloads.export import to_json
from tb_plugin.registry import analysis_by_id
from tb_plugin.rules import rule_ids
from tb_plugin.service import part_codec
from tb_plugin.service.answers.sql_answers import SqlProfile, sql_over
from tb_plugin.service.answers.step_selection import chosen_steps
from tb_plugin.service.summaries.compute import part_with_borrowed
from tb_plugin.service.summaries.sources import RankSummary, Refusal, parts_of
from tb_plugin.service.workers.memory_budget import MEMORY_VARIABLE, PROCESS_BYTES, budget_bytes
from tb_plugin.service.workers.model_cache import ModelFile, OpenModels
from tb_plugin.service.workers.question import Report
from tb_plugin.storage.cache import put_atomically

# A view or a page of a table as JSON, or all matching rows of a table as CSV or as an Arrow IPC stream.
AnswerKind = Literal["json", "csv", "arrow"]
# The view that answers queries.
SQL_VIEW = "sql"
# The result of a rank: a cache file, or an untrusted summary.
Source = str | RankSummary
# Peak memory of merging, as a multiple of the results: 124 bytes per call become 350, briefly twice.
_MERGE_MEMORY_FACTOR = 6
# Unpacked size of the result in a summary, as a multiple of the file size.
_UNPACKED_FACTOR = 5


class AskView(msgspec.Struct, frozen=True):
    file: ModelFile
    view_id: str
    params: Params
    kind: AnswerKind = "json"

    def answer(self, models: OpenModels, report: Report) -> bytes:
        """Raises NotFoundError, BadRequest."""
        analysis = analysis_by_id(self.view_id)
        return _encoded(analysis, [models.part(self.file, analysis, self.params)], self.params, self.kind)


class AskSql(msgspec.Struct, frozen=True):
    """A query over one profile, or over the ranks of a run."""

    profiles: tuple[SqlProfile, ...]
    params: Params
    kind: AnswerKind = "json"

    def answer(self, models: OpenModels, report: Report) -> bytes:
        """Raises BadRequest, MissingPackage, CacheFileLost."""
        from tb_plugin.views.sql.view import part_of, query_of

        query, view = query_of(self.params), analysis_by_id(SQL_VIEW)

        def make() -> Part:
            answer = sql_over(models, self.profiles, query, is_guarded=True)
            traces = (models.typed(profile.file, TraceTable) for profile in self.profiles)
            covered = coverage_of([Part(select_rows(trace, None).coverage) for trace in traces], Params())
            return isolated(view.title, lambda: part_of(answer, covered, self.params))

        key = (SQL_VIEW, self.profiles, query, LeftOut.of(self.params))
        return _encoded(view, [MEMO.get(models, key, make)], self.params, self.kind)


class AskMultiView(msgspec.Struct, frozen=True):
    parts: tuple[tuple[str, str], ...]
    """(worker, result file) pairs."""
    view_id: str
    params: Params
    steps: str
    kind: AnswerKind = "json"

    def answer(self, models: OpenModels, report: Report) -> bytes:
        """Raises NotFoundError, BadRequest, CacheFileLost."""
        parts = [models.cached_part(path, worker) for worker, path in self.parts]
        labels = dict.fromkeys(label for part in parts for label in part.steps)
        chosen = chosen_steps(self.steps, [StepInfo(label, 0, 0) for label in labels])
        answer = _encoded(analysis_by_id(self.view_id), parts, replace(self.params, steps=chosen), self.kind)
        if self.params.table is None:
            give_back_memory()  # later table pages need much less memory than the first answer about a run
        return answer


def _encoded(analysis: Analysis[Any], parts: Sequence[Part], params: Params, kind: AnswerKind) -> bytes:
    if kind == "json":
        return isolated(analysis.title, lambda: to_json(analysis.answer(parts, params)))
    from tb_plugin.service.answers.table_export import as_arrow, as_csv

    whole = replace(params, limit=None, as_columns=True)
    table = isolated(analysis.title, lambda: analysis.answer(parts, whole))
    if not isinstance(table, ColumnTable):
        raise NotFoundError("This is not a table.", analysis.id, "Specify a table.")
    if kind == "csv":
        return isolated(table.title, lambda: as_csv(table.columns, table.data, table.matching))
    # A table of one profile includes its internal columns, as the JSON report does.
    keys = [column.metric.key for column in table.columns]
    return as_arrow(table.data if analysis.scope == "profile" else table.data.select(keys), table.matching)


class Numbers(msgspec.Struct, frozen=True):
    """Facts and tables of a profile. ``tables`` is undecoded JSON, because decoding large tables is slow."""

    facts: dict[str, int | float | None]
    tables: dict[str, msgspec.Raw]
    notices: list[Notices]
    dismissed: list[str]
    """Ids of rules that the file ``torch_trace_ignore`` excludes."""


class AskNumbers(msgspec.Struct, frozen=True):
    """Numbers of ``view_ids``; only notices of ``sentence_ids``, and only facts of ``counted_ids``."""

    file: ModelFile
    view_ids: tuple[str, ...]
    sentence_ids: tuple[str, ...]
    counted_ids: tuple[str, ...]
    params: Params
    top: int | None = None
    """Rows of each table, in the order of its page; None = all, in the order of the view."""

    def answer(self, models: OpenModels, report: Report) -> bytes:
        """Returns ``Numbers`` as JSON. Raises NotFoundError, BadRequest."""
        views, parts = _Views(), Isolation()
        for view_id in dict.fromkeys((*self.sentence_ids, *self.view_ids, *self.counted_ids)):
            analysis = analysis_by_id(view_id)
            found = parts.run(analysis.title, partial(self._numbers, models, analysis), _Views())
            views.facts |= found.facts
            views.tables |= found.tables
            views.notices += found.notices
        views.notices += (each for each in failed_payloads(parts.failures).values() if isinstance(each, Notices))
        ignored = [rule for rule in self.params.ignored if rule in rule_ids()]
        told = [_without(each, ignored) if each.about == "training" else each for each in views.notices]
        return to_json({"facts": views.facts, "tables": views.tables, "notices": told, "dismissed": ignored})

    def _numbers(self, models: OpenModels, analysis: Analysis[Any]) -> _Views:
        part, found = models.part(self.file, analysis, self.params), _Views()
        if analysis.id in self.counted_ids or analysis.id in self.view_ids:
            found.facts |= part.facts
        if analysis.id in self.counted_ids:
            return found
        found.notices += (payload for payload in part.payloads.values() if isinstance(payload, Notices))
        for name, frame in part.frames.items() if analysis.id in self.view_ids else ():
            # All columns, including those that a page hides because they are empty for this trace.
            shown = [column.metric.key for column in frame.columns]
            others = [key for key in frame.data.column_names if key not in shown]
            data = frame.data if self.top is None else frame.data.take(matching(frame, Params())[0][: self.top])
            found.tables[name] = msgspec.Raw(to_json(rows_of(data, [*shown, *others])))
        return found


class _Views(msgspec.Struct):
    facts: dict[str, Number] = msgspec.field(default_factory=dict)
    tables: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    notices: list[Notices] = msgspec.field(default_factory=list)


def _without(notices: Notices, rules: Sequence[str]) -> Notices:
    return replace(notices, notices=[notice for notice in notices.notices if notice.rule not in rules])


class AskTiles(msgspec.Struct, frozen=True):
    file: ModelFile
    level: int
    wanted: tuple[Tile, ...]

    def answer(self, models: OpenModels, report: Report) -> bytes:
        """Returns a gzipped Arrow IPC stream. Raises BadRequest."""
        # Compressed in the worker: it saves three quarters of the size and takes a few milliseconds.
        return isolated(
            "Timeline",
            lambda: gzip.compress(encode(models.levels(self.file), self.level, self.wanted), compresslevel=1, mtime=0),
        )


class AskReportTimeline(msgspec.Struct, frozen=True):
    file: ModelFile
    start_ns: int | None
    end_ns: int | None
    max_items: int

    def answer(self, models: OpenModels, report: Report) -> bytes:
        """Returns a ReportTimeline as JSON. None = unbounded."""
        from tb_plugin.views.timeline.report import report_timeline

        start = 0 if self.start_ns is None else self.start_ns
        end = MOST_NS if self.end_ns is None else self.end_ns
        return isolated(
            "Timeline", lambda: to_json(report_timeline(models.levels(self.file), start, end, self.max_items))
        )


class WriteWindow(msgspec.Struct, frozen=True):
    """Writes the events that overlap ``[start_ns, end_ns)`` as gzipped Chrome JSON to the file ``target``."""

    file: ModelFile
    start_ns: int | None
    end_ns: int | None
    target: str

    def answer(self, models: OpenModels, report: Report) -> str:
        """Returns ``target``. Raises CacheRefused, PartFailed."""
        from tb_plugin.service.answers.chrome_export import write_window

        trace = models.typed(self.file, TraceTable)
        write = partial(write_window, trace, self.start_ns, self.end_ns)
        isolated("Export of events", lambda: put_atomically(self.target, lambda path: write(str(path))))
        return self.target


class WriteStacks(msgspec.Struct, frozen=True):
    file: ModelFile
    params: Params
    form: str
    target: str

    def answer(self, models: OpenModels, report: Report) -> str:
        """Returns ``target``. Raises BadRequest, NotFoundError, CacheRefused, PartFailed."""
        from tb_plugin.service.answers.stack_export import write_stacks

        trace = models.typed(self.file, TraceTable)
        write = partial(write_stacks, trace, self.params, self.form)
        isolated("Export of stacks", lambda: put_atomically(self.target, lambda path: write(str(path))))
        return self.target


class WritePart(msgspec.Struct, frozen=True):
    file: ModelFile
    view_id: str
    params: Params
    target: str

    def answer(self, models: OpenModels, report: Report) -> str:
        """Writes the file and returns ``target``. Raises BadRequest, CacheRefused."""
        analysis = analysis_by_id(self.view_id)
        part_of = partial(models.part, self.file, params=self.params)
        numbers = part_with_borrowed(analysis, models.model(self.file) if analysis.borrows else None, part_of)
        body = isolated(analysis.title, lambda: part_codec.dump(numbers))
        put_atomically(self.target, lambda path: path.write_bytes(body))
        return self.target


class WriteMergedPart(msgspec.Struct, frozen=True):
    """Merges (worker, source) pairs of a run and writes the result to the file ``target``."""

    parts: tuple[tuple[str, Source], ...]
    companion: tuple[tuple[str, Source], ...]
    """(worker, source) pairs of profiles in the same run that have another format."""
    view_id: str
    target: str

    def peak_memory_bytes(self) -> int:
        """Estimates the peak memory from the current file sizes."""
        sizes = (
            _size_bytes(source) if isinstance(source, str) else _UNPACKED_FACTOR * source.size_bytes
            for _, source in (*self.parts, *self.companion)
        )
        return PROCESS_BYTES + _MERGE_MEMORY_FACTOR * sum(sizes)

    def answer(self, models: OpenModels, report: Report) -> dict[int, Refusal]:
        """Writes the merged result and returns an empty dict.

        If any summary is refused, writes nothing and returns the reason for each refusal, by index in ``parts``.
        Raises CacheFileLost, CacheRefused, and UserError if merging exceeds the memory budget.
        """
        analysis = analysis_by_id(self.view_id)
        view = joining(analysis)
        if view is None:
            raise NotFoundError(
                "This view has no merged result of all ranks.", self.view_id, "Request the view itself."
            )
        read, refused = _read(models, (*self.parts, *self.companion))
        if refused:
            return refused
        mine, beside = read[: len(self.parts)], read[len(self.parts) :]
        del read
        mine.reverse()
        joined = isolated(analysis.title, lambda: view.join(_handed_over(mine), beside))
        put_atomically(self.target, partial(part_codec.write_mapped, joined))
        del joined
        give_back_memory()
        return {}


def _size_bytes(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def _handed_over(parts: list[Part]) -> Iterator[Part]:
    while parts:
        yield parts.pop()


def _read(models: OpenModels, sources: Sequence[tuple[str, Source]]) -> tuple[list[Part], dict[int, Refusal]]:
    """Returns the results, or none of them and the refused summaries by index. Raises UserError."""
    budget = budget_bytes()
    kept = sum(_size_bytes(source) for _, source in sources if isinstance(source, str))
    if kept > budget:
        what = f"Merging the ranks needs {kept / 1e6:,.0f} MB of memory; {budget / 1e6:,.0f} MB are allowed."
        raise UserError(
            what, do=f"Allow more memory with {MEMORY_VARIABLE}={kept / 1e6 + 1:.0f}, or record fewer ranks."
        )
    places = [place for place, (_, source) in enumerate(sources) if isinstance(source, RankSummary)]
    taken, refused = parts_of([source for _, source in sources if isinstance(source, RankSummary)], budget)
    if refused:
        return [], {places[at]: why for at, why in refused.items()}
    left = iter(taken)
    return [
        models.read_part(source, worker) if isinstance(source, str) else replace(next(left), worker=worker)
        for worker, source in sources
    ], {}
