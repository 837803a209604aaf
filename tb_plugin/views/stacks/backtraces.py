"""Call stacks that operators record, for traces without Python calls."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from tb_plugin.analysis.code_owner import package_of
from tb_plugin.analysis.stack_frames import labels_of, rows_with_stacks
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit


class Backtraces(msgspec.Struct, frozen=True, eq=False):
    """Distinct call stacks of a trace as concatenated frame labels, outermost frame first."""

    of: Int32
    """Index of the stack of each row; -1 = none."""
    first: Int64
    """Start of each stack in ``label``, followed by the end of the last stack."""
    label: Int64
    texts: pa.Array
    """Texts of ``labels_of``, followed by the texts of frames that are not the name of any event."""


@cached_by_argument
def backtraces(trace: TraceTable, fold: str) -> Backtraces:
    """Returns the recorded call stacks of rows. If ``fold`` is "framework", frames inside frameworks are removed."""
    known = labels_of(trace).texts
    numbers = {text: number for number, text in enumerate(known.to_pylist())}
    stack = np.full(len(trace), MISSING, np.int32)
    rows = rows_with_stacks(trace)
    stated = np.full(len(trace), MISSING, np.int32)
    stated[trace.operators.row] = trace.operators.stack
    distinct, of = np.unique(stated[rows], return_inverse=True)
    stack[rows] = of
    first, label = [0], []
    for text in trace.strings.take(distinct).to_pylist():
        frames = [frame for frame in reversed(text.split(";")) if frame]
        if fold == "framework":
            own = [package_of(frame)[1] for frame in frames]
            frames = [frame for at, frame in enumerate(frames) if not (at and own[at] and own[at - 1])]
        label += [numbers.setdefault(frame, len(numbers)) for frame in frames]
        first.append(len(label))
    texts = pa.array(list(numbers), known.type)
    return Backtraces(stack, np.array(first, np.int64), np.array(label, np.int64), texts)


class Frames(msgspec.Struct, frozen=True, eq=False):
    """Calls, and the frames of the calls' recorded stacks. Parents come before children."""

    place: Int64
    """Index of the call; -1 for frames of a recorded stack."""
    parent: Int32
    thread: Int32
    kind: Int64
    label: Int64


def calls_with_frames(
    trace: TraceTable, row: Int64, parent: Int32, thread: Int32, kind: Int64, label: Int64, *, python: bool, fold: str,
    single: bool,
) -> Frames:  # fmt: skip
    """Returns the calls, and the frames of their recorded stacks, which replace other callers.

    If calls are nested, only the stack of the outermost call is used. With ``python``, only Python frames and named
    ranges are returned, and the calling frame replaces an operator. With ``single``, each call has separate frames.
    Otherwise, calls with the same thread and stack share frames.
    """
    stacks = backtraces(trace, fold)
    stack = stacks.of[row]
    stack[row == MISSING] = MISSING
    if not python:
        outer = np.append(inherit(stack, parent), np.int32(MISSING))[parent]
        stack = np.where(outer == MISSING, stack, MISSING)
    length = np.diff(stacks.first)
    calls = np.flatnonzero((stack != MISSING) & (np.append(length, 0)[stack] > 0))
    of = stack[calls].astype(np.int64)
    # The operator itself is the innermost frame.
    stands = python & ~np.isin(kind[calls], (EventKind.ANNOTATION, EventKind.MODULE))
    if single:
        unit, shared = np.arange(len(calls)), np.arange(len(calls))
    else:
        key = (of * (int(thread.max(initial=0)) + 2) + thread[calls]) * 2 + stands
        _, unit, shared = np.unique(key, return_index=True, return_inverse=True)
    count = length[of[unit]] - stands[unit]
    ends = np.cumsum(count)
    total = int(count.sum())
    inside = np.arange(total) - np.repeat(ends - count, count)
    label_place = np.repeat(stacks.first[of[unit]], count) + inside
    own_parent = np.where(inside > 0, np.arange(total) - 1, MISSING)
    leaf = np.where(count > 0, ends - 1, MISSING)[shared.ravel()]
    # Backtrace frames come before their call.
    order = np.argsort(np.concatenate((np.repeat(calls[unit], count), np.arange(len(row)))), kind="stable")
    place = np.empty(len(order) + 1, np.int64)
    place[order] = np.arange(len(order))
    place[-1] = MISSING
    mine = np.where(parent == MISSING, MISSING, parent + np.int64(total))
    mine[calls] = leaf
    kind, label = kind.copy(), label.copy()
    kind[calls[stands]], label[calls[stands]] = EventKind.PYTHON, stacks.label[stacks.first[of[stands] + 1] - 1]
    return Frames(
        np.concatenate((np.full(total, MISSING), np.arange(len(row))))[order],
        place[np.concatenate((own_parent, mine))[order]].astype(np.int32),
        np.concatenate((np.repeat(thread[calls[unit]], count), thread))[order].astype(np.int32),
        np.concatenate((np.full(total, int(EventKind.PYTHON)), kind))[order],
        np.concatenate((stacks.label[label_place], label))[order],
    )
