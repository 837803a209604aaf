"""Operators around device work, to compare different devices."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.base import Frame, Part
from tb_plugin.analysis.forest import Forest, with_ancestors
from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.analysis.graphs.scope_calls import replayed_operators
from tb_plugin.analysis.selection import Selection
from tb_plugin.lib.groupby import group, places_of, sum_by
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, NO_OPERATOR
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit, roots_of
from tb_plugin.views.diff.metrics import METRICS

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]

PATHS, WORK = "operator_paths", "path_work"
MOST_PATHS = 50_000
"""Maximum number of paths; those with most time are included.

The work of an omitted path is added to its nearest included ancestor.
"""


def path_frames(trace: TraceTable, selection: Selection) -> dict[str, Frame]:
    """Returns two tables: operator paths with input shapes, and the device work of each path by name.

    Both tables exclude communication. Parents come before children.
    """
    work = selection.of(trace, *DEVICE_WORK)
    work = work[~trace.is_collective[work]]
    operator = trace.operator[work]
    members, parent = with_ancestors(trace.operator, operator)
    launched = places_of(members, len(trace))[operator]
    replayed, scopes = replayed_operators(trace, work, members, parent, launched), origins_of(trace).scopes
    shape = np.full(len(trace), MISSING, np.int32)
    shape[trace.operators.row] = trace.operators.shapes
    shape = replayed.also(shape[members], scopes.shapes[replayed.scope])
    name = replayed.also(trace.name[members], scopes.name[replayed.scope])
    parent = replayed.also(parent, replayed.parent)
    every = group(Forest(parent).paths(name, shape))
    above = parent[every.first]
    above = np.where(above == MISSING, MISSING, every.of[above]).astype(np.int32)
    owner = np.append(every.of, MISSING)[replayed.owner]
    owner, above, kept = _largest(owner, above, trace.dur_ns[work])
    first = every.first[kept]
    nodes = {
        "path_node": pa.array(np.arange(len(kept))),
        "parent_path": pa.array(above.astype(np.int64)),
        "name": trace.strings.take(name[first]),
        "input_shape": trace.strings.take(shape[first]),
    }
    groups = group(owner, trace.name[work])
    found = {
        "path_node": pa.array(owner[groups.first]),
        "name": trace.strings.take(trace.name[work[groups.first]]),
        "calls": pa.array(groups.count()),
        "total_ns": pa.array(groups.sum(trace.dur_ns[work])),
    }
    return {
        PATHS: Frame(PATHS, "Paths of operators", METRICS.columns(*nodes), pa.table(nodes), ("path_node",), "name"),
        WORK: Frame(
            WORK, "Device work by path", METRICS.columns(*found), pa.table(found), ("path_node", "name"), "name"
        ),
    }


def _largest(owner: Int64, above: Int32, dur_ns: Int64) -> tuple[Int64, Int32, Int64]:
    """Returns the operator path of each piece of device work, the parent of each path, and the indices of the paths
    with the most time.
    """
    forest = Forest(above)
    kept = np.arange(len(above))
    if len(above) > MOST_PATHS:
        total = forest.sums(sum_by(owner, dur_ns, len(above)))
        # A parent path has at least as much time and is less deep, so it is always included.
        kept = np.sort(np.lexsort((forest.depth, -total))[:MOST_PATHS])
    place = places_of(kept, len(above))
    nearest = np.append(inherit(place[: len(above)], above), np.int32(MISSING))
    return nearest[owner].astype(np.int64), place[above[kept]], kept


class Paths(msgspec.Struct, frozen=True, eq=False):
    """Operator paths of one side, and the device work of the paths."""

    parent: Int32
    name: list[str]
    shape: list[str]
    owner: Int64
    """Path of each row in ``work``; -1 = no operator."""
    work: pa.Table
    """Table with columns ``name``, ``calls`` and ``total_ns``."""

    @property
    def total_ns(self) -> int:
        return int(self.work["total_ns"].to_numpy().sum())

    def keys(self, with_shape: bool) -> list[tuple[str, str]]:
        """Returns the match key of each path: the name of the innermost operator.

        If ``with_shape`` is set, the key also contains the input shapes.
        """
        return list(zip(self.name, self.shape if with_shape else [""] * len(self.name), strict=True))

    def shared(self, other: Paths, with_shape: bool = False) -> Int32:
        """Returns, for each row in ``work``, the innermost enclosing operator that exists on both sides (-1 = none)."""
        theirs = {key for key in other.keys(with_shape) if key[1] or not with_shape}
        common = np.fromiter((key in theirs for key in self.keys(with_shape)), np.bool_, len(self.name))
        nearest = inherit(np.where(common, np.arange(len(common)), MISSING).astype(np.int32), self.parent)
        return np.append(nearest, np.int32(MISSING))[self.owner]

    def ratio(self, other: Paths, with_shape: bool = False) -> float:
        """Returns the share of device time that was launched in operators that exist on both sides."""
        time = self.work["total_ns"].to_numpy()
        return float(time[self.shared(other, with_shape) != MISSING].sum() / max(self.total_ns, 1))

    def operators(self, other: Paths) -> list[str]:
        """Returns the operator of each row in ``work``.

        The operator is the innermost enclosing operator on both sides, otherwise the top-level operator.
        """
        at = self.shared(other)
        outermost = np.append(roots_of(self.parent), np.int32(MISSING))[self.owner]
        at = np.where(at == MISSING, outermost, at)
        names = [*self.name, NO_OPERATOR]  # the last entry is for -1
        return [names[place] for place in at.tolist()]


def paths_of(part: Part) -> Paths:
    """Reads the tables of ``path_frames`` from a part."""
    nodes, work = part.frames[PATHS].data, part.frames[WORK].data
    return Paths(
        parent=nodes["parent_path"].to_numpy().astype(np.int32),
        name=nodes["name"].to_pylist(),
        shape=[text or "" for text in nodes["input_shape"].to_pylist()],
        owner=work["path_node"].to_numpy(),
        work=work,
    )
