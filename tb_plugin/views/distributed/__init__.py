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
    "Ranks",
    order=250,
    model=TRACE,
    traits=Traits(
        "ranks",
        tab="Stragglers & communication",
        phase_note="The view compares whole steps of all workers.",
        tables=GROUP_TABLES,
        reported_tables=REPORTED_TABLES,
        facts=GROUP_FACTS,
        companion="ranks_collectives",
    ),
    scope="workers",
    missing=_missing,
    http=ViewText(
        parameters=(
            "`measure` (one of `lost_ns`, `caused_wait_ns`, `wait_ns`, `exposed_communication_ns`, `compute_ns`, "
            "`step_other_ns`, `step_total_ns`, `transfer_ns`, `latency_ns`, `overlap_ns`, `lateness_ns`, or `first`: "
            "the first of them that is not zero). With `measure`, the answer contains only `heat` (Heat: the measure by "
            "worker and step) and `spread` (Series, lines: quantiles of the workers by step). With `scale` (as for "
            "`whatif`; repeatable), the answer contains only `answer` (Notices about `answer`), `summary` (Figures: step "
            "time) and the table `whatif` of simulated step times of the job; `on` (a worker, repeatable) changes the "
            "work of these workers only."
        ),
        payloads=(
            "The view covers all workers of `run` and `span`; `worker` is ignored. Profiles that are not loaded yet are "
            "loaded first: until then, the status is `202` and `fraction` is the mean over these profiles. Unreadable "
            "profiles are skipped and listed in `findings`. With `of` (a worker; not for tables), the answer contains "
            "only `verdict` (Notices about `answer`): `job_costs` (the cost of that worker per step and its cause), "
            "`job_waits` (its wait and the main cause), or nothing. Otherwise the answer contains `headline` (Figures), "
            "`facts` (Figures: numbers of the job), `findings` (Notices), `overlap` and `waiting` (Series, stacked bars "
            "per worker; for more than 32 workers, only the worst ten, the median and the best worker), `stages` "
            "(Series, stacked bars per pipeline stage; absent without messages), `step_times` and `call_times` (Series, "
            "stacked bars per reporting worker), `map_link_bandwidth`, `map_link_bytes` and `map_traffic` (Series, a "
            "line per sending rank, x = receiver; above 64 ranks, `map_traffic` is by node or by block of ranks), "
            "`bandwidth` (Series, lines over sizes: measured and fitted), and the first pages of the tables."
        ),
        tables=(
            "`workers`, `operation_kinds` (per collective, type and kind of groups, over all workers; absent for one "
            "worker), `operations` (per worker, collective, type and group), `collectives` (single calls), `steps`, "
            "`process_groups`, `devices`, `clocks` (offset, drift and residual per worker), `stragglers` (per worker "
            "and group: cost, steps and cause; absent for one worker), `bandwidths` (per group, collective and size), "
            "`bandwidth_fits` (per kind of groups, group size and collective), `nodes` (per set of nodes with common "
            "groups). (Three tables are only available by name. With `path=1`, "
            "`job_path` contains the "
            "time of each rank on the critical path of the job. `meetings` contains links between timelines. Its "
            "parameter `within` is given once per selected worker: `worker:start_ns:end_ns` in the time of that worker. "
            "A collective is included if it overlaps one of these ranges and at least two selected workers call it. "
            "`partners` contains the calls of one collective on all workers, latest first. The parameters `of` (a "
            "worker) and `event`, `start_ns` or `call` identify a call of the collective; without these parameters, the "
            "status is 400. Other tables exist only if data is available: `traffic` (per pair of ranks and group), "
            "`worst` (the costliest of at least three workers), `stage_bubbles` (with `stages`), `group_kinds` and "
            "`device_kinds` (a row per kind of more than 24 groups or devices), `rank_steps` (reported, per worker and "
            "step), `operation_types` (reported, per worker and collective), `kinds_of_links` (reported, per worker and "
            "kind), `links` (reported, per pair of ends, kind and group), `recorders` (per worker and process group, "
            "for runs with flight recorder dumps).)"
        ),
    ),
)
