"""Anchors for clock alignment: ends of synchronizing collectives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import codes, group_sorted, occurrence, quantile_by

# no rank can leave before all ranks have arrived, and all ranks leave at about the same time
SYNCHRONIZING = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"})
# target number of anchors per worker and group; more only slow the fit
MAX_ANCHORS_PER_GROUP = 256


class Anchors(msgspec.Struct, frozen=True, eq=False):
    """End times of the calls of collectives: one row per call."""

    worker: Int64
    match: Int64
    """Index of the collective, from 0. All calls of one collective end at the same real time."""
    end_ns: Int64
    """End of the call since the start of the worker's trace, by the worker's clock."""

    @property
    def matches(self) -> int:
        return int(self.match.max(initial=-1)) + 1


def anchors_of(
    worker: Int64, match: Int64, group: Int64, end_ns: Int64, on_device: Bool, synchronizing: Bool
) -> Anchors:
    """Returns the calls whose ends are anchors.

    ``match`` is the index of each call's collective (-1 = none). A collective is not used if some workers recorded
    its end on the device and others on the host.
    """
    count = int(match.max(initial=-1)) + 1
    known = match >= 0
    calls, device = (np.bincount(match[known & rows], minlength=count) for rows in (True, on_device))
    alike = (device == 0) | (device == calls)
    rows = np.flatnonzero(known & synchronizing)
    rows = rows[alike[match[rows]]]
    rows = rows[_thinned(worker[rows], match[rows], group[rows])]
    number = group_sorted(match[rows]).of
    rows = rows[np.bincount(number)[number] > 1] if len(rows) else rows
    return Anchors(worker[rows], group_sorted(match[rows]).of, end_ns[rows])


def _thinned(worker: Int64, match: Int64, group: Int64) -> Bool:
    """Marks the calls to use: those of every n-th collective of a group, with n set by ``MAX_ANCHORS_PER_GROUP``.

    n is a power of two, so workers with different numbers of calls share collectives.
    """
    if not len(match):
        return np.zeros(0, np.bool_)
    matches = group_sorted(match)
    ordinal, mine = occurrence(group[matches.first])[matches.of], codes(worker, group)
    stride = 1 << np.ceil(np.log2(np.maximum(np.bincount(mine)[mine] / MAX_ANCHORS_PER_GROUP, 1))).astype(np.int64)
    is_wanted = np.zeros(len(matches), np.bool_)
    is_wanted[matches.of[ordinal % stride == 0]] = True
    marked: Bool = is_wanted[matches.of]
    return marked


def connected_sets(anchors: Anchors, zero_ns: Int64) -> tuple[Int64, Int64]:
    """Returns the connected set of each worker (0 = largest, -1 = none) and the worker's initial clock offset in
    ns.

    ``zero_ns`` is the clock reading at the start of each worker's trace. The offset between two workers is the
    median over the collectives of both workers. As in a maximum spanning tree, pairs with the most shared
    collectives are used first.
    """
    neighbours = _spanning_tree(anchors, zero_ns)
    number, offset = np.full(len(zero_ns), -1, np.int64), np.zeros(len(zero_ns), np.int64)
    sizes: list[int] = []
    for start in neighbours:
        if number[start] >= 0:
            continue
        number[start], queue, size = len(sizes), [start], 0
        while queue:
            current, size = queue.pop(), size + 1
            for neighbour, lag in neighbours[current]:
                if number[neighbour] < 0:
                    number[neighbour], offset[neighbour] = len(sizes), offset[current] + lag
                    queue.append(neighbour)
        sizes.append(size)
    place = np.full(len(sizes) + 1, -1, np.int64)
    place[np.argsort([-size for size in sizes], kind="stable")] = np.arange(len(sizes))
    return place[number], offset


def _spanning_tree(a: Anchors, zero_ns: Int64) -> Mapping[int, Sequence[tuple[int, int]]]:
    """Returns a maximum spanning tree of the workers: the neighbours of each worker, and the clock offsets to them
    in ns.
    """
    workers = len(zero_ns)
    first = np.full(a.matches, workers, np.int64)
    np.minimum.at(first, a.match, a.worker)
    is_first = a.worker == first[a.match]
    end, end_of_first = zero_ns[a.worker] + a.end_ns, np.zeros(a.matches, np.int64)
    end_of_first[a.match[is_first]] = end[is_first]
    worker, match, end = a.worker[~is_first], a.match[~is_first], end[~is_first]
    pairs, which, shared = np.unique(first[match] * workers + worker, return_inverse=True, return_counts=True)
    lag = quantile_by(which, end_of_first[match] - end, len(pairs), 50)
    tree: dict[int, list[tuple[int, int]]] = defaultdict(list)
    above = list(range(workers))

    def top(worker: int) -> int:
        while above[worker] != worker:
            above[worker] = worker = above[above[worker]]
        return worker

    for at in np.argsort(-shared, kind="stable").tolist():
        one, other = divmod(int(pairs[at]), workers)
        if top(one) != top(other):
            above[top(other)] = top(one)
            tree[one].append((other, int(lag[at])))
            tree[other].append((one, -int(lag[at])))
    return tree
