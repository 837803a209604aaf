"""The ``kernels`` view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    from tb_plugin.model.trace.schema import DEVICE_WORK, of_kind

    if of_kind(trace.kind, *DEVICE_WORK).any():
        return None
    return Missing("The trace contains no device events.", trace.recorder.todo("view.kernels"))


VIEW = ViewEntry(
    __name__,
    "kernels",
    "Kernels",
    order=60,
    model=TRACE,
    traits=Traits("operators", phase_note="", tables=("kernels", "kernels_by_launch")),
    missing=_missing,
    http=ViewText(
        parameters="`communication` (`0` excludes communication kernels from all numbers).",
        payloads=(
            "`answer` (Notices: one sentence; absent without kernels), "
            "`classes` (donut), `kernels_total` (donut), `types`, `cores` (donuts; absent unless the "
            "profiler reports types and cores of kernels), `matrix_unit` (donut; absent without matrix "
            "units), `kernels` (Table)."
        ),
        tables=(
            "`kernels`, `kernels_by_launch`, `copies` (memcpy and memset with bytes and bandwidth). If the "
            "profiler reports details of each kernel, also `kernels_by_type`, `kernels_by_type_shape` and "
            "`kernel_rows` (the longest 100,000 kernels, each with its details in columns `args.<name>`)."
        ),
    ),
)
