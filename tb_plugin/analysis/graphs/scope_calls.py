"""Virtual calls: captured operators and modules of replayed work.

Replays run no operators, so no call in the trace launched their work. For each captured scope, a virtual call is
added to each recorded call that encloses a launch of the scope's graph. A virtual call has device time but no host
time, and counts as one call per replay. If a recorded call that encloses the graph launch has the same path of
names, no virtual call is added, and the recorded call is used instead.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tb_plugin.analysis.forest import Forest, with_ancestors
from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.analysis.graphs.replays import has_replays, replay_numbers
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import group, places_of
from tb_plugin.model.trace.schema import MISSING, EventKind, no_rows
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit

Number = TypeVar("Number", bound=np.generic)


class Bearers(msgspec.Struct, frozen=True, eq=False):
    """Recorded calls that a view shows, their parents and labels, and the innermost of these calls around each
    launch.
    """

    parent: Int32
    label: Int64
    of: Int32
    """Index of the innermost call that encloses each launch (-1 = none)."""


class InReplays(msgspec.Struct, frozen=True, eq=False):
    """Pairs of a call and a replay. In each pair, the replay ran work of the call."""

    call: Int64 = no_rows(np.int64)
    replay: Int64 = no_rows(np.int64)

    def __len__(self) -> int:
        return len(self.call)

    def count(self, group_of: Int64, count: int) -> Int64:
        """Returns the number of pairs in each of ``count`` groups.

        ``group_of`` is the group of each call (-1 = none).
        """
        of = group_of[self.call]
        return np.bincount(of[of != MISSING], minlength=count).astype(np.int64)


class ReplayedCalls(msgspec.Struct, frozen=True, eq=False):
    """Virtual calls. Their indices start after those of the recorded calls."""

    scope: Int64
    """Index of the scope of each virtual call in ``Origins.scopes``."""
    parent: Int32
    enclosed: InReplays
    """Pairs of a virtual call and a replay that ran work of this call."""
    owner: Int32
    """Index of the call (virtual or recorded) to which each device row belongs (-1 = none)."""

    def __len__(self) -> int:
        return len(self.scope)

    def also(self, values: npt.NDArray[Number], those: npt.NDArray[Number] | None = None) -> npt.NDArray[Number]:
        """Appends values for the virtual calls to the values of the recorded calls.

        By default, the appended values are zeros.
        """
        if not len(self):
            return values
        return np.concatenate((values, np.zeros(len(self), values.dtype) if those is None else those))


def replayed_calls(
    trace: TraceTable, work: Int64, behind: Int32, bearers: Bearers, bears: Bool, labels: Int64, counted: bool = True
) -> ReplayedCalls:
    """Returns the virtual calls of the replays in ``work``.

    ``behind`` is the innermost scope of each device row. ``bears`` selects the scopes that the view shows as calls.
    ``labels`` contains the labels of all scopes, which can be compared with ``Bearers.label``. If ``counted`` is
    False, ``enclosed`` stays empty.
    """
    nobody = np.full(len(work), MISSING, np.int32)
    none = np.empty(0, np.int64)
    if not bears.any() or (behind == MISSING).all():
        return ReplayedCalls(none, none.astype(np.int32), InReplays(), nobody)
    around = origins_of(trace).scopes.parent
    # One more entry at the end is for -1, here and below.
    nearest = np.append(
        inherit(np.where(bears, np.arange(len(bears)), MISSING).astype(np.int32), around), np.int32(MISSING)
    )
    scope = nearest[behind].astype(np.int64)
    some = np.flatnonzero(scope != MISSING)
    up = np.append(nearest[around], np.int32(MISSING))
    if not len(some):
        return ReplayedCalls(none, none.astype(np.int32), InReplays(), nobody)
    replays = replay_numbers(trace, work[some]) if counted else np.zeros(len(some), np.int64)
    apart = group(bearers.of[some], replays)
    bearer = bearers.of[some][apart.first]
    scope_of, replay = _all_around(scope[some], apart.of, up, len(apart))
    # Numbers of (scope, bearer) pairs, parents before children like the scopes.
    count = len(bearers.parent) + 1
    pairs, which = np.unique(scope_of * count + bearer[replay] + 1, return_inverse=True)
    at, borne = pairs // count, (pairs % count - 1).astype(np.int32)
    same = _open_in_both(bearers, labels, up[:-1], at, borne)
    number = np.where(same, borne, len(bearers.parent) + np.cumsum(~same) - 1).astype(np.int32)

    def numbered(scopes: Int64, of: Int32) -> Int32:
        """Returns the index of the call for each pair of scope and recorded call.

        If a pair has no scope, returns the recorded call.
        """
        place = np.minimum(np.searchsorted(pairs, scopes * count + of + 1), len(pairs) - 1)
        return np.where(scopes == MISSING, of, number[place]).astype(np.int32)

    made = np.flatnonzero(~same)
    owner = nobody
    owner[some] = numbered(scope[some], bearers.of[some])
    held = InReplays()
    if counted:
        new = np.flatnonzero(~same[which.ravel()])
        held = InReplays(number[which.ravel()[new]].astype(np.int64), replays[apart.first][replay[new]])
    return ReplayedCalls(
        scope=at[made],
        parent=numbered(up[at[made]].astype(np.int64), borne[made]),
        enclosed=held,
        owner=owner,
    )


def replayed_operators(trace: TraceTable, work: Int64, calls: Int64, parent: Int32, launcher: Int32) -> ReplayedCalls:
    """Returns the virtual operator calls of the replays in ``work``.

    ``launcher`` is the index of the call that launched each device row. If no operator was captured for a row, the
    row still belongs to this call.
    """
    if not has_replays(trace):
        none = np.empty(0, np.int64)
        return ReplayedCalls(none, none.astype(np.int32), InReplays(), launcher)
    origins = origins_of(trace)
    is_operator = origins.scopes.kind == EventKind.OPERATOR
    bearers = Bearers(parent, trace.name[calls].astype(np.int64), launcher)
    found = replayed_calls(trace, work, origins.at(work), bearers, is_operator, origins.scopes.name.astype(np.int64))
    return replace(found, owner=np.where(found.owner == MISSING, launcher, found.owner))


def _all_around(scope: Int64, of: Int64, up: Int32, count: int) -> tuple[Int64, Int64]:
    """Adds the ancestors of each scope.

    Returns distinct pairs of a scope and its number in ``of``. All numbers must be below ``count``.
    """
    depth = Forest(up[:-1]).depth
    keys = np.unique(scope * count + of)
    level = depth[keys // count]
    found, climbing = [], keys[:0]
    for each in range(int(level.max(initial=0)), -1, -1):
        here = np.unique(np.concatenate((keys[level == each], climbing)))
        found.append(here)
        above = up[here // count].astype(np.int64)
        climbing = (above * count + here % count)[above != MISSING]
    every = np.concatenate(found)
    return every // count, every % count


def _open_in_both(bearers: Bearers, labels: Int64, up: Int32, scope: Int64, borne: Int32) -> Bool:
    """Returns a mask of the pairs in which a recorded call around the graph launch has the same path of names as
    the scope.
    """
    members, parent = with_ancestors(bearers.parent, borne)
    if not len(members):
        return np.zeros(len(scope), np.bool_)
    both = np.concatenate((parent, np.where(up == MISSING, MISSING, up + len(members)))).astype(np.int32)
    path = Forest(both).paths(np.concatenate((bearers.label[members], labels)))
    count = int(path.max()) + 1
    keys, first = [], np.unique(borne[borne != MISSING]).astype(np.int64)
    at = places_of(members, len(bearers.parent))[first]
    while len(first):
        keys.append(first * count + path[at])
        at = parent[at]
        first, at = first[at != MISSING], at[at != MISSING]
    own = np.where(borne == MISSING, MISSING, borne * np.int64(count) + path[len(members) + scope])
    same: Bool = np.isin(own, np.concatenate(keys)) & (borne != MISSING)
    return same
