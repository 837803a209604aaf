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
from tb_plugin.service.answers.part_scheduler import Mode, PartScheduler
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

# Number of attempts if trace or cache files keep changing.
CHANGES = 10
# Maximum number of workers named in a message.
_NAMED = 5


class Request(msgspec.Struct, frozen=True):
    place: Place
    analysis: Analysis[Any]
    params: Params
    steps: str = ""
    kind: AnswerKind = "json"
    mode: Mode = "start"


class MultiProfileAnswers:
    def __init__(
        self,
        catalog: ProfileCatalog,
        loader: Loader,
        captures: Captures,
        scheduler: PartScheduler,
        desk: Desk,
        store: FileStore,
    ) -> None:
        self._catalog = catalog
        self._loader = loader
        self._captures = captures
        self._scheduler = scheduler
        self._desk = desk
        self._store = store

    def ask(self, asked: Request) -> bytes | Profile:
        """Returns a view, or the loading state. The mode ``cached`` reads no profile. Raises UserError."""
        asked = replace(asked, params=view_params(asked.analysis, asked.params))
        gather = self._ask_pair if asked.analysis.scope == "pair" else self._ask_workers
        for _ in range(CHANGES):
            try:
                return gather(asked)
            except CacheFileLost as error:  # a result; it is computed again
                self._store.remove(Path(error.where))
        raise Cancelled("The cache folder is cleared repeatedly.")

    def _ask_workers(self, requested: Request) -> bytes | Profile:
        asked = requested
        place, analysis, mode = asked.place, asked.analysis, asked.mode
        every = self._catalog.workers(place)
        capture = self._captures.for_all(place.capture, place.worker, len(every))
        formats = registry.formats_of(analysis)
        entries = [one for one in every if one.files.reader.id in formats] or every
        state = self._scheduler.gather(entries, analysis, replace(asked.params, steps=None), mode, capture)
        if any(one.gone for one in every) and self._catalog.workers(place) != every:  # a merged file was split
            return self._ask_workers(requested)
        unknown = Profile(entries[0].files.run, "", entries[0].files.span, "found", 0.0, 0)
        if state.waiting:
            return unknown if mode == "cached" else progress(entries[0], len(entries), state.fraction)
        if not state.ready:
            raise state.failed[0][1]
        away = tuple(worker for worker, error in state.failed if error.what == WHY)
        failed = tuple((worker, error.what) for worker, error in state.failed if error.what != WHY)
        told = LeftOut(failed, away).params()
        if state.refused:
            told += (("refused", _by_reason(state.refused)),)
        asked = replace(asked, params=replace(asked.params, extra=(*asked.params.extra, *told)))
        files, about = _files(state.ready), _log_name(analysis, state.ready)
        if joining(analysis) is not None:
            beside: Sequence[tuple[str, Source]] = ()
            if others := self._profiles_in_run(entries[0], analysis):
                found = self._scheduler.gather(
                    others, registry.analysis_by_id(analysis.traits.companion), Params(), mode
                )
                if found.waiting and mode == "cached":
                    return unknown
                if found.waiting:
                    return progress(entries[0], len(entries) + len(others), state.fraction + found.fraction)
                beside = found.ready
            key = _merged_key(analysis, state.ready, beside)
            merged = self._store.get(key, part_codec.MAPPED)
            if merged is None and mode == "cached":
                return unknown
            merged = merged or self._merged_part(key, state.ready, beside, analysis, about)
            if merged is None:  # the traces of refused summaries are read instead, if present
                return self._ask_workers(requested)
            files = [("", str(merged))]
        return self._combine(asked, files, about)

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
        summaries = [source for _, source in parts if isinstance(source, RankSummary)]
        target = self._store.path(key, part_codec.MAPPED)
        with self._store.pinned(*(Path(summary.file.path) for summary in summaries)):
            # The worker that merges the results also answers: it has them in memory.
            question = WriteMergedPart(tuple(parts), tuple(beside), analysis.id, str(target))
            need = question.peak_memory_bytes()
            refused = self._desk.ask(question, key=str(target), label=about, heavy=True, peak_memory_bytes=need)
        for place, refusal in refused.items():
            summary = parts[place][1]
            assert isinstance(summary, RankSummary)
            self._scheduler.summaries.refuse(summary, refusal)
        if refused:
            return None
        self._store.evict(keep=target)
        return target

    def _ask_pair(self, asked: Request) -> bytes | Profile:
        params, analysis, mode = asked.params, asked.analysis, asked.mode
        exp = self._catalog.find(asked.place)
        base = self._catalog.find(_baseline(exp, params))
        ready: list[tuple[str, str]] = []
        fraction = 0.0
        sides = ((base, params.get("base_steps"), params.get("base_capture")), (exp, asked.steps, asked.place.capture))
        for entry, text, named in sides:
            loaded = self._loader.wait(entry, lambda fraction: None) if mode == "wait" else self._loader.ready(entry)
            if loaded.summary is None:
                fraction += entry.fraction
                continue
            only = self._captures.for_all(named, None, 1)
            labels = chosen_steps(text, loaded.summary.steps) or tuple(step.label for step in loaded.summary.steps)
            state = self._scheduler.gather([entry], analysis, replace(params, steps=labels or None), mode, only)
            if state.failed:
                raise state.failed[0][1]
            ready += _files(state.ready)
            fraction += state.fraction
        if len(ready) < 2:
            return progress(exp, 2, fraction)
        return self._combine(replace(asked, steps=""), ready, _log_name(analysis, ready))

    def _combine(self, asked: Request, files: Sequence[tuple[str, str]], about: str) -> bytes:
        question = AskMultiView(tuple(files), asked.analysis.id, asked.params, asked.steps, asked.kind)
        return self._desk.ask(question, key="|".join(path for _, path in files), label=about)


def _merged_key(
    analysis: Analysis[Any], parts: Sequence[tuple[str, Source]], beside: Sequence[tuple[str, Source]]
) -> str:
    named = "|".join(
        f"{worker} {source if isinstance(source, str) else source.key}" for worker, source in (*parts, *beside)
    )
    return f"joined|{code_stamp()}|{analysis.id}|{len(parts)}|{named}"


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
    """Returns the baseline in the parameters. Run, worker and span default to those of the experiment."""
    run, worker, span = (params.get(f"base_{which}") or own for which, own in zip(PARTS, exp.key, strict=True))
    return Place(run, worker, span, params.get("base_window"))
