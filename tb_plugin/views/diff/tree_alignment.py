"""Alignment of the nodes of two call trees.

Nodes are matched from the top-level phases down. Only children of matched nodes can match. A renamed node does not
match. If one side wraps calls in a new call, the wrapped calls are still matched.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np

from tb_plugin.model.trace.schema import MISSING
from tb_plugin.views.diff.node import Node as Node
from tb_plugin.views.diff.wrapped_calls import Side, nodes_in_wrappers

_SAME_NAME, _SAME_CLASS = 3, 2
# Alignment is quadratic; longer sequences are matched by occurrence count.
_MAX_ALIGNED_MODULES = 2000


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
        unmatched = [one for one, other in pairs if other == MISSING], [other for one, other in pairs if one == MISSING]
        by_left, by_right = nodes_in_wrappers(
            Side(left, below_left, unmatched[0]), Side(right, below_right, unmatched[1])
        )
        in_left.update(by_left)
        in_right.update(by_right)
        moved = {node for held in by_right.values() for node in held}, {n for held in by_left.values() for n in held}
        return ((one, other) for one, other in pairs if one not in moved[0] and other not in moved[1])

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
    """Pairs the children of two nodes, in the order of the left tree.

    An unmatched right node comes after the sibling that precedes it in the right tree.
    """
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
    """Returns index pairs of matching nodes. Modules are matched by order, other nodes by name."""
    by_name = {node: j for j, node in enumerate(right) if node.kind != "module"}
    found = [(i, by_name[node]) for i, node in enumerate(left) if node.kind != "module" and node in by_name]
    ours = [i for i, node in enumerate(left) if node.kind == "module"]
    theirs = [j for j, node in enumerate(right) if node.kind == "module"]
    if ours and theirs:
        found += [
            (ours[i], theirs[j])
            for i, j in longest_common_subsequence([left[i] for i in ours], [right[j] for j in theirs])
        ]
    return found


def longest_common_subsequence(left: Sequence[Node], right: Sequence[Node]) -> list[tuple[int, int]]:
    """Returns the index pairs of a longest common subsequence.

    Nodes match by name. Nodes of the same class but different names match with a lower weight. Swapping the
    arguments swaps each pair.
    """
    if list(left) == list(right):
        return [(i, i) for i in range(len(left))]
    if list(left) > list(right):  # a fixed order of the two sides, so that ties are symmetric
        return [(i, j) for j, i in longest_common_subsequence(right, left)]
    if len(left) * len(right) > _MAX_ALIGNED_MODULES**2:
        return _by_occurrence(left, right)
    return _heaviest(left, right)


def _heaviest(left: Sequence[Node], right: Sequence[Node]) -> list[tuple[int, int]]:
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


def _by_occurrence(left: Sequence[Node], right: Sequence[Node]) -> list[tuple[int, int]]:
    """Pairs the k-th instance of each left class with the k-th instance of the same right class, in O(n log n).

    Pairs that would break the order are omitted.
    """
    waiting: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for j in range(len(right) - 1, -1, -1):
        waiting[right[j].base].append(j)
    pairs = [(i, waiting[node.base].pop()) for i, node in enumerate(left) if waiting[node.base]]
    # The longest increasing subsequence of right positions.
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, j) in enumerate(pairs):
        at = bisect_left(ends, j)
        ends[at : at + 1] = [j]
        last[at : at + 1] = [number]
        before.append(last[at - 1] if at else -1)
    found = []
    number = last[-1] if last else -1
    while number != -1:
        found.append(pairs[number])
        number = before[number]
    return found[::-1]
