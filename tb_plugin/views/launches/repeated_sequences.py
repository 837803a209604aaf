"""Sequences of kernels that repeat on a stream: what a person could fuse, compile, or capture in a graph.

Sequences grow one kernel at a time, and only where both the one without its first and the one without its last kernel are
frequent; equal ones share a number that is made of two smaller ones. So each length costs what is still frequent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.blocking_calls import waits_for_device
from tb_plugin.analysis.busy_intervals import covered_work
from tb_plugin.analysis.hardware_streams import hardware_streams
from tb_plugin.lib.groupby import Groups, group, numbered
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

LONGEST, LEAST = 16, 5
"""A sequence has 2 to so many kernels, and so many repeats at least."""
COMPARED, LISTED = 500, 200
"""So many sequences are compared, those with most time in gaps, and so many are listed."""
ROUNDS = 4
"""So often the rest is searched again."""


@dataclass(frozen=True, eq=False)
class Repeat:
    """A sequence of kernels and where it repeats; repeats of all sequences share no kernel."""

    length: int
    first: Int64
    """Row of the first kernel of each repeat, by time."""
    rows: Int64
    """The kernels of the first repeat."""
    kernel_ns: int
    gaps_ns: int


@dataclass(frozen=True, eq=False)
class _Stream:
    """Kernels by stream and time, one after the other."""

    row: Int64
    symbol: Int64
    """Equal for kernels of one name on one stream."""
    joined: Bool
    """The next kernel follows: nothing else ran between on the stream, and nobody waited for the device between."""
    gaps: Int64
    """Time in gaps before each, from the very first on."""
    busy: Int64
    """Time in kernels before each, and of all."""


@dataclass(frozen=True, eq=False)
class _Candidate:
    length: int
    at: Int64
    gaps_ns: int
    kernel_ns: int


def repeats(trace: TraceTable, chosen: Bool) -> list[Repeat]:
    """Returns the sequences of the chosen kernels that repeat, most time in their gaps first."""
    stream = _stream(trace, chosen)
    found: list[Repeat] = []
    for _ in range(ROUNDS):
        taken = np.zeros(len(stream.row) + 1, np.bool_)
        for candidate in _candidates(stream):
            inside = candidate.at[:, None] + np.arange(candidate.length)
            free = ~taken[inside].any(axis=1)
            if int(free.sum()) >= LEAST and len(found) < LISTED:
                taken[inside[free]] = True
                found.append(_repeat(stream, candidate.length, candidate.at[free]))
        if not taken.any():
            break
        # A sequence that lay in a longer one is looked for again in what that left.
        stream = replace(stream, joined=stream.joined & ~taken[:-1] & ~taken[1:])
    return sorted(found, key=lambda each: (-each.gaps_ns, -each.kernel_ns, int(each.first[0])))


def _repeat(stream: _Stream, length: int, at: Int64) -> Repeat:
    rows = stream.row[int(at[0]) + np.arange(length)]
    return Repeat(length, stream.row[at], rows, int(_within(stream.busy, at, length).sum()), _gaps(stream, at, length))


def _within(before: Int64, at: Int64, length: int) -> Int64:
    return before[at + length] - before[at]


def _gaps(stream: _Stream, at: Int64, length: int) -> int:
    return int((stream.gaps[at + length - 1] - stream.gaps[at]).sum())


def _stream(trace: TraceTable, chosen: Bool) -> _Stream:
    work = covered_work(trace)
    streams = hardware_streams(trace).of
    work = work[np.lexsort((trace.start_ns[work], streams[work]))]
    stream, start, call = streams[work], trace.start_ns[work], trace.launch[work]
    end = start + trace.dur_ns[work]
    counts = (trace.kind[work] == EventKind.KERNEL) & chosen[work]
    joined = counts[:-1] & counts[1:] & (stream[:-1] == stream[1:])
    joined &= ~_waited_between(trace, start, call)
    gap = np.maximum(np.where(stream[:-1] == stream[1:], start[1:] - end[:-1], 0), 0)
    # Neighbours among the kernels are neighbours among all work wherever they are joined.
    kept = np.flatnonzero(counts)
    before = np.append(0, np.cumsum(gap))
    symbol = group(stream[kept], trace.name[work[kept]]).of
    busy = np.append(0, np.cumsum(trace.dur_ns[work[kept]]))
    return _Stream(work[kept], symbol, np.append(joined, False)[kept], before[kept], busy)


def _waited_between(trace: TraceTable, start: Int64, call: npt.NDArray[np.int32]) -> Bool:
    """Whether a wait for the device began between the launches of neighbours; between their begins where one has none."""
    waits = np.flatnonzero((trace.kind == EventKind.RUNTIME) & waits_for_device(trace))
    begins = np.sort(trace.start_ns[waits])
    launch = np.searchsorted(begins, trace.start_ns[call], side="right") if len(trace) else call
    begin = np.searchsorted(begins, start, side="right")
    known = (call[:-1] != MISSING) & (call[1:] != MISSING)
    found: Bool = np.where(known, launch[:-1] != launch[1:], begin[:-1] != begin[1:])
    return found


@dataclass(frozen=True, eq=False)
class _Frequent:
    """Sequences of one length that occur often enough, by number; their occurrences by number and place."""

    length: int
    of: Int64
    at: Int64
    count: Int64
    good: Bool
    """Occurrences never overlap: what does is a shorter one again and again. Two kernels may be alike."""

    @property
    def first(self) -> Int64:
        """Returns where each occurs first."""
        first: Int64 = self.at[np.cumsum(self.count) - self.count]
        return first


def _candidates(stream: _Stream) -> list[_Candidate]:
    """Sequences that are worth to be compared, most time in gaps first, then in kernels, then the longest, then the first."""
    found: list[_Candidate] = []
    number = np.append(stream.symbol, MISSING)
    shorter: _Frequent | None = None
    for length in range(2, LONGEST + 1):
        longer = _longer(stream, number, length)
        if shorter is not None:
            found += _maximal(stream, shorter, longer, number)
        if not len(longer.at):
            break
        number = np.full(len(stream.row) + 1, MISSING, np.int64)
        number[longer.at] = longer.of
        shorter = longer
    else:
        found += _maximal(stream, longer, None, number)
    found.sort(key=lambda each: (-each.gaps_ns, -each.kernel_ns, -each.length, int(each.at[0])))
    return found[:COMPARED]


def _longer(stream: _Stream, number: Int64, length: int) -> _Frequent:
    """Frequent sequences of one kernel more than those whose ``number`` stands where they begin: two that overlap."""
    at = np.flatnonzero(stream.joined & (number[:-1] != MISSING) & (number[1:] != MISSING))
    of, count = numbered(number[at] * (len(stream.row) + 1) + number[at + 1])
    often = np.bincount(of, minlength=count) >= LEAST
    at, of = at[often[of]], (np.cumsum(often) - 1)[of[often[of]]]
    order = np.argsort(of, kind="stable")
    of, at = of[order], at[order]
    good = np.ones(int(often.sum()), np.bool_)
    if length > 2:
        good[of[1:][(of[1:] == of[:-1]) & (at[1:] - at[:-1] < length)]] = False
    return _Frequent(length, of, at, np.bincount(of, minlength=len(good)), good)


def _maximal(stream: _Stream, some: _Frequent, longer: _Frequent | None, number: Int64) -> list[_Candidate]:
    """Of sequences of a length those that no longer one contains as often as they occur."""
    wanted = some.good.copy()
    if longer is not None:
        for shift in (0, 1):
            inner = number[longer.first + shift]
            wanted[inner[longer.good & (longer.count == some.count[inner])]] = False
    apart = _apart(some)
    of, at, length = some.of[apart], some.at[apart], some.length
    gaps = Groups(of, some.first).sum(stream.gaps[at + length - 1] - stream.gaps[at])
    chosen = np.flatnonzero(wanted)
    if len(chosen) > COMPARED:
        chosen = np.sort(chosen[np.argpartition(-gaps[chosen], COMPARED)[:COMPARED]])
    low, high = (np.searchsorted(of, chosen, side=side).tolist() for side in ("left", "right"))
    return [
        _Candidate(length, at[a:b], int(gaps[i]), int(_within(stream.busy, at[a:b], length).sum()))
        for i, a, b in zip(chosen.tolist(), low, high, strict=True)
    ]


def _apart(some: _Frequent) -> Bool:
    """Which occurrences overlap none before them; only those of two equal kernels ever do."""
    of, at = some.of, some.at
    if some.length > 2 or not len(at):
        return np.ones(len(at), np.bool_)
    begins = np.append(True, (at[1:] - at[:-1] > 1) | (of[1:] != of[:-1]))
    run = np.maximum.accumulate(np.where(begins, np.arange(len(at)), 0))
    found: Bool = (np.arange(len(at)) - run) % 2 == 0
    return found
