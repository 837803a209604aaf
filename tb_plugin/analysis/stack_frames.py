"""The frames of all stacks of a trace: which calls, on which thread, around each other, and how much time is their own.

Every nanosecond in which a thread is in a call belongs to one frame: of those that are open the one that began last. So
the own times of a thread's frames sum to the time in which it is in any, also where calls cross.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.code_owner import ADDRESS, package_of
from tb_plugin.lib.groupby import numbered, stable_order
from tb_plugin.lib.model_cache import remembered
from tb_plugin.model.trace.schema import MISSING, NO_OPERATOR, EventKind, of_kind
from tb_plugin.model.trace.steps.windows import STEP_NAME
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import innermost, latest_open, nest, parents_among

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
UInt8 = npt.NDArray[np.uint8]
Bool = npt.NDArray[np.bool_]

_PYTHON = (EventKind.PYTHON, EventKind.MODULE, EventKind.ANNOTATION)
_CALLS = (EventKind.OPERATOR, EventKind.RUNTIME)
FRAMES: dict[str, tuple[EventKind, ...]] = {"both": (*_PYTHON, *_CALLS), "python": _PYTHON, "operators": _CALLS}
"""What the frames of a stack are. Runtime calls belong to the operators: what they took is no time of the operator."""
REST = {"both": NO_OPERATOR, "python": "(no Python call)", "operators": NO_OPERATOR}
"""Names of the place that carries device work which no frame launched, by what the frames are."""
_LINE = re.compile(r"\(\d+\)")
"""A line of Python in a name."""
_BOOTSTRAP = re.compile(r"(?:.*[/\\])?threading\.py\(\d+\): _bootstrap")
"""The call that every thread of Python's ``threading`` begins with: whatever it is recorded under, it has no caller."""


@dataclass(frozen=True, eq=False)
class Frames:
    """All calls that are frames, by time; times in nanoseconds, whichever steps are chosen."""

    row: Int64
    parent: Int32
    """Position among them, -1 = none."""
    thread: Int32
    """Number of the thread (``thread_numbers``)."""
    own_ns: Int64


@dataclass(frozen=True, eq=False)
class Labels:
    """What frames are called: names that differ in an object's address alone are one. Those of ``REST`` come last."""

    of: Int32
    """Position in ``texts`` by string id."""
    texts: pa.Array


@dataclass(frozen=True, eq=False)
class Starts:
    """The calls that threads of ``threading`` begin with, by time, and which thread each opens."""

    row: Int64
    thread: Int32
    parent: Int32
    ordinal: Int64
    """0: it is the thread of the track; else a further one that was recorded under the same id."""


@remembered
def labels_of(trace: TraceTable) -> Labels:
    """Returns the label of every string of a trace."""
    encoded = pc.replace_substring_regex(trace.strings.array, ADDRESS, "").dictionary_encode()
    rest = pa.array([*REST.values()], encoded.dictionary.type)
    return Labels(encoded.indices.to_numpy().astype(np.int32), pa.concat_arrays([encoded.dictionary, rest]))


@remembered
def thread_starts(trace: TraceTable) -> Starts:
    """Returns where threads begin. A further ``_bootstrap`` of a track, or one inside a call, opens a thread of its own."""
    begins = trace.strings.where(lambda text: _BOOTSTRAP.fullmatch(text) is not None)[trace.name]
    rows = np.flatnonzero(begins & (trace.kind == EventKind.PYTHON))
    track = trace.track[rows]
    ordinal = np.zeros(len(rows), np.int64)
    for number in np.unique(track):
        here = np.flatnonzero(track == number)
        ordinal[here] = np.arange(len(here)) + int(trace.python_parent[rows[here[0]]] != MISSING)
    thread = track.copy()
    further = np.flatnonzero(ordinal)
    thread[further] = len(trace.tracks) + np.arange(len(further))
    return Starts(rows, thread, nest(track, trace.start_ns[rows], trace.ends(rows)).parent, ordinal)


def thread_numbers(trace: TraceTable, rows: Int64) -> Int32:
    """Returns the thread of each host row: its track, or of threads under one id the one that began last and is open."""
    starts = thread_starts(trace)
    track = trace.track[rows]
    if not starts.ordinal.any():
        return track
    first, last = trace.start_ns[starts.row], trace.ends(starts.row)
    found = innermost(trace.track[starts.row], first, last, starts.parent, track, trace.start_ns[rows])
    return np.where(found == MISSING, track, starts.thread[found]).astype(np.int32)


@remembered
def rows_with_stacks(trace: TraceTable) -> Int64:
    """Returns the operators and calls whose stated call stacks stand for Python calls: none where those are recorded."""
    python = trace.name[trace.kind == EventKind.PYTHON]
    if trace.strings.where(lambda text: _LINE.search(text) is not None)[python].any():
        return np.empty(0, np.int64)
    return np.sort(trace.operators.row[trace.operators.stack != MISSING]).astype(np.int64)


@remembered
def stack_frames(trace: TraceTable, of: str, fold: str) -> Frames:
    """Returns the frames of these kinds, of Python also what states a call stack. Steps are no frames: one chooses them."""
    wanted = of_kind(trace.kind, *FRAMES[of])
    if of == "python":
        wanted[rows_with_stacks(trace)] = True
    ranges = wanted & (trace.kind == EventKind.ANNOTATION)
    row = np.flatnonzero(wanted & ~ranges)
    thread, start, end = thread_numbers(trace, row), trace.start_ns[row], trace.ends(row)
    if ranges.any():
        steps = trace.strings.where(lambda text: STEP_NAME.fullmatch(text) is not None)[trace.name]
        row, thread, start, end = _with_ranges(trace, np.flatnonzero(ranges & ~steps), row, thread, start, end)
    parent = nest(thread, start, end).parent
    if fold == "framework":
        kept = np.flatnonzero(~_folded(trace, row, parent))
        row, thread, start, end, parent = row[kept], thread[kept], start[kept], end[kept], parents_among(parent, kept)
    if trace.coverage.whole is not None:
        # As everywhere: of a call that outlives the window only the time inside is its own.
        start, end = (np.clip(time, trace.coverage.start_ns, trace.coverage.end_ns) for time in (start, end))
    return Frames(row, parent, thread, own_times(thread, start, end))


def _with_ranges(
    trace: TraceTable, ranges: Int64, row: Int64, thread: Int32, start: Int64, end: Int64
) -> tuple[Int64, Int32, Int64, Int64]:
    """Frames with the named ranges among them, by time.

    A range begins inside the call that opens it (``__enter__``) and ends inside the one that closes it: it becomes a frame
    from the end of the one to the begin of the other.
    """
    owner, first, last = thread_numbers(trace, ranges), trace.start_ns[ranges], trace.ends(ranges)
    parent = nest(thread, start, end).parent
    opened = innermost(thread, start, end, parent, owner, first)
    closed = innermost(thread, start, end, parent, owner, last - 1)
    begin, finish = first.copy(), last.copy()
    while (at := np.flatnonzero(opened != MISSING)).size:
        call = opened[at]
        crossing = (start[call] < first[at]) & (end[call] < last[at])
        begin[at[crossing]] = end[call[crossing]]
        opened[at] = np.where(end[call] < last[at], parent[call], MISSING)
    while (at := np.flatnonzero(closed != MISSING)).size:
        call = closed[at]
        crossing = (start[call] > first[at]) & (end[call] > last[at])
        finish[at[crossing]] = start[call[crossing]]
        closed[at] = np.where(start[call] > first[at], parent[call], MISSING)
    some = begin < finish
    row, thread = np.concatenate((row, ranges[some])), np.concatenate((thread, owner[some]))
    start, end = np.concatenate((start, begin[some])), np.concatenate((end, finish[some]))
    order = np.lexsort((row, start - end, start))
    return row[order], thread[order], start[order], end[order]


def _folded(trace: TraceTable, row: Int64, parent: Int32) -> Bool:
    """Calls of a framework that itself made: inside another Python call of one, or inside a module's call."""
    name, kind = trace.name[row], trace.kind[row]
    # One more flag at the end is for those without a parent.
    framework = np.append(
        trace.strings.where(lambda text: package_of(text)[1])[name] & (kind == EventKind.PYTHON), False
    )
    inside = framework | np.append(kind == EventKind.MODULE, False)
    folded: Bool = framework[:-1] & inside[parent]
    return folded


def own_times(thread: Int32, start: Int64, end: Int64) -> Int64:
    """Returns the time in which each call, by start, is the last one that began of those that are open on its thread."""
    own = np.zeros(len(start), np.int64)
    of, count = numbered(thread)
    order = stable_order(of)
    for rows in np.split(order, np.searchsorted(of[order], np.arange(1, count))) if count else []:
        time, owner = latest_open(start[rows], end[rows])
        lasting = np.diff(time)
        held = owner[:-1] != MISSING
        # Sums stay below 2^53 ns (104 days), so float64 accumulates them exactly.
        own[rows] = np.bincount(owner[:-1][held], weights=lasting[held], minlength=len(rows)).astype(np.int64)
    return own
