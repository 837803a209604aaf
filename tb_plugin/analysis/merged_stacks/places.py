"""Nodes of merged stacks: calls with equal paths of names."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.forest import Forest, preorder
from tb_plugin.lib.groupby import Groups, places_of
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.tree import roots_of

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]


class Places(msgspec.Struct, frozen=True, eq=False):
    """Merged stacks in pre-order. Siblings are in the selected order. Times are in nanoseconds.

    ``host_ns`` and ``device_ns`` are self times. Nodes without time of the selected weight (host or device) are
    normally omitted. Such a node is included if it has device time and its root has time of the selected weight.
    """

    name: list[str]
    kind: Int64
    """EventKind of the frame. UNKNOWN for the node of work that has no frame."""
    parent: Int64
    """Index of the parent node (-1 = root)."""
    thread: Int64
    """Thread number if threads are shown separately, otherwise -1. Work that has no frame also has -1."""
    calls: Int64
    host_ns: Int64
    device_ns: Int64
    host_total_ns: Int64
    device_total_ns: Int64
    matches: int
    """Number of nodes before the limit was applied."""

    def __len__(self) -> int:
        return len(self.name)


class Laid(msgspec.Struct, frozen=True, eq=False):
    """All nodes, in order of their first call. Parents come before their children."""

    label: Int64
    texts: pa.Array
    kind: Int64
    parent: Int32
    thread: Int64
    calls: Int64
    host_ns: Int64
    device_ns: Int64
    backward_host_ns: Int64
    """Host time of the backward operators whose forward operators were called in this node."""
    backward_device_ns: Int64

    def names(self, some: npt.NDArray[np.integer]) -> list[str]:
        found: list[str] = self.texts.take(pa.array(self.label[some])).to_pylist()
        return found


def largest_nodes(found: Laid, weight: str, most: int | None = None, by_time: bool = False) -> Places:
    """Returns the nodes with the largest ``weight`` ("host" or "device"), at most ``most`` of them.

    They are sorted by this weight or, if ``by_time``, by time.
    """
    forest = Forest(found.parent)
    totals = {"host": forest.sums(found.host_ns), "device": forest.sums(found.device_ns)}
    heavy = totals[weight]
    # Replayed work has no thread, so its device time is shown for every weight.
    bears = heavy[roots_of(found.parent)] > 0 if len(heavy) else heavy > 0
    has_time = (heavy > 0) | (bears & (totals["device"] > 0))
    order = in_order(found.parent, heaviest_nodes(heavy, most, has_time), -found.thread if by_time else heavy)
    return Places(
        name=found.names(order),
        kind=found.kind[order],
        parent=places_of(order, len(heavy)).astype(np.int64)[found.parent[order]],
        thread=found.thread[order],
        calls=found.calls[order],
        host_ns=found.host_ns[order],
        device_ns=found.device_ns[order],
        host_total_ns=totals["host"][order],
        device_total_ns=totals["device"][order],
        matches=int(has_time.sum()),
    )


def parent_groups(nodes: Groups, parent: Int32) -> Int32:
    """Returns the index of each group's parent group (-1 = none). All rows of a group must have equal paths."""
    around = parent[nodes.first]
    return np.where(around == MISSING, MISSING, nodes.of[around]).astype(np.int32)


def heaviest_nodes(total_ns: Int64, most: int | None, wanted: Bool | None = None) -> Int64:
    """Returns the indices of the ``most`` nodes with the most time, in ascending order.

    Only nodes in ``wanted`` are returned; by default, all nodes that have time. The ancestors of a returned node
    are always returned too, because they have at least as much time and precede it.
    """
    found = np.flatnonzero(total_ns > 0 if wanted is None else wanted)
    return found if most is None else np.sort(found[np.argsort(-total_ns[found], kind="stable")[:most]])


def in_order(above: Int32, kept: Int64, rank: Int64) -> Int64:
    """Returns the nodes in ``kept`` in pre-order. Siblings are sorted by rank, largest first, then by first call."""
    if not len(kept):
        return kept
    return kept[preorder(places_of(kept, len(above))[above[kept]], rank[kept], -np.arange(len(kept)))]
