"""Phases: annotations grouped by name, and the events inside these annotations.

Names that differ only in numbers form one phase. An annotation contains events on its own thread. It also contains
events on the autograd threads that its thread waits for in ``backward()``.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.backward import backward_roots, forward_operators, works_for
from tb_plugin.errors import BadRequest
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import Whole, side_by_side, stable_order
from tb_plugin.lib.intervals import contains, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.model.trace.served_work import Mode
from tb_plugin.model.trace.steps.annotations import match_annotations
from tb_plugin.model.trace.steps.windows import STEP_NAME
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import innermost_at, nest

COUNTERS = r"\d+"
"""Default RE2 pattern. Names that differ only in matches of the pattern belong to the same phase."""
# Placeholder for matched text in a phase name.
ANY = "*"
MOST_LEVELS = 64
"""Maximum nesting depth. Annotations at a greater depth are listed, but the events in them are not analyzed."""
MOST_PAIRS = 8_000_000
"""Maximum number of (annotation, event) pairs in memory, at 100 bytes each. Outer annotations come first."""
_MAX_PATTERN_CHARS = 500


class Phases(msgspec.Struct, frozen=True, eq=False):
    """Names of phases, and the phase index of each string id (-1 = not an annotation)."""

    labels: list[str]
    of: Int64


@cached_by_argument
def annotation_rows(trace: TraceTable) -> Bool:
    """Returns a mask of the annotations. Module calls recorded as annotations are included."""
    found = of_kind(trace.kind, EventKind.ANNOTATION, EventKind.MODULE)
    found[trace.python.row] = False
    return found


def phases_of(trace: TraceTable, pattern: str = "") -> Phases:
    """Returns the phases of all annotations. Raises BadRequest for an invalid pattern.

    Names that become equal when each match of ``pattern`` is replaced with ``ANY`` form a phase. A name that is
    equal to no other name keeps its original text.
    """
    pattern = pattern or COUNTERS
    if len(pattern) > _MAX_PATTERN_CHARS:
        raise BadRequest("The pattern is too long.", "pattern", f"Use at most {_MAX_PATTERN_CHARS} characters.")
    ids = np.unique(trace.name[annotation_rows(trace)])
    names = trace.strings.take(ids)
    try:
        masked = pc.replace_substring_regex(names, pattern, ANY)
    except pa.ArrowInvalid as error:
        raise BadRequest(f"The pattern is not valid: {error}", pattern, "Correct the pattern.") from error
    encoded = masked.dictionary_encode()
    of = encoded.indices.to_numpy()
    is_unique = np.bincount(of, minlength=1)[of] == 1 if len(of) else np.empty(0, np.bool_)
    labels = pc.if_else(pa.array(is_unique, pa.bool_()), names, masked)
    distinct = pc.unique(labels).sort()
    numbers = np.full(len(trace.strings) + 1, MISSING, np.int64)
    numbers[ids] = pc.index_in(labels, distinct).to_numpy()
    return Phases(distinct.to_pylist(), numbers)


def readable_phases(trace: TraceTable, phases: Phases) -> list[str | None]:
    """Returns a readable name for each phase of server steps, such as "Decode step, 32 requests (vLLM)"; else None."""
    patterns = trace.recorder.steps
    ids = np.flatnonzero(phases.of != MISSING)
    of = phases.of[ids]
    first, served = match_annotations(trace.strings.take(ids), patterns)
    readable: list[str | None] = [None] * len(phases.labels)
    is_step = np.ones(len(readable), np.bool_)
    is_step[of[(first == MISSING) | (served.mode == Mode.UNKNOWN)]] = False
    for phase in np.unique(of[is_step[of]]).tolist():
        mine = np.flatnonzero(of == phase)
        modes, batch = np.unique(served.mode[mine]), served.batch[mine]
        text = f"{Mode(int(modes[0])).word.capitalize()} step" if len(modes) == 1 else "Server step"
        low, high = int(batch.min()), int(batch.max())
        if low > 0:
            text += f", {low} request{'s' * (low > 1)}" if low == high else f", {low} to {high} requests"
        framework = patterns[int(first[mine[0]])].framework.partition(",")[0]
        readable[phase] = text if framework.startswith("a ") else f"{text} ({framework})"
    return readable


def calls_of(trace: TraceTable, phase: str, pattern: str = "") -> Bool:
    """Returns a mask of the annotations that belong to a phase. Raises BadRequest for an unknown phase."""
    phases = phases_of(trace, pattern)
    if phase not in phases.labels:
        shown = ", ".join(phases.labels[:20]) or "none"
        raise BadRequest(f"No such phase: {phase[:100]}.", "phase", f"The trace has: {shown}.")
    found: Bool = annotation_rows(trace) & (phases.of[trace.name] == phases.labels.index(phase))
    return found


def launched_by(trace: TraceTable, work: Int64) -> Int32:
    """Returns the row of the call that launched each device event. If the launch is unknown, returns the row of its
    operator; -1 = none.

    If the launch and the operator are on different threads, the launching thread only executes queued requests. In
    that case, the row of the operator is returned.
    """
    launch, operator = trace.launch[work], trace.operator[work]
    queued = (launch != MISSING) & (operator != MISSING) & (trace.track[launch] != trace.track[operator])
    return np.where((launch != MISSING) & ~queued, launch, operator)


@cached_by_argument
def looked_into(trace: TraceTable) -> Bool:
    """Returns a mask of the annotations whose events are analyzed. Outer annotations come first; ``MOST_LEVELS``
    and ``MOST_PAIRS`` limit their number.

    The result is the same for all views and selections.
    """
    row = np.flatnonzero(annotation_rows(trace))
    levels = _levels(nest(trace.track[row], trace.start_ns[row], trace.ends(row)).depth)[:MOST_LEVELS]
    operators = np.flatnonzero(trace.kind == EventKind.OPERATOR)
    forward = forward_operators(trace, operators)
    roots = forward[backward_roots(trace, operators, forward)]
    source = np.concatenate((launched_by(trace, np.flatnonzero(of_kind(trace.kind, *DEVICE_WORK))), roots))
    source = source[source != MISSING]
    found = np.zeros(len(trace), np.bool_)
    # On each level, at most one call on an event's thread and one on the thread waiting for it enclose the event.
    bound = 2 * len(source) * len(levels) > MOST_PAIRS
    pairs = 0
    for level in levels:
        calls = row[level]
        pairs += int(open_at(trace, calls, trace.track[source], trace.start_ns[source]).sum()) if bound else 0
        if pairs > MOST_PAIRS:
            break
        found[calls] = True
    return found


class Calls:
    """Annotations by time. ``parent`` (-1 = none) may be on the thread that waits for an autograd thread."""

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
            # Levels come from the outermost, so the innermost is written last.
            self.parent[others[item]] = call

    def around(self, track: Int32, time: Int64) -> tuple[Int64, Int64]:
        """Returns pairs of a call index and an index into ``time``. In each pair, the call is active at that time.

        A call is active on its own thread, and on the autograd threads for which its thread waits.
        """
        serves = self._serves[track]
        served = np.flatnonzero(serves != track)
        elsewhere = ((call, served[item]) for call, item in self._open(serves[served], time[served]))
        none = np.empty(0, np.int64)
        calls, items = zip((none, none), *elsewhere, *self._open(track, time), strict=True)
        return np.concatenate(calls), np.concatenate(items)

    def _open(self, track: Int32, time: Int64) -> Iterator[tuple[Int64, Int64]]:
        """Yields, for each nesting level, pairs of a call index and an index into ``time`` at which the call is active."""
        for rows in self._levels:
            begin, end, at = side_by_side(
                (self.track[rows], self.start[rows]), (self.track[rows], self.end[rows]), (track, time)
            )
            last = np.searchsorted(begin, at, side="right") - 1
            item = np.flatnonzero((last >= 0) & (at < end[np.maximum(last, 0)]))
            if len(item):
                yield rows[last[item]], item


def _levels(depth: npt.NDArray[np.int16]) -> list[Int64]:
    order = stable_order(depth)
    bounds = np.searchsorted(depth[order], np.arange(1, int(depth.max(initial=-1)) + 1))
    return np.split(order, bounds) if len(order) else []


def open_at(trace: TraceTable, calls: Int64, track: Int32, time: Int64) -> Bool:
    """Returns whether any of the calls is active at each time, on the thread or on the thread that waits for it."""
    serves = works_for(trace)
    found = np.zeros(len(time), np.bool_)
    for on in (track, serves[track]):
        begin, end, at = side_by_side(
            (trace.track[calls], trace.start_ns[calls]), (trace.track[calls], trace.ends(calls)), (on, time)
        )
        found |= contains(union(begin, end), at)
    return found


def starts_inside(trace: TraceTable, calls: Int64, rows: Int64) -> Bool:
    """Returns, for each host row, whether the row starts inside one of the calls.

    The call may be on the row's thread or on the thread that waits for the row's thread. If a row starts at the
    same time as a call but ends later, the row is not inside the call.
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


def annotation_around(trace: TraceTable, rows: Whole) -> Int32:
    """Returns the name of the innermost annotation (not a step) when each host row starts; -1 = none."""
    known = np.flatnonzero(rows != MISSING)
    found = np.full(len(rows), MISSING, np.int32)
    found[known] = _annotations_at(trace, (trace.track[rows[known]], trace.start_ns[rows[known]]))[0]
    return found


def annotation_at(trace: TraceTable, track: Int32, time: Int64) -> Int32:
    """Returns the name (string id) of the innermost annotation on a thread at each time (-1 = none).

    If the thread has no annotation at that time, the annotation of the thread that waits for it is used. Profiler
    steps are ignored.
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
    return [names[innermost_at(track, start, end, parent, *point)] for point in points]
