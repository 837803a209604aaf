"""Active memory over the history of a snapshot."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.base import Params, Part, int_param
from tb_plugin.analysis.snapshot.categories import categories_of_blocks
from tb_plugin.analysis.snapshot.curve import WIDTH, curve_of
from tb_plugin.analysis.snapshot.device_levels import SPAN, DeviceLevels, levels_of, levels_of_device, span_of
from tb_plugin.analysis.snapshot.labels import address_texts, pool_texts, stack_words, stream_texts, texts_of
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.analysis.snapshot.modules import modules_of_stacks
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.errors import BadRequest
from tb_plugin.model.snapshot.table import NEVER, Snapshot
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import CoverageInfo, Figures, Payload, Scalar
from tb_plugin.views.active_memory import VIEW
from tb_plugin.views.active_memory.layers import LAYERS
from tb_plugin.views.active_memory.tiles import DETAIL, Axis, tile_of

FINEST = 40


class ActiveMemory(DeclaredView, entry=VIEW):
    own = ("device", "axis", *SPAN, "width", "level", "tile", "detail", "layer", "block", "segment")

    def part(self, snapshot: Snapshot, params: Params) -> Part:
        device = levels_of_device(snapshot, params)
        payloads = _payloads(device, params)
        return Part(CoverageInfo(complete=snapshot.report.complete), payloads=payloads, layout=tuple(payloads))


def _payloads(device: DeviceLevels, params: Params) -> dict[str, Payload]:
    by_time = params.get("axis") == "time" and device.snapshot.has_times
    for kind, column, told in (("block", device.block, block_of), ("segment", device.segment, segment_of)):
        row = int_param(params, kind)
        if row is not None:
            if not 0 <= row < len(column("size")):
                raise BadRequest(
                    f"{device.name} has no {kind} {row}.", kind, f"It has {len(column('size')):,} in total."
                )
            return {kind: told(device, row)}
    tile = int_param(params, "tile")
    if tile is not None:
        layer = params.get("layer") or ""
        if layer not in LAYERS:
            raise BadRequest(f"layer cannot be {layer[:40]}.", "layer", f"Choose one of {', '.join(LAYERS[1:])}.")
        return {"bands": tile_of(device, *_tile(Axis(device, by_time), tile, params), detail_of(params), layer)}
    if not device.count:
        return {}
    width = min(max(int_param(params, "width") or WIDTH, 50), 5000)
    return {"curve": curve_of(device, levels_of(device), span_of(device, params), width, by_time)}


def _tile(axis: Axis, tile: int, params: Params) -> tuple[Axis, int, int]:
    requested = int_param(params, "level")
    level = axis.levels - 1 if requested is None else requested
    if not 0 <= level < axis.levels:
        raise BadRequest(f"There is no level {level}.", "level", f"The last level is {axis.levels - 1}.")
    last = axis.tiles(level) - 1
    if not 0 <= tile <= last:
        raise BadRequest(f"There is no tile {tile} on level {level}.", "tile", f"The last tile is {last}.")
    return axis, level, tile


def detail_of(params: Params) -> int | None:
    """Returns the parameter ``detail`` (see ``tile_of``). Raises BadRequest for an invalid value."""
    if params.get("detail") == "all":
        return None
    requested = int_param(params, "detail")
    if requested is not None and not 0 <= requested <= FINEST:
        raise BadRequest(f"detail must be all or a number from 0 to {FINEST}.", "detail", f"Got {requested}.")
    return DETAIL if requested is None else requested


Column = npt.NDArray[np.integer]


def block_of(device: DeviceLevels, row: int) -> Figures:
    strings = device.snapshot.strings
    column = {name: device.block(name)[row : row + 1] for name in ("address", "stream", "pool", "stack")}
    context, metadata = (strings.take(device.block(name)[row : row + 1])[0].as_py() for name in ("context", "metadata"))
    size, requested, begin, freed, end = (
        int(device.block(name)[row]) for name in ("size", "requested", "begin", "freed", "end")
    )
    values = {
        "block_size_bytes": size,
        "requested_bytes": None if requested == MISSING else requested,
        **_place(device, column),
        **_lifetime(device, begin, freed),
        "reusable_event": None if end == NEVER else end,
        "active_then_bytes": int(levels_of(device).active[begin + 1]),
        "block_module": texts_of(modules_of_stacks(device.snapshot), column["stack"])[0].as_py(),
        "memory_category": categories_of_blocks(device).texts(np.array([row]))[0].as_py(),
        "compile_context": context,
        "user_metadata": metadata,
        "block_row": row,
    }
    return Figures("block", "Block", device.name, METRICS.figures(values))


def segment_of(device: DeviceLevels, row: int) -> Figures:
    column = {name: device.segment(name)[row : row + 1] for name in ("address", "stream", "pool", "stack")}
    values = {
        "block_size_bytes": int(device.segment("size")[row]),
        **_place(device, column),
        **_lifetime(device, int(device.segment("begin")[row]), int(device.segment("end")[row])),
    }
    return Figures("segment", "Segment", device.name, METRICS.figures(values))


def _place(device: DeviceLevels, column: Mapping[str, Column]) -> dict[str, Scalar]:
    snapshot, words = device.snapshot, stack_words(device.snapshot)
    return {
        "allocation_line": texts_of(words.line, column["stack"])[0].as_py(),
        "stream_name": stream_texts(snapshot, column["stream"])[0].as_py(),
        "pool_name": pool_texts(snapshot, column["pool"])[0].as_py(),
        "address": address_texts(column["address"].astype(np.int64))[0].as_py(),
        "allocation_stack": texts_of(words.text, column["stack"])[0].as_py(),
    }


def _lifetime(device: DeviceLevels, begin: int, end: int) -> dict[str, Scalar]:

    def time_of(event: int) -> int | None:
        return int(device.time_ns[event]) if device.snapshot.has_times and event not in (MISSING, NEVER) else None

    begins, ends = time_of(begin), time_of(end)
    return {
        "begin_event": None if begin == MISSING else begin,
        "end_event": None if end == NEVER else end,
        "begin_ns": begins,
        "end_ns": ends,
        "life_ns": ends - begins if begins is not None and ends is not None else None,
    }
