"""Entry of the view that compares two memory snapshots."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import SNAPSHOT, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "snapshot_diff",
    "Compare",
    order=330,
    model=SNAPSHOT,
    traits=Traits("compare", phase_note="The view compares two snapshots, which have no phases."),
    scope="pair",
    http=ViewText(
        parameters="`device`.",
        payloads=(
            "For two memory snapshots. P selects the experiment. `base_run`, `base_worker`, `base_span` name "
            "the baseline, as for `diff`. `answer` (Notices about `answer`), `headline` (Figures), and the "
            "first pages of the tables."
        ),
        tables="`snapshot_figures`, `peak_stacks`, `end_stacks`.",
    ),
)
