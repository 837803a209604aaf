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
            "`device` (by default the one with most events), `at` (number of the event after which memory is "
            "looked at; default: the peak), `from`, `to` (events of the part that is drawn and whose blocks are "
            "listed) or `from_ns`, `to_ns` (the same by time), `axis` (`events` or `time`), `width` (columns of "
            "the curve, default 800)."
        ),
        payloads=(
            "Of memory snapshots. `answer` (Notices: the peak in a sentence; none where nothing is held), "
            "`summary` (Figures), `advice` (Notices: findings, of the device asked for, else of all), "
            "`data_quality` (Notices: what of the history is missing or odd), `curve` (Series, lines; absent "
            "without a history), `moment` (Figures: what was held then), `held_categories` (Breakdown: the same "
            "by category; absent where nothing is known of categories, which `data_quality` then explains), "
            "`devices` (Figures, one a device), `settings` (Figures)."
        ),
        tables=(
            "`held_stacks`, `held_blocks` (all blocks that live in `from`..`to`, the largest 100,000 and those "
            "that a filter names by their row; `at` does not limit it), `history_steps` (profiler steps that hold "
            "events of the device), `oom_events`."
        ),
    ),
)
