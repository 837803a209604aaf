"""Causes of idle device time."""

from __future__ import annotations

from enum import IntEnum


class Cause(IntEnum):
    """A cause of idle time. The lower-case name is the cause's key in responses.

    Causes on the host come first, in order of priority. If several apply at the same time, the first one is used.
    """

    PROFILER = 0
    GARBAGE_COLLECTION = 1
    CAPTURE = 2
    """The thread captures launches into a graph instead of running them."""
    COMPILATION = 3
    INITIALISATION = 4
    DRIVER_MEMORY = 5
    SYNCHRONISATION = 6
    INPUT = 7
    GRAPH = 8
    """A graph launch: the call, and the latency until the graph's first work starts."""
    LAUNCH = 9
    DISPATCH = 10
    """An operator, or a runtime call that belongs to no other cause."""
    PYTHON = 11
    """The launching thread runs Python code outside of any operator."""
    LAUNCH_LATENCY = 12
    """Time from the end of a launch call to the start of its work, if the queue was empty."""
    KERNEL_LATENCY = 13
    """Time from the end of one device event to the start of the next, if the next was already queued."""
    DEPENDENCY = 14
    """The next device event waits for another stream."""
    NOT_RECORDED = 15
    """The next launch, or the host activity before it, is not recorded."""
    UNEXPLAINED = 16


# Activities of a host thread, in order of priority.
HOST = tuple(Cause)[: Cause.PYTHON]
