"""Pipeline stages inferred from messages between ranks, and pipeline bubbles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.collective_names import POINT_TO_POINT
from tb_plugin.analysis.job_tables.stages import Stage, connected_stages
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import distinct_rows
from tb_plugin.lib.intervals import measure_by
from tb_plugin.payloads import Line, Series
from tb_plugin.views.distributed.job_data import JobData
from tb_plugin.views.distributed.matching.keys import is_one_of, numbers_of, texts_of
from tb_plugin.views.distributed.metrics import METRICS
from tb_plugin.views.distributed.pictures.heat_map import available_measures, grid_of, selected_columns
from tb_plugin.views.distributed.pictures.topology import listed_ranks, ranks_short, worker_ranks

_MEASURES = ("step_total_ns", "compute_ns", "exposed_communication_ns", "step_other_ns")
_PARTS = {
    "compute_ns": "compute",
    "stage_communication_ns": "communication",
    "stage_receiving_ns": "wait",
    "step_other_ns": "idle",
}


def stages(data: JobData) -> tuple[Stage, ...]:
    """Returns the ranks of each pipeline stage. Without messages between known ranks, the result is empty.

    A pipeline sends messages in both directions. Messages in one direction are accepted if more than two ranks are
    loaded, and if each of them sends or receives.
    """
    calls, ranks = data.calls, worker_ranks(data)
    point = is_one_of(*texts_of(calls.data, "collective"), POINT_TO_POINT)
    source, target = (numbers_of(calls.data, key) for key in ("source_rank", "destination_rank"))
    known = point & (source >= 0) & (target >= 0) & (source != target)
    if not known.any():
        return ()
    pairs = set(zip(*(column.tolist() for column in distinct_rows(source[known], target[known])), strict=True))
    is_two_way = any((end, start) in pairs for start, end in pairs)
    if not is_two_way and (len(ranks) <= 2 or not ranks.keys() <= {rank for pair in pairs for rank in pair}):
        return ()
    used = set(pc.unique(calls.data["group"].filter(pa.array(~point))).to_pylist())
    groups = {
        listed_ranks(row["group_ranks"], row["group_size"]) for row in data.process_groups if row["group"] in used
    }
    return connected_stages(sorted(pairs), sorted(groups), ranks)


def pipeline(data: JobData) -> tuple[Series, Frame] | None:
    """Returns a chart and a table that split the mean step of each rank, grouped by stage; None without stages."""
    ranks = worker_ranks(data)
    found = [stage for stage in stages(data) if any(rank in ranks for rank in stage)]
    if len(found) < 2 or not {metric.key for metric in available_measures(data)}.issuperset(_MEASURES):
        return None
    total, compute, exposed, other = (grid_of(data, key) for key in _MEASURES)
    receiving = np.minimum(_receiving(data), exposed.values)
    parts = (compute.values, exposed.values - receiving, receiving, other.values)
    rows = [np.array([ranks[rank] for rank in stage if rank in ranks]) for stage in found]
    means = {
        key: [_mean(values, total.has_value, mine) for mine in rows] for key, values in zip(_PARTS, parts, strict=True)
    }
    names = [f"Stage {number}" for number in range(len(found))]
    lines = [
        Line(METRICS.metric(key, window="mean of the selected steps"), category, [*means[key]])
        for key, category in _PARTS.items()
    ]
    text = "mean step per rank; stages inferred from messages; receiving is an upper bound"
    x = METRICS.metric("pipeline_stage")
    series = Series("stages", "Pipeline stages", text, x, [*names], lines, "stacked_bars")
    return series, _frame(found, names, [len(mine) for mine in rows], means)


def _mean(values: Int64, has_value: npt.NDArray[np.bool_], rows: Int64) -> int:
    known = has_value[rows]
    return int(values[rows][known].sum()) // max(int(known.sum()), 1)


def _frame(found: Sequence[Stage], names: list[str], workers: list[int], means: dict[str, list[int]]) -> Frame:
    bubbles = [sum(pair) for pair in zip(means["stage_receiving_ns"], means["step_other_ns"], strict=True)]
    steps = [sum(parts) for parts in zip(*means.values(), strict=True)]
    table = {
        "pipeline_stage": names,
        "stage_ranks": [ranks_short(stage) for stage in found],
        "workers": workers,
        "stage_bubble_share": [part / step if step else None for part, step in zip(bubbles, steps, strict=True)],
        **means,
    }
    columns = METRICS.columns(*table)
    return Frame("stage_bubbles", "Bubbles of stages", columns, pa.table(table), ("pipeline_stage",), "pipeline_stage")


def _receiving(data: JobData) -> Int64:
    """Returns the time of each worker in receive calls, ns, with shape (workers, ``selected_columns``)."""
    calls, width = data.calls, len(data.labels) + 1
    mine = is_one_of(*texts_of(calls.data, "collective"), {"recv", "send_recv"})
    key = calls.worker[mine] * width + calls.step[mine]
    length = measure_by(key, calls.start_ns[mine], calls.end_ns[mine], len(data.names) * width)
    return length.reshape(len(data.names), width)[:, selected_columns(data)]
