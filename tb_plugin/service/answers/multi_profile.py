"""Views of several profiles: all workers of a run, or a comparison.

The scheduler collects one result per profile (``part_scheduler.py``). A worker process merges the results if the
view requires this. Then a worker process computes the view.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from tb_plugin import registry
from tb_plugin.analysis.base import Analysis, Params, view_params
from tb_plugin.analysis.skipped_workers import LeftOut
from tb_plugin.analysis.view_entry import joining
from tb_plugin.errors import CacheFileLost, Cancelled
from tb_plugin.payloads import Profile
from tb_plugin.service import part_codec
from tb_plugin.service.answers.part_scheduler import PartScheduler
from tb_plugin.service.answers.profile_info import progress
from tb_plugin.service.answers.questions import AnswerKind, AskMultiView, Source, WriteMergedPart
from tb_plugin.service.answers.step_selection import chosen_steps
from tb_plugin.service.catalog import PARTS, Place, ProfileCatalog
from tb_plugin.service.graph_captures import Captures
from tb_plugin.service.loader import Loader, code_stamp
from tb_plugin.service.states import Entry
from tb_plugin.service.summaries.sources import WHY, RankSummary
from tb_plugin.service.workers.desk import Desk
from tb_plugin.storage.cache import FileStore

# Number of attempts if input files keep changing.
CHANGES = 10
# Maximum number of workers named in a message.
_NAMED = 5
# Maximum number of views with cached inputs.
_MAX_REMEMBERED = 64


class Request(msgspec.Struct, frozen=True):
    """A request for a view of several profiles, or for the table ``params.table``."""

    place: Place
    analysis: Analysis[Any]
    params: Params
    steps: str = ""
    """Text of the step selection."""
    kind: AnswerKind = "json"
    wait: bool = False
    """Whether to wait until all results are ready."""


class _Inputs(msgspec.Struct, frozen=True, eq=False):
    """Inputs of a view of all workers of a run."""

    entries: list[Entry]
    files: list[tuple[str, str]]
    told: tuple[tuple[str, str], ...]
    """View parameters that name the failed workers and the refused summaries."""
    about: str


class MultiProfileAnswers:
    def __init__(
        self,
        catalog: ProfileCatalog,
        loader: Loader,
        captures: Captures,
        team: PartScheduler,
        desk: Desk,
        store: FileStore,
    ) -> None:
        self._catalog = catalog
        self._loader = loader
        self._captures = captures
        self._team = team
        self._desk = desk
        self._store = store
        self._known: dict[tuple[str, ...], _Inputs] = {}

    def ask(self, asked: Request) -> bytes | Profile:
        """Returns a view of several profiles, or the loading state until all results are ready.

        Raises UserError.
        """
        asked = replace(asked, params=view_params(asked.analysis, asked.params))
        gather = self._ask_pair if asked.analysis.scope == "pair" else self._ask_workers
        for _ in range(CHANGES):
            try:
                return gather(asked)
            except CacheFileLost as error:  # a result; it is computed again
                self._store.remove(Path(error.where))
        raise Cancelled("The cache folder is cleared repeatedly.")

    def cached_answer(self, asked: Request) -> bytes | Profile:
        """Returns a view of all workers of a run, computed from cached inputs. Reads no profile.

        If the inputs are not cached or have changed, returns a Profile with the state ``found``. Raises UserError.
        """
        every = self._catalog.workers(asked.place)
        known = self._known.get(_run_key(every[0], asked))
        if known is not None and known.entries == every and all(Path(path).exists() for _, path in known.files):
            try:
                return self._combine(replace(asked, params=view_params(asked.analysis, asked.params)), known)
            except CacheFileLost:
                self._known.pop(_run_key(every[0], asked), None)
        return Profile(every[0].files.run, "", every[0].files.span, "found", 0.0, 0)

    def _ask_workers(self, asked: Request) -> bytes | Profile:
        place, analysis, wait = asked.place, asked.analysis, asked.wait
        every = self._catalog.workers(place)
        capture = self._captures.for_all(place.capture, place.worker, len(every))
        formats = registry.formats_of(analysis)
        entries = [one for one in every if one.files.reader.id in formats] or every
        state = self._team.gather(entries, analysis, replace(asked.params, steps=None), wait, capture)
        if any(one.gone for one in every) and self._catalog.workers(place) != every:  # a merged file was split
            return self._ask_workers(asked)
        if state.waiting:
            return progress(entries[0], len(entries), state.fraction)
        if not state.ready:
            raise state.failed[0][1]
        away = tuple(worker for worker, error in state.failed if error.what == WHY)
        failed = tuple((worker, error.what) for worker, error in state.failed if error.what != WHY)
        told = LeftOut(failed, away).params()
        if state.refused:
            told += (("refused", _by_reason(state.refused)),)
        inputs = _Inputs(every, _files(state.ready), told, _log_name(analysis, state.ready))
        if joining(analysis) is not None:
            beside: Sequence[tuple[str, Source]] = ()
            if others := self._profiles_in_run(entries[0], analysis):
                found = self._team.gather(others, registry.analysis_by_id(analysis.traits.companion), Params(), wait)
                if found.waiting:
                    return progress(entries[0], len(entries) + len(others), state.fraction + found.fraction)
                beside = found.ready
            merged = self._merged_part(state.ready, beside, analysis, inputs.about)
            if merged is None:  # the traces of refused summaries are read instead, if present
                return self._ask_workers(asked)
            inputs = replace(inputs, files=[("", str(merged))])
        key = _run_key(every[0], asked)
        self._known.pop(key, None)
        self._known[key] = inputs
        while len(self._known) > _MAX_REMEMBERED:
            self._known.pop(next(iter(self._known)), None)
        return self._combine(asked, inputs)

    def _profiles_in_run(self, entry: Entry, analysis: Analysis[Any]) -> list[Entry]:
        if not analysis.traits.companion:
            return []
        formats = registry.formats_of(registry.analysis_by_id(analysis.traits.companion))
        found = self._catalog.matching(Place(entry.files.run))
        return list({one.files.worker: one for one in found if one.files.reader.id in formats}.values())

    def _merged_part(
        self,
        parts: Sequence[tuple[str, Source]],
        beside: Sequence[tuple[str, Source]],
        analysis: Analysis[Any],
        about: str,
    ) -> Path | None:
        """Returns the file with the merged results. If it does not exist, a worker process creates it.

        Returns None if a summary was refused. The caller then uses the trace instead of the summary. Raises
        UserError.
        """
        named = "|".join(
            f"{worker} {source if isinstance(source, str) else source.key}" for worker, source in (*parts, *beside)
        )
        key = f"joined|{code_stamp()}|{analysis.id}|{len(parts)}|{named}"
        if path := self._store.get(key, part_codec.MAPPED):
            return path
        summaries = [source for _, source in parts if isinstance(source, RankSummary)]
        target = self._store.path(key, part_codec.MAPPED)
        with self._store.pinned(*(Path(summary.file.path) for summary in summaries)):
            # The worker that merges the results also answers: it has them in memory.
            question = WriteMergedPart(tuple(parts), tuple(beside), analysis.id, str(target))
            need = question.peak_memory_bytes()
            refused = self._desk.ask(question, key=str(target), about=about, heavy=True, peak_memory_bytes=need)
        for place, refusal in refused.items():
            summary = parts[place][1]
            assert isinstance(summary, RankSummary)
            self._team.summaries.refuse(summary, refusal)
        if refused:
            return None
        self._store.evict(keep=target)
        return target

    def _ask_pair(self, asked: Request) -> bytes | Profile:
        """Compares a baseline with an experiment.

        Each of the two has its own step selection. An empty selection means all steps. Raises UserError.
        """
        params, analysis, wait = asked.params, asked.analysis, asked.wait
        exp = self._catalog.find(asked.place)
        base = self._catalog.find(_baseline(exp, params))
        ready: list[tuple[str, str]] = []
        fraction = 0.0
        sides = (
            (base, params.get("base_steps"), params.get("base_capture")),
            (exp, asked.steps, asked.place.capture),
        )
        for entry, text, named in sides:
            loaded = self._loader.wait(entry, lambda fraction: None) if wait else self._loader.ready(entry)
            if loaded.summary is None:
                fraction += entry.fraction
                continue
            only = self._captures.for_all(named, None, 1)
            labels = chosen_steps(text, loaded.summary.steps) or tuple(step.label for step in loaded.summary.steps)
            state = self._team.gather([entry], analysis, replace(params, steps=labels or None), wait, only)
            if state.failed:
                raise state.failed[0][1]
            ready += _files(state.ready)
            fraction += state.fraction
        if len(ready) < 2:
            return progress(exp, 2, fraction)
        return self._combine(replace(asked, steps=""), _Inputs([], ready, (), _log_name(analysis, ready)))

    def _combine(self, asked: Request, inputs: _Inputs) -> bytes:
        params = replace(asked.params, extra=(*asked.params.extra, *inputs.told))
        question = AskMultiView(tuple(inputs.files), asked.analysis.id, params, asked.steps, asked.kind)
        return self._desk.ask(question, key="|".join(path for _, path in inputs.files), about=inputs.about)


def _run_key(entry: Entry, asked: Request) -> tuple[str, ...]:
    place = asked.place
    captures_key = (place.capture, place.worker or "") if place.capture else ()
    return (asked.analysis.id, entry.files.run, entry.files.span, place.window, *captures_key)


def _files(parts: Sequence[tuple[str, Source]]) -> list[tuple[str, str]]:
    return [(worker, source) for worker, source in parts if isinstance(source, str)]


def _by_reason(refused: Sequence[tuple[str, str]]) -> str:
    workers: dict[str, list[str]] = {}
    for worker, why in refused:
        workers.setdefault(why, []).append(worker)
    told = []
    for why, names in list(workers.items())[:_NAMED]:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        told.append(f"{', '.join(names[:_NAMED])}{more} ({why})")
    return "; ".join(told)


def _log_name(analysis: Analysis[Any], parts: Sequence[tuple[str, Source]]) -> str:
    named = ", ".join(worker for worker, _ in parts[:_NAMED]) + (", ..." if len(parts) > _NAMED else "")
    return f"{analysis.title} of {named}"


def multi_profile_view(view_id: str) -> Analysis[Any] | None:
    """Returns the view if it covers several profiles, else None."""
    return next((a for a in registry.analyses() if a.id == view_id and a.scope != "profile"), None)


def _baseline(exp: Entry, params: Params) -> Place:
    """Returns the baseline given by ``base_run``, ``base_worker`` and ``base_span``.

    Missing parameters default to the run, worker and span of the experiment. The window has no default, because the
    steps of one trace do not apply to another.
    """
    run, worker, span = (params.get(f"base_{which}") or own for which, own in zip(PARTS, exp.key, strict=True))
    return Place(run, worker, span, params.get("base_window"))
