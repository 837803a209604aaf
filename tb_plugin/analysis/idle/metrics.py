"""What the causes of idle time are called, and what each means."""

from __future__ import annotations

from collections.abc import Mapping

from tb_plugin.analysis.idle.causes import Cause
from tb_plugin.analysis.metrics import CHOSEN_STEPS, SHARED, define
from tb_plugin.payloads import Link, Metric, Slice

TITLES: Mapping[Cause, tuple[str, str]] = {
    Cause.PROFILER: ("Profiler", "the profiler recorded that it worked itself."),
    Cause.GARBAGE_COLLECTION: ("Garbage collection", "the interpreter collected garbage."),
    Cause.CAPTURE: ("Graph capture", "launches were captured into a graph, which runs none of them."),
    Cause.COMPILATION: ("Compilation", "code was compiled or tuned on a thread that launches work."),
    Cause.INITIALISATION: ("Initialisation", "the driver, a context, a stream or a library of kernels was set up."),
    Cause.DRIVER_MEMORY: (
        "Driver memory calls",
        "the driver was called for memory of the device or for pinned memory.",
    ),
    Cause.SYNCHRONISATION: ("Synchronising calls", "the host was still in a call that waits for a device."),
    Cause.INPUT: ("Data loading", "the data loader was asked for the next batch."),
    Cause.GRAPH: (
        "Graph launch",
        "a captured graph was launched: the call, and the usual latency of its first kernel.",
    ),
    Cause.LAUNCH: ("Launch calls", "the host was in a call that launches work."),
    Cause.DISPATCH: (
        "Operator dispatch",
        "an operator was open on a thread that launches work, or another runtime call.",
    ),
    Cause.PYTHON: ("Python", "no operator and no call was open on any thread that launches work of the device."),
    Cause.LAUNCH_LATENCY: (
        "Launch latency",
        "launch latency: the usual time from the launch call to the kernel start.",
    ),
    Cause.KERNEL_LATENCY: ("Between kernels", "the next work was already queued: the usual time until it starts."),
    Cause.DEPENDENCY: (
        "Other stream",
        "the next work waited for an event of another stream, as the device recorded it.",
    ),
    Cause.NOT_RECORDED: (
        "Not recorded",
        "the call that launched the next work, or the work of the host, is not recorded.",
    ),
    Cause.UNEXPLAINED: ("Unexplained", "work was queued but started late; the cause was not recorded."),
}


def word_of(cause: Cause) -> str:
    """Returns the word for a cause in facts, filters and tables."""
    return cause.name.lower()


def idle_slices(time_ns: Mapping[Cause, int], window: str, view: str) -> list[Slice]:
    """Returns the causes that have time, most first and what is unexplained last; each leads to its pieces in ``view``."""
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
    """Returns the metric of the idle time of each cause, and the name of its colour."""
    return {cause: (METRICS[f"idle_{word_of(cause)}_ns"], f"idle_{word_of(cause)}") for cause in Cause}


METRICS = SHARED.adding(
    define(
        CHOSEN_STEPS,
        "ns",
        {f"idle_{word_of(cause)}_ns": (title, f"Devices idled: {what}") for cause, (title, what) in TITLES.items()},
    ),
    define(
        CHOSEN_STEPS,
        "ns",
        {
            "idle_mean_ns": ("Per step", "Idle time of the cause over the number of steps."),
            "idle_longest_ns": ("Longest", "Its longest piece of a gap that touches the steps."),
        },
    ),
    define(CHOSEN_STEPS, "count", {"idle_pieces": ("Pieces", "Pieces of gaps that touch the steps.")}),
    define(
        CHOSEN_STEPS,
        "ratio",
        {
            "idle_ratio": ("Idle", "Share of the steps in which devices had nothing to do, over all that work."),
            "idle_unexplained_ratio": ("Unexplained, of idle time", "Share of the idle time that has no cause."),
        },
    ),
    define("", "text", {"cause_means": ("While", "What was going on.")}),
    define(
        "",
        "code",
        {
            "idle_host": (
                "Host did",
                "Name that was innermost longest on the thread that launched the next work; where it had nothing open, on "
                "that which put the work into its queue.",
            ),
            "idle_line": ("Python", "Line of Python around it, as far as it is recorded."),
            "next_work": ("Next work", "The work that ended the gap."),
        },
    ),
    define(
        "",
        "text",
        {
            "next_role": (
                "Its role",
                "What the next work does for a training on many devices, or that it is computed again in a backward pass.",
            )
        },
    ),
)  # fmt: skip
