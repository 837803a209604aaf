"""The view ``segments``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import SNAPSHOT, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "segments",
    "Segments",
    order=210,
    model=SNAPSHOT,
    traits=Traits("Memory", tables=("pools_at", "oom_moments"), whole="A snapshot has no phases."),
    http=ViewText(
        parameters=(
            "`device`, `at` (number of the event after which memory is looked at; default: the peak of allocated "
            "bytes, as in `allocations`), `size` (bytes of the request that gaps are measured against; default: "
            "what was asked for when memory ran out, else the largest block that is there)."
        ),
        payloads=(
            "Of memory snapshots. `answer` (Notices about `answer`: what is free, or what memory that ran out "
            "met), `moment` (Figures), `place` (Figures: the event, and the next and previous `alloc`, `free`, "
            "`segment` and `oom` event by their titles), `map` (MemoryMap: segments, and what is used of each; of "
            "more than 30,000 blocks small neighbours are one piece), `gap_sizes`, `gap_counts` (Series, "
            "histograms), `request` (Figures), `devices` (Figures, events of each), `oom` (Figures; where the "
            "event is one), `reserved` (Series, lines: reserved bytes by stream and pool over events, the 8 "
            "largest; absent without a history)."
        ),
        tables=(
            "`segments_at`, `pools_at`, `blocks_in_way` (10,000), `blocks_at` (the largest 50,000), `oom_moments` "
            "(the last 20), `oom_obstacles` (100; of `at` where memory ran out there, else of the last time)."
        ),
    ),
)
