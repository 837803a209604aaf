"""Common interface of the service for HTTP, command line and Python API.

The calling thread never parses or analyses. It either starts loading a profile and returns the loading state, or
waits for a worker process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from tb_plugin import registry
from tb_plugin.analysis.base import Params
from tb_plugin.analysis.skipped_workers import LeftOut
from tb_plugin.analysis.timeline.tiles import Tile
from tb_plugin.errors import CacheFileLost, Cancelled, NotFoundError, UnreadableTrace, UserError
from tb_plugin.payloads import Catalog, Profile, ProfileName, StepInfo, ViewInfo
from tb_plugin.service.answers.download import Download, chunks_of
from tb_plugin.service.answers.multi_profile import CHANGES, MultiProfileAnswers, Request, multi_profile_view
from tb_plugin.service.answers.part_scheduler import Mode, PartScheduler
from tb_plugin.service.answers.profile_info import (
    by_summary,
    navigation,
    profile_of,
    progress,
    unready_profile,
    with_others,
)
from tb_plugin.service.answers.questions import (
    SQL_VIEW,
    AnswerKind,
    AskNumbers,
    AskReportTimeline,
    AskSql,
    AskTiles,
    AskView,
    Numbers,
    WriteStacks,
    WriteWindow,
)
from tb_plugin.service.answers.sql_answers import SqlProfile
from tb_plugin.service.answers.step_selection import chosen_steps, window_of
from tb_plugin.service.catalog import Place, ProfileCatalog
from tb_plugin.service.discovery.scan import NOT_A_TRACE, Scanner
from tb_plugin.service.graph_captures import NONE, Captures, Opened
from tb_plugin.service.loader import Loader
from tb_plugin.service.profile_files import Root
from tb_plugin.service.states import Entry
from tb_plugin.service.summaries import VIEW
from tb_plugin.service.summaries.sources import OpenSummary, missing_trace_error
from tb_plugin.service.workers.desk import Desk
from tb_plugin.service.workers.parse import AskOffered
from tb_plugin.service.workers.pool import Workers
from tb_plugin.service.workers.question import Answer, Question
from tb_plugin.storage.cache import FileStore
from tb_plugin.storage.files import Folder

if TYPE_CHECKING:
    from tb_plugin.service.workers.model_cache import OpenModels

_PAUSE_SECONDS = 0.3
# Maximum number of cached view lists of profiles with captures.
_MAX_OFFERED = 1000

_EXPORT = ".gz"

# Parameters for the whole profile.
EVERYTHING = Params()


class Workspace:
    """Owns the catalog, the loader and the workers. Call ``close`` to stop them.

    With ``without_views``, a read computes no views. Commands that need few views use it.
    """

    def __init__(
        self, catalog: ProfileCatalog, workers: Workers, store: FileStore, without_views: bool = False
    ) -> None:
        self.catalog = catalog
        self._workers = workers
        self._store = store
        self._loader = Loader(catalog, workers, store, without_views)
        self.captures = Captures(catalog, self._loader)
        self._scheduler = PartScheduler(self._loader, self.captures, workers, store)
        self._desk = Desk(workers)
        self._several = MultiProfileAnswers(catalog, self._loader, self.captures, self._scheduler, self._desk, store)
        self._offered: dict[str, list[ViewInfo]] = {}
        catalog.ticked = self._tick
        catalog.split_merged_files()

    @cached_property
    def models(self) -> OpenModels:
        """Returns the models that this process opens itself, for queries of short-lived commands."""
        from tb_plugin.service.workers.model_cache import OpenModels

        return OpenModels()

    def find_dropped(self, path: Path) -> ProfileName:
        """Returns the profile of a dropped file. If it is none, removes it and raises UnreadableTrace."""
        self.catalog.scan()
        for entry in self.catalog.entries():
            if entry.files.root.is_dropped and path.name in entry.files.names:
                return ProfileName(*entry.key)
        reasons = [reason for where, reason in self.catalog.skipped() if Path(where) == path]
        path.unlink(missing_ok=True)
        raise UnreadableTrace(reasons[0] if reasons else NOT_A_TRACE, path.name)

    def runs(self) -> Catalog:
        return self.catalog.payload()

    def profile(self, place: Place, start: bool = True, retry: bool = False, view: str = "") -> Profile:
        """Returns the state of a profile.

        ``start`` starts loading the profile. ``retry`` starts loading even after a failure. The trace is not read
        if the rank summary is sufficient for ``view``. Raises NotFoundError, BadRequest.
        """
        entry = self.catalog.find(place)
        if view == VIEW and start and not retry and (told := self._summarised(entry)) is not None:
            return told
        if start or retry:
            self._loader.begin(entry, retry)
        profile = replace(profile_of(entry), capture=self.captures.info(entry, place.capture))
        return self._with_others(self._with_captures(profile, entry, place, start), entry)

    def _with_others(self, profile: Profile, entry: Entry) -> Profile:
        if profile.state != "ready":
            return profile
        run, _, span = entry.key
        beside = [each for each in self.catalog.entries() if (each.files.run, each.files.span) == (run, span)]
        return with_others(profile, entry, beside)

    def _with_captures(self, profile: Profile, entry: Entry, place: Place, start: bool) -> Profile:
        if profile.capture is None or not profile.capture.names or not start:
            return profile
        # Captures may add views, and all views wait for the captures anyway.
        opened = self.captures.ready(entry, place.capture)
        views = None if opened is None else self._views(opened)
        if views is not None:
            return replace(profile, views=views)
        count, loaded = self.captures.progress(entry, place.capture)
        return replace(profile, state="loading", fraction=loaded / count)

    def _summarised(self, entry: Entry) -> Profile | None:
        if entry.state != "found" or not entry.files.is_present:
            return None
        model = registry.model_of(entry.files.reader).id
        for summary in self._scheduler.summaries.all_of(entry):
            if self._scheduler.summaries.refusal(summary):
                continue
            question = OpenSummary(summary, model, entry.files.url)
            try:
                return by_summary(entry, self._desk.ask(question, key=summary.file.path, label=entry.files.url))
            except UserError:
                continue
        return None

    def offered(self, place: Place) -> list[ViewInfo]:
        """Waits for a profile and its captures, and returns the views that apply. Raises UserError."""
        for _ in range(CHANGES):
            views = self._views(self.captures.waited(self.load(place), place.capture))
            if views is not None:
                return views
        raise Cancelled("The file changed while it was read.")

    def _views(self, opened: Opened) -> list[ViewInfo] | None:
        if not opened.captures:
            return navigation(opened.entry)
        known = self._offered.get(opened.key)
        if known is None and (known := self._run(opened, AskOffered(opened.file))) is not None:
            self._offered[opened.key] = known
            if len(self._offered) > _MAX_OFFERED:
                self._offered.pop(next(iter(self._offered)), None)
        return known

    def load(self, place: Place, watch: Callable[[float], None] = lambda fraction: None) -> Entry:
        """Waits for a profile; ``watch`` gets the fraction. A changed file is loaded again, up to CHANGES times."""
        for _ in range(CHANGES):
            entry = self.catalog.find(place)
            try:
                return self._loader.wait(entry, watch)
            except Cancelled:
                if not entry.gone:
                    raise
                time.sleep(_PAUSE_SECONDS)  # until the next scan lists the new file
        raise Cancelled(f"{entry.files.url} keeps changing.")

    def view(self, place: Place, view_id: str, params: Params, steps: str = "", known: bool = False) -> bytes | Profile:
        """Returns a view or table page as JSON, or the state. ``known``: no profile is read. Raises UserError."""
        analysis = multi_profile_view(view_id) if known else None
        if analysis is not None and analysis.scope == "workers":
            return self._several.ask(Request(place, analysis, params, steps, mode="cached"))
        return self._ask(place, view_id, params, steps, "json")

    def tiles(self, place: Place, level: int, wanted: Sequence[Tile]) -> bytes | Profile:
        """Returns timeline tiles as a gzipped Arrow stream, or the loading state of the profile. Raises UserError."""
        opened = self._opened(replace(place, capture=NONE))
        if isinstance(opened, Profile):
            return opened
        answer = self._run(opened, AskTiles(opened.file, level, tuple(wanted)))
        return unready_profile(opened.entry) if answer is None else answer

    def report_timeline(
        self, place: Place, start_ns: int | None, end_ns: int | None, max_items: int
    ) -> bytes | Profile:
        """Returns a ReportTimeline as JSON, or the loading state of the profile. Raises UserError."""
        opened = self._opened(replace(place, capture=NONE))
        if isinstance(opened, Profile):
            return opened
        answer = self._run(opened, AskReportTimeline(opened.file, start_ns, end_ns, max_items))
        return unready_profile(opened.entry) if answer is None else answer

    def csv(self, place: Place, view_id: str, params: Params, steps: str = "") -> bytes | Profile:
        """Returns all matching rows of a table as CSV, or the loading state of the profile. Raises UserError."""
        return self._ask(place, view_id, params, steps, "csv")

    def arrow(self, place: Place, view_id: str, params: Params, steps: str = "") -> bytes:
        """Waits for the profile, and returns all matching rows of a table as an Arrow IPC stream. Raises UserError."""
        return self.answer(place, view_id, params, steps, "arrow")

    def answer(self, place: Place, view_id: str, params: Params, steps: str = "", kind: AnswerKind = "json") -> bytes:
        """Waits for the profiles, and returns a view or the rows of a table. Raises UserError."""
        for _ in range(CHANGES):
            if multi_profile_view(view_id) is None:
                self.load(place)
            answer = self._ask(place, view_id, params, steps, kind, "wait")
            if not isinstance(answer, Profile):
                return answer
        raise Cancelled("The file changed while it was read.")

    def numbers(
        self,
        place: Place,
        view_ids: Sequence[str] | None = None,
        steps: str = "",
        asked: Params = EVERYTHING,
        top: int | None = None,
    ) -> Numbers:
        """Waits for the profile, and returns facts, tables and notices of views.

        If ``view_ids`` is None, includes all views. Notices of the default view are always included. ``asked``
        selects a phase. ``top`` limits the rows of each table, as the pages sort them. Raises UserError.
        """
        pictures = {analysis.id for analysis in registry.analyses() if analysis.traits.place == "picture"}
        for _ in range(CHANGES):
            entry = self.load(place)
            params = replace(
                asked, steps=chosen_steps(steps, _steps_of(entry)), limit=None, ignored=self.catalog.ignored(entry)
            )
            there = [view.id for view in self.offered(place) if view.available]
            views = [view for view in there if multi_profile_view(view) is None]
            wanted = [view for view in views if (view not in pictures if view_ids is None else view in view_ids)]
            of_jobs = [
                view for view in there if (found := multi_profile_view(view)) is not None and found.scope == "workers"
            ]
            counted = [view for view in of_jobs if (view not in pictures if view_ids is None else view in view_ids)]
            opened = self.captures.waited(entry, place.capture)
            question = AskNumbers(opened.file, tuple(wanted), tuple(views[:1]), tuple(counted), params, top)
            answer = self._run(opened, question)
            if answer is not None:
                return msgspec.json.decode(answer, type=Numbers)
        raise Cancelled("The file changed while it was read.")

    def group(self, place: Place, view_id: str, params: Params, steps: str = "") -> bytes:
        """Waits for several profiles, and returns a view of them as JSON. Raises UserError."""
        if multi_profile_view(view_id) is None:
            raise NotFoundError(f"{view_id} is not a view of several profiles.", view_id, "Choose one profile.")
        return self.answer(place, view_id, params, steps)

    def window(
        self, place: Place, steps: str = "", start_ns: int | None = None, end_ns: int | None = None
    ) -> Download | Profile:
        """Returns the events in a time range as Chrome JSON, or the loading state of the profile. Raises UserError."""
        opened = self._opened(replace(place, capture=NONE))
        if isinstance(opened, Profile):
            return opened
        start_ns, end_ns = window_of(steps, _steps_of(opened.entry), start_ns, end_ns)
        write = partial(WriteWindow, opened.file, start_ns, end_ns)
        key = f"window|{opened.entry.path}|{start_ns}|{end_ns}"
        return self._download(opened, key, "window.json", write, heavy=True)

    def stacks(self, place: Place, params: Params, form: str, steps: str = "") -> Download | Profile:
        """Returns merged stacks in the format ``form``, or the loading state of the profile. Raises UserError."""
        from tb_plugin.service.answers.stack_export import SUFFIXES
        from tb_plugin.views.stacks.options import choice_of

        choice = choice_of(params)
        opened = self._opened(place)
        if isinstance(opened, Profile):
            return opened
        params = replace(params, steps=chosen_steps(steps, _steps_of(opened.entry)))
        key = f"stacks|{opened.key}|{params.chosen}|{choice}|{form}"
        write = partial(WriteStacks, opened.file, params, form)
        return self._download(opened, key, f"{choice.weight}{SUFFIXES[form]}", write)

    def _download(
        self, opened: Opened, key: str, suffix: str, write: Callable[[str], Question[str]], heavy: bool = False
    ) -> Download | Profile:
        path = self._store.get(key, _EXPORT)
        if path is None:
            path = self._store.path(key, _EXPORT)
            if self._run(opened, write(str(path)), heavy) is None:
                return unready_profile(opened.entry)
            self._store.count(path)
        name = f"{opened.entry.files.stem}.{suffix}"
        return Download(name, path.stat().st_size, chunks_of(path.open("rb")), gzipped=True)

    def original(self, place: Place) -> Download | Profile:
        """Returns the unchanged file of a profile, never any other, or the loading state. Raises UserError."""
        opened = self._opened(replace(place, capture=NONE))
        if isinstance(opened, Profile):
            return opened
        found = opened.entry.files
        if not found.is_present:
            raise missing_trace_error(found)
        file = found.files[0]
        # A loaded remote profile stays available while its storage is unreachable.
        copy = None if found.root.folder.is_local else self._loader.copied(found, file)
        stream = copy.open("rb") if copy is not None else found.root.folder.open(file)
        size = stream.seek(0, 2)
        stream.seek(0)
        return Download(Path(found.names[0]).name, size, chunks_of(stream))

    def _tick(self) -> None:
        self._loader.end_leases()
        self._scheduler.end_leases()

    def close(self) -> None:
        self.catalog.stop()
        self._workers.close()

    def _ask(
        self, place: Place, view_id: str, params: Params, steps: str, kind: AnswerKind, mode: Mode = "start"
    ) -> bytes | Profile:
        if analysis := multi_profile_view(view_id):
            return self._several.ask(Request(place, analysis, params, steps, kind, mode))
        entry = self.catalog.find(place)
        registry.analysis_by_id(view_id, registry.model_of(entry.files.reader))
        if view_id == SQL_VIEW:
            return self._ask_sql(place, params, kind, mode)
        opened = self._opened(place)
        if isinstance(opened, Profile):
            return opened
        steps_chosen = chosen_steps(steps, _steps_of(opened.entry))
        params = replace(params, steps=steps_chosen, ignored=self.catalog.ignored(opened.entry))
        answer = self._run(opened, AskView(opened.file, view_id, params, kind))
        return unready_profile(opened.entry) if answer is None else answer

    def _ask_sql(self, place: Place, params: Params, kind: AnswerKind, mode: Mode) -> bytes | Profile:
        """Answers a query over a profile, or over all ranks of its run. Unreadable ranks are skipped."""
        own = self.catalog.find(place)
        entries = [own]
        if params.get("ranks") == "all":
            model = registry.model_of(own.files.reader).id
            ranks = self.catalog.workers(replace(place, run=own.files.run, span=own.files.span))
            entries = [entry for entry in ranks if registry.model_of(entry.files.reader).id == model]
        opened: list[Opened] = []
        waiting: list[Profile] = []
        failed: list[tuple[str, UserError]] = []
        for entry in entries:
            asked = Place(*entry.key, place.window, place.capture if entry.key == own.key else "")
            try:
                if mode == "wait":
                    self.load(asked)
                found = self._opened(asked)
            except UserError as error:
                if len(entries) == 1:
                    raise
                failed.append((entry.files.worker, error))
                continue
            opened += [found] if isinstance(found, Opened) else []
            waiting += [found] if isinstance(found, Profile) else []
        if waiting:
            return progress(own, len(entries), len(opened) + len(failed) + sum(each.fraction for each in waiting))
        if not opened:
            raise failed[0][1]
        profiles = tuple(SqlProfile(each.entry.key, each.file) for each in opened)
        skipped = LeftOut(tuple((worker, error.what) for worker, error in failed)).params()
        params = replace(params, extra=(*((key, text) for key, text in params.extra if key == "query"), *skipped))
        answer = self._run(opened[0], AskSql(profiles, params, kind), others=opened[1:])
        return unready_profile(own) if answer is None else answer

    def _opened(self, place: Place) -> Opened | Profile:
        """Returns a loaded profile with its captures, or the loading state. Raises UserError."""
        entry = self._loader.ready(self.catalog.find(place))
        if entry.summary is None:
            return unready_profile(entry)
        opened = self.captures.ready(entry, place.capture)
        return progress(entry, *self.captures.progress(entry, place.capture)) if opened is None else opened

    def _run(
        self, opened: Opened, question: Question[Answer], heavy: bool = False, others: Sequence[Opened] = ()
    ) -> Answer | None:
        """Returns the answer, or None if the columns are missing and loaded again. Raises its error."""
        if not opened.entry.files.is_present:
            raise missing_trace_error(opened.entry.files)
        try:
            return self._desk.ask(question, key=opened.entry.path, label=opened.entry.files.url, heavy=heavy)
        except CacheFileLost as error:
            lost = next((each.entry for each in others if each.entry.path == error.where), opened.lost(error))
            self._loader.lose(lost)
            self._loader.begin(lost)
            return None


def open_catalog(locations: Sequence[tuple[str, str]], dropped: Path | None = None) -> ProfileCatalog:
    """Returns the catalog of (name, path or URL) pairs, and of a folder of dropped files. Does not scan them yet."""
    roots = [Root(Folder(url), name) for name, url in locations]
    if dropped is not None:
        roots.append(Root(Folder(str(dropped)), dropped.name, is_dropped=True))
    return ProfileCatalog(Scanner(roots, registry.readers()))


def _steps_of(entry: Entry) -> Sequence[StepInfo]:
    return entry.summary.steps if entry.summary else ()
