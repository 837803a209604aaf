"""What a reader of stacks has to know to compare their numbers with those of other views."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.host_threads import threads_of
from tb_plugin.analysis.phrases import noun
from tb_plugin.analysis.selection import Selection
from tb_plugin.analysis.stack_frames import labels_of, rows_with_stacks, stack_frames
from tb_plugin.model.trace.schema import EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Notice, Notices
from tb_plugin.views.stacks.metrics import METRICS
from tb_plugin.views.stacks.options import Choice, chosen_threads

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]

_NAMED = 3
"""So many threads are named."""


def notes(trace: TraceTable, selection: Selection, choice: Choice) -> Notices | None:
    """Returns where frames of several threads are one place, and where frames count no calls; None where neither is so."""
    frames = stack_frames(trace, choice.of, choice.fold)
    threads = chosen_threads(trace, selection.chosen, choice.threads)
    chosen = selection.rows[frames.row]
    if threads is not None:
        chosen &= threads[frames.thread]
    row, thread = frames.row[chosen], frames.thread[chosen]
    found = [each for each in (_of_threads(trace, selection, row, thread), _of_backtraces(trace, choice, row)) if each]
    return Notices("data_quality", "About these numbers", "data", found) if found else None


def _of_threads(trace: TraceTable, selection: Selection, row: Int64, thread: Int32) -> Notice | None:
    """Of scopes that one thread opens as a Python call, and another as a module or range: their frames are one."""
    label = labels_of(trace).of[trace.name[row]]
    python = trace.kind[row] == EventKind.PYTHON
    scope = of_kind(trace.kind[row], EventKind.MODULE, EventKind.ANNOTATION)
    both = np.intersect1d(label[python], label[scope])
    mine = np.isin(label, both)
    first, second = np.unique(thread[mine & python]), np.unique(thread[mine & scope])
    if not len(both) or np.array_equal(first, second):
        return None
    names = {each.number: each.name for each in threads_of(trace, selection.chosen)}

    def told(numbers: Int32) -> str:
        known = [names.get(number, "") for number in numbers[:_NAMED].tolist()]
        return ", ".join(known) + (f" and {len(numbers) - _NAMED} more" if len(numbers) > _NAMED else "")

    alone = np.setdiff1d(first, second)
    text = (
        f"{{shared_scopes}} {noun(len(both), 'scope is one place', 'scopes are one place each')} for several threads, with "
        "the calls and the time of all: {shared_threads} hands over what {counted_threads} runs. Phases and Modules count "
        "{counted_threads} alone."
    )
    figures = [
        METRICS.figure("shared_scopes", len(both)),
        METRICS.figure("shared_threads", told(alone if len(alone) else first)),
        METRICS.figure("counted_threads", told(second)),
    ]
    return Notice("shared_scopes", "info", text, "", figures)


def _of_backtraces(trace: TraceTable, choice: Choice, row: Int64) -> Notice | None:
    """Of frames of recorded call stacks: operators stand in them and not in the scope that was open."""
    if choice.of == "operators" or not np.isin(rows_with_stacks(trace), row).any():
        return None
    text = (
        "An operator with a recorded call stack stands beneath its frames, with its device time, and not in the scope around "
        "it. Those frames count 0 calls: nobody recorded when they began."
        if choice.of == "both"
        else "Time and calls of an operator with a recorded call stack are those of the line that called it. Frames around "
        "it count 0 calls: nobody recorded when they began."
    )
    return Notice("backtrace_frames", "info", text, "")
