"""CPU calls that wait for a device or thread."""

from __future__ import annotations

import re

import numpy as np

from tb_plugin.analysis.copy_directions import copy_texts
from tb_plugin.analysis.range_patterns import name_matches
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.intervals import EMPTY, Ranges, intersect, join, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, CallRole, EventKind
from tb_plugin.model.trace.table import TraceTable

WAITS = re.compile(r"synchroni[sz]e|WaitFor|(?:Event|Events|Queue)Wait|memcpy(?!.*async)", re.IGNORECASE)
"""Regex for calls that wait for a device. Blocking copies are included."""
_DRAINS = re.compile(r"(device|context|ctx)_?synchroni[sz]e|synchroni[sz]e_?device", re.IGNORECASE)
# Recorded copy kinds to pageable host memory; matched from the start of the text.
_PAGEABLE_COPIES = re.compile(r"(?=.*pageable)(?=.*(?:DtoH|D2H|device_?to_?host))", re.IGNORECASE)


@cached_by_argument
def waits_for_device(trace: TraceTable) -> Bool:
    """Returns a mask of the calls that wait for a device.

    Asynchronous copies to or from pageable memory also wait, as in ``.item()`` and ``.cpu()``. Such a copy is
    recognized if it ended before its call ended, or if its target is pageable memory.
    """
    waits = trace.strings.where(lambda text: WAITS.search(text) is not None)[trace.name]
    waits |= trace.calls_that(CallRole.WAIT)
    copies = np.flatnonzero((trace.kind == EventKind.MEMCPY) & (trace.launch != MISSING))
    call = trace.launch[copies]
    to_pageable = trace.strings.where(lambda text: _PAGEABLE_COPIES.match(text) is not None)[copy_texts(trace, copies)]
    waits[call[to_pageable | (trace.ends(copies) <= trace.ends(call))]] = True
    return waits


def drains_device(trace: TraceTable) -> Bool:
    """Returns a mask of the calls that return when a device has no work left on any stream."""
    return trace.strings.where(lambda text: _DRAINS.search(text) is not None)[trace.name]


@cached_by_argument
def thread_handovers(trace: TraceTable) -> tuple[Int64, Int64]:
    """Returns the tracks of threads that hand operators to other threads (by arrows), and of threads that run them."""
    tail, head = trace.arrows.tail, trace.arrows.head
    handed = (trace.kind[tail] == EventKind.RUNTIME) & (trace.kind[head] == EventKind.OPERATOR)
    handed &= trace.track[tail] != trace.track[head]
    return np.unique(trace.track[tail[handed]]).astype(np.int64), np.unique(trace.track[head[handed]]).astype(np.int64)


def asking_tracks(trace: TraceTable, rows: Int64) -> Int64:
    """Returns the tracks that launched the device rows, or for a queue, the tracks that run the operators."""
    launch, asks = launch_tracks(trace, rows)
    return np.concatenate((launch, asks[asks != MISSING])).astype(np.int64)


def launch_tracks(trace: TraceTable, rows: Int64) -> tuple[Int64, Int64]:
    """Returns, for each device row, the track of the launching thread and the track of the requesting thread (-1 = none)."""
    track = np.append(trace.track, MISSING).astype(np.int64)
    launch = track[np.append(trace.launch, MISSING)[rows]]
    operator = track[np.append(trace.operator, MISSING)[rows]]
    return launch, np.where((launch != MISSING) & (operator != launch), operator, MISSING)


def awaits_thread(trace: TraceTable) -> Bool:
    """Returns a mask of the runtime calls that wait for another thread of the framework."""
    found: Bool = name_matches(trace, trace.recorder.host.handing_over) & (trace.kind == EventKind.RUNTIME)
    return found


@cached_by_argument
def profiler_waits(trace: TraceTable) -> Ranges:
    """Returns the time in which a thread waits for another one while the profiler works. A fix cannot save it."""
    waits, own = np.flatnonzero(awaits_thread(trace)), np.flatnonzero(trace.kind == EventKind.OVERHEAD)
    if not len(waits) or not len(own):
        return EMPTY
    _, process = np.unique([track.pid for track in trace.tracks], return_inverse=True)
    held = [EMPTY]
    for each in np.intersect1d(process[trace.track[waits]], process[trace.track[own]]).tolist():
        mine = [rows[process[trace.track[rows]] == each] for rows in (waits, own)]
        held.append(intersect(*(union(trace.start_ns[rows], trace.ends(rows)) for rows in mine)))
    return join(*held)
