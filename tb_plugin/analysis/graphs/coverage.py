"""Device time that is matched to operators, modules and phases."""

from __future__ import annotations

from enum import IntEnum

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.annotations import launched_by
from tb_plugin.analysis.graphs.origins import Way, origins_of
from tb_plugin.analysis.graphs.scopes import scopes_around
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
UInt8 = npt.NDArray[np.uint8]
Bool = npt.NDArray[np.bool_]


class Tie(IntEnum):
    """How device work was matched. For replays, the values are those of ``Way``."""

    ANNOTATION = Way.ANNOTATION
    CAPTURE = Way.CAPTURE
    CAPTURE_TRACE = Way.CAPTURE_TRACE
    EAGER = Way.EAGER
    GRAPH = Way.GRAPH
    """Matched to the scopes that enclose the graph launch."""
    LAUNCHED = 5
    """Matched to the scopes that enclose the launch of the work."""
    NONE = 6


_OPERATOR = (EventKind.OPERATOR,)
_MODULE = (EventKind.MODULE, EventKind.ANNOTATION)
_ANY = (*_OPERATOR, *_MODULE)


class Coverage(msgspec.Struct, frozen=True, eq=False):
    """Sums of device time in nanoseconds.

    Each array has one value per ``Tie``; the sum of the values is ``total_ns``.
    """

    total_ns: int
    before_ns: int
    """Device time of work whose operator is known even if captures are not used."""
    operator: Int64
    module: Int64
    any: Int64


def coverage(trace: TraceTable, rows: Int64) -> Coverage:
    """Returns how much device time was matched. ``rows`` are kernels, copies and memsets."""
    operator, module, either = tie_of_rows(trace, rows)
    dur = trace.dur_ns[rows]
    return Coverage(
        total_ns=int(dur.sum()),
        before_ns=int(dur[trace.operator[rows] != MISSING].sum()),
        operator=_sums(operator, dur),
        module=_sums(module, dur),
        any=_sums(either, dur),
    )


def tie_of_rows(trace: TraceTable, rows: Int64) -> tuple[UInt8, UInt8, UInt8]:
    """Returns three ``Tie`` values for each row: how it is matched to an operator, how it is matched to a module or
    phase, and how it is matched to any of the three.
    """
    origins = origins_of(trace)
    replayed = np.isin(rows, origins.work)
    around, outer = scopes_around(trace, launched_by(trace, rows))
    place = np.searchsorted(origins.work, rows[replayed])
    inner = np.full(len(rows), MISSING, np.int32)
    inner[replayed] = origins.scope[place]
    way = np.full((2, len(rows)), Way.GRAPH, np.uint8)
    way[:, replayed] = origins.way[place], origins.module_way[place]
    open_there = outer != MISSING
    own = trace.operator[rows] != MISSING

    def tie(kinds: tuple[EventKind, ...], way: UInt8, by_launch: Bool, by_graph: Bool) -> UInt8:
        is_tied = origins.scopes.nearest(*kinds)[inner] != MISSING
        other = np.where(replayed & by_graph, Tie.GRAPH, Tie.NONE)
        other = np.where(~replayed & by_launch, Tie.LAUNCHED, other)
        return np.where(is_tied, way, other).astype(np.uint8)

    in_module = around.nearest(*_MODULE)[outer] != MISSING
    operator = tie(_OPERATOR, way[0], own, own)
    module = tie(_MODULE, way[1], in_module, open_there)
    either = tie(_ANY, way[1], own | in_module, open_there | own)
    return operator, module, np.where(operator < Tie.GRAPH, operator, either).astype(np.uint8)


def _sums(tie: UInt8, dur: Int64) -> Int64:
    total = np.zeros(len(Tie), np.int64)
    np.add.at(total, tie, dur)
    return total
