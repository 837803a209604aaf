"""The ``compiled`` view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    from tb_plugin.analysis.compiled.regions import has_regions

    return None if has_regions(trace) else Missing("No compiled code ran.", "")


VIEW = ViewEntry(
    __name__,
    "compiled",
    "Compiled",
    order=311,
    model=TRACE,
    traits=Traits(
        "compile",
        tab="Regions & graph breaks",
        hidden=True,
        phase_note="",
        tables=("regions", "graph_breaks", "generated_kernels", "compiled_steps"),
    ),
    missing=_missing,
    http=ViewText(
        payloads=(
            "`answer` (Notices: one sentence; absent without calls), `summary` (Figures without zeros), "
            "`graph_breaks`, `regions`, `generated_kernels`, `compiled_steps` (Tables; "
            "absent if empty)."
        ),
        tables=(
            "`regions` (compiled code: a function and one of its compilations), `graph_breaks` (per pair of "
            "functions before and after the break), `generated_kernels` (compiler-generated kernels by "
            "name), `compiled_steps` (per recorded step)."
        ),
    ),
)
