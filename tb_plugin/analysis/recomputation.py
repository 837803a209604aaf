"""Recomputation: forward work that is repeated in the backward pass.

The usual reason is activation checkpointing.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.annotations import launched_by
from tb_plugin.analysis.backward import BackwardOperators, backward_operators
from tb_plugin.analysis.metrics import CHOSEN, SUM, define
from tb_plugin.analysis.module_paths import BETWEEN, module_paths
from tb_plugin.analysis.parallelism.roles import PIPELINE, roles_of
from tb_plugin.analysis.range_patterns import BACKWARD, name_matches, search_pattern
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import group, sum_by
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import innermost_at, nest

# Tracks, starts and ends.
Spans = tuple[Int32, Int64, Int64]


class Sign(IntEnum):
    """The evidence by which a recomputation is recognized."""

    FRAME = 0
    """The enclosing Python function runs forward code again."""
    FUNCTION = 1
    """The enclosing backward operator runs forward code again."""
    SEQUENCE = 2
    """The recomputed operators are inside a backward operator and have sequence numbers that no backward pass uses."""


class Recomputed(msgspec.Struct, frozen=True, eq=False):
    """Recomputations, sorted by start: time ranges on threads, and the device work that was launched in these
    ranges.

    Nested backward passes and transfers between pipeline stages are excluded.
    """

    track: Int32
    start: Int64
    end: Int64
    sign: npt.NDArray[np.uint8]
    host_ns: Int64
    """Duration of each recomputation, excluding nested backward passes."""
    work: Int64
    """Rows of the device work launched by recomputations."""
    of: Int64
    """For each row of ``work``, the index of the recomputation that launched it."""
    operator: Int64
    operator_of: Int64
    """For each row of ``operator``, the index of the recomputation that contains it."""
    passes: Int64
    """Rows of the outermost backward operators inside recomputations. Their time does not count as recomputation."""
    first: Int64
    """Row of the first operator or launch in each recomputation. The recomputation belongs to the step of this row."""

    def __len__(self) -> int:
        return len(self.start)

    def at(self, track: Int32, time: Int64) -> Int64:
        """Returns the index of the recomputation that is active on a track at each time (-1 = none)."""
        around = nest(self.track, self.start, self.end).parent
        return innermost_at(self.track, self.start, self.end, around, track, time).astype(np.int64)


METRICS = define(
    CHOSEN,
    "ns",
    {
        "recomputed_device_ns": ("Recomputed", "Device time of forward code rerun in the backward pass.", SUM),
        "recomputed_host_ns": ("Recomputed on host", "Host time of forward code rerun in the backward pass.", SUM),
    },
)
_NONE = np.empty(0, np.int64)
NOTHING = Recomputed(
    _NONE.astype(np.int32), _NONE, _NONE, _NONE.astype(np.uint8), _NONE, _NONE, _NONE, _NONE, _NONE, _NONE, _NONE
)


@cached_by_argument
def recomputations(trace: TraceTable) -> Recomputed:
    frames = np.flatnonzero(
        of_kind(trace.kind, EventKind.PYTHON) & name_matches(trace, trace.recorder.stages.recomputing)
    )
    functions = np.flatnonzero(
        (trace.kind == EventKind.OPERATOR) & name_matches(trace, trace.recorder.operators.recomputing)
    )
    noting = _noting(trace)
    if not (len(frames) or len(functions) or len(noting)):
        return NOTHING
    every = backward_operators(trace)
    functions = np.intersect1d(functions, every.function)
    parts = [(trace.track[rows], trace.start_ns[rows], trace.ends(rows)) for rows in (frames, functions)] + [
        _stretches(trace, every, noting)
    ]
    signs = [np.full(len(part[0]), sign, np.uint8) for sign, part in zip(Sign, parts, strict=True)]
    track, start, end = (np.concatenate([part[i] for part in parts]) for i in range(3))
    sign = np.concatenate(signs)
    # Among equal ranges, the one with the most reliable sign comes first and is kept.
    order = np.lexsort((sign, -end, start))
    track, start, end, sign = track[order], start[order], end[order], sign[order]
    kept = _outermost(trace, every, (track, start, end))
    return _with_work(trace, every, (track[kept], start[kept], end[kept]), sign[kept])


def _noting(trace: TraceTable) -> Int64:
    """Returns operators with a sequence number directly in backward operators; none if a backward pass is differentiated."""
    known = trace.operators
    row: Int64 = known.row[(known.sequence != MISSING) & (known.forward_thread <= 0)].astype(np.int64)
    row = row[(trace.kind[row] == EventKind.OPERATOR) & (trace.operator[row] != MISSING)]
    if not len(row):
        return row
    backward = name_matches(trace, search_pattern(BACKWARD))
    row = row[backward[trace.operator[row]] & ~backward[row]]
    if not len(row):
        return row
    every = backward_operators(trace)
    by = np.flatnonzero(every.forward != MISSING)
    made_in = every.of[every.forward[by]]
    # A backward operator inside the numbered one is part of the recomputation (reentrant checkpoints).
    return row[:0] if ((made_in != MISSING) & (made_in != every.within[by])).any() else row


def _stretches(trace: TraceTable, every: BackwardOperators, row: Int64) -> Spans:
    """Returns the time from the first to the last operator of ``row`` inside each backward operator."""
    groups = group(every.of[row])
    return trace.track[row[groups.first]], groups.min(trace.start_ns[row]), groups.max(trace.ends(row))


def _begins(trace: TraceTable, every: BackwardOperators) -> Int64:
    """Returns the start time of each backward operator. The last entry is for index -1 and is earlier than all times."""
    return np.append(trace.start_ns[every.row], np.iinfo(np.int64).min)


def _outermost(trace: TraceTable, every: BackwardOperators, spans: Spans) -> Bool:
    """Returns a mask of the outermost time ranges. Ranges inside a nested backward pass also count as outermost."""
    track, start, end = spans
    around = nest(track, start, end).parent
    rows = every.row
    backward = innermost_at(trace.track[rows], trace.start_ns[rows], trace.ends(rows), every.within, track, start)
    found: Bool = (around == MISSING) | (np.append(start, 0)[around] < _begins(trace, every)[backward])
    return found


def _with_work(trace: TraceTable, every: BackwardOperators, spans: Spans, sign: npt.NDArray[np.uint8]) -> Recomputed:
    track, start, end = spans
    around = nest(track, start, end).parent
    begins = _begins(trace, every)

    def part_of(rows: Int64) -> Int64:
        """Returns the index of the recomputation that contains each host row (-1 = none)."""
        at = innermost_at(track, start, end, around, trace.track[rows], trace.start_ns[rows]).astype(np.int64)
        backward = every.of[rows]
        own = np.where(trace.kind[rows] == EventKind.OPERATOR, backward, every.of[trace.operator[rows]])
        inner = begins[own] > np.append(start, 0)[at]
        found: Int64 = np.where((at != MISSING) & ~inner, at, MISSING)
        return found

    operator = np.flatnonzero((trace.kind == EventKind.OPERATOR) & np.isin(trace.track, np.unique(track)))
    # If the recomputation is itself a backward operator, that one is not forward work.
    operator = operator[~name_matches(trace, search_pattern(BACKWARD))[operator]]
    of = part_of(operator)
    operator, of = operator[of != MISSING], of[of != MISSING]
    work = np.flatnonzero(of_kind(trace.kind, *DEVICE_WORK))
    source = launched_by(trace, work).astype(np.int64)
    work, source = work[source != MISSING], source[source != MISSING]
    at = part_of(source)
    work, source, at = work[at != MISSING], source[at != MISSING], at[at != MISSING]
    # Transfers between pipeline stages occur without any checkpoint.
    handed = _pipeline_transfers(trace, work)
    operator, of = (each[~np.isin(operator, trace.operator[work[handed]])] for each in (operator, of))
    work, source, at = work[~handed], source[~handed], at[~handed]
    inside = innermost_at(track, start, end, around, trace.track[every.row], trace.start_ns[every.row])
    begun = np.append(start, 0)[inside]
    inner = (inside != MISSING) & (begins[:-1] > begun) & (begins[every.within] <= begun)
    other = sum_by(np.where(inner, inside, MISSING), trace.dur_ns[every.row], len(start))
    first = np.full(len(start), len(trace), np.int64)
    np.minimum.at(first, of, operator)
    np.minimum.at(first, at, source)
    has_content = first < len(trace)  # recomputations without recorded content have no known cost
    place = np.cumsum(has_content) - 1
    return Recomputed(
        track=track[has_content],
        start=start[has_content],
        end=end[has_content],
        sign=sign[has_content],
        host_ns=(end - start - other)[has_content],
        work=work,
        of=place[at],
        operator=operator,
        operator_of=place[of],
        passes=every.row[inner],
        first=first[has_content],
    )


def _pipeline_transfers(trace: TraceTable, work: Int64) -> Bool:
    roles = roles_of(trace) if trace.is_collective[work].any() else None
    return np.zeros(len(work), np.bool_) if roles is None else np.isin(work, roles.row[roles.among(*PIPELINE)])


class CalledIn(msgspec.Struct, frozen=True, eq=False):
    """For each recomputation, the outermost module that encloses its first operator (-1 = none)."""

    of: Int64
    texts: list[str]

    def times(self, trace: TraceTable, found: Recomputed, chosen: Bool) -> Int64:
        """Returns the device time (else the host time) of the recomputations in ``chosen`` in each module."""
        kept = chosen[found.of]
        if len(found.work):
            return sum_by(self.of[found.of[kept]], trace.dur_ns[found.work[kept]], len(self.texts))
        return sum_by(self.of[chosen], found.host_ns[chosen], len(self.texts))


def called_in(trace: TraceTable, found: Recomputed) -> CalledIn:
    """Returns the module that is called again in each recomputation."""
    paths = module_paths(trace)
    path = paths.of[found.operator]
    known = np.flatnonzero(path != MISSING)[::-1]
    first = np.full(len(found), MISSING, np.int64)
    first[found.operator_of[known]] = path[known]  # in order of time, so the first is written last
    numbers = np.unique(first[first != MISSING])
    outer = [text.split(BETWEEN)[0] for text in paths.texts.take(numbers).to_pylist()]
    texts = sorted(set(outer))
    place = {text: at for at, text in enumerate(texts)}
    by_path = {number: place[text] for number, text in zip(numbers.tolist(), outer, strict=True)}
    return CalledIn(np.array([by_path.get(each, MISSING) for each in first.tolist()], np.int64), texts)
