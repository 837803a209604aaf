"""Stack frames of all threads: nesting and self times."""

from __future__ import annotations

import re

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.code_owner import ADDRESS, package_of
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import number_groups, stable_order
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, NO_OPERATOR, EventKind, of_kind
from tb_plugin.model.trace.steps.windows import STEP_NAME
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import innermost_at, latest_open, nest, parents_among

_PYTHON = (EventKind.PYTHON, EventKind.MODULE, EventKind.ANNOTATION)
_CALLS = (EventKind.OPERATOR, EventKind.RUNTIME)
# Kinds of frames. Runtime calls belong to their operators, so they are no frames.
FRAMES: dict[str, tuple[EventKind, ...]] = {"both": (*_PYTHON, *_CALLS), "python": _PYTHON, "operators": _CALLS}
# Name of the node for device work that no frame launched.
REST = {"both": NO_OPERATOR, "python": "(no Python call)", "operators": NO_OPERATOR}
# A Python line number in a name.
_PYTHON_LINE = re.compile(r"\(\d+\)")
# The first call of every ``threading`` thread, which has no caller.
_THREAD_ENTRY = re.compile(r"(?:.*[/\\])?threading\.py\(\d+\): _bootstrap")


class Frames(msgspec.Struct, frozen=True, eq=False):
    """All frames of a trace in all steps, sorted by time. Times are in nanoseconds."""

    row: Int64
    parent: Int32
    """Index of the enclosing frame (-1 = none)."""
    thread: Int32
    own_ns: Int64


class Labels(msgspec.Struct, frozen=True, eq=False):
    """Frame labels: names from which object addresses are removed. The labels in ``REST`` come last."""

    of: Int32
    """For each string id, the index of its label in ``texts``."""
    texts: pa.Array


class Starts(msgspec.Struct, frozen=True, eq=False):
    """First calls of the threads that ``threading`` started, sorted by time, and the number of each started thread."""

    row: Int64
    thread: Int32
    parent: Int32
    ordinal: Int64
    """0 for the first thread of a track; 1, 2, ... for later threads that have the same thread id."""


@cached_by_argument
def labels_of(trace: TraceTable) -> Labels:
    """Returns the label of each string in a trace."""
    encoded = pc.replace_substring_regex(trace.strings.array, ADDRESS, "").dictionary_encode()
    rest = pa.array([*REST.values()], encoded.dictionary.type)
    return Labels(encoded.indices.to_numpy().astype(np.int32), pa.concat_arrays([encoded.dictionary, rest]))


@cached_by_argument
def thread_starts(trace: TraceTable) -> Starts:
    """Returns the calls with which threads start in a trace.

    On each track, every ``_bootstrap`` call after the first starts a new thread. The first call also starts a new
    thread if another Python call encloses it.
    """
    begins = trace.strings.where(lambda text: _THREAD_ENTRY.fullmatch(text) is not None)[trace.name]
    rows = np.flatnonzero(begins & (trace.kind == EventKind.PYTHON))
    track = trace.track[rows]
    ordinal = np.zeros(len(rows), np.int64)
    for number in np.unique(track):
        on_track = np.flatnonzero(track == number)
        ordinal[on_track] = np.arange(len(on_track)) + int(trace.python_parent[rows[on_track[0]]] != MISSING)
    thread = track.copy()
    further = np.flatnonzero(ordinal)
    thread[further] = len(trace.tracks) + np.arange(len(further))
    return Starts(rows, thread, nest(track, trace.start_ns[rows], trace.ends(rows)).parent, ordinal)


def thread_numbers(trace: TraceTable, rows: Int64) -> Int32:
    """Returns the thread of each host row: its track, or the last thread started there before it."""
    starts = thread_starts(trace)
    track = trace.track[rows]
    if not starts.ordinal.any():
        return track
    first, last = trace.start_ns[starts.row], trace.ends(starts.row)
    found = innermost_at(trace.track[starts.row], first, last, starts.parent, track, trace.start_ns[rows])
    return np.where(found == MISSING, track, starts.thread[found]).astype(np.int32)


@cached_by_argument
def rows_with_stacks(trace: TraceTable) -> Int64:
    """Returns the rows with recorded stacks; none if the trace contains Python calls."""
    python = trace.name[trace.kind == EventKind.PYTHON]
    if trace.strings.where(lambda text: _PYTHON_LINE.search(text) is not None)[python].any():
        return np.empty(0, np.int64)
    return np.sort(trace.operators.row[trace.operators.stack != MISSING]).astype(np.int64)


@cached_by_argument
def stack_frames(trace: TraceTable, of: str, fold: str) -> Frames:
    """Returns the frames of these kinds, excluding profiler steps. Python frames include rows that have recorded
    stacks.

    ``of`` is a key of ``FRAMES``. If ``fold`` is "framework", internal calls of the framework are excluded.
    """
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
    if trace.coverage.full is not None:
        # As everywhere, only the time inside the window counts.
        start, end = (np.clip(time, trace.coverage.start_ns, trace.coverage.end_ns) for time in (start, end))
    return Frames(row, parent, thread, own_times(thread, start, end))


def _with_ranges(
    trace: TraceTable, ranges: Int64, row: Int64, thread: Int32, start: Int64, end: Int64
) -> tuple[Int64, Int32, Int64, Int64]:
    """Adds annotations to the frames, sorted by time.

    An annotation starts during a call of ``__enter__`` and ends during a call of ``__exit__``. The frame of an
    annotation lasts from the end of the ``__enter__`` call to the start of the ``__exit__`` call.
    """
    owner, first, last = thread_numbers(trace, ranges), trace.start_ns[ranges], trace.ends(ranges)
    parent = nest(thread, start, end).parent
    opened = innermost_at(thread, start, end, parent, owner, first)
    closed = innermost_at(thread, start, end, parent, owner, last - 1)
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
    """Returns a mask of framework calls that are made by framework code or by a module call."""
    name, kind = trace.name[row], trace.kind[row]
    # One more flag at the end is for frames without a parent.
    framework = np.append(
        trace.strings.where(lambda text: package_of(text)[1])[name] & (kind == EventKind.PYTHON), False
    )
    inside = framework | np.append(kind == EventKind.MODULE, False)
    folded: Bool = framework[:-1] & inside[parent]
    return folded


def own_times(thread: Int32, start: Int64, end: Int64) -> Int64:
    """Returns how long each call is the innermost call of its thread. Calls must be sorted by start."""
    own = np.zeros(len(start), np.int64)
    of, count = number_groups(thread)
    order = stable_order(of)
    for rows in np.split(order, np.searchsorted(of[order], np.arange(1, count))) if count else []:
        time, owner = latest_open(start[rows], end[rows])
        lasting = np.diff(time)
        held = owner[:-1] != MISSING
        # Sums stay below 2^53 ns (104 days), so float64 adds them exactly.
        own[rows] = np.bincount(owner[:-1][held], weights=lasting[held], minlength=len(rows)).astype(np.int64)
    return own
