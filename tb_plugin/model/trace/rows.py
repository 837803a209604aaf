"""Sorted rows and their nesting, for the assembly of a trace."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.model.trace import tree
from tb_plugin.model.trace.schema import EventKind, of_kind


class Rows(msgspec.Struct, frozen=True, eq=False):
    """Sorted rows of a trace, as columns. Rows with impossible times are excluded."""

    start: Int64
    end: Int64
    kind: npt.NDArray[np.uint8]
    track: Int32
    name: Int32
    correlation: Int64
    external_id: Int64
    process: Int32 | None = None
    """Process of each row in a file that was merged from several traces; None if ids are unique in the whole file."""

    def of(self, *kinds: EventKind) -> Int64:
        return np.flatnonzero(of_kind(self.kind, *kinds))


class Nests:
    """Nesting of rows. The nesting is cached for each set of event kinds."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._present = frozenset(np.flatnonzero(np.bincount(rows.kind)).tolist())
        self._found: dict[frozenset[int], tuple[Int64, tree.Nesting]] = {}

    def of(self, *kinds: EventKind) -> tuple[Int64, tree.Nesting]:
        key = self._present & frozenset(kinds)
        if key not in self._found:
            rows = self._rows
            members = rows.of(*kinds)
            self._found[key] = members, tree.nest(rows.track[members], rows.start[members], rows.end[members])
        return self._found[key]

    def parents(self, *kinds: EventKind) -> tuple[Int64, Int32, Bool]:
        """Returns the rows of these kinds, their parents as indices into them (-1 = none), and which partially overlap."""
        key = self._present & frozenset(kinds)
        for known, (everybody, nesting) in self._found.items():
            # Without partial overlaps, as in nearly all traces, the nesting of more kinds also gives that of fewer kinds.
            if key < known and not nesting.overlaps.any():
                members = self._rows.of(*kinds)
                parent = tree.parents_among(nesting.parent, np.searchsorted(everybody, members))
                return members, parent, np.zeros(len(members), np.bool_)
        members, nesting = self.of(*kinds)
        return members, nesting.parent, nesting.overlaps
