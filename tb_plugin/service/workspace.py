"""Common interface of the service for HTTP, command line and Python API.

The calling thread never parses or analyses. It either starts loading a profile and returns the loading state, or
waits for a worker process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace
from msgspec.structs import replace as replace_struct

from tb_plugin import registry
from tb_plugin.analysis.base import Analysis, Params
from tb_plugin.analysis.timeline.tiles import Tile
from tb_plugin.errors import CacheFileLost, CacheRefused, Cancelled, NotFoundError, UserError
from tb_plugin.payloads import Catalog, Profile, ViewInfo
from tb_plugin.service.answers.multi_profile import CHANGES, MultiProfileAnswers, OfSeveral, multi_profile_view
from tb_plugin.service.answers.part_scheduler import PartScheduler, progress
from tb_plugin.service.answers.profile_info import by_summary, navigation, profile_of, unready_profile, with_others
from tb_plugin.service.answers.profile_questions import (
    AskArrow,
    AskCsv,
    AskNumbers,
    AskTiles,
    AskView,
    Numbers,
    WriteStacks,
    WriteWindow,
)
from tb_plugin.service.answers.step_selection import chosen_steps, window_of
from tb_plugin.service.catalog import Place, ProfileCatalog
from tb_plugin.service.discovery.scan import Scanner
from tb_plugin.service.graph_captures import Captures, Opened
from tb_plugin.service.loader import Loader, file_of
from tb_plugin.service.profile_files import Root
from tb_plugin.service.states import Entry
from tb_plugin.service.summaries import VIEW
from tb_plugin.service.workers.model_cache import ModelFile
from tb_plugin.service.workers.parse import AskOffered
from tb_plugin.service.workers.pool import Workers
from tb_plugin.service.workers.question import Question
from tb_plugin.service.workers.request import Answer
from tb_plugin.service.workers.request_dedup import Desk
from tb_plugin.storage.cache import FileStore
from tb_plugin.storage.files import Folder

if TYPE_CHECKING:
    from tb_plugin.service.answers.download import Download
    from tb_plugin.service.summaries.dask_cluster import Scheduler

_PAUSE_SECONDS = 0.3
# Maximum number of cached view lists of profiles with captures.
_MAX_OFFERED = 1000

# Parameters for the whole profile.
EVERYTHING = Params()

# Builds a question from a loaded profile, a view and parameters.
_OfOne = Callable[[ModelFile, str, Params], Question[bytes]]


class Workspace:
    """Owns the catalog, the loader and the workers. Call ``close`` to stop them."""

    def __init__(
        self, catalog: ProfileCatalog, workers: Workers, store: FileStore, scheduler: Scheduler | None = None
    ) -> None:
        self.catalog = catalog
        self._workers = workers
        self._store = store
        self._loader = Loader(catalog, workers, store)
        self.captures = Captures(catalog, self._loader)
        self._cluster = None
        if scheduler is not None:
            from tb_plugin.service.answers.background_parts import ClusterParts

            self._cluster = ClusterParts(scheduler, workers, store)
        self._team = PartScheduler(self._loader, self.captures, workers, store, self._cluster)
        self._desk = Desk(workers)
        self._several = MultiProfileAnswers(catalog, self._loader, self.captures, self._team, self._desk, store)
        self._offered: dict[str, list[ViewInfo]] = {}
        catalog.ticked = self._tick
        catalog.split_merged_files()

    def runs(self) -> Catalog:
        """Returns the content of the log directories."""
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
        profile = replace_struct(profile_of(entry), capture=self.captures.info(entry, place.capture))
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
            return replace_struct(profile, views=views)
        count, loaded = self.captures.progress(entry, place.capture)
        return replace_struct(profile, state="loading", fraction=loaded / count)

    def _summarised(self, entry: Entry) -> Profile | None:
        if entry.state != "found" or not entry.files.is_present:
            return None
        model = registry.model_of(entry.files.reader).id
        from tb_plugin.service.profiles_without_trace import OpenSummary

        for summary in self._team.summaries.all_of(entry):
            if self._team.summaries.coming([summary]):
                return progress(entry, 1, 0.0)
            if self._team.summaries.refusal(summary):
                continue
            question = OpenSummary(summary.file, model, entry.files.url, summary.wanted)
            try:
                return by_summary(entry, self._desk.ask(question, summary.file.path, entry.files.url))
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
        """Waits until a profile is loaded. ``watch`` is called with the loaded fraction.

        If the file changes during loading, the load is repeated up to CHANGES times. Raises the error of a failed
        load.
        """
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
        """Returns a view or one page of a table as JSON, or the loading state of the profile.

        If ``known`` is set, a view of all workers is computed only from cached inputs, and no profile is read.
        Raises UserError.
        """
        analysis = multi_profile_view(view_id) if known else None
        from tb_plugin.service.answers.multi_questions import AskMultiView

        if analysis is not None and analysis.scope == "workers":
            return self._several.cached_answer(AskMultiView, place, analysis, params, steps)
        return self._ask((AskView, AskMultiView), place, view_id, params, steps)

    def tiles(self, place: Place, level: int, wanted: Sequence[Tile]) -> bytes | Profile:
        """Returns timeline tiles as a gzipped Arrow stream, or the loading state of the profile. Raises UserError."""
        entry = self._loader.ready(self.catalog.find(place))
        if entry.summary is None:
            return unready_profile(entry)
        answer = self._run(Opened(entry), AskTiles(file_of(entry), level, tuple(wanted)))
        return unready_profile(entry) if answer is None else answer

    def csv(self, place: Place, view_id: str, params: Params, steps: str = "") -> bytes | Profile:
        """Returns all matching rows of a table as CSV, or the loading state of the profile. Raises UserError."""
        from tb_plugin.service.answers.multi_questions import AskMultiCsv

        return self._ask((AskCsv, AskMultiCsv), place, view_id, params, steps)

    def arrow(self, place: Place, view_id: str, params: Params, steps: str = "") -> bytes:
        """Waits for the profile, and returns all matching rows of a table as an Arrow IPC stream.

        Raises UserError.
        """
        from tb_plugin.service.answers.multi_questions import AskMultiArrow

        if analysis := multi_profile_view(view_id):
            return self._waited(AskMultiArrow, place, analysis, params, steps)
        for _ in range(CHANGES):
            self.load(place)
            answer = self._ask((AskArrow, AskMultiArrow), place, view_id, params, steps)
            if not isinstance(answer, Profile):
                return answer
        raise Cancelled("The file changed while it was read.")

    def numbers(
        self, place: Place, view_ids: Sequence[str] | None = None, steps: str = "", asked: Params = EVERYTHING
    ) -> Numbers:
        """Waits for the profile, and returns facts, tables and notices of views.

        If ``view_ids`` is None, includes all views. Notices of the default view are always included. ``asked``
        selects a phase. Raises UserError.
        """
        pictures = {analysis.id for analysis in registry.analyses() if analysis.traits.place == "picture"}
        for _ in range(CHANGES):
            entry = self.load(place)
            params = replace(asked, steps=_steps(entry, steps), limit=None, ignored=self.catalog.ignored(entry))
            there = [view.id for view in self.offered(place) if view.available]
            views = [view for view in there if multi_profile_view(view) is None]
            wanted = [view for view in views if (view not in pictures if view_ids is None else view in view_ids)]
            of_jobs = [
                view for view in there if (found := multi_profile_view(view)) is not None and found.scope == "workers"
            ]
            counted = [view for view in of_jobs if (view not in pictures if view_ids is None else view in view_ids)]
            opened = self.captures.waited(entry, place.capture)
            question = AskNumbers(opened.file, tuple(wanted), tuple(views[:1]), tuple(counted), params)
            answer = self._run(opened, question)
            if answer is not None:
                return msgspec.json.decode(answer, type=Numbers)
        raise Cancelled("The file changed while it was read.")

    def group(self, place: Place, view_id: str, params: Params, steps: str = "") -> bytes:
        """Waits for several profiles, and returns a view of them as JSON. Raises UserError."""
        analysis = multi_profile_view(view_id)
        if analysis is None:
            raise NotFoundError(f"{view_id} is not a view of several profiles.", view_id, "Choose one profile.")
        from tb_plugin.service.answers.multi_questions import AskMultiView

        return self._waited(AskMultiView, place, analysis, params, steps)

    def window(
        self, place: Place, steps: str = "", start_ns: int | None = None, end_ns: int | None = None
    ) -> Download | Profile:
        """Returns the events in a time range as Chrome JSON, or the loading state of the profile. Raises UserError."""
        entry = self._loader.ready(self.catalog.find(place))
        if entry.summary is None:
            return unready_profile(entry)
        start_ns, end_ns = window_of(steps, entry.summary.steps, start_ns, end_ns)
        key = f"window|{entry.path}|{start_ns}|{end_ns}"
        write = partial(WriteWindow, file_of(entry), start_ns, end_ns)
        path = self._written(Opened(entry), key, ".json.gz", write, heavy=True)
        if path is None:
            return unready_profile(entry)
        from tb_plugin.service.answers.download import Download, chunks_of

        return Download(f"{entry.files.stem}.window.json", path.stat().st_size, chunks_of(path), gzipped=True)

    def stacks(self, place: Place, params: Params, form: str, steps: str = "") -> Download | Profile:
        """Returns merged stacks in the format ``form``, or the loading state of the profile. Raises UserError."""
        from tb_plugin.service.answers.stack_export import SUFFIXES
        from tb_plugin.views.stacks.options import choice_of

        choice = choice_of(params)
        entry = self._loader.ready(self.catalog.find(place))
        if entry.summary is None:
            return unready_profile(entry)
        opened = self.captures.ready(entry, place.capture)
        if opened is None:
            return progress(entry, *self.captures.progress(entry, place.capture))
        params = replace(params, steps=_steps(entry, steps))
        key = f"stacks|{opened.key}|{params.chosen}|{choice}|{form}"
        path = self._written(opened, key, ".stacks.gz", partial(WriteStacks, opened.file, params, form))
        if path is None:
            return unready_profile(entry)
        name = f"{entry.files.stem}.{choice.weight}{SUFFIXES[form]}"
        from tb_plugin.service.answers.download import Download, chunks_of

        return Download(name, path.stat().st_size, chunks_of(path), gzipped=True)

    def _written(
        self, opened: Opened, key: str, suffix: str, write: Callable[[str], Question[str]], heavy: bool = False
    ) -> Path | None:
        path = self._store.get(key, suffix)
        if path is not None:
            return path
        path = self._store.path(key, suffix)
        try:
            if self._run(opened, write(str(path)), heavy) is None:
                return None
        except CacheRefused as error:
            if not self._store.leave(error):
                raise
            return self._written(opened, key, suffix, write, heavy)
        self._store.count(path)
        return path

    def original(self, place: Place) -> Download | Profile:
        """Returns the unchanged file of a loaded profile, or the loading state.

        Never returns any other file, even if its name looks like a trace. Raises UserError.
        """
        entry = self._loader.ready(self.catalog.find(place))
        if entry.summary is None:
            return unready_profile(entry)
        if not entry.files.is_present:
            from tb_plugin.service.profiles_without_trace import missing_trace_error

            raise missing_trace_error(entry.files)
        found, file = entry.files, entry.files.files[0]
        # A loaded remote profile stays available while its storage is unreachable.
        copy = None if found.root.folder.is_local else self._loader.copied(found, file)
        stream = copy.open("rb") if copy is not None else found.root.folder.open(file)

        from tb_plugin.service.answers.download import CHUNK_BYTES

        def chunks() -> Iterator[bytes]:
            with stream:
                while chunk := stream.read(CHUNK_BYTES):
                    yield chunk

        size = stream.seek(0, 2)
        stream.seek(0)
        from tb_plugin.service.answers.download import Download

        return Download(Path(found.names[0]).name, size, chunks())

    def _tick(self) -> None:
        self._loader.end_leases()
        self._team.end_leases()

    def close(self) -> None:
        """Stops the background scan and the workers."""
        if self._cluster is not None:
            self._cluster.close()
        self.catalog.stop()
        self._workers.close()

    def _ask(
        self, ask: tuple[_OfOne, OfSeveral], place: Place, view_id: str, params: Params, steps: str
    ) -> bytes | Profile:
        if analysis := multi_profile_view(view_id):
            return self._several.ask(ask[1], place, analysis, params, steps)
        entry = self.catalog.find(place)
        registry.analysis_by_id(view_id, registry.model_of(entry.files.reader))
        if self._loader.ready(entry).summary is None:
            return unready_profile(entry)
        opened = self.captures.ready(entry, place.capture)
        if opened is None:
            return progress(entry, *self.captures.progress(entry, place.capture))
        params = replace(params, steps=_steps(entry, steps), ignored=self.catalog.ignored(entry))
        answer = self._run(opened, ask[0](opened.file, view_id, params))
        return unready_profile(entry) if answer is None else answer

    def _waited(self, ask: OfSeveral, place: Place, analysis: Analysis[Any], params: Params, steps: str) -> bytes:
        answer = self._several.ask(ask, place, analysis, params, steps, wait=True)
        if isinstance(answer, Profile):
            raise Cancelled("The file changed while it was read.")
        return answer

    def _run(self, opened: Opened, question: Question[Answer], heavy: bool = False) -> Answer | None:
        """Returns the answer of a worker about a loaded profile.

        If the columns are missing, loads the profile again and returns None. Raises the error of the question.
        """
        if not opened.entry.files.is_present:
            from tb_plugin.service.profiles_without_trace import missing_trace_error

            raise missing_trace_error(opened.entry.files)
        try:
            return self._desk.ask(question, opened.entry.path, opened.entry.files.url, heavy)
        except CacheFileLost as error:
            lost = opened.lost(error)
            self._loader.lose(lost)
            self._loader.begin(lost)
            return None


def open_catalog(locations: Sequence[tuple[str, str]]) -> ProfileCatalog:
    """Returns the catalog of (name, path or URL) pairs. Does not scan them yet."""
    folders = [(name, Folder(url)) for name, url in locations]
    return ProfileCatalog(Scanner([Root(folder, name) for name, folder in folders], registry.readers()))


def _steps(entry: Entry, text: str) -> tuple[str, ...] | None:
    return chosen_steps(text, entry.summary.steps if entry.summary else ())
