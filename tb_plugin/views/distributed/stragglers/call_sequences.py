"""Calls of each worker and step in time order, for event-driven simulation."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import side_by_side
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.views.distributed.stragglers.arrivals import Arrivals
from tb_plugin.views.distributed.stragglers.calls import StragglerCalls

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

NEVER = np.iinfo(np.int64).min // 2


class Lanes(msgspec.Struct, frozen=True, eq=False):
    """Starts and ends of calls, sorted into lanes.

    A lane is one worker in one step, and has the index ``worker * steps + step``.
    """

    count: int
    of: Int64
    """Lane of each call; -1 if the call is outside the steps."""
    call: Int64
    """Call that starts or ends, sorted by lane and time."""
    is_end: Bool
    first: Int64
    """Index in ``call`` of the first start or end of each lane."""
    end: Int64
    """Index in ``call`` after the last start or end of each lane."""
    message_ends: Int64
    """Point-to-point calls of messages, if sender and receiver are both loaded."""
    message: Int64
    """Index of the message of each call in ``message_ends``."""


@cached_by_argument
def lanes_of(calls: StragglerCalls, workers: int, steps: int) -> Lanes:
    """Sorts calls into lanes. Calls with a step index >= ``steps`` are outside the steps."""
    of = np.where(calls.step < steps, calls.worker * steps + calls.step, -1)
    rows = np.flatnonzero(of >= 0)
    start = calls.start_ns[rows]
    # Ends come before starts at the same time. A call without duration ends after its start.
    end = start + np.maximum(calls.dur_ns[rows], 1)
    lane = np.concatenate((of[rows], of[rows]))
    (time,) = side_by_side((lane, np.concatenate((end, start))))
    order = np.argsort(time, kind="stable")
    size = np.bincount(of[rows], minlength=workers * steps)
    stop = np.cumsum(size * 2)
    ends = np.flatnonzero(calls.two_ended & (calls.match >= 0))
    _, which, times = np.unique(calls.match[ends], return_inverse=True, return_counts=True)
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


class Meetings(msgspec.Struct, frozen=True, eq=False):
    """Collectives and messages that calls wait for.

    Collectives come first, then messages, then one dummy entry for calls with unknown partners.
    """

    of: Int64
    at: Int64
    """Start of each call relative to the other calls of its collective or message."""
    top: Int64
    """Last start of a call in each collective or message."""
    is_complete: Bool
    """Whether the order of arrivals is known for each collective or message."""

    @classmethod
    def from_arrivals(cls, arrived: Arrivals, lanes: Lanes, late_ns: Int64, known: Bool) -> Meetings:
        """Returns the collectives and messages of all calls.

        ``late_ns`` is the start of each row of Arrivals. ``known`` marks collectives with a known order of
        arrivals.
        """
        calls, collectives = arrived.calls, len(arrived.last)
        ends, message = lanes.message_ends, lanes.message
        messages = int(message.max(initial=-1)) + 1
        of, at = np.full(len(lanes.of), collectives + messages), np.zeros(len(lanes.of), np.int64)
        real = np.flatnonzero(arrived.row >= 0)
        of[arrived.row[real]], at[arrived.row[real]] = arrived.collective[real], late_ns[real]
        of[ends], at[ends] = collectives + message, -calls.dur_ns[ends]
        latest = np.full(messages, NEVER)
        np.maximum.at(latest, message, at[ends])
        all_known = np.concatenate((known, np.ones(messages, np.bool_), [False]))
        all_known[of[lanes.of < 0]] = False
        return cls(of, at, np.concatenate((late_ns[arrived.last], latest, [0])), all_known)


class Walk:
    """Event-driven simulation in which a collective ends only after all ranks have started the collective."""

    def __init__(self, lanes: Lanes, meetings: Meetings) -> None:
        self._lanes = lanes
        self._of = meetings.of
        self._left = np.bincount(meetings.of, minlength=len(meetings.top))
        self._left[~meetings.is_complete] = 0
        self.stuck = np.empty(0, np.int64)

    def __iter__(self) -> Iterator[tuple[Int64, Int64, Int64, Int64]]:
        """Yields four arrays: calls that start, the lanes of these calls, calls that end next, and the lanes of
        these calls.
        """
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
    """Sets ``highest`` at ``rows`` to the maximum of its values and ``values``, in place.

    ``highest`` has shape (columns, all rows). ``values`` has shape (len(rows), columns).
    """
    for column, mine in enumerate(highest):
        np.maximum.at(mine, rows, values[:, column])  # all columns at once would be ten times slower
