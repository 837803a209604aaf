"""The workers that the others wait for most, with what stands out of each, and which are shown where all are too many."""

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
from tb_plugin.views.distributed.pictures.step_grid import grid_of, measures
from tb_plugin.views.distributed.stragglers.report import CAUSES, Blame, blame, why

MOST = 10
MANY = 32
"""Of more workers bars are too thin to read: the worst, the median and the best are shown."""
LEAST = 3
"""Of fewer workers nothing stands out: the bars show them all."""
TITLES = {"lost_ns": "Cost per step", "caused_wait_ns": "Caused wait, total"}
REST = "step_other_ns"
COMPARED = ("compute_ns", REST)
"""What a worker does while the others wait for it."""
OF_REST = [CAUSES[key] for key in ("copy", "input", "host", "idle")]
"""Causes whose time is neither computation nor communication."""
OUTLYING_SHARE, OUTLYING_DEVIATIONS = 0.05, 3.0
"""How far from the median a number has to be: a share of it, and medians of the deviations of all."""

Float64 = npt.NDArray[np.float64]


def by_cost(data: JobData, rows: Sequence[Row]) -> list[int]:
    """Returns the places of the workers, the worst first.

    Where stragglers are known it is what each costs a step, those that are late again and again before any that was once;
    else and then how long the others wait for it, then how long it computes: where messages go from rank to rank, whoever
    stands behind another one waits for it by the plan.
    """
    told, lost = blame(data), _lost(data)
    again = {worker for worker in told.costly if not told.is_once(worker)} if lost.any() else set()

    def key(at: int) -> tuple[bool, float, int, int, int]:
        return (
            at not in again,
            -float(lost[at]),
            -_number(rows[at], "caused_wait_ns"),
            -_number(rows[at], "compute_ns"),
            at,
        )

    return sorted(range(len(rows)), key=key)


def _lost(data: JobData) -> Float64:
    """What each worker costs a step, the mean; 0 where nobody is a straggler: then it is noise."""
    told = blame(data)
    if data.alone or not told.costly:
        return np.zeros(len(data.names))
    return told.lost_ns


def bar_positions(data: JobData, rows: Sequence[Row]) -> list[int]:
    """Returns the places of the workers that bars show: all, or of many the worst, the median and the best."""
    if len(rows) <= MANY:
        return list(range(len(rows)))
    order = by_cost(data, rows)
    return [*order[:MOST], order[len(order) // 2], order[-1]]


def fewer(series: Series, data: JobData, rows: Sequence[Row]) -> Series:
    """Returns bars of workers with those that ``shown_of`` names, which they are called by as well; all of few."""
    names = data.names
    if len(names) <= MANY or len(series.x) <= MANY:
        return series
    chosen = [names[at] for at in bar_positions(data, rows)]
    place = {x: at for at, x in enumerate(series.x)}
    kept = [(number, place[name]) for number, name in enumerate(chosen) if name in place]
    says = {MOST: " (median)", MOST + 1: " (best)"}
    lines = [Line(line.metric, line.category, [line.values[at] for _, at in kept]) for line in series.lines]
    subtitle = (
        f"{series.subtitle}; the {MOST} of {len(names):,} that {_ranked(data)}, "
        "the one in the middle of that order (median) and the last of it (best)"
    )
    x: list[int | float | str] = [f"{chosen[number]}{says.get(number, '')}" for number, _ in kept]
    return msgspec.structs.replace(series, subtitle=subtitle, x=x, lines=lines)


def worst_frame(data: JobData, rows: Sequence[Row]) -> Frame | None:
    """Returns a table of the workers that cost most; None where nobody waits, or for too few to compare."""
    if len(data.names) < LEAST:
        return None
    lost, whole = _lost(data), by_cost(data, rows)
    order = [at for at in whole[:MOST] if lost[at] or _number(rows[at], "caused_wait_ns")]
    if not order:
        return None
    told = blame(data)
    known, straggling = bool(lost.any()), set(told.costly)
    node = {str(row["worker"]): str(row["node"]) for row in data.devices}
    offered = {metric.key for metric in measures(data)}
    means = {key: grid_of(data, key).means for key in COMPARED if key in offered}
    causes = [why(told, at).get("late_cause") if at in straggling else None for at in order]
    out = [_outlying(means, at, cause) for at, cause in zip(order, causes, strict=True)]
    keys = ("outlying", "outlying_ns", "outlying_usual_ns", "outlying_share")
    table = {
        "worker": pa.array([data.names[at] for at in order], pa.string()),
        "node": pa.array([node.get(data.names[at]) or None for at in order], pa.string()),
        "lost_ns": pa.array([float(lost[at]) if known else None for at in order], pa.float64()),
        "lost_share": pa.array([float(lost[at] / told.mean_ns) if known else None for at in order], pa.float64()),
        "late_pattern": pa.array([told.pattern(at) if at in straggling else None for at in order], pa.string()),
        "late_cause": pa.array(causes, pa.string()),
        "caused_wait_ns": pa.array([rows[at]["caused_wait_ns"] for at in order], pa.int64()),
        "held_up_by": pa.array([told.worker_held_up_by(at) for at in order], pa.string()),
        "caused_step_ns": pa.array([_per_step(told, rows[at]) for at in order], pa.int64()),
        "last_share": pa.array([rows[at]["last_share"] for at in order], pa.float64()),
        **{
            key: pa.array([found[key] for found in out], kind)
            for key, kind in zip(keys, (pa.string(), pa.int64(), pa.int64(), pa.float64()), strict=True)
        },
        "usual_worker": pa.array([_beside(data, at, whole) for at in order], pa.string()),
    }
    hidden = {key for key, column in table.items() if column.null_count == len(column)}
    if "caused_step_ns" not in hidden:
        hidden.add("caused_wait_ns")  # which says the same
    columns = [Column(METRICS.metric(key, TITLES.get(key, "")), hidden=key in hidden) for key in table]
    title = "Who costs the others most" if known else "Whom the others wait for"
    # Of stragglers those that are late again and again stand first: no column has that order.
    sort = None if known else Sort("caused_wait_ns" if "caused_step_ns" in hidden else "caused_step_ns", True)
    return Frame("worst", title, columns, pa.table(table), ("worker",), "worker", sort)


def _ranked(data: JobData) -> str:
    return "cost the others most" if _lost(data).any() else "others wait for most"


def _beside(data: JobData, at: int, order: Sequence[int]) -> str | None:
    """Whom to lay beside a worker: who is usual in the group in which it costs most, else of all."""
    told = blame(data)
    usual = -1
    if bool((told.found.worker == at).any()):
        usual = int(told.usual[told.found.main_group(at)])
    if usual < 0:
        others = [one for one in order if one != at]
        usual = others[len(others) // 2]
    return data.names[usual]


def _outlying(means: dict[str, Float64], at: int, cause: object) -> Row:
    """What of a worker is further above the median of all than the others are, the largest of it.

    The rest of the step is named with the ``cause`` of its being late, where that is what the rest consists of.
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
        if more > max(most, OUTLYING_SHARE * middle, OUTLYING_DEVIATIONS * usual):
            most = more
            best = {
                "outlying": METRICS[key].title + (f" ({cause})" if key == REST and cause in OF_REST else ""),
                "outlying_ns": round(float(values[at])),
                "outlying_usual_ns": round(middle),
                "outlying_share": more / middle if middle else None,
            }
    return best


def _per_step(told: Blame, row: Row) -> int | None:
    """How long the others wait for a worker in the mean of the steps that what it costs is of; None where none has a time."""
    return round(told.per_step(_number(row, "caused_wait_ns"))) if told.mean_ns and told.labels != ("",) else None


def _number(row: Row, key: str) -> int:
    value = row[key]
    return value if isinstance(value, int) else 0
