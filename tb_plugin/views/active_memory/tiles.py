"""Tiles of the active-memory timeline.

Each column of a tile shows one memory state and the blocks that are live in this state.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.snapshot.categories import categories_of_blocks
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, devices_of, levels_of
from tb_plugin.analysis.snapshot.labels import stack_words, texts_of
from tb_plugin.analysis.snapshot.modules import modules_of_stacks
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.snapshot.table import NEVER, Snapshot
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Bands, BandsEnvelope
from tb_plugin.views.active_memory.layers import Layer, has_private_pools, layer_of

COLUMNS = 512
# Default detail: blocks of at least peak / 2**DETAIL bytes are listed.
DETAIL = 11
# Maximum number of blocks per tile. Those with the largest area are listed.
MOST = 20_000
# Maximum number of blocks per tile at the default detail. A browser draws three such tiles within a frame.
USUAL = 10_000


class Axis(msgspec.Struct, frozen=True):
    """The x axis: numbers of memory states (0 = before the first event), or nanoseconds."""

    device: DeviceLevels
    by_time: bool

    @property
    def extent(self) -> int:
        if not self.by_time:
            return self.device.count + 1
        return int(self.device.time_ns[-1]) + 1 if self.device.count else 1

    @property
    def levels(self) -> int:
        """Returns the number of zoom levels. On the last level, one tile covers the whole axis."""
        return max(0, (self.extent - 1) // COLUMNS).bit_length() + 1

    def tiles(self, level: int) -> int:
        return (self.extent - 1) // (COLUMNS << level) + 1

    def bounds(self, level: int, tile: int) -> Int64:
        count = min(COLUMNS, max(0, -(-self.extent // (1 << level)) - tile * COLUMNS))
        edges: Int64 = (np.arange(count + 1) + tile * COLUMNS) << level
        if not self.by_time:
            return np.minimum(edges, self.extent)
        states = np.searchsorted(self.device.time_ns, edges, side="left") + 1
        if not tile:
            states[:1] = 0  # memory older than the first event is in the first column
        return states


def samples_of(active: Int64, bounds: Int64) -> Int64:
    """Returns the state of each column: the first with the most active bytes, else that of the previous column."""
    pairs = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    return np.array(
        [low + int(active[low:high].argmax()) if high > low else max(low - 1, 0) for low, high in pairs], np.int64
    )


def tile_of(device: DeviceLevels, axis: Axis, level: int, tile: int, detail: int | None, kind: str = "") -> Bands:
    """Returns one tile of a layer, with blocks of at least ``peak / 2**detail`` bytes, or all if ``detail`` is None."""
    layer = layer_of(device, kind)
    states = samples_of(layer.height, axis.bounds(level, tile))
    peak = _peak(device.snapshot, device.place, kind)
    most = int(layer.height[peak])
    least, listed_most = (0, MOST) if detail is None else (most >> detail, min(MOST, _listed(detail)))
    rows, first, end, hidden = _blocks(layer, states - 1, least, listed_most)
    size, begin, freed = layer.size[rows], layer.begin[rows], layer.freed[rows]
    envelope = np.full(len(rows), MISSING) if layer.envelope is None else layer.envelope[rows]
    envelopes = [BandsEnvelope(one.name, one.at(states).tolist()) for one in layer.envelopes]
    on_top = envelope == MISSING
    rest = _rest(layer, states, first[on_top], end[on_top], size[on_top])
    stacks, stack = np.unique(layer.stack[rows], return_inverse=True)
    codes, category_names = _categories(device, rows, kind)
    named, category = np.unique(codes, return_inverse=True)
    lines, modules = (
        texts_of(texts, stacks).to_pylist()
        for texts in (stack_words(device.snapshot).line, modules_of_stacks(device.snapshot))
    )
    names = [category_names[code] if code >= 0 else None for code in named.tolist()]
    levels = levels_of(device)
    totals = (levels.reserved if kind == "segments" else levels.active)[states]
    times = np.append(device.time_ns[:1], device.time_ns) if device.count else np.zeros(1, np.int64)
    ended = freed != NEVER
    timed = ended & (begin != MISSING) & device.snapshot.has_times
    life = times[np.where(ended, freed, -1) + 1] - times[begin + 1]
    return Bands(
        name="bands",
        title="Active memory",
        level=level,
        levels=axis.levels,
        tile=tile,
        width=1 << level,
        extent=axis.extent,
        has_times=device.snapshot.has_times,
        peak_bytes=most,
        peak_event=peak - 1,
        event=(states - 1).tolist(),
        time_ns=times[states].tolist(),
        active_bytes=totals.tolist(),
        rest_bytes=rest.tolist(),
        block=rows.tolist(),
        first=first.tolist(),
        end=end.tolist(),
        size_bytes=size.tolist(),
        begin=begin.tolist(),
        freed=np.where(ended, freed, MISSING).tolist(),
        life_ns=np.where(timed, life, MISSING).tolist(),
        stack=stack.tolist(),
        category=category.tolist(),
        stack_number=stacks.tolist(),
        lines=[line or "" for line in lines],
        modules=[module or "" for module in modules],
        categories=[name or "" for name in names],
        hidden=hidden,
        has_private_pools=has_private_pools(device),
        envelopes=envelopes,
        envelope=envelope.tolist() if envelopes else [],
    )


def _rest(layer: Layer, states: Int64, first: Int64, end: Int64, size: Int64) -> Int64:
    change = np.zeros(len(states) + 1, np.int64)
    np.add.at(change, first, size)
    np.subtract.at(change, end, size)
    rest: Int64 = layer.height[states] - np.cumsum(change)[:-1]
    return rest - sum((one.at(states) for one in layer.envelopes), np.zeros(len(states), np.int64))


def _categories(device: DeviceLevels, rows: Int64, kind: str) -> tuple[npt.NDArray[np.integer], tuple[str, ...]]:
    found = categories_of_blocks(device)
    if kind == "segments" or not found.has_any:
        return np.full(len(rows), MISSING), ()
    return found.of[rows], found.names


def _listed(detail: int) -> int:
    """Returns the maximum number of blocks in a tile. It doubles when the minimum size drops to a quarter."""
    return USUAL << max(0, (detail - DETAIL) // 2)


def _blocks(layer: Layer, events: Int64, least: int, most: int) -> tuple[Int64, Int64, Int64, int]:
    none = np.empty(0, np.int64)
    if not len(events):
        return none, none, none, 0
    begin, end = layer.begin, layer.end
    # Rows are sorted by start, so later rows have not started yet.
    began = int(np.searchsorted(begin, events[-1], side="right"))
    near = np.flatnonzero(end[:began] > events[0])
    first, last = _columns(events, begin[near]), _columns(events, end[near])
    visible = np.flatnonzero(first < last)
    size = layer.size[near[visible]]
    kept = np.flatnonzero(size >= least)
    if len(kept) > most:
        area = size[kept] * (last - first)[visible[kept]]
        kept = np.sort(kept[np.argpartition(-area, most)[:most]])
    chosen = visible[kept]
    return near[chosen], first[chosen].astype(np.int64), last[chosen].astype(np.int64), len(visible) - len(kept)


def _columns(events: Int64, moments: Int64) -> npt.NDArray[np.int32]:
    low, high = int(events[0]), int(events[-1]) + 1
    counts = np.concatenate(([1], np.diff(events), [1]))
    table = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    found: npt.NDArray[np.int32] = table[np.clip(moments, low, high) - low]
    return found


@cached_by_argument
def _peak(snapshot: Snapshot, place: int, kind: str) -> int:
    devices = devices_of(snapshot)
    return int(layer_of(devices[place], kind).height.argmax()) if devices else 0
