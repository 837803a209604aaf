"""The ``events`` view."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "events",
    "Events",
    order=340,
    model=TRACE,
    traits=Traits("Ask", "detail", phase_note=""),
    http=ViewText(
        parameters=(
            "`where` as for tables (`name`, `kind`, `operator`, `input_shape`, `module`, `phase`, `grid`, "
            "`block`, `direction`, `kernel_type`, `core`, `kernel_shapes` (if the profiler reports them), "
            "`category`, `external_id` (the recorded number of an operator; 0 and less match none), "
            "`outermost` (`true`: top-level operators); for runtime calls `caller_phase`, `caller_frame`; "
            "for backward operators `backward_operator`, `forward_operator`, `forward_path`, `forward_line`; "
            "`role` for device work; `recomputed_by` (operators and module calls in recomputations with this "
            "sign); `replayed_operator`, with or without `replayed_shape`, and `replayed_module`: replayed "
            "work inside such a captured call; an empty text matches events without a value), `start_ns`, "
            "`end_ns` (events that overlap this time range), `event` (one row): `distribution` (Series, "
            "histogram), `summary` (Figures), `instances` (Table); with `event`, `event` (Figures: every "
            "recorded fact of it; what the model has no column for as `args.<name>`, under the name that the "
            "file gives it. Left out is only the recorder's own numbering: `Ev Idx`, `Record function id` "
            "where it is 0, `cbid`, `cid`, `external ts`, `Trace name`, `Trace iteration`, `Op count`, and "
            "`Device` of operators of 2021, which repeats the process), `launch` and `launched` (the first "
            "of several), `operator`, `forward`, `backward` and `python` (the innermost Python call around "
            "it; its partners, with their `event`), `collective` (of a collective: group, sequence, "
            "elements), `modules`, `stack`."
        ),
        tables="`instances`.",
    ),
)
