"""Questions that parse files and open column files.

The parent process answers ``GET profile`` from the summary and does not open the columns.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from tb_plugin import registry
from tb_plugin.analysis.base import Analysis, Missing, Params, Part
from tb_plugin.analysis.pages import page_title
from tb_plugin.errors import PartFailed, UnreadableTrace, UserError, WindowUnsupported
from tb_plugin.formats.base import Reader, ReadOptions, ReadState
from tb_plugin.formats.format_entry import as_windowed_reader
from tb_plugin.formats.unsupported_files import identify_unsupported
from tb_plugin.lib.isolation import isolated
from tb_plugin.model.trace.kernel_rules import RuleFile
from tb_plugin.model.trace.merged_ranks import rank_traces
from tb_plugin.model.trace.report import ReadReport
from tb_plugin.model.trace.table import RawTrace, Window
from tb_plugin.model.trace.window import Survey, choose, parse_window
from tb_plugin.model_kinds.base import Model, Outline
from tb_plugin.payloads import ClockInfo, Figure, Figures, IssueInfo, Notices, ReadInfo, StepInfo, ViewInfo, WindowInfo
from tb_plugin.payloads.export import to_json
from tb_plugin.service.file_head import HEAD_BYTES, unpack_head
from tb_plugin.service.workers.memory_budget import room_bytes, window_unsupported_error
from tb_plugin.service.workers.model_cache import ModelFile, OpenModels
from tb_plugin.service.workers.question import Progress, Report
from tb_plugin.service.workers.user_rules import with_own_steps
from tb_plugin.storage.cache import put_atomically
from tb_plugin.storage.checksum import Seal, seal_of, with_checksum, without_checksum
from tb_plugin.storage.files import FileSource
from tb_plugin.storage.safe_open import Located
from tb_plugin.views.overview.configuration import head_settings


class Limits(NamedTuple):
    """A requested window (see ``model/trace/window.py``) and the memory budget for it."""

    window: str
    peak_memory_bytes: int
    """Memory that the whole trace would need."""
    budget_bytes: int
    survey_target: str
    """File for the survey of the trace. Later windows use the same survey."""


class Summary(msgspec.Struct, frozen=True):
    """Summary of a loaded profile. It is stored next to the column file, as a checksum followed by JSON."""

    steps: list[StepInfo]
    views: list[ViewInfo]
    read: ReadInfo
    data_notice_count: int
    columns: Seal
    window: WindowInfo | None = None
    trace_steps: list[str] = []
    """Labels of all steps of the trace, if only a window is open."""
    clock: ClockInfo | None = None
    has_replays: bool = False
    key_figures: list[Figure] = []
    has_captures: bool = False
    absent: list[ViewInfo] = []
    """Views that the navigation does not show, with the reason for each."""
    device: str = ""
    """Name of the devices with recorded work. Empty without such work."""
    ranks: list[str] = []
    """Ranks of a merged file. Each has a column file and a summary. Empty if the file contains one rank."""
    device_word: str = "GPU"
    """Word for the devices of the profile."""
    without_views: bool = False
    """Whether ``data_notice_count``, ``key_figures`` and results of views are left out. ``Complete`` adds them."""


def rank_ending(rank: str, ending: str) -> str:
    """Returns the file suffix for one rank of a merged file, or ``ending`` if ``rank`` is empty."""
    return f".{blake2b(rank.encode(), digest_size=6).hexdigest()}{ending}" if rank else ending


class Open(msgspec.Struct, frozen=True):
    file: ModelFile

    def answer(self, models: OpenModels, report: Report) -> None:
        _open_beside(registry.model_by_id(self.file.model), models.model(self.file), self.file.path)


class AskOffered(msgspec.Struct, frozen=True):
    file: ModelFile

    def answer(self, models: OpenModels, report: Report) -> list[ViewInfo]:
        """Returns the views in navigation order. Raises CacheFileLost."""
        model, made = registry.model_by_id(self.file.model), models.model(self.file)
        return _view_infos(_navigation_views(model), made, model.outline(made))[0]


class Parse(msgspec.Struct, frozen=True):
    """Parses local files and writes the column file ``target``.

    ``files`` contains (name in the profile, local path) pairs. ``limits`` restricts the read to a window.
    ``summary_target`` is the file for the summary.
    """

    reader_id: str
    files: tuple[tuple[str, str | Located], ...]
    target: str
    summary_target: str
    limits: Limits | None = None
    class_rules: RuleFile = RuleFile()
    own_steps: str = ""
    rank: str = ""
    """For a merged file, the rank whose summary is returned; "" = the first, with a list of all ranks."""
    without_views: bool = False
    """Whether the summary is brief, for commands that do not need more."""
    decoders: int = 1
    """Number of decoder processes (``ReadOptions.decoders``)."""

    def answer(self, models: OpenModels, report: Report) -> Summary:
        """Returns the summary of the profile. Raises UserError, and PartFailed after a bug.

        A merged file is read once and written as one column file per rank. A window of a merged file is written as
        a single profile, because the survey does not separate ranks.
        """
        if self.rank and self.limits is not None:
            raise _refused(dict(self.files), self.limits, "a merged file can only be opened as a whole.")
        reader = registry.reader_by_id(self.reader_id)
        model = registry.model_of(reader)
        raw, progress = self._read(reader, report)
        ranks = rank_traces(raw) if isinstance(raw, RawTrace) and raw.window is None else []
        profiles = {rank.label: rank.make for rank in ranks} or {"": [raw].pop}
        del raw  # so that the consumer holds the only reference
        if self.rank and self.rank not in profiles:
            where = next(iter(dict(self.files)))
            raise UnreadableTrace(f"The file contains no events of {self.rank}.", where)
        write = partial(self._write, model, models, progress, report)
        summaries = {rank: write(rank, make) for rank, make in profiles.items()}
        if self.rank or not ranks:
            return summaries[self.rank]
        return replace(next(iter(summaries.values())), ranks=list(summaries))

    def _write(
        self,
        model: Model[Any, Any],
        models: OpenModels,
        progress: Progress,
        report: Report,
        rank: str,
        make: Callable[[], Any],
    ) -> Summary:
        """Writes the files of a profile or of one rank, and returns the summary. Raises UserError."""
        target, summary_target = (_rank_path(path, rank) for path in (self.target, self.summary_target))
        report(progress._replace(stage="assembling"))
        made = isolated("Building the profile", lambda: model.assemble(make()))
        models.forget(target)
        report(progress._replace(stage="writing"))
        seal = isolated("Writing the columns", partial(_write_columns, model, target, made))
        del made
        report(progress._replace(stage="summarising"))
        return _write_summary(models, ModelFile(target, model.id), seal, summary_target, self.without_views)

    def _read(self, reader: Reader[Any], report: Report) -> tuple[Any, Progress]:
        """Returns the parsed profile and the final progress. Raises UserError."""
        reading, paths = _Telling("reading", report), dict(self.files)
        try:
            raw = isolated("Reading the file", lambda: self._raw(reader, paths, reading, report))
        except UnreadableTrace as error:
            raise _with_format_name(error, paths) from error
        return raw, reading.progress

    def _raw(self, reader: Reader[Any], paths: Mapping[str, str | Located], reading: _Telling, report: Report) -> Any:
        try:
            window = None if self.limits is None else _window(reader, paths, self.limits, report, self.own_steps)
            options = ReadOptions(
                window=window, class_rules=self.class_rules, own_steps=self.own_steps, decoders=self.decoders
            )
            raw = reader.read(FileSource(paths), options, reading.tell)
        except RecursionError as error:
            raise UnreadableTrace("The JSON is nested too deeply.", next(iter(paths))) from error
        return with_own_steps(raw, self.own_steps) if isinstance(raw, RawTrace) else raw


def _write_columns(model: Model[Any, Any], target: str, made: Any) -> Seal:
    def write(partial: Path) -> Seal:
        model.write(made, str(partial))
        return seal_of(partial)  # before the rename, because another process may evict it afterwards

    return put_atomically(target, write)


class Complete(msgspec.Struct, frozen=True):
    """Replaces the brief summary of a profile."""

    file: ModelFile
    seal: Seal
    summary_target: str

    def answer(self, models: OpenModels, report: Report) -> Summary:
        """Returns the summary. Raises CacheFileLost, CacheRefused, PartFailed."""
        report(Progress("summarising"))
        return _write_summary(models, self.file, self.seal, self.summary_target, without_views=False)


def _write_summary(models: OpenModels, file: ModelFile, seal: Seal, target: str, without_views: bool) -> Summary:
    model, made = registry.model_by_id(file.model), models.model(file)
    views = _navigation_views(model)
    if not without_views:
        for analysis in views:
            if analysis.traits.cached and missing_of(analysis, made) is None:
                isolated(analysis.title, partial(models.keep, file, analysis), _nothing)
        _open_beside(model, made, file.path)
    summary = isolated("Summary of the profile", lambda: _summarise(models, file, views, seal, without_views))
    # Written last, because its existence means that all other files exist.
    put_atomically(target, lambda partial: partial.write_bytes(with_checksum(to_json(summary))))
    return summary


def _rank_path(path: str, rank: str) -> str:
    stem, dot, ending = Path(path).name.partition(".")
    return str(Path(path).with_name(stem + rank_ending(rank, dot + ending)))


def _with_format_name(error: UnreadableTrace, paths: Mapping[str, str | Located]) -> UnreadableTrace:
    if len(paths) != 1:
        return error
    try:
        with FileSource(paths).open(*paths) as file:
            what = identify_unsupported("", unpack_head(file.read(HEAD_BYTES)))
    except (OSError, UserError, zlib.error):
        return error
    return UnreadableTrace(what, error.where) if what else error


class _Telling:
    def __init__(self, stage: str, report: Report) -> None:
        self.progress = Progress(stage)
        self._report = report
        self._keys = 0

    def tell(self, state: ReadState) -> None:
        about = self.progress.profile_info
        if len(state.head) != self._keys:
            self._keys = len(state.head)
            about = isolated("Recording settings", lambda: head_settings(state.head), lambda failure: about)
        self.progress = self.progress._replace(
            fraction=state.fraction, events=state.events, counts=state.counts, profile_info=about
        )
        self._report(self.progress)


def _window(
    reader: Reader[Any], paths: Mapping[str, str | Located], limits: Limits, report: Report, own: str
) -> Window:
    """Returns the window, shortened to fit in memory. Raises UserError."""
    asked = parse_window(limits.window)
    able = as_windowed_reader(reader)
    if able is None:
        raise _refused(paths, limits, f"a profile of the format {reader.id} cannot be opened as a window.")
    survey = _cached_survey(limits.survey_target)
    if survey is None:
        try:
            found = survey = able.survey(
                FileSource(paths), ReadOptions(own_steps=own), _Telling("surveying", report).tell
            )
        except WindowUnsupported as error:
            raise _refused(paths, limits, error.what) from error
        put_atomically(
            limits.survey_target, lambda partial: partial.write_bytes(with_checksum(msgspec.json.encode(found)))
        )
    return choose(survey, asked, room_bytes(able, limits.budget_bytes), limits.peak_memory_bytes, limits.budget_bytes)


def _refused(paths: Mapping[str, str | Located], limits: Limits, why: str) -> UserError:
    return window_unsupported_error(
        next(iter(paths)), limits.window, limits.peak_memory_bytes, limits.budget_bytes, why
    )


def _cached_survey(path: str) -> Survey | None:
    try:
        return msgspec.json.decode(without_checksum(Path(path).read_bytes()), type=Survey)
    except (OSError, ValueError):  # msgspec's errors are ValueErrors
        return None


def _nothing(failure: PartFailed) -> None: ...


def _open_beside(model: Model[Any, Any], made: Any, path: str) -> None:
    isolated("Timeline", lambda: model.open_companion(made, path), _nothing)


def missing_of(analysis: Analysis[Any], made: Any) -> Missing | None:
    """Returns why a view does not apply, or None. If the check fails, the view counts as applicable."""
    return isolated(analysis.title, lambda: analysis.missing(made), _nothing)


def _navigation_views(model: Model[Any, Any]) -> list[Analysis[Any]]:
    return [analysis for analysis in registry.views_of(model) if analysis.traits.place != "detail"]


def _summarise(
    models: OpenModels, file: ModelFile, views: Sequence[Analysis[Any]], seal: Seal, without_views: bool
) -> Summary:
    model, made = registry.model_by_id(file.model), models.model(file)
    outline = model.outline(made)
    shown, absent = _view_infos(views, made, outline)
    default = registry.analysis_by_id(model.default_view)
    count, figures = 0, list[Figure]()
    if not without_views:
        # The page requests the default view next anyway, so its result is computed and cached now.
        count, figures = isolated(
            default.title, lambda: _first(models.part(file, default, Params())), lambda failure: (1, [])
        )
    return Summary(
        list(outline.steps),
        shown,
        read_info(outline.report),
        count,
        seal,
        outline.window,
        list(outline.all_steps),
        outline.clock,
        outline.has_replays,
        figures,
        outline.has_captures,
        absent,
        outline.device,
        device_word=outline.device_word,
        without_views=without_views,
    )


def _first(part: Part) -> tuple[int, list[Figure]]:
    return _count_data_notices(part), _key_figures(part)


def _key_figures(first: Part) -> list[Figure]:
    found: dict[str, Figure] = {}
    for payload in first.payloads.values():
        for figure in payload.figures if isinstance(payload, Figures) and payload.style == "headline" else ():
            if figure.value is not None:
                found.setdefault(figure.metric.unit, figure)
    return list(found.values())


def read_info(report: ReadReport) -> ReadInfo:
    counts = {name: getattr(report, name) for name in ReadInfo.__struct_fields__ if name != "issues"}
    issues = [
        IssueInfo(i.code, i.outcome, i.text, i.count, i.first_offset, list(i.examples), i.file) for i in report.issues
    ]
    return ReadInfo(**counts, issues=issues)


# Advice for a view whose data may be in the missing rest of a truncated file.
CUT_OFF = "Let the job finish writing the file, or record again: the missing part may contain the data."


def expected_view(analysis: Analysis[Any], device: str = "GPU") -> ViewInfo:
    """Returns the info of an available view. ``device`` is the word for the profile's devices."""
    traits = analysis.traits
    return ViewInfo(
        analysis.id,
        analysis.title,
        True,
        page=traits.page,
        page_title=page_title(traits.page, device),
        tab=traits.tab or analysis.title,
        whole=traits.phase_note,
    )


def _view_infos(views: Sequence[Analysis[Any]], made: Any, outline: Outline) -> tuple[list[ViewInfo], list[ViewInfo]]:
    shown: list[ViewInfo] = []
    absent: list[ViewInfo] = []
    for analysis in views:
        missing = missing_of(analysis, made)
        # A view without advice needs data that no recording option provides, so it is hidden.
        is_absent = missing is not None and (analysis.traits.hidden or not missing.enable)
        (absent if is_absent else shown).append(_view_info(analysis, missing, outline))
    return shown, absent


def _view_info(analysis: Analysis[Any], missing: Missing | None, outline: Outline) -> ViewInfo:
    view = expected_view(analysis, outline.device_word)
    if missing is None:
        return view
    if outline.window is not None:
        return replace(view, available=False, why=f"In the opened window: {missing.why}")
    if not outline.report.complete and missing.enable:
        return replace(view, available=False, why=f"In the readable part of the file: {missing.why}", enable=CUT_OFF)
    return replace(view, available=False, why=missing.why, enable=missing.enable)


def _count_data_notices(first: Part) -> int:
    return sum(len(p.notices) for p in first.payloads.values() if isinstance(p, Notices) and p.about == "data")
