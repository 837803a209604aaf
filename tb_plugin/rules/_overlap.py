"""Copies that could overlap with compute."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.busy_intervals import covered_work
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import sum_by
from tb_plugin.lib.intervals import Ranges, measure_within, subtract, union
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.rules._base import Scene

HIDDEN = 0.75
"""Minimum share of a copy's time saved by overlap. Copies and computation share the memory bandwidth."""


def bytes_of(trace: TraceTable, copies: Int64) -> Int64:
    """Returns the size of each copy in bytes, 0 if not recorded."""
    size = np.zeros(len(trace), np.int64)
    size[trace.device_args.row] = trace.device_args.bytes
    found: Int64 = np.maximum(size[copies], 0)
    return found


def overlapped_ns(s: Scene, copies: Int64, at_least: bool = True) -> Int64:
    """Returns the time that each copy would save if it overlapped with the other device work of its step."""
    trace, begin = s.trace, s.steps.start_ns
    less = np.zeros(len(copies), np.int64)
    for device in np.unique(trace.device[copies]).tolist():
        mine = trace.device[copies] == device
        rows = copies[mine]
        step = np.maximum(np.searchsorted(begin, trace.start_ns[rows], side="right") - 1, 0)
        work = other_work(trace, device, copies)
        room = measure_within(work, begin, np.append(begin[1:], s.steps.end_ns[-1:]))
        wanted = sum_by(step, trace.dur_ns[rows], len(begin))
        part = np.minimum(room / np.maximum(wanted, 1), 1) * (HIDDEN if at_least else 1)
        less[mine] = np.floor(trace.dur_ns[rows] * part[step]).astype(np.int64)
    return less


def other_work(trace: TraceTable, device: int, rows: Int64) -> Ranges:
    """Returns the time ranges in which a device runs work that is not in ``rows``."""
    work = covered_work(trace)
    left = np.ones(len(trace), np.bool_)
    left[rows] = False
    work = work[(trace.device[work] == device) & left[work]]
    return union(trace.start_ns[work], trace.start_ns[work] + trace.dur_ns[work])


def exposed_copy_time(trace: TraceTable, copies: Int64) -> Int64:
    """Returns the part of each copy's time during which its device runs nothing else."""
    found = np.zeros(len(copies), np.int64)
    for device in np.unique(trace.device[copies]).tolist():
        mine = trace.device[copies] == device
        start, end = trace.start_ns[copies[mine]], trace.ends(copies[mine])
        found[mine] = measure_within(subtract(union(start, end), other_work(trace, device, copies)), start, end)
    return found
