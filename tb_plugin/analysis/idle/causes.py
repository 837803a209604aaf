"""Causes of idle time of a device."""

from __future__ import annotations

from enum import IntEnum


class Cause(IntEnum):
    """A cause of idle time. Its lower-case name is its word in facts.

    Host causes come first, in order of priority: of concurrent activities on a thread, the first counts.
    """

    PROFILER = 0
    GARBAGE_COLLECTION = 1
    CAPTURE = 2
    """Launches are captured into a graph instead of running."""
    COMPILATION = 3
    INITIALISATION = 4
    DRIVER_MEMORY = 5
    SYNCHRONISATION = 6
    INPUT = 7
    GRAPH = 8
    """A graph launch: the call, and the latency until its first work starts."""
    LAUNCH = 9
    DISPATCH = 10
    """An operator or another runtime call."""
    PYTHON = 11
    """No operator is open on a launching thread."""
    LAUNCH_LATENCY = 12
    """From the end of a launch on an empty queue to the start of its work."""
    KERNEL_LATENCY = 13
    """From the end of queued work to the start of the next."""
    DEPENDENCY = 14
    """The next work waits for an event of another stream."""
    NOT_RECORDED = 15
    """The launch of the next work, or the host activity before it, is not recorded."""
    UNEXPLAINED = 16


# Activities of a host thread, in order of priority.
HOST = tuple(Cause)[: Cause.PYTHON]
