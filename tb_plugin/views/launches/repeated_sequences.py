"""Repeated kernel sequences: candidates for fusion or CUDA graphs."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.blocking_calls import waits_for_device
from tb_plugin.analysis.busy_intervals import covered_work
from tb_plugin.analysis.hardware_streams import hardware_streams
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import group, number_groups
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable

# Maximum kernels per sequence, and minimum number of repeats.
LONGEST, LEAST = 16, 5
COMPARED, LISTED = 500, 200
"""Maximum number of sequences to compare per length (those with the longest gap time), and maximum number to list."""


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


def repeated_sequences(trace: TraceTable, chosen: Bool) -> list[Repeat]:
    """Returns repeated sequences of the selected kernels, sorted by gap time, longest first.

    Long sequences are searched before short ones, and each kernel is in one sequence at most. A sequence that
    overlaps itself repeats a shorter sequence, so it is not used.
    """
    stream = _stream(trace, chosen)
    is_taken = np.zeros(len(stream.row) + 1, np.bool_)
    found: list[Repeat] = []
    for length, at, of in reversed(_frequent(stream)):
        begin = np.flatnonzero(np.append(True, of[1:] != of[:-1]))
        ends = np.append(begin[1:], len(at))
        total = np.add.reduceat(stream.gaps[at + length - 1] - stream.gaps[at], begin)
        taken = np.append(0, np.cumsum(is_taken))
        free = np.add.reduceat((taken[at + length] == taken[at]).astype(np.int64), begin)
        overlaps = np.append(False, (of[1:] == of[:-1]) & (np.diff(at) < length))
        usable = np.flatnonzero((free >= LEAST) & ((length == 2) | ~np.logical_or.reduceat(overlaps, begin)))
        for place in usable[np.lexsort((at[begin[usable]], -total[usable]))[:COMPARED]].tolist():
            starts = at[begin[place] : ends[place]]
            starts = _every_second(starts) if length == 2 else starts
            starts = starts[~is_taken[starts[:, None] + np.arange(length)].any(axis=1)]
            if len(starts) < LEAST:
                continue
            is_taken[starts[:, None] + np.arange(length)] = True
            kernel_ns = int((stream.busy[starts + length] - stream.busy[starts]).sum())
            gaps_ns = int((stream.gaps[starts + length - 1] - stream.gaps[starts]).sum())
            rows = stream.row[starts[0] + np.arange(length)]
            found.append(Repeat(length, stream.row[starts], rows, kernel_ns, gaps_ns))
    return sorted(found, key=lambda each: (-each.gaps_ns, -each.kernel_ns, int(each.first[0])))[:LISTED]


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


def _frequent(stream: _Stream) -> list[tuple[int, Int64, Int64]]:
    """Returns, for each length, the starts of the frequent sequences and the number of each sequence.

    They are sorted by sequence and start. The number of a sequence combines the numbers of two shorter sequences:
    without the last kernel, and without the first kernel.
    """
    found = []
    number = np.append(stream.symbol, MISSING)
    for length in range(2, LONGEST + 1):
        at = np.flatnonzero(stream.joined & (number[:-1] != MISSING) & (number[1:] != MISSING))
        of, count = number_groups(number[at] * (len(stream.row) + 1) + number[at + 1])
        is_frequent = (np.bincount(of, minlength=count) >= LEAST)[of]
        at, of = at[is_frequent], of[is_frequent]
        if not len(at):
            break
        number = np.full(len(stream.row) + 1, MISSING, np.int64)
        number[at] = of
        order = np.argsort(of, kind="stable")
        found.append((length, at[order], of[order]))
    return found


def _every_second(starts: Int64) -> Int64:
    """Removes starts that overlap the previous one. Only sequences of two equal kernels overlap themselves."""
    run = np.maximum.accumulate(np.where(np.append(True, np.diff(starts) > 1), np.arange(len(starts)), 0))
    found: Int64 = starts[(np.arange(len(starts)) - run) % 2 == 0]
    return found
