"""Arrows for dispatches, tensors and launches."""

from __future__ import annotations

import numpy as np

from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.lib.arrays import Bool, Int32
from tb_plugin.model.trace.schema import MISSING
from torch_trace_megengine.timeline import lanes as of_lanes
from torch_trace_megengine.timeline.events import START, STEP, Events
from torch_trace_megengine.timeline.lanes import Lanes, ends_of
from torch_trace_megengine.timeline.slices import Slices

# category of arrows -> name
DEPENDENCIES = {of_lanes.DISPATCH: "dispatch", of_lanes.TENSOR: "tensor", of_lanes.PROPERTY: "value"}


def operations_around(slices: Slices, inner: Bool) -> Int32:
    """Returns the slice that is meant by arrows of each slice: for ``inner`` (inputs, outputs) the operator around it."""
    own = np.arange(len(slices), dtype=np.int32)
    return np.where(inner & (slices.parent != MISSING), slices.parent, own).astype(np.int32)


def dependencies(
    events: Events, slices: Slices, lanes: Lanes, meant: Int32, interner: Interner
) -> tuple[Int32, Int32, Int32, int]:
    """Returns starts, ends and names of host arrows, and unmatched ends. A start leads to all later events of its id."""
    tails, heads, names, unmatched = [], [], [], 0
    process = lanes.pid[lanes.of]
    for category, name in DEPENDENCIES.items():
        at, owner = ends_of(events, slices, lanes, events.category == interner.names[category])
        order = np.lexsort((at, events.time_ns[at], events.number[at], process[at]))
        at, owner = at[order], owner[order]
        begins = events.phase[at] == START
        new = np.ones(len(at), np.bool_)
        new[1:] = (np.diff(events.number[at]) != 0) | (np.diff(process[at]) != 0)
        place = np.arange(len(at))
        source = np.maximum.accumulate(np.where(begins, place, MISSING)) if len(at) else place
        first = np.maximum.accumulate(np.where(new, place, 0)) if len(at) else place
        known = ~begins & (source >= first)
        is_complete = known & (owner != MISSING) & (owner[source] != MISSING)
        unmatched += int((~begins & ~is_complete).sum())
        tail, head = meant[owner[source[is_complete]]], meant[owner[is_complete]]
        pairs = np.unique(np.stack((tail, head)), axis=1)[:, :] if len(tail) else np.empty((2, 0), np.int32)
        pairs = pairs[:, pairs[0] != pairs[1]]
        tails.append(pairs[0].astype(np.int32))
        heads.append(pairs[1].astype(np.int32))
        names.append(np.full(pairs.shape[1], interner.text(name), np.int32))
    return np.concatenate(tails), np.concatenate(heads), np.concatenate(names), unmatched


def launches(
    events: Events, slices: Slices, lanes: Lanes, interner: Interner, annotations: Bool
) -> tuple[Int32, Int32]:
    """Returns the operator slices and device slices of matched launches of ``annotations``."""
    at, owner = ends_of(events, slices, lanes, events.category == interner.names[of_lanes.LAUNCH])
    process = lanes.pid[lanes.of]
    known = owner != MISSING
    at, owner = at[known], owner[known]
    order = np.lexsort((events.phase[at], events.number[at], process[at]))
    at, owner = at[order], owner[order]
    begins = events.phase[at] <= STEP
    matched = np.zeros(len(at), np.bool_)
    matched[1:] = begins[:-1] & ~begins[1:] & (np.diff(events.number[at]) == 0) & (np.diff(process[at]) == 0)
    head = np.flatnonzero(matched)
    head = head[annotations[owner[head]]]
    return owner[head - 1], owner[head]
