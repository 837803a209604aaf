"""Why a device may have nothing to do."""

from __future__ import annotations

from enum import IntEnum


class Cause(IntEnum):
    """A cause of idle time. Its lower-case name is the word for it in facts.

    The first ones are what the host does, in order of priority: of what is open on a thread at once, the first counts.
    """

    PROFILER = 0
    """The profiler itself holds the host up."""
    GARBAGE_COLLECTION = 1
    CAPTURE = 2
    """Launches become part of a graph, and do not run."""
    COMPILATION = 3
    INITIALISATION = 4
    """The driver or one of its libraries is set up."""
    DRIVER_MEMORY = 5
    """The driver is asked for memory, or gets it back."""
    SYNCHRONISATION = 6
    """The host waits for a device in a call."""
    INPUT = 7
    """The next batch is awaited."""
    GRAPH = 8
    """A captured graph is launched: the call, and the latency until its first work begins."""
    LAUNCH = 9
    """Another call that launches work."""
    DISPATCH = 10
    """An operator, or another call of the runtime."""
    PYTHON = 11
    """No operator is open on a thread that launches work."""
    LAUNCH_LATENCY = 12
    """From the end of a launch, nothing being queued, to the begin of its work."""
    KERNEL_LATENCY = 13
    """From the end of queued work to the begin of the next."""
    DEPENDENCY = 14
    """The next work waits for an event of another stream."""
    NOT_RECORDED = 15
    """The launch of the next work is not recorded, or what the host did until then."""
    UNEXPLAINED = 16


HOST = tuple(Cause)[: Cause.PYTHON]
"""What a thread of the host may be in, in order of priority."""
