"""Nodes of merged stacks: calls with equal paths of names."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.forest import Forest, preorder
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import Groups, places_of
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.tree import roots_of


class FlameNodes(msgspec.Struct, frozen=True, eq=False):
    """All nodes of merged stacks, in order of their first call, with self times in ns. Parents come first."""

    label: Int64
    texts: pa.Array
    kind: Int64
    """EventKind of the frame. UNKNOWN for the node of work that has no frame."""
    parent: Int32
    thread: Int64
    """Thread number if threads are shown separately, otherwise -1. Work that has no frame also has -1."""
    calls: Int64
    host_ns: Int64
    device_ns: Int64
    backward: Mapping[str, Int64] = msgspec.field(default_factory=dict)
    """Metric key -> time of the backward operators whose forward operators were called in this node."""

    def names(self, some: npt.NDArray[np.integer]) -> list[str]:
        found: list[str] = self.texts.take(pa.array(self.label[some])).to_pylist()
        return found


class FlameGraph(msgspec.Struct, frozen=True, eq=False):
    """Nodes of merged stacks in pre-order, with their total times."""

    name: list[str]
    kind: Int64
    parent: Int64
    thread: Int64
    calls: Int64
    host_ns: Int64
    device_ns: Int64
    host_total_ns: Int64
    device_total_ns: Int64
    matches: int
    """Number of nodes before the limit was applied."""

    def __len__(self) -> int:
        return len(self.name)


def largest_nodes(
    nodes: FlameNodes, weight: str, most: int | None = None, *, by_time: bool = False, replayed: bool = True
) -> FlameGraph:
    """Returns the nodes with the largest ``weight`` ("host" or "device"), at most ``most`` of them.

    They are sorted by this weight or, if ``by_time``, by time. Nodes without this weight are omitted. With
    ``replayed``, nodes that have device time are included if their root has the weight.
    """
    forest = Forest(nodes.parent)
    totals = {"host": forest.sums(nodes.host_ns), "device": forest.sums(nodes.device_ns)}
    heavy = totals[weight]
    has_time = heavy > 0
    if replayed and len(heavy):
        # Replayed work has no thread, so its device time is shown for every weight.
        has_time |= (heavy[roots_of(nodes.parent)] > 0) & (totals["device"] > 0)
    order = in_order(nodes.parent, heaviest_nodes(heavy, most, has_time), -nodes.thread if by_time else heavy)
    return FlameGraph(
        name=nodes.names(order),
        kind=nodes.kind[order],
        parent=places_of(order, len(heavy)).astype(np.int64)[nodes.parent[order]],
        thread=nodes.thread[order],
        calls=nodes.calls[order],
        host_ns=nodes.host_ns[order],
        device_ns=nodes.device_ns[order],
        host_total_ns=totals["host"][order],
        device_total_ns=totals["device"][order],
        matches=int(has_time.sum()),
    )


def parent_groups(nodes: Groups, parent: Int32) -> Int32:
    """Returns the index of each group's parent group (-1 = none). All rows of a group must have equal paths."""
    around = parent[nodes.first]
    return np.where(around == MISSING, MISSING, nodes.of[around]).astype(np.int32)


def heaviest_nodes(total: Int64, most: int | None, wanted: Bool) -> Int64:
    """Returns the ``most`` wanted nodes with the largest totals, ascending. A node never has more than its ancestors."""
    found = np.flatnonzero(wanted)
    return found if most is None else np.sort(found[np.argsort(-total[found], kind="stable")[:most]])


def in_order(parent: Int32, kept: Int64, rank: Int64) -> Int64:
    """Returns the nodes in ``kept`` in pre-order. Siblings are sorted by rank, largest first, then by first call."""
    if not len(kept):
        return kept
    return kept[preorder(places_of(kept, len(parent))[parent[kept]], rank[kept], -np.arange(len(kept)))]
