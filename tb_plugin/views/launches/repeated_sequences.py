"""Repeated kernel sequences: candidates for fusion or CUDA graphs.

Frequent sequences of n kernels are built from frequent sequences of n - 1 kernels. The id of a sequence combines
the ids of two shorter sequences: without the last kernel, and without the first kernel. So the cost of each length
is proportional to the number of frequent sequences.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tb_plugin.analysis.blocking_calls import waits_for_device
from tb_plugin.analysis.busy_intervals import covered_work
from tb_plugin.analysis.hardware_streams import hardware_streams
from tb_plugin.lib.groupby import Groups, group, number_groups
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

# Maximum kernels per sequence, and minimum number of repeats.
LONGEST, LEAST = 16, 5
COMPARED, LISTED = 500, 200
"""Maximum number of sequences to compare (those with the longest gap time), and maximum number to list."""
# Maximum number of searches. Each one uses the kernels that earlier ones left.
ROUNDS = 4


class Repeat(msgspec.Struct, frozen=True, eq=False):
    """A kernel sequence and its repeats. Two sequences in the result never share a kernel."""

    length: int
    first: Int64
    rows: Int64
    kernel_ns: int
    gaps_ns: int


class _Stream(msgspec.Struct, frozen=True, eq=False):
    """Kernels sorted by stream and time."""

    row: Int64
    symbol: Int64
    joined: Bool
    """Whether the next kernel follows directly: between the two, the stream has no other work and the host does not
    wait.
    """
    gaps: Int64
    """Sum of all gap times before each kernel."""
    busy: Int64
    """Sum of all kernel times before each kernel. The last entry is the sum over all kernels."""


class _Candidate(msgspec.Struct, frozen=True, eq=False):
    length: int
    at: Int64
    gaps_ns: int
    kernel_ns: int


def repeated_sequences(trace: TraceTable, chosen: Bool) -> list[Repeat]:
    """Returns repeated sequences of the selected kernels, sorted by gap time, longest first."""
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
        # Sequences contained in a longer one are searched again in the remaining kernels.
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
    continues = counts[:-1] & counts[1:] & (stream[:-1] == stream[1:])
    continues &= ~_waited_between(trace, start, call)
    gap = np.maximum(np.where(stream[:-1] == stream[1:], start[1:] - end[:-1], 0), 0)
    # Joined kernels stay adjacent when other work is removed.
    counted_rows = np.flatnonzero(counts)
    before = np.append(0, np.cumsum(gap))
    symbol = group(stream[counted_rows], trace.name[work[counted_rows]]).of
    busy = np.append(0, np.cumsum(trace.dur_ns[work[counted_rows]]))
    return _Stream(work[counted_rows], symbol, np.append(continues, False)[counted_rows], before[counted_rows], busy)


def _waited_between(trace: TraceTable, start: Int64, call: npt.NDArray[np.int32]) -> Bool:
    """Returns whether the host starts to wait for the device between each kernel and the next kernel.

    The time between two kernels is the time between their launches, or between their starts if a launch is not
    recorded.
    """
    waits = np.flatnonzero((trace.kind == EventKind.RUNTIME) & waits_for_device(trace))
    begins = np.sort(trace.start_ns[waits])
    launch = np.searchsorted(begins, trace.start_ns[call], side="right") if len(trace) else call
    begin = np.searchsorted(begins, start, side="right")
    known = (call[:-1] != MISSING) & (call[1:] != MISSING)
    found: Bool = np.where(known, launch[:-1] != launch[1:], begin[:-1] != begin[1:])
    return found


class _Frequent(msgspec.Struct, frozen=True, eq=False):
    """Occurrences of the frequent sequences of one length, sorted by sequence and position."""

    length: int
    of: Int64
    at: Int64
    count: Int64
    good: Bool
    """Whether the occurrences of the sequence never overlap.

    If they overlap, they repeat a shorter sequence. Always True for sequences of two kernels.
    """

    @property
    def first(self) -> Int64:
        first: Int64 = self.at[np.cumsum(self.count) - self.count]
        return first


def _candidates(stream: _Stream) -> list[_Candidate]:
    """Returns the sequences to compare, sorted by gap time, kernel time and length (largest first), then by start."""
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
    """Returns the frequent sequences with one more kernel, built from pairs of overlapping shorter sequences."""
    at = np.flatnonzero(stream.joined & (number[:-1] != MISSING) & (number[1:] != MISSING))
    of, count = number_groups(number[at] * (len(stream.row) + 1) + number[at + 1])
    often = np.bincount(of, minlength=count) >= LEAST
    at, of = at[often[of]], (np.cumsum(often) - 1)[of[often[of]]]
    order = np.argsort(of, kind="stable")
    of, at = of[order], at[order]
    good = np.ones(int(often.sum()), np.bool_)
    if length > 2:
        good[of[1:][(of[1:] == of[:-1]) & (at[1:] - at[:-1] < length)]] = False
    return _Frequent(length, of, at, np.bincount(of, minlength=len(good)), good)


def _maximal(stream: _Stream, some: _Frequent, longer: _Frequent | None, number: Int64) -> list[_Candidate]:
    """Returns the sequences that are not contained in a longer, equally frequent sequence."""
    wanted = some.good.copy()
    if longer is not None:
        for shift in (0, 1):
            inner = number[longer.first + shift]
            wanted[inner[longer.good & (longer.count == some.count[inner])]] = False
    separate = _without_overlaps(some)
    of, at, length = some.of[separate], some.at[separate], some.length
    gaps = Groups(of, some.first).sum(stream.gaps[at + length - 1] - stream.gaps[at])
    chosen = np.flatnonzero(wanted)
    if len(chosen) > COMPARED:
        chosen = np.sort(chosen[np.argpartition(-gaps[chosen], COMPARED)[:COMPARED]])
    low, high = (np.searchsorted(of, chosen, side=side).tolist() for side in ("left", "right"))
    return [
        _Candidate(length, at[a:b], int(gaps[i]), int(_within(stream.busy, at[a:b], length).sum()))
        for i, a, b in zip(chosen.tolist(), low, high, strict=True)
    ]


def _without_overlaps(some: _Frequent) -> Bool:
    """Returns the occurrences that overlap no earlier occurrence.

    Only sequences of two equal kernels can overlap with themselves.
    """
    of, at = some.of, some.at
    if some.length > 2 or not len(at):
        return np.ones(len(at), np.bool_)
    begins = np.append(True, (at[1:] - at[:-1] > 1) | (of[1:] != of[:-1]))
    run = np.maximum.accumulate(np.where(begins, np.arange(len(at)), 0))
    found: Bool = (np.arange(len(at)) - run) % 2 == 0
    return found
