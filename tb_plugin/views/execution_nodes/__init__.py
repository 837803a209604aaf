"""The ``execution_nodes`` view."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import EXECUTION_TRACE, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "execution_nodes",
    "Execution trace",
    order=310,
    model=EXECUTION_TRACE,
    traits=Traits("Work", phase_note="An execution trace has no phases."),
    http=ViewText(
        parameters=(
            "`function_id` (what the trace of the same recording calls `Record function id`) or `node_number` "
            "(its id in the file)."
        ),
        payloads=(
            "For execution traces. `answer` (Notices), `summary` (Figures), `execution_nodes` (Table); with "
            "one of them: `node` (Figures) and the tables `node_tensors` (what it takes and gives) and "
            "`node_links` (the operators that made its inputs and use its outputs) of it instead."
        ),
        tables="`execution_nodes`.",
    ),
)
