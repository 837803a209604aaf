"""Lives of memory blocks, in traces and snapshots.

Events have numbers, from 0. A block is allocated after event e if ``begin <= e < freed``.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.model.snapshot.table import NEVER, Action, State
from tb_plugin.model.trace.schema import MISSING

Whole = npt.NDArray[np.integer]


class Final(msgspec.Struct, frozen=True, eq=False):
    """Blocks in use at the end of the history. ``row`` is the row of each block in the file."""

    row: Int64
    address: Int64
    state: npt.NDArray[np.int8]


class Lives(msgspec.Struct, frozen=True, eq=False):
    """Lives of the blocks of one device. All values are numbers of events; see ``snapshot.table`` for snapshots."""

    event: Whole
    """Event with the details of the block; -1 = none."""
    begin: Whole
    freed: Whole
    end: Whole
    final: Whole
    """Row of the block in the final state of a snapshot; -1 if the final state does not contain the block."""
    unmatched_releases: int = 0
    unreleased_reuse: int = 0
    lost: int = 0


def lives_in_trace(address: Int64, size: Int64) -> Lives:
    """Returns the lives of blocks, in the order of ``event``. ``size`` is negative for a release.

    A release ends the block that was last allocated at its address. Any other release is a block of its own. Without
    a recorded allocation or release, the previous or the next event at the same address bounds the life of the block.
    """
    rows = np.flatnonzero(size)
    order = rows[np.argsort(address[rows], kind="stable")]
    place, grew = address[order], size[order] > 0
    same = (place[1:] == place[:-1]) & has_address(place[1:])
    before = np.append(MISSING, np.where(same, order[:-1], MISSING))[: len(order)]
    after = np.append(np.where(same, order[1:], NEVER), NEVER)[: len(order)]
    follows_allocation = np.append(False, same & grew[:-1])[: len(order)]
    first = np.flatnonzero(grew | ~follows_allocation)
    first = first[np.argsort(order[first], kind="stable")]
    begin, freed = np.where(grew, order, before)[first], np.where(grew, after, order)[first]
    return Lives(order[first], begin, freed, freed, np.full(len(first), MISSING))


def has_address(address: Int64) -> Bool:
    known: Bool = (address != 0) & (address != MISSING)
    return known


class _Groups(msgspec.Struct, frozen=True, eq=False):
    """Consecutive events at the same address, from one allocation to the next. One row per group, except ``what``."""

    what: npt.NDArray[np.int8]
    event: Int32
    address: Int64
    is_known: Bool
    requested: Int32
    completed: Int32
    following: Int32
    """First event of the next group at the same address; NEVER if there is none."""


def lives_in_snapshot(action: npt.NDArray[np.int8], address: Int64, final: Final | None) -> Lives:
    """Returns the lives of a device's blocks. ``final`` is None if the final state is unknown.

    The events at one address between two allocations belong to one block. If a block has several release requests
    or completed releases, the first of each is used. If no completed release is recorded, the block ends with its
    release request, unless the final state still contains the block.
    """
    groups = _grouped(action, address)
    requested, completed, following = groups.requested, groups.completed, groups.following
    freed, end = np.minimum(requested, completed), completed.copy()
    alone = (completed != NEVER) & (requested == NEVER)
    if not (alone & groups.is_known).any():
        freed[alone] = MISSING
    last = np.flatnonzero(following == NEVER)  # one per address
    left, extra = _left(groups, last[completed[last] == NEVER], final)
    silent = (completed == NEVER) & (requested != NEVER) & (left == MISSING)
    end[silent] = requested[silent]
    lost = int((end[last] == NEVER).sum() - (left[last] != MISSING).sum()) if final is not None else 0
    cut = (end == NEVER) & (following != NEVER)
    end[cut] = following[cut]
    freed[cut] = np.minimum(freed[cut], following[cut])
    releases = int((groups.what != Action.ALLOC).sum())
    matched = int((requested != NEVER).sum() + (completed != NEVER).sum())
    begins, frees = _earlier(extra, final, groups.address[last], end[last])
    rows = np.empty(0, np.int32) if final is None else final.row.astype(np.int32)
    return Lives(
        event=np.concatenate((groups.event, np.full(len(extra), MISSING, np.int32))),
        final=np.concatenate((np.where(left == MISSING, np.int32(MISSING), _take(rows, left)), _take(rows, extra))),
        begin=np.concatenate((np.where(groups.is_known, groups.event, np.int32(MISSING)), begins)),
        freed=np.concatenate((freed, frees)),
        end=np.concatenate((end, np.full(len(extra), NEVER, np.int32))),
        unmatched_releases=releases - matched,
        unreleased_reuse=int(cut.sum()),
        lost=lost,
    )


def _grouped(action: npt.NDArray[np.int8], address: Int64) -> _Groups:
    # 32-bit event numbers halve the memory needed for millions of events.
    rows = np.flatnonzero(action <= Action.FREE_COMPLETED).astype(np.int32)
    order = rows[np.argsort(address[rows], kind="stable").astype(np.int32)]
    del rows
    place, what = address[order], action[order]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = place[1:] != place[:-1]
    starts = np.flatnonzero(fresh | (what == Action.ALLOC)).astype(np.int32)
    event = order[starts]
    following = np.full(len(starts), NEVER, np.int32)
    reused = ~fresh[starts[1:]]
    following[:-1][reused] = event[1:][reused]
    return _Groups(
        what,
        event,
        place[starts],
        what[starts] == Action.ALLOC,
        _first(order, what == Action.FREE_REQUESTED, starts),
        _first(order, what == Action.FREE_COMPLETED, starts),
        following,
    )


def _left(groups: _Groups, open_: Int64, final: Final | None) -> tuple[Int32, Int32]:
    left = np.full(len(groups.event), MISSING, np.int32)
    if final is None or not len(final.row):
        return left, np.empty(0, np.int32)
    at = np.argsort(final.address, kind="stable").astype(np.int32)
    sorted_ = final.address[at]
    found = np.minimum(np.searchsorted(sorted_, groups.address[open_]), len(at) - 1)
    is_left = sorted_[found] == groups.address[open_]
    left[open_[is_left]] = at[found[is_left]]
    extra: Int32 = np.setdiff1d(np.arange(len(at), dtype=np.int32), left[open_[is_left]])
    return left, extra


def _first(order: Int32, chosen: Bool, starts: Int32) -> Int32:
    if not len(starts):
        return np.empty(0, np.int32)
    found: Int32 = np.minimum.reduceat(np.where(chosen, order, np.int32(NEVER)), starts)
    return found


def _take(values: Int32, at: Int32) -> Int32:
    return values[np.maximum(at, 0)] if len(values) else at


def _earlier(extra: Int32, final: Final | None, place: Int64, end: Int32) -> tuple[Int32, Int32]:
    """Returns the events of blocks that only the final state contains: older ones, or after the last at their address."""
    begin = np.full(len(extra), MISSING, np.int32)
    if final is None or not len(extra):
        return begin, begin
    if len(place):
        at = np.minimum(np.searchsorted(place, final.address[extra]), len(place) - 1)
        again = (place[at] == final.address[extra]) & (end[at] != NEVER)
        begin[again] = end[at[again]]
    return begin, np.where(final.state[extra] == State.PENDING, begin, np.int32(NEVER))
