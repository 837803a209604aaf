"""The view ``distributed``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    if trace.is_collective.any():
        return None
    return Missing("The trace holds no communication between processes.", trace.recorder.todo("view.distributed"))


GROUP_TABLES = (
    "workers", "collectives", "operations", "process_groups", "devices", "clocks", "stragglers", "bandwidths",
    "bandwidth_fits", "nodes",
)  # fmt: skip
STATED_TABLES = ("traffic", "rank_steps", "operation_types", "kinds_of_links", "links", "recorders")
GROUP_FACTS = {
    "compute_ns": "compute_ns",
    "overlap_ns": "overlap_ns",
    "exposed_communication_ns": "exposed_communication_ns",
    "wait_ns": "wait_ns",
    "transfer_ns": "transfer_ns",
    "other_ns": "step_other_ns",
}
"""Numbers of a worker in a report, and their columns of the table of workers."""

VIEW = ViewEntry(
    __name__,
    "distributed",
    "Distributed",
    order=250,
    model=TRACE,
    traits=Traits(
        "Ranks",
        whole="It compares whole steps of all workers.",
        tables=GROUP_TABLES,
        where_stated=STATED_TABLES,
        facts=GROUP_FACTS,
        beside="ranks_collectives",
    ),
    scope="workers",
    borrows={"memory_states": ("memory_states",)},
    missing=_missing,
    http=ViewText(
        parameters=(
            "`measure` (`lost_ns`, `caused_wait_ns`, `wait_ns`, `exposed_communication_ns`, `compute_ns`, "
            "`step_other_ns`, `step_total_ns`, `transfer_ns`, `latency_ns`, `overlap_ns`, those that are known; "
            "`first`: the first of them that is anywhere other than 0, `lost_ns` only where there is a "
            "straggler): nothing but `heat` (Heat: the measure of each worker in each step, with nodes, groups "
            "and places of the workers, and the measures that may be asked for) and `spread` (Series, lines: "
            "quantiles of the workers by step)."
        ),
        payloads=(
            "About all workers of `run` and `span` (`worker` is ignored; profiles that are not loaded yet are "
            "loaded, `202` with the mean of their `fraction` meanwhile; those that fail are named in `findings` "
            "and left out). With `of` (a worker; not of a table): nothing but `verdict` (Notices about `answer`: "
            "`job_costs`, what that worker costs the others in each step and why, or `job_waits`, how long it "
            "waits and mostly because of whom; none where it is no rank of the job, or alone). Without either: "
            "`headline` (Figures), `facts` (Figures: the numbers of the job), `findings` (Notices), `overlap` and "
            "`waiting` (Series, stacked bars, one bar a worker, of more than 32 the worst ten, the median and the "
            "best; `waiting` absent for one worker), `stages` (Series, stacked bars, one bar a stage of a "
            "pipeline; where messages tell any), where profiles state what their ranks communicated also "
            "`step_times` and `call_times` (Series, stacked bars of the mean step, one bar a worker that states "
            "it), `map_link_bandwidth` and `map_link_bytes` (Series, a line for each rank that sends, x = where "
            "to), where calls say who sent how much to whom `map_traffic` (likewise; of more than 64 ranks a line "
            "is a node, else a block of neighbouring ranks: sums of bytes), where sizes are known `bandwidth` "
            "(Series, lines over sizes: what was measured, and the fit of it), and the tables' first pages."
        ),
        tables=(
            "`workers`, `operation_kinds` (per collective, type and kind of groups, over all workers; of "
            "several), `operations` (per worker, collective, type and group), `collectives` (single calls), "
            "`steps`, `process_groups`, `devices`, `clocks` (offset, drift and residual of each worker's clock), "
            "`stragglers` (per worker and group: what it costs, when and why; of several workers), `bandwidths` "
            "(per group, collective and size), `bandwidth_fits` (per kind of groups, size of group and "
            "collective), `nodes` (per set of nodes that groups meet on) (asked for by name alone: `meetings` "
            "(what links timelines: own parameter `within`, once for each chosen worker, `worker:start_ns:end_ns` "
            "in its own time; the calls of all chosen workers in each collective that touches the stretch of one "
            "of them and that at least two of them have, collective by collective); for one call `partners`, the "
            "calls of its collective on all workers, the latest first; the call is that of the worker `of` with "
            "this `event`, `start_ns` or `call`: no row where it has no such call, 400 where none is named; where "
            "calls say it also `traffic`, per pair of ranks and group; of three workers and more `worst`, those "
            "that cost the others most; with `stages` also `stage_bubbles`; of more than 24 process groups "
            "`group_kinds`, of more than 24 devices `device_kinds`, a row for all that are alike; where profiles "
            "state them also `rank_steps`, per worker and step; `operation_types`, per worker and collective; "
            "`kinds_of_links`, per worker and kind; `links`, per pair of ends, kind and group; where dumps of "
            "flight recorders lie in the run `recorders`, per worker and process group)."
        ),
    ),
)
