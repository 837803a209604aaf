"""The ``segments`` view."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import SNAPSHOT, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "segments",
    "Segments",
    order=210,
    model=SNAPSHOT,
    traits=Traits("memory", tables=("pools_at", "oom_moments"), phase_note="A snapshot has no phases."),
    http=ViewText(
        parameters=(
            "`device`, `at` (number of an event, default the peak of allocated bytes), `size` (bytes of the "
            "request to compare gaps with). The numbers describe memory directly after event `at`, as in "
            "`allocations`. The default `size` is the size of the request that failed at event `at`. If no "
            "request failed there, the default is the size of the largest live block."
        ),
        payloads=(
            "For memory snapshots. `answer` (Notices about `answer`: free memory, or the failed request), "
            "`moment` (Figures), `place` (Figures: the event, and the next and previous `alloc`, `free`, "
            "`segment` and `oom` event by title), `map` (MemoryMap: segments and their blocks; beyond 30,000 "
            "blocks, small neighbors merge), `gap_sizes`, `gap_counts` (Series, histograms), `request` "
            "(Figures), `devices` (Figures: number of events per device), `oom` (Figures; only if event `at` "
            "is an `oom` event), `reserved` (Series, lines: reserved bytes by stream and pool over events, "
            "the 8 largest; absent without a history)."
        ),
        tables=(
            "`segments_at`, `pools_at`, `blocks_in_way` (10,000), `blocks_at` (the largest 50,000), "
            "`oom_moments` (the last 20), `oom_obstacles` (100; for the failed request at `at`, else for the "
            "last failed request)."
        ),
    ),
)
