"""From the events of a device to its blocks: which release belongs to which allocation. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.snapshot.table import NEVER, Action, State
from tb_plugin.trace.schema import MISSING

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Final:
    """Blocks in use at the end, by address; rows of the file."""

    row: Int64
    address: Int64
    state: npt.NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Lives:
    """Blocks of a device: when they began and ended, and what tells more of them."""

    event: Int64
    """The event that describes it, -1 = none does."""
    final: Int64
    """Its row at the end, -1 = it is not there."""
    begin: Int64
    freed: Int64
    end: Int64
    unmatched_releases: int
    unreleased_reuse: int
    lost: int


def lives_of(action: npt.NDArray[np.int8], address: Int64, final: Final | None) -> Lives:
    """Returns the blocks that the events of a device and its final state tell of; None: no final state is known.

    Events of one address between two allocations belong to one block: the first request for its release, and the first
    completion. A block whose completion is not recorded ends with the request, unless the final state still has it. One
    from before the events that they complete alone was released before them, where requests are recorded at all: where no
    block that was allocated among the events lacks one.
    """
    rows = np.flatnonzero(action <= Action.FREE_COMPLETED)
    order = rows[np.argsort(address[rows], kind="stable")]
    place, what = address[order], action[order]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = place[1:] != place[:-1]
    starts = np.flatnonzero(fresh | (what == Action.ALLOC))
    known = what[starts] == Action.ALLOC
    requested = _first(order, what == Action.FREE_REQUESTED, starts)
    completed = _first(order, what == Action.FREE_COMPLETED, starts)
    event, where = order[starts], place[starts]
    begin = np.where(known, event, MISSING)
    following = np.full(len(starts), NEVER, np.int64)
    if len(starts):
        reused = ~fresh[starts[1:]]
        following[:-1][reused] = event[1:][reused]
    freed = np.minimum(requested, completed)
    alone = (completed != NEVER) & (requested == NEVER)
    if not (alone & known).any():
        # Requests are recorded: one that is not among the events came before them.
        freed[alone] = MISSING
    end = completed.copy()
    left = np.full(len(starts), MISSING, np.int64)
    last = np.flatnonzero(following == NEVER)  # one for each address
    open_ = last[completed[last] == NEVER]
    extra = np.empty(0, np.int64)
    if final is not None and len(final.row):
        at = np.argsort(final.address, kind="stable")
        sorted_ = final.address[at]
        found = np.minimum(np.searchsorted(sorted_, where[open_]), len(at) - 1)
        is_left = sorted_[found] == where[open_]
        left[open_[is_left]] = at[found[is_left]]
        extra = np.setdiff1d(np.arange(len(at)), left[open_[is_left]])
    # Nobody recorded its end: it ended when its release was asked for.
    silent = (completed == NEVER) & (requested != NEVER) & (left == MISSING)
    end[silent] = requested[silent]
    lost = int((end[last] == NEVER).sum() - (left[last] != MISSING).sum()) if final is not None else 0
    cut = (end == NEVER) & (following != NEVER)
    end[cut] = following[cut]
    freed[cut] = np.minimum(freed[cut], following[cut])
    releases = int((what != Action.ALLOC).sum())
    matched = int((requested != NEVER).sum() + (completed != NEVER).sum())
    begins, frees = _earlier(extra, final, where[last], end[last])
    return Lives(
        event=np.concatenate((event, np.full(len(extra), MISSING))),
        final=np.concatenate((left if final is None else np.where(left == MISSING, MISSING, _take(final.row, left)),
                              _take(final.row, extra) if final is not None else extra)),
        begin=np.concatenate((begin, begins)),
        freed=np.concatenate((freed, frees)),
        end=np.concatenate((end, np.full(len(extra), NEVER))),
        unmatched_releases=releases - matched,
        unreleased_reuse=int(cut.sum()),
        lost=lost,
    )  # fmt: skip


def _first(order: Int64, chosen: Bool, starts: Int64) -> Int64:
    """The first chosen event of each group, NEVER where there is none."""
    if not len(starts):
        return np.empty(0, np.int64)
    found: Int64 = np.minimum.reduceat(np.where(chosen, order, NEVER), starts)
    return found


def _take(values: Int64, at: Int64) -> Int64:
    return values[np.maximum(at, 0)] if len(values) else at


def _earlier(extra: Int64, final: Final | None, place: Int64, end: Int64) -> tuple[Int64, Int64]:
    """When blocks began and were freed of which the final state alone knows: before the first event.

    One at an address that events speak of began when these ended.
    """
    if final is None or not len(extra):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    begin = np.full(len(extra), MISSING, np.int64)
    if len(place):
        at = np.minimum(np.searchsorted(place, final.address[extra]), len(place) - 1)
        again = (place[at] == final.address[extra]) & (end[at] != NEVER)
        begin[again] = end[at[again]]
    return begin, np.where(final.state[extra] == State.PENDING, begin, NEVER)
