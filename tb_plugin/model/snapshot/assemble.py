"""Assembly of snapshots from reader output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tb_plugin.lib.arrays import Int64
from tb_plugin.model.snapshot.block_lives import Final, Lives, lives_in_snapshot
from tb_plugin.model.snapshot.reserved import Ranges, fixed_ranges, mapped_ranges
from tb_plugin.model.snapshot.table import (
    HOST,
    NEVER,
    Action,
    Annotations,
    Blocks,
    Events,
    FinalSegments,
    Oddities,
    RawSnapshot,
    Segments,
    Snapshot,
    State,
)
from tb_plugin.model.trace.schema import MISSING, taken

T = TypeVar("T", bound=msgspec.Struct)


def assemble(raw: RawSnapshot) -> Snapshot:
    events = raw.events
    order = (
        np.argsort(_last_host(events.device), kind="stable") if (np.diff(_last_host(events.device)) < 0).any() else None
    )
    if order is not None:
        events = taken(events, order)
    present = np.unique(_last_host(np.concatenate((events.device, raw.segments.device)))).tolist()
    devices = [HOST if device == _HOST_LAST else int(device) for device in present]
    bounds = np.searchsorted(_last_host(events.device), _last_host(np.array(devices, np.int16)))
    first = np.append(bounds, len(events.device)).astype(np.int64)
    events, first = _without_marks(events, first)
    known = events.time_ns[events.time_ns != MISSING]
    origin = int(known.min()) if len(known) else 0
    parts = [_device(raw, events, device, slice(*first[i : i + 2])) for i, device in enumerate(devices)]
    return Snapshot(
        events=_with_times(events, first, origin),
        first=first,
        blocks=_concatenated(Blocks, [blocks for blocks, _, _ in parts]),
        segments=_concatenated(Segments, [segments for _, segments, _ in parts]),
        stacks=raw.stacks,
        annotations=_since(raw.annotations, origin),
        strings=raw.strings,
        streams=raw.streams,
        pools=raw.pools,
        device_ids=tuple(devices),
        settings=raw.settings,
        report=raw.report,
        recorder=raw.recorder,
        device_type=raw.device_type,
        has_history=bool(len(events.device)),
        origin_ns=origin,
        has_times=bool(len(known)),
        oddities=tuple(oddities for _, _, oddities in parts),
        overflowed=raw.overflowed,
        max_entries=raw.max_entries,
    )


# Marks of snapshots and user annotations. They do not change memory.
_MARKS = (Action.SNAPSHOT, Action.ANNOTATE)


def _without_marks(events: Events, first: Int64) -> tuple[Events, Int64]:
    empty = [i for i in range(len(first) - 1) if np.isin(events.action[first[i] : first[i + 1]], _MARKS).all()]
    count = np.diff(first)
    if not count[empty].any():
        return events, first
    kept = np.ones(len(events.device), np.bool_)
    for i in empty:
        kept[first[i] : first[i + 1]] = False
    count[empty] = 0
    return taken(events, kept), np.concatenate((np.zeros(1, np.int64), np.cumsum(count)))


_HOST_LAST = 2**15 - 1


def _last_host(device: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
    return np.where(device == HOST, np.int16(_HOST_LAST), device)


def _concatenated(kind: type[T], parts: Sequence[dict[str, npt.NDArray[Any]]]) -> T:
    types = {
        "address": np.int64,
        "size": np.int64,
        "requested": np.int64,
        "is_large": np.int8,
        "is_expandable": np.int8,
    }
    types |= dict.fromkeys(("device", "stream", "pool"), np.int16)
    made = {}
    for f in kind.__struct_fields__:
        dtype = types.get(f, np.int32)
        made[f] = np.concatenate([np.empty(0, dtype), *(part[f].astype(dtype) for part in parts)])
    return kind(**made)


def _with_times(events: Events, first: Int64, origin: int) -> Events:
    time = events.time_ns - origin
    time[events.time_ns == MISSING] = 0
    for i in range(len(first) - 1):
        part = slice(first[i], first[i + 1])
        np.maximum.accumulate(time[part], out=time[part])
    return replace(events, time_ns=time)


def _since(annotations: Annotations, origin: int) -> Annotations:
    return Annotations(annotations.device, annotations.name, annotations.is_start, annotations.time_ns - origin)


def _device(
    raw: RawSnapshot, events: Events, device: int, rows: slice
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, npt.NDArray[Any]], Oddities]:
    mine = taken(events, rows)
    segments = np.flatnonzero(raw.segments.device == device)
    blocks = raw.blocks
    used = np.flatnonzero((blocks.state != State.INACTIVE) & (raw.segments.device[blocks.segment] == device))
    # Blocks without an address cannot be matched with events. Without a history, keep them anyway.
    used = used[(blocks.address[used] != MISSING) | (len(mine.action) == 0)]
    final = Final(used, blocks.address[used], blocks.state[used]) if len(segments) else None
    lives = lives_in_snapshot(mine.action, mine.address, final)
    ranges, odd = _ranges(mine, taken(raw.segments, segments))
    oddities = Oddities(lives.unmatched_releases, lives.unreleased_reuse, lives.lost, odd)
    return _blocks(raw, mine, device, lives), _segments(raw, mine, device, ranges, segments), oddities


def _ranges(events: Events, final: FinalSegments) -> tuple[Ranges, int]:
    expandable = final.is_expandable == 1
    found, odd = [], 0
    for derive, chosen in ((fixed_ranges, ~expandable), (mapped_ranges, expandable)):
        rows = np.flatnonzero(chosen)
        ranges, unfit = derive(events.action, events.address, events.size, final.address[rows], final.size[rows])
        back = _values_at(rows, ranges.final)
        found.append(Ranges(ranges.address, ranges.size, ranges.begin, ranges.end, ranges.event, back))
        odd += unfit
    return Ranges(*(np.concatenate([getattr(part, f) for part in found]) for f in Ranges.__struct_fields__)), odd


def _or(
    of_event: npt.NDArray[Any], event: npt.NDArray[Any], of_final: npt.NDArray[Any], final: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    stated = _values_at(of_event, event)
    missing = np.flatnonzero(stated == MISSING)
    stated[missing] = _values_at(of_final, final[missing])
    return stated


def _values_at(values: npt.NDArray[Any], at: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if not len(values):
        return np.full(len(at), MISSING, np.int64)
    found: npt.NDArray[Any] = values[at]
    found[at == MISSING] = MISSING
    return found


# Allocator blocks are multiples of this many bytes. Files with other sizes record requested sizes.
ROUNDED = 512


def _blocks(raw: RawSnapshot, events: Events, device: int, lives: Lives) -> dict[str, npt.NDArray[Any]]:
    final = raw.blocks
    address = _or(events.address, lives.event, final.address, lives.final)
    order = np.lexsort((address, lives.begin))
    event, left = lives.event[order], lives.final[order]
    segment = _values_at(final.segment, left)
    none = np.empty(0, np.int32)
    no_event = np.full(len(event), MISSING)
    # Context and metadata of a release event describe the releasing code, so only allocation events are used.
    allocation = np.where(lives.begin[order] == MISSING, MISSING, event)
    event_size, final_size = _values_at(events.size, event), _values_at(final.size, left)
    size, requested = (
        np.where(final_size == MISSING, event_size, final_size),
        _or(none, no_event, final.requested, left),
    )
    known = final_size[final_size != MISSING]
    # Host profiles that PyTorch converted have neither rounded block sizes nor allocator settings.
    rounds = not (known % ROUNDED).any() if len(known) else bool(raw.settings)
    # Events contain requested sizes if a size is not rounded, or differs from the block's size in the final state.
    differs = (event_size != MISSING) & (final_size != MISSING) & (event_size != final_size)
    has_requested_sizes = differs.any() or (events.size[events.action == Action.ALLOC] % ROUNDED).any()
    if device != HOST and rounds and has_requested_sizes:
        requested = np.where(event_size == MISSING, requested, event_size)
        size = np.where(final_size == MISSING, -(-event_size // ROUNDED) * ROUNDED, final_size)
    return {
        "device": np.full(len(event), device),
        "address": address[order],
        "size": size,
        "requested": requested,
        "stream": _or(events.stream, event, raw.segments.stream, segment),
        "pool": _or(events.pool, event, raw.segments.pool, segment),
        "stack": _or(events.stack, event if _repeats_stacks(raw, events, lives) else allocation, final.stack, left),
        "begin": lives.begin[order],
        "freed": lives.freed[order],
        "end": lives.end[order],
        "category": _or(events.category, event, none, no_event),
        "context": _or(events.context, allocation, none, no_event),
        "metadata": _or(events.metadata, allocation, none, no_event),
    }


def _repeats_stacks(raw: RawSnapshot, events: Events, lives: Lives) -> bool:
    """Returns whether release events repeat the stack of the allocation, as PyTorch does without ``context="all"``."""
    recorded = (lives.event != MISSING) & (lives.begin == lives.event)
    whole = np.flatnonzero(recorded & (lives.freed != NEVER) & (lives.freed != MISSING))
    begin, freed = lives.begin[whole], lives.freed[whole]
    released = np.isin(events.action[freed], (Action.FREE_REQUESTED, Action.FREE_COMPLETED))
    of_block, of_release = events.stack[begin[released]], events.stack[freed[released]]
    stated = np.append(np.diff(raw.stacks.first) > 0, False)[of_release]
    return bool(stated.any() and (of_block == of_release)[stated].all())


def _segments(
    raw: RawSnapshot, events: Events, device: int, ranges: Ranges, rows: Int64
) -> dict[str, npt.NDArray[Any]]:
    order = np.lexsort((ranges.address, ranges.begin))
    event, left = ranges.event[order], ranges.final[order]
    left = _values_at(rows, left)
    final = raw.segments
    nobody, none = np.full(len(order), MISSING), np.empty(0, np.int8)
    # Ranges that were unmapped later are expandable too, although the final state does not contain them.
    mapped = np.isin(_values_at(events.action, event), (Action.SEGMENT_MAP, Action.SEGMENT_UNMAP))
    return {
        "device": np.full(len(order), device),
        "address": ranges.address[order],
        "size": ranges.size[order],
        "stream": _or(events.stream, event, final.stream, left),
        "pool": _or(events.pool, event, final.pool, left),
        "stack": _or(events.stack, event, final.stack, left),
        "is_large": _or(none, nobody, final.is_large, left),
        "is_expandable": np.where(mapped, 1, _or(none, nobody, final.is_expandable, left)),
        "begin": ranges.begin[order],
        "end": ranges.end[order],
    }
