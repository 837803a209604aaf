"""Metrics of stacks."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN, SHARED, define

METRICS = SHARED.adding(
    define(
        "",
        "bool",
        {
            "thread_idle": (
                "Idle",
                "The thread calls no operator, runtime or module, opens no named range, and waits 95 % of its time or more.",
            ),
        },
    ),
    define(
        CHOSEN,
        "count",
        {
            "shared_scopes": (
                "Scopes of several threads",
                "Names of scopes that several threads open: each is one frame.",
            )
        },
    ),
    define(
        CHOSEN,
        "text",
        {
            "shared_threads": ("Threads", "Threads that open them as Python calls: those that hand work over."),
            "counted_threads": (
                "Threads",
                "Threads that open them as modules or ranges: Phases and Modules count these.",
            ),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "thread_host_ns": ("In calls", "Time in which the thread is in any call."),
            "thread_wait_ns": (
                "Waiting",
                "Of it in a wait (a lock, a queue, a clock, a socket) in which nothing else runs.",
            ),
            "host_own_ns": ("Host own", "Host time of the place without what stands beneath it."),
            "device_own_ns": ("Device own", "Device time launched from the place itself, not from beneath it."),
            "function_host_self_ns": ("Host self", "Host time in the function itself: in no call that it made."),
            "function_host_ns": (
                "Host total",
                "Host time in the function and in what it called; where it calls itself the outermost call counts.",
            ),
            "function_device_self_ns": ("Device self", "Device time launched from the function itself."),
            "function_device_ns": (
                "Device total",
                "Device time launched from the function and what it called; where it calls itself the outermost call counts.",
            ),
            "backward_host_ns": (
                "Backward host",
                "Host time of the backward operators of what the function and what it called did in the forward pass.",
            ),
            "backward_device_ns": (
                "Backward device",
                "Device time launched by the backward operators of what the function and what it called did.",
            ),
            "caller_host_ns": (
                "Host",
                "Host time of the function and of what it called, when it was called from there.",
            ),
            "caller_device_ns": (
                "Device",
                "Device time of the function and what it called, when it was called from there.",
            ),
        },
    ),
    define(
        CHOSEN,
        "count",
        {
            "caller_calls": ("Calls", "Calls of the function from there, those that it makes to itself left out."),
        },
    ),
)
