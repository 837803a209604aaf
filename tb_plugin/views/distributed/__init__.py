"""Entry of the Distributed view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    if trace.is_collective.any():
        return None
    return Missing("The trace contains no communication between processes.", trace.recorder.todo("view.distributed"))


GROUP_TABLES = (
    "workers", "collectives", "operations", "process_groups", "devices", "clocks", "stragglers", "bandwidths",
    "bandwidth_fits", "nodes",
)  # fmt: skip
REPORTED_TABLES = ("traffic", "rank_steps", "operation_types", "kinds_of_links", "links", "recorders")
GROUP_FACTS = {
    "compute_ns": "compute_ns",
    "overlap_ns": "overlap_ns",
    "exposed_communication_ns": "exposed_communication_ns",
    "wait_ns": "wait_ns",
    "transfer_ns": "transfer_ns",
    "other_ns": "step_other_ns",
}
"""Maps each value of a worker in a report to a column of the workers table."""

VIEW = ViewEntry(
    __name__,
    "distributed",
    "Distributed",
    order=250,
    model=TRACE,
    traits=Traits(
        "Ranks",
        phase_note="The view compares whole steps of all workers.",
        tables=GROUP_TABLES,
        reported_tables=REPORTED_TABLES,
        facts=GROUP_FACTS,
        companion="ranks_collectives",
    ),
    scope="workers",
    borrows={"memory_states": ("memory_states",)},
    missing=_missing,
    http=ViewText(
        parameters=(
            "`measure` (`lost_ns`, `caused_wait_ns`, `wait_ns`, `exposed_communication_ns`, "
            "`compute_ns`, `step_other_ns`, `step_total_ns`, `transfer_ns`, `latency_ns`, `overlap_ns`, "
            "if available; or `first`). `first` selects the first measure with a non-zero value. It "
            "selects `lost_ns` only if there is a straggler. With `measure`, the answer contains only "
            "`heat` (Heat: the measure by worker and step, with nodes, groups and places of the workers, "
            "and the available measures) and `spread` (Series, lines: quantiles of the workers by step)."
        ),
        payloads=(
            "The view covers all workers of `run` and `span`; `worker` is ignored. Profiles that are not "
            "loaded yet are loaded first: `202` with the mean of their `fraction`. Unreadable profiles "
            "are named in `findings` and skipped. With `of` (a worker; not for tables), the answer "
            "contains only `verdict` (Notices about `answer`). `verdict` is `job_costs` (the cost of "
            "that worker per step and its cause) or `job_waits` (its wait and the main cause). `verdict` "
            "is empty for a single worker, or if the worker is not part of the job. Without `measure` "
            "and `of`, the answer contains the following. `headline` (Figures), `facts` (Figures: "
            "numbers of the job), `findings` (Notices). `overlap` and `waiting` (Series, stacked bars "
            "per worker; above 32 workers the worst ten, the median and the best; `waiting` is absent "
            "for one worker). `stages` (Series, stacked bars per pipeline stage; absent without "
            "messages). `step_times` and `call_times` (Series, stacked bars of the mean step per "
            "reporting worker; only with reported communication). `map_link_bandwidth` and "
            "`map_link_bytes` (Series, a line per sending rank, x = receiver). `map_traffic` (the same, "
            "if calls report sizes and peers; above 64 ranks by node or by block of neighbouring ranks, "
            "sums of bytes). `bandwidth` (Series, lines over sizes: measured and fitted, if sizes are "
            "known). The first pages of the tables."
        ),
        tables=(
            "`workers`, `operation_kinds` (per collective, type and kind of groups, over all workers; "
            "absent for one worker), `operations` (per worker, collective, type and group), "
            "`collectives` (single calls), `steps`, `process_groups`, `devices`, `clocks` (offset, drift "
            "and residual per worker), `stragglers` (per worker and group: cost, steps and cause; absent "
            "for one worker), `bandwidths` (per group, collective and size), `bandwidth_fits` (per kind "
            "of groups, group size and collective), `nodes` (per set of nodes with common groups). (Two "
            "tables are only available by name. `meetings` lists links between timelines. Its parameter "
            "`within` is given once per selected worker: `worker:start_ns:end_ns` in the time of that "
            "worker. The table lists the calls of collectives that overlap a range and have calls of at "
            "least two selected workers. `partners` lists the calls of one collective on all workers, "
            "latest first. The parameters `of` (a worker) and `event`, `start_ns` or `call` identify a "
            "call of the collective. The table is empty if no such call exists. The answer is 400 if no "
            "call is named. Other tables exist only if data is available. `traffic` is per pair of ranks "
            "and group. `worst` lists the costliest workers, if there are at least three workers. "
            "`stage_bubbles` comes with `stages`. Above 24 groups or devices, `group_kinds` and "
            "`device_kinds` have a row per kind. `rank_steps` (per worker and step), `operation_types` "
            "(per worker and collective), `kinds_of_links` (per worker and kind) and `links` (per pair "
            "of ends, kind and group) contain reported values. `recorders` is per worker and process "
            "group, for runs with flight recorder dumps.)"
        ),
    ),
)
