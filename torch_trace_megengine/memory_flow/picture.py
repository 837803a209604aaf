"""Tensors as rectangles over time and address."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.base import Params, int_param
from tb_plugin.analysis.snapshot.curve import WIDTH, detail
from tb_plugin.analysis.snapshot.labels import address_texts
from tb_plugin.errors import BadRequest
from tb_plugin.lib.arrays import Int64
from tb_plugin.payloads import Line, MemoryFlowMap, Series
from torch_trace_megengine.memory_flow.metrics import METRICS
from torch_trace_megengine.memory_flow.model import MemoryFlow, levels_of
from torch_trace_megengine.memory_flow.tensor_names import origins_of

# Tensors per answer: about 1 MB of JSON.
MAX_TENSORS = 10_000
# Resolution of a screen, cells of time by cells of memory.
SCREEN_CELLS = (1600, 500)
# Grid that marks tensors beyond the limit, cells of time by cells of memory.
GRID_CELLS = (400, 200)


class Part(msgspec.Struct, frozen=True, dict=True, weakref=True):
    """A range of times and a range of addresses. Both ends of each range are included."""

    start_ns: int
    end_ns: int
    low: int
    high: int


def part_of(flow: MemoryFlow, params: Params) -> Part:
    """Returns the requested range of times and addresses, by default the whole flow. Raises BadRequest for invalid ranges."""
    start, end = _within(params, ("start_ns", "end_ns"), flow.first_ns, flow.last_ns)
    low, high = _within(params, ("low", "high"), 0, flow.extent_bytes)
    return Part(start, end, low, high)


def _within(params: Params, keys: tuple[str, str], first: int, last: int) -> tuple[int, int]:
    requested = [int_param(params, key) for key in keys]
    low = first if requested[0] is None else min(max(requested[0], first), last)
    high = last if requested[1] is None else min(max(requested[1], first), last)
    if high < low:
        raise BadRequest(f"{keys[1]} is before {keys[0]}.", keys[1], f"{keys[0]}={low}, {keys[1]}={high}.")
    return low, high


def map_of(flow: MemoryFlow, part: Part) -> MemoryFlowMap:
    """Returns the rectangles in ``part``: the largest tensors, and a grid that shows where the others are."""
    offset = flow.offset
    seen = (flow.start_ns <= part.end_ns) & (flow.end_ns >= part.start_ns)
    seen &= (offset <= part.high) & (offset + flow.size >= part.low)
    rows = np.flatnonzero(seen)
    rest = rows[:0]
    if len(rows) > MAX_TENSORS:
        wide = np.minimum(flow.end_ns[rows], part.end_ns) - np.maximum(flow.start_ns[rows], part.start_ns)
        high = np.minimum(offset[rows] + flow.size[rows], part.high) - np.maximum(offset[rows], part.low)
        cell = (max(1, part.end_ns - part.start_ns) / SCREEN_CELLS[0], max(1, part.high - part.low) / SCREEN_CELLS[1])
        drawn = np.maximum(wide / cell[0], 1) * np.maximum(high / cell[1], 1)
        order = np.argsort(-drawn, kind="stable")
        rows, rest = np.sort(rows[order[:MAX_TENSORS]]), rows[order[MAX_TENSORS:]]
    column, first, end = _cells(flow, part, rest)
    origins = origins_of(flow)
    tensors, tensor = _listed(flow, flow.name[rows])
    layouts, layout = _listed(flow, flow.layout[rows])
    return MemoryFlowMap(
        name="flow",
        title="Tensors in memory",
        start_ns=part.start_ns,
        end_ns=part.end_ns,
        low_bytes=part.low,
        high_bytes=part.high,
        first_ns=flow.first_ns,
        last_ns=flow.last_ns,
        extent_bytes=flow.extent_bytes,
        region_address=address_texts(flow.region_address).to_pylist(),
        region_bytes=flow.region_size.tolist(),
        region_offset=flow.region_offset.tolist(),
        row=rows.tolist(),
        created_ns=flow.start_ns[rows].tolist(),
        released_ns=flow.end_ns[rows].tolist(),
        is_released=flow.is_released[rows].tolist(),
        offset=offset[rows].tolist(),
        size_bytes=flow.size[rows].tolist(),
        tensor=tensor.tolist(),
        operator=origins.operator[rows].tolist(),
        layout=layout.tolist(),
        tensors=tensors,
        operators=origins.operators,
        layouts=layouts,
        hidden=len(rest),
        cell_columns=GRID_CELLS[0],
        cell_rows=GRID_CELLS[1],
        cell_column=column.tolist(),
        cell_first=first.tolist(),
        cell_end=end.tolist(),
    )


def _cells(flow: MemoryFlow, part: Part, rows: Int64) -> tuple[Int64, Int64, Int64]:
    """Returns runs of grid cells with tensors: column, first row, last row plus 1."""
    if not len(rows):
        return rows, rows, rows
    offset = flow.offset[rows]
    bounds = []
    for low, high, first, last, count in (
        (flow.start_ns[rows], flow.end_ns[rows], part.start_ns, part.end_ns, GRID_CELLS[0]),
        (offset, offset + flow.size[rows], part.low, part.high, GRID_CELLS[1]),
    ):
        scale = count / max(1, last - first)
        begin = np.clip(((low - first) * scale).astype(np.int64), 0, count - 1)
        bounds.append((begin, np.clip(np.ceil((high - first) * scale).astype(np.int64), begin + 1, count)))
    (left, right), (top, bottom) = bounds
    # Each rectangle adds ±1 at its corners; sums along both axes count the rectangles per cell.
    grid = np.zeros((GRID_CELLS[0] + 1, GRID_CELLS[1] + 1), np.int64)
    for x, y, sign in ((left, top, 1), (right, top, -1), (left, bottom, -1), (right, bottom, 1)):
        np.add.at(grid, (x, y), sign)
    is_occupied = (np.cumsum(np.cumsum(grid, axis=0), axis=1) > 0).astype(np.int8)
    edges = np.diff(is_occupied, axis=1, prepend=0)
    column, first_row = np.nonzero(edges == 1)
    return column, first_row, np.nonzero(edges == -1)[1]


def _listed(flow: MemoryFlow, ids: npt.NDArray[np.int32]) -> tuple[list[str], Int64]:
    used, place = np.unique(ids, return_inverse=True)
    return flow.strings.take(used).to_pylist(), place.reshape(-1)


def curve_of(flow: MemoryFlow, part: Part, width: int = WIDTH) -> Series:
    """Returns the bytes in use over the time range, downsampled to ``width`` pixel columns."""
    levels = levels_of(flow)
    first, end = levels.at(part.start_ns), levels.at(part.end_ns)
    times = np.clip(levels.time_ns[max(first, 0) : end + 1], part.start_ns, None)
    inside = [values[max(first, 0) : end + 1] for values in (levels.used, levels.tensors)]
    kept = detail(times, inside, width) if len(times) else np.empty(0, np.int64)
    x = times[kept].tolist()
    lines = {"flow_used_bytes": ("kernel", inside[0][kept].tolist())}
    if (levels.used != levels.tensors).any():
        lines["flow_sum_bytes"] = ("memcpy", inside[1][kept].tolist())
    if x and x[-1] < part.end_ns:
        x.append(part.end_ns)
        for _, values in lines.values():
            values.append(values[-1])
    drawn = [Line(METRICS.metric(key), color, values) for key, (color, values) in lines.items()]
    return Series("curve", "Memory in use", "", METRICS.metric("flow_time_ns"), x, drawn, "lines")
