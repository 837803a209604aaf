"""Calls in which the host waits for a device, and what for: each of them is the matter of one rule at most."""

from __future__ import annotations

import re
from enum import IntEnum

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from tb_plugin.analysis.backward import backward_operators
from tb_plugin.analysis.blocking_calls import handovers, profiler_waits, waits_for_device
from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.copy_directions import copy_texts, directions_of
from tb_plugin.analysis.parallelism.roles import OFFLOAD, roles_of
from tb_plugin.analysis.range_patterns import BACKWARD, DATALOADER, matched, name_matches
from tb_plugin.analysis.simulate import Change
from tb_plugin.lib.groupby import group
from tb_plugin.lib.intervals import Ranges, contains, intersect, join, measure, measure_within, union
from tb_plugin.lib.model_cache import remembered
from tb_plugin.model.trace.schema import MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.rules._base import Scene

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

_HTOD = 0
"""Position of "host to device" in the directions of copies."""
_PAGEABLE = "pageable"
OFTEN = 0.5
"""Share of the steps in which a call has to be made: once in many steps, as when something is saved, is fine."""
_MOSTLY = 0.9
"""An operator that takes hardly longer than a wait is there for it: ``aten::item`` around ``aten::_local_scalar_dense``."""
_PARTLY = 0.25
"""An operator that waits for less of its time does something else: a convolution that copies one value."""
_DEEP = 32
"""So many operators around a call are looked at: they hardly nest deeper."""


class For(IntEnum):
    """What the host waits for."""

    RESULT = 0
    """A value of the device, or that all work has ended."""
    COPY = 1
    """A copy from its own memory to a device."""
    BACKWARD = 2
    """An operator of the backward pass waits, and the operator of the forward pass behind it does not."""
    OTHERS = 3
    """The data loader, the driver or the profiler waits, not the training itself."""


class HostWaits(msgspec.Struct, frozen=True, eq=False):
    """Calls of a trace in which the host waits, in order of ``row``, and what each waits for."""

    row: Int64
    why: Int64
    copy: Int64
    """A copy to a device that the call makes or that the operator around it has made, -1 = none."""
    place: Int64
    """The innermost operator around the call, else the call itself: calls of one place are one wait."""

    def of(self, why: For) -> Int64:
        """Returns the positions of the calls that wait for this."""
        return np.flatnonzero(self.why == why)


@remembered
def copies_to_device(trace: TraceTable) -> Int64:
    """Returns the copies from memory of the host to a device whose calls are recorded.

    What was offloaded is no input: a rule of its own speaks of its way back.
    """
    copies = np.flatnonzero((trace.kind == EventKind.MEMCPY) & (trace.launch != MISSING))
    roles = roles_of(trace)
    found: Int64 = np.setdiff1d(copies[directions_of(trace, copies) == _HTOD], roles.row[roles.among(*OFFLOAD)])
    return found


def from_pageable(trace: TraceTable, copies: Int64) -> Bool:
    """Returns which copies are said to be of memory that a device cannot read by itself."""
    texts = trace.strings.take(copy_texts(trace, copies))
    found: Bool = pc.match_substring(texts, _PAGEABLE, ignore_case=True).to_numpy(zero_copy_only=False)
    return found


@remembered
def host_waits(trace: TraceTable) -> HostWaits:
    """Returns the calls in which the host waits for a device.

    A copy from pageable memory holds its call up until the memory has been read, whatever the call is named.
    """
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
    why = np.where(copy != MISSING, For.COPY, For.RESULT)
    why[_in_backward(trace, row)] = For.BACKWARD
    why[_of_others(trace, row)] = For.OTHERS
    place = np.where(trace.operator[row] == MISSING, row, trace.operator[row])
    return HostWaits(row, why, copy, place)


def _of_others(trace: TraceTable, row: Int64) -> Bool:
    """Which calls are made by another call, by the data loader, by the profiler, or for a thread that waits itself."""
    outer = trace.parent[row]
    nested = (outer != MISSING) & (trace.kind[outer] == EventKind.RUNTIME)
    theirs = np.flatnonzero(
        name_matches(trace, matched(DATALOADER)) | name_matches(trace, trace.recorder.host.profiling)
    )
    hosts = theirs[of_kind(trace.kind[theirs], EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.PYTHON)]
    found: Bool = nested | np.isin(trace.track[row], handovers(trace)[1])
    for track in np.unique(trace.track[hosts]).tolist():
        mine = hosts[trace.track[hosts] == track]
        at = trace.track[row] == track
        found[at] |= contains(union(trace.start_ns[mine], trace.ends(mine)), trace.start_ns[row[at]])
    return found


def _in_backward(trace: TraceTable, row: Int64) -> Bool:
    """Which calls an operator makes that works in another way where results have to be reproducible."""
    found = np.zeros(len(row), np.bool_)
    node = _around(trace, row, name_matches(trace, matched(BACKWARD)))
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
    """The innermost of the chosen operators around each row, -1 = none."""
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
    """Which operators any of these rows lies in."""
    flags = np.zeros(len(trace), np.bool_)
    operator = trace.operator[row]
    for _ in range(_DEEP):
        operator = np.unique(operator[operator != MISSING])
        if not len(operator):
            break
        flags[operator] = True
        operator = trace.operator[operator]
    return flags


def outermost(trace: TraceTable, place: Int64) -> Int64:
    """Returns for each place the outermost operator around it that does hardly anything else."""
    for _ in range(_DEEP):
        outer = trace.operator[place]
        hardly = (outer != MISSING) & (trace.dur_ns[place] >= _MOSTLY * trace.dur_ns[outer])
        if not hardly.any():
            break
        place = np.where(hardly, outer, place).astype(np.int64)
    return place


def around(s: Scene, row: Int64, place: Int64) -> Ranges:
    """Returns when the host is in these calls, or after them, while a device idles, in operators that are there for them."""
    trace, waits = s.trace, s.covered(row)
    of = group(place)
    mostly = of.sum(trace.dur_ns[row])[of.of] >= _PARTLY * trace.dur_ns[place]
    return join(waits, intersect(s.covered(outermost(trace, place[mostly])), s.with_idle(waits)))


class Waiting(msgspec.Struct, frozen=True, eq=False):
    """Calls of the chosen steps that wait for one thing, made in enough of them to be worth a finding."""

    row: Int64
    place: Int64
    """As in HostWaits."""
    copies: Int64
    """Copies that they make."""
    time_ns: int
    """How long they wait, without what the profiler holds up."""
    least: Change
    """The waits go."""
    most: Change
    """So do the operators around them that do hardly anything else, and the copies."""


def waiting(s: Scene, why: For) -> Waiting | None:
    """Returns the calls that wait for this, None where a step would hardly be shorter without them."""
    trace, waits = s.trace, host_waits(s.trace)
    at = waits.of(why)
    at = at[(s.rows & s.on_threads)[waits.row[at]]]
    at = at[_regular(s, waits.row[at], waits.place[at])]
    row, place = waits.row[at], waits.place[at]
    whole, copies = around(s, row, place), _copies_of(trace, row)
    if not s.is_worth(measure(whole) + int(trace.dur_ns[copies].sum())):
        return None
    time = int(
        trace.dur_ns[row].sum() - measure_within(profiler_waits(trace), trace.start_ns[row], trace.ends(row)).sum()
    )
    return Waiting(row, place, copies, time, Change(s.covered(row)), Change(whole, copies, trace.dur_ns[copies]))


def _regular(s: Scene, calls: Int64, place: Int64) -> Bool:
    """Returns which calls belong to those of one line and name that are made in enough of the steps."""
    trace, count = s.trace, len(s.steps.label)
    made = group(code_lines(trace).of[calls], trace.name[place])
    step = np.searchsorted(s.steps.start_ns, trace.start_ns[calls], side="right")
    seen = group(made.of, step)
    found: Bool = np.bincount(made.of[seen.first], minlength=len(made))[made.of] >= OFTEN * count
    return found


def times(place: Int64) -> int:
    """Returns how many waits calls at these places are."""
    return len(np.unique(place))


def _copies_of(trace: TraceTable, calls: Int64) -> Int64:
    """Returns the copies that these calls make."""
    made = np.zeros(len(trace) + 1, np.bool_)
    made[calls] = True
    found: Int64 = np.flatnonzero((trace.kind == EventKind.MEMCPY) & made[trace.launch])
    return found
