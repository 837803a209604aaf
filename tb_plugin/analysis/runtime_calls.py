"""Runtime and driver calls: cost, launches and callers."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import pyarrow as pa

from tb_plugin.analysis.annotations import annotation_around
from tb_plugin.analysis.busy_intervals import device_busy
from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.launches.unrecorded_work import device_occupied
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.lib.groupby import distinct_rows, places_of, sum_by
from tb_plugin.lib.intervals import EMPTY, covered_before, join
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import self_time


class RuntimeCalls(msgspec.Struct, frozen=True, eq=False):
    """All runtime and driver calls of a trace, sorted by time."""

    row: Int64
    device_idle_ns: Int64 | None
    """Part of each call's self time during which all devices used by its thread are idle. None if unknown."""
    launched: Int64
    """Number of kernels, copies and memsets that each call launches."""
    bytes: Int64
    """Bytes of the copies and memsets that each call launches (-1 = not recorded)."""


class Callers(msgspec.Struct, frozen=True, eq=False):
    """Callers of each runtime or driver call, other than operators."""

    row: Int64
    phase: Int32
    """Name (string id) of the innermost annotation that encloses the call (-1 = none)."""
    frame: Int32
    """Index in ``frames`` of the Python line that makes the call (-1 = unknown)."""
    frames: pa.Array


@cached_by_argument
def runtime_calls(trace: TraceTable) -> RuntimeCalls:
    """Returns all runtime and driver calls in the trace, in all steps."""
    rows = np.flatnonzero(trace.kind == EventKind.RUNTIME)
    place = places_of(rows, len(trace))
    work = np.flatnonzero(of_kind(trace.kind, *DEVICE_WORK) & (trace.launch != MISSING))
    owner = place[trace.launch[work]]
    size = np.full(len(trace), MISSING, np.int64)
    size[trace.device_args.row] = trace.device_args.bytes
    size = size[work]
    known = size != MISSING
    moved = sum_by(owner[known], size[known], len(rows))
    moved[sum_by(owner[known], np.ones(int(known.sum()), np.int64), len(rows)) == 0] = MISSING
    return RuntimeCalls(
        row=rows,
        device_idle_ns=_device_idle(trace, rows),
        launched=sum_by(owner, np.ones(len(work), np.int64), len(rows)),
        bytes=moved,
    )


def _device_idle(trace: TraceTable, calls: Int64) -> Int64 | None:
    """Returns the part of each call's self time during which all devices used by its thread are idle. None if
    unknown.

    Unrecorded work counts as busy. For truncated files, returns None, because device events may be missing.
    """
    busy = device_occupied(trace)
    if not busy or not (trace.coverage.complete or trace.coverage.full):
        return None
    # Direct children are all that self time excludes.
    inside = (trace.parent != MISSING) & (trace.kind[trace.parent] == EventKind.RUNTIME)
    members = np.flatnonzero(inside | (trace.kind == EventKind.RUNTIME))
    low, high = trace.coverage.start_ns, trace.coverage.end_ns
    if trace.coverage.full is None:  # in a window, only the time inside counts
        high = max(high, int(trace.ends(members).max(initial=0)))
    start, end = (np.clip(times[members], low, high) for times in (trace.start_ns, trace.end_ns))
    fed = _devices_of_tracks(trace)
    track = trace.track[members]
    for devices in set(fed.values()):
        mine = np.isin(track, [number for number, those in fed.items() if those == devices])
        working = join(*(busy.get(device, EMPTY) for device in devices))
        for times in (start, end):
            times[mine] -= covered_before(working, times[mine])
    parent = places_of(members, len(trace))[trace.parent[members]]
    own = self_time(start, end, parent, trace.overlaps[members])
    found: Int64 = own[np.searchsorted(members, calls)]
    return found


def _devices_of_tracks(trace: TraceTable) -> Mapping[int, frozenset[int]]:
    """Returns the devices that each host thread uses.

    These are the devices on which the thread launched work. If the thread launched none, they are the devices of
    its process. If the process has no devices either, they are all devices.
    """
    busy = frozenset(device_busy(trace))
    work = np.flatnonzero(of_kind(trace.kind, *DEVICE_WORK) & (trace.launch != MISSING))
    threads, devices = distinct_rows(
        trace.track[trace.launch[work]].astype(np.int64), trace.device[work].astype(np.int64)
    )
    by_thread: dict[int, set[int]] = {}
    by_process: dict[str, set[int]] = {}
    for track, device in zip(threads.tolist(), devices.tolist(), strict=True):
        by_thread.setdefault(track, set()).add(device)
        by_process.setdefault(trace.tracks[track].pid, set()).add(device)
    return {
        number: frozenset(by_thread.get(number) or by_process.get(track.pid) or busy)
        for number, track in enumerate(trace.tracks)
        if not track.is_device
    }


@cached_by_argument
def callers(trace: TraceTable) -> Callers:
    """Returns the callers of all ``runtime_calls``, in the same order."""
    calls = np.flatnonzero(trace.kind == EventKind.RUNTIME)
    lines = code_lines(trace)
    return Callers(calls, annotation_around(trace, calls), lines.of[calls], lines.texts)
