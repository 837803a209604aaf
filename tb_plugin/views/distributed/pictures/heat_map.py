"""Heat map and quantiles of a measure by worker and step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tb_plugin.payloads import Heat, Line, Series
from tb_plugin.views.distributed.job_data import JobData
from tb_plugin.views.distributed.metrics import METRICS
from tb_plugin.views.distributed.pictures.step_grid import (
    CATEGORIES,
    Grid,
    available_measures,
    grid_of,
    measure_key,
    selected_labels,
)
from tb_plugin.views.distributed.pictures.topology import worker_groupings

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
