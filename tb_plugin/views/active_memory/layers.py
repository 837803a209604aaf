"""Layers of the active-memory timeline: blocks, pools or segments."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, bytes_after_events, devices_of, levels_of
from tb_plugin.analysis.snapshot.labels import pool_texts, stream_texts
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.snapshot.table import NEVER, Snapshot
from tb_plugin.model.trace.schema import MISSING

LAYERS = ("", "pools", "segments")
# Private pools and streams with an envelope of their own, largest first; the others share one.
MOST_ENVELOPES = 16


class Envelope(msgspec.Struct, frozen=True, eq=False):
    """Running maximum of the memory that a private pool uses on one stream."""

    name: str
    state: Int64
    """States of the history at which the maximum grows, ascending."""
    height: Int64
    """Maximum in bytes that is valid from each of these states."""

    def at(self, states: Int64) -> Int64:
        place = np.searchsorted(self.state, states, side="right")
        found: Int64 = np.append(0, self.height)[place]
        return found


class Layer(msgspec.Struct, frozen=True, eq=False):
    """Bands to draw, one per block or segment, and the total height of all bands at every state."""

    begin: Int64
    freed: Int64
    """Event that requested the release. From this event until ``end``, the band is active but no longer allocated."""
    end: Int64
    size: Int64
    stack: Int64
    height: Int64
    """Total bytes of all bands and envelopes, one value per state."""
    envelopes: tuple[Envelope, ...] = ()
    envelope: Int64 | None = None
    """Index of the envelope that contains the band, one value per row; -1 = none."""


def layer_of(device: DeviceLevels, kind: str) -> Layer:
    """Returns the layer ``kind`` of a device. An empty ``kind`` selects the layer of blocks."""
    if kind == "segments":
        begin, end, size, stack = (device.segment(name) for name in ("begin", "end", "size", "stack"))
        return Layer(begin, end, end, size, stack, levels_of(device).reserved)
    begin, freed, end, size, stack = (device.block(name) for name in ("begin", "freed", "end", "size", "stack"))
    if kind == "pools" and has_private_pools(device):
        envelopes, of, height = _pooled(device.snapshot, device.place)
        return Layer(begin, freed, end, size, stack, height, envelopes, of)
    return Layer(begin, freed, end, size, stack, levels_of(device).active)


def has_private_pools(device: DeviceLevels) -> bool:
    private = _private(device.snapshot)
    return bool(private[device.segment("pool")].any() or private[device.block("pool")].any())


def _private(snapshot: Snapshot) -> npt.NDArray[np.bool_]:
    return np.array([*(pool != (0, 0) for pool in snapshot.pools), False])


@cached_by_argument
def _pooled(snapshot: Snapshot, place: int) -> tuple[tuple[Envelope, ...], Int64, Int64]:
    device = devices_of(snapshot)[place]
    private, streams = _private(snapshot), len(snapshot.streams) + 1
    pools = (_pools_of_blocks(device), device.segment("pool").astype(np.int64))
    keys = [
        np.where(private[pool], pool * streams + held_stream + 1, MISSING)
        for pool, held_stream in zip(pools, (device.block("stream"), device.segment("stream")), strict=True)
    ]
    found = np.unique(np.concatenate(keys))
    found = found[found != MISSING]
    parts = [_grown(device, *rows) for rows in zip(*(_rows_by(key, found) for key in keys), strict=True)]
    order = np.argsort([-int(height[-1]) if len(height) else 0 for _, height in parts], kind="stable")
    number = np.empty(len(found), np.int64)
    number[order] = np.minimum(np.arange(len(found)), MOST_ENVELOPES - 1)
    envelopes = []
    for one in range(min(len(found), MOST_ENVELOPES)):
        mine = np.flatnonzero(number == one).tolist()
        name = _name(snapshot, int(found[mine[0]]), streams) if len(mine) == 1 else f"{len(mine)} other private pools"
        envelopes.append(Envelope(name, *_summed([parts[i] for i in mine])))
    of = np.where(keys[0] == MISSING, MISSING, np.append(number, 0)[np.searchsorted(found, keys[0])])
    inside = np.flatnonzero(of != MISSING)
    begin, end, size = (device.block(name)[inside] for name in ("begin", "end", "size"))
    growth = np.zeros(device.count + 1, np.int64)
    for envelope in envelopes:
        growth[envelope.state] += np.diff(envelope.height, prepend=0)
    height = levels_of(device).active - bytes_after_events(device.count, begin, end, size) + np.cumsum(growth)
    return tuple(envelopes), of, height


def _rows_by(keys: Int64, found: Int64) -> list[Int64]:
    order = np.argsort(keys, kind="stable")
    bounds = np.searchsorted(keys[order], found).tolist()
    return [order[first:end] for first, end in pairwise([*bounds, len(order)])]


def _name(snapshot: Snapshot, key: int, streams: int) -> str:
    pool, stream = (np.array([number]) for number in (key // streams, key % streams - 1))
    return f"{pool_texts(snapshot, pool)[0].as_py()} pool, stream {stream_texts(snapshot, stream)[0].as_py() or '?'}"


def _pools_of_blocks(device: DeviceLevels) -> Int64:
    """Returns the pool of each block, if necessary that of the final segment at its address."""
    pool = device.block("pool").astype(np.int64)
    left = np.flatnonzero(device.segment("end") == NEVER)
    left = left[np.argsort(device.segment("address")[left], kind="stable")]
    unknown = np.flatnonzero(pool == MISSING)
    if not len(left) or not len(unknown):
        return pool
    at, size, begin, known = (device.segment(name)[left] for name in ("address", "size", "begin", "pool"))
    address = device.block("address")[unknown]
    near = np.maximum(np.searchsorted(at, address, side="right") - 1, 0)
    inside = (address >= at[near]) & (address < at[near] + size[near]) & (device.block("begin")[unknown] >= begin[near])
    pool[unknown[inside]] = known[near[inside]]
    return pool


def _grown(device: DeviceLevels, blocks: Int64, segments: Int64) -> tuple[Int64, Int64]:
    changes = []
    for rows, column in ((blocks, device.block), (segments, device.segment)):
        begin, end, size = (column(name)[rows].astype(np.int64) for name in ("begin", "end", "size"))
        over = np.flatnonzero((end != NEVER) & (end >= begin))
        changes.append((np.concatenate((begin, end[over])) + 1, np.concatenate((size, -size[over]))))
    states = np.unique(np.concatenate([at for at, _ in changes]))
    sums = np.zeros((2, len(states)), np.int64)
    for total, (at, change) in zip(sums, changes, strict=True):
        np.add.at(total, np.searchsorted(states, at), change)
    height = np.maximum.accumulate(np.cumsum(sums, axis=1).max(axis=0)) if len(states) else states
    grows = np.flatnonzero(np.diff(height, prepend=0))
    return states[grows], height[grows]


def _summed(parts: list[tuple[Int64, Int64]]) -> tuple[Int64, Int64]:
    states = np.unique(np.concatenate([state for state, _ in parts]))
    heights = [np.append(0, height)[np.searchsorted(state, states, side="right")] for state, height in parts]
    return states, np.sum(heights, axis=0)
