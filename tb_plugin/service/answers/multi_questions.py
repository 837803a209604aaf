"""Questions about several profiles, for worker processes."""

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
    """Computes the result of a view for one profile and writes it to the file ``target``."""

    file: ModelFile
    view_id: str
    params: Params
    target: str

    def answer(self, models: OpenModels, report: Report) -> str:
        """Writes the file and returns ``target``. Raises BadRequest, CacheRefused."""
        analysis = analysis_by_id(self.view_id)
        numbers = models.part(self.file, analysis, self.params)
        for view_id, names in analysis.borrows.items():
            numbers = part_codec.with_borrowed(numbers, self._borrowed(models, view_id), names)
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
    """Extracts the result of a rank summary and writes it to the file ``target``."""

    summary: RankSummary
    target: str

    def answer(self, models: OpenModels, report: Report) -> str:
        """Returns "" after success, or the reason why the summary is refused.

        The reason completes the sentence "its summary ...". Raises CacheRefused.
        """
        made, refused = parts_of([self.summary], budget_bytes())
        if not refused:
            put_atomically(self.target, lambda partial: partial.write_bytes(part_codec.dump(made[0])))
        return refused[0].why if refused else ""


# Peak memory of merging, as a multiple of the results: 124 bytes per call become 350, briefly twice.
_MERGE_MEMORY_FACTOR = 6
# Unpacked size of the result in a summary, as a multiple of the file size.
_UNPACKED_FACTOR = 5
# The result of a rank: a cache file, or an untrusted summary.
Source = str | RankSummary


class WriteMergedPart(msgspec.Struct, frozen=True):
    """Merges the results of all workers of a run and writes the merged result to the file ``target``.

    ``parts`` contains (worker, source) pairs.
    """

    parts: tuple[tuple[str, Source], ...]
    companion: tuple[tuple[str, Source], ...]
    """(worker, source) pairs of profiles in the same run that have another format."""
    view_id: str
    target: str

    def peak_memory_bytes(self) -> int:
        """Estimates the peak memory from the current file sizes."""
        return PROCESS_BYTES + _MERGE_MEMORY_FACTOR * sum(
            _unpacked_bytes(source) for _, source in (*self.parts, *self.companion)
        )

    def answer(self, models: OpenModels, report: Report) -> dict[int, Refusal]:
        """Writes the merged result and returns an empty dict.

        If any summary is refused, writes nothing and returns the reason for each refusal, by index in ``parts``.
        Raises CacheFileLost, CacheRefused, and UserError if merging exceeds the memory budget.
        """
        analysis = analysis_by_id(self.view_id)
        view = joining(analysis)
        if view is None:
            raise NotFoundError(
                "This view has no merged result of all ranks.", self.view_id, "Request the view itself."
            )
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
    """Returns the results, and the reason for each refused summary by index.

    If any summary is refused, the list of results is empty. Raises UserError.
    """
    budget = budget_bytes()
    kept = sum(_size_bytes(source) for _, source in sources if isinstance(source, str))
    if kept > budget:
        what = f"Merging the ranks needs {kept / 1e6:,.0f} MB of memory; {budget / 1e6:,.0f} MB are allowed."
        raise UserError(
            what, do=f"Allow more memory with {MEMORY_VARIABLE}={kept / 1e6 + 1:.0f}, or record fewer ranks."
        )
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
    """A question about several profiles.

    ``parts`` contains (worker, result file) pairs. ``steps`` is the text of the step selection.
    """

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
        """Returns the requested table with all matching rows. Raises NotFoundError."""
        table = replace(self, params=replace(self.params, limit=None, as_columns=True))._answer(models)
        if not isinstance(table, ColumnTable):
            raise NotFoundError("This is not a table.", self.view_id, "Specify a table.")
        return table


class AskMultiView(_Together, frozen=True):
    """Computes a view of several profiles, or one page of its tables, as JSON."""

    def answer(self, models: OpenModels, report: Report) -> bytes:
        """Returns JSON. Raises NotFoundError, BadRequest, CacheFileLost."""
        answer = self._answer(models)
        if isinstance(answer, View):
            give_back_memory()  # later table pages need much less memory than the first answer about a run
        return isolated(analysis_by_id(self.view_id).title, lambda: to_json(answer))


class AskMultiCsv(_Together, frozen=True):
    """Exports all matching rows of a table of several profiles as CSV."""

    def answer(self, models: OpenModels, report: Report) -> bytes:
        """Returns CSV in UTF-8. Raises NotFoundError, BadRequest, CacheFileLost."""
        from tb_plugin.service.answers.table_export import as_csv

        table = self._whole(models)
        return as_csv(table.columns, table.data, table.matching)


class AskMultiArrow(_Together, frozen=True):
    """Exports all matching rows of a table of several profiles as an Arrow IPC stream."""

    def answer(self, models: OpenModels, report: Report) -> bytes:
        """Returns an Arrow IPC stream. Raises NotFoundError, BadRequest, CacheFileLost."""
        from tb_plugin.service.answers.table_export import rows_as_arrow

        table = self._whole(models)
        return rows_as_arrow(table.data.select([column.metric.key for column in table.columns]), table.matching)
