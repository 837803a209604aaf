"""Forests of calls: sums, paths, pre-order and outermost calls.

Nodes are represented by indices. The parent of a root is -1.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
import numpy as np

from tb_plugin.lib.arrays import Bool, Float64, Int32, Int64
from tb_plugin.lib.groupby import MISSING, Whole, group, places_of, side_by_side, stable_order

Summed = TypeVar("Summed", Int64, Float64)
NODES_SENT = 20_000
"""Maximum number of nodes in a response. The deepest nodes are omitted first."""


# Levels with fewer rows are numbered in a Python loop, because deeply nested calls have thousands of small levels.
_MAX_ROWS_IN_LOOP = 16


def _numbered_few(keys: list[tuple[int, int]]) -> tuple[Int64, int]:
    known: dict[tuple[int, int], int] = {}
    return np.array([known.setdefault(key, len(known)) for key in keys], np.int64), len(known)


class Forest:
    """A forest: ``parent`` contains the index of each node's parent (-1 = root). Parents come before their children."""

    def __init__(self, parent: Int32) -> None:
        self.parent = parent
        self.depth = _depths(parent)
        order = stable_order(self.depth)
        bounds = np.searchsorted(self.depth[order], np.arange(1, self.depth.max(initial=0) + 1))
        # Positions by distance from the root.
        self.levels = np.split(order, bounds)

    def sums(self, own: Summed) -> Summed:
        """Returns, for each node, the sum of its value and the values of all its descendants."""
        total = own.copy()
        if own.any():
            for rows in reversed(self.levels[1:]):
                np.add.at(total, self.parent[rows], total[rows])
        return total

    def any_below(self, own: Bool) -> Bool:
        """Returns, for each node, whether any of its descendants has the flag."""
        below = np.zeros(len(own), np.bool_)
        if own.any():
            for rows in reversed(self.levels[1:]):
                below[self.parent[rows[own[rows] | below[rows]]]] = True
        return below

    def inside(self, chosen: Bool) -> Bool:
        """Returns, for each node, whether it or one of its ancestors has the flag."""
        inside = chosen.copy()
        if chosen.any():
            for rows in self.levels[1:]:
                inside[rows] |= inside[self.parent[rows]]
        return inside

    def paths(self, *labels: Whole) -> Int64:
        """Returns a number for each node, equal for equal labels on the path from the root."""
        # A path is the parent's path plus a label: numbering by level gives equal paths equal numbers.
        label = group(*labels).of
        path = np.full(len(self.parent) + 1, MISSING, np.int64)  # the last entry is for -1
        offset = 0
        for rows in self.levels:
            above = path[self.parent[rows]]
            if len(rows) < _MAX_ROWS_IN_LOOP:
                of, count = _numbered_few(list(zip(above.tolist(), label[rows].tolist(), strict=True)))
            else:
                groups = group(above, label[rows])
                of, count = groups.of, len(groups)
            path[rows] = of + offset
            offset += count
        return path[:-1]

    def runs(self, root: Int64, *labels: Whole) -> Int64:
        """Returns a number for each node. Two consecutive nodes have the same number if their labels are equal and
        their parents have the same number.

        Two roots have the same number only if their ``root`` values are equal too.
        """
        run = np.full(len(self.parent) + 1, MISSING, np.int64)  # the last entry is for -1
        offset = 0
        for level, rows in enumerate(self.levels):
            if len(rows) == 1:
                run[rows] = offset
                offset += 1
                continue
            above = run[self.parent[rows]] if level else root[rows]
            order = stable_order(above)
            columns = [above[order], *(label[rows[order]] for label in labels)]
            begins = np.ones(len(rows), np.bool_)
            begins[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
            run[rows[order]] = np.cumsum(begins) - 1 + offset
            offset += int(begins.sum())
        return run[:-1]


def _depths(parent: Int32) -> Int32:
    """Returns the distance of each node from its root, in time O(n log depth)."""
    depth: Int32 = (parent != MISSING).astype(np.int32)
    hop = parent.copy()
    rows = np.flatnonzero(depth)
    while rows.size:
        depth[rows] += depth[hop[rows]]
        hop[rows] = hop[hop[rows]]
        rows = rows[hop[rows] != MISSING]
    return depth


def preorder(parent: Whole, *values: Int64) -> list[int]:
    """Returns the nodes in pre-order. Siblings are sorted by the first of ``values``, then the next, largest first."""
    children: dict[int, list[int]] = {}
    above = parent.tolist()
    for node in np.lexsort(values[::-1]).tolist():
        children.setdefault(above[node], []).append(node)
    order, stack = [], list(children.get(MISSING, []))
    while stack:
        node = stack.pop()
        order.append(node)
        stack.extend(children.get(node, []))
    return order


def truncate_tree(order: list[int], parent: Int64, most: int) -> tuple[list[int], list[int]]:
    """Returns at most ``most`` nodes nearest to the root, in pre-order, and the index of each one's parent among them."""
    if len(order) > most:
        depth: dict[int, int] = {}
        for node in order:
            depth[node] = depth.get(int(parent[node]), -1) + 1
        kept = set(sorted(order, key=lambda node: depth[node])[:most])
        order = [node for node in order if node in kept]
    position = {node: i for i, node in enumerate(order)}
    return order, [position.get(int(parent[node]), MISSING) for node in order]


def with_ancestors(parent: Int32, some: Whole) -> tuple[Int64, Int32]:
    """Returns these nodes (except -1) and all ancestors, sorted, and the index of each node's parent among them."""
    needed = np.zeros(len(parent) + 1, np.bool_)
    level = np.unique(some[some != MISSING])
    while len(level):
        needed[level] = True
        level = np.unique(parent[level])
        level = level[(level != MISSING) & ~needed[level]]
    rows = np.flatnonzero(needed)
    return rows, places_of(rows, len(parent))[parent[rows]]


class Spans(msgspec.Struct, frozen=True, eq=False):
    """Time ranges in nanoseconds with their tracks. Sorted by start, then longest first."""

    track: Int32
    start: Int64
    end: Int64


def is_top_level(key: Whole, spans: Spans) -> Bool:
    """Returns whether no other call with the same key encloses each call on its track. Totals include only these."""
    of = group(key, spans.track).of if len(key) else np.empty(0, np.int64)
    order = stable_order(of)
    start, end = (time[order] for time in side_by_side((of, spans.start), (of, spans.end)))
    # Latest end so far. All ends of earlier groups precede the starts of this group.
    furthest = np.concatenate(([MISSING], np.maximum.accumulate(end)[:-1]))[: len(key)]
    first: Bool = np.empty(len(key), np.bool_)
    first[order] = (furthest < end) | (furthest <= start)
    return first


def outermost_of(key: Whole, spans: Spans, parent: Int32) -> Bool:
    """Returns, for each call, whether none of its ancestors has the same key. ``parent`` contains indices (-1 =
    none).

    The result differs from ``is_top_level`` for partly overlapping calls and for calls without a track, because
    only ``parent`` is used.
    """
    counted: Bool = is_top_level(key, spans) & (spans.track != MISSING)
    left = np.flatnonzero(~counted)
    above = parent[left]
    while len(left):
        counted[left[above == MISSING]] = True
        on = (above != MISSING) & (key[above] != key[left])
        left, above = left[on], parent[above[on]]
    return counted
