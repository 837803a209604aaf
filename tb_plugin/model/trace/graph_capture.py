"""Captures of CUDA graphs: launched device work and its enclosing scopes.

A capture comes from this trace (``analysis/graphs``) or from another trace. In both cases, string ids refer to the
strings of this trace. The texts of the other trace are added to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from tb_plugin.lib.arrays import Bool, Int32, Int64, UInt8
from tb_plugin.model.trace.schema import MISSING, EventKind, no_rows
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.model.trace.tree import inherit


class Scopes(msgspec.Struct, frozen=True, eq=False):
    """Host calls and ranges that were active during a launch, parents first. -1 = absent."""

    kind: UInt8 = no_rows(np.uint8)
    """EventKind: OPERATOR, MODULE, PYTHON or ANNOTATION."""
    name: Int32 = no_rows(np.int32)
    parent: Int32 = no_rows(np.int32)
    """Index of the innermost scope of any kind that encloses this scope."""
    shapes: Int32 = no_rows(np.int32)
    """String id of the input shapes, as in ``OperatorArgs``; only for operators."""
    types: Int32 = no_rows(np.int32)
    values: Int32 = no_rows(np.int32)
    """String id of the values of the inputs, as in ``OperatorArgs.concrete``; only for operators."""
    stack: Int32 = no_rows(np.int32)
    """String id of the call stack, as in ``OperatorArgs``; only for operators."""
    is_backward: Bool = no_rows(np.bool_)
    """Whether the autograd engine ran this scope or a scope that encloses it."""
    is_eligible: Bool = no_rows(np.bool_)
    """Whether the scope could use matrix units, as in ``TraceTable.matrix_eligible``."""
    row: Int32 = no_rows(np.int32)
    """Row of the scope in this trace; -1 if the scope comes from another trace."""
    forward: Int32 = no_rows(np.int32)
    """For a backward operator, the index of its forward operator; otherwise -1."""
    calls: Int32 = no_rows(np.int32)
    """Calls per replay that this scope stands for; 0 = the number differs between graphs."""

    def __len__(self) -> int:
        return len(self.kind)

    def nearest(self, *kinds: EventKind) -> Int32:
        """Returns, for each scope, itself or the nearest one around it of these kinds; -1 = none, also for index -1."""
        wanted = np.isin(self.kind, kinds)
        found = inherit(np.where(wanted, np.arange(len(self)), MISSING).astype(np.int32), self.parent)
        return np.append(found, np.int32(MISSING))


def scopes_of_kind(kind: EventKind, name: Int32, parent: Int32, is_backward: Bool | None = None) -> Scopes:
    """Returns scopes of the same kind that have only names and parents."""
    none = np.full(len(name), MISSING, np.int32)
    never = np.zeros(len(name), np.bool_)
    back = never if is_backward is None else is_backward
    return Scopes(
        np.full(len(name), kind, np.uint8), name, parent, none, none, none, none, back, never, none, none, never + np.int32(1)
    )  # fmt: skip


class Sequences(msgspec.Struct, frozen=True, eq=False):
    """Device work in launch order. Sequence i has the rows ``begin[i]`` to ``begin[i + 1] - 1``. -1 = absent."""

    begin: Int64 = msgspec.field(default_factory=lambda: np.zeros(1, np.int64))
    is_capture: Bool = no_rows(np.bool_)
    """True if the work was captured into a graph, False if it was executed."""
    kind: UInt8 = no_rows(np.uint8)
    name: Int32 = no_rows(np.int32)
    """String id of the kernel name; -1 if the work was only captured and the name was not recorded at its launch."""
    grid: Int32 = no_rows(np.int32)
    block: Int32 = no_rows(np.int32)
    scope: Int32 = no_rows(np.int32)
    is_forked: Bool = no_rows(np.bool_)
    """Whether the capture used several streams, so that replays may run the work in another order."""

    def __len__(self) -> int:
        return len(self.begin) - 1


class NodeStacks(msgspec.Struct, frozen=True, eq=False):
    node: Int64 = no_rows(np.int64)
    """Graph id in the upper 32 bits, node id in the lower 32 bits; ascending."""
    scope: Int32 = no_rows(np.int32)
    scopes: Scopes = msgspec.field(default_factory=Scopes)


class Captured(msgspec.Struct, frozen=True, eq=False):
    """Data from other recordings about CUDA graphs that are replayed in this trace."""

    source: str = ""
    scopes: Scopes = msgspec.field(default_factory=Scopes)
    sequences: Sequences = msgspec.field(default_factory=Sequences)
    stacks: NodeStacks = msgspec.field(default_factory=NodeStacks)

    def __bool__(self) -> bool:
        return len(self.sequences) > 0 or len(self.stacks.node) > 0


_Part = TypeVar("_Part", Scopes, Sequences, NodeStacks)
# Columns that contain string ids.
_TEXTS: dict[type, tuple[str, ...]] = {
    Scopes: ("name", "shapes", "types", "values", "stack"),
    Sequences: ("name", "grid", "block"),
    NodeStacks: (),
}
# Columns that contain indices into scopes.
_PLACES: dict[type, tuple[str, ...]] = {Scopes: ("parent", "forward"), Sequences: ("scope",), NodeStacks: ("scope",)}


def merge_captures(
    strings: StringTable, captures: Iterable[tuple[Captured, StringTable]], source: str
) -> tuple[Captured, StringTable]:
    """Merges captures (the first stack of a node wins), and appends their texts to ``strings``."""
    scopes, sequences, calls, stacks = [Scopes()], [Sequences()], [Scopes()], [NodeStacks()]
    for captured, theirs in captures:
        strings, of = _added(strings, captured, theirs)
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
    names = [field for field in parts[0].__struct_fields__ if field not in ("begin", "scopes")]
    columns: dict[str, Any] = {name: np.concatenate([getattr(each, name) for each in parts]) for name in names}
    return replace(parts[0], **columns)
