"""Heat map and quantiles of a measure by worker and step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tb_plugin.payloads import Heat, Line, Metric, Series
from tb_plugin.payloads.export import to_json
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

Int64 = npt.NDArray[np.int64]

# maximum JSON bytes of heat map and quantiles, so that a response stays below 1 MB
MOST_BYTES = 900_000
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
# approximate JSON bytes of one quantile value
_CELL = 11


def heat_map_and_quantiles(data: JobData, key: str) -> tuple[Heat, Series]:
    """Returns the heat map and the quantile chart of a measure. Raises BadRequest for an unknown measure."""
    key = measure_key(data, key)
    grid, labels = grid_of(data, key), selected_labels(data)
    metric = METRICS.metric(key, window="one step")
    bare = Heat(
        "heat", metric.title, "by rank and step", metric, CATEGORIES[key], METRICS.metric("worker"), METRICS.metric("step"),
        list(data.names), [], 1, [], _whole(grid.means), [], worker_groupings(data), available_measures(data),
    )  # fmt: skip
    room = MOST_BYTES - len(to_json(bare))
    merged = _merged(grid, room)
    shown, columns = merge(grid, merged), merged_labels(labels, merged)
    known = np.where(shown.has_value, shown.values, np.iinfo(np.int64).min)
    worst = np.where(shown.has_value.any(axis=0), known.argmax(axis=0), -1)
    subtitle = bare.subtitle
    if merged > 1:
        subtitle += f"; each column shows the maximum of {merged} steps"
    heat = Heat(
        bare.name, bare.title, subtitle, metric, bare.category, bare.row_metric, bare.x_metric, bare.rows, columns, merged,
        _values(shown), bare.means, worst.tolist(), bare.groupings, bare.choices,
    )  # fmt: skip
    return heat, _bands(shown, columns, metric, merged)


def merge(grid: Grid, merged: int) -> Grid:
    """Merges every ``merged`` adjacent steps into one column that contains their maximum."""
    if merged == 1:
        return grid
    low = np.where(grid.has_value, grid.values, np.iinfo(np.int64).min)
    starts = np.arange(0, grid.values.shape[1], merged)
    known = np.logical_or.reduceat(grid.has_value, starts, axis=1)
    return Grid(np.where(known, np.maximum.reduceat(low, starts, axis=1), 0), known)


def merged_labels(labels: Sequence[str], merged: int) -> list[str]:
    """Returns the labels of merged columns, such as ``4-7``."""
    groups = (labels[start : start + merged] for start in range(0, len(labels), merged))
    return [group[0] if len(group) == 1 else f"{group[0]}-{group[-1]}" for group in groups]


def quantiles(grid: Grid, shares: Sequence[float]) -> list[list[int | None]]:
    """Returns quantiles over the workers: one list per share, with one value per column.

    Each quantile is the value of some worker. It is not interpolated.
    """
    count = grid.has_value.sum(axis=0)
    ordered = np.sort(np.where(grid.has_value, grid.values, np.iinfo(np.int64).max), axis=0)
    found = []
    for share in shares:
        place = np.clip(np.ceil(share * count).astype(np.int64) - 1, 0, None)
        values = np.take_along_axis(ordered, place[None, :], axis=0)[0].tolist()
        found.append([value if known else None for value, known in zip(values, count.tolist(), strict=True)])
    return found


def _merged(grid: Grid, room: int) -> int:
    """Smallest number of steps per column at which the heat map fits the size limit and the screen."""
    steps: int = max(grid.values.shape[1], 1)
    merged = -(-steps // MAX_COLUMNS)
    while merged < steps:
        columns = -(-steps // merged)
        required = _length(merge(grid, merged)) + columns * (len(_QUANTILES) * _CELL + 30)
        if required <= room:
            break
        merged = max(merged + 1, -(-merged * required // max(room, 1)))
    return min(merged, steps)


def _length(grid: Grid) -> int:
    """Approximate size of the values in JSON, in bytes."""
    size = np.abs(grid.values)
    digits = np.ones(size.shape, np.int64)
    for power in range(1, 19):
        digits += size >= 10**power
    return int(np.where(grid.has_value, digits + 1 + (grid.values < 0), len("null,")).sum())


def _bands(grid: Grid, columns: list[str], metric: Metric, merged: int) -> Series:
    found = quantiles(grid, [share for share, _ in _QUANTILES.values()])
    lines = [
        Line(METRICS.metric(key, window="one step"), category, [*values])
        for (key, (_, category)), values in zip(_QUANTILES.items(), found, strict=True)
    ]
    subtitle = f"{grid.values.shape[0]:,} ranks, by step"
    if merged > 1:
        subtitle += f"; per rank the maximum of {merged} steps"
    return Series(
        "spread", f"{metric.title}: spread of the ranks", subtitle, METRICS.metric("step"), [*columns], lines, "lines"
    )


def _values(grid: Grid) -> list[int | float | None]:
    values = grid.values.ravel().astype(np.object_)
    values[~grid.has_value.ravel()] = None
    found: list[int | float | None] = values.tolist()
    return found


def _whole(means: npt.NDArray[np.float64]) -> list[int | float | None]:
    return [None if np.isnan(mean) else round(mean) for mean in means.tolist()]
