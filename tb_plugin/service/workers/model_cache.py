"""Models and computed results in the cache of a worker process."""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import replace

from tb_plugin import registry
from tb_plugin.analysis.base import Analysis, Params, Part, view_params
from tb_plugin.analysis.failure_notices import FAILED_PAYLOAD
from tb_plugin.analysis.graphs.captures import captured_in
from tb_plugin.analysis.timeline.pyramid import Pyramid
from tb_plugin.errors import CacheFileLost, NotFoundError
from tb_plugin.lib.isolation import isolated
from tb_plugin.lib.model_cache import MEMO
from tb_plugin.model.trace.graph_capture import Captured
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model_kinds.timeline_levels import levels_of
from tb_plugin.service import part_codec
from tb_plugin.storage.cache import put_atomically

if TYPE_CHECKING:
    from tb_plugin.model.stack_profile import StackProfile

M = TypeVar("M")

# Maximum number of memory-mapped models.
_MAX_MODELS = 4
# Maximum number of files with cached results.
_MAX_FILES = 64


class ModelFile(msgspec.Struct, frozen=True, dict=True, weakref=True):
    path: str
    model: str
    captures: tuple[ModelFile, ...] = ()
    names: tuple[str, ...] = ()
    captures_key: str = ""
    """One text that identifies all captures."""

    @property
    def without_capture(self) -> ModelFile:
        return ModelFile(self.path, self.model)


class _OpenFile:
    def __init__(self) -> None:
        self.made: Any = None


class OpenModels:
    """Memory-mapped models of recently used files, and results computed from these models."""

    def __init__(self) -> None:
        self._files: OrderedDict[ModelFile, _OpenFile] = OrderedDict()

    def model(self, file: ModelFile) -> Any:
        """Returns the model in a file. Raises CacheFileLost."""
        opened = self._file(file)
        if opened.made is None:
            opened.made = (
                self._with_captures(file) if file.captures else registry.model_by_id(file.model).read(file.path)
            )
            mapped = [each for each in self._files.values() if each.made is not None]
            for each in mapped[:-_MAX_MODELS]:
                each.made = None
        return opened.made

    def _with_captures(self, file: ModelFile) -> TraceTable:
        told = (_captured(self.model(each), name) for each, name in zip(file.captures, file.names, strict=True))
        return self.typed(file.without_capture, TraceTable).with_captured(told, file.captures_key)

    def typed(self, file: ModelFile, kind: type[M]) -> M:
        """Returns the model in a file. Raises CacheFileLost, and NotFoundError if the model is not a ``kind``."""
        made = self.model(file)
        if not isinstance(made, kind):
            has, wanted = registry.model_by_id(file.model).noun, registry.noun_of(kind)
            raise NotFoundError(f"This profile is {has}, but {wanted} is required.", "", "Choose another profile.")
        return made

    def levels(self, file: ModelFile) -> Pyramid:
        """Returns the levels of detail of the timeline. Raises NotFoundError, CacheFileLost, CacheRefused."""
        # Captures do not change the timeline, so its levels belong to the trace without captures.
        return levels_of(self.typed(file.without_capture, TraceTable), file.path)

    def part(self, file: ModelFile, analysis: Analysis[Any], params: Params) -> Part:
        """Returns the result of a view for one profile. Raises CacheFileLost, BadRequest, PartFailed."""
        params = view_params(analysis, params)

        def make() -> Part:
            kept = None if file.captures else _cached_part(file.path, analysis, params)
            if kept is not None:
                return kept
            made = self.model(file)
            return isolated(analysis.title, lambda: analysis.part(made, params))

        return MEMO.get(self._file(file), (analysis.id, *analysis.part_key(params)), make)

    def cached_part(self, path: str, worker: str) -> Part:
        """Returns the result in a file; recent ones stay in memory for table pages. Raises CacheFileLost."""
        size = 0 if path.endswith(part_codec.MAPPED) else None  # memory-mapped pages are not memory of this process
        return MEMO.get(self, (path, worker), lambda: self.read_part(path, worker), size)

    def read_part(self, path: str, worker: str) -> Part:
        """Reads the result in the file ``path`` and does not cache it. Raises CacheFileLost."""
        return replace(_load_part(path), worker=worker)

    def keep(self, file: ModelFile, analysis: Analysis[Any]) -> None:
        """Writes a result without failures next to the column file. Raises CacheRefused, PartFailed."""
        part = self.part(file, analysis, Params())
        if FAILED_PAYLOAD in part.payloads:
            return
        body = isolated(analysis.title, lambda: part_codec.dump(part))
        put_atomically(_part_path(file.path, analysis), lambda partial: partial.write_bytes(body))

    def forget(self, path: str) -> None:
        for file in [file for file in self._files if path in _paths(file)]:
            opened = self._files.pop(file)
            MEMO.forget(opened)
            MEMO.forget(opened.made)

    def _file(self, file: ModelFile) -> _OpenFile:
        opened = self._files.setdefault(file, _OpenFile())
        self._files.move_to_end(file)
        while len(self._files) > _MAX_FILES:
            self._files.popitem(last=False)
        return opened


def _captured(made: TraceTable | StackProfile, name: str) -> tuple[Captured, StringTable]:
    if isinstance(made, TraceTable):
        return replace(captured_in(made), source=name), made.strings
    from tb_plugin.model.stack_profile import captured_by_node

    return captured_by_node(made), StringTable(made.names)


def _paths(file: ModelFile) -> tuple[str, ...]:
    return (file.path, *(capture.path for capture in file.captures))


def _part_path(path: str, analysis: Analysis[Any]) -> str:
    return str(Path(path).with_suffix(f".{analysis.id}"))


def _cached_part(path: str, analysis: Analysis[Any], params: Params) -> Part | None:
    if not analysis.traits.cached or analysis.part_key(params) != analysis.part_key(Params()):
        return None
    try:
        part = _load_part(_part_path(path, analysis))
        os.utime(_part_path(path, analysis))
    except (CacheFileLost, OSError):
        return None
    return part


def _load_part(path: str) -> Part:
    try:
        return (
            part_codec.read_mapped(path)
            if path.endswith(part_codec.MAPPED)
            else part_codec.load(Path(path).read_bytes())
        )
    except (OSError, ValueError, LookupError) as error:
        raise CacheFileLost(
            "A cached result is missing or damaged.", path, "Repeat the request to compute the result again."
        ) from error
