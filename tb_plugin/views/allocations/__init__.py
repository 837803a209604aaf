"""The view ``allocations``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import SNAPSHOT, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "allocations",
    "Memory",
    order=200,
    model=SNAPSHOT,
    traits=Traits("Memory", kept=True, tables=("held_stacks", "oom_events"), whole="A snapshot has no phases."),
    http=ViewText(
        parameters=(
            "`device` (default: the device with the most events), `at` (number of an event; memory after "
            "that event; default: the peak), `from`, `to` (first and last event to draw and list) or "
            "`from_ns`, `to_ns` (the same by time), `axis` (`events` or `time`), `width` (columns of the "
            "curve, default 800)."
        ),
        payloads=(
            "For memory snapshots. `answer` (Notices: the peak in a sentence; none when nothing is "
            "allocated), `summary` (Figures), `advice` (Notices: findings of the selected device, or of "
            "all devices), `data_quality` (Notices: missing or inconsistent history), `curve` (Series, "
            "lines; absent without a history), `moment` (Figures: allocated memory at `at`), "
            "`held_categories` (Breakdown: the same by category; absent without known categories; "
            "`data_quality` then explains why), `devices` (Figures, one per device), `settings` "
            "(Figures)."
        ),
        tables=(
            "`held_stacks`, `held_blocks` (all blocks alive in `from`..`to`: the largest 100,000, and "
            "blocks that a filter selects by row; independent of `at`), `history_steps` (profiler steps "
            "with events of the device), `oom_events`."
        ),
    ),
)
