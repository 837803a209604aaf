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
            "`device`, `at` (number of an event; memory after that event; default: the peak of allocated "
            "bytes, as in `allocations`), `size` (request in bytes to compare gaps with; default: the "
            "failed request when memory ran out, else the largest live block)."
        ),
        payloads=(
            "For memory snapshots. `answer` (Notices about `answer`: free memory, or the state when "
            "memory ran out), `moment` (Figures), `place` (Figures: the event, and the next and previous "
            "`alloc`, `free`, `segment` and `oom` event by their titles), `map` (MemoryMap: segments and "
            "their used parts; with more than 30,000 blocks, small neighbours are merged), `gap_sizes`, "
            "`gap_counts` (Series, histograms), `request` (Figures), `devices` (Figures, events of "
            "each), `oom` (Figures; if the event is an out-of-memory event), `reserved` (Series, lines: "
            "reserved bytes by stream and pool over events, the 8 largest; absent without a history)."
        ),
        tables=(
            "`segments_at`, `pools_at`, `blocks_in_way` (10,000), `blocks_at` (the largest 50,000), "
            "`oom_moments` (the last 20), `oom_obstacles` (100; at `at` if memory ran out there, else at "
            "the last out-of-memory event)."
        ),
    ),
)
