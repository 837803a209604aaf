"""Questions about one loaded profile, for worker processes."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from tb_plugin.analysis.base import Analysis, Frame, Int64, Number, Params, matching, rows_of
from tb_plugin.analysis.failure_notices import failed_payloads
from tb_plugin.analysis.timeline.tiles import Tile, encode
from tb_plugin.errors import NotFoundError
from tb_plugin.lib.isolation import Isolation, isolated
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Notices
from tb_plugin.payloads.export import to_json
from tb_plugin.registry import analysis_by_id
from tb_plugin.rules import rule_ids
from tb_plugin.service.workers.model_cache import ModelFile, OpenModels
from tb_plugin.service.workers.question import Report
from tb_plugin.storage.cache import put_atomically


class AskView(msgspec.Struct, frozen=True):
    """Computes a view as JSON, or one page of the table ``params.table``."""

    file: ModelFile
    view_id: str
    params: Params

    def answer(self, models: OpenModels, report: Report) -> bytes:
        """Returns JSON. Raises NotFoundError, BadRequest."""
        analysis = analysis_by_id(self.view_id)
        part = models.part(self.file, analysis, self.params)
        return isolated(analysis.title, lambda: to_json(analysis.answer([part], self.params)))


class AskCsv(msgspec.Struct, frozen=True):
    """Exports all matching rows of a table as CSV."""

    file: ModelFile
    view_id: str
    params: Params

    def answer(self, models: OpenModels, report: Report) -> bytes:
        """Returns CSV in UTF-8. The header contains the units. Raises NotFoundError, BadRequest."""
        from tb_plugin.service.answers.table_export import as_csv

        frame, rows = _table_rows(models, self.file, self.view_id, self.params)
        return isolated(frame.title, lambda: as_csv(frame.columns, frame.data, rows))


class AskArrow(msgspec.Struct, frozen=True):
    """Exports all matching rows of a table as an Arrow IPC stream."""

    file: ModelFile
    view_id: str
    params: Params

    def answer(self, models: OpenModels, report: Report) -> bytes:
        """Returns an Arrow IPC stream. Raises NotFoundError, BadRequest."""
        from tb_plugin.service.answers.table_export import as_arrow

        frame, rows = _table_rows(models, self.file, self.view_id, self.params)
        return as_arrow(frame.data.take(rows))


class Numbers(msgspec.Struct, frozen=True):
    """Facts and tables of a profile, for programs.

    ``tables`` contains undecoded JSON, because decoding large tables is slow.
    """

    facts: dict[str, int | float | None]
    tables: dict[str, msgspec.Raw]
    notices: list[Notices]
    dismissed: list[str]
    """Ids of rules that the file ``torch_trace_ignore`` excludes."""


class AskNumbers(msgspec.Struct, frozen=True):
    """Computes facts, tables and notices of the views in ``view_ids``.

    Views in ``sentence_ids`` contribute only notices. Views in ``counted_ids`` contribute only facts.
    """

    file: ModelFile
    view_ids: tuple[str, ...]
    sentence_ids: tuple[str, ...]
    counted_ids: tuple[str, ...]
    params: Params

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
            found.tables[name] = msgspec.Raw(to_json(rows_of(frame.data, [*shown, *others])))
        return found


class _Views(msgspec.Struct):
    facts: dict[str, Number] = msgspec.field(default_factory=dict)
    tables: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    notices: list[Notices] = msgspec.field(default_factory=list)


class AskTiles(msgspec.Struct, frozen=True):
    """Computes tiles of the timeline."""

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


class WriteWindow(msgspec.Struct, frozen=True):
    """Writes the events that overlap ``[start_ns, end_ns)`` as gzipped Chrome JSON to the file ``target``."""

    file: ModelFile
    start_ns: int | None
    end_ns: int | None
    target: str

    def answer(self, models: OpenModels, report: Report) -> str:
        """Writes the file and returns ``target``. Raises CacheRefused, PartFailed."""
        from tb_plugin.service.answers.chrome_export import write_window

        trace = models.typed(self.file, TraceTable)
        write = partial(write_window, trace, self.start_ns, self.end_ns)
        isolated("Export of events", lambda: put_atomically(self.target, lambda file: write(str(file))))
        return self.target


class WriteStacks(msgspec.Struct, frozen=True):
    """Writes merged stacks to the gzipped file ``target``."""

    file: ModelFile
    params: Params
    form: str
    target: str

    def answer(self, models: OpenModels, report: Report) -> str:
        """Writes the file and returns ``target``. Raises BadRequest, NotFoundError, CacheRefused, PartFailed."""
        from tb_plugin.service.answers.stack_export import write_stacks

        trace = models.typed(self.file, TraceTable)
        write = partial(write_stacks, trace, self.params, self.form)
        isolated("Export of stacks", lambda: put_atomically(self.target, lambda file: write(str(file))))
        return self.target


def _without(notices: Notices, rules: Sequence[str]) -> Notices:
    return replace(notices, notices=[notice for notice in notices.notices if notice.rule not in rules])


def _table_rows(models: OpenModels, file: ModelFile, view_id: str, params: Params) -> tuple[Frame, Int64]:
    """Returns a table and the indices of its matching rows. Raises NotFoundError, BadRequest."""
    part = models.part(file, analysis_by_id(view_id), params)
    frame = part.frames.get(params.table or "")
    if frame is None:
        names = ", ".join(part.frames) or "none"
        raise NotFoundError(
            f"The view {view_id} has no table {params.table}.", params.table or "", f"Available tables: {names}."
        )
    return frame, matching(frame, part.remaining(params))[0]
