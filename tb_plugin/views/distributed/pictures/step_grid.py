"""Grid of a metric by worker and step."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from tb_plugin.errors import BadRequest
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.payloads import Metric
from tb_plugin.views.distributed.job_data import JobData
from tb_plugin.views.distributed.metrics import METRICS
from tb_plugin.views.distributed.rank.profile import STEP
from tb_plugin.views.distributed.stragglers.report import straggler_report

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

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
