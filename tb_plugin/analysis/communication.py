"""Communication time: total and exposed.

The time of a collective that has a device kernel is the time of this kernel. The calls that launch the kernel count
as CPU time. All views and advice use this definition.
"""

from __future__ import annotations

import re

import msgspec
import numpy as np

from tb_plugin.analysis.metrics import CHOSEN, define
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.intervals import EMPTY, Ranges, join, subtract, union
from tb_plugin.model.trace.schema import DEVICE_WORK, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable

COMMUNICATION_SHARE = 0.1
"""Minimum share of exposed communication in the step time for a finding."""
# Advice to reduce transfer time; waiting has its own advice.
SEND_LESS = (
    "accumulate gradients over several batches, compress gradients, or use a larger batch so that "
    "communication overlaps with the backward pass. Check convergence after each change."
)
SEND_FEWER = (
    "merge collectives: use larger gradient buckets (bucket_cap_mb), and reduce all metrics in one call. Gradient "
    "accumulation needs fewer calls. Compression does not help, because the messages are small."
)
# The same for inference, which has no gradients.
SHARE_LESS = "spread the model over fewer ranks or faster links, or use a number format with fewer bits."
SHARE_FEWER = "spread the model over fewer ranks, or process more requests per batch: the messages are small."
SMALL_BYTES = 5 << 19
"""Maximum size of a small message: a tenth of a usual gradient bucket."""
SLOWEST_NETWORK = 0.1
"""Transfer rate of Gigabit Ethernet, in bytes per nanosecond. Links between ranks are at least that fast."""
MESSAGES = {
    **define(CHOSEN, "bytes", {"message_bytes": ("Largest message", "Size of the largest small collective.")}),
    **define(
        CHOSEN,
        "bytes_per_second",
        {"message_rate": ("Rate reached", "Bytes of small collectives divided by their time.")},
    ),
}

# ``gloo:all_reduce``, ``nccl:_all_gather_base``: names that process groups give their work.
BACKEND = re.compile(r"^(\w+):(?!:)_?(\w+)$")
# Work of process groups on CPU threads, never on a device.
_HOST_BACKEND = re.compile(r"^(?:gloo|mpi|ucc):(?!:)")


def exposed_ranges(trace: TraceTable) -> Ranges:
    """Returns the time ranges in which communication runs but no computation, copy or memset runs."""
    talking = communication_ranges(trace)
    if not len(talking):
        return EMPTY
    work = _covered(trace, of_kind(trace.kind, *DEVICE_WORK) & ~trace.is_collective)
    return subtract(talking, join(work, computation_ranges(trace)))


def communication_ranges(trace: TraceTable) -> Ranges:
    """Returns the time ranges in which a collective runs on any thread or device."""
    return _covered(trace, is_communication(trace))


def computation_ranges(trace: TraceTable) -> Ranges:
    """Returns the time in which non-communication kernels run; without such kernels, in which the CPU computes."""
    kernels = _covered(trace, (trace.kind == EventKind.KERNEL) & ~trace.is_collective)
    return kernels if len(kernels) else _host_computation(trace)


def is_communication(trace: TraceTable) -> Bool:
    """Returns a mask of the communication events: collective kernels and the work of CPU process groups (gloo, MPI,
    UCC).

    If there are no collective kernels, returns the work of all process groups. If there is no such work either,
    returns the calls of collectives.
    """
    kernels: Bool = trace.is_collective & (trace.kind == EventKind.KERNEL)
    host = calls_collective(trace)
    if kernels.any():
        kernels |= host & _named(trace, _HOST_BACKEND)
        return kernels
    works: Bool = host & _named(trace, BACKEND)
    return works if works.any() else host


def calls_collective(trace: TraceTable) -> Bool:
    """Returns a mask of the host calls of collectives, including calls that have no device kernels."""
    return trace.is_collective & of_kind(trace.kind, EventKind.OPERATOR, EventKind.ANNOTATION)


class SmallMessages(msgspec.Struct, frozen=True):
    """Messages that are too small to use the bandwidth between ranks."""

    largest: int
    """Bytes of the largest such message."""
    rate: float
    """Bytes per second that these messages reach."""

    @property
    def values(self) -> dict[str, float]:
        """Returns the values of the metrics ``MESSAGES``."""
        return {"message_bytes": self.largest, "message_rate": self.rate}


def small_messages(size: Int64, time_ns: Int64) -> SmallMessages | None:
    """Returns the small messages if they take at least half of the time, otherwise None.

    A message of at most ``SMALL_BYTES`` counts if it reaches less than half of the best rate in the trace. ``size`` is
    in bytes, -1 = unknown. If the size is unknown for most of the time, returns None.
    """
    known = (size >= 0) & (time_ns > 0)
    rate = size / np.maximum(time_ns, 1)
    best = max(float(rate.max(initial=0, where=known)), SLOWEST_NETWORK)
    small = known & (size <= SMALL_BYTES) & (2 * rate < best)
    time = int(time_ns[small].sum())
    if not time or 2 * time < int(time_ns.sum()):
        return None
    return SmallMessages(int(size[small].max()), 1e9 * int(size[small].sum()) / time)


def _named(trace: TraceTable, pattern: re.Pattern[str]) -> Bool:
    return trace.strings.where(lambda text: pattern.match(text) is not None)[trace.name]


def _host_computation(trace: TraceTable) -> Ranges:
    """Returns the time in which a thread runs operators that are not part of, or blocked by, a collective."""
    operators = np.flatnonzero((trace.kind == EventKind.OPERATOR) & ~trace.is_collective)
    calls = np.flatnonzero(calls_collective(trace))
    # Most threads have no collective, so their operators need no check per thread.
    shared = np.isin(trace.track[operators], trace.track[calls])
    alone, mixed = operators[~shared], operators[shared]
    return join(union(trace.start_ns[alone], trace.ends(alone)), _beside(trace, mixed, calls))


def _beside(trace: TraceTable, operators: Int64, calls: Int64) -> Ranges:
    """Returns the time of operators outside collectives, except while their thread is in a blocking collective."""
    # Maps the times of all threads to one axis, with a separate range for each thread.
    both = np.concatenate((operators, calls))
    times, place = np.unique(np.concatenate((trace.start_ns[both], trace.ends(both))), return_inverse=True)
    if not len(times):
        return EMPTY
    begin, end = place.reshape(2, -1) + trace.track[both].astype(np.int64) * len(times)
    n = len(operators)
    collective = union(begin[n:], end[n:])
    around = np.searchsorted(collective.start, begin[:n], side="right") - 1
    outside = (around < 0) | (end[:n] > np.append(collective.end, 0)[around])
    held_up = ~_named(trace, _HOST_BACKEND)[calls]
    found = subtract(union(begin[:n][outside], end[:n][outside]), union(begin[n:][held_up], end[n:][held_up]))
    return union(times[found.start % len(times)], times[found.end % len(times)])


def _covered(trace: TraceTable, rows: Bool) -> Ranges:
    return union(trace.start_ns[rows], trace.ends(rows))
