"""The view ``active_memory``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import SNAPSHOT, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "active_memory",
    "Active memory",
    order=350,
    model=SNAPSHOT,
    traits=Traits("Memory", "detail", whole="A snapshot has no phases."),
    http=ViewText(
        parameters="`device` and `axis` as for `allocations`.",
        payloads=(
            "For memory snapshots: the history as the page draws it. With `tile`: `bands` (Bands: tile "
            "`tile` of level `level`, default: the last level, with one tile for everything; `detail`: "
            "blocks of at least peak / 2^`detail` are listed, default 11, `all`: any size. At most "
            "10,000 blocks, largest area first, 20,000 from `detail` 13; `layer`: `pools` draws private "
            "pools separately as envelopes; `segments` draws segments instead of blocks, and "
            "`active_bytes` are then segment bytes). With `block` (its `block_row`) or `segment` (its "
            "row): `block` or `segment` (Figures: all its properties, with `allocation_stack`). "
            "Otherwise `curve` (Series, as above) from `from` to `to` or from `from_ns` to `to_ns`, in "
            "`width` columns; absent without a history."
        ),
    ),
)
