"""A trace with what other recordings tell of its graphs: their texts are added to its strings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tb_plugin.model.trace.graph_capture import Captured, NodeStacks, Scopes, Sequences
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.model.trace.table import TraceTable

Int32 = npt.NDArray[np.int32]
Part = TypeVar("Part", Scopes, Sequences, NodeStacks)

_TEXTS: dict[type, tuple[str, ...]] = {
    Scopes: ("name", "shapes", "types", "stack"),
    Sequences: ("name", "grid", "block"),
    NodeStacks: (),
}
"""Columns of string ids."""
_PLACES: dict[type, tuple[str, ...]] = {Scopes: ("parent", "forward"), Sequences: ("scope",), NodeStacks: ("scope",)}
"""Columns of positions in scopes."""


def with_captured(trace: TraceTable, told: Iterable[tuple[Captured, StringTable]], source: str) -> TraceTable:
    """Returns the trace with what was captured: ids of each count into the strings that come with it.

    Ids of the trace stay what they are, and its columns are shared. Rows of other recordings are none of this one. Of two
    stacks of one node the first stands.
    """
    strings, parts = trace.strings, list[tuple[int, str]]()
    scopes, sequences, calls, stacks = [Scopes()], [Sequences()], [Scopes()], [NodeStacks()]
    for captured, theirs in told:
        strings, of = _added(strings, captured, theirs)
        if len(captured.sequences):
            parts.append((sum(map(len, sequences)), captured.source or source))
        sequences.append(_own(captured.sequences, of, sum(map(len, scopes))))
        scopes.append(_own(captured.scopes, of, sum(map(len, scopes))))
        stacks.append(_own(captured.stacks, of, sum(map(len, calls))))
        calls.append(_own(captured.stacks.scopes, of, sum(map(len, calls))))
    begin = np.cumsum(np.concatenate([[0], *(np.diff(each.begin) for each in sequences)]), dtype=np.int64)
    every = _joined(stacks)
    node, first = np.unique(every.node, return_index=True)
    found = Captured(
        source,
        _joined(scopes),
        replace(_joined(sequences), begin=begin),
        NodeStacks(node, every.scope[first], _joined(calls)),
        tuple(parts),
    )
    return replace(trace, captured=found, strings=strings)


def _added(strings: StringTable, captured: Captured, theirs: StringTable) -> tuple[StringTable, Int32]:
    """The strings with the texts of a recording, and what its ids become; the last one is for -1, which stays."""
    parts = (captured.scopes, captured.sequences, captured.stacks.scopes)
    used = np.unique(np.concatenate([getattr(part, name) for part in parts for name in _TEXTS[type(part)]]))
    used = used[used != MISSING]
    extended, new = strings.extended(theirs.take(used))
    of = np.full(len(theirs) + 1, MISSING, np.int32)
    of[used] = new
    return extended, of


def _own(part: Part, of: Int32, offset: int) -> Part:
    """The part with ids of the trace, behind so many scopes of others, and without rows of the other recording."""
    changed: dict[str, Any] = {name: of[getattr(part, name)] for name in _TEXTS[type(part)]}
    for name in _PLACES[type(part)]:
        places = getattr(part, name)
        changed[name] = np.where(places == MISSING, MISSING, places + offset).astype(np.int32)
    if isinstance(part, Scopes):
        changed["row"] = np.full(len(part), MISSING, np.int32)
    return replace(part, **changed)


def _joined(parts: Sequence[Part]) -> Part:
    """The columns of several parts one behind the other."""
    names = [field.name for field in fields(parts[0]) if field.name not in ("begin", "scopes")]
    columns: dict[str, Any] = {name: np.concatenate([getattr(each, name) for each in parts]) for name in names}
    return replace(parts[0], **columns)
