"""Views of several profiles: all workers of a run, or a comparison.

The scheduler collects one result per profile (``part_scheduler.py``). A worker process merges the results if the
view requires this. Then a worker process computes the view.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from tb_plugin import registry
from tb_plugin.analysis.base import Analysis, Params, view_params
from tb_plugin.analysis.view_entry import joining
from tb_plugin.errors import CacheFileLost, CacheRefused, Cancelled
from tb_plugin.payloads import Profile
from tb_plugin.service import mapped_part
from tb_plugin.service.answers.part_scheduler import PartScheduler, progress
from tb_plugin.service.answers.step_selection import chosen_steps
from tb_plugin.service.answers.summary_sources import RankSummary
from tb_plugin.service.catalog import PARTS, Place, ProfileCatalog
from tb_plugin.service.graph_captures import Captures
from tb_plugin.service.loader import Loader, code_stamp
from tb_plugin.service.states import Entry
from tb_plugin.service.workers.question import Question
from tb_plugin.service.workers.request_dedup import Desk
from tb_plugin.storage.cache import FileStore

if TYPE_CHECKING:
    from tb_plugin.service.answers.multi_questions import Source

# Number of attempts if input files keep changing.
CHANGES = 10
# Maximum number of workers named in a message.
_NAMED = 5

# Builds a question from (worker, result file) pairs, a view, parameters and selected steps.
OfSeveral = Callable[[tuple[tuple[str, str], ...], str, Params, str], Question[bytes]]


# Maximum number of views with cached inputs.
_MAX_REMEMBERED = 64


class _Inputs(msgspec.Struct, frozen=True, eq=False):
    """Cached inputs of a view that covers all workers of a run."""

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

    def ask(
        self, ask: OfSeveral, place: Place, analysis: Analysis[Any], params: Params, steps: str, wait: bool = False
    ) -> bytes | Profile:
        """Returns a view of several profiles, or the loading state until all results are ready.

        Raises UserError.
        """
        params = view_params(analysis, params)
        gather = self._ask_pair if analysis.scope == "pair" else self._ask_workers
        for _ in range(CHANGES):
            try:
                return gather(ask, place, analysis, params, steps, wait)
            except CacheFileLost as error:  # a result; it is computed again
                self._store.remove(Path(error.where))
        raise Cancelled("The cache folder is cleared repeatedly.")

    def cached_answer(
        self, ask: OfSeveral, place: Place, analysis: Analysis[Any], params: Params, steps: str
    ) -> bytes | Profile:
        """Returns a view of all workers of a run, computed from cached inputs. Reads no profile.

        If the inputs are not cached or have changed, returns a Profile with the state ``found``. Raises UserError.
        """
        every = self._catalog.workers(place)
        known = self._known.get(_run_key(every[0], place, analysis))
        if known is not None and known.entries == every and all(Path(path).exists() for _, path in known.files):
            params = view_params(analysis, params)
            params = replace(params, extra=(*params.extra, *known.told))
            try:
                return self._combine(ask, known.files, analysis, params, steps, known.about)
            except CacheFileLost:
                self._known.pop(_run_key(every[0], place, analysis), None)
        return Profile(every[0].files.run, "", every[0].files.span, "found", 0.0, 0)

    def _ask_workers(
        self, ask: OfSeveral, place: Place, analysis: Analysis[Any], params: Params, steps: str, wait: bool
    ) -> bytes | Profile:
        asked = params
        every = self._catalog.workers(place)
        capture = self._captures.for_all(place.capture, place.worker, len(every))
        formats = registry.formats_of(analysis)
        entries = [one for one in every if one.files.reader.id in formats] or every
        state = self._team.gather(entries, analysis, replace(params, steps=None), wait, capture)
        if any(one.gone for one in every) and self._catalog.workers(place) != every:  # a merged file was split
            return self._ask_workers(ask, place, analysis, asked, steps, wait)
        summaries = [source for _, source in state.ready if isinstance(source, RankSummary)]
        if state.waiting:  # for profiles without a summary; the summaries of others are copied meanwhile
            return progress(entries[0], len(entries), state.fraction - self._team.summaries.coming(summaries))
        if not state.ready:
            raise state.failed[0][1]
        from tb_plugin.service.profiles_without_trace import WHY

        away = tuple(worker for worker, error in state.failed if error.what == WHY)
        failed = tuple((worker, error.what) for worker, error in state.failed if error.what != WHY)
        from tb_plugin.analysis.skipped_workers import LeftOut

        told = [*LeftOut(failed, away).params()]
        if state.refused:
            told.append(("refused", _by_reason(state.refused)))
        params = replace(params, extra=(*params.extra, *told))
        about = _log_name(analysis, state.ready)
        if joining(analysis) is None:
            files = _files(state.ready)
            self._remember(place, analysis, _Inputs(every, files, tuple(told), about))
            return self._combine(ask, files, analysis, params, steps, about)
        others = self._profiles_in_run(entries[0], analysis)
        beside: Sequence[tuple[str, Source]] = ()
        if others:
            found = self._team.gather(others, registry.analysis_by_id(analysis.traits.companion), Params(), wait)
            if found.waiting:
                return progress(entries[0], len(entries) + len(others), state.fraction + found.fraction)
            beside = found.ready
        key = _joined_key(analysis, state.ready, beside)
        joined = self._store.get(key, mapped_part.SUFFIX)
        if joined is None:
            if coming := self._team.summaries.coming(summaries, wait):
                return progress(entries[0], len(entries), state.fraction - coming)
            joined = self._merged_part(key, state.ready, beside, analysis, about)
        if joined is None:  # the traces of refused summaries are read instead, if present
            return self._ask_workers(ask, place, analysis, asked, steps, wait)
        self._remember(place, analysis, _Inputs(every, [("", str(joined))], tuple(told), about))
        return self._combine(ask, [("", str(joined))], analysis, params, steps, about)

    def _remember(self, place: Place, analysis: Analysis[Any], known: _Inputs) -> None:
        key = _run_key(known.entries[0], place, analysis)
        self._known.pop(key, None)
        self._known[key] = known
        while len(self._known) > _MAX_REMEMBERED:
            self._known.pop(next(iter(self._known)), None)

    def _profiles_in_run(self, entry: Entry, analysis: Analysis[Any]) -> list[Entry]:
        if not analysis.traits.companion:
            return []
        formats = registry.formats_of(registry.analysis_by_id(analysis.traits.companion))
        found = self._catalog.matching(Place(entry.files.run))
        return list({one.files.worker: one for one in found if one.files.reader.id in formats}.values())

    def _merged_part(
        self,
        key: str,
        parts: Sequence[tuple[str, Source]],
        beside: Sequence[tuple[str, Source]],
        analysis: Analysis[Any],
        about: str,
    ) -> Path | None:
        """Returns the file with the merged results. If it does not exist, a worker process creates it.

        Returns None if a summary was refused. The caller then uses the trace instead of the summary. Raises
        UserError.
        """
        summaries = [source for _, source in parts if isinstance(source, RankSummary)]
        from tb_plugin.service.answers.multi_questions import WriteMergedPart

        for _ in range(CHANGES):
            if any(map(self._team.summaries.refusal, summaries)):
                return None
            target = self._store.path(key, mapped_part.SUFFIX)
            try:
                with self._store.pinned(*(Path(summary.file.path) for summary in summaries)):
                    # The worker that merges the results also answers: it has them in memory.
                    question = WriteMergedPart(tuple(parts), tuple(beside), analysis.id, str(target))
                    refused = self._desk.ask(
                        question, str(target), about, heavy=True, peak_memory_bytes=question.peak_memory_bytes()
                    )
            except CacheRefused as error:
                if not self._store.leave(error):
                    raise
                continue
            for place, refusal in refused.items():
                summary = parts[place][1]
                assert isinstance(summary, RankSummary)
                self._team.summaries.refuse(summary, refusal)
            if not refused:
                self._team.summaries.let_go(summaries)
                self._store.evict(keep=target)
                return target
        raise Cancelled("The cache folder is cleared repeatedly.")

    def _ask_pair(
        self, ask: OfSeveral, place: Place, analysis: Analysis[Any], params: Params, steps: str, wait: bool
    ) -> bytes | Profile:
        """Compares a baseline with an experiment.

        Each of the two has its own step selection. An empty selection means all steps. Raises UserError.
        """
        exp = self._catalog.find(place)
        base = self._catalog.find(_baseline(exp, params))
        ready: list[tuple[str, str]] = []
        fraction = 0.0
        sides = ((base, params.get("base_steps"), params.get("base_capture")), (exp, steps, place.capture))
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
        return self._combine(ask, ready, analysis, params, "", _log_name(analysis, ready))

    def _combine(
        self,
        ask: OfSeveral,
        ready: Sequence[tuple[str, str]],
        analysis: Analysis[Any],
        params: Params,
        steps: str,
        about: str,
    ) -> bytes:
        key = "|".join(path for _, path in ready)
        return self._desk.ask(ask(tuple(ready), analysis.id, params, steps), key, about)


def _joined_key(
    analysis: Analysis[Any], parts: Sequence[tuple[str, Source]], beside: Sequence[tuple[str, Source]]
) -> str:
    named = "|".join(f"{worker} {_source_key(source)}" for worker, source in (*parts, *beside))
    return f"joined|{code_stamp()}|{analysis.id}|{len(parts)}|{named}"


def _run_key(entry: Entry, place: Place, analysis: Analysis[Any]) -> tuple[str, ...]:
    captures_key = (place.capture, place.worker or "") if place.capture else ()
    return (analysis.id, entry.files.run, entry.files.span, place.window, *captures_key)


def _source_key(source: Source) -> str:
    return source if isinstance(source, str) else source.key


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
