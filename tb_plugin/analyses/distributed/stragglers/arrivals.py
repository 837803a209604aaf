"""Who arrived when at each collective, and what its last rank costs: the time between it and the one before it.

A synchronising collective ends at one time on all ranks, so that who arrives later has the shorter call: durations order the
arrivals without any clock. After it all ranks begin anew together; what one loses before the next collective is in the
lateness at that one alone, and delays do not add up from collective to collective.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.distributed.matching.codes import codes, occurrence
from tb_plugin.analyses.distributed.matching.quantiles import median_by
from tb_plugin.analyses.distributed.waiting import ESTIMATED, MEASURED, TIMINGS, Waiting

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

UNKNOWN = np.iinfo(np.int64).min
"""Stands for a lateness that nobody knows."""
UNKNOWN_WAIT = 10**14
"""Stands for a wait that nobody knows: a day, more than any."""


@dataclass(frozen=True, eq=False)
class Met:
    """What is asked of n calls of all workers, each worker's in order of time."""

    worker: Int64
    step: Int64
    group: Int64
    """Code of the process group."""
    stream: Int64
    """Code of the stream, among those of the worker."""
    two_ended: Bool
    """A call from one rank to another: who receives waits for who sends by the plan of the program, and nobody is late."""
    start_ns: Int64
    dur_ns: Int64
    blocked_ns: Int64
    """Time of the call in which it alone keeps its worker from computing; all of it where nobody knows."""
    match: Int64
    waiting: Waiting
    lateness_ns: Int64
    """Start by corrected clocks less the median of its collective; UNKNOWN where durations say who came when."""
    noise_ns: Int64
    """How wrong lateness of its worker may be: less is no lateness."""
    level_ns: Int64
    """Start by corrected clocks less the median of its collective, also where durations say who came when; UNKNOWN where
    clocks do not tell."""
    level_noise_ns: Int64
    """How wrong that may be."""
    time_ns: Int64
    """Start by corrected clocks, on one axis; UNKNOWN for workers whose clock nobody knows."""
    excused_ns: Int64
    """Where the collective is the first one that a worker recorded: so much of its lateness says something of its profiler
    alone, which was started later than that of others."""


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Calls of collectives that two workers or more have, and one that is made up where the last one lacks its call.

    Rows stand collective by collective in order of arrival; ``last`` and the columns after it have one value a collective.
    """

    met: Met
    row: Int64
    """Row of Met; -1 for one that is made up."""
    worker: Int64
    late_ns: Int64
    """Arrival less the median of the collective."""
    apart_ns: Int64
    """Arrival less the median of all but the last: one that is far behind does not move it."""
    collective: Int64
    """Number of the collective that a row belongs to: 0, 1, ..."""
    last: Int64
    """Row (here) of the worker that arrives last; the one before it is the row before."""
    before: Int64
    """Row of Met of the one before it: whom it is compared with."""
    step: Int64
    group: Int64
    raw_ns: Int64
    """Last arrival less the one before it."""
    inherited_ns: Int64
    """What it costs that is no fault of the last: it waited for others in other groups, since this one last blocked it."""
    low_ns: Int64
    high_ns: Int64
    """What it costs beside that: for how much longer it blocks the worker before the last than the last. At most so much is
    gained; at least what surely is waiting and not transfer that it keeps from being hidden."""
    told: Bool
    """Who came last says something of the worker, and not of when its recording began."""
    sure: Bool
    """Every rank of the group is here, so that none can be later."""

    @property
    def culprit(self) -> Int64:
        """Returns the worker that arrives last at each collective."""
        return self.worker[self.last]


def arrivals(met: Met) -> Arrivals:
    """Returns the arrivals at collectives, with the cost of each one's last."""
    lost, alone = _lost(met)
    rows = np.flatnonzero((met.match >= 0) & ~met.two_ended)
    matches, which = np.unique(met.match[rows], return_inverse=True)
    rows = np.concatenate((rows, alone.row))
    which = np.concatenate((which.astype(np.int64), len(matches) + np.arange(len(alone.row))))
    arrival = _arrival(met, rows, which)
    row, worker, which, arrival, came = _with_missing(met, rows, which, arrival, alone)
    order = np.lexsort((worker, arrival, which))
    row, worker, which, arrival, came = (each[order] for each in (row, worker, which, arrival, came))
    first = np.flatnonzero(np.diff(which, prepend=-1))
    count = np.diff(np.append(first, len(which)))
    last = first + count - 1
    middle = (arrival[first + (count - 1) // 2] + arrival[first + count // 2]) // 2
    others = (arrival[first + np.maximum(count - 2, 0) // 2] + arrival[first + (count - 1) // 2]) // 2
    # The first to arrive is never made up.
    opening, next_to_last = row[first], _next_to_last(met, row, arrival, first, last)
    before = row[next_to_last]
    raw = arrival[last] - arrival[next_to_last]
    noise = np.maximum(met.noise_ns[np.maximum(row[last], 0)], met.noise_ns[before])
    there, late = row[last] >= 0, np.maximum(row[last], 0)
    excused = np.where(there, met.excused_ns[late], _of_each(met.excused_ns[np.maximum(row, 0)], first))
    raw = raw - np.minimum(excused, raw)
    told = (count > 1) & ((excused <= 0) | (raw > noise))
    raw = np.where((raw > noise) & told, raw, 0)
    blocked = met.blocked_ns[before]
    usual = _usually_blocked(met, row, worker, which, first, last)
    lacking = np.where(usual >= 0, np.maximum(blocked - usual, 0), np.minimum(blocked, raw))
    cost = np.where(there, np.maximum(blocked - met.blocked_ns[late], 0), lacking)
    cost = np.where(raw > 0, np.maximum(cost - excused, 0), 0)
    made_up = Lost(worker[last], met.group[opening], came[last], np.zeros(len(last), np.int64))
    inherited = _inherited(met, row[last], made_up, lost, alone, before, cost)
    own = cost - inherited
    hidden = met.dur_ns[before] - blocked
    return Arrivals(
        met=met,
        row=row,
        worker=worker,
        late_ns=arrival - middle[which],
        apart_ns=arrival - others[which],
        collective=which,
        last=last,
        before=before,
        step=met.step[opening],
        group=met.group[opening],
        raw_ns=raw,
        inherited_ns=inherited,
        low_ns=np.clip(raw - hidden - inherited, 0, own),
        high_ns=own,
        told=told,
        sure=there & (met.waiting.timing[opening] == TIMINGS.index(MEASURED)),
    )


def _of_each(value: Int64, first: Int64) -> Int64:
    """The largest value of each collective, of rows that stand together."""
    return np.maximum.reduceat(value, first) if len(first) else np.zeros(0, np.int64)


def _arrival(met: Met, rows: Int64, which: Int64) -> Int64:
    """When each arrives, on an axis of its collective's own: by clocks where all its workers have one, else by durations."""
    count = int(which.max(initial=-1)) + 1
    late = met.lateness_ns[rows]
    blind = np.zeros(count, np.bool_)
    blind[which[late == UNKNOWN]] = True
    return np.where(blind[which], -met.dur_ns[rows], late)


def _next_to_last(met: Met, row: Int64, arrival: Int64, first: Int64, last: Int64) -> Int64:
    """The row (rows stand in order of arrival) of whom the last one is compared with at each collective.

    The one before it by durations is, of those that are level, the one whose end came earliest by chance: its duration is
    too short by that, and over many collectives this adds up. Where clocks tell who of them came last it is that one: by a
    measure that knows nothing of how its end was.
    """
    found = np.maximum(last - 1, first)
    which = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(row))))
    mine = np.maximum(row, 0)
    away = arrival[found][which] - arrival
    level = (row >= 0) & (met.level_ns[mine] != UNKNOWN)
    level &= away <= met.level_noise_ns[mine] + met.level_noise_ns[mine[found]][which]
    level[last] = False
    late = np.where(level, met.level_ns[mine], UNKNOWN)
    best = np.maximum.reduceat(late, first) if len(first) else late
    chosen = np.flatnonzero(level & (late == best[which]))[::-1]
    found[which[chosen]] = chosen
    return found


def _usually_blocked(met: Met, row: Int64, worker: Int64, which: Int64, first: Int64, last: Int64) -> Int64:
    """For how long a call that is made up would block its worker: as it does where that worker is last at the same place.

    That is the median over the steps; -1 where the call is none that is made up, or nobody knows.
    """
    made_up = np.flatnonzero(row[last] < 0)
    found = np.full(len(last), -1)
    if not len(made_up):
        return found
    number = occurrence(codes(met.worker, met.group, met.step))
    # A worker that lacks a call counts too few: the others tell the place.
    place = np.maximum.reduceat(np.where(row >= 0, number[np.maximum(row, 0)], -1), first)
    key = codes(worker[last], met.group[row[first]], place)
    known = np.flatnonzero(row[last] >= 0)
    count = int(key.max()) + 1
    usual = median_by(key[known], met.blocked_ns[row[last[known]]], count)
    there = np.bincount(key[known], minlength=count) > 0
    found[made_up] = np.where(there[key[made_up]], usual[key[made_up]], -1)
    return found


def _with_missing(
    met: Met, rows: Int64, which: Int64, arrival: Int64, alone: Alone
) -> tuple[Int64, Int64, Int64, Int64, Int64]:
    """Adds an arrival for each worker that lacks the call and is taken to have been last at it.

    That is as ``waiting`` found, and as ``alone`` says, whose calls are the last of ``rows``. Of what is added it returns
    also when it was by corrected clocks, UNKNOWN elsewhere.
    """
    waiting = met.waiting
    some = np.flatnonzero((waiting.timing[rows] == TIMINGS.index(ESTIMATED)) & (waiting.last[rows] >= 0))
    # All others wait until it comes: it comes as much after the latest of them as that one's call is longer than usual.
    order = some[np.lexsort((arrival[some], which[some]))]
    end = np.flatnonzero(np.diff(which[order], append=-1))
    latest, before = order[end], order[np.maximum(end - 1, 0)]
    later = met.dur_ns[rows[latest]] - waiting.transfer_ns[rows[latest]]
    # Where another one is far behind and the rest is as noise, that one is whom all wait for.
    latest = latest[later >= arrival[latest] - arrival[before]]
    who, later = waiting.last[rows[latest]], (met.dur_ns - waiting.transfer_ns)[rows[latest]]
    latest = np.concatenate((latest, len(rows) - len(alone.row) + np.arange(len(alone.row))))
    who, later = np.concatenate((who, alone.other)), np.concatenate((later, alone.wait_ns))
    known = met.time_ns[rows[latest]] != UNKNOWN
    return (
        np.concatenate((rows, np.full(len(latest), -1))),
        np.concatenate((met.worker[rows], who)),
        np.concatenate((which, which[latest])),
        np.concatenate((arrival, arrival[latest] + later)),
        np.concatenate((np.full(len(rows), UNKNOWN), np.where(known, met.time_ns[rows[latest]] + later, UNKNOWN))),
    )


@dataclass(frozen=True, eq=False)
class Alone:
    """Calls that one of a group of two alone has, in which it waited for the other, who came last."""

    row: Int64
    """Row of Met."""
    other: Int64
    """The worker that lacks the call."""
    wait_ns: Int64


@dataclass(frozen=True, eq=False)
class Lost:
    """Calls that are not here."""

    worker: Int64
    group: Int64
    time_ns: Int64
    """When each was by corrected clocks; UNKNOWN where nobody knows."""
    wait_ns: Int64
    """How long the worker waited in it, at most."""

    def take(self, rows: Int64) -> Lost:
        """Returns some of them."""
        return Lost(self.worker[rows], self.group[rows], self.time_ns[rows], self.wait_ns[rows])

    def and_also(self, more: Lost) -> Lost:
        """Returns these, then others."""
        columns = zip(vars(self).values(), vars(more).values(), strict=True)
        return Lost(*(np.concatenate(pair) for pair in columns))


_NONE = np.zeros(0, np.int64)
NONE_LOST, NONE_ALONE = Lost(_NONE, _NONE, _NONE, _NONE), Alone(_NONE, _NONE, _NONE)


def _inherited(met: Met, last: Int64, made_up: Lost, lost: Lost, alone: Alone, before: Int64, cost: Int64) -> Int64:
    """What of each cost is no fault of the last: it waited longer in other groups than the one before it did.

    Without this a rank that is held up in one group would be blamed for it in the next one, too. Where the last one's call
    is made up (``last`` is -1), ``made_up`` says when it was; ``lost`` are others that are not here.
    """
    if len(np.unique(codes(met.group, met.two_ended.astype(np.int64)))) < 2:
        return np.zeros(len(cost), np.int64)
    asked, calls = np.flatnonzero((last < 0) & (made_up.time_ns != UNKNOWN)), len(met.worker)
    waited = waited_elsewhere(met, made_up.take(asked).and_also(lost), alone)
    mine = np.where(last >= 0, waited[np.maximum(last, 0)], 0)
    mine[asked] = waited[calls : calls + len(asked)]
    return np.clip(mine - waited[before], 0, cost)


def _lost(met: Met) -> tuple[Lost, Alone]:
    """Calls of collectives that one worker of a group lacks, where it is not known that it came last: it may have waited.

    That is for how much longer the last one of the others took since the call of the group before than the one that lacks it
    does otherwise, by the median over the steps of those that it has at that place. Also returned are calls that one of a
    group of two alone has, without a match, where the other came last: those that are longer than usual, the median transfer
    at that place, by half of it.
    """
    groups = codes(met.group, met.two_ended.astype(np.int64))
    member = np.unique(codes(met.worker, groups), return_index=True)[1]
    members = np.bincount(groups[member], minlength=int(groups.max(initial=-1)) + 1)[groups]
    alone = (met.match < 0) & (members == 2) & ~met.two_ended
    lacking = (met.match >= 0) & (met.waiting.workers == members - 1) & ~met.two_ended
    lacking &= met.waiting.timing != TIMINGS.index(ESTIMATED)
    if not (alone | lacking).any():
        return NONE_LOST, NONE_ALONE
    number, gap = occurrence(codes(met.worker, met.group, met.step)), _since_own(met)
    place = codes(met.worker, met.group, number)
    usual = _medians_at(place, met.waiting.transfer_ns, met.match >= 0, UNKNOWN_WAIT)[place]
    came_last = alone & (met.dur_ns > usual + usual // 2)
    everyone = np.bincount(groups[member], weights=met.worker[member]).astype(np.int64)[groups]
    waited = np.flatnonzero(came_last)
    rows = np.flatnonzero(lacking | (alone & ~came_last))
    _, which = np.unique(np.where(lacking, met.match, -1 - np.arange(len(met.match)))[rows], return_inverse=True)
    here = np.bincount(which, weights=met.worker[rows]).astype(np.int64)[which]
    asked = (alone[rows] | (met.waiting.last == met.worker)[rows]) & (met.time_ns[rows] != UNKNOWN) & (gap[rows] >= 0)
    rows, worker = rows[asked], (everyone[rows] - here)[asked]
    both = [
        np.concatenate(pair) for pair in ((met.worker, worker), (met.group, met.group[rows]), (number, number[rows]))
    ]
    place = codes(*both)
    own = _medians_at(place[: len(gap)], gap, gap >= 0, 0, int(place.max()) + 1)[place[len(gap) :]]
    lost = Lost(worker, met.group[rows], met.time_ns[rows], np.maximum(gap[rows] - own, 0))
    return lost, Alone(waited, (everyone - met.worker)[waited], (met.dur_ns - usual)[waited])


def _since_own(met: Met) -> Int64:
    """How long each call begins after the end of the one before of its worker and group; -1 for the first one."""
    own = codes(met.worker, met.group)
    order = np.argsort(own, kind="stable")
    again = np.flatnonzero(np.diff(own[order]) == 0)
    now, before = order[again + 1], order[again]
    gap = np.full(len(own), -1)
    gap[now] = np.maximum(met.start_ns[now] - met.start_ns[before] - met.dur_ns[before], 0)
    return gap


def _medians_at(place: Int64, values: Int64, known: Bool, missing: int, count: int = 0) -> Int64:
    """The median of the known values of each place; ``missing`` where there is none."""
    count = max(count, int(place.max(initial=-1)) + 1)
    found = median_by(place[known], values[known], count)
    return np.where(np.bincount(place[known], minlength=count) > 0, found, missing)


def waited_elsewhere(met: Met, lost: Lost = NONE_LOST, alone: Alone = NONE_ALONE) -> Int64:
    """Returns for each call, then each lost one, how long its worker waited in other groups since one of its own blocked it.

    A call that blocks brings its ranks together; one that computation hides leaves them as far apart as they were. A call
    of a group that holds all of its own group's workers counts as one of its own: it brings them together as well.
    Of a message whose other end is not here all may be waiting, of other calls without a match those in ``alone``.
    """
    added = np.zeros(len(lost.worker), np.int64)
    wait = np.where(met.match >= 0, met.dur_ns - met.waiting.transfer_ns, np.where(met.two_ended, met.dur_ns, 0))
    wait[alone.row] = alone.wait_ns
    wait = np.concatenate((np.minimum(wait, met.blocked_ns), lost.wait_ns))
    worker, blocked = np.concatenate((met.worker, lost.worker)), np.concatenate((met.blocked_ns, added + 1))
    two_ended = np.concatenate((met.two_ended, added > 0))
    group = codes(np.concatenate((met.group, lost.group)), two_ended.astype(np.int64))
    if not len(added):
        return _waited_elsewhere(worker, group, two_ended, wait, blocked)
    order = np.lexsort((np.concatenate((met.time_ns, lost.time_ns)), worker))
    found = np.empty(len(worker), np.int64)
    found[order] = _waited_elsewhere(worker[order], group[order], two_ended[order], wait[order], blocked[order])
    return found


def _waited_elsewhere(worker: Int64, group: Int64, two_ended: Bool, wait: Int64, blocked: Int64) -> Int64:
    """The same of calls that stand, each worker's, in order of time."""
    every = _before(np.argsort(worker, kind="stable"), worker, wait)
    row, of = _together_with(worker, group, two_ended)
    own = codes(worker[row], of)
    order = np.argsort(own, kind="stable")
    others = every[row] - _before(order, own, wait[row])
    found = others[order]
    # What was waited elsewhere up to the last call before it that blocked; nothing up to the first call of a worker.
    first = np.flatnonzero(np.diff(own[order], prepend=-1))
    blocks = np.concatenate(([False], blocked[row[order]][:-1] > 0))
    blocks[first] = True
    base = np.concatenate(([0], found[:-1]))
    base[first] = 0
    since = found - base[np.maximum.accumulate(np.where(blocks, np.arange(len(found)), 0))]
    elsewhere = np.empty(len(wait), np.int64)
    itself = (of == group[row])[order]
    elsewhere[row[order][itself]] = since[itself]
    return elsewhere


def _together_with(worker: Int64, group: Int64, two_ended: Bool) -> tuple[Int64, Int64]:
    """Each call with its group, and with each other group of its worker that has no worker besides this group's; in order."""
    rows = np.arange(len(worker))
    _, place = np.unique(codes(worker, group), return_index=True)
    # Ends of messages meet no group.
    place = place[~two_ended[place]]
    held, its = worker[place], group[place]
    size = np.bincount(its, minlength=int(group.max(initial=-1)) + 1)
    # Pairs of groups that each worker is in both of.
    order = np.argsort(held, kind="stable")
    held, its = held[order], its[order]
    many = np.bincount(held, minlength=int(worker.max(initial=-1)) + 1)
    start = np.cumsum(many) - many
    left = np.repeat(np.arange(len(held)), many[held])
    right = start[held[left]] + np.arange(len(left)) - np.repeat(np.cumsum(many[held]) - many[held], many[held])
    outer, inner = its[left], its[right]
    pair = codes(outer, inner)
    common = np.bincount(pair, minlength=int(pair.max(initial=-1)) + 1)[pair]
    whole = (common == size[inner]) & (outer != inner)
    left, inner = left[whole], inner[whole]
    # Calls of the outer group, once for each inner one.
    outer_key = codes(np.concatenate((worker, held[left])), np.concatenate((group, outer[whole])))
    mine, asked = outer_key[: len(worker)], outer_key[len(worker) :]
    order = np.argsort(asked, kind="stable")
    count = np.bincount(asked, minlength=int(outer_key.max(initial=-1)) + 1)
    begin = np.cumsum(count) - count
    more = count[mine]
    added = np.repeat(rows, more)
    at = np.repeat(begin[mine], more) + np.arange(len(added)) - np.repeat(np.cumsum(more) - more, more)
    row, of = np.concatenate((rows, added)), np.concatenate((group, inner[order[at]]))
    in_time = np.argsort(row, kind="stable")
    return row[in_time], of[in_time]


def _before(order: Int64, key: Int64, value: Int64) -> Int64:
    """For each row the sum of a value over the earlier rows of its key; ``order`` has those of each key together."""
    total = np.cumsum(value[order]) - value[order]
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    total -= np.repeat(total[first], np.diff(np.append(first, len(key))))
    found = np.empty(len(key), np.int64)
    found[order] = total
    return found
