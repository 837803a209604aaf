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


class RecordedCalls(msgspec.Struct, frozen=True, eq=False):
    """Recorded calls that a view shows: parents, labels, and the innermost call around each launch."""

    parent: Int32
    label: Int64
    of: Int32
    """Index of the innermost call that encloses each launch (-1 = none)."""


class ReplayPairs(msgspec.Struct, frozen=True, eq=False):
    """Pairs of a call and a replay. In each pair, the replay ran work of the call."""

    call: Int64 = no_rows(np.int64)
    replay: Int64 = no_rows(np.int64)

    def __len__(self) -> int:
        return len(self.call)

    def count(self, group_of: Int64, count: int) -> Int64:
        """Returns the number of pairs per group. ``group_of`` is the group of each call (-1 = none)."""
        of = group_of[self.call]
        return np.bincount(of[of != MISSING], minlength=count).astype(np.int64)


class VirtualCalls(msgspec.Struct, frozen=True, eq=False):
    """Virtual calls. Their indices start after those of the recorded calls."""

    scope: Int64
    """Index of the scope of each virtual call in ``Origins.scopes``."""
    parent: Int32
    enclosed: ReplayPairs
    """Pairs of a virtual call and a replay that ran work of this call."""
    owner: Int32
    """Index of the call (virtual or recorded) to which each device row belongs (-1 = none)."""

    def __len__(self) -> int:
        return len(self.scope)

    def with_virtual(
        self, values: npt.NDArray[Number], virtual: npt.NDArray[Number] | None = None
    ) -> npt.NDArray[Number]:
        """Appends values for the virtual calls, by default zeros, to those of the recorded calls."""
        if not len(self):
            return values
        return np.concatenate((values, np.zeros(len(self), values.dtype) if virtual is None else virtual))


def virtual_calls(
    trace: TraceTable,
    work: Int64,
    behind: Int32,
    recorded: RecordedCalls,
    is_visible: Bool,
    labels: Int64,
    counted: bool = True,
) -> VirtualCalls:
    """Returns the virtual calls of the replays in ``work``.

    ``behind`` is the innermost scope of each device row. ``is_visible`` selects the scopes that the view shows as calls.
    ``labels`` contains the labels of all scopes, which can be compared with ``RecordedCalls.label``. If ``counted`` is
    False, ``enclosed`` stays empty.
    """
    no_owner = np.full(len(work), MISSING, np.int32)
    none = np.empty(0, np.int64)
    if not is_visible.any() or (behind == MISSING).all():
        return VirtualCalls(none, none.astype(np.int32), ReplayPairs(), no_owner)
    around = origins_of(trace).scopes.parent
    # One more entry at the end is for -1, here and below.
    nearest = np.append(
        inherit(np.where(is_visible, np.arange(len(is_visible)), MISSING).astype(np.int32), around), np.int32(MISSING)
    )
    scope = nearest[behind].astype(np.int64)
    some = np.flatnonzero(scope != MISSING)
    up = np.append(nearest[around], np.int32(MISSING))
    if not len(some):
        return VirtualCalls(none, none.astype(np.int32), ReplayPairs(), no_owner)
    replays = replay_numbers(trace, work[some]) if counted else np.zeros(len(some), np.int64)
    apart = group(recorded.of[some], replays)
    recorded_call = recorded.of[some][apart.first]
    scope_of, replay = _all_around(scope[some], apart.of, up, len(apart))
    # Numbers of (scope, recorded call) pairs, parents before children like the scopes.
    count = len(recorded.parent) + 1
    pairs, which = np.unique(scope_of * count + recorded_call[replay] + 1, return_inverse=True)
    at, at_call = pairs // count, (pairs % count - 1).astype(np.int32)
    same = _open_in_both(recorded, labels, up[:-1], at, at_call)
    number = np.where(same, at_call, len(recorded.parent) + np.cumsum(~same) - 1).astype(np.int32)

    def numbered(scopes: Int64, of: Int32) -> Int32:
        place = np.minimum(np.searchsorted(pairs, scopes * count + of + 1), len(pairs) - 1)
        return np.where(scopes == MISSING, of, number[place]).astype(np.int32)

    new_pairs = np.flatnonzero(~same)
    owner = no_owner
    owner[some] = numbered(scope[some], recorded.of[some])
    enclosed = ReplayPairs()
    if counted:
        new = np.flatnonzero(~same[which.ravel()])
        enclosed = ReplayPairs(number[which.ravel()[new]].astype(np.int64), replays[apart.first][replay[new]])
    return VirtualCalls(
        scope=at[new_pairs],
        parent=numbered(up[at[new_pairs]].astype(np.int64), at_call[new_pairs]),
        enclosed=enclosed,
        owner=owner,
    )


def virtual_operator_calls(
    trace: TraceTable, work: Int64, calls: Int64, parent: Int32, launcher: Int32
) -> VirtualCalls:
    """Returns the virtual operator calls of ``work``. ``launcher`` is the call that launched each device row."""
    if not has_replays(trace):
        none = np.empty(0, np.int64)
        return VirtualCalls(none, none.astype(np.int32), ReplayPairs(), launcher)
    origins = origins_of(trace)
    is_operator = origins.scopes.kind == EventKind.OPERATOR
    recorded = RecordedCalls(parent, trace.name[calls].astype(np.int64), launcher)
    found = virtual_calls(trace, work, origins.at(work), recorded, is_operator, origins.scopes.name.astype(np.int64))
    return replace(found, owner=np.where(found.owner == MISSING, launcher, found.owner))


def _all_around(scope: Int64, of: Int64, up: Int32, count: int) -> tuple[Int64, Int64]:
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


def _open_in_both(recorded: RecordedCalls, labels: Int64, up: Int32, scope: Int64, at_call: Int32) -> Bool:
    members, parent = with_ancestors(recorded.parent, at_call)
    if not len(members):
        return np.zeros(len(scope), np.bool_)
    both = np.concatenate((parent, np.where(up == MISSING, MISSING, up + len(members)))).astype(np.int32)
    path = Forest(both).paths(np.concatenate((recorded.label[members], labels)))
    count = int(path.max()) + 1
    keys, first = [], np.unique(at_call[at_call != MISSING]).astype(np.int64)
    at = places_of(members, len(recorded.parent))[first]
    while len(first):
        keys.append(first * count + path[at])
        at = parent[at]
        first, at = first[at != MISSING], at[at != MISSING]
    own = np.where(at_call == MISSING, MISSING, at_call * np.int64(count) + path[len(members) + scope])
    same: Bool = np.isin(own, np.concatenate(keys)) & (at_call != MISSING)
    return same
