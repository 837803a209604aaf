"""Facts about a whole job."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import quantile_by
from tb_plugin.lib.tables import sorted_by
from tb_plugin.payloads import Figure, Figures
from tb_plugin.views.distributed.job_data import JobData, Row
from tb_plugin.views.distributed.matching.keys import numbers_of
from tb_plugin.views.distributed.metrics import METRICS
from tb_plugin.views.distributed.missing_ranks import missing_rank_count
from tb_plugin.views.distributed.stragglers.report import straggler_report

# name of the payload; reports list its figures as distributed.<key>
FACTS = "facts"


def job_facts(data: JobData, rows: list[Row], operations: Frame) -> Figures:
    """Returns facts about a job, with null for unknown values. ``rows`` has one row per worker.

    A job with a single worker has no facts about wait and stragglers.
    """
    figures = [
        METRICS.figure("workers", len(data.names)),
        METRICS.figure("world_size", data.size),
        METRICS.figure("absent_ranks", missing_rank_count(data.ranks, data.world_size)),
    ]
    if not data.is_single:
        figures += _lost(data)
        figures += [
            METRICS.figure("wait_share", wait_share(data)),
            METRICS.figure("skew_p95_ns", _skew(data)),
            METRICS.figure("clock_residual_p95_ns", _percentile(data.clocks.residual_ns[data.clocks.comparable])),
            METRICS.figure("matched", total_of(rows, "matched")),
            METRICS.figure("unmatched", total_of(rows, "unmatched")),
            METRICS.figure("bounded", total_of(rows, "bounded")),
            METRICS.figure("bus_bandwidth", largest_collective(operations)[1]),
        ]
    return Figures(FACTS, "Job numbers", "", figures)


def wait_share(data: JobData) -> float | None:
    """Returns the share of step time in which workers wait for other workers, or None without matched calls.

    The wait in a step is at most the step time, although a call may end after its step.
    """
    total = numbers_of(data.step_table, "step_total_ns")
    known, wait = total > 0, data.times[1][data.step_places]
    if not known.any() or not data.calls.matched.any():
        return None
    return float(np.minimum(wait, total)[known].sum() / total[known].sum())


def largest_collective(operations: Frame) -> tuple[str, float | None]:
    """Returns name and mean bus bandwidth of the collective with a known bandwidth and the most bytes."""
    known = operations.data.filter(pc.is_valid(operations.data["bus_bandwidth"]))
    if not known.num_rows or not pc.max(known["comm_bytes"]).as_py():
        return "", None
    moved = known.group_by(["collective", "dtype", "group"], use_threads=False)
    sums = sorted_by(
        moved.aggregate([("comm_bytes", "sum"), ("bus_bandwidth", "mean")]), [("comm_bytes_sum", "descending")]
    )
    most = sums.slice(0, 1).to_pylist()[0]
    return str(most["collective"]), float(most["bus_bandwidth_mean"])


def total_of(rows: list[Row], key: str) -> int:
    """Returns the sum of column ``key`` over the workers that have a value."""
    return sum(value for row in rows if isinstance(value := row[key], int))


def in_steps(data: JobData, rows: list[Row]) -> list[Row]:
    """Returns the rows with latency, wait and transfer limited to calls within steps.

    Rows of workers without steps do not change.
    """
    keys = ("latency_ns",) if data.is_single else ("latency_ns", "wait_ns", "transfer_ns")
    within = zip(*(times[:, :-1].sum(axis=1).tolist() for times in data.times[: len(keys)]), strict=True)
    every = zip(rows, within, data.step_counts.tolist(), strict=True)
    return [{**row, **dict(zip(keys, times, strict=True))} if count else row for row, times, count in every]


def exposed_share(rows: list[Row]) -> float | None:
    """Returns exposed communication divided by step time, summed over the workers in ``rows``; None without steps."""
    time = total_of(rows, "step_total_ns")
    return total_of(rows, "exposed_communication_ns") / time if time else None


def _lost(data: JobData) -> list[Figure]:
    """Returns the cost of the costliest straggler: 0 without stragglers, None without an estimate."""
    report = straggler_report(data)
    worst = report.costly[0] if report.costly else None
    lost = report.lost(worst) if worst is not None else 0.0
    known = bool(len(report.stragglers.worker)) and report.has_costs
    return [
        METRICS.figure("stragglers", len(report.costly)),
        METRICS.figure("straggler_rank", data.ranks[worst] if worst is not None else None),
        METRICS.figure("lost_ns", lost if known else None),
        METRICS.figure("lost_share", lost / report.mean_ns if known else None),
    ]


def _skew(data: JobData) -> int | None:
    """Returns the 95th percentile of the arrival skew in ns, over collectives whose skew exceeds the clock error."""
    rows = data.first_rows
    return _percentile(data.calls.late.skew_ns[rows[data.sure.skew[rows]]])


def _percentile(values: Int64) -> int | None:
    return int(quantile_by(np.zeros(len(values), np.int64), values, 1, 95)[0]) if len(values) else None
