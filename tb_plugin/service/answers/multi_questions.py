"""Questions about several profiles: the part of one, and combined answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tb_plugin.analysis.base import ColumnTable, Params, Part
from tb_plugin.analysis.view_entry import joining
from tb_plugin.errors import NotFoundError, UserError
from tb_plugin.lib.isolation import isolated
from tb_plugin.lib.malloc_trim import give_back_memory
from tb_plugin.payloads import StepInfo, Table, View
from tb_plugin.payloads.export import to_json
from tb_plugin.registry import analysis_by_id
from tb_plugin.service import mapped_part, part_codec
from tb_plugin.service.answers.step_selection import chosen_steps
from tb_plugin.service.answers.summary_sources import RankSummary, Refusal, parts_of
from tb_plugin.service.workers.memory_budget import MEMORY_VARIABLE, PROCESS_BYTES, budget_bytes
from tb_plugin.service.workers.model_cache import ModelFile, OpenModels
from tb_plugin.service.workers.parse import missing_of
from tb_plugin.service.workers.question import Report
from tb_plugin.storage.cache import put_atomically


class WritePart(msgspec.Struct, frozen=True):
    """Asks to write the part of one profile to ``target``."""

    file: ModelFile
    view_id: str
    params: Params
    target: str

    def answer(self, models: OpenModels, report: Report) -> str:
        """Returns ``target``. Raises BadRequest, CacheRefused."""
        analysis = analysis_by_id(self.view_id)
        numbers = models.part(self.file, analysis, self.params)
        for view_id, names in analysis.borrows.items():
            numbers = part_codec.borrowed(numbers, self._borrowed(models, view_id), names)
        body = isolated(analysis.title, lambda: part_codec.dump(numbers))
        put_atomically(self.target, lambda partial: partial.write_bytes(body))
        return self.target

    def _borrowed(self, models: OpenModels, view_id: str) -> Part | None:
        analysis = analysis_by_id(view_id)
        made = models.model(self.file)
        if missing_of(analysis, made) is not None:
            return None
        return models.part(self.file, analysis, self.params)


class TakePart(msgspec.Struct, frozen=True):
    """Asks to write the part in a rank summary to ``target``."""

    summary: RankSummary
    target: str

    def answer(self, models: OpenModels, report: Report) -> str:
        """Returns why it is refused, as the end of a sentence; "" if it was extracted. Raises CacheRefused."""
        made, refused = parts_of([self.summary], budget_bytes())
        if not refused:
            put_atomically(self.target, lambda partial: partial.write_bytes(part_codec.dump(made[0])))
        return refused[0].why if refused else ""


# Peak memory of merging, in multiples of the parts: 124 bytes of a call become 350, briefly twice.
_MERGE_MEMORY_FACTOR = 6
# Unpacked size of the part of a summary, in multiples of its file.
_UNPACKED_FACTOR = 5
# The part of a rank: a file of the cache, or an untrusted summary.
Source = str | RankSummary


class WriteMergedPart(msgspec.Struct, frozen=True):
    """Asks to merge the parts of all workers of a run, as (worker, source) pairs, into ``target``."""

    parts: tuple[tuple[str, Source], ...]
    companion: tuple[tuple[str, Source], ...]
    """The same for profiles of another kind in the run."""
    view_id: str
    target: str

    def peak_memory_bytes(self) -> int:
        """Returns the estimated peak memory, from the current sizes of files."""
        return PROCESS_BYTES + _MERGE_MEMORY_FACTOR * sum(
            _unpacked_bytes(source) for _, source in (*self.parts, *self.companion)
        )

    def answer(self, models: OpenModels, report: Report) -> dict[int, Refusal]:
        """Returns why summaries are refused, by position in ``parts``; then nothing is written.

        Raises CacheFileLost, CacheRefused, and UserError if the parts need more memory than all workers may use.
        """
        analysis = analysis_by_id(self.view_id)
        view = joining(analysis)
        if view is None:
            raise NotFoundError("The parts of this view are not combined.", self.view_id, "Request its answer instead.")
        read, refused = _read(models, (*self.parts, *self.companion))
        if refused:
            return refused
        mine, beside = read[: len(self.parts)], read[len(self.parts) :]
        del read
        mine.reverse()
        joined = isolated(analysis.title, lambda: view.join(_handed_over(mine), beside))
        put_atomically(self.target, partial(mapped_part.write, joined))
        del joined
        give_back_memory()
        return {}


def _unpacked_bytes(source: Source) -> int:
    return _size_bytes(source) if isinstance(source, str) else _UNPACKED_FACTOR * _size_bytes(source.file.path)


def _size_bytes(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def _handed_over(parts: list[Part]) -> Iterator[Part]:
    while parts:
        yield parts.pop()


def _read(models: OpenModels, sources: Sequence[tuple[str, Source]]) -> tuple[list[Part], dict[int, Refusal]]:
    """The parts of workers, and by place which summaries are refused: then the parts do not count. Raises UserError."""
    budget = budget_bytes()
    kept = sum(_size_bytes(source) for _, source in sources if isinstance(source, str))
    if kept > budget:
        what = f"The parts of the ranks need {kept / 1e6:,.0f} MB of memory; {budget / 1e6:,.0f} MB are allowed."
        raise UserError(what, do=f"Allow more with {MEMORY_VARIABLE}={kept / 1e6 + 1:.0f}, or record fewer ranks.")
    places = [place for place, (_, source) in enumerate(sources) if isinstance(source, RankSummary)]
    taken, refused = parts_of([source for _, source in sources if isinstance(source, RankSummary)], budget)
    if refused:
        return [], {places[at]: why for at, why in refused.items()}
    left = iter(taken)
    return [
        models.read_part(source, worker) if isinstance(source, str) else replace(next(left), worker=worker)
        for worker, source in sources
    ], {}


class _Together(msgspec.Struct, frozen=True):
    """A question about several profiles, as (worker, file of its part) pairs. ``steps`` is the text of a selection."""

    parts: tuple[tuple[str, str], ...]
    view_id: str
    params: Params
    steps: str

    def _answer(self, models: OpenModels) -> View | Table:
        found = [models.cached_part(path, worker) for worker, path in self.parts]
        labels = dict.fromkeys(label for item in found for label in item.steps)
        chosen = chosen_steps(self.steps, [StepInfo(label, 0, 0) for label in labels])
        analysis = analysis_by_id(self.view_id)
        return isolated(analysis.title, lambda: analysis.answer(found, replace(self.params, steps=chosen)))

    def _whole(self, models: OpenModels) -> ColumnTable:
        """A table and which of its rows are asked for. Raises NotFoundError."""
        table = replace(self, params=replace(self.params, limit=None, as_columns=True))._answer(models)
        if not isinstance(table, ColumnTable):
            raise NotFoundError("This is not a table.", self.view_id, "Name a table.")
        return table


class AskMultiView(_Together, frozen=True):
    """Asks for the JSON of a view, or of one page of a table, about several profiles."""

    def answer(self, models: OpenModels, report: Report) -> bytes:
        """Returns the JSON. Raises NotFoundError, BadRequest, CacheFileLost."""
        answer = self._answer(models)
        if isinstance(answer, View):
            give_back_memory()  # a page of a table needs little of what the first look at a run takes
        return isolated(analysis_by_id(self.view_id).title, lambda: to_json(answer))


class AskMultiCsv(_Together, frozen=True):
    """Asks for all matching rows of a table about several profiles as CSV."""

    def answer(self, models: OpenModels, report: Report) -> bytes:
        """Returns CSV in UTF-8. Raises NotFoundError, BadRequest, CacheFileLost."""
        from tb_plugin.service.answers.table_export import as_csv

        table = self._whole(models)
        return as_csv(table.columns, table.data, table.matching)


class AskMultiArrow(_Together, frozen=True):
    """Asks for a whole table about several profiles as an Arrow IPC stream."""

    def answer(self, models: OpenModels, report: Report) -> bytes:
        """Returns the stream. Raises NotFoundError, BadRequest, CacheFileLost."""
        from tb_plugin.service.answers.table_export import rows_as_arrow

        table = self._whole(models)
        return rows_as_arrow(table.data.select([column.metric.key for column in table.columns]), table.matching)
