"""Slowest workers, and bar charts of many workers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa

from tb_plugin.analysis.base import Frame
from tb_plugin.lib.arrays import Float64
from tb_plugin.payloads import Column, Line, Series, Sort
from tb_plugin.views.distributed.job_data import JobData, Row
from tb_plugin.views.distributed.metrics import METRICS
from tb_plugin.views.distributed.stragglers.report import cause_columns, straggler_report

MAX_WORST = 10
# with more workers, bars would be too thin: charts show the worst, the median and the best
MAX_BARS = 32
# with fewer workers, the bar charts suffice
MIN_WORKERS = 3
TITLES = {"lost_ns": "Cost per step", "caused_wait_ns": "Caused wait, total"}


def by_cost(data: JobData, rows: Sequence[Row]) -> list[int]:
    """Returns the indices of the workers, worst worker first.

    Repeated stragglers come first. The next sort keys are straggler cost per step, the time that other workers wait
    for the worker, and compute time. Wait comes after cost because later pipeline ranks wait for earlier ranks by
    design.
    """
    report, costs = straggler_report(data), _costs_per_step(data)
    repeated = {worker for worker in report.costly if not report.is_once(worker)} if costs.any() else set()

    def key(at: int) -> tuple[bool, float, int, int, int]:
        waits, computes = (_number(rows[at], name) for name in ("caused_wait_ns", "compute_ns"))
        return at not in repeated, -float(costs[at]), -waits, -computes, at

    return sorted(range(len(rows)), key=key)


def _costs_per_step(data: JobData) -> Float64:
    """Returns the mean cost of each worker per step, ns. Without a straggler, costs are noise and 0 is returned."""
    report = straggler_report(data)
    no_cost = data.is_single or not report.costly or not report.has_costs
    return np.zeros(len(data.names)) if no_cost else report.lost_ns


def keep_worst(series: Series, data: JobData, rows: Sequence[Row]) -> Series:
    """Limits a chart of many workers to the worst, the median and the best worker."""
    if len(data.names) <= MAX_BARS or len(series.x) <= MAX_BARS:
        return series
    order = by_cost(data, rows)
    chosen = {data.names[at]: "" for at in order[:MAX_WORST]}
    chosen |= {data.names[order[len(order) // 2]]: " (median)", data.names[order[-1]]: " (best)"}
    place = {x: at for at, x in enumerate(series.x)}
    places = [(place[name], name + suffix) for name, suffix in chosen.items() if name in place]
    what = "cost the other ranks most" if _costs_per_step(data).any() else "other ranks wait for most"
    return msgspec.structs.replace(
        series,
        subtitle=f"{series.subtitle}; the {MAX_WORST} of {len(data.names):,} that {what}, plus (median) and (best)",
        x=[label for _, label in places],
        lines=[Line(line.metric, line.category, [line.values[at] for at, _ in places]) for line in series.lines],
    )


def worst_frame(data: JobData, rows: Sequence[Row]) -> Frame | None:
    """Returns the table of the costliest workers, or None if no worker waits or if there are too few workers."""
    if len(data.names) < MIN_WORKERS:
        return None
    lost, whole = _costs_per_step(data), by_cost(data, rows)
    order = [at for at in whole[:MAX_WORST] if lost[at] or _number(rows[at], "caused_wait_ns")]
    if not order:
        return None
    report = straggler_report(data)
    known, straggling = bool(lost.any()), set(report.costly)
    node = {str(row["worker"]): str(row["node"]) for row in data.devices}
    causes = [cause_columns(report, at).get("late_cause") if at in straggling else None for at in order]
    waits = [_number(rows[at], "caused_wait_ns") for at in order]
    has_steps = report.mean_ns and report.labels != ("",)
    table = {
        "worker": pa.array([data.names[at] for at in order], pa.string()),
        "node": pa.array([node.get(data.names[at]) or None for at in order], pa.string()),
        "lost_ns": pa.array([float(lost[at]) if known else None for at in order], pa.float64()),
        "lost_share": pa.array([float(lost[at] / report.mean_ns) if known else None for at in order], pa.float64()),
        "late_pattern": pa.array([report.pattern(at) if at in straggling else None for at in order], pa.string()),
        "late_cause": pa.array(causes, pa.string()),
        "caused_wait_ns": pa.array([rows[at]["caused_wait_ns"] for at in order], pa.int64()),
        "held_up_by": pa.array([report.root_of_worker(at) for at in order], pa.string()),
        "caused_step_ns": pa.array([round(report.per_step(w)) if has_steps else None for w in waits], pa.int64()),
        "last_share": pa.array([rows[at]["last_share"] for at in order], pa.float64()),
        "usual_worker": pa.array([_reference_worker(data, at, whole) for at in order], pa.string()),
    }
    hidden = {key for key, column in table.items() if column.null_count == len(column)}
    if "caused_step_ns" not in hidden:
        hidden.add("caused_wait_ns")  # the same value, not divided by steps
    columns = [Column(METRICS.metric(key, TITLES.get(key, "")), hidden=key in hidden) for key in table]
    title = "Slowest ranks" if known else "Ranks that others wait for"
    # No column sorts repeated stragglers first.
    sort = None if known else Sort("caused_wait_ns" if "caused_step_ns" in hidden else "caused_step_ns", True)
    return Frame("worst", title, columns, pa.table(table), ("worker",), "worker", sort)


def _reference_worker(data: JobData, at: int, order: Sequence[int]) -> str | None:
    """Returns the worker with median lateness in the group in which worker ``at`` costs most, else with median cost."""
    report = straggler_report(data)
    usual = -1
    if bool((report.stragglers.worker == at).any()):
        usual = int(report.usual[report.stragglers.main_group(at)])
    if usual < 0:
        others = [one for one in order if one != at]
        usual = others[len(others) // 2]
    return data.names[usual]


def _number(row: Row, key: str) -> int:
    value = row[key]
    return value if isinstance(value, int) else 0
