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
            "`measure` (`lost_ns`, `caused_wait_ns`, `wait_ns`, `exposed_communication_ns`, "
            "`compute_ns`, `step_other_ns`, `step_total_ns`, `transfer_ns`, `latency_ns`, `overlap_ns`, "
            "as far as available; `first`: the first of them with a value other than 0, `lost_ns` only "
            "with a straggler): the answer has only `heat` (Heat: the measure of each worker in each "
            "step, with nodes, groups and positions of the workers, and the available measures) and "
            "`spread` (Series, lines: quantiles over workers by step)."
        ),
        payloads=(
            "About all workers of `run` and `span` (`worker` is ignored; profiles that are not loaded "
            "yet are loaded; until then `202` with their mean `fraction`. `findings` names profiles that "
            "failed). With `of` (a worker; not for tables): only `verdict` (Notices about `answer`: "
            "`job_costs`, the cost of that worker per step and its cause, or `job_waits`, its wait and "
            "the rank that causes most of it; none if it is not a rank of the job, or the only one). "
            "Otherwise: `headline` (Figures), `facts` (Figures: the numbers of the job), `findings` "
            "(Notices), `overlap` and `waiting` (Series, stacked bars, one per worker; with more than 32 "
            "workers the worst ten, the median and the best; `waiting` absent for one worker), `stages` "
            "(Series, stacked bars, one per pipeline stage, if messages identify stages). If profiles "
            "report their communication, also `step_times` and `call_times` (Series, stacked bars of the "
            "mean step, one per reporting worker), `map_link_bandwidth` and `map_link_bytes` (Series, "
            "one line per sending rank, x = receiving rank). If calls report traffic per pair, also "
            "`map_traffic` (likewise; for more than 64 ranks one line per node or per block of "
            "neighbouring ranks: sums of bytes). If sizes are known, also `bandwidth` (Series, lines "
            "over sizes: measured values and their fit). And the first pages of the tables."
        ),
        tables=(
            "`workers`, `operation_kinds` (per collective, type and kind of groups, over all workers; "
            "with several workers), `operations` (per worker, collective, type and group), `collectives` "
            "(single calls), `steps`, `process_groups`, `devices`, `clocks` (offset, drift and residual "
            "of each worker's clock), `stragglers` (per worker and group: cost, steps and cause; with "
            "several workers), `bandwidths` (per group, collective and size), `bandwidth_fits` (per kind "
            "of groups, size of group and collective), `nodes` (per set of nodes used by groups) (only "
            "by name: `meetings` links timelines. Its parameter `within`, once per selected worker, is "
            "`worker:start_ns:end_ns` in the time of that worker; rows are the calls of all selected "
            "workers in each collective that overlaps one of these ranges and has calls of at least two "
            "workers. `partners` lists the calls of one collective on all workers, latest first; name a "
            "call of the worker `of` by `event`, `start_ns` or `call` (400 without one, no row if it "
            "does not exist). If calls report it: `traffic`, per pair of ranks and group. With three or "
            "more workers: `worst`, the most expensive workers. With `stages`: `stage_bubbles`. With "
            "more than 24 process groups `group_kinds`, with more than 24 devices `device_kinds`: one "
            "row per kind. If profiles report them: `rank_steps`, per worker and step; "
            "`operation_types`, per worker and collective; `kinds_of_links`, per worker and kind; "
            "`links`, per pair of ends, kind and group. With flight recorder dumps in the run: "
            "`recorders`, per worker and process group)."
        ),
    ),
)
