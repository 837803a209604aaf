"""The view ``execution_nodes``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import EXECUTION_TRACE, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "execution_nodes",
    "Execution trace",
    order=310,
    model=EXECUTION_TRACE,
    traits=Traits("Work", whole="An execution trace has no phases."),
    http=ViewText(
        parameters=(
            "`function_id` (`Record function id` in the trace of the same recording) or `node_number` "
            "(its id in the file)."
        ),
        payloads=(
            "For execution traces. `answer` (Notices), `summary` (Figures), `execution_nodes` (Table); "
            "with a parameter instead: `node` (Figures) and the tables `node_tensors` (inputs and "
            "outputs) and `node_links` (operators that produce its inputs or use its outputs)."
        ),
        tables="`execution_nodes`.",
    ),
)
