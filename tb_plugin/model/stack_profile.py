"""Merged call stacks and their values, such as time or bytes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import msgspec
import numpy as np
import pyarrow as pa

from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.lib.groupby import group
from tb_plugin.model.trace.graph_capture import Captured, NodeStacks, scopes_of_kind
from tb_plugin.model.trace.report import ReadReport
from tb_plugin.model.trace.schema import MISSING, EventKind, no_rows

# Unit of the values: time, memory, number of samples, graph nodes, or unknown.
Counted = Literal["ns", "bytes", "samples", "nodes", "value"]
# Maximum depth. Values of deeper frames are attributed to the last frame within the limit.
MAX_DEPTH = 10_000


class Places(msgspec.Struct, frozen=True, eq=False):
    """Nodes of the merged stacks of each thread, parents first. ``own`` does not include the values of child nodes."""

    label: Int32
    parent: Int32
    thread: Int32
    own: Int64


class StackProfile(msgspec.Struct, frozen=True, eq=False, dict=True, weakref=True):
    names: pa.Array
    places: Places
    threads: tuple[str, ...]
    stacks: int
    counted: Counted
    what: str
    """Quantity that the values measure, according to the content or the name of the file; empty if unknown."""
    report: ReadReport
    node: Int64 = no_rows(np.int64)
    """Ids of the CUDA graph nodes that have stacks in this profile, ascending; may be empty."""
    node_place: Int32 = no_rows(np.int32)
    """For each CUDA graph node, the index in ``Places`` of its innermost frame."""

    def __len__(self) -> int:
        return len(self.places.label)


def places_of_stacks(frame: Int64, first: Int64, thread: Int64, value: Int64) -> Places:
    """Merges stacks: the frames of stack i, outermost first, start at ``frame[first[i]]``."""
    length = np.minimum(np.diff(first), MAX_DEPTH)
    builder = _Builder()
    node = thread.astype(np.int64)
    stacks, depth = np.flatnonzero(length > 0), 0
    while len(stacks):
        node[stacks] = builder.level(node[stacks], frame[first[stacks] + depth], thread[stacks])
        depth += 1
        stacks = stacks[length[stacks] > depth]
    some = length > 0
    return builder.build(node[some], value[some])


def places_of_calls(frame: Int64, parent: Int64, level: Int64, own: Int64, thread: int) -> Places:
    """Returns the merged stacks of one thread's calls. A top-level call has level 1 and parent -1."""
    builder = _Builder()
    node = np.full(len(frame) + 1, thread, np.int64)  # the last entry is for index -1
    order = np.argsort(level, kind="stable")
    bounds = np.searchsorted(level[order], np.arange(1, level.max(initial=0) + 2))
    for begin, end in pairwise(bounds.tolist()):
        rows = order[begin:end]
        node[rows] = builder.level(node[parent[rows]], frame[rows], np.full(len(rows), thread))
    return builder.build(node[:-1], own)


def concatenate_places(parts: Sequence[Places]) -> Places:
    if not parts:
        return _Builder().build(np.zeros(0, np.int64), np.zeros(0, np.int64))
    begin = np.cumsum([0, *(len(part.label) for part in parts)])
    parents = [np.where(part.parent < 0, MISSING, part.parent + at) for part, at in zip(parts, begin[:-1], strict=True)]
    return Places(
        np.concatenate([part.label for part in parts]),
        np.concatenate(parents).astype(np.int32),
        np.concatenate([part.thread for part in parts]),
        np.concatenate([part.own for part in parts]),
    )


class _Builder:
    """Builds merged stacks level by level. Frames that have the same name and the same parent become one node."""

    def __init__(self) -> None:
        self._label: list[Int64] = []
        self._parent: list[Int64] = []
        self._thread: list[Int64] = []
        self._made = 0

    def level(self, above: Int64, frame: Int64, thread: Int64) -> Int64:
        """Returns the node of each frame. ``above``: its parent, a node or, on the first level, a thread."""
        places = group(above, frame)
        first = places.first
        self._label.append(frame[first])
        self._parent.append(above[first] if self._made else np.full(len(first), MISSING))
        self._thread.append(thread[first])
        self._made += len(first)
        return places.of + (self._made - len(first))

    def build(self, node: Int64, value: Int64) -> Places:
        own = np.zeros(self._made, np.int64)
        np.add.at(own, node, value)
        none = [np.zeros(0, np.int64)]
        label, parent, thread = (
            np.concatenate(each or none).astype(np.int32) for each in (self._label, self._parent, self._thread)
        )
        return Places(label, parent, thread, own)


def captured_by_node(profile: StackProfile) -> Captured:
    """Returns the calls around the launch of each graph node. String ids are indices into the profile's names."""
    places = profile.places
    scopes = scopes_of_kind(EventKind.PYTHON, places.label, places.parent)
    return Captured(stacks=NodeStacks(profile.node, profile.node_place, scopes) if len(profile.node) else NodeStacks())
