"""The ``execution_nodes`` view."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import EXECUTION_TRACE, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "execution_nodes",
    "Execution trace",
    order=67,
    model=EXECUTION_TRACE,
    traits=Traits("operators", phase_note="An execution trace has no phases."),
    http=ViewText(
        parameters=(
            "`function_id` (`Record function id` in the trace of the same recording) or `node_number` (id in the file)."
        ),
        payloads=(
            "For execution traces. `answer` (Notices), `summary` (Figures), `execution_nodes` (Table). If "
            "one of the parameters is set, the answer contains only `node` (Figures), `node_tensors` (Table: "
            "inputs and outputs of the node) and `node_links` (Table: operators that produce inputs or use "
            "outputs of the node)."
        ),
        tables="`execution_nodes`.",
    ),
)
