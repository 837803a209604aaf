"""The one object behind HTTP, command line and Python API: questions in, payload bytes out.

The thread that asks never parses and never analyses: it begins to load a profile and gets its state, or waits for the
answer of a worker.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace as replace_struct

from tb_plugin import registry
from tb_plugin.analyses.base import Analysis, Joining, Params, asked_of
from tb_plugin.analyses.stacks import choice_of
from tb_plugin.analyses.timeline.tiles import Tile
from tb_plugin.errors import CacheRefused, Cancelled, KeptLost, NotFound, UserError
from tb_plugin.payloads import Catalog, Profile, ViewInfo
from tb_plugin.service.answers import AskArrow, AskCsv, AskNumbers, AskTiles, AskView, Numbers, WriteStacks, WriteWindow
from tb_plugin.service.asking import Desk
from tb_plugin.service.away import OpenSummary, not_here
from tb_plugin.service.captures import Captures, Opened
from tb_plugin.service.catalog import PARTS, Place, ProfileCatalog
from tb_plugin.service.cluster import Scheduler
from tb_plugin.service.cluster_parts import ClusterParts
from tb_plugin.service.discovery import Scanner
from tb_plugin.service.download import CHUNK_BYTES, Download, chunks_of
from tb_plugin.service.found import Root
from tb_plugin.service.job import Answer
from tb_plugin.service.loader import Loader, file_of
from tb_plugin.service.opened import ModelFile
from tb_plugin.service.parse import AskOffered, Ready
from tb_plugin.service.pool import Workers
from tb_plugin.service.profiles import by_summary, later, navigation, profile_of
from tb_plugin.service.question import Question
from tb_plugin.service.rank_summary import VIEW
from tb_plugin.service.stack_files import SUFFIXES
from tb_plugin.service.states import Entry
from tb_plugin.service.step_choice import chosen_steps, window_of
from tb_plugin.service.team import Team, progress
from tb_plugin.service.together import AskArrowTogether, AskCsvTogether, AskViewTogether, WriteJoined
from tb_plugin.storage.cache import FileStore
from tb_plugin.storage.files import Folder

CHANGES = 10
"""How often what is read may change or vanish under way before a caller that waits gives up."""
_PAUSE_SECONDS = 0.3
_OFFERED = 1000
"""So many profiles with captures keep the views that they are offered; the first of them go first."""
_NAMED = 5
"""Workers of a run that a message names."""

EVERYTHING = Params()
"""A question about all of a profile."""

_OfOne = Callable[[ModelFile, str, Params], Question[bytes]]
"""Makes a question of a loaded profile, a view and parameters."""
_OfSeveral = Callable[[tuple[tuple[str, str], ...], str, Params, str], Question[bytes]]
"""Makes a question of (worker, file of its part) pairs, a view, parameters and a choice of steps."""


class Workspace:
    """Owns the catalog, the loader and the workers; ``close`` ends them."""

    def __init__(
        self, catalog: ProfileCatalog, workers: Workers, store: FileStore, scheduler: Scheduler | None = None
    ) -> None:
        self.catalog = catalog
        self._workers = workers
        self._store = store
        self._loader = Loader(catalog, workers, store)
        self.captures = Captures(catalog, self._loader)
        self._cluster = None if scheduler is None else ClusterParts(scheduler, workers, store)
        self._team = Team(self._loader, self.captures, workers, store, self._cluster)
        self._desk = Desk(workers)
        self._offered: dict[str, list[ViewInfo]] = {}
        catalog.ticked = self._tick
        self._warmed = False

    def runs(self) -> Catalog:
        """Returns everything the log directories hold."""
        return self.catalog.payload()

    def warm(self) -> None:
        """Starts a worker ahead of the first question, once: with its libraries loaded it answers at once."""
        if not self._warmed:
            self._warmed = True
            self._workers.submit(Ready())

    def profile(self, place: Place, start: bool = True, retry: bool = False, view: str = "") -> Profile:
        """Returns the state of a profile; begins to load it when ``start``, also after a failure when ``retry``.

        For a ``view`` that a rank summary answers the trace is not read. Raises NotFound, BadRequest.
        """
        entry = self.catalog.find(place)
        if view == VIEW and start and not retry and (told := self._summarised(entry)) is not None:
            return told
        if start or retry:
            self._loader.begin(entry, retry)
        profile = replace_struct(profile_of(entry), capture=self.captures.info(entry, place.capture))
        if profile.capture is None or not profile.capture.names or not start:
            return profile
        # Which views there are, the captures say, too: all of them wait for these anyway.
        opened = self.captures.ready(entry, place.capture)
        views = None if opened is None else self._views(opened)
        if views is not None:
            return replace_struct(profile, views=views)
        count, loaded = self.captures.progress(entry, place.capture)
        return replace_struct(profile, state="loading", fraction=loaded / count)

    def _summarised(self, entry: Entry) -> Profile | None:
        """What the rank summary of a profile tells, whose trace nobody has read; None without one that can be used."""
        if entry.state != "found" or not entry.found.is_here:
            return None
        summaries = self._team.summaries
        summaries.begin([entry])
        taken = summaries.of(entry)
        if taken is None or taken.refused:
            return None
        file = None if taken.path is None else summaries.file_of(entry)
        if file is None:
            return progress(entry, 1, 0.0)
        question = OpenSummary(file, registry.model_of(entry.found.reader).id, entry.found.url)
        try:
            return by_summary(entry, self._desk.ask(question, os.fspath(file), entry.found.url))
        except UserError:
            return None

    def offered(self, place: Place) -> list[ViewInfo]:
        """Returns the views of a profile, with what its captures tell; waits until all are loaded. Raises UserError."""
        for _ in range(CHANGES):
            views = self._views(self.captures.waited(self.load(place), place.capture))
            if views is not None:
                return views
        raise Cancelled("The file changed while it was read.")

    def _views(self, opened: Opened) -> list[ViewInfo] | None:
        """The views of a loaded profile; None when the columns are lost, and load anew."""
        if not opened.captures:
            return navigation(opened.entry)
        known = self._offered.get(opened.key)
        if known is None and (known := self._run(opened, AskOffered(opened.file))) is not None:
            self._offered[opened.key] = known
            if len(self._offered) > _OFFERED:
                self._offered.pop(next(iter(self._offered)), None)
        return known

    def load(self, place: Place, watch: Callable[[float], None] = lambda fraction: None) -> Entry:
        """Loads a profile and waits, telling ``watch`` the fraction done. Raises the UserError that it failed with.

        A file that is replaced meanwhile is read again, until it has stood still for one read or CHANGES were seen.
        """
        for _ in range(CHANGES):
            entry = self.catalog.find(place)
            try:
                return self._loader.wait(entry, watch)
            except Cancelled:
                if not entry.gone:
                    raise
                time.sleep(_PAUSE_SECONDS)  # until the scan has seen the new file
        raise Cancelled(f"{entry.found.url} changes all the time.")

    def view(self, place: Place, view_id: str, params: Params, steps: str = "") -> bytes | Profile:
        """Returns the JSON of a view, or of one page of a table; the Profile when it is not loaded yet. Raises UserError."""
        return self._ask((AskView, AskViewTogether), place, view_id, params, steps)

    def tiles(self, place: Place, level: int, wanted: Sequence[Tile]) -> bytes | Profile:
        """Tiles of the timeline as a gzipped Arrow stream; the Profile when it is not loaded yet. Raises UserError."""
        entry = self._loader.ready(self.catalog.find(place))
        if entry.summary is None:
            return later(entry)
        answer = self._run(Opened(entry), AskTiles(file_of(entry), level, tuple(wanted)))
        return later(entry) if answer is None else answer

    def csv(self, place: Place, view_id: str, params: Params, steps: str = "") -> bytes | Profile:
        """Returns all matching rows of a table as CSV; the Profile when it is not loaded yet. Raises UserError."""
        return self._ask((AskCsv, AskCsvTogether), place, view_id, params, steps)

    def arrow(self, place: Place, view_id: str, params: Params, steps: str = "") -> bytes:
        """Returns a whole table as an Arrow IPC stream; waits until the profile is loaded. Raises UserError."""
        if analysis := _of_several(view_id):
            return self._waited(AskArrowTogether, place, analysis, params, steps)
        for _ in range(CHANGES):
            self.load(place)
            answer = self._ask((AskArrow, AskArrowTogether), place, view_id, params, steps)
            if not isinstance(answer, Profile):
                return answer
        raise Cancelled("The file changed while it was read.")

    def numbers(
        self, place: Place, view_ids: Sequence[str] | None = None, steps: str = "", asked: Params = EVERYTHING
    ) -> Numbers:
        """Returns facts and whole tables of views (None = all), and notices of these and of the first view.

        ``asked`` chooses a phase. Waits until the profile is loaded. Raises UserError.
        """
        pictures = {analysis.id for analysis in registry.analyses() if analysis.traits.place == "picture"}
        for _ in range(CHANGES):
            entry = self.load(place)
            params = replace(asked, steps=_steps(entry, steps), limit=None, ignored=self.catalog.ignored(entry))
            there = [view.id for view in self.offered(place) if view.available]
            views = [view for view in there if _of_several(view) is None]
            wanted = [view for view in views if (view not in pictures if view_ids is None else view in view_ids)]
            of_jobs = [view for view in there if (found := _of_several(view)) is not None and found.scope == "workers"]
            counted = [view for view in of_jobs if (view not in pictures if view_ids is None else view in view_ids)]
            opened = self.captures.waited(entry, place.capture)
            question = AskNumbers(opened.file, tuple(wanted), tuple(views[:1]), tuple(counted), params)
            answer = self._run(opened, question)
            if answer is not None:
                return msgspec.json.decode(answer, type=Numbers)
        raise Cancelled("The file changed while it was read.")

    def group(self, place: Place, view_id: str, params: Params, steps: str = "") -> bytes:
        """Returns ``view`` about several profiles; waits until they are loaded. Raises UserError."""
        analysis = _of_several(view_id)
        if analysis is None:
            raise NotFound(f"{view_id} is no view of several profiles.", view_id, "Ask for one profile.")
        return self._waited(AskViewTogether, place, analysis, params, steps)

    def window(
        self, place: Place, steps: str = "", start_ns: int | None = None, end_ns: int | None = None
    ) -> Download | Profile:
        """Returns the events of a window as Chrome JSON; the Profile when it is not loaded yet. Raises UserError."""
        entry = self._loader.ready(self.catalog.find(place))
        if entry.summary is None:
            return later(entry)
        start_ns, end_ns = window_of(steps, entry.summary.steps, start_ns, end_ns)
        key = f"window|{entry.path}|{start_ns}|{end_ns}"
        write = partial(WriteWindow, file_of(entry), start_ns, end_ns)
        path = self._written(Opened(entry), key, ".json.gz", write, heavy=True)
        if path is None:
            return later(entry)
        return Download(f"{entry.found.stem}.window.json", path.stat().st_size, chunks_of(path), gzipped=True)

    def stacks(self, place: Place, params: Params, form: str, steps: str = "") -> Download | Profile:
        """Returns merged stacks as a file of that form; the Profile when it is not loaded yet. Raises UserError."""
        choice = choice_of(params)
        entry = self._loader.ready(self.catalog.find(place))
        if entry.summary is None:
            return later(entry)
        opened = self.captures.ready(entry, place.capture)
        if opened is None:
            return progress(entry, *self.captures.progress(entry, place.capture))
        params = replace(params, steps=_steps(entry, steps))
        key = f"stacks|{opened.key}|{params.chosen}|{choice}|{form}"
        path = self._written(opened, key, ".stacks.gz", partial(WriteStacks, opened.file, params, form))
        if path is None:
            return later(entry)
        name = f"{entry.found.stem}.{choice.weight}{SUFFIXES[form]}"
        return Download(name, path.stat().st_size, chunks_of(path), gzipped=True)

    def _written(
        self, opened: Opened, key: str, suffix: str, write: Callable[[str], Question[str]], heavy: bool = False
    ) -> Path | None:
        """The file that a worker wrote for that key, now or before; None when the columns are lost, and load anew."""
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
        self._store.evict(keep=path)
        return path

    def original(self, place: Place) -> Download | Profile:
        """Returns the stored file of a loaded profile, unchanged; the Profile when it is not loaded yet. Raises UserError.

        Nothing is handed out that was not read as a profile: any file may be given a trace's name.
        """
        entry = self._loader.ready(self.catalog.find(place))
        if entry.summary is None:
            return later(entry)
        if not entry.found.is_here:
            raise not_here(entry.found)
        found, file = entry.found, entry.found.files[0]
        # What was loaded stays usable while its store is away.
        copy = None if found.root.folder.is_local else self._loader.copied(found, file)
        stream = copy.open("rb") if copy is not None else found.root.folder.open(file)

        def chunks() -> Iterator[bytes]:
            with stream:
                while chunk := stream.read(CHUNK_BYTES):
                    yield chunk

        size = stream.seek(0, 2)
        stream.seek(0)
        return Download(Path(found.names[0]).name, size, chunks())

    def _tick(self) -> None:
        """Ends what nobody asks about any more."""
        self._loader.end_leases()
        self._team.end_leases()

    def close(self) -> None:
        """Ends the scan and the workers."""
        if self._cluster is not None:
            self._cluster.close()
        self.catalog.stop()
        self._workers.close()

    def _ask(
        self, ask: tuple[_OfOne, _OfSeveral], place: Place, view_id: str, params: Params, steps: str
    ) -> bytes | Profile:
        """The answer to either question, by what the view speaks of; the Profile when it is not loaded yet."""
        if analysis := _of_several(view_id):
            return self._of_several(ask[1], place, analysis, params, steps)
        entry = self.catalog.find(place)
        registry.analysis_named(view_id, registry.model_of(entry.found.reader))
        if self._loader.ready(entry).summary is None:
            return later(entry)
        opened = self.captures.ready(entry, place.capture)
        if opened is None:
            return progress(entry, *self.captures.progress(entry, place.capture))
        params = replace(params, steps=_steps(entry, steps), ignored=self.catalog.ignored(entry))
        answer = self._run(opened, ask[0](opened.file, view_id, params))
        return later(entry) if answer is None else answer

    def _waited(self, ask: _OfSeveral, place: Place, analysis: Analysis[Any], params: Params, steps: str) -> bytes:
        answer = self._of_several(ask, place, analysis, params, steps, wait=True)
        if isinstance(answer, Profile):
            raise Cancelled("The file changed while it was read.")
        return answer

    def _of_several(
        self, ask: _OfSeveral, place: Place, analysis: Analysis[Any], params: Params, steps: str, wait: bool = False
    ) -> bytes | Profile:
        """Has a worker combine the parts of several profiles; their common state while they are not there."""
        params = asked_of(analysis, params)
        gather = self._of_pair if analysis.scope == "pair" else self._of_workers
        for _ in range(CHANGES):
            try:
                return gather(ask, place, analysis, params, steps, wait)
            except KeptLost as error:  # a part; it is computed again
                self._store.remove(Path(error.where))
        raise Cancelled("The cache is cleared all the time.")

    def _of_workers(
        self, ask: _OfSeveral, place: Place, analysis: Analysis[Any], params: Params, steps: str, wait: bool
    ) -> bytes | Profile:
        """About all workers of a run and span, as far as they are what the view is about."""
        every = self.catalog.workers(place)
        capture = self.captures.for_all(place.capture, place.worker, len(every))
        entries = [one for one in every if registry.model_of(one.found.reader).type is analysis.model] or every
        state = self._team.gather(entries, analysis, replace(params, steps=None), wait, capture)
        if state.waiting:
            return progress(entries[0], len(entries), state.fraction)
        if not state.ready:
            raise state.failed[0][1]
        if state.failed:
            names = ", ".join(f"{worker} ({error.what})" for worker, error in state.failed)
            params = replace(params, extra=(*params.extra, ("failed", names)))
        if state.refused:
            params = replace(params, extra=(*params.extra, ("refused", _by_reason(state.refused))))
        about = _about(analysis, state.ready)
        if not isinstance(analysis, Joining):
            return self._combine(ask, state.ready, analysis, params, steps, about)
        others = self._beside(entries[0], analysis)
        beside: list[tuple[str, str]] = []
        if others:
            found = self._team.gather(others, registry.analysis_named(analysis.traits.beside), EVERYTHING, wait)
            if found.waiting:
                return progress(entries[0], len(entries) + len(others), state.fraction + found.fraction)
            beside = found.ready
        joined = self._joined(state.ready, beside, analysis, about)
        return self._combine(ask, [("", joined)], analysis, params, steps, about)

    def _beside(self, entry: Entry, analysis: Analysis[Any]) -> list[Entry]:
        """The profiles of another kind in the run of an entry that the view wants to know of, the last of each worker."""
        if not analysis.traits.beside:
            return []
        kind = registry.analysis_named(analysis.traits.beside).model
        found = self.catalog.matching(Place(entry.found.run))
        return list(
            {one.found.worker: one for one in found if registry.model_of(one.found.reader).type is kind}.values()
        )

    def _joined(
        self,
        parts: Sequence[tuple[str, str]],
        beside: Sequence[tuple[str, str]],
        analysis: Analysis[Any],
        about: str,
    ) -> str:
        """The file of parts, (worker, file) each, as one; a worker makes it once. Raises UserError."""
        key, suffix = f"joined|{analysis.id}|{parts!r}|{beside!r}", ".joined"
        for _ in range(CHANGES):
            if path := self._store.get(key, suffix):
                return str(path)
            target = str(self._store.path(key, suffix))
            try:
                self._desk.ask(WriteJoined(tuple(parts), tuple(beside), analysis.id, target), key, about)
            except CacheRefused as error:
                if not self._store.leave(error):
                    raise
                continue
            self._store.evict(keep=Path(target))
        raise Cancelled("The cache is cleared all the time.")

    def _of_pair(
        self, ask: _OfSeveral, place: Place, analysis: Analysis[Any], params: Params, steps: str, wait: bool
    ) -> bytes | Profile:
        """About a baseline and an experiment, each with its own steps; by default all that it has. Raises UserError."""
        exp = self.catalog.find(place)
        base = self.catalog.find(_baseline(exp, params))
        ready: list[tuple[str, str]] = []
        fraction = 0.0
        sides = ((base, params.get("base_steps"), params.get("base_capture")), (exp, steps, place.capture))
        for entry, text, named in sides:
            loaded = self._loader.wait(entry, lambda fraction: None) if wait else self._loader.ready(entry)
            if loaded.summary is None:
                fraction += entry.fraction
                continue
            only = self.captures.for_all(named, None, 1)
            labels = chosen_steps(text, loaded.summary.steps) or tuple(step.label for step in loaded.summary.steps)
            state = self._team.gather([entry], analysis, replace(params, steps=labels or None), wait, only)
            if state.failed:
                raise state.failed[0][1]
            ready += state.ready
            fraction += state.fraction
        if len(ready) < 2:
            return progress(exp, 2, fraction)
        return self._combine(ask, ready, analysis, params, "", _about(analysis, ready))

    def _combine(
        self,
        ask: _OfSeveral,
        ready: Sequence[tuple[str, str]],
        analysis: Analysis[Any],
        params: Params,
        steps: str,
        about: str,
    ) -> bytes:
        key = "|".join(path for _, path in ready)
        return self._desk.ask(ask(tuple(ready), analysis.id, params, steps), key, about)

    def _run(self, opened: Opened, question: Question[Answer], heavy: bool = False) -> Answer | None:
        """Has a worker answer a question about a loaded profile; None when its columns are lost, and it loads anew.

        Raises what the answer raised.
        """
        if not opened.entry.found.is_here:
            raise not_here(opened.entry.found)
        try:
            return self._desk.ask(question, opened.entry.path, opened.entry.found.url, heavy)
        except KeptLost as error:
            lost = opened.lost(error)
            self._loader.lose(lost)
            self._loader.begin(lost)
            return None


def open_catalog(locations: Sequence[tuple[str, str]]) -> ProfileCatalog:
    """Returns the profiles of (name, path or URL) pairs; nothing is scanned yet."""
    folders = [(name, Folder(url)) for name, url in locations]
    return ProfileCatalog(Scanner([Root(folder, name) for name, folder in folders], registry.readers()))


def _by_reason(refused: Sequence[tuple[str, str]]) -> str:
    """Workers by the reason that several of them may share."""
    workers: dict[str, list[str]] = {}
    for worker, why in refused:
        workers.setdefault(why, []).append(worker)
    told = []
    for why, names in list(workers.items())[:_NAMED]:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        told.append(f"{', '.join(names[:_NAMED])}{more} ({why})")
    return "; ".join(told)


def _about(analysis: Analysis[Any], parts: Sequence[tuple[str, str]]) -> str:
    """What the log says a question is about."""
    named = ", ".join(worker for worker, _ in parts[:_NAMED]) + (", ..." if len(parts) > _NAMED else "")
    return f"{analysis.title} of {named}"


def _of_several(view_id: str) -> Analysis[Any] | None:
    """The analysis of that view when it speaks of several profiles."""
    return next((a for a in registry.analyses() if a.id == view_id and a.scope != "profile"), None)


def _baseline(exp: Entry, params: Params) -> Place:
    """The profile that ``base_run``, ``base_worker`` and ``base_span`` name; what they leave out is the experiment's.

    ``base_window`` is not: steps of one trace say nothing about another.
    """
    run, worker, span = (params.get(f"base_{which}") or own for which, own in zip(PARTS, exp.key, strict=True))
    return Place(run, worker, span, params.get("base_window"))


def _steps(entry: Entry, text: str) -> tuple[str, ...] | None:
    return chosen_steps(text, entry.summary.steps if entry.summary else ())
