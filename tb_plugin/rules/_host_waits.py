"""Host calls that wait for a device, by reason."""

from __future__ import annotations

import re
from enum import IntEnum

import msgspec
import numpy as np
import pyarrow.compute as pc

from tb_plugin.analysis.backward import backward_operators
from tb_plugin.analysis.blocking_calls import profiler_waits, thread_handovers, waits_for_device
from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.copy_directions import copies_in_direction, copy_texts
from tb_plugin.analysis.parallelism.roles import OFFLOAD, roles_of
from tb_plugin.analysis.range_patterns import BACKWARD, DATALOADER, name_matches, search_pattern
from tb_plugin.analysis.simulate import Change
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import group
from tb_plugin.lib.intervals import Ranges, contains, intersect, join, measure, measure_within, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.rules._base import Scene

_PAGEABLE = "pageable"
OFTEN = 0.5
"""Minimum share of the steps that contain the call. Less frequent waits, such as those for checkpoints, are not a problem."""
_MOSTLY = 0.9
"""Minimum share of an operator's duration spent waiting, if the operator counts as a wait, like ``aten::item``."""
_PARTLY = 0.25
"""Minimum share of an operator's duration spent waiting. An operator below this share mostly does other work."""
_DEEP = 32
"""Maximum nesting depth of operators that is searched."""


class WaitReason(IntEnum):
    """Reasons why the host waits."""

    RESULT = 0
    """The host waits for a value from a device, or until all device work has ended."""
    COPY = 1
    """The host waits for a copy from host memory to a device."""
    BACKWARD = 2
    """A backward operator waits, but the corresponding forward operator does not."""
    OTHERS = 3
    """The data loader, the driver or the profiler waits."""


class HostWaits(msgspec.Struct, frozen=True, eq=False):
    """Calls in which the host waits, and the reason for each wait. Sorted by row."""

    row: Int64
    why: Int64
    copy: Int64
    """Row of a copy to a device, launched by the call or by the operator that encloses the call; -1 = none."""
    place: Int64
    """Row of the innermost enclosing operator, else of the call itself. Calls with the same value count as one wait."""

    def of(self, why: WaitReason) -> Int64:
        """Returns the indices of the calls that wait for this reason."""
        return np.flatnonzero(self.why == why)


@cached_by_argument
def copies_to_device(trace: TraceTable) -> Int64:
    """Returns the rows of launched copies from host to device, except those of offloaded tensors."""
    copies = np.flatnonzero((trace.kind == EventKind.MEMCPY) & (trace.launch != MISSING))
    roles = roles_of(trace)
    return np.setdiff1d(copies_in_direction(trace, "htod", copies), roles.row[roles.among(*OFFLOAD)])


def from_pageable(trace: TraceTable, copies: Int64) -> Bool:
    """Returns, for each copy, whether the profiler reports pageable memory as its source."""
    texts = trace.strings.take(copy_texts(trace, copies))
    found: Bool = pc.match_substring(texts, _PAGEABLE, ignore_case=True).to_numpy(zero_copy_only=False)
    return found


@cached_by_argument
def host_waits(trace: TraceTable) -> HostWaits:
    """Returns the calls in which the host waits, including all calls that copy from pageable memory."""
    copies = copies_to_device(trace)
    call = trace.launch[copies]
    waits = waits_for_device(trace) & (trace.kind == EventKind.RUNTIME)
    waits[call[from_pageable(trace, copies)]] = True
    row = np.flatnonzero(waits)
    made = np.full(len(trace) + 1, MISSING, np.int64)
    made[trace.operator[call]] = copies
    made[MISSING] = MISSING  # no operator
    made[call] = copies
    own, around = made[row], made[trace.operator[row]]
    copy = np.where(own != MISSING, own, around)
    why = np.where(copy != MISSING, WaitReason.COPY, WaitReason.RESULT)
    why[_in_backward(trace, row)] = WaitReason.BACKWARD
    why[_of_others(trace, row)] = WaitReason.OTHERS
    place = np.where(trace.operator[row] == MISSING, row, trace.operator[row])
    return HostWaits(row, why, copy, place)


def _of_others(trace: TraceTable, row: Int64) -> Bool:
    """Returns whether each call is part of another wait: of a call, data loading, the profiler or another thread."""
    outer = trace.parent[row]
    nested = (outer != MISSING) & (trace.kind[outer] == EventKind.RUNTIME)
    theirs = np.flatnonzero(
        name_matches(trace, search_pattern(DATALOADER)) | name_matches(trace, trace.recorder.host.profiling)
    )
    hosts = theirs[of_kind(trace.kind[theirs], EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.PYTHON)]
    found: Bool = nested | np.isin(trace.track[row], thread_handovers(trace)[1])
    for track in np.unique(trace.track[hosts]).tolist():
        mine = hosts[trace.track[hosts] == track]
        at = trace.track[row] == track
        found[at] |= contains(union(trace.start_ns[mine], trace.ends(mine)), trace.start_ns[row[at]])
    return found


def _in_backward(trace: TraceTable, row: Int64) -> Bool:
    """Returns, for each call, whether its caller is a backward operator that waits only in deterministic mode."""
    found = np.zeros(len(row), np.bool_)
    node = _around(trace, row, name_matches(trace, search_pattern(BACKWARD)))
    inside = np.flatnonzero(node != MISSING)
    if not len(inside) or not trace.recorder.host.deterministic:
        return found
    every = backward_operators(trace)
    deterministic = re.compile(trace.recorder.host.deterministic)
    fits = np.array([deterministic.search(text) is not None for text in every.names.to_pylist()], np.bool_)
    at = every.of[node[inside]]
    waiting = _with_around(trace, row)
    forward = every.forward[at]
    found[inside] = (at != MISSING) & fits[every.name[at]] & (forward != MISSING) & ~waiting[forward]
    return found


def _around(trace: TraceTable, row: Int64, chosen: Bool) -> Int64:
    found = np.full(len(row), MISSING, np.int64)
    operator = trace.operator[row].astype(np.int64)
    for _ in range(_DEEP):
        there = (operator != MISSING) & (found == MISSING)
        if not there.any():
            break
        hit = there & chosen[operator]
        found[hit] = operator[hit]
        operator = np.where(there, trace.operator[operator], MISSING)
    return found


def _with_around(trace: TraceTable, row: Int64) -> Bool:
    """Returns a row mask of the operators that enclose at least one of these rows."""
    flags = np.zeros(len(trace), np.bool_)
    operator = trace.operator[row]
    for _ in range(_DEEP):
        operator = np.unique(operator[operator != MISSING])
        if not len(operator):
            break
        flags[operator] = True
        operator = trace.operator[operator]
    return flags


def top_level_waiter(trace: TraceTable, place: Int64) -> Int64:
    """Returns, for each wait, the outermost of the enclosing operators that spend almost all their time waiting."""
    for _ in range(_DEEP):
        outer = trace.operator[place]
        mostly_waits = (outer != MISSING) & (trace.dur_ns[place] >= _MOSTLY * trace.dur_ns[outer])
        if not mostly_waits.any():
            break
        place = np.where(mostly_waits, outer, place).astype(np.int64)
    return place


def wait_ranges(s: Scene, row: Int64, place: Int64) -> Ranges:
    """Returns the host time of these calls, and of operators that only wait if a device is idle afterwards."""
    trace, waits = s.trace, s.covered(row)
    by_place = group(place)
    partly_waits = by_place.sum(trace.dur_ns[row])[by_place.of] >= _PARTLY * trace.dur_ns[place]
    return join(waits, intersect(s.covered(top_level_waiter(trace, place[partly_waits])), s.with_idle(waits)))


class Waiting(msgspec.Struct, frozen=True, eq=False):
    """Calls that wait for the same reason in at least half of the selected steps."""

    row: Int64
    place: Int64
    count: int
    """Number of different waits."""
    copies: Int64
    time_ns: int
    """Total time of the waits, excluding waits for the profiler."""
    least: Change
    """Change that removes the waits."""
    most: Change
    """Change that removes the waits, their copies, and the operators that do almost nothing except wait."""


def waiting_calls(s: Scene, why: WaitReason) -> Waiting | None:
    """Returns the calls that wait for this reason, None if removing the waits would save nothing significant."""
    trace, waits = s.trace, host_waits(s.trace)
    at = waits.of(why)
    at = at[(s.rows & s.on_threads)[waits.row[at]]]
    at = at[_regular(s, waits.row[at], waits.place[at])]
    row, place = waits.row[at], waits.place[at]
    whole, copies = wait_ranges(s, row, place), _copies_of(trace, row)
    if not s.is_significant(measure(whole) + int(trace.dur_ns[copies].sum())):
        return None
    for_profiler = measure_within(profiler_waits(trace), trace.start_ns[row], trace.ends(row))
    time = int(trace.dur_ns[row].sum() - for_profiler.sum())
    whole_change = Change(whole, copies, trace.dur_ns[copies])
    return Waiting(row, place, len(np.unique(place)), copies, time, Change(s.covered(row)), whole_change)


def _regular(s: Scene, calls: Int64, place: Int64) -> Bool:
    """Returns whether calls with the same Python line and name occur in at least ``OFTEN`` of the steps."""
    trace, count = s.trace, len(s.steps.label)
    made = group(code_lines(trace).of[calls], trace.name[place])
    step = np.searchsorted(s.steps.start_ns, trace.start_ns[calls], side="right")
    seen = group(made.of, step)
    found: Bool = np.bincount(made.of[seen.first], minlength=len(made))[made.of] >= OFTEN * count
    return found


def _copies_of(trace: TraceTable, calls: Int64) -> Int64:
    made = np.zeros(len(trace) + 1, np.bool_)
    made[calls] = True
    found: Int64 = np.flatnonzero((trace.kind == EventKind.MEMCPY) & made[trace.launch])
    return found
