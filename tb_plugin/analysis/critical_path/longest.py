"""Longest paths through chains and dependencies, by step.

A path starts at the start of a step and ends at its end. Its length is the time of the step minus the lags on the path,
so the longest path has the smallest lag. One pass over the dependencies in the order of time finds it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from tb_plugin.analysis.critical_path.graph import Graph, Link, Links
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import Whole
from tb_plugin.lib.intervals import covered_before
from tb_plugin.model.trace.schema import MISSING

# Larger than any lag: no path.
NONE = 1 << 60
# Order at equal times: device work ends, waits end, calls end, calls start, device work starts.
_TAIL_ORDER = {Link.LAUNCH: 2, Link.STREAM: 0, Link.WAIT: 0, Link.THREAD: 2, Link.OPEN_CALL: 3}
_HEAD_ORDER = {Link.LAUNCH: 4, Link.STREAM: 4, Link.WAIT: 1, Link.THREAD: 1, Link.OPEN_CALL: 4}
_CALL_STARTS, _WORK_STARTS = 3, 4
_ORDERS = 5


class Windows(msgspec.Struct, frozen=True, eq=False):
    """Steps that do not overlap, by time."""

    start_ns: Int64
    end_ns: Int64
    last: tuple[tuple[int, ...], ...]
    """For each step, the chains whose work ends with the step. The path ends there."""
    work_ends: Sequence[tuple[int, int, int]]
    """Step, chain and time at which the work of a step on a chain ends. If it ended later, the step could be longer."""


class Path(msgspec.Struct, frozen=True, eq=False):
    """Pieces of the longest paths, one value each: time on a chain, or a dependency."""

    step: Int64
    chain: Int64
    """Chain of the piece, or -1 for a dependency."""
    link: Int64
    """Index of the dependency in ``LongestPaths.links``, or -1 for time on a chain."""
    start_ns: Int64
    end_ns: Int64
    """Start and end of the piece. Both include lags of the chain, but not those of the dependency."""


class LongestPaths(msgspec.Struct, frozen=True, eq=False):
    links: Links
    """Dependencies that end inside a step. Lags before the start of the step are left out."""
    step: Int64
    """Step of each dependency."""
    previous: Int64
    """For each dependency, the previous one on the longest path to its start; -1 = none in the step."""
    lag_ns: Int64
    """For each step, the time that the longest path does not explain."""
    path: Path
    goal: Int64
    """For each step, the chain at the end of the longest path."""
    windows: Windows
    _chains: int
    _moments: Int64
    _before: _Best
    _after: _Best

    def last_link(self, step: Int64, chain: Whole, when: Int64) -> Int64:
        """Returns the last dependency on the longest path to a time of a chain; -1 = none in the step."""
        until = np.searchsorted(self._moments, when * _ORDERS + _ORDERS - 1, side="right")
        return self._before.link_at(step * self._chains + chain, until)

    def slack_ns(self, step: Int64, chain: Whole, start_ns: Int64, end_ns: Int64, on_device: Bool) -> Int64:
        """Returns how much later events could start without a longer step.

        The slack is at most the time from the end of the event to the end of the step.
        """
        key, start = step * self._chains + chain, _moment(start_ns, on_device)
        before = self._before.at(key, np.searchsorted(self._moments, start, side="right"))
        after = self._after.at(key, np.searchsorted(self._moments, start, side="left"))
        rest = np.maximum(self.windows.end_ns[step] - end_ns, 0)
        found: Int64 = np.clip(before + after - self.lag_ns[step], 0, rest)
        return found


def _moment(start_ns: Int64, on_device: Bool) -> Int64:
    """Returns when an event starts, in the order of operations."""
    return start_ns * _ORDERS + np.where(on_device, _WORK_STARTS, _CALL_STARTS)


class _Best(msgspec.Struct, frozen=True, eq=False):
    """Smallest lag of each chain of a step, changed by some operations."""

    at_first: Int64
    key: Int64
    """Sorted: chain of a step, and the operation that changes its value."""
    value: Int64
    link: Int64
    """Dependency that changes the value."""
    operations: int
    is_backward: bool

    def link_at(self, chain: Int64, operation: Int64) -> Int64:
        """Returns the dependency that gave the value before the given operation; -1 = none."""
        place = np.searchsorted(self.key, chain * (self.operations + 1) + operation) - 1
        changed = (place >= 0) & (np.append(self.key, MISSING)[place] // (self.operations + 1) == chain)
        found: Int64 = np.where(changed, np.append(self.link, MISSING)[place], MISSING)
        return found

    def at(self, chain: Int64, operation: Int64) -> Int64:
        """Returns the value before the operation; if backward, after it."""
        place = np.searchsorted(self.key, chain * (self.operations + 1) + operation) - (not self.is_backward)
        changed = (place >= 0) & (np.append(self.key, MISSING)[place] // (self.operations + 1) == chain)
        found: Int64 = np.where(changed, np.append(self.value, 0)[place], self.at_first[chain])
        return found


class _Order(msgspec.Struct, frozen=True, eq=False):
    """Operations by time: each dependency starts once (unless it starts before its step) and ends once."""

    moments: Int64
    """Time of each operation times ``_ORDERS``, plus its order at equal times."""
    tail: Int64
    """Position of the start of each dependency; -1 = before the step."""
    head: Int64
    coded: list[int]
    """Twice the index of the dependency, plus 1 for its end."""


def longest_paths(graph: Graph, windows: Windows) -> LongestPaths:
    """Returns the longest path of each step, and the data from which slack is computed."""
    links, step = _inside(graph.links, windows)
    starts = windows.start_ns[step]
    known = [*graph.lags, int(links.tail.max(initial=0)), int(links.head.max(initial=0))]
    known += [chain for _, chain, _ in windows.work_ends]
    chains = 1 + max(*known, *(each for some in windows.last for each in some), 0)
    is_source = links.tail_ns < starts
    lag = np.where(is_source, np.maximum(links.lag_ns - (starts - links.tail_ns), 0), links.lag_ns)
    order = _ordered(links, is_source)
    tail, head = step * chains + links.tail, step * chains + links.head
    lag_at_tail, lag_at_head = (
        _lag_before(graph, links.tail, links.tail_ns),
        _lag_before(graph, links.head, links.head_ns),
    )
    at_start, at_end = (
        np.stack([covered_before(graph.lags_of(each), when) for each in range(chains)], axis=1).ravel()
        for when in (windows.start_ns, windows.end_ns)
    )
    lowest, changes, values = _forward(order, tail, head, lag_at_tail, lag_at_head, lag, -at_start)
    before = _best(-at_start, order.head, head, changes, values, len(order.coded))
    last = [np.array(some, np.int64) + at * chains for at, some in enumerate(windows.last)]
    ends = [np.array([lowest[at] for at in some.tolist()], np.int64) + at_end[some] for some in last]
    total = np.array([int(each.min()) for each in ends], np.int64)
    goal = np.full(len(at_start), NONE, np.int64)
    for some in last:
        goal[some] = at_end[some]
    ending = np.array(windows.work_ends, np.int64).reshape(-1, 3)
    since_end = windows.end_ns[ending[:, 0]] - ending[:, 2]
    to_end = _lag_before(graph, ending[:, 1], ending[:, 2]) + since_end
    np.minimum.at(goal, ending[:, 0] * chains + ending[:, 1], to_end)
    later, later_values = _backward(order, tail, head, lag_at_tail, lag_at_head, lag, goal)
    after = _best(goal, order.tail, tail, later, later_values, len(order.coded), is_backward=True)
    goals = [int(some[each.argmin()]) for some, each in zip(last, ends, strict=True)]
    path = _path(links, lag, windows, order, (tail, head), changes, goals, chains)
    previous = np.where(is_source, MISSING, before.link_at(tail, order.tail))
    goal_chain = np.array(goals, np.int64) % chains
    links = replace(links, lag_ns=lag)
    return LongestPaths(links, step, previous, total, path, goal_chain, windows, chains, order.moments, before, after)


def _inside(links: Links, windows: Windows) -> tuple[Links, Int64]:
    step = np.searchsorted(windows.start_ns, links.head_ns, side="left") - 1
    inside = (step >= 0) & (links.head_ns <= np.append(windows.end_ns, 0)[step])
    return links.take(inside), step[inside]


def _lag_before(graph: Graph, chain: Int64, when: Int64) -> Int64:
    found = np.zeros(len(chain), np.int64)
    for each in np.unique(chain).tolist():
        mine = chain == each
        found[mine] = covered_before(graph.lags_of(each), when[mine])
    return found


def _ordered(links: Links, is_source: Bool) -> _Order:
    count = len(links.kind)
    times = np.concatenate((links.tail_ns[~is_source], links.head_ns))
    coded = np.concatenate((2 * np.flatnonzero(~is_source), 2 * np.arange(count) + 1))
    tails, heads = (np.array([order[kind] for kind in Link]) for order in (_TAIL_ORDER, _HEAD_ORDER))
    within = np.concatenate((tails[links.kind[~is_source]], heads[links.kind]))
    moments = times * _ORDERS + within
    order = np.argsort(moments, kind="stable")
    coded = coded[order]
    tail, head = np.full(count, MISSING), np.empty(count, np.int64)
    place = np.arange(len(coded))
    is_head = coded % 2 == 1
    tail[coded[~is_head] // 2] = place[~is_head]
    head[coded[is_head] // 2] = place[is_head]
    return _Order(moments[order], tail, head, coded.tolist())


def _forward(
    order: _Order, tail: Int64, head: Int64, lag_at_tail: Int64, lag_at_head: Int64, lag: Int64, first: Int64
) -> tuple[list[int], Int64, Int64]:
    """Returns the smallest lag from the start to each chain (without the lag of the chain), and its changes."""
    best, arrived = first.tolist(), [0] * len(tail)
    tails, heads, starts, more = (each.tolist() for each in (tail, head, lag_at_tail, lag - lag_at_head))
    changes, values = [], []
    for code in order.coded:
        at = code >> 1
        if code & 1:
            value = arrived[at] + more[at]
            if value < best[heads[at]]:
                best[heads[at]] = value
                changes.append(at)
                values.append(value)
        else:
            arrived[at] = best[tails[at]] + starts[at]
    return best, np.array(changes, np.int64), np.array(values, np.int64)


def _backward(
    order: _Order, tail: Int64, head: Int64, lag_at_tail: Int64, lag_at_head: Int64, lag: Int64, goal: Int64
) -> tuple[Int64, Int64]:
    """Returns the changes of the smallest lag from each chain to the end of the step."""
    best, left = goal.tolist(), [0] * len(tail)
    tails, heads, ends, more = (each.tolist() for each in (tail, head, lag_at_head, lag + lag_at_tail))
    changes, values = [], []
    for code in reversed(order.coded):
        at = code >> 1
        if code & 1:
            left[at] = best[heads[at]] - ends[at]
        else:
            value = left[at] + more[at]
            if value < best[tails[at]]:
                best[tails[at]] = value
                changes.append(at)
                values.append(value)
    return np.array(changes, np.int64), np.array(values, np.int64)


def _best(
    first: Int64, operation: Int64, chain: Int64, link: Int64, value: Int64, operations: int, is_backward: bool = False
) -> _Best:
    key = chain[link] * (operations + 1) + operation[link]
    order = np.argsort(key)
    return _Best(first, key[order], value[order], link[order], operations, is_backward)


def _path(
    links: Links,
    lag: Int64,
    windows: Windows,
    order: _Order,
    chain_of: tuple[Int64, Int64],
    changes: Int64,
    goals: list[int],
    chains: int,
) -> Path:
    """Goes from the end of each step back to its start, along the dependencies with the smallest lag."""
    reached: dict[int, tuple[list[int], list[int]]] = {}
    for chain, operation, link in zip(
        chain_of[1][changes].tolist(), order.head[changes].tolist(), changes.tolist(), strict=True
    ):
        operations, through = reached.setdefault(chain, ([], []))
        operations.append(operation)
        through.append(link)
    tail_ns, head_ns, first, tails = (each.tolist() for each in (links.tail_ns, links.head_ns, order.tail, chain_of[0]))
    lags = lag.tolist()
    pieces: list[tuple[int, int, int, int, int]] = []
    for step, chain in enumerate(goals):
        start, until, operation = int(windows.start_ns[step]), int(windows.end_ns[step]), len(order.coded)
        while True:
            operations, through = reached.get(chain, ([], []))
            place = bisect_left(operations, operation) - 1
            if place < 0:
                pieces.append((step, chain % chains, MISSING, start, until))
                break
            link = through[place]
            pieces.append((step, chain % chains, MISSING, head_ns[link], until))
            pieces.append((step, MISSING, link, max(start, tail_ns[link]) + lags[link], head_ns[link]))
            if first[link] == MISSING:
                break
            chain, until, operation = tails[link], tail_ns[link], first[link]
    columns = np.array(pieces[::-1], np.int64).reshape(-1, 5)
    return Path(*columns.T)
