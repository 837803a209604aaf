"""Device work in stream order, with kernel classes."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.hardware_streams import hardware_streams
from tb_plugin.analysis.kernel_classes import classify_kernels
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import Whole, stable_order
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, KernelClass, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.rules._shapes import rows_that

LEVELS = 4
"""Number of enclosing operators to search, starting from the launch: copy_, clone, contiguous and reshape."""


class Streams(msgspec.Struct, frozen=True, eq=False):
    """Device work, sorted by stream and time. Copies have the class OTHER."""

    row: Int64
    kernel_class: npt.NDArray[np.uint8]
    operator: Int64
    """Row of the operator that launched the work, -1 = unknown."""
    first: Bool
    """Whether this is the first work on its stream."""


@cached_by_argument
def streams(trace: TraceTable) -> Streams:
    row = np.flatnonzero(of_kind(trace.kind, *DEVICE_WORK))
    streams = hardware_streams(trace).of
    row = row[stable_order(streams[row])]  # rows are sorted by start time
    classes = np.full(len(row), KernelClass.OTHER, np.uint8)
    kernels = trace.kind[row] == EventKind.KERNEL
    classes[kernels] = classify_kernels(trace).of(trace.name[row[kernels]])
    stream = streams[row]
    first = np.append(True, stream[1:] != stream[:-1])[: len(row)]
    return Streams(row, classes, trace.operator[row].astype(np.int64), first)


class Updates(msgspec.Struct, frozen=True, eq=False):
    """Rows of optimizer steps on the host, and rows of the device work that these steps launch."""

    row: Int64
    work: Int64


def member_runs(member: Bool, breaks: Bool) -> tuple[Int64, Int64]:
    """Returns start and end indices of each series of consecutive members, which ``breaks`` also end."""
    begins = member & (breaks | ~np.append(False, member[:-1])[: len(member)])
    ends = member & np.append((breaks | ~member)[1:], True)[: len(member)]
    return np.flatnonzero(begins), np.flatnonzero(ends) + 1


@cached_by_argument
def optimizer_steps(trace: TraceTable) -> Updates:
    """Returns the optimizer steps and the device work that they launch."""
    row = np.flatnonzero(of_kind(trace.kind, EventKind.ANNOTATION, EventKind.OPERATOR))
    row = row[rows_that(trace, row, trace.recorder.operators.updating)]
    work = np.flatnonzero(trace.launch != MISSING)
    if not len(row):
        return Updates(row, row)
    call = trace.launch[work]
    place = np.maximum(np.searchsorted(trace.start_ns[row], trace.start_ns[call], side="right") - 1, 0)
    within = (trace.start_ns[call] >= trace.start_ns[row[place]]) & (trace.start_ns[call] < trace.ends(row[place]))
    return Updates(row, work[within & (trace.track[call] == trace.track[row[place]])])


def enclosing_match(trace: TraceTable, operators: Whole, pattern: str) -> Int64:
    """Returns the innermost operator, itself or enclosing, whose name matches a regex; -1 = none."""
    found = np.full(len(operators), MISSING, np.int64)
    here = operators.astype(np.int64)
    for _ in range(LEVELS):
        fits = (found == MISSING) & rows_that(trace, here, pattern)
        found[fits] = here[fits]
        here = np.append(trace.operator, MISSING)[here].astype(np.int64)
    return found
