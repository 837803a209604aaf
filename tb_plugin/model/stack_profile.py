"""Merged stacks with values: paths of names from the outermost frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.lib.groupby import group
from tb_plugin.model.trace.graph_capture import Captured, NodeStacks, scopes_of_kind
from tb_plugin.model.trace.report import ReadReport
from tb_plugin.model.trace.schema import MISSING, EventKind, no_rows

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
# Unit of the values: time, memory, number of samples, graph nodes, or unknown.
Counted = Literal["ns", "bytes", "samples", "nodes", "value"]
# Frames kept per stack, outermost first; deeper ones count for the last of them.
MAX_DEPTH = 10_000


@dataclass(frozen=True, eq=False)
class Places:
    """Nodes of the merged stacks of each thread; parents come first. ``own`` excludes children."""

    label: Int32
    """Position of the frame name in the names."""
    parent: Int32
    thread: Int32
    own: Int64


@dataclass(frozen=True, eq=False)
class StackProfile:
    """Merged stacks and the meaning of their values."""

    names: pa.Array
    """Names of frames (large_string)."""
    places: Places
    threads: tuple[str, ...]
    stacks: int
    """Number of stacks in the file."""
    counted: Counted
    what: str
    """The counted quantity, from the file or its name; empty if unknown."""
    report: ReadReport
    node: Int64 = no_rows(np.int64)
    """Ids of graph nodes with these stacks, ascending; empty for other stacks."""
    node_place: Int32 = no_rows(np.int32)
    """The innermost place of each node."""

    def __len__(self) -> int:
        return len(self.places.label)


def places_of_stacks(frame: Int64, first: Int64, thread: Int64, value: Int64) -> Places:
    """Returns the places of stacks, given as concatenated frames, outermost first, and the start of each stack."""
    length = np.minimum(np.diff(first), MAX_DEPTH)
    builder = _Builder()
    node = thread.astype(np.int64)
    stacks, depth = np.flatnonzero(length > 0), 0
    while len(stacks):
        node[stacks] = builder.level(node[stacks], frame[first[stacks] + depth], thread[stacks])
        depth += 1
        stacks = stacks[length[stacks] > depth]
    some = length > 0
    return builder.made(node[some], value[some])


def places_of_calls(frame: Int64, parent: Int64, level: Int64, own: Int64, thread: int) -> Places:
    """Returns the places of calls of one thread; top-level calls have level 1 and the parent -1."""
    builder = _Builder()
    node = np.full(len(frame) + 1, thread, np.int64)  # the last one answers for -1
    order = np.argsort(level, kind="stable")
    bounds = np.searchsorted(level[order], np.arange(1, level.max(initial=0) + 2))
    for begin, end in pairwise(bounds.tolist()):
        rows = order[begin:end]
        node[rows] = builder.level(node[parent[rows]], frame[rows], np.full(len(rows), thread))
    return builder.made(node[:-1], own)


def concatenate_places(parts: Sequence[Places]) -> Places:
    """Returns the merged places of several threads."""
    if not parts:
        return _Builder().made(np.zeros(0, np.int64), np.zeros(0, np.int64))
    begin = np.cumsum([0, *(len(part.label) for part in parts)])
    parents = [np.where(part.parent < 0, MISSING, part.parent + at) for part, at in zip(parts, begin[:-1], strict=True)]
    return Places(
        np.concatenate([part.label for part in parts]),
        np.concatenate(parents).astype(np.int32),
        np.concatenate([part.thread for part in parts]),
        np.concatenate([part.own for part in parts]),
    )


class _Builder:
    """Builds places level by level: equal names under one place are merged."""

    def __init__(self) -> None:
        self._label: list[Int64] = []
        self._parent: list[Int64] = []
        self._thread: list[Int64] = []
        self._made = 0

    def level(self, above: Int64, frame: Int64, thread: Int64) -> Int64:
        """Returns the place of each frame; ``above`` are the parent places, at the first level the threads."""
        places = group(above, frame)
        first = places.first
        self._label.append(frame[first])
        self._parent.append(above[first] if self._made else np.full(len(first), MISSING))
        self._thread.append(thread[first])
        self._made += len(first)
        return places.of + (self._made - len(first))

    def made(self, node: Int64, value: Int64) -> Places:
        """Returns the places with the sums of their values."""
        own = np.zeros(self._made, np.int64)
        np.add.at(own, node, value)
        none = [np.zeros(0, np.int64)]
        label, parent, thread = (
            np.concatenate(each or none).astype(np.int32) for each in (self._label, self._parent, self._thread)
        )
        return Places(label, parent, thread, own)


def captured_by_node(profile: StackProfile) -> Captured:
    """Returns the calls around the launch of each node; ids index the names of the profile."""
    places = profile.places
    scopes = scopes_of_kind(EventKind.PYTHON, places.label, places.parent)
    return Captured(stacks=NodeStacks(profile.node, profile.node_place, scopes) if len(profile.node) else NodeStacks())
