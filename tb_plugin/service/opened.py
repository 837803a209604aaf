"""What a worker process keeps open between questions: the last models, levels of their timelines, and parts."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tb_plugin.analyses import ANALYSES
from tb_plugin.analyses.base import Analysis, Params, Part
from tb_plugin.analyses.timeline.pyramid import Pyramid, pyramid_of
from tb_plugin.errors import KeptLost, NotFound
from tb_plugin.service import parts, pyramids
from tb_plugin.storage.cache import refused, write_whole
from tb_plugin.trace import arrow
from tb_plugin.trace.table import TraceTable

Value = TypeVar("Value")

KEPT = tuple(analysis for analysis in ANALYSES if analysis.id in ("overview", "timeline"))
"""Views whose numbers are kept with the columns."""
_MAX_TABLES = 4
_MAX_PARTS_BYTES = 256 * 1024 * 1024


class OpenModels:
    """The models of the column files that this process used last (mapped, not copied), and what was computed of them."""

    def __init__(self) -> None:
        self._tables: OrderedDict[str, TraceTable] = OrderedDict()
        self._pyramids: OrderedDict[str, Pyramid] = OrderedDict()
        self._parts = parts.OpenParts(_MAX_PARTS_BYTES)

    def table(self, path: str) -> TraceTable:
        """Returns the model of a column file. Raises KeptLost."""
        if path not in self._tables:
            self._tables[path] = arrow.read(path)
            while len(self._tables) > _MAX_TABLES:
                self._tables.popitem(last=False)
        self._tables.move_to_end(path)
        return self._tables[path]

    def levels(self, path: str) -> Pyramid:
        """Returns the levels of the timeline, from their file where there is one. Raises KeptLost, CacheRefused."""
        if path not in self._pyramids:
            target = pyramids.beside(path)
            try:
                found = pyramids.read(self.table(path), target)
                os.utime(target)
            except (KeptLost, OSError):
                found = pyramid_of(self.table(path))
                put_whole(target, lambda partial: pyramids.write(found, str(partial)))
            self._pyramids[path] = found
            while len(self._pyramids) > _MAX_TABLES:
                self._pyramids.popitem(last=False)
        self._pyramids.move_to_end(path)
        return self._pyramids[path]

    def part(self, path: str, analysis: Analysis, params: Params) -> Part:
        """Returns the numbers of one view about a column file. Raises KeptLost, BadRequest."""
        key = (path, analysis.id, *analysis.part_key(params))
        return self._parts.get(
            key, lambda: _kept_part(path, analysis, params) or analysis.part(self.table(path), params)
        )

    def kept_part(self, path: str, worker: str) -> Part:
        """Returns a part that was written to ``path``, named by its worker. Raises KeptLost.

        The last ones stay open, since every page of a table asks for them again.
        """
        return self._parts.get((path, worker), lambda: replace(_load_part(path), worker=worker))

    def keep(self, path: str, analysis: Analysis) -> None:
        """Writes the numbers of a view about all steps beside the column file. Raises CacheRefused."""
        body = parts.dump(self.part(path, analysis, Params()))
        put_whole(_kept_beside(path, analysis), lambda partial: partial.write_bytes(body))

    def forget(self, path: str) -> None:
        """Lets go of what is known of a column file that is written anew: the old one may have been damaged."""
        self._tables.pop(path, None)
        self._pyramids.pop(path, None)
        self._parts.forget(path)


def analysis_of(view_id: str) -> Analysis:
    """Returns the analysis behind a view. Raises NotFound."""
    for analysis in ANALYSES:
        if analysis.id == view_id:
            return analysis
    raise NotFound(f"There is no view {view_id}.", view_id, f"There are: {', '.join(a.id for a in ANALYSES)}.")


def put_whole(target: str, write: Callable[[Path], Value]) -> Value:
    """Lets ``write`` fill a file beside ``target`` and puts it in place when it is whole. Raises CacheRefused."""
    try:
        try:
            return write_whole(Path(target), write)
        except FileNotFoundError:  # somebody cleared the cache meanwhile
            return write_whole(Path(target), write)
    except OSError as error:
        raise refused(Path(target), error) from error


def _kept_beside(path: str, analysis: Analysis) -> str:
    """Where the numbers of a view lie beside a column file: they are asked for after every start."""
    return str(Path(path).with_suffix(f".{analysis.id}"))


def _kept_part(path: str, analysis: Analysis, params: Params) -> Part | None:
    """The kept numbers of a view about all steps; None for other questions, or when they are lost."""
    if analysis not in KEPT or analysis.part_key(params) != analysis.part_key(Params()):
        return None
    try:
        part = _load_part(_kept_beside(path, analysis))
        os.utime(_kept_beside(path, analysis))
    except (KeptLost, OSError):
        return None
    return part


def _load_part(path: str) -> Part:
    """A part that was kept. Raises KeptLost."""
    try:
        return parts.load(Path(path).read_bytes())
    except (OSError, ValueError, LookupError) as error:
        raise KeptLost("A kept part is gone or damaged.", path, "It is made anew: ask again.") from error
