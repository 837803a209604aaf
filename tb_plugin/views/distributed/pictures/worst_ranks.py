"""Slowest workers, their outlying times, and bar charts of many workers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.base import Frame
from tb_plugin.payloads import Column, Line, Series, Sort
from tb_plugin.views.distributed.job_data import JobData, Row
from tb_plugin.views.distributed.metrics import METRICS
from tb_plugin.views.distributed.pictures.step_grid import available_measures, grid_of
from tb_plugin.views.distributed.stragglers.report import CAUSES, Blame, cause_columns, straggler_report

MAX_WORST = 10
# with more workers, bars would be too thin: charts show the worst, the median and the best
MAX_BARS = 32
# with fewer workers, the bar charts suffice
MIN_WORKERS = 3
TITLES = {"lost_ns": "Cost per step", "caused_wait_ns": "Caused wait, total"}
REST = "step_other_ns"
# measures to search for outliers
COMPARED = ("compute_ns", REST)
# causes that are part of the rest of the step
CAUSES_OF_REST = [CAUSES[key] for key in ("copy", "input", "host", "idle")]
# minimum excess over the median: as a share of it, and in median absolute deviations
MIN_OUTLIER_SHARE, MIN_OUTLIER_DEVIATIONS = 0.05, 3.0

Float64 = npt.NDArray[np.float64]


def by_cost(data: JobData, rows: Sequence[Row]) -> list[int]:
    """Returns the indices of the workers, worst worker first.

    Repeated stragglers come first. The next sort keys are straggler cost per step, the time that other workers wait
    for the worker, and compute time. Wait comes after cost because later pipeline ranks wait for earlier ranks by
    design.
    """
    report, costs = straggler_report(data), _costs_per_step(data)
    repeated = {worker for worker in report.costly if not report.is_once(worker)} if costs.any() else set()

    def key(at: int) -> tuple[bool, float, int, int, int]:
        return (
            at not in repeated,
            -float(costs[at]),
            -_number(rows[at], "caused_wait_ns"),
            -_number(rows[at], "compute_ns"),
            at,
        )

    return sorted(range(len(rows)), key=key)


def _costs_per_step(data: JobData) -> Float64:
    """Returns the mean cost of each worker per step, ns. Without a straggler, costs are noise and 0 is returned."""
    report = straggler_report(data)
    if data.is_single or not report.costly or not report.has_costs:
        return np.zeros(len(data.names))
    return report.lost_ns


def bar_positions(data: JobData, rows: Sequence[Row]) -> list[int]:
    """Returns the indices of the workers to draw as bars: all workers, or the worst, median and best of many
    workers.
    """
    if len(rows) <= MAX_BARS:
        return list(range(len(rows)))
    order = by_cost(data, rows)
    return [*order[:MAX_WORST], order[len(order) // 2], order[-1]]


def keep_worst(series: Series, data: JobData, rows: Sequence[Row]) -> Series:
    """Limits a chart to the workers of ``bar_positions``. Labels mark the median worker and the best worker."""
    names = data.names
    if len(names) <= MAX_BARS or len(series.x) <= MAX_BARS:
        return series
    chosen = [names[at] for at in bar_positions(data, rows)]
    place = {x: at for at, x in enumerate(series.x)}
    places = [(number, place[name]) for number, name in enumerate(chosen) if name in place]
    suffixes = {MAX_WORST: " (median)", MAX_WORST + 1: " (best)"}
    lines = [Line(line.metric, line.category, [line.values[at] for _, at in places]) for line in series.lines]
    subtitle = (
        f"{series.subtitle}; the {MAX_WORST} of {len(names):,} that {_order_phrase(data)}, plus (median) and (best)"
    )
    x: list[int | float | str] = [f"{chosen[number]}{suffixes.get(number, '')}" for number, _ in places]
    return msgspec.structs.replace(series, subtitle=subtitle, x=x, lines=lines)


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
    offered = {metric.key for metric in available_measures(data)}
    means = {key: grid_of(data, key).means for key in COMPARED if key in offered}
    causes = [cause_columns(report, at).get("late_cause") if at in straggling else None for at in order]
    outliers = [_outlying(means, at, cause) for at, cause in zip(order, causes, strict=True)]
    keys = ("outlying", "outlying_ns", "outlying_usual_ns", "outlying_share")
    table = {
        "worker": pa.array([data.names[at] for at in order], pa.string()),
        "node": pa.array([node.get(data.names[at]) or None for at in order], pa.string()),
        "lost_ns": pa.array([float(lost[at]) if known else None for at in order], pa.float64()),
        "lost_share": pa.array([float(lost[at] / report.mean_ns) if known else None for at in order], pa.float64()),
        "late_pattern": pa.array([report.pattern(at) if at in straggling else None for at in order], pa.string()),
        "late_cause": pa.array(causes, pa.string()),
        "caused_wait_ns": pa.array([rows[at]["caused_wait_ns"] for at in order], pa.int64()),
        "held_up_by": pa.array([report.root_of_worker(at) for at in order], pa.string()),
        "caused_step_ns": pa.array([_per_step(report, rows[at]) for at in order], pa.int64()),
        "last_share": pa.array([rows[at]["last_share"] for at in order], pa.float64()),
        **{
            key: pa.array([found[key] for found in outliers], kind)
            for key, kind in zip(keys, (pa.string(), pa.int64(), pa.int64(), pa.float64()), strict=True)
        },
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


def _order_phrase(data: JobData) -> str:
    return "cost the other ranks most" if _costs_per_step(data).any() else "other ranks wait for most"


def _reference_worker(data: JobData, at: int, order: Sequence[int]) -> str | None:
    """Returns the worker with median lateness in the group in which worker ``at`` costs most.

    If this group is unknown, returns the worker with median cost.
    """
    report = straggler_report(data)
    usual = -1
    if bool((report.stragglers.worker == at).any()):
        usual = int(report.usual[report.stragglers.main_group(at)])
    if usual < 0:
        others = [one for one in order if one != at]
        usual = others[len(others) // 2]
    return data.names[usual]


def _outlying(means: dict[str, Float64], at: int, cause: object) -> Row:
    """Finds the time of worker ``at`` that exceeds the median of all workers most, if this time is an outlier.

    If the outlier is the time outside compute and communication, the title contains ``cause``.
    """
    best: Row = dict.fromkeys(("outlying", "outlying_ns", "outlying_usual_ns", "outlying_share"))
    most = 0.0
    for key, values in means.items():
        known = values[~np.isnan(values)]
        if not len(known) or np.isnan(values[at]):
            continue
        middle = float(np.median(known))
        usual = float(np.median(np.abs(known - middle)))
        more = float(values[at]) - middle
        if more > max(most, MIN_OUTLIER_SHARE * middle, MIN_OUTLIER_DEVIATIONS * usual):
            most = more
            best = {
                "outlying": METRICS[key].title + (f" ({cause})" if key == REST and cause in CAUSES_OF_REST else ""),
                "outlying_ns": round(float(values[at])),
                "outlying_usual_ns": round(middle),
                "outlying_share": more / middle if middle else None,
            }
    return best


def _per_step(report: Blame, row: Row) -> int | None:
    """Returns the mean time per step that other workers wait for a worker, ns; None without step times."""
    return round(report.per_step(_number(row, "caused_wait_ns"))) if report.mean_ns and report.labels != ("",) else None


def _number(row: Row, key: str) -> int:
    value = row[key]
    return value if isinstance(value, int) else 0
