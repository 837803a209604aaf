"""The ``allocations`` view."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import SNAPSHOT, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "allocations",
    "Memory",
    order=200,
    model=SNAPSHOT,
    traits=Traits(
        "memory", tab="Curve", cached=True, tables=("held_stacks", "oom_events"), phase_note="A snapshot has no phases."
    ),
    http=ViewText(
        parameters=(
            "`device` (default: the device with most events), `at` (number of an event, default the peak), "
            "`from`, `to` (first and last event of the curve) or `from_ns`, `to_ns` (its range of time), "
            "`axis` (`events` or `time`), `width` (columns of the curve, default 800). The numbers describe "
            "memory directly after event `at`."
        ),
        payloads=(
            "For memory snapshots. `answer` (Notices: a sentence about the peak; empty if no memory is "
            "allocated), `summary` (Figures), `advice` (Notices: findings on the requested device, else on "
            "all devices), `data_quality` (Notices: missing or inconsistent history), `curve` (Series, "
            "lines; absent without a history), `moment` (Figures: memory after event `at`), "
            "`held_categories` (Breakdown: the same memory by category; if `held_categories` is absent, "
            "`data_quality` gives the reason), `devices` (Figures, one per device), `settings` (Figures)."
        ),
        tables=(
            "`held_stacks`, `held_blocks` (the largest 100,000 blocks live between `from` and `to`, plus "
            "blocks that a filter selects by row; `at` has no effect on this table), `history_steps` "
            "(profiler steps with events of the device), `oom_events`."
        ),
    ),
)
