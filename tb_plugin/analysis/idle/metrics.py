"""Titles and descriptions of idle causes."""

from __future__ import annotations

from collections.abc import Mapping

from tb_plugin.analysis.idle.causes import Cause
from tb_plugin.analysis.metrics import CHOSEN_STEPS, SHARED, define
from tb_plugin.payloads import Link, Metric, Slice

TITLES: Mapping[Cause, tuple[str, str]] = {
    Cause.PROFILER: ("Profiler", "the profiler was working."),
    Cause.GARBAGE_COLLECTION: ("Garbage collection", "Python collected garbage."),
    Cause.CAPTURE: ("Graph capture", "a graph was captured."),
    Cause.COMPILATION: ("Compilation", "code was compiled or tuned."),
    Cause.INITIALISATION: ("Initialisation", "the driver or a library was being set up."),
    Cause.DRIVER_MEMORY: ("Driver memory calls", "the driver allocated or freed memory."),
    Cause.SYNCHRONISATION: ("Synchronising calls", "the host waited in a synchronising call."),
    Cause.INPUT: ("Data loading", "the data loader prepared the next batch."),
    Cause.GRAPH: ("Graph launch", "a captured graph was launched."),
    Cause.LAUNCH: ("Launch calls", "the host was in a launch call."),
    Cause.DISPATCH: ("Operator dispatch", "the host ran operators or other runtime calls."),
    Cause.PYTHON: ("Python", "the host ran Python outside operators."),
    Cause.LAUNCH_LATENCY: ("Launch latency", "launched work had not started yet."),
    Cause.KERNEL_LATENCY: ("Between kernels", "queued work had not started yet."),
    Cause.DEPENDENCY: ("Other stream", "the next work waited for another stream."),
    Cause.NOT_RECORDED: ("Not recorded", "the next launch or the host activity was not recorded."),
    Cause.UNEXPLAINED: ("Unexplained", "launched work started later than usual, for no recorded reason."),
}


def word_of(cause: Cause) -> str:
    """Returns the key of an idle cause in filters, tables and responses."""
    return cause.name.lower()


def idle_slices(time_ns: Mapping[Cause, int], window: str, view: str) -> list[Slice]:
    """Returns a chart slice for each cause, largest first and unexplained time last.

    Slices link to the idle gaps in ``view``.
    """
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
    """Returns, for each cause, the metric of its idle time and the name of its color."""
    return {cause: (METRICS[f"idle_{word_of(cause)}_ns"], f"idle_{word_of(cause)}") for cause in Cause}


METRICS = SHARED.adding(
    define(
        CHOSEN_STEPS,
        "ns",
        {f"idle_{word_of(cause)}_ns": (title, f"Idle time while {what}") for cause, (title, what) in TITLES.items()},
    ),
    define(
        CHOSEN_STEPS,
        "ns",
        {
            "idle_mean_ns": ("Per step", "Idle time of the cause divided by steps."),
            "idle_longest_ns": ("Longest", "Longest idle period of the cause."),
        },
    ),
    define(CHOSEN_STEPS, "count", {"idle_pieces": ("Idle periods", "Idle periods in the steps.")}),
    define(
        CHOSEN_STEPS,
        "ratio",
        {
            "idle_ratio": ("Idle", "Idle time divided by step time and active devices."),
            "idle_unexplained_ratio": ("Unexplained idle", "Idle time without a known cause divided by all idle time."),
        },
    ),
    define("", "text", {"cause_means": ("Meaning", "Host or device activity during the idle time.")}),
    define(
        "",
        "code",
        {
            "idle_host": (
                "Host activity",
                "Longest host activity on the launching thread during the gap.",
            ),
            "idle_line": ("Python line", "Python line of this host activity."),
            "next_work": ("Next work", "Device work that starts at the end of the gap."),
        },
    ),
    define(
        "",
        "text",
        {"next_role": ("Purpose", "Role of the next work in parallel training, or recomputation.")},
    ),
)
