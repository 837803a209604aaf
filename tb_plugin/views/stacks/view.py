"""Merged call stacks by CPU or device time.

Calls with the same path of names are merged into one node. CPU time counts for the innermost open frame, and device
time counts for the frame that launched the work. The self times of all nodes add up to the selected time.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.base import Frame, Params, Part
from tb_plugin.analysis.communication import BACKEND
from tb_plugin.analysis.flame.functions import functions_of, largest_user_function, sandwich
from tb_plugin.analysis.flame.nodes import FlameNodes
from tb_plugin.analysis.flame.tree import Terms, tree_of_graph
from tb_plugin.analysis.host_threads import threads_of
from tb_plugin.analysis.metrics import CHOSEN, SHARED, SUM, define
from tb_plugin.analysis.selection import Selection, select_rows
from tb_plugin.analysis.stack_frames import rows_with_stacks, stack_frames
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.analysis.work_answers import METRICS as ANSWER_METRICS
from tb_plugin.analysis.work_answers import answer, device_word
from tb_plugin.lib.arrays import Int64
from tb_plugin.model.trace.schema import DEVICE_WORK
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Notice, Notices, Scalar, Sort
from tb_plugin.views.stacks import VIEW
from tb_plugin.views.stacks.options import Choice, choice_of, chosen_threads
from tb_plugin.views.stacks.places import all_places, merged_stacks

METRICS = SHARED.adding(
    define(
        "",
        "bool",
        {"thread_idle": ("Idle", "Thread that waits 95 % of its time and has no operators, modules or ranges.")},
    ),
    define(
        CHOSEN,
        "ns",
        {
            "thread_host_ns": ("In calls", "Time of the thread in calls.", SUM),
            "thread_wait_ns": ("Waiting", "Time in waiting calls, excluding nested calls.", SUM),
            "host_own_ns": ("Host self", "Host time excluding nested calls.", SUM),
            "device_own_ns": ("Device self", "Device time of directly launched work.", SUM),
            "function_host_self_ns": ("Host self", "Host time of the function, excluding nested calls.", SUM),
            "function_host_ns": ("Host total", "Host time including nested calls; recursion counts once.", SUM),
            "function_device_self_ns": ("Device self", "Device time of work that the function launched directly.", SUM),
            "function_device_ns": ("Device total", "Device time including nested calls; recursion counts once.", SUM),
            "backward_host_ns": (
                "Backward host",
                "Host time of backward operators of the function and nested calls.",
                SUM,
            ),
            "backward_device_ns": (
                "Backward device",
                "Device time of backward operators of the function and nested calls.",
                SUM,
            ),
            "caller_host_ns": ("Host", "Host time of calls from this caller, including nested calls.", SUM),
            "caller_device_ns": ("Device", "Device time of calls from this caller, including nested calls.", SUM),
        },
    ),
    define(CHOSEN, "count", {"caller_calls": ("Calls", "Calls from this caller, excluding recursion.", SUM)}),
)


# The page gets the places with the most time; ``Tree.total_nodes`` counts all. Exports contain all.
NODES_SENT = 10_000


class Stacks(DeclaredView, entry=VIEW):
    def part_key(self, params: Params) -> tuple[object, ...]:
        keys = ("of", "weight", "order", "fold", "function")
        return (*params.chosen, *(params.get(key) for key in keys), params.values("thread"))

    def part(self, trace: TraceTable, params: Params) -> Part:
        """Returns merged stacks, functions and threads. With ``function``, returns its callers and callees instead."""
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
        first = _answer(trace, places, frames["functions"], choice)
        thread_names = _notes(trace, selection, choice)
        return Part(
            coverage=selection.coverage,
            frames=frames,
            payloads={
                **({"answer": first} if first else {}),
                "stacks": tree_of_graph(found, terms),
                **({"data_quality": thread_names} if thread_names else {}),
            },
            layout=(
                *(("answer",) if first else ()),
                "stacks",
                "functions",
                "threads",
                *(("data_quality",) if thread_names else ()),
            ),
        )


def _answer(trace: TraceTable, places: FlameNodes, functions: Frame, choice: Choice) -> Notices | None:
    """Returns which function of the user costs most, or which function of all if no code of the user is recorded."""
    unit = f"{device_word(trace)} time" if choice.weight == "device" else "CPU time"
    total = int((places.device_ns if choice.weight == "device" else places.host_ns).sum())
    if not total:
        return None
    text = f"Your most expensive function is {{leading_name}}: {{leading_ns}} of {unit} ({{leading_ratio}}), "
    text += "with library code but without your functions that it calls."
    found = largest_user_function(places, choice.weight)
    if found is None:
        row = functions.data.slice(0, 1).to_pylist()[0]
        found = row["name"], row[f"function_{choice.weight}_self_ns"]
        text = f"{{leading_name}} has the largest self time: {{leading_ns}} of {unit} ({{leading_ratio}}). "
        if BACKEND.match(found[0]):
            text += "This includes waiting for other ranks. "
        text += "Your own code was not recorded."
    values: dict[str, Scalar] = {"leading_name": found[0], "leading_ns": found[1], "leading_ratio": found[1] / total}
    return answer("stacks_answer", text, ANSWER_METRICS.figures(values))


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


def _notes(trace: TraceTable, selection: Selection, choice: Choice) -> Notices | None:
    frames = stack_frames(trace, choice.of, choice.fold)
    threads = chosen_threads(trace, selection.chosen, choice.threads)
    chosen = selection.rows[frames.row]
    if threads is not None:
        chosen &= threads[frames.thread]
    found = _of_backtraces(trace, choice, frames.row[chosen])
    return Notices("data_quality", "About these numbers", "data", [found]) if found else None


def _of_backtraces(trace: TraceTable, choice: Choice, row: Int64) -> Notice | None:
    if choice.of == "operators" or not np.isin(rows_with_stacks(trace), row).any():
        return None
    text = (
        "Frames come from recorded call stacks of operators, so they have no call counts of their own."
        if choice.of == "both"
        else (
            "Time and calls of an operator with a recorded call stack are attributed to the calling line. "
            "Frames above that line have no call counts."
        )
    )
    return Notice("backtrace_frames", "info", text, "")
