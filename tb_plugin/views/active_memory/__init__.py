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
        parameters="`device`, `axis` (both as for `allocations`).",
        payloads=(
            "For memory snapshots: a drawing of the history. With `tile`, the answer is `bands` (Bands: tile "
            "number `tile` of level `level`). The default level is the last one: its single tile covers "
            "everything. `detail` sets the smallest listed block: the peak divided by 2 to this power "
            "(default 11), or `all`. A tile lists at most 10,000 blocks, largest area first, or 20,000 from "
            "`detail` 13 on. `layer=pools` draws private pools separately, as envelopes. `layer=segments` "
            "draws segments instead of blocks; `active_bytes` are then their bytes. With `block` (a "
            "`block_row`) or `segment` (a row), the answer is `block` or `segment` (Figures, with "
            "`allocation_stack`). Otherwise it is `curve` (Series, as for `allocations`) from `from` to "
            "`to`, or from `from_ns` to `to_ns`, in `width` columns. Without a history, the curve is absent."
        ),
    ),
)
