"""Metrics of stacks."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN, SHARED, define

METRICS = SHARED.adding(
    define(
        "",
        "bool",
        {
            "thread_idle": ("Idle", "Thread that waits 95 % of its time and has no operators, modules or ranges."),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "thread_host_ns": ("In calls", "Time of the thread in calls."),
            "thread_wait_ns": ("Waiting", "Time in waiting calls, excluding nested calls."),
            "host_own_ns": ("Host self", "Host time excluding nested calls."),
            "device_own_ns": ("Device self", "Device time of directly launched work."),
            "function_host_self_ns": ("Host self", "Host time of the function, excluding nested calls."),
            "function_host_ns": ("Host total", "Host time including nested calls; recursion counts once."),
            "function_device_self_ns": ("Device self", "Device time of work that the function launched directly."),
            "function_device_ns": ("Device total", "Device time including nested calls; recursion counts once."),
            "backward_host_ns": (
                "Backward host",
                "Host time of backward operators of the function and nested calls.",
            ),
            "backward_device_ns": (
                "Backward device",
                "Device time of backward operators of the function and nested calls.",
            ),
            "caller_host_ns": ("Host", "Host time of calls from this caller, including nested calls."),
            "caller_device_ns": ("Device", "Device time of calls from this caller, including nested calls."),
        },
    ),
    define(
        CHOSEN,
        "count",
        {
            "caller_calls": ("Calls", "Calls from this caller, excluding recursion."),
        },
    ),
)
