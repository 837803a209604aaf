"""The view ``events``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "events",
    "Events",
    order=340,
    model=TRACE,
    traits=Traits("Ask", "detail", whole=""),
    http=ViewText(
        parameters=(
            "`where` as for tables (`name`, `kind`, `operator`, `input_shape`, `module`, `phase`, "
            "`grid`, `block`, `direction`, `kernel_type`, `core`, `kernel_shapes` (kernels with reported "
            "shapes), `category`, `external_id` (the recorded number of an operator; 0 and less mean "
            "none), `outermost` (`true`: no operator around it); of runtime calls `caller_phase`, "
            "`caller_frame`; of backward operators `backward_operator`, `forward_operator`, "
            "`forward_path`, `forward_line`; `role` of device work; `recomputed_by` (operators and "
            "module calls recomputed with this mechanism); `replayed_operator`, with or without "
            "`replayed_shape`, and `replayed_module`: replayed work inside such a call of the capture; "
            "an empty text means none), `start_ns`, `end_ns` (events that overlap this time range), "
            "`event` (one row): `distribution` (Series, histogram), `summary` (Figures), `instances` "
            "(Table); with `event`, `event` (Figures: all its recorded properties; those without a "
            "column as `args.<name>`, with the name in the file. Excluded is only the recorder's own "
            "numbering: `Ev Idx`, `Record function id` where it is 0, `cbid`, `cid`, `external ts`, "
            "`Trace name`, `Trace iteration`, `Op count`, and `Device` of operators of 2021, which "
            "repeats the process), `launch` and `launched` (the first of several), `operator`, "
            "`forward`, `backward` and `python` (the innermost Python call around it; its partners, with "
            "their `event`), `collective` (of a collective: group, sequence, elements), `modules`, "
            "`stack`."
        ),
        tables="`instances`.",
    ),
)
