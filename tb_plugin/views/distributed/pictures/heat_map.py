"""Measures by worker and step, as a heat map and quantiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import pyarrow.compute as pc

from tb_plugin.errors import BadRequest
from tb_plugin.lib.arrays import Bool, Float64, Int64
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.payloads import Heat, Line, Metric, Series
from tb_plugin.views.distributed.job_data import JobData
from tb_plugin.views.distributed.metrics import METRICS
from tb_plugin.views.distributed.pictures.topology import worker_groupings
from tb_plugin.views.distributed.rank.profile import STEP
from tb_plugin.views.distributed.stragglers.report import straggler_report

# maximum JSON bytes of the values, so that a response stays below 1 MB
MOST_VALUE_BYTES = 500_000
# number of columns that fit a screen
MAX_COLUMNS = 1000
_QUANTILES = {
    "rank_max_ns": (1.0, "slice5"),
    "rank_p95_ns": (0.95, "slice2"),
    "rank_p75_ns": (0.75, "slice6"),
    "rank_median_ns": (0.5, "slice0"),
    "rank_p25_ns": (0.25, "slice1"),
    "rank_p5_ns": (0.05, "slice4"),
    "rank_min_ns": (0.0, "rest"),
}
# value of the parameter that requests the most relevant measure
FIRST = "first"
LOST = "lost_ns"
# measures in the order of the menu, with their colours
CATEGORIES = {
    LOST: "late",
    "caused_wait_ns": "sync",
    "wait_ns": "wait",
    "exposed_communication_ns": "communication",
    "compute_ns": "compute",
    "step_other_ns": "other",
    "step_total_ns": "step",
    "transfer_ns": "transfer",
    "latency_ns": "communication",
    "overlap_ns": "overlap",
    "lateness_ns": "late",
}


class Grid(msgspec.Struct, frozen=True, eq=False):
    """Values with shape (workers, steps). ``has_value`` marks the valid values."""

    values: Int64
    has_value: Bool

    @property
    def means(self) -> Float64:
        """Returns the mean over the valid steps of each worker, or NaN for a worker without valid steps."""
        count = self.has_value.sum(axis=1)
        total = np.where(self.has_value, self.values, 0).sum(axis=1)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def selected_labels(data: JobData) -> tuple[str, ...]:
    """Returns the labels of the selected steps that at least one worker recorded."""
    return tuple(data.labels[at] for at in selected_columns(data).tolist())


def selected_columns(data: JobData) -> Int64:
    """Returns the index in ``labels`` of each label in ``selected_labels``, which are the columns of a grid."""
    return np.flatnonzero(_recorded_steps(data).any(axis=0))


def available_measures(data: JobData) -> list[Metric]:
    """Returns the measures that have data, most relevant first."""
    found = _grids(data)
    return [METRICS.metric(key, window="one step") for key in CATEGORIES if key in found]


def measure_key(data: JobData, key: str) -> str:
    """Returns the key of a measure. FIRST stands for the first measure with a non-zero value.

    Straggler cost is tried first if the job has a straggler. Otherwise straggler cost is noise and is tried last.
    """
    if key != FIRST:
        return key
    offered = [metric.key for metric in available_measures(data)]
    if LOST in offered and not straggler_report(data).costly:
        offered = [*(each for each in offered if each != LOST), LOST]
    return next((each for each in offered if grid_of(data, each).values.any()), next(iter(offered or CATEGORIES)))


def grid_of(data: JobData, key: str) -> Grid:
    """Returns the grid of a measure over ``selected_columns``. Raises BadRequest for an unknown measure.

    Without steps, the grid is empty for every key.
    """
    found = _grids(data) or dict.fromkeys(CATEGORIES, _empty_grid(data, 0))
    if key not in found:
        offered = ", ".join(measure for measure in CATEGORIES if measure in found)
        raise BadRequest(f"There is no measure {key[:100]}.", "measure", f"Use one of: {offered}.")
    return found[key]


@cached_by_argument
def _grids(data: JobData) -> Mapping[str, Grid]:
    columns, known = selected_columns(data), _recorded_steps(data)
    grids = {key: _step_grid(data, key) for key in STEP if key in CATEGORIES}
    latency, wait, transfer = (times[:, :-1] for times in data.times)
    grids["latency_ns"] = Grid(latency, known)
    if not data.is_single:
        grids |= {
            "wait_ns": Grid(wait, known),
            "transfer_ns": Grid(transfer, known),
            "caused_wait_ns": Grid(data.caused[:, :-1], known),
            "lateness_ns": _lateness_grid(data),
        }
        if straggler_report(data).has_costs:
            grids[LOST] = _lost_grid(data)
    return {
        key: Grid(grid.values[:, columns], grid.has_value[:, columns])
        for key, grid in grids.items()
        if grid.has_value.any()
    }


def _step_grid(data: JobData, key: str) -> Grid:
    """Returns the grid of a column of the steps table, over all labels."""
    column, grid = data.step_table[key], _empty_grid(data, len(data.labels))
    is_known = np.asarray(pc.is_valid(column))
    at = tuple(place[is_known] for place in data.step_places)
    np.add.at(grid.values, at, column.drop_null().to_numpy())
    grid.has_value[at] = True
    return grid


def _empty_grid(data: JobData, steps: int) -> Grid:
    shape = len(data.names), steps
    return Grid(np.zeros(shape, np.int64), np.zeros(shape, np.bool_))


@cached_by_argument
def _recorded_steps(data: JobData) -> Bool:
    """Returns whether each worker recorded each step, or calls in the step."""
    known: Bool = data.times[0][:, :-1] > 0
    known[data.step_places] = True
    return known


def _lost_grid(data: JobData) -> Grid:
    """Returns the time per step that would be saved if the worker were as fast as the next slowest worker."""
    report, grid = straggler_report(data), _empty_grid(data, len(data.labels))
    at = {label: place for place, label in enumerate(data.labels)}
    places = [(place, at[label]) for place, label in enumerate(report.labels) if label in at]
    if places:
        mine, place = np.array(places).T
        grid.values[:, place] = report.stragglers.lost_ns[:, mine]
        grid.has_value[:, place] = _recorded_steps(data)[:, place]
    return grid


def _lateness_grid(data: JobData) -> Grid:
    """Returns the mean lateness of the calls of each step."""
    values, grid, count = data.calls.data["lateness_ns"], *(_empty_grid(data, len(data.labels)) for _ in range(2))
    known = np.asarray(values.is_valid()) & (data.calls.step < len(data.labels))
    at = data.calls.worker[known], data.calls.step[known]
    np.add.at(grid.values, at, values.fill_null(0).to_numpy()[known])
    np.add.at(count.values, at, 1)
    return Grid(grid.values // np.maximum(count.values, 1), count.values > 0)


def heat_map_and_quantiles(data: JobData, key: str) -> tuple[Heat, Series]:
    """Returns the heat map and the quantile chart of a measure. Raises BadRequest for an unknown measure."""
    key = measure_key(data, key)
    grid, metric = grid_of(data, key), METRICS.metric(key, window="one step")
    merged = _steps_per_column(grid)
    shown, columns = merge(grid, merged), merged_labels(selected_labels(data), merged)
    values = np.where(shown.has_value, shown.values, np.iinfo(np.int64).min)
    worst = np.where(shown.has_value.any(axis=0), values.argmax(axis=0), -1)
    cells = shown.values.ravel().astype(np.object_)
    cells[~shown.has_value.ravel()] = None
    subtitle, spread_of = "by rank and step", f"{len(data.names):,} ranks, by step"
    if merged > 1:
        subtitle += f"; each column shows the maximum of {merged} steps"
        spread_of += f"; per rank the maximum of {merged} steps"
    heat = Heat(
        "heat", metric.title, subtitle, metric, CATEGORIES[key], METRICS.metric("worker"), METRICS.metric("step"),
        list(data.names), columns, merged, cells.tolist(),
        [None if np.isnan(mean) else round(mean) for mean in grid.means.tolist()],
        worst.tolist(), worker_groupings(data), available_measures(data),
    )  # fmt: skip
    found = quantiles(shown, [share for share, _ in _QUANTILES.values()])
    lines = [
        Line(METRICS.metric(quantile, window="one step"), category, [*line])
        for (quantile, (_, category)), line in zip(_QUANTILES.items(), found, strict=True)
    ]
    title = f"{metric.title}: spread of the ranks"
    return heat, Series("spread", title, spread_of, METRICS.metric("step"), [*columns], lines, "lines")


def merge(grid: Grid, merged: int) -> Grid:
    """Merges every ``merged`` adjacent steps into one column with the maximum of the steps."""
    if merged == 1:
        return grid
    low = np.where(grid.has_value, grid.values, np.iinfo(np.int64).min)
    starts = np.arange(0, grid.values.shape[1], merged)
    known = np.logical_or.reduceat(grid.has_value, starts, axis=1)
    return Grid(np.where(known, np.maximum.reduceat(low, starts, axis=1), 0), known)


def merged_labels(labels: Sequence[str], merged: int) -> list[str]:
    """Returns the labels of columns that merge several steps, such as ``4-7``."""
    groups = (labels[start : start + merged] for start in range(0, len(labels), merged))
    return [group[0] if len(group) == 1 else f"{group[0]}-{group[-1]}" for group in groups]


def quantiles(grid: Grid, shares: Sequence[float]) -> list[list[int | None]]:
    """Returns quantiles over the workers: one list per share, with one value per column.

    Quantiles are not interpolated: each quantile is the value of a worker.
    """
    count = grid.has_value.sum(axis=0)
    ordered = np.sort(np.where(grid.has_value, grid.values, np.iinfo(np.int64).max), axis=0)
    found = []
    for share in shares:
        place = np.clip(np.ceil(share * count).astype(np.int64) - 1, 0, None)
        values = np.take_along_axis(ordered, place[None, :], axis=0)[0].tolist()
        found.append([value if known else None for value, known in zip(values, count.tolist(), strict=True)])
    return found


def _steps_per_column(grid: Grid) -> int:
    """Returns the number of steps per column with which the heat map fits the size limit and the screen."""
    workers, steps = grid.values.shape
    if not steps:
        return 1
    digits = len(str(int(np.abs(grid.values).max()))) + 1
    columns = max(min(MAX_COLUMNS, MOST_VALUE_BYTES // (workers * digits)), 1)
    merged: int = -(-steps // columns)
    return merged
