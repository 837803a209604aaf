"""Calls of each worker in each step, one after the other, for whoever follows them from call to call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import side_by_side
from tb_plugin.lib.model_cache import remembered
from tb_plugin.views.distributed.stragglers.arrivals import Arrivals
from tb_plugin.views.distributed.stragglers.calls import StragglerCalls

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

NEVER = np.iinfo(np.int64).min // 2
"""Earlier than any time."""


@dataclass(frozen=True, eq=False)
class Lanes:
    """Begins and ends of calls. A lane is a worker in a step: number ``worker * steps + step``."""

    count: int
    of: Int64
    """The lane of each call; -1 for one in no step."""
    call: Int64
    """What begins or ends, those of each lane in order of time."""
    is_end: Bool
    first: Int64
    """Where those of each lane begin, and ..."""
    end: Int64
    """... end."""
    message_ends: Int64
    """Calls from one rank to another of which both ends are here, and ..."""
    message: Int64
    """... the number of each one's message."""


@remembered
def lanes_of(met: StragglerCalls, workers: int, steps: int) -> Lanes:
    """Returns the lanes of calls; steps beyond ``steps`` are none."""
    of = np.where(met.step < steps, met.worker * steps + met.step, -1)
    rows = np.flatnonzero(of >= 0)
    start = met.start_ns[rows]
    # Who ends as another begins is over by then: ends stand first. A call that takes no time ends after it began.
    end = start + np.maximum(met.dur_ns[rows], 1)
    lane = np.concatenate((of[rows], of[rows]))
    (time,) = side_by_side((lane, np.concatenate((end, start))))
    order = np.argsort(time, kind="stable")
    size = np.bincount(of[rows], minlength=workers * steps)
    stop = np.cumsum(size * 2)
    ends = np.flatnonzero(met.two_ended & (met.match >= 0))
    _, which, times = np.unique(met.match[ends], return_inverse=True, return_counts=True)
    both = times[which] == 2
    return Lanes(
        count=workers * steps,
        of=of,
        call=np.concatenate((rows, rows))[order],
        is_end=order < len(rows),
        first=stop - size * 2,
        end=stop,
        message_ends=ends[both],
        message=np.unique(which[both], return_inverse=True)[1].astype(np.int64),
    )


@dataclass(frozen=True, eq=False)
class Meetings:
    """What calls wait for: the collectives of Arrivals, then messages, and a last one of which nothing is known."""

    of: Int64
    """The meeting of each call."""
    at: Int64
    """When the call begins, on an axis of its meeting's own, and ..."""
    top: Int64
    """... when the last one of each meeting does."""
    known: Bool
    """Whether that says something, of each meeting."""

    @classmethod
    def made(cls, arrived: Arrivals, lanes: Lanes, late_ns: Int64, known: Bool) -> Meetings:
        """Returns the meetings of calls; ``late_ns`` is when each row of Arrivals is here, ``known`` of each collective."""
        met, collectives = arrived.met, len(arrived.last)
        ends, message = lanes.message_ends, lanes.message
        messages = int(message.max(initial=-1)) + 1
        of, at = np.full(len(lanes.of), collectives + messages), np.zeros(len(lanes.of), np.int64)
        here = np.flatnonzero(arrived.row >= 0)
        of[arrived.row[here]], at[arrived.row[here]] = arrived.collective[here], late_ns[here]
        of[ends], at[ends] = collectives + message, -met.dur_ns[ends]
        latest = np.full(messages, NEVER)
        np.maximum.at(latest, message, at[ends])
        all_known = np.concatenate((known, np.ones(messages, np.bool_), [False]))
        all_known[of[lanes.of < 0]] = False
        return cls(of, at, np.concatenate((late_ns[arrived.last], latest, [0])), all_known)


class Walk:
    """Follows lanes from begin to end to begin: each goes on at once, but no call ends before all of its meeting began."""

    def __init__(self, lanes: Lanes, meetings: Meetings) -> None:
        self._lanes = lanes
        self._of = meetings.of
        self._left = np.bincount(meetings.of, minlength=len(meetings.top))
        """Begins that are missing of each meeting."""
        self._left[~meetings.known] = 0
        self.stuck = np.empty(0, np.int64)
        """Lanes left with ends that none of their begins precede: nobody knows what waits for what there."""

    def __iter__(self) -> Iterator[tuple[Int64, Int64, Int64, Int64]]:
        """Gives calls that begin and their lanes, then those that end after these begins, and theirs: no lane is in both."""
        call, is_end, end = self._lanes.call, self._lanes.is_end, self._lanes.end
        place = self._lanes.first.copy()
        active = np.flatnonzero(place < end)
        while len(active):
            which, over_now = call[place[active]], is_end[place[active]]
            begins = np.flatnonzero(~over_now)
            np.subtract.at(self._left, self._of[which[begins]], 1)
            ends = np.flatnonzero(over_now)
            ends = ends[self._left[self._of[which[ends]]] <= 0]
            if not len(begins) and not len(ends):
                self.stuck = active
                return
            yield which[begins], active[begins], which[ends], active[ends]
            moved = ~over_now
            moved[ends] = True
            place[active[moved]] += 1
            active = active[place[active] < end[active]]


def raise_to(highest: Int64, rows: Int64, values: Int64) -> None:
    """Makes ``highest`` ([column, row]) at least ``values`` ([place, column]) at ``rows``."""
    for column, mine in enumerate(highest):
        np.maximum.at(mine, rows, values[:, column])  # for all columns at once it takes ten times as long
