"""Captures of graphs: device work by launch, with the scopes around each launch.

They come from this trace (``analysis/graphs``) or from another one whose texts were added to the strings of this one:
all ids index the strings of the trace that contains it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tb_plugin.model.trace.schema import MISSING, EventKind, no_rows
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.model.trace.tree import inherit

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
UInt8 = npt.NDArray[np.uint8]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Scopes:
    """Open scopes on a host thread around launches; parents come first. String ids; -1 = absent."""

    kind: UInt8 = no_rows(np.uint8)
    """EventKind: OPERATOR, MODULE, PYTHON or ANNOTATION."""
    name: Int32 = no_rows(np.int32)
    parent: Int32 = no_rows(np.int32)
    """Position of the innermost scope around it, of any kind."""
    shapes: Int32 = no_rows(np.int32)
    """As ``OperatorArgs.shapes``, where it is an operator."""
    types: Int32 = no_rows(np.int32)
    stack: Int32 = no_rows(np.int32)
    """As ``OperatorArgs.stack``, where it is an operator."""
    is_backward: Bool = no_rows(np.bool_)
    """Whether the autograd engine ran it, or a scope around it."""
    is_eligible: Bool = no_rows(np.bool_)
    """As ``TraceTable.matrix_eligible``."""
    row: Int32 = no_rows(np.int32)
    """The row of this trace, -1 for another trace."""
    forward: Int32 = no_rows(np.int32)
    """Position of the forward operator of a backward operator, else -1."""

    def __len__(self) -> int:
        return len(self.kind)

    def nearest(self, *kinds: EventKind) -> Int32:
        """Returns for each scope, and one more for -1, the innermost of these kinds at or around it; -1 = none."""
        wanted = np.isin(self.kind, kinds)
        found = inherit(np.where(wanted, np.arange(len(self)), MISSING).astype(np.int32), self.parent)
        return np.append(found, np.int32(MISSING))


def scopes_of_kind(kind: EventKind, name: Int32, parent: Int32, is_backward: Bool | None = None) -> Scopes:
    """Returns scopes of one kind with only their names."""
    none = np.full(len(name), MISSING, np.int32)
    never = np.zeros(len(name), np.bool_)
    back = never if is_backward is None else is_backward
    return Scopes(
        np.full(len(name), kind, np.uint8), name, parent, none, none, none, back, never, none, none
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Sequences:
    """Device work by launch: sequence i is ``[begin[i], begin[i + 1])`` of the other columns. -1 = absent."""

    begin: Int64 = field(default_factory=lambda: np.zeros(1, np.int64))
    is_capture: Bool = no_rows(np.bool_)
    """Whether each sequence was captured; otherwise it ran."""
    kind: UInt8 = no_rows(np.uint8)
    """EventKind: KERNEL, MEMCPY or MEMSET."""
    name: Int32 = no_rows(np.int32)
    """String id of the kernel; absent if nothing ran and the call does not name it."""
    grid: Int32 = no_rows(np.int32)
    block: Int32 = no_rows(np.int32)
    scope: Int32 = no_rows(np.int32)
    """The innermost scope around the launch."""
    is_forked: Bool = no_rows(np.bool_)
    """Whether each sequence was captured on synchronized streams: a replay may run it in another order."""

    def __len__(self) -> int:
        return len(self.begin) - 1


@dataclass(frozen=True, eq=False)
class NodeStacks:
    """Python calls around the launches of graph nodes, by recorded node ids."""

    node: Int64 = no_rows(np.int64)
    """Id of the graph in the upper 32 bits, that of the node in the lower ones; ascending."""
    scope: Int32 = no_rows(np.int32)
    """Position of the innermost call in ``scopes``."""
    scopes: Scopes = field(default_factory=Scopes)


@dataclass(frozen=True, eq=False)
class Captured:
    """Data of another recording about the graphs that this trace replays."""

    source: str = ""
    """The recording for users: its run, worker and span, or its file."""
    scopes: Scopes = field(default_factory=Scopes)
    sequences: Sequences = field(default_factory=Sequences)
    stacks: NodeStacks = field(default_factory=NodeStacks)
    parts: tuple[tuple[int, str], ...] = ()
    """For several combined recordings: the first sequence of each, and its name for users."""

    def source_of(self, sequence: int) -> str:
        """Returns the name of the recording with a sequence."""
        return next((name for first, name in self.parts[::-1] if first <= sequence), self.source)

    def __bool__(self) -> bool:
        return len(self.sequences) > 0 or len(self.stacks.node) > 0


_Part = TypeVar("_Part", Scopes, Sequences, NodeStacks)
# Columns of string ids.
_TEXTS: dict[type, tuple[str, ...]] = {
    Scopes: ("name", "shapes", "types", "stack"),
    Sequences: ("name", "grid", "block"),
    NodeStacks: (),
}
# Columns of positions in scopes.
_PLACES: dict[type, tuple[str, ...]] = {Scopes: ("parent", "forward"), Sequences: ("scope",), NodeStacks: ("scope",)}


def merge_captures(
    strings: StringTable, captures: Iterable[tuple[Captured, StringTable]], source: str
) -> tuple[Captured, StringTable]:
    """Returns several captures as one, and ``strings`` with their texts; ids of each index the strings next to it.

    Ids of ``strings`` do not change. Of two stacks of one node the first is used.
    """
    parts = list[tuple[int, str]]()
    scopes, sequences, calls, stacks = [Scopes()], [Sequences()], [Scopes()], [NodeStacks()]
    for captured, theirs in captures:
        strings, of = _added(strings, captured, theirs)
        if len(captured.sequences):
            parts.append((sum(map(len, sequences)), captured.source or source))
        sequences.append(_own(captured.sequences, of, sum(map(len, scopes))))
        scopes.append(_own(captured.scopes, of, sum(map(len, scopes))))
        stacks.append(_own(captured.stacks, of, sum(map(len, calls))))
        calls.append(_own(captured.stacks.scopes, of, sum(map(len, calls))))
    begin = np.cumsum(np.concatenate([[0], *(np.diff(each.begin) for each in sequences)]), dtype=np.int64)
    every = _concatenated(stacks)
    node, first = np.unique(every.node, return_index=True)
    found = Captured(
        source,
        _concatenated(scopes),
        replace(_concatenated(sequences), begin=begin),
        NodeStacks(node, every.scope[first], _concatenated(calls)),
        tuple(parts),
    )
    return found, strings


def _added(strings: StringTable, captured: Captured, theirs: StringTable) -> tuple[StringTable, Int32]:
    parts = (captured.scopes, captured.sequences, captured.stacks.scopes)
    used = np.unique(np.concatenate([getattr(part, name) for part in parts for name in _TEXTS[type(part)]]))
    used = used[used != MISSING]
    extended, new = strings.extended(theirs.take(used))
    of = np.full(len(theirs) + 1, MISSING, np.int32)
    of[used] = new
    return extended, of


def _own(part: _Part, of: Int32, offset: int) -> _Part:
    changed: dict[str, Any] = {name: of[getattr(part, name)] for name in _TEXTS[type(part)]}
    for name in _PLACES[type(part)]:
        places = getattr(part, name)
        changed[name] = np.where(places == MISSING, MISSING, places + offset).astype(np.int32)
    if isinstance(part, Scopes):
        changed["row"] = np.full(len(part), MISSING, np.int32)
    return replace(part, **changed)


def _concatenated(parts: Sequence[_Part]) -> _Part:
    names = [field.name for field in fields(parts[0]) if field.name not in ("begin", "scopes")]
    columns: dict[str, Any] = {name: np.concatenate([getattr(each, name) for each in parts]) for name in names}
    return replace(parts[0], **columns)
