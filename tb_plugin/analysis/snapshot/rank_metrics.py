"""Definitions of what the ranks of a run hold (part of ``metrics.METRICS``)."""

from __future__ import annotations

from collections.abc import Mapping

from tb_plugin.analysis.memory_categories import ORDER, TITLES
from tb_plugin.analysis.metrics import define
from tb_plugin.payloads import Metric

PEAK = "the peak of allocated bytes of each rank"

RANKS: tuple[Mapping[str, Metric], ...] = (
    define(
        PEAK,
        "bytes",
        {f"rank_{name}_bytes": (TITLES[name], "Bytes of the category at the rank's peak.") for name in ORDER},
    ),
    define(PEAK, "bytes", {"peaks_apart_bytes": ("Peak difference", "Largest minus smallest peak over ranks.")}),
    define("all ranks", "count", {"no_history_ranks": ("Without history", "Ranks without a recorded history.")}),
)
