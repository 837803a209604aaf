"""Merged stacks: one node for calls with the same path."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from tb_plugin.analysis.annotations import launched_by
from tb_plugin.analysis.backward import backward_operators
from tb_plugin.analysis.backward_times import backward_times
from tb_plugin.analysis.code_owner import package_of
from tb_plugin.analysis.flame.nodes import FlameGraph, FlameNodes, largest_nodes, parent_groups
from tb_plugin.analysis.forest import Forest
from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.analysis.graphs.scope_calls import RecordedCalls, virtual_calls
from tb_plugin.analysis.selection import Chosen, Selection, select_rows
from tb_plugin.analysis.stack_frames import FRAMES, REST, labels_of, rows_with_stacks, stack_frames
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import group, places_of, sum_by
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.graph_capture import Scopes
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit, roots_of
from tb_plugin.views.stacks.backtraces import backtraces, calls_with_frames
from tb_plugin.views.stacks.options import ALL_THREADS, Choice, chosen_threads

# The frame between a graph launch and the captured frames.
REPLAY = "(graph replay)"
# Placeholder label, replaced when all labels are known.
IS_REPLAY = -2


class ReplayedFrames(msgspec.Struct, frozen=True, eq=False):
    """Frames that follow the frames of a trace. ``parent`` and ``owner`` are indices into both."""

    parent: Int32
    kind: Int64
    label: Int64
    owner: Int32
    """Innermost frame of each piece of device work; -1 = none."""


def replayed_frames(
    trace: TraceTable, work: Int64, launcher: Int32, row: Int64, parent: Int32, choice: Choice
) -> ReplayedFrames:
    """Returns the frames of replayed work. ``launcher`` is the frame (in ``row``) around each launch."""
    origins = origins_of(trace)
    scopes = origins.scopes
    if not len(scopes):
        none = np.empty(0, np.int64)
        return ReplayedFrames(none.astype(np.int32), none, none, launcher)
    label = labels_of(trace).of[trace.name[row]].astype(np.int64)
    is_visible = of_kind(scopes.kind, *FRAMES[choice.of])
    if choice.fold == "framework":
        is_visible &= ~_folded(trace, scopes, is_visible)
    recorded = RecordedCalls(parent, label, launcher)
    labels = labels_of(trace).of[scopes.name].astype(np.int64)
    found = virtual_calls(trace, work, origins.at(work), recorded, is_visible, labels, counted=False)
    # One replay frame per launching frame, before its captured frames.
    count = len(parent)
    above = found.parent
    roots = above < count
    replay_parents = np.unique(above[roots])

    def moved(at: Int32) -> Int32:
        return np.where(at < count, at, at + len(replay_parents)).astype(np.int32)

    hung = np.where(roots, count + np.searchsorted(replay_parents, above), moved(above))
    return ReplayedFrames(
        parent=np.concatenate((replay_parents, hung)).astype(np.int32),
        kind=np.concatenate((np.full(len(replay_parents), EventKind.UNKNOWN), scopes.kind[found.scope])).astype(
            np.int64
        ),
        label=np.concatenate((np.full(len(replay_parents), IS_REPLAY, np.int64), labels[found.scope])),
        owner=np.where(found.owner == MISSING, launcher, moved(found.owner)).astype(np.int32),
    )


def _folded(trace: TraceTable, scopes: Scopes, is_visible: Bool) -> Bool:
    framework = trace.strings.where(lambda text: package_of(text)[1])[scopes.name] & (scopes.kind == EventKind.PYTHON)
    inside = np.append(framework | (scopes.kind == EventKind.MODULE), False)
    nearest = np.append(
        inherit(np.where(is_visible, np.arange(len(is_visible)), MISSING).astype(np.int32), scopes.parent), MISSING
    )
    found: Bool = framework & inside[nearest[scopes.parent]]
    return found


class _Calls(msgspec.Struct, frozen=True, eq=False):
    row: Int64
    """Row of the frame; -1 for frames that come from a capture."""
    parent: Int32
    thread: Int32
    chosen: Bool
    host_ns: Int64
    device_ns: Int64
    backward: dict[str, Int64]
    replayed_kind: Int64
    replayed_label: Int64
    rest_ns: int


def merged_stacks(
    trace: TraceTable, selection: Selection, choice: Choice, by_thread: bool = False, most: int | None = None
) -> FlameGraph:
    """Returns the merged stacks of the selected calls.

    Threads are separate if ``by_thread`` is set or if stacks are sorted by time. Enclosing frames may start before
    the selected steps. At most ``most`` nodes are returned: the nodes with the most time. Raises BadRequest for an
    unknown thread.
    """
    by_time = choice.order == "time"
    found = (
        lay_stacks(trace, selection, choice, by_thread)
        if by_thread or by_time
        else all_places(trace, selection.chosen, choice)
    )
    return largest_nodes(found, choice.weight, most, by_time=by_time)


@cached_by_argument
def all_places(trace: TraceTable, chosen: Chosen, choice: Choice) -> FlameNodes:
    """Returns stacks merged over all threads, cached for the table of functions and the details of a function."""
    return lay_stacks(trace, select_rows(trace, *chosen), choice, False)


def lay_stacks(trace: TraceTable, selection: Selection, choice: Choice, by_thread: bool) -> FlameNodes:
    """Returns the merged stacks of the selected calls. Raises BadRequest for an unknown thread."""
    calls = _calls(trace, selection, choice)
    labels = labels_of(trace)
    by_time = choice.order == "time"
    kind, label = trace.kind[calls.row].astype(np.int64), labels.of[trace.name[calls.row]].astype(np.int64)
    if made := len(calls.replayed_kind):
        kind[-made:], label[-made:] = calls.replayed_kind, calls.replayed_label
    rest = len(labels.texts) - len(REST) + [*REST].index(choice.of)
    parent, thread, texts = calls.parent, calls.thread, labels.texts
    is_replay = label == IS_REPLAY
    place: Int64 | None = None
    _one_kind(kind, label, len(texts))
    if choice.of != "operators" and len(rows_with_stacks(trace)):
        python = choice.of == "python"
        found = calls_with_frames(
            trace, calls.row, parent, thread, kind, label, python=python, fold=choice.fold, single=by_time
        )
        parent, thread, kind, label, place = found.parent, found.thread, found.kind, found.label, found.place
        texts = backtraces(trace, choice.fold).texts
        is_replay = label == IS_REPLAY
    if is_replay.any():
        label[is_replay] = len(texts)
        texts = pa.concat_arrays([texts, pa.array([REPLAY], texts.type)])
    # The last row stands for device work without a frame.
    parent, kind, label = (
        np.append(parent, np.int32(MISSING)),
        np.append(kind, EventKind.UNKNOWN),
        np.append(label, rest),
    )
    owner = np.append(thread.astype(np.int64), MISSING)
    if not by_time and not by_thread:
        owner[:] = MISSING
    forest = Forest(parent)
    nodes = group(forest.runs(owner, kind, label) if by_time else forest.paths(owner, kind, label))
    first = nodes.first

    def sums(values: Int64 | Bool, last: int = 0) -> Int64:
        """Sums ``values`` over the calls of each node. Frames of recorded stacks have no values."""
        return nodes.sum(np.append(values if place is None else np.append(values, 0)[place], last))

    return FlameNodes(
        label=label[first],
        texts=texts,
        kind=kind[first],
        parent=parent_groups(nodes, parent),
        thread=owner[first],
        calls=sums(calls.chosen),
        host_ns=sums(calls.host_ns),
        device_ns=sums(calls.device_ns, calls.rest_ns),
        backward={key: sums(times) for key, times in calls.backward.items()},
    )


def _one_kind(kind: Int64, label: Int64, count: int) -> None:
    of = np.full(count, EventKind.PYTHON, np.int64)
    for known in (EventKind.ANNOTATION, EventKind.MODULE):
        of[label[kind == known]] = known
    python = kind == EventKind.PYTHON
    kind[python] = of[label[python]]


def _calls(trace: TraceTable, selection: Selection, choice: Choice) -> _Calls:
    frames = stack_frames(trace, choice.of, choice.fold)
    threads = chosen_threads(trace, selection.chosen, choice.threads)
    row, parent, thread, own = frames.row, frames.parent, frames.thread, frames.own_ns
    work = selection.of(trace, *DEVICE_WORK)
    replayed = replayed_frames(trace, work, _launcher(trace, work, choice), row, parent, choice)
    launcher, made = replayed.owner, len(replayed.parent)
    dur = trace.dur_ns[work]
    device = sum_by(launcher, dur, len(row) + made)
    times = backward_times(trace, selection)
    caller = _frame_around(trace, backward_operators(trace).forward[times.at], choice)
    behind = {
        "backward_host_ns": sum_by(caller, times.host_ns, len(row)),
        "backward_device_ns": sum_by(caller, times.device_ns + times.communication_ns, len(row)),
    }
    kind, label = replayed.kind, replayed.label
    if made:
        nothing, nowhere = np.zeros(made, np.int64), np.full(made, MISSING, np.int32)
        above = roots_of(np.concatenate((np.full(len(row), MISSING, np.int32), replayed.parent)))[len(row) :]
        recorded_call = np.where(above < len(row), above, MISSING)
        row, own, thread = (
            np.concatenate((row, nowhere)),
            np.concatenate((own, nothing)),
            np.concatenate((thread, np.append(thread, np.int32(MISSING))[recorded_call])),
        )
        parent = np.concatenate((parent, replayed.parent))
        behind = {key: np.concatenate((each, nothing)) for key, each in behind.items()}
    if threads is not None:
        # Frames of replays without a launching frame have no thread.
        some = np.flatnonzero(np.append(threads, choice.threads in ((), (ALL_THREADS,)))[thread])
        # A parent is on the same thread and stays.
        parent = places_of(some, len(row))[parent[some]]
        kept = some[some >= len(frames.row)] - len(frames.row)
        kind, label = kind[kept], label[kept]
        row, thread, own, device = row[some], thread[some], own[some], device[some]
        behind = {key: each[some] for key, each in behind.items()}
    chosen = selection.rows[row]
    chosen[len(row) - len(kind) :] = False
    # Device work without a launch has no thread.
    rest = int(dur[launcher == MISSING].sum()) if choice.threads in ((), (ALL_THREADS,)) else 0
    return _Calls(row, parent, thread, chosen, np.where(chosen, own, 0), device, behind, kind, label, rest)


def _launcher(trace: TraceTable, work: Int64, choice: Choice) -> Int32:
    """Returns, for each device row, the innermost frame around the launch (-1 = none). Runtime calls are no frames."""
    if choice.of == "operators":
        return _frame_around(trace, trace.operator[work], choice)
    return _frame_around(trace, launched_by(trace, work), choice)  # as for modules


def _frame_around(trace: TraceTable, source: Int32, choice: Choice) -> Int32:
    """Returns the frame of each host row, or the innermost enclosing one (-1 = none). Runtime calls are no frames."""
    place = places_of(stack_frames(trace, choice.of, choice.fold).row, len(trace))
    if choice.of == "operators":
        return place[source]
    every = stack_frames(trace, "both", choice.fold)
    is_visible = (place[every.row] != MISSING) & (trace.kind[every.row] != EventKind.RUNTIME)
    recorded_call = inherit(np.where(is_visible, place[every.row], MISSING).astype(np.int32), every.parent)
    return np.append(recorded_call, np.int32(MISSING))[places_of(every.row, len(trace))[source]]
