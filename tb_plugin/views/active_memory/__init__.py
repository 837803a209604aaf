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
    traits=Traits("", "detail", phase_note="A snapshot has no phases."),
    http=ViewText(
        parameters="`device`, `axis` (both as for `allocations`).",
        payloads=(
            "For memory snapshots: data for drawing the history. With `tile`, the answer contains `bands` "
            "(Bands: tile number `tile` of level `level`). The default level is the last level, whose only "
            "tile covers the entire history. `detail` is `all` or a number n (default 11): blocks smaller "
            "than the peak divided by 2 to the power n are not listed. A tile contains at most 10,000 "
            "blocks, or 20,000 if `detail` is at least 13. The blocks with the largest area come first. "
            "`layer=pools` draws private pools separately, as envelopes. `layer=segments` draws segments "
            "instead of blocks, and `active_bytes` then contains the bytes of segments. With `block` (a "
            "`block_row`) or `segment` (a row), the answer contains `block` or `segment` (Figures, with "
            "`allocation_stack`). Without `tile`, `block` and `segment`, the answer contains `curve` "
            "(Series, as for `allocations`). The curve has `width` columns and covers `from` to `to` (or "
            "`from_ns` to `to_ns`). Without a history, the curve is absent."
        ),
    ),
)
