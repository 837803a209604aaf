"""What worker processes do: parse a file into a column file, and answer questions about a column file.

Every task takes ``report`` (how far it is) besides its arguments and returns something small that pickles. They stand in
one file because they share what a worker keeps open: the last tables, levels and parts.
"""

from __future__ import annotations

import gzip
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from tb_plugin.analyses import ANALYSES
from tb_plugin.analyses.base import Analysis, Frame, Params, Part, matching, rows_of, values_of
from tb_plugin.analyses.overview.configuration import head_settings
from tb_plugin.analyses.selection import window_info
from tb_plugin.analyses.timeline.pyramid import Pyramid, pyramid_of
from tb_plugin.analyses.timeline.tiles import Tile, encode
from tb_plugin.errors import KeptLost, NotFound, UnreadableTrace
from tb_plugin.payloads import IssueInfo, Notices, ReadInfo, StepInfo, Table, View, ViewInfo
from tb_plugin.payloads.export import to_json
from tb_plugin.readers import READERS
from tb_plugin.readers.base import Reader, ReadOptions, ReadState, windowed
from tb_plugin.service import parts, pyramids
from tb_plugin.service.budget import refused_whole, room_bytes
from tb_plugin.service.chrome import write_window
from tb_plugin.service.selection import chosen_steps
from tb_plugin.service.sheets import as_arrow, as_csv
from tb_plugin.service.stacks import write_stacks
from tb_plugin.service.summary import Limits, Summary
from tb_plugin.service.worker import Progress, Report
from tb_plugin.storage.cache import refused, write_whole
from tb_plugin.storage.files import FileSource
from tb_plugin.storage.opening import Located
from tb_plugin.storage.seal import Seal, seal_of, sealed, unsealed
from tb_plugin.trace import arrow
from tb_plugin.trace.assemble import assemble
from tb_plugin.trace.report import ReadReport
from tb_plugin.trace.table import TraceTable, Window
from tb_plugin.trace.window import Survey, choose, parse_window

Value = TypeVar("Value")

KEPT = tuple(analysis for analysis in ANALYSES if analysis.id in ("overview", "timeline"))
"""Views whose numbers are kept with the columns."""
_MAX_TABLES = 4
_MAX_PARTS_BYTES = 256 * 1024 * 1024

_tables: OrderedDict[str, TraceTable] = OrderedDict()
_pyramids: OrderedDict[str, Pyramid] = OrderedDict()
_parts = parts.OpenParts(_MAX_PARTS_BYTES)


def ready(*, report: Report) -> None:
    """Nothing: whoever asks for it wants a worker that has this module, and all that it needs, imported."""


def opened(path: str, *, report: Report) -> None:
    """Maps a column file and the levels of its timeline, ahead of the first question. Raises KeptLost."""
    _levels(path)


def parse(
    reader_id: str,
    paths: Mapping[str, str | Located],
    target: str,
    summary_target: str,
    limits: Limits | None = None,
    *,
    report: Report,
) -> Summary:
    """Reads local files, or the window that fits ``limits``, into the column file ``target`` and a Summary beside it.

    Raises UserError.
    """
    seal, progress = _write_columns(reader_id, paths, target, limits, report)
    report(progress._replace(stage="summarising"))
    summary = _summarise(target, seal)
    _replace(summary_target, lambda partial: partial.write_bytes(sealed(to_json(summary))))
    for analysis in KEPT:
        if analysis.missing(_table(target)) is None:
            _keep(target, analysis)
    _levels(target)
    pyramid_of.cache_clear()
    return summary


def _write_columns(
    reader_id: str, paths: Mapping[str, str | Located], target: str, limits: Limits | None, report: Report
) -> tuple[Seal, Progress]:
    """The seal of the column file, and how much was read. Raises UserError."""
    reader = next(reader for reader in READERS if reader.id == reader_id)
    reading = _Telling("reading", report)
    try:
        window = None if limits is None else _window(reader, paths, limits, report)
        raw = reader.read(FileSource(paths), ReadOptions(window=window), reading.tell)
    except RecursionError as error:
        raise UnreadableTrace("The JSON is nested too deeply.", next(iter(paths))) from error
    progress = reading.progress
    report(progress._replace(stage="assembling"))
    trace = assemble(raw)
    del raw
    _forget(target)

    def write(partial: Path) -> Seal:
        report(progress._replace(stage="writing"))
        arrow.write(trace, str(partial))
        return seal_of(partial)  # before it is in place: there, another process may take it away at once

    return _replace(target, write), progress


class _Telling:
    """Tells the parent how far a pass over a file is, and what the file says of itself."""

    def __init__(self, stage: str, report: Report) -> None:
        self.progress = Progress(stage)
        self._report = report
        self._keys = 0

    def tell(self, state: ReadState) -> None:
        """Progress of a reader."""
        about = self.progress.about
        if len(state.head) != self._keys:
            self._keys = len(state.head)
            about = head_settings(state.head)
        self.progress = self.progress._replace(
            fraction=state.fraction, events=state.events, counts=state.counts, about=about
        )
        self._report(self.progress)


def _window(reader: Reader, paths: Mapping[str, str | Located], limits: Limits, report: Report) -> Window:
    """The window that was asked for, as much of it as fits. Raises UserError, also when the reader opens no windows."""
    asked = parse_window(limits.window)
    able = windowed(reader)
    if able is None:
        raise refused_whole(reader.id, next(iter(paths)), limits.window, limits.need_bytes, limits.budget_bytes)
    survey = _kept_survey(limits.survey_target)
    if survey is None:
        found = survey = able.survey(FileSource(paths), ReadOptions(), _Telling("surveying", report).tell)
        _replace(limits.survey_target, lambda partial: partial.write_bytes(sealed(msgspec.json.encode(found))))
    return choose(survey, asked, room_bytes(able, limits.budget_bytes), limits.need_bytes, limits.budget_bytes)


def _kept_survey(path: str) -> Survey | None:
    """What an earlier window found out about the same file."""
    try:
        return msgspec.json.decode(unsealed(Path(path).read_bytes()), type=Survey)
    except (OSError, ValueError):  # msgspec's errors are ValueErrors
        return None


def _summarise(path: str, seal: Seal) -> Summary:
    """What ``profile`` answers about a column file."""
    trace = _table(path)
    views = [_view_info(analysis, trace) for analysis in ANALYSES]
    found = trace.steps
    times = (found.start_ns, found.end_ns, found.host_start_ns, found.host_end_ns)
    steps = [
        StepInfo(label, *bounds)
        for label, *bounds in zip(found.label, *(column.tolist() for column in times), strict=True)
        if found.recorded
    ]
    whole = trace.coverage.whole
    return Summary(
        steps,
        views,
        read_info(trace.report),
        _count_data_notices(path),
        seal,
        window_info(trace),
        [] if whole is None else list(whole.steps),
    )


def view(path: str, analysis_id: str, params: Params, *, report: Report) -> bytes:
    """The JSON of a view or of one page of a table. Raises NotFound, BadRequest."""
    analysis = _analysis(analysis_id)
    return to_json(analysis.answer([_part(path, analysis, params)], params))


def table_csv(path: str, analysis_id: str, params: Params, *, report: Report) -> bytes:
    """All matching rows of a table as CSV in UTF-8, units in the header. Raises NotFound, BadRequest."""
    frame, data = _found(path, analysis_id, params)
    return as_csv(frame.columns, zip(*(values_of(data[column.metric.key]) for column in frame.columns), strict=True))


def tiles(path: str, level: int, wanted: Sequence[Tile], *, report: Report) -> bytes:
    """The first of some tiles of the timeline as a gzipped Arrow IPC stream. Raises BadRequest."""
    # A quarter of the size for a few milliseconds, which the worker has and the request's thread has not.
    return gzip.compress(encode(_levels(path), level, wanted), compresslevel=1, mtime=0)


def part(path: str, analysis_id: str, params: Params, target: str, *, report: Report) -> str:
    """Writes what one profile contributes to an answer about several to ``target``. Raises BadRequest."""
    analysis = _analysis(analysis_id)
    numbers = _part(path, analysis, params)
    for view_id, names in analysis.borrows.items():
        numbers = _with(numbers, _borrowed(path, view_id, params), names)
    _replace(target, lambda partial: partial.write_bytes(parts.dump(numbers)))
    return target


def _borrowed(path: str, view_id: str, params: Params) -> Part | None:
    """The part of another view, None where that view does not apply."""
    analysis = _analysis(view_id)
    return None if analysis.missing(_table(path)) else _part(path, analysis, params)


def _with(part: Part, other: Part | None, names: Sequence[str]) -> Part:
    """``part`` with the named tables and payloads of another."""
    if other is None:
        return part
    frames = {name: other.frames[name] for name in names if name in other.frames}
    payloads = {name: other.payloads[name] for name in names if name in other.payloads}
    return replace(part, frames={**part.frames, **frames}, payloads={**part.payloads, **payloads})


def view_of(paths: Sequence[tuple[str, str]], analysis_id: str, params: Params, steps: str, *, report: Report) -> bytes:
    """``view`` about several profiles: (worker, file of its part) each. Raises NotFound, BadRequest."""
    return to_json(_answer_of(paths, analysis_id, params, steps))


def table_csv_of(
    paths: Sequence[tuple[str, str]], analysis_id: str, params: Params, steps: str, *, report: Report
) -> bytes:
    """``table_csv`` about several profiles. Raises NotFound, BadRequest."""
    table, keys = _whole_table_of(paths, analysis_id, params, steps)
    return as_csv(table.columns, ([row[key] for key in keys] for row in table.rows))


def table_arrow_of(
    paths: Sequence[tuple[str, str]], analysis_id: str, params: Params, steps: str, *, report: Report
) -> bytes:
    """``table_arrow`` about several profiles. Raises NotFound, BadRequest."""
    table, keys = _whole_table_of(paths, analysis_id, params, steps)
    return as_arrow(pa.table({key: pa.array([row[key] for row in table.rows]) for key in keys}))


def _whole_table_of(
    paths: Sequence[tuple[str, str]], analysis_id: str, params: Params, steps: str
) -> tuple[Table, list[str]]:
    """A table about several profiles with all its rows, and the keys of its columns."""
    table = _answer_of(paths, analysis_id, replace(params, limit=None), steps)
    if not isinstance(table, Table):
        raise NotFound("That is no table.", analysis_id, "Name a table.")
    return table, [column.metric.key for column in table.columns]


def _answer_of(paths: Sequence[tuple[str, str]], analysis_id: str, params: Params, steps: str) -> View | Table:
    found = [_opened_part(path, worker) for worker, path in paths]
    labels = dict.fromkeys(label for item in found for label in item.steps)
    chosen = chosen_steps(steps, [StepInfo(label, 0, 0) for label in labels])
    return _analysis(analysis_id).answer(found, replace(params, steps=chosen))


def _opened_part(path: str, worker: str) -> Part:
    """A kept part, named by its worker; the last ones stay open, since every page of a table asks for them again."""
    return _parts.get((path, worker), lambda: replace(_load_part(path), worker=worker))


def _load_part(path: str) -> Part:
    """A part that was kept. Raises KeptLost."""
    try:
        return parts.load(Path(path).read_bytes())
    except (OSError, ValueError, LookupError) as error:
        raise KeptLost("A kept part is gone or damaged.", path, "It is made anew: ask again.") from error


def table_arrow(path: str, analysis_id: str, params: Params, *, report: Report) -> bytes:
    """A whole table as an Arrow IPC stream. Raises NotFound."""
    return as_arrow(_found(path, analysis_id, params)[1])


def report_numbers(path: str, view_ids: Sequence[str], params: Params, *, report: Report) -> bytes:
    """Facts and whole tables of views as JSON: ``{"facts": {...}, "tables": {...}}``."""
    facts: dict[str, Any] = {}
    tables: dict[str, Any] = {}
    for view_id in view_ids:
        analysis = _analysis(view_id)
        part = _part(path, analysis, params)
        facts |= part.facts
        for name, frame in part.frames.items():
            # All columns, also those that a page leaves out because they say nothing for this trace.
            shown = [column.metric.key for column in frame.columns]
            others = [key for key in frame.data.column_names if key not in shown]
            tables[name] = rows_of(frame.data, [*shown, *others])
    return to_json({"facts": facts, "tables": tables})


def window(path: str, start_ns: int | None, end_ns: int | None, target: str, *, report: Report) -> str:
    """Writes the events of ``[start_ns, end_ns)`` as gzipped Chrome JSON to ``target`` and returns it."""
    trace = _table(path)
    _replace(target, lambda partial: write_window(trace, start_ns, end_ns, str(partial)))
    return target


def stacks(path: str, params: Params, form: str, target: str, *, report: Report) -> str:
    """Writes merged stacks, gzipped, to ``target`` and returns it. Raises BadRequest, NotFound."""
    trace = _table(path)
    _replace(target, lambda partial: write_stacks(trace, params, form, str(partial)))
    return target


def read_info(report: ReadReport) -> ReadInfo:
    """A reader's report as a payload."""
    counts = {name: getattr(report, name) for name in ReadInfo.__struct_fields__ if name != "issues"}
    issues = [IssueInfo(i.code, i.outcome, i.text, i.count, i.first_offset, list(i.examples)) for i in report.issues]
    return ReadInfo(**counts, issues=issues)


def _found(path: str, analysis_id: str, params: Params) -> tuple[Frame, pa.Table]:
    """A table and those of its rows that are asked for. Raises NotFound, BadRequest."""
    analysis = _analysis(analysis_id)
    part = _part(path, analysis, params)
    frame = part.frames.get(params.table or "")
    if frame is None:
        names = ", ".join(part.frames) or "none"
        raise NotFound(f"The view {analysis_id} has no table {params.table}.", params.table or "", f"It has: {names}.")
    return frame, frame.data.take(matching(frame, part.remaining(params))[0])


def _analysis(analysis_id: str) -> Analysis:
    for analysis in ANALYSES:
        if analysis.id == analysis_id:
            return analysis
    raise NotFound(f"There is no view {analysis_id}.", analysis_id, f"There are: {', '.join(a.id for a in ANALYSES)}.")


def _table(path: str) -> TraceTable:
    """The model of a column file; the last few stay open (their columns are mapped, not copied). Raises KeptLost."""
    if path not in _tables:
        _tables[path] = arrow.read(path)
        while len(_tables) > _MAX_TABLES:
            _tables.popitem(last=False)
    _tables.move_to_end(path)
    return _tables[path]


def _levels(path: str) -> Pyramid:
    """The levels of the timeline, from their file where there is one; the last few stay open."""
    if path not in _pyramids:
        target = pyramids.beside(path)
        try:
            found = pyramids.read(_table(path), target)
            os.utime(target)
        except (KeptLost, OSError):
            found = pyramid_of(_table(path))
            _replace(target, lambda partial: pyramids.write(found, str(partial)))
        _pyramids[path] = found
        while len(_pyramids) > _MAX_TABLES:
            _pyramids.popitem(last=False)
    _pyramids.move_to_end(path)
    return _pyramids[path]


def _forget(path: str) -> None:
    """Lets go of what this process knows of a column file that is written anew: the old one may have been damaged."""
    _tables.pop(path, None)
    _pyramids.pop(path, None)
    _parts.forget(path)


def _kept_beside(path: str, analysis: Analysis) -> str:
    """Where the numbers of a view lie beside a column file: they are asked for after every start."""
    return str(Path(path).with_suffix(f".{analysis.id}"))


def _keep(path: str, analysis: Analysis) -> None:
    body = parts.dump(_part(path, analysis, Params()))
    _replace(_kept_beside(path, analysis), lambda partial: partial.write_bytes(body))


def _kept_part(path: str, analysis: Analysis, params: Params) -> Part | None:
    """The kept numbers of a view about all steps; None for other questions, or when they are lost."""
    if analysis not in KEPT or analysis.part_key(params) != analysis.part_key(Params()):
        return None
    try:
        part = _load_part(_kept_beside(path, analysis))
        os.utime(_kept_beside(path, analysis))
    except (KeptLost, OSError):
        return None
    return part


def _part(path: str, analysis: Analysis, params: Params) -> Part:
    """The numbers of one view; the last ones are kept."""
    key = (path, analysis.id, *analysis.part_key(params))
    return _parts.get(key, lambda: _kept_part(path, analysis, params) or analysis.part(_table(path), params))


def _view_info(analysis: Analysis, trace: TraceTable) -> ViewInfo:
    missing = analysis.missing(trace)
    if missing is None:
        return ViewInfo(analysis.id, analysis.title, True)
    if trace.coverage.whole is not None:
        return ViewInfo(analysis.id, analysis.title, False, f"In the window that was opened: {missing.why}")
    return ViewInfo(analysis.id, analysis.title, False, missing.why, missing.enable)


def _count_data_notices(path: str) -> int:
    """Notices about the trace itself in the first view, which the page shows next anyway."""
    if not ANALYSES:
        return 0
    part = _part(path, ANALYSES[0], Params())
    return sum(len(p.notices) for p in part.payloads.values() if isinstance(p, Notices) and p.about == "data")


def _replace(target: str, write: Callable[[Path], Value]) -> Value:
    """Lets ``write`` fill a file beside ``target`` and puts it in place when it is whole. Raises CacheRefused."""
    try:
        try:
            return write_whole(Path(target), write)
        except FileNotFoundError:  # somebody cleared the cache meanwhile
            return write_whole(Path(target), write)
    except OSError as error:
        raise refused(Path(target), error) from error
