"""Places of merged stacks: calls at the same place, the path of names from the outermost frame, are one."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True, eq=False)
class Places:
    """Merged stacks in pre-order, siblings in the chosen order. Times in nanoseconds.

    ``host_ns`` and ``device_ns`` are own times: without what stands beneath. Places without any of the chosen time in
    and beneath them are left out, but those with device time below one that has some.
    """

    name: list[str]
    kind: Int64
    """EventKind of the frame; of the place without one, UNKNOWN."""
    parent: Int64
    """Position of the place around it, -1 = none."""
    thread: Int64
    """Thread, when places of different threads are kept apart; else, and for the place without a frame, -1."""
    calls: Int64
    host_ns: Int64
    device_ns: Int64
    host_total_ns: Int64
    device_total_ns: Int64
    found: int
    """How many there are, also where only those with most time are here."""

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True, eq=False)
class Laid:
    """All places, also those without time, in the order in which they were first called; parents before children."""

    label: Int64
    """Position in ``texts``."""
    texts: pa.Array
    kind: Int64
    parent: Int32
    thread: Int64
    calls: Int64
    host_ns: Int64
    device_ns: Int64
    backward_host_ns: Int64
    """Of backward operators whose forward operators the place called."""
    backward_device_ns: Int64

    def names(self, some: npt.NDArray[np.integer]) -> list[str]:
        """Returns the names of some places."""
        found: list[str] = self.texts.take(pa.array(self.label[some])).to_pylist()
        return found


def ordered(found: Laid, weight: str, most: int | None = None, by_time: bool = False) -> Places:
    """Returns the places with most of a weight ("host" or "device"), the heaviest first or in the order of time."""
    forest = Forest(found.parent)
    totals = {"host": forest.sums(found.host_ns), "device": forest.sums(found.device_ns)}
    heavy = totals[weight]
    # What is replayed ran on no thread: its device time stays where it belongs in every weight.
    bears = heavy[roots_of(found.parent)] > 0 if len(heavy) else heavy > 0
    has_time = (heavy > 0) | (bears & (totals["device"] > 0))
    order = in_order(found.parent, heaviest(heavy, most, has_time), -found.thread if by_time else heavy)
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
        found=int(has_time.sum()),
    )


def above(nodes: Groups, parent: Int32) -> Int32:
    """Returns the group around each group, -1 = none, of rows whose groups are paths."""
    around = parent[nodes.first]
    return np.where(around == MISSING, MISSING, nodes.of[around]).astype(np.int32)


def heaviest(total_ns: Int64, most: int | None, wanted: Bool | None = None) -> Int64:
    """Returns the places that have any time (or are ``wanted``), at most so many, in their order.

    One with time has ancestors with no less, which stand before it: they are kept as well.
    """
    found = np.flatnonzero(total_ns > 0 if wanted is None else wanted)
    return found if most is None else np.sort(found[np.argsort(-total_ns[found], kind="stable")[:most]])


def in_order(above: Int32, kept: Int64, rank: Int64) -> Int64:
    """Returns the kept places in pre-order, siblings with the highest rank first, then those that were called first."""
    if not len(kept):
        return kept
    return kept[preorder(places_of(kept, len(above))[above[kept]], rank[kept], -np.arange(len(kept)))]
