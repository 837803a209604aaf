"""Event arguments since PyTorch 2.14."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import asdict, replace

from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.formats.kineto.rows import Core
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.lib.groupby import number_groups, side_by_side
from tb_plugin.model.trace.extra_columns import REGIONS, OpenColumn
from tb_plugin.model.trace.graph_regions import listed_regions
from tb_plugin.model.trace.schema import MISSING, ON_DEVICE, of_kind
from tb_plugin.model.trace.table import ArrowEnds, DeviceArgs, Flows

HARDWARE_STREAM = "original_stream"  # in CUDA graphs, where ``stream`` is the lane
COPY_KIND, SOURCE_KIND, TARGET_KIND = (
    "copy kind",
    "src kind",
    "dst kind",
)  # for copies without a direction in their name
DEPENDENCY = "graph dependency"  # name of arrows between graph nodes; in the file they have the same name as launches
BOUND = "bind_id"  # name of arrows between events of one ``bind_id``
FIRST_DEPENDENCY = 2**40  # ids of launches are 32-bit correlation ids
_NEAR_NS = 2  # both ends are rounded separately


def complete_arguments(args: DeviceArgs, others: Sequence[OpenColumn], rows: int, interner: Interner) -> DeviceArgs:
    """Replaces lanes by hardware streams in the device arguments, and adds copy directions."""
    stated = {column.key: _texts(column, rows, interner) for column in others if column.key in _KEYS}
    if not stated or not len(args.row):
        return args
    none = np.full(rows, MISSING, np.int32)
    hardware, kind, source, target = (stated.get(key, none)[args.row] for key in _KEYS)
    copies = np.flatnonzero((kind != MISSING) & (args.direction == MISSING))
    direction = args.direction.copy()
    which, inverse = np.unique(np.stack((kind[copies], source[copies], target[copies])), axis=1, return_inverse=True)
    ids = [interner.text(_direction(*(interner.texts[i] if i != MISSING else "" for i in each))) for each in which.T]
    direction[copies] = np.array(ids, np.int32)[inverse.ravel()] if len(copies) else MISSING
    return replace(args, stream=np.where(hardware == MISSING, args.stream, hardware), direction=direction)


_KEYS = (HARDWARE_STREAM, COPY_KIND, SOURCE_KIND, TARGET_KIND)


def _texts(column: OpenColumn, rows: int, interner: Interner) -> Int32:
    ids = np.full(rows, MISSING, np.int32)
    if column.is_text:
        ids[column.row] = column.value
    elif column.value.dtype.kind == "i":
        which, inverse = np.unique(column.value, return_inverse=True)
        ids[column.row] = np.array([interner.text(str(value)) for value in which.tolist()], np.int32)[inverse.ravel()]
    return ids


def _direction(kind: str, source: str, target: str) -> str:
    """Returns a copy direction in the form used in copy names: ``HtoD (Pageable -> Device)``."""
    if not source and not target:
        return kind
    return f"{kind} ({(source or 'unknown').capitalize()} -> {(target or 'unknown').capitalize()})"


def dependencies(found: Flows, core: Core, interner: Interner) -> ArrowEnds:
    """Returns arrows between CUDA graph nodes, moved from the end of a node to its start."""
    if not len(found.start_time_ns):
        return ArrowEnds()
    nodes = np.flatnonzero(of_kind(core.kind, *ON_DEVICE))
    begin, end = core.start_ns[nodes], core.start_ns[nodes] + core.dur_ns[nodes]
    lanes = np.concatenate((_lane(core.pid[nodes], core.tid[nodes]), _lane(found.start_pid, found.start_tid)))
    number = number_groups(lanes)[0]
    lane, wanted = number[: len(nodes)], number[len(nodes) :]
    ends, starts = side_by_side((lane.astype(np.int32), end), (wanted.astype(np.int32), found.start_time_ns))
    order = np.lexsort((begin, ends))
    node = _nearest(ends[order], starts, order)
    # A node without duration may end at the same time as the node before it. An arrow must not end where it starts.
    same = (begin[node] == found.end_time_ns) & (lanes[: len(nodes)][node] == _lane(found.end_pid, found.end_tid))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    node = np.where(same, order[np.maximum(place[node] - 1, 0)], node)
    fits = (lane[node] == wanted) & (np.abs(end[node] - found.start_time_ns) <= _NEAR_NS)
    started = replace(found, start_time_ns=np.where(fits, begin[node], found.start_time_ns))
    return _named_arrows(started, DEPENDENCY, interner)


def bound_arrows(found: Flows, interner: Interner) -> ArrowEnds:
    """Returns arrows between events with the same ``bind_id``, from start to start."""
    return _named_arrows(found, BOUND, interner) if len(found.start_time_ns) else ArrowEnds()


def _named_arrows(found: Flows, name: str, interner: Interner) -> ArrowEnds:
    count = len(found.start_time_ns)
    return ArrowEnds(np.full(count, interner.text(name), np.int32), **asdict(found), to_next=np.zeros(count, np.bool_))


def concatenate_arrows(*ends: ArrowEnds) -> ArrowEnds:
    return ArrowEnds(*(np.concatenate([getattr(each, f) for each in ends]) for f in ArrowEnds.__struct_fields__))


def _lane(pid: Int32, tid: Int32) -> Int64:
    return (pid.astype(np.int64) << 32) | tid


def _nearest(ends: Int64, starts: Int64, order: Int64) -> Int64:
    """Returns the last node that ends at each arrow start, or nearest to it. ``order``: node of each sorted end."""
    after = np.searchsorted(ends, starts + _NEAR_NS, side="right") - 1
    exact = np.searchsorted(ends, starts, side="right") - 1
    chosen = np.where((exact >= 0) & (ends[np.maximum(exact, 0)] == starts), exact, after)
    found: Int64 = order[np.maximum(chosen, 0)]
    return found


def intern_regions(others: Sequence[OpenColumn], interner: Interner) -> None:
    """Interns the region names in arguments of replayed work, because later stages need the ids of these names."""
    for column in others:
        if column.key == REGIONS and column.is_text:
            for text in np.unique(column.value).tolist():
                listed = interner.texts[text]
                for name, _ in listed_regions(listed) if listed.startswith("[") else ():
                    interner.text(name)
