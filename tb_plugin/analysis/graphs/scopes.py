"""Enclosing scopes of host events, as a forest.

The scopes of an event on an autograd thread include scopes of the thread that waits for the autograd thread.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.backward import backward_operators, works_for
from tb_plugin.analysis.forest import Forest, with_ancestors
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import group, places_of, side_by_side
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.graph_capture import Scopes
from tb_plugin.model.trace.schema import MISSING, EventKind, of_kind
from tb_plugin.model.trace.steps.windows import STEP_NAME
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit, innermost_at, nest

KINDS = (EventKind.OPERATOR, EventKind.MODULE, EventKind.PYTHON, EventKind.ANNOTATION)
# Kinds that identify work regardless of the surrounding Python code.
WORK_IN = (EventKind.OPERATOR, EventKind.MODULE)
_REFERENCES = ("parent", "forward")


def scopes_around(trace: TraceTable, source: npt.NDArray[np.integer]) -> tuple[Scopes, Int32]:
    """Returns a forest of scopes, and the innermost one around each host row (an operator itself); -1 = none."""
    at = np.unique(source[source != MISSING]).astype(np.int64)
    if not len(at):
        return Scopes(), np.full(len(source), MISSING, np.int32)
    serves = works_for(trace)
    rows = _open_at(trace, trace.track[at], trace.start_ns[at])
    roots = _outermost(trace, rows)
    serving = np.concatenate((roots, at))
    serving = serving[serves[trace.track[serving]] != trace.track[serving]]
    rows = np.union1d(rows, _open_at(trace, serves[trace.track[serving]], trace.start_ns[serving]))
    forward = _forward(trace, rows)
    behind = np.unique(forward[forward != MISSING])
    rows = np.union1d(rows, np.union1d(behind, _open_at(trace, trace.track[behind], trace.start_ns[behind])))
    # Scopes of autograd threads come last, so that parents come before children.
    working = serves[trace.track[rows]] != trace.track[rows]
    nesting = nest(trace.track[rows], trace.start_ns[rows], trace.ends(rows))

    def around(track: Int32, time: Int64) -> Int32:
        return innermost_at(trace.track[rows], trace.start_ns[rows], trace.ends(rows), nesting.parent, track, time)

    parent = nesting.parent.copy()
    alone = np.flatnonzero((parent == MISSING) & working)
    parent[alone] = around(serves[trace.track[rows[alone]]], trace.start_ns[rows[alone]])
    inner = around(trace.track[at], trace.start_ns[at])
    outside = np.flatnonzero(inner == MISSING)
    inner[outside] = around(serves[trace.track[at[outside]]], trace.start_ns[at[outside]])
    place = places_of(rows, len(trace))
    itself = of_kind(trace.kind[at], *KINDS) & (place[at] != MISSING)
    inner = np.where(itself, place[at], inner)

    order = np.concatenate((np.flatnonzero(~working), np.flatnonzero(working)))
    moved = places_of(order, len(rows))
    rows = rows[order]
    scopes = _scopes(trace, rows, moved[parent[order]], moved[place[_forward(trace, rows)]])
    found = places_of(at, len(trace))[source]
    return scopes, np.append(moved[inner], np.int32(MISSING))[found].astype(np.int32)


@cached_by_argument
def _is_scope(trace: TraceTable) -> Bool:
    annotations = trace.kind == EventKind.ANNOTATION
    steps = [name for name in np.unique(trace.name[annotations]).tolist() if STEP_NAME.match(trace.strings[name])]
    found: Bool = of_kind(trace.kind, *KINDS) & ~(annotations & np.isin(trace.name, steps))
    return found


def _open_at(trace: TraceTable, track: Int32, time: Int64) -> Int64:
    wanted = np.zeros(len(trace.tracks) + 1, np.bool_)
    wanted[track] = True
    wanted[-1] = False
    rows = np.flatnonzero(wanted[trace.track] & _is_scope(trace))
    begin, end, at = side_by_side(
        (trace.track[rows], trace.start_ns[rows]), (trace.track[rows], trace.ends(rows)), (track, time)
    )
    at = np.sort(at)
    holds: Bool = np.searchsorted(at, begin, side="left") < np.searchsorted(at, end, side="left")
    return rows[holds]


def _outermost(trace: TraceTable, rows: Int64) -> Int64:
    found: Int64 = rows[nest(trace.track[rows], trace.start_ns[rows], trace.ends(rows)).parent == MISSING]
    return found


def _forward(trace: TraceTable, rows: Int64) -> Int32:
    """Returns the forward row of each row in the backward pass (-1 = none, as for gradient hooks)."""
    every = backward_operators(trace)
    within = np.where(trace.kind[rows] == EventKind.OPERATOR, every.of[rows], MISSING)
    function = np.append(every.function, 0)[within]
    own = (trace.start_ns[rows] >= trace.start_ns[function]) & (trace.ends(rows) <= trace.ends(function))
    hooked = np.append(every.adds, False)[within] & ~own
    return np.where(hooked, MISSING, np.append(every.forward, np.int32(MISSING))[within]).astype(np.int32)


def _scopes(trace: TraceTable, rows: Int64, parent: Int32, forward: Int32) -> Scopes:
    place = places_of(trace.operators.row, len(trace))[rows]
    none = np.int32(MISSING)
    within = np.where(trace.kind[rows] == EventKind.OPERATOR, backward_operators(trace).of[rows], MISSING)
    return Scopes(
        kind=trace.kind[rows],
        name=trace.name[rows],
        parent=parent.astype(np.int32),
        shapes=np.append(trace.operators.shapes, none)[place],
        types=np.append(trace.operators.types, none)[place],
        values=np.append(trace.operators.concrete, none)[place],
        stack=np.append(trace.operators.stack, none)[place],
        is_backward=inherit(np.where(within != MISSING, 0, MISSING).astype(np.int32), parent) != MISSING,
        is_eligible=trace.matrix_eligible[rows],
        row=rows.astype(np.int32),
        forward=forward.astype(np.int32),
        calls=np.ones(len(rows), np.int32),
    )


def concatenate(*parts: Scopes) -> Scopes:
    """Concatenates forests. The indices in each forest are shifted accordingly."""
    offsets = np.cumsum([0, *(len(part) for part in parts)])
    columns = {}
    for column in Scopes.__struct_fields__:
        values = [getattr(part, column) for part in parts]
        if column in _REFERENCES:
            values = [
                np.where(value == MISSING, MISSING, value + offset).astype(np.int32)
                for value, offset in zip(values, offsets[:-1], strict=True)
            ]
        columns[column] = np.concatenate(values) if values else getattr(Scopes(), column)
    return Scopes(**columns)


def subset_scopes(scopes: Scopes, used: Int32) -> tuple[Scopes, Int32]:
    """Returns the scopes in ``used`` and their ancestors, and the new index of each one in ``used``."""
    wanted = np.concatenate((used, scopes.forward[with_ancestors(scopes.parent, used)[0]]))
    kept, _ = with_ancestors(scopes.parent, wanted)
    place = places_of(kept, len(scopes))
    columns = {column: getattr(scopes, column)[kept] for column in Scopes.__struct_fields__}
    columns |= {name: place[columns[name]] for name in _REFERENCES}
    return Scopes(**columns), place[used]


INPUTS = ("shapes", "types")
ARGS = (*INPUTS, "values", "stack")


def merge_equal_scopes(
    scopes: Scopes, kinds: tuple[EventKind, ...], args: tuple[str, ...] = ()
) -> tuple[Scopes, Int32]:
    """Merges scopes of these kinds that have equal names and whose ancestors all have equal names. Columns in
    ``args`` must be equal too; other argument columns are dropped.

    Also returns the new index of each old scope. The last entry of these indices is for index -1. A scope of
    another kind gets the index of its nearest ancestor of these kinds.
    """
    kept = np.flatnonzero(np.isin(scopes.kind, kinds))
    place = places_of(kept, len(scopes))
    inner = np.append(inherit(place[:-1], scopes.parent), np.int32(MISSING))
    above = inner[scopes.parent[kept]]
    told = ("kind", "name", "is_backward", *args)
    if not len(kept):
        return Scopes(), np.full(len(scopes) + 1, MISSING, np.int32)
    nodes = group(Forest(above).paths(*(getattr(scopes, name)[kept] for name in told)))
    first = kept[nodes.first]
    over = above[nodes.first]
    of = np.append(nodes.of, MISSING).astype(np.int32)
    columns = {column: getattr(scopes, column)[first] for column in Scopes.__struct_fields__}
    columns |= {"parent": np.where(over == MISSING, MISSING, of[over]).astype(np.int32)}
    columns |= {"row": np.full(len(first), MISSING, np.int32)}
    forward = scopes.forward[first]
    columns |= {"forward": np.where(forward == MISSING, MISSING, of[inner[forward]]).astype(np.int32)}
    columns |= {name: np.full(len(first), MISSING, np.int32) for name in ARGS if name not in args}
    return Scopes(**columns), of[inner]


class CommonScopes:
    """Scopes on which several captures agree: with all details, or reduced to the details on which they agree."""

    def __init__(self, scopes: Scopes, scope: Int32, is_single: bool) -> None:
        self._unmerged, self._scope = scopes, scope
        operators = (EventKind.OPERATOR,)
        levels = [(KINDS, ARGS), (KINDS, ()), (WORK_IN, ()), (operators, INPUTS), (operators, ())]
        merged = [] if is_single else [merge_equal_scopes(scopes, *level) for level in levels]
        self._levels = [of for _, of in merged]
        self._offsets = np.cumsum([len(scopes), *(len(each) for each, _ in merged)])
        self.scopes = concatenate(scopes, *(each for each, _ in merged))
        self.scopes.calls[len(scopes) :] = MISSING

    def of(self, starts: Int64, size: int) -> Int32:
        """Returns the scope of each of ``size`` nodes, if the captures at ``starts`` agree on its operator."""
        first = self._scope[int(starts[0]) : int(starts[0]) + size]
        if len(starts) == 1:
            return first
        agree = np.ones((len(self._levels), size), np.bool_)
        for start in starts[1:].tolist():
            for number, place in enumerate(self._levels):
                agree[number] &= place[first] == place[self._scope[start : start + size]]
        found = np.full(size, MISSING, np.int32)
        for number, place in reversed([*enumerate(self._levels)]):
            common = place[first]
            found = np.where(agree[number], np.where(common == MISSING, MISSING, common + self._offsets[number]), found)
        for start in starts.tolist():
            self._count_calls(self._scope[start : start + size])
        return found.astype(np.int32)

    def _count_calls(self, scope: Int32) -> None:
        """Sets how many calls of a capture each merged scope stands for."""
        members, _ = with_ancestors(self._unmerged.parent, np.unique(scope[scope != MISSING]))
        members = members[self._unmerged.kind[members] == EventKind.OPERATOR]
        for place, offset in zip(self._levels, self._offsets, strict=False):
            merged, count = np.unique(place[members], return_counts=True)
            at, count = merged[merged != MISSING] + offset, count[merged != MISSING]
            known = self.scopes.calls[at]
            self.scopes.calls[at] = np.where((known == MISSING) | (known == count), count, 0)


def insert_scopes(scopes: Scopes, scope: Int32, around: Scopes, outer: Int32) -> tuple[Scopes, Int32]:
    """Inserts scopes and their ancestors below ``outer``. Returns the forest and new indices (-1 = none)."""
    both = (scope != MISSING) & (outer != MISSING)
    size = max(len(scopes), 1)
    wanted = np.unique(outer[both].astype(np.int64) * size + scope[both])
    level, keys = wanted, [wanted]
    while len(level):
        above = scopes.parent[level % size]
        level = np.unique((level - level % size + above)[above != MISSING])
        keys.append(level)
    copied = np.unique(np.concatenate(keys))
    of = copied % size
    above = scopes.parent[of]
    # Parents come before children in the order of these keys, too.
    parent = np.where(
        above == MISSING,
        len(scopes) + copied // size,
        len(scopes) + len(around) + np.searchsorted(copied, copied - of + above),
    )
    whole = concatenate(scopes, around)
    columns = {column: getattr(whole, column) for column in Scopes.__struct_fields__}
    columns = {name: np.concatenate((values, getattr(scopes, name)[of])) for name, values in columns.items()}
    columns["parent"][len(whole) :] = parent
    place = len(whole) + np.searchsorted(copied, outer.astype(np.int64) * size + scope)
    alone = np.where(scope == MISSING, np.where(outer == MISSING, MISSING, outer + len(scopes)), scope)
    return Scopes(**columns), np.where(both, place, alone).astype(np.int32)
