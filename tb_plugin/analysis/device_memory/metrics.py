"""Metrics of reserved memory."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN_WINDOW, SHARED, define

METRICS = SHARED.adding(
    define(
        CHOSEN_WINDOW,
        "count",
        {
            "reserved_cycles": ("Falls and rises", "How often reserved memory fell and then rose again."),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "bytes",
        {
            "peak_reserved_bytes": ("Peak reserved", "Most bytes that the allocator held from the driver."),
            "returned_bytes": ("Given back", "Bytes by which reserved memory fell, in all."),
            "room_bytes": ("Never reserved", "Memory of the device less peak reserved."),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "ns",
        {
            "driver_memory_ns": (
                "Driver calls",
                "Time on the host of the calls for device memory, without those that set the driver up.",
            ),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "ratio",
        {
            "room_ratio": ("Never reserved", "Of the memory of the device."),
        },
    ),
)
