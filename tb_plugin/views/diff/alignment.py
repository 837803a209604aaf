"""Alignment of the nodes of two call trees.

Nodes are matched from the training stages at the top down. Only children of matched nodes can match. A renamed node does not
match. If one side wraps calls in a new call, such as compiled code, a checkpoint or a container module, the wrapped
calls are still matched.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from tb_plugin.model.trace.schema import MISSING

# The profiler numbers instances of a module class, so an extra layer shifts all later numbers.
_INSTANCE_SUFFIX = re.compile(r"_\d+$")
_SAME_NAME, _SAME_CLASS = 3, 2
# Alignment of modules is quadratic; longer sequences are matched by name.
_MAX_ALIGNED_MODULES = 2000
_MAX_WRAPPER_DEPTH = 3


class Node(NamedTuple):
    """A node of a call tree. Nodes of two trees are the same node if kind and name are equal."""

    kind: str
    name: str

    @property
    def base(self) -> tuple[str, str]:
        """Returns the kind of the node, and the name without instance number."""
        return self.kind, _INSTANCE_SUFFIX.sub("", self.name)

    @property
    def key(self) -> tuple[str, str]:
        """Returns kind and class for a module, otherwise kind and name."""
        return self.base if self.kind == "module" else (self.kind, self.name)


class Pair(msgspec.Struct, frozen=True):
    """A node of the left tree and a node of the right tree (-1 = none). ``parent`` is the index of the parent pair."""

    left: int
    right: int
    parent: int


def align(
    left: Sequence[Node], left_parent: Sequence[int], right: Sequence[Node], right_parent: Sequence[int]
) -> list[Pair]:
    """Matches the nodes of two trees, and returns the nodes of both trees in pre-order.

    Modules are matched by order of first call, other nodes by name. If an unmatched node of one tree wraps nodes of
    the other tree, the wrapped nodes become its children. Swapping the trees swaps the nodes of each pair.
    """
    below_left, below_right = _children(left_parent), _children(right_parent)
    # Nodes of the other side that are wrapped by a node without a match.
    in_left: dict[int, list[int]] = {}
    in_right: dict[int, list[int]] = {}

    def siblings(ours: list[int], theirs: list[int]) -> Iterator[tuple[int, int]]:
        pairs = _siblings(left, ours, right, theirs)
        by_left, by_right = _wrapped_nodes(
            _Side(left, below_left, [one for one, other in pairs if other == MISSING]),
            _Side(right, below_right, [other for one, other in pairs if one == MISSING]),
        )
        in_left.update(by_left)
        in_right.update(by_right)
        moved_left = {node for nodes in by_right.values() for node in nodes}
        moved_right = {node for nodes in by_left.values() for node in nodes}
        return ((one, other) for one, other in pairs if one not in moved_left and other not in moved_right)

    pairs: list[Pair] = []
    stack = [(-1, siblings(below_left.get(MISSING, []), below_right.get(MISSING, [])))]
    while stack:
        parent, found = stack[-1]
        pair = next(found, None)
        if pair is None:
            stack.pop()
            continue
        one, other = pair
        pairs.append(Pair(one, other, parent))
        ours = below_left.get(one, []) if one != MISSING else in_right.get(other, [])
        theirs = below_right.get(other, []) if other != MISSING else in_left.get(one, [])
        if ours or theirs:
            stack.append((len(pairs) - 1, siblings(ours, theirs)))
    return pairs


def _children(parent: Sequence[int]) -> dict[int, list[int]]:
    children: defaultdict[int, list[int]] = defaultdict(list)
    for node, above in enumerate(parent):
        children[above].append(node)
    return children


def _siblings(left: Sequence[Node], ours: list[int], right: Sequence[Node], theirs: list[int]) -> list[tuple[int, int]]:
    partner = {ours[i]: theirs[j] for i, j in _matches([left[node] for node in ours], [right[node] for node in theirs])}
    place = {node: position for position, node in enumerate(ours)}
    of_right = {other: one for one, other in partner.items()}
    keyed = [((place[node], 0, 0), (node, partner.get(node, MISSING))) for node in ours]
    follows = -1
    for position, node in enumerate(theirs):
        if node in of_right:
            follows = place[of_right[node]]
        else:
            keyed.append(((follows, 1, position), (MISSING, node)))
    return [pair for _, pair in sorted(keyed)]


def _matches(left: Sequence[Node], right: Sequence[Node]) -> list[tuple[int, int]]:
    ours = [i for i, node in enumerate(left) if node.kind == "module"]
    theirs = [j for j, node in enumerate(right) if node.kind == "module"]
    in_order = 0 < len(ours) * len(theirs) <= _MAX_ALIGNED_MODULES**2
    by_name = {node: j for j, node in enumerate(right)}
    found = [
        (i, by_name[node])
        for i, node in enumerate(left)
        if node in by_name and not (in_order and node.kind == "module")
    ]
    if in_order:
        pairs = longest_common_subsequence([left[i] for i in ours], [right[j] for j in theirs])
        found += [(ours[i], theirs[j]) for i, j in pairs]
    return found


def longest_common_subsequence(left: Sequence[Node], right: Sequence[Node]) -> list[tuple[int, int]]:
    """Returns index pairs of a longest common subsequence. Equal names weigh more than equal classes."""
    if list(left) == list(right):
        return [(i, i) for i in range(len(left))]
    if list(left) > list(right):  # a fixed order of the two sides, so that ties are symmetric
        return [(i, j) for j, i in longest_common_subsequence(right, left)]
    codes: dict[object, int] = {}

    def numbered(values: Iterable[object]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array([codes.setdefault(value, len(codes)) for value in values], np.int64)

    names, bases = numbered(left), numbered(node.base for node in left)
    other_names, other_bases = numbered(right), numbered(node.base for node in right)
    best = np.zeros((len(left) + 1, len(right) + 1), np.int32)
    for i in range(len(left)):
        weight = np.where(other_names == names[i], _SAME_NAME, np.where(other_bases == bases[i], _SAME_CLASS, 0))
        taken = np.where(weight > 0, best[i, :-1] + weight, 0)
        best[i + 1, 1:] = np.maximum.accumulate(np.maximum(best[i, 1:], taken))
    found = []
    i, j = len(left), len(right)
    while i and j:
        if best[i, j] == best[i - 1, j]:
            i -= 1
        elif best[i, j] == best[i, j - 1]:
            j -= 1
        else:
            i, j = i - 1, j - 1
            found.append((i, j))
    return found[::-1]


class _Side(msgspec.Struct, frozen=True):
    nodes: Sequence[Node]
    below: Mapping[int, Sequence[int]]
    unmatched: Sequence[int]

    def inner(self, wrapper: int) -> Iterator[int]:
        level = [wrapper]
        for _ in range(_MAX_WRAPPER_DEPTH):
            level = [child for node in level for child in self.below.get(node, ())]
            yield from level


def _wrapped_nodes(left: _Side, right: _Side) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Returns the nodes inside each wrapper of the other side. Swapping the sides swaps the results."""
    found: tuple[dict[int, list[int]], dict[int, list[int]]] = ({}, {})
    if not left.unmatched or not right.unmatched:
        return found
    sides = (left, right)
    pools: list[defaultdict[tuple[str, str], deque[int]]] = [defaultdict(deque), defaultdict(deque)]
    for own, side in enumerate(sides):
        for node in side.unmatched:
            pools[own][side.nodes[node].key].append(node)
    wrappers = []
    for own, side in enumerate(sides):
        for node in side.unmatched:
            outer = side.nodes[node].key
            keys = [
                key for inner in side.inner(node) if (key := side.nodes[inner].key) in pools[1 - own] and key != outer
            ]
            if keys:
                wrappers.append((-len(keys), side.nodes[node], node, own, keys))
    wrapped: tuple[set[int], set[int]] = (set(), set())
    for _, _, node, own, keys in sorted(wrappers):
        if node in wrapped[own]:
            continue
        taken = []
        for key in keys:
            pool = pools[1 - own][key]
            while pool and pool[0] in found[1 - own]:
                pool.popleft()
            if pool:
                taken.append(pool.popleft())
        if taken:
            found[own][node] = sorted(taken)
            wrapped[1 - own].update(taken)
    return found
