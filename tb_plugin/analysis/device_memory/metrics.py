"""Metrics of reserved memory."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN_WINDOW, SHARED, define

METRICS = SHARED.adding(
    define(
        CHOSEN_WINDOW,
        "count",
        {
            "reserved_cycles": ("Release cycles", "Drops of reserved memory followed by a rise."),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "bytes",
        {
            "peak_reserved_bytes": ("Peak reserved", "Largest reserved memory."),
            "returned_bytes": ("Returned", "Sum of all decreases of reserved memory."),
            "room_bytes": ("Never reserved", "Device memory minus peak reserved."),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "ns",
        {
            "driver_memory_ns": ("Driver calls", "Host time in driver memory calls, excluding set-up."),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "ratio",
        {
            "room_ratio": ("Never reserved", "Never reserved divided by device memory."),
        },
    ),
)
