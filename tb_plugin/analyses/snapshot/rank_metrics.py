"""Definitions of what the ranks of a run hold (part of ``metrics.METRICS``)."""

from __future__ import annotations

from collections.abc import Mapping

from tb_plugin.analyses.memory_categories import MEANINGS, ORDER, TITLES
from tb_plugin.analyses.metrics import define
from tb_plugin.payloads import Metric

PEAK = "the peak of allocated bytes of each rank"
MOST_STATES = "the moment at which each rank holds most parameters, gradients and optimizer state together"
STATES = ("parameter", "gradient", "optimizer_state")
"""What data parallelism repeats on every rank, and sharding divides."""

RANKS: tuple[Mapping[str, Metric], ...] = (
    define(
        PEAK,
        "bytes",
        {
            f"rank_{name}_bytes": (TITLES[name], f"Bytes of the category at the rank's peak. {MEANINGS[name]}")
            for name in ORDER
        },
    ),
    define(PEAK, "bytes", {"peaks_apart_bytes": ("Apart", "Largest peak of a rank less the smallest one.")}),
    define("all ranks", "count", {"no_history_ranks": ("Without a history", "Ranks whose snapshots hold no history.")}),
    define(
        MOST_STATES,
        "bytes",
        {
            f"repeated_{name}_bytes": (
                f"{TITLES[name]}, the same everywhere",
                "Bytes of each rank's blocks of the category that every rank has in the same sizes.",
            )
            for name in STATES
        }
        | {
            "repeated_bytes": (
                "The same everywhere",
                "Bytes of parameters, gradients and optimizer state that every rank has in blocks of the same sizes.",
            ),
            "sharding_bytes": (
                "Freed by sharding",
                "What a rank no longer holds of the bytes that are the same everywhere when they are divided among all: "
                "all but one part of as many as there are ranks.",
            ),
        },
    ),
    define(
        MOST_STATES,
        "ratio",
        {
            "repeated_ratio": (
                "Share that is the same",
                "Bytes that are the same everywhere over the states of the rank that has most of them.",
            )
        },
    ),
)
