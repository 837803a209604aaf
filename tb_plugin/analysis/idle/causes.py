"""Causes of idle device time, and their metrics."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from tb_plugin.analysis.metrics import CHOSEN_STEPS, SHARED, SUM, define
from tb_plugin.payloads import Link, Metric, Slice


class Cause(IntEnum):
    """A cause of idle time, by priority. Its key in responses is the name in lower case."""

    PROFILER = 0
    GARBAGE_COLLECTION = 1
    CAPTURE = 2
    """The launching thread captures launches into a graph; the launched work is not executed."""
    COMPILATION = 3
    INITIALISATION = 4
    DRIVER_MEMORY = 5
    SYNCHRONISATION = 6
    INPUT = 7
    GRAPH = 8
    """A graph launch: the call, and the latency until the graph's first work starts."""
    LAUNCH = 9
    DISPATCH = 10
    """The launching thread runs an operator, or a runtime call that does not belong to another cause."""
    PYTHON = 11
    """The launching thread runs Python code outside of any operator."""
    LAUNCH_LATENCY = 12
    """Time from the end of a launch call to the start of the launched work, if the queue was empty."""
    KERNEL_LATENCY = 13
    """Time from the end of a device event to the start of the next one, which was already queued."""
    DEPENDENCY = 14
    """The next device event waits for work on another stream."""
    NOT_RECORDED = 15
    """The next launch, or the host activity before it, is not recorded."""
    UNEXPLAINED = 16


# Activities of a host thread, in order of priority.
HOST = tuple(Cause)[: Cause.PYTHON]

TITLES: Mapping[Cause, tuple[str, str]] = {
    Cause.PROFILER: ("Profiler", "the profiler was working."),
    Cause.GARBAGE_COLLECTION: ("Garbage collection", "Python collected garbage."),
    Cause.CAPTURE: ("Graph capture", "a graph was captured."),
    Cause.COMPILATION: ("Compilation", "code was compiled or tuned."),
    Cause.INITIALISATION: ("Initialization", "the driver or a library was being set up."),
    Cause.DRIVER_MEMORY: ("Driver memory calls", "the driver allocated or freed memory."),
    Cause.SYNCHRONISATION: ("Synchronizing calls", "the CPU waited in a synchronizing call."),
    Cause.INPUT: ("Data loading", "the data loader prepared the next batch."),
    Cause.GRAPH: ("Graph launch", "a captured graph was launched."),
    Cause.LAUNCH: ("Launch calls", "the CPU was in a launch call."),
    Cause.DISPATCH: ("Operator dispatch", "the CPU ran operators or other runtime calls."),
    Cause.PYTHON: ("Python", "the CPU ran Python outside operators."),
    Cause.LAUNCH_LATENCY: ("Launch latency", "launched work had not started yet."),
    Cause.KERNEL_LATENCY: ("Between kernels", "queued work had not started yet."),
    Cause.DEPENDENCY: ("Other stream", "the next work waited for another stream."),
    Cause.NOT_RECORDED: ("Not recorded", "the next launch or the CPU activity was not recorded."),
    Cause.UNEXPLAINED: ("Unexplained", "launched work started late for no recorded reason."),
}


# Each completes a sentence such as "The GPU is idle 43 % of the time: 352 ms ...".
PHRASES: Mapping[Cause, str] = {
    Cause.PROFILER: "in the profiler",
    Cause.GARBAGE_COLLECTION: "in garbage collection",
    Cause.CAPTURE: "capturing a graph",
    Cause.COMPILATION: "compiling or tuning code",
    Cause.INITIALISATION: "setting up the driver or a library",
    Cause.DRIVER_MEMORY: "in driver memory calls",
    Cause.SYNCHRONISATION: "while the CPU waits in synchronizing calls",
    Cause.INPUT: "waiting for the data loader",
    Cause.GRAPH: "launching captured graphs",
    Cause.LAUNCH: "in launch calls",
    Cause.DISPATCH: "in operator dispatch on the CPU",
    Cause.PYTHON: "in Python outside operators",
    Cause.LAUNCH_LATENCY: "until launched work starts",
    Cause.KERNEL_LATENCY: "between queued kernels",
    Cause.DEPENDENCY: "waiting for another stream",
    Cause.NOT_RECORDED: "without a recorded cause",
    Cause.UNEXPLAINED: "without an explanation",
}


def word_of(cause: Cause) -> str:
    return cause.name.lower()


def idle_slices(time_ns: Mapping[Cause, int], window: str, view: str) -> list[Slice]:
    """Returns a slice per cause, largest first, unexplained time last, with links to gaps in ``view``."""
    order = sorted(time_ns, key=lambda cause: (cause == Cause.UNEXPLAINED, -time_ns[cause], cause))
    return [
        Slice(
            METRICS.metric(f"idle_{word_of(cause)}_ns", window=window),
            f"idle_{word_of(cause)}",
            time_ns[cause],
            Link(view, {"where": f"cause:{TITLES[cause][0]}"}, TITLES[cause][0]),
        )
        for cause in order
        if time_ns[cause]
    ]


def cause_metrics() -> dict[Cause, tuple[Metric, str]]:
    """Returns, for each cause, the metric of its idle time and the name of its chart color."""
    return {cause: (METRICS[f"idle_{word_of(cause)}_ns"], f"idle_{word_of(cause)}") for cause in Cause}


METRICS = SHARED.adding(
    define(
        CHOSEN_STEPS,
        "ns",
        {
            f"idle_{word_of(cause)}_ns": (title, f"Idle time while {what}", SUM)
            for cause, (title, what) in TITLES.items()
        },
    ),
    define(
        CHOSEN_STEPS,
        "ns",
        {
            "idle_longest_ns": ("Longest", "Longest idle period of the cause."),
        },
    ),
    define(CHOSEN_STEPS, "count", {"idle_pieces": ("Idle periods", "Idle periods in the steps.", SUM)}),
    define(
        CHOSEN_STEPS,
        "ratio",
        {
            "idle_ratio": ("Idle", "Idle time per active device, divided by step time."),
            "idle_unexplained_ratio": ("Unexplained idle", "Share of idle time without a known cause."),
        },
    ),
    define("", "text", {"cause_means": ("Meaning", "CPU or device activity during the idle time.")}),
    define(
        "",
        "code",
        {
            "idle_host": ("CPU activity", "Longest activity of the launching thread during the idle time."),
            "idle_line": ("Python line", "Python line of this CPU activity."),
            "next_work": ("Next work", "Device work that starts at the end of the gap."),
        },
    ),
)
