"""Pipeline stages inferred from messages between ranks, and their bubbles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.collective_names import POINT_TO_POINT
from tb_plugin.analysis.job_tables.stages import Stage, connected_stages
from tb_plugin.lib.groupby import distinct_rows
from tb_plugin.lib.intervals import measure_by
from tb_plugin.payloads import Line, Series
from tb_plugin.views.distributed.job_data import JobData
from tb_plugin.views.distributed.matching.keys import texts_of
from tb_plugin.views.distributed.metrics import METRICS
from tb_plugin.views.distributed.pictures.step_grid import available_measures, grid_of, selected_columns
from tb_plugin.views.distributed.pictures.topology import listed_ranks, ranks_short, worker_ranks

Int64 = npt.NDArray[np.int64]

_RECEIVES = ("recv", "send_recv")
_PARTS = {
    "compute_ns": "compute",
    "stage_communication_ns": "communication",
    "stage_receiving_ns": "wait",
    "step_other_ns": "idle",
}
_REQUIRED_MEASURES = {"step_total_ns", "compute_ns", "exposed_communication_ns", "step_other_ns"}


def stages(data: JobData) -> tuple[Stage, ...]:
    """Returns the ranks of each pipeline stage; empty if there are no messages between known ranks.

    A pipeline sends messages in both directions. Messages in only one direction are accepted if more than two ranks
    are loaded, and all of them send or receive in every step with messages.
    """
    calls = data.calls
    name, names = texts_of(calls.data, "collective")
    point = np.isin(name, [at for at, each in enumerate(names) if each in POINT_TO_POINT])
    ends = [calls.data[key].fill_null(-1).to_numpy() for key in ("source_rank", "destination_rank")]
    known = point & (ends[0] >= 0) & (ends[1] >= 0) & (ends[0] != ends[1])
    if not known.any():
        return ()
    messages = np.stack(distinct_rows(ends[0][known], ends[1][known]), axis=1).tolist()
    pairs = {(source, target) for source, target in messages}
    if not any((target, source) in pairs for source, target in pairs) and not _all_send(data, known, ends):
        return ()
    used = set(pc.unique(calls.data["group"].filter(pa.array(~point))).to_pylist())
    groups = {
        listed_ranks(row["group_ranks"], row["group_size"]) for row in data.process_groups if row["group"] in used
    }
    return connected_stages(messages, sorted(groups), worker_ranks(data))


def _all_send(data: JobData, known: npt.NDArray[np.bool_], ends: Sequence[Int64]) -> bool:
    """Whether more than two ranks are loaded, and each of them sends or receives in every step with messages."""
    ranks = np.array(sorted(worker_ranks(data)), np.int64)
    step = np.concatenate((data.calls.step[known],) * 2)
    rank = np.concatenate([each[known] for each in ends])
    is_loaded = np.isin(rank, ranks)
    of_step, _ = distinct_rows(step[is_loaded], rank[is_loaded])
    return len(ranks) > 2 and bool((np.bincount(of_step)[np.unique(of_step)] == len(ranks)).all())


def pipeline(data: JobData) -> tuple[Series, Frame] | None:
    """Returns a chart and a table that split the mean step of each rank, grouped by stage. None without stages."""
    ranks = worker_ranks(data)
    found = [stage for stage in stages(data) if any(rank in ranks for rank in stage)]
    offered = {metric.key for metric in available_measures(data)}
    if len(found) < 2 or not offered >= _REQUIRED_MEASURES:
        return None
    total, compute, exposed, other = (
        grid_of(data, key) for key in ("step_total_ns", "compute_ns", "exposed_communication_ns", "step_other_ns")
    )
    receiving = np.minimum(_receiving(data), exposed.values)
    parts = {
        "compute_ns": compute.values,
        "stage_communication_ns": exposed.values - receiving,
        "stage_receiving_ns": receiving,
        "step_other_ns": other.values,
    }
    rows = [np.array([ranks[rank] for rank in stage if rank in ranks]) for stage in found]
    count = [max(int(total.has_value[mine].sum()), 1) for mine in rows]
    sums = {key: [int(np.where(total.has_value[mine], x[mine], 0).sum()) for mine in rows] for key, x in parts.items()}
    means = {key: [value // n for value, n in zip(values, count, strict=True)] for key, values in sums.items()}
    names = [f"Stage {number}" for number in range(len(found))]
    lines = [
        Line(METRICS.metric(key, window="mean of the selected steps"), category, [*means[key]])
        for key, category in _PARTS.items()
    ]
    text = "mean step per rank; stages inferred from messages; receiving is an upper bound"
    series = Series(
        "stages", "Pipeline stages", text, METRICS.metric("pipeline_stage"), [*names], lines, "stacked_bars"
    )
    return series, _frame(found, names, [len(mine) for mine in rows], means)


def _frame(found: Sequence[Stage], names: list[str], worker_counts: list[int], means: dict[str, list[int]]) -> Frame:
    bubble = [
        receiving + other for receiving, other in zip(means["stage_receiving_ns"], means["step_other_ns"], strict=True)
    ]
    whole = [sum(values[at] for values in means.values()) for at in range(len(found))]
    table = {
        "pipeline_stage": names,
        "stage_ranks": [ranks_short(stage) for stage in found],
        "workers": worker_counts,
        "stage_bubble_share": [part / all_of if all_of else None for part, all_of in zip(bubble, whole, strict=True)],
        **means,
    }
    columns = METRICS.columns(*table)
    return Frame("stage_bubbles", "Bubbles of stages", columns, pa.table(table), ("pipeline_stage",), "pipeline_stage")


def _receiving(data: JobData) -> Int64:
    """Time of each worker in receive calls, ns, with shape (workers, ``selected_columns``)."""
    calls, width = data.calls, len(data.labels) + 1
    name, names = texts_of(calls.data, "collective")
    mine = np.isin(name, [at for at, each in enumerate(names) if each in _RECEIVES])
    key = calls.worker[mine] * width + calls.step[mine]
    length = measure_by(key, calls.start_ns[mine], calls.end_ns[mine], len(data.names) * width)
    return length.reshape(len(data.names), width)[:, selected_columns(data)]
