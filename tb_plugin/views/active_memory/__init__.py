"""The ``active_memory`` view."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import SNAPSHOT, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "active_memory",
    "Active memory",
    order=350,
    model=SNAPSHOT,
    traits=Traits("Memory", "detail", phase_note="A snapshot has no phases."),
    http=ViewText(
        parameters="`device` and `axis` as for `allocations`.",
        payloads=(
            "For memory snapshots: the drawing of their history. With `tile`: `bands` (Bands: tile number `tile` of "
            "level `level`, by default the last one, whose single tile covers everything). `detail`: the tile lists "
            "blocks of at least the peak over 2 to this power, default 11; `all`: of any size. It lists at most "
            "10,000 blocks, largest area first, and 20,000 from `detail` 13 on. `layer`: `pools` draws private pools "
            "separately, as envelopes; `segments` draws segments instead of blocks, and `active_bytes` are then "
            "their bytes. With `block` (its `block_row`) or `segment` (its row): `block` or `segment` (Figures, with "
            "`allocation_stack`). Otherwise `curve` (Series, as above) of `from` to `to`, or `from_ns` to `to_ns`, "
            "in `width` columns; absent without a history."
        ),
    ),
)
