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
    traits=Traits("", "detail", phase_note=""),
    http=ViewText(
        parameters=(
            "`where` (as for tables), `start_ns`, `end_ns` (events that overlap this time range), "
            "`event` (one row), `brief` (1: with `event`, only `brief`), `search` (a query as in `find`). "
            "`where` accepts `name`, `kind`, `operator`, `input_shape`, `module`, "
            "`phase`, `grid`, `block`, `direction`, `kernel_type`, `core`, `kernel_shapes` (if the "
            "profiler reports them), `category`, `external_id` (the recorded number of an operator; "
            "values below 1 match no event), `outermost` (`true`: top-level operators). For runtime "
            "calls, it also accepts `caller_phase`, `caller_frame`. For backward operators, it also "
            "accepts `backward_operator`, `forward_operator`, `forward_path`, `forward_line`. For device "
            "work, it also accepts `role`. `recomputed_by` matches operators and module calls in "
            "recomputations that were detected by this method. `replayed_operator` (with or without "
            "`replayed_shape`) and `replayed_module` match replayed work inside such a captured call. An "
            "empty text matches events that have no value."
        ),
        payloads=(
            "`distribution` (Series, histogram), `summary` (Figures), `instances` (Table). With `event`, the "
            "answer contains Figures about that event. `event` contains every recorded value. A value "
            "without a column in the model is called `args.<name>`, where `<name>` is its name in the file. "
            "Internal numbers of the recorder are omitted: `Ev Idx`, `Record function id` if it is 0, "
            "`cbid`, `cid`, `external ts`, `Trace name`, `Trace iteration`, `Op count`, and `Device` of "
            "operators of 2021, which repeats the process. `launch`, `launched` (the first of several), "
            "`operator`, `forward`, `backward` and `python` (the innermost Python call around the event) are "
            "the related events, with their `event` numbers. In the backward pass, `forward` is the forward operator of "
            "the enclosing backward operator. `brief` contains operator, forward operator and Python line. "
            "`collective` contains group, sequence and "
            "elements of a collective. `modules` and `stack` are also present."
        ),
        tables="`instances`.",
    ),
)
