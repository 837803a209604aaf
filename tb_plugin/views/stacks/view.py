"""Merged call stacks by CPU or device time.

Calls with the same path of names are merged into one node. CPU time is attributed to the innermost open frame, and
device time to the frame that launched the work. The self times of all nodes add up to the selected time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.base import Frame, Params, Part, answer_view
from tb_plugin.analysis.host_threads import Thread, threads_of
from tb_plugin.analysis.merged_stacks.functions import functions_of, sandwich, tree_of_places
from tb_plugin.analysis.merged_stacks.places import Places
from tb_plugin.analysis.merged_stacks.terms import Terms
from tb_plugin.analysis.phrases import plural
from tb_plugin.analysis.selection import Selection, select_rows
from tb_plugin.analysis.stack_frames import FRAMES, labels_of, rows_with_stacks, stack_frames
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.model.trace.schema import DEVICE_WORK, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Notice, Notices, Sort, Table, View
from tb_plugin.views.stacks import VIEW
from tb_plugin.views.stacks.metrics import METRICS
from tb_plugin.views.stacks.options import FOLDS, WEIGHTS, Choice, choice_of, chosen_threads
from tb_plugin.views.stacks.places import all_places, merged_stacks

__all__ = [
    "FOLDS",
    "FRAMES",
    "WEIGHTS",
    "Choice",
    "Places",
    "Stacks",
    "Thread",
    "choice_of",
    "merged_stacks",
    "threads_of",
]

Int64 = npt.NDArray[np.int64]

# The page gets the places with the most time; ``Tree.total_nodes`` counts all. Exports contain all.
NODES_SENT = 10_000


class Stacks(DeclaredView, entry=VIEW):
    def part_key(self, params: Params) -> tuple[object, ...]:
        keys = ("of", "weight", "order", "fold", "function")
        return (*params.chosen, *(params.get(key) for key in keys), params.values("thread"))

    def part(self, trace: TraceTable, params: Params) -> Part:
        """Returns merged stacks, functions and threads. With the parameter ``function``, returns its callers and
        callees.

        Raises BadRequest for an unknown option, thread or step, and NotFoundError for an unknown function.
        """
        choice = choice_of(params)
        selection = select_rows(trace, *params.chosen)
        has_device = choice.weight == "device" or bool(selection.of(trace, *DEVICE_WORK).size)
        terms = Terms(METRICS, choice.weight, has_device)
        places = all_places(trace, selection.chosen, choice)
        function = params.get("function")
        if function:
            callers, callees = sandwich(places, function, terms)
            payloads = {"callers": callers, "callees": callees}
            return Part(coverage=selection.coverage, payloads=payloads, layout=("callers", "callees"))
        found = merged_stacks(trace, selection, choice, most=NODES_SENT)
        frames = {"functions": functions_of(places, terms), "threads": _threads(trace, selection, choice)}
        thread_names = _notes(trace, selection, choice)
        return Part(
            coverage=selection.coverage,
            frames=frames,
            payloads={
                "stacks": tree_of_places(found, terms),
                **({"data_quality": thread_names} if thread_names else {}),
            },
            layout=("stacks", "functions", "threads", *(("data_quality",) if thread_names else ())),
        )

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        return answer_view(self, parts[0], params)


def _threads(trace: TraceTable, selection: Selection, choice: Choice) -> Frame:
    threads = threads_of(trace, selection.chosen)
    count = 1 + max((thread.number for thread in threads), default=0)
    any_calls, events = (_events(trace, selection, of, choice.fold, count) for of in ("both", choice.of))
    threads = tuple(thread for thread in threads if any_calls[thread.number])
    threads = tuple(sorted(threads, key=lambda thread: (thread.idle, -thread.host_ns)))
    data = {
        "thread": pa.array([thread.name for thread in threads], pa.string()),
        "thread_key": pa.array([thread.key for thread in threads], pa.string()),
        "events": pa.array([int(events[thread.number]) for thread in threads], pa.int64()),
        "thread_host_ns": pa.array([thread.host_ns for thread in threads], pa.int64()),
        "thread_wait_ns": pa.array([thread.wait_ns for thread in threads], pa.int64()),
        "thread_idle": pa.array([thread.idle for thread in threads], pa.bool_()),
    }
    return Frame(
        "threads",
        "Threads",
        METRICS.columns(*data),
        pa.table(data),
        ("thread_key",),
        "thread",
        Sort("thread_host_ns", True),
    )


def _events(trace: TraceTable, selection: Selection, of: str, fold: str, count: int) -> Int64:
    frames = stack_frames(trace, of, fold)
    return np.bincount(frames.thread[selection.rows[frames.row]], minlength=count)


Int32 = npt.NDArray[np.int32]

_MAX_NAMED = 3


def _notes(trace: TraceTable, selection: Selection, choice: Choice) -> Notices | None:
    frames = stack_frames(trace, choice.of, choice.fold)
    threads = chosen_threads(trace, selection.chosen, choice.threads)
    chosen = selection.rows[frames.row]
    if threads is not None:
        chosen &= threads[frames.thread]
    row, thread = frames.row[chosen], frames.thread[chosen]
    found = [each for each in (_of_threads(trace, selection, row, thread), _of_backtraces(trace, choice, row)) if each]
    return Notices("data_quality", "About these numbers", "data", found) if found else None


def _of_threads(trace: TraceTable, selection: Selection, row: Int64, thread: Int32) -> Notice | None:
    label = labels_of(trace).of[trace.name[row]]
    python = trace.kind[row] == EventKind.PYTHON
    scope = of_kind(trace.kind[row], EventKind.MODULE, EventKind.ANNOTATION)
    both = np.intersect1d(label[python], label[scope])
    mine = np.isin(label, both)
    first, second = np.unique(thread[mine & python]), np.unique(thread[mine & scope])
    if not len(both) or np.array_equal(first, second):
        return None
    names = {each.number: each.name for each in threads_of(trace, selection.chosen)}

    def thread_names(numbers: Int32) -> str:
        known = [names.get(number, "") for number in numbers[:_MAX_NAMED].tolist()]
        return ", ".join(known) + (f" and {len(numbers) - _MAX_NAMED} more" if len(numbers) > _MAX_NAMED else "")

    handing = np.setdiff1d(first, second)
    text = (
        f"{{shared_scopes}} {plural(len(both), 'scope merges', 'scopes merge')} calls and time of several threads: "
        "{shared_threads} hands over work that {counted_threads} runs. Phases and Modules count only {counted_threads}."
    )
    figures = [
        METRICS.figure("shared_scopes", len(both)),
        METRICS.figure("shared_threads", thread_names(handing if len(handing) else first)),
        METRICS.figure("counted_threads", thread_names(second)),
    ]
    return Notice("shared_scopes", "info", text, "", figures)


def _of_backtraces(trace: TraceTable, choice: Choice, row: Int64) -> Notice | None:
    if choice.of == "operators" or not np.isin(rows_with_stacks(trace), row).any():
        return None
    text = (
        "Frames come from recorded call stacks of operators, so they have no call counts of their own."
        if choice.of == "both"
        else (
            "Time and calls of an operator with a recorded call stack are attributed to the calling line. Frames "
            "above it have no call counts."
        )
    )
    return Notice("backtrace_frames", "info", text, "")
