"""Active memory over the history of a snapshot."""

from __future__ import annotations

from tb_plugin.analysis.base import Params, Part, int_param
from tb_plugin.analysis.snapshot.curve import WIDTH, curve_of
from tb_plugin.analysis.snapshot.device_levels import SPAN, DeviceLevels, levels_of, levels_of_device, span_of
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.errors import BadRequest
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.payloads import CoverageInfo, Payload
from tb_plugin.views.active_memory import VIEW
from tb_plugin.views.active_memory.block import block_of, segment_of
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
