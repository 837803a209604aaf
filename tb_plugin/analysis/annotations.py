"""Phases: annotations by name, names that differ in counters as one, and what lies in the calls of each.

An annotation is open on its own thread, and on the threads that work for that one meanwhile (the autograd engine's, while
``backward()`` waits for them): what these do and launch lies inside of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.backward import backward_roots, forward_operators, works_for
from tb_plugin.errors import BadRequest
from tb_plugin.lib.groupby import side_by_side, stable_order
from tb_plugin.lib.intervals import contains, union
from tb_plugin.lib.model_cache import remembered
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.model.trace.steps.windows import STEP_NAME
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import innermost, nest

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]

COUNTERS = r"\d+"
"""What names of one phase may differ in, unless a person says otherwise (RE2)."""
ANY = "*"
"""Stands in the name of a phase for what matched."""
MOST_LEVELS = 64
"""Annotations nested deeper are listed, and nothing is looked for inside of them (``looked_into``)."""
MOST_PAIRS = 8_000_000
"""So many (call, event) pairs are held, those of outer levels first: 100 bytes each while they are summed up."""
_LONGEST = 500
"""Characters of a pattern."""


@dataclass(frozen=True, eq=False)
class Phases:
    """Phases have ``labels`` by number, and ``of`` the number of each string id (-1: no annotation's name)."""

    labels: list[str]
    of: Int64


@remembered
def annotation_rows(trace: TraceTable) -> Bool:
    """Returns which rows are annotations, and calls of modules that were recorded as such for want of Python calls."""
    found = of_kind(trace.kind, EventKind.ANNOTATION, EventKind.MODULE)
    found[trace.python.row] = False
    return found


def phases_of(trace: TraceTable, pattern: str = "") -> Phases:
    """Returns the phases of all annotations of a trace. Raises BadRequest for a pattern that is none.

    Names are one phase when they are equal once every match of the pattern is replaced by ``ANY``. A name that is left
    alone by that stays as it is.
    """
    pattern = pattern or COUNTERS
    if len(pattern) > _LONGEST:
        raise BadRequest("The pattern is too long.", "pattern", f"Use at most {_LONGEST} characters.")
    ids = np.unique(trace.name[annotation_rows(trace)])
    names = trace.strings.take(ids)
    try:
        masked = pc.replace_substring_regex(names, pattern, ANY)
    except pa.ArrowInvalid as error:
        raise BadRequest(f"The pattern is not valid: {error}", pattern, "Correct it.") from error
    encoded = masked.dictionary_encode()
    of = encoded.indices.to_numpy()
    alone = np.bincount(of, minlength=1)[of] == 1 if len(of) else np.empty(0, np.bool_)
    labels = pc.if_else(pa.array(alone, pa.bool_()), names, masked)
    distinct = pc.unique(labels).sort()
    numbers = np.full(len(trace.strings) + 1, MISSING, np.int64)
    numbers[ids] = pc.index_in(labels, distinct).to_numpy()
    return Phases(distinct.to_pylist(), numbers)


def calls_of(trace: TraceTable, phase: str, pattern: str = "") -> Bool:
    """Returns which rows are calls of the phase of that name. Raises BadRequest when there is none."""
    phases = phases_of(trace, pattern)
    if phase not in phases.labels:
        shown = ", ".join(phases.labels[:20]) or "none"
        raise BadRequest(f"No such phase: {phase[:100]}.", "phase", f"The trace has: {shown}.")
    found: Bool = annotation_rows(trace) & (phases.of[trace.name] == phases.labels.index(phase))
    return found


def launched_by(trace: TraceTable, work: Int64) -> Int32:
    """Returns the row that device work stands at: its launch, without a recorded one the operator of its external id.

    A launch on another thread than that of its operator is a queue's, which works off what the program has handed over:
    the work stands at the operator.
    """
    launch, operator = trace.launch[work], trace.operator[work]
    queued = (launch != MISSING) & (operator != MISSING) & (trace.track[launch] != trace.track[operator])
    return np.where((launch != MISSING) & ~queued, launch, operator)


@remembered
def looked_into(trace: TraceTable) -> Bool:
    """Returns which rows are annotations inside of which something is looked for: outer levels, as far as the bounds allow.

    One bound for all that asks what lies in a phase, whatever was chosen.
    """
    row = np.flatnonzero(annotation_rows(trace))
    levels = _levels(nest(trace.track[row], trace.start_ns[row], trace.ends(row)).depth)[:MOST_LEVELS]
    operators = np.flatnonzero(trace.kind == EventKind.OPERATOR)
    forward = forward_operators(trace, operators)
    roots = forward[backward_roots(trace, operators, forward)]
    source = np.concatenate((launched_by(trace, np.flatnonzero(of_kind(trace.kind, *DEVICE_WORK))), roots))
    source = source[source != MISSING]
    found = np.zeros(len(trace), np.bool_)
    # On its thread and on that which it works for an event lies in one call of a level at most.
    bound = 2 * len(source) * len(levels) > MOST_PAIRS
    held = 0
    for level in levels:
        calls = row[level]
        held += int(open_at(trace, calls, trace.track[source], trace.start_ns[source]).sum()) if bound else 0
        if held > MOST_PAIRS:
            break
        found[calls] = True
    return found


class Calls:
    """Some annotations of a trace, by time: ``row``, and ``parent`` as a position among them (-1 = none).

    The parent of one that stands in no other on its thread is the innermost that is open on the thread it works for.
    """

    def __init__(self, trace: TraceTable, row: Int64) -> None:
        self.row = row
        self.track = trace.track[row]
        self.start, self.end = trace.start_ns[row], trace.ends(row)
        self._serves = works_for(trace)
        nesting = nest(self.track, self.start, self.end)
        counted = looked_into(trace)[row]
        levels = (rows[counted[rows]] for rows in _levels(nesting.depth))
        self._levels = [rows[stable_order(self.track[rows])] for rows in levels if len(rows)]
        self.parent = nesting.parent.copy()
        roots = np.flatnonzero(self.parent == MISSING)
        others = roots[self._serves[self.track[roots]] != self.track[roots]]
        for call, item in self._open(self._serves[self.track[others]], self.start[others]):
            # Levels come from the outermost: the last that is written stays.
            self.parent[others[item]] = call

    def around(self, track: Int32, time: Int64) -> tuple[Int64, Int64]:
        """Returns (call, moment) pairs: every call that is open at each moment, there or on the thread that it works for."""
        serves = self._serves[track]
        away = np.flatnonzero(serves != track)
        elsewhere = ((call, away[item]) for call, item in self._open(serves[away], time[away]))
        none = np.empty(0, np.int64)
        calls, items = zip((none, none), *elsewhere, *self._open(track, time), strict=True)
        return np.concatenate(calls), np.concatenate(items)

    def _open(self, track: Int32, time: Int64) -> Iterator[tuple[Int64, Int64]]:
        """For each level the (call, moment) pairs of calls of that level. Those of one thread never overlap."""
        for rows in self._levels:
            begin, end, at = side_by_side(
                (self.track[rows], self.start[rows]), (self.track[rows], self.end[rows]), (track, time)
            )
            last = np.searchsorted(begin, at, side="right") - 1
            item = np.flatnonzero((last >= 0) & (at < end[np.maximum(last, 0)]))
            if len(item):
                yield rows[last[item]], item


def _levels(depth: npt.NDArray[np.int16]) -> list[Int64]:
    """Positions of the calls of each level."""
    order = stable_order(depth)
    bounds = np.searchsorted(depth[order], np.arange(1, int(depth.max(initial=-1)) + 1))
    return np.split(order, bounds) if len(order) else []


def open_at(trace: TraceTable, calls: Int64, track: Int32, time: Int64) -> Bool:
    """Returns whether one of the calls is open at each moment, on its thread or on the thread that it works for."""
    serves = works_for(trace)
    found = np.zeros(len(time), np.bool_)
    for on in (track, serves[track]):
        begin, end, at = side_by_side(
            (trace.track[calls], trace.start_ns[calls]), (trace.track[calls], trace.ends(calls)), (on, time)
        )
        found |= contains(union(begin, end), at)
    return found


def inside(trace: TraceTable, calls: Int64, rows: Int64) -> Bool:
    """Returns which host rows begin while one of the calls is open, there or on the thread that theirs works for.

    A row that begins with a call on its thread and outlives it lies around it.
    """
    track, start = trace.track[rows], trace.start_ns[rows]
    found = open_at(trace, calls, track, start)
    begin, end, at, until = side_by_side(
        (trace.track[calls], trace.start_ns[calls]),
        (trace.track[calls], trace.ends(calls)),
        (track, start),
        (track, trace.ends(rows)),
    )
    whole = union(begin, end)
    if len(whole):
        place = np.maximum(np.searchsorted(whole.start, at, side="right") - 1, 0)
        found &= ~((at == whole.start[place]) & (until > whole.end[place]))
    return found


def annotation_around(trace: TraceTable, rows: npt.NDArray[np.integer]) -> Int32:
    """Returns the name (string id) of the innermost annotation open on the thread of each host row when it begins.

    -1 = none, also for a row of -1. Profiler steps are none.
    """
    known = np.flatnonzero(rows != MISSING)
    found = np.full(len(rows), MISSING, np.int32)
    found[known] = _annotations_at(trace, (trace.track[rows[known]], trace.start_ns[rows[known]]))[0]
    return found


def annotation_at(trace: TraceTable, track: Int32, time: Int64) -> Int32:
    """Returns the name (string id) of the innermost annotation open at each moment of a thread, -1 = none.

    Where none is open there, the innermost one of the thread that it works for. Profiler steps are none.
    """
    serves = np.append(works_for(trace), np.int32(MISSING))[track]
    own, there = _annotations_at(trace, (track, time), (serves, time))
    return np.where(own != MISSING, own, there)


def _annotations_at(trace: TraceTable, *points: tuple[Int32, Int64]) -> list[Int32]:
    is_step = trace.strings.where(lambda text: STEP_NAME.match(text) is not None)[trace.name]
    members = np.flatnonzero((trace.kind == EventKind.ANNOTATION) & ~is_step)
    track, start, end = trace.track[members], trace.start_ns[members], trace.ends(members)
    names = np.append(trace.name[members], np.int32(MISSING))
    parent = nest(track, start, end).parent
    return [names[innermost(track, start, end, parent, *point)] for point in points]
