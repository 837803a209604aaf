"""Questions that bring a profile in: read its files into a column file, and open what another process wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tb_plugin.analyses import ANALYSES
from tb_plugin.analyses.base import Analysis, Params
from tb_plugin.analyses.overview.configuration import head_settings
from tb_plugin.analyses.selection import window_info
from tb_plugin.analyses.timeline.pyramid import pyramid_of
from tb_plugin.errors import UnreadableTrace
from tb_plugin.payloads import IssueInfo, Notices, ReadInfo, StepInfo, ViewInfo
from tb_plugin.payloads.export import to_json
from tb_plugin.readers import READERS
from tb_plugin.readers.base import Reader, ReadOptions, ReadState, windowed
from tb_plugin.service.budget import refused_whole, room_bytes
from tb_plugin.service.opened import KEPT, OpenModels, put_whole
from tb_plugin.service.question import Progress, Report
from tb_plugin.service.summary import Limits, Summary
from tb_plugin.storage.files import FileSource
from tb_plugin.storage.opening import Located
from tb_plugin.storage.seal import Seal, seal_of, sealed, unsealed
from tb_plugin.trace import arrow
from tb_plugin.trace.assemble import assemble
from tb_plugin.trace.report import ReadReport
from tb_plugin.trace.table import TraceTable, Window
from tb_plugin.trace.window import Survey, choose, parse_window


@dataclass(frozen=True)
class Ready:
    """Asks for nothing: whoever does wants a worker that has all that it needs imported."""

    def answer(self, models: OpenModels, report: Report) -> None:
        """Returns at once."""


@dataclass(frozen=True)
class Open:
    """Asks to map a column file and the levels of its timeline, ahead of the first question about it."""

    path: str

    def answer(self, models: OpenModels, report: Report) -> None:
        """Opens both. Raises KeptLost."""
        models.levels(self.path)


@dataclass(frozen=True)
class Parse:
    """Asks to read local files, or the window of them that fits ``limits``, into the column file ``target``.

    ``files`` are names in the profile and where they lie on this machine; the Summary goes to ``summary_target``, too.
    """

    reader_id: str
    files: tuple[tuple[str, str | Located], ...]
    target: str
    summary_target: str
    limits: Limits | None = None

    def answer(self, models: OpenModels, report: Report) -> Summary:
        """Returns the summary of what was read. Raises UserError."""
        seal, progress = self._write_columns(models, report)
        report(progress._replace(stage="summarising"))
        summary = _summarise(models, self.target, seal)
        put_whole(self.summary_target, lambda partial: partial.write_bytes(sealed(to_json(summary))))
        for analysis in KEPT:
            if analysis.missing(models.table(self.target)) is None:
                models.keep(self.target, analysis)
        models.levels(self.target)
        pyramid_of.cache_clear()
        return summary

    def _write_columns(self, models: OpenModels, report: Report) -> tuple[Seal, Progress]:
        """The seal of the column file, and how much was read. Raises UserError."""
        reader = next(reader for reader in READERS if reader.id == self.reader_id)
        reading, paths = _Telling("reading", report), dict(self.files)
        try:
            window = None if self.limits is None else _window(reader, paths, self.limits, report)
            raw = reader.read(FileSource(paths), ReadOptions(window=window), reading.tell)
        except RecursionError as error:
            raise UnreadableTrace("The JSON is nested too deeply.", next(iter(paths))) from error
        progress = reading.progress
        report(progress._replace(stage="assembling"))
        trace = assemble(raw)
        del raw
        models.forget(self.target)

        def write(partial: Path) -> Seal:
            report(progress._replace(stage="writing"))
            arrow.write(trace, str(partial))
            return seal_of(partial)  # before it is in place: there, another process may take it away at once

        return put_whole(self.target, write), progress


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
        put_whole(limits.survey_target, lambda partial: partial.write_bytes(sealed(msgspec.json.encode(found))))
    return choose(survey, asked, room_bytes(able, limits.budget_bytes), limits.need_bytes, limits.budget_bytes)


def _kept_survey(path: str) -> Survey | None:
    """What an earlier window found out about the same file."""
    try:
        return msgspec.json.decode(unsealed(Path(path).read_bytes()), type=Survey)
    except (OSError, ValueError):  # msgspec's errors are ValueErrors
        return None


def _summarise(models: OpenModels, path: str, seal: Seal) -> Summary:
    """What ``profile`` answers about a column file."""
    trace = models.table(path)
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
        _count_data_notices(models, path),
        seal,
        window_info(trace),
        [] if whole is None else list(whole.steps),
    )


def read_info(report: ReadReport) -> ReadInfo:
    """A reader's report as a payload."""
    counts = {name: getattr(report, name) for name in ReadInfo.__struct_fields__ if name != "issues"}
    issues = [IssueInfo(i.code, i.outcome, i.text, i.count, i.first_offset, list(i.examples)) for i in report.issues]
    return ReadInfo(**counts, issues=issues)


def _view_info(analysis: Analysis, trace: TraceTable) -> ViewInfo:
    missing = analysis.missing(trace)
    if missing is None:
        return ViewInfo(analysis.id, analysis.title, True)
    if trace.coverage.whole is not None:
        return ViewInfo(analysis.id, analysis.title, False, f"In the window that was opened: {missing.why}")
    return ViewInfo(analysis.id, analysis.title, False, missing.why, missing.enable)


def _count_data_notices(models: OpenModels, path: str) -> int:
    """Notices about the trace itself in the first view, which the page shows next anyway."""
    if not ANALYSES:
        return 0
    part = models.part(path, ANALYSES[0], Params())
    return sum(len(p.notices) for p in part.payloads.values() if isinstance(p, Notices) and p.about == "data")
