"""A trace with what other recordings tell of its graphs: their texts are added to its strings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tb_plugin.trace.captured import Captured, Scopes, Sequences
from tb_plugin.trace.schema import MISSING
from tb_plugin.trace.strings import StringTable
from tb_plugin.trace.table import TraceTable

Int32 = npt.NDArray[np.int32]
T = TypeVar("T", Scopes, Sequences)

_TEXTS = {Scopes: ("name", "shapes", "types", "stack"), Sequences: ("name", "grid", "block")}
"""Columns of string ids."""
_PLACES = {Scopes: ("parent", "forward"), Sequences: ("scope",)}
"""Columns of positions in the scopes."""


def with_captured(trace: TraceTable, told: Iterable[tuple[Captured, StringTable]], source: str) -> TraceTable:
    """Returns the trace with what was captured: ids of each count into the strings that come with it.

    Ids of the trace stay what they are, and its columns are shared. Rows of other recordings are none of this one.
    """
    strings, scopes, sequences = trace.strings, [Scopes()], [Sequences()]
    count = 0
    for captured, theirs in told:
        strings, of = _added(strings, captured, theirs)
        scopes.append(_own(captured.scopes, of, count))
        sequences.append(_own(captured.sequences, of, count))
        count += len(captured.scopes)
    rows = np.full(count, MISSING, np.int32)
    begin = np.cumsum(np.concatenate([[0], *(np.diff(each.begin) for each in sequences)]), dtype=np.int64)
    both = replace(_joined(scopes), row=rows), replace(_joined(sequences), begin=begin)
    return replace(trace, captured=Captured(source, *both), strings=strings)


def _added(strings: StringTable, captured: Captured, theirs: StringTable) -> tuple[StringTable, Int32]:
    """The strings with the texts of a recording, and what its ids become; the last one is for -1, which stays."""
    parts: tuple[Scopes | Sequences, ...] = (captured.scopes, captured.sequences)
    used = np.unique(np.concatenate([getattr(part, name) for part in parts for name in _TEXTS[type(part)]]))
    used = used[used != MISSING]
    extended, new = strings.extended(theirs.take(used))
    of = np.full(len(theirs) + 1, MISSING, np.int32)
    of[used] = new
    return extended, of


def _own(part: T, of: Int32, offset: int) -> T:
    """The part with the ids of the trace, behind so many scopes of others."""
    names = [field.name for field in fields(part)]
    changed: dict[str, Any] = {name: of[getattr(part, name)] for name in _TEXTS[type(part)]}
    for name in _PLACES[type(part)]:
        if name in names:
            places = getattr(part, name)
            changed[name] = np.where(places == MISSING, MISSING, places + offset).astype(np.int32)
    return replace(part, **changed)


def _joined(parts: Sequence[T]) -> T:
    """The columns of several parts one behind the other."""
    names = [field.name for field in fields(parts[0]) if field.name != "begin"]
    return replace(parts[0], **{name: np.concatenate([getattr(each, name) for each in parts]) for name in names})
