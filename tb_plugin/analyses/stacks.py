"""Stacks: who called whom, laid over each other, weighted by host or device time (an icicle, a flame graph).

Calls at the same place, the path of names from the outermost frame, are one place. Every nanosecond stands at exactly
one: host time at the innermost frame that was open, device time at the frame that launched the work. So the own times
of all places sum to the time of the chosen rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analyses.base import OWN_ONLY, Frame, Missing, Params, Part, Scope, Traits, answer_view
from tb_plugin.analyses.grouping import Forest, group, preorder, sum_by
from tb_plugin.analyses.metrics import CHOSEN, SHARED, define
from tb_plugin.analyses.selection import Selection, select_rows
from tb_plugin.errors import BadRequest
from tb_plugin.payloads import Scalar, Sort, Table, Tree, View
from tb_plugin.trace.numbering import places_of
from tb_plugin.trace.schema import DEVICE_WORK, MISSING, NO_OPERATOR, EventKind, of_kind
from tb_plugin.trace.table import TraceTable, Track
from tb_plugin.trace.tree import nest, self_time

METRICS = SHARED.adding(
    define(
        "",
        "text",
        {
            "thread_key": ("Thread id", "Process id and thread id, as recorded."),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "host_own_ns": ("Host own", "Host time of the place without what stands beneath it."),
            "device_own_ns": ("Device own", "Device time launched from the place itself, not from beneath it."),
        },
    ),
)

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]

_PYTHON = (EventKind.PYTHON, EventKind.MODULE)
_CALLS = (EventKind.OPERATOR, EventKind.RUNTIME)
FRAMES: dict[str, tuple[EventKind, ...]] = {"both": (*_PYTHON, *_CALLS), "python": _PYTHON, "operators": _CALLS}
"""What the frames of a stack are. Runtime calls belong to the operators: what they took is no time of the operator."""
WEIGHTS = ("host", "device")
ORDERS = ("heavy", "time")
"""Calls at the same place are one, the heaviest first; or only calls that follow each other, in the order of time."""
NODES_SENT = 10_000
"""A page gets the places with most time; ``Tree.total_nodes`` counts all. Exports hold every one."""
_REST = {"both": NO_OPERATOR, "python": "(no Python call)", "operators": NO_OPERATOR}
"""Names of the place that carries device work which no frame launched."""


@dataclass(frozen=True)
class Choice:
    """Which frames, which time, of which thread (``thread_key``, thread id or name; "" = all), and in which order."""

    of: str = "both"
    weight: str = "host"
    thread: str = ""
    order: str = "heavy"


@dataclass(frozen=True, eq=False)
class Places:
    """Merged stacks in pre-order, siblings in the chosen order. Times in nanoseconds.

    ``host_ns`` and ``device_ns`` are own times: without what stands beneath. Places without any of the chosen time in
    and beneath them are left out.
    """

    name: list[str]
    kind: Int64
    """EventKind of the frame; of the place without one, UNKNOWN."""
    parent: Int64
    """Position of the place around it, -1 = none."""
    track: Int64
    """Thread, when places of different threads are kept apart; else, and for the place without a frame, -1."""
    calls: Int64
    host_ns: Int64
    device_ns: Int64
    host_total_ns: Int64
    device_total_ns: Int64
    found: int
    """How many there are, also where only those with most time are here."""

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True, eq=False)
class _Frames:
    """All calls that may be frames, by time; a chosen one carries its time, one that is only around it none."""

    row: Int64
    parent: Int32
    """Position among them."""
    chosen: Bool
    host_ns: Int64
    device_ns: Int64
    rest_ns: int
    """Chosen device time that no frame launched."""


class Stacks:
    """Merged stacks of Python calls and operators."""

    id = "stacks"
    title = "Stacks"
    model = TraceTable
    traits = Traits("Time", "picture", whole="")
    scope: Scope = "profile"
    borrows = OWN_ONLY

    def missing(self, trace: TraceTable) -> Missing | None:
        """Needs calls on the host."""
        if of_kind(trace.kind, *FRAMES["both"]).any():
            return None
        return Missing("The trace holds no calls on the host.", trace.recorder.todo("view.stacks"))

    def part_key(self, params: Params) -> tuple[object, ...]:
        """Depends on the chosen steps, frames, time and thread."""
        return (*params.chosen, *(params.get(key) for key in ("of", "weight", "thread", "order")))

    def part(self, trace: TraceTable, params: Params) -> Part:
        """Returns the places and the threads. Raises BadRequest for an unknown choice, thread or step."""
        choice = choice_of(params)
        selection = select_rows(trace, *params.chosen)
        has_device = choice.weight == "device" or bool(selection.of(trace, *DEVICE_WORK).size)
        tree = _tree(merged(trace, selection, choice, most=NODES_SENT), choice, has_device)
        return Part(
            coverage=selection.coverage,
            frames={"threads": _threads(trace, selection, choice)},
            payloads={"stacks": tree},
            layout=("stacks", "threads"),
        )

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        """Returns the page or its threads."""
        return answer_view(self, parts[0], params)


def choice_of(params: Params) -> Choice:
    """Returns the choice of a request. Raises BadRequest."""
    of, weight, order = params.get("of") or "both", params.get("weight") or "host", params.get("order") or "heavy"
    for key, value, known in (("of", of, tuple(FRAMES)), ("weight", weight, WEIGHTS), ("order", order, ORDERS)):
        if value not in known:
            raise BadRequest(f"{key} cannot be {value[:40]}.", key, f"Choose one of {', '.join(known)}.")
    return Choice(of, weight, params.get("thread"), order)


def merged(
    trace: TraceTable, selection: Selection, choice: Choice, by_thread: bool = False, most: int | None = None
) -> Places:
    """Returns the chosen stacks laid over each other, those of each thread on their own where ``by_thread`` or by time.

    Frames around a chosen call belong to its stack also where they began before the chosen steps. ``most`` keeps the
    places with most time. Raises BadRequest for a thread that there is not.
    """
    frames = _frames(trace, selection, choice)
    # The last row stands for device work without a frame.
    row, parent = frames.row, np.append(frames.parent, np.int32(MISSING))
    kind = np.append(trace.kind[row].astype(np.int64), EventKind.UNKNOWN)
    name = np.append(trace.name[row].astype(np.int64), MISSING)
    track = np.append(trace.track[row].astype(np.int64), MISSING)
    by_time = choice.order == "time"
    if not by_time and not by_thread:
        track[:] = MISSING
    calls = Forest(parent)
    nodes = group(calls.runs(track, kind, name) if by_time else calls.paths(track, kind, name))
    above = parent[nodes.first]
    above = np.where(above == MISSING, MISSING, nodes.of[above]).astype(np.int32)
    forest = Forest(above)
    host, device = nodes.sum(np.append(frames.host_ns, 0)), nodes.sum(np.append(frames.device_ns, frames.rest_ns))
    totals = {"host": forest.sums(host), "device": forest.sums(device)}
    heavy = totals[choice.weight]
    order = _in_order(above, _heaviest(heavy, most), -track[nodes.first] if by_time else heavy)
    position = places_of(order, len(nodes)).astype(np.int64)
    first = nodes.first[order]
    texts = trace.strings.take(name[first]).to_pylist()
    return Places(
        name=[_REST[choice.of] if text is None else text for text in texts],
        kind=kind[first],
        parent=position[above[order]],
        track=track[first],
        calls=nodes.sum(np.append(frames.chosen.astype(np.int64), 0))[order],
        host_ns=host[order],
        device_ns=device[order],
        host_total_ns=totals["host"][order],
        device_total_ns=totals["device"][order],
        found=int((heavy > 0).sum()),
    )


def _heaviest(total_ns: Int64, most: int | None) -> Int64:
    """Places that have any time, at most so many, in their order.

    One with time has ancestors with no less, which stand before it: they are kept as well.
    """
    found = np.flatnonzero(total_ns > 0)
    return found if most is None else np.sort(found[np.argsort(-total_ns[found], kind="stable")[:most]])


def _in_order(above: Int32, kept: Int64, rank: Int64) -> Int64:
    """The kept places in pre-order, siblings with the highest rank first, then those that were called first."""
    if not len(kept):
        return kept
    return kept[preorder(places_of(kept, len(above))[above[kept]], rank[kept], -np.arange(len(kept)))]


def thread_key(track: Track) -> str:
    """Process and thread id: what tells the threads of a trace apart."""
    return f"{track.pid}:{track.tid}"


def thread_label(track: Track) -> str:
    """Returns how a thread is called."""
    return track.thread.strip() or f"thread {track.tid}"


def _tree(places: Places, choice: Choice, has_device: bool) -> Tree:
    data = {"calls": places.calls, "host_ns": places.host_total_ns, "host_own_ns": places.host_ns}
    if has_device:
        data |= {"device_ns": places.device_total_ns, "device_own_ns": places.device_ns}
    numbers = {key: values.tolist() for key, values in data.items()}
    rows: list[dict[str, Scalar]] = [
        {
            "name": name,
            "node_kind": EventKind(kind).name.lower(),
            **{key: values[i] for key, values in numbers.items()},
        }
        for i, (name, kind) in enumerate(zip(places.name, places.kind.tolist(), strict=True))
    ]
    shown = METRICS.columns("name", "node_kind", *data)
    return Tree("stacks", "Stacks", shown, places.parent.tolist(), rows, "name", [f"{choice.weight}_ns"], places.found)


def _threads(trace: TraceTable, selection: Selection, choice: Choice) -> Frame:
    """The threads that have frames, whichever was chosen."""
    rows = selection.of(trace, *FRAMES[choice.of])
    events = np.bincount(trace.track[rows], minlength=len(trace.tracks))
    found = np.flatnonzero(events)
    found = found[np.argsort(-events[found], kind="stable")]
    tracks = [trace.tracks[i] for i in found.tolist()]
    data = {
        "thread": pa.array([thread_label(track) for track in tracks], pa.string()),
        "thread_key": pa.array([thread_key(track) for track in tracks], pa.string()),
        "events": pa.array(events[found]),
    }
    return Frame(
        "threads", "Threads", METRICS.columns(*data), pa.table(data), ("thread_key",), "thread", Sort("events", True)
    )


def _frames(trace: TraceTable, selection: Selection, choice: Choice) -> _Frames:
    wanted = of_kind(trace.kind, *FRAMES[choice.of])
    if choice.thread:
        wanted &= trace.track == _track(trace, choice.thread)
    row = np.flatnonzero(wanted)
    start, end = trace.start_ns[row], trace.end_ns[row]
    nesting = nest(trace.track[row], start, end)
    covered = trace.coverage
    if covered.whole is not None:
        # As everywhere: of a call that outlives the window only the time inside is its own.
        start, end = (np.clip(times, covered.start_ns, covered.end_ns) for times in (start, end))
    chosen = selection.rows[row]
    work = selection.of(trace, *DEVICE_WORK)
    launcher = _launcher(trace, work, choice.of)
    dur = trace.dur_ns[work]
    return _Frames(
        row=row,
        parent=nesting.parent,
        chosen=chosen,
        host_ns=np.where(chosen, self_time(start, end, nesting.parent, nesting.overlaps), 0),
        device_ns=sum_by(places_of(row, len(trace))[launcher], dur, len(row)),
        # What nobody launched belongs to no thread.
        rest_ns=0 if choice.thread else int(dur[launcher == MISSING].sum()),
    )


def _launcher(trace: TraceTable, work: Int64, of: str) -> Int32:
    """For device rows: the innermost frame around their launch, runtime calls left out; -1 = none."""
    operator = trace.operator[work]
    if of == "operators":
        return operator
    # As for modules: work stands where its launch does, else where the operator named by its external id does.
    source = np.where(trace.launch[work] != MISSING, trace.launch[work], operator)
    python = np.where(source == MISSING, MISSING, trace.python_parent[source]).astype(np.int32)
    # Of two calls that are open at once the later row is the inner one.
    return python if of == "python" else np.maximum(python, operator)


def _track(trace: TraceTable, text: str) -> int:
    """The host thread that a text means. Raises BadRequest."""
    threads = [i for i, track in enumerate(trace.tracks) if not track.is_device]
    found = [i for i in threads if thread_key(trace.tracks[i]) == text]
    found = found or [i for i in threads if text in (trace.tracks[i].tid, trace.tracks[i].thread.strip())]
    if len(found) == 1:
        return found[0]
    known = ", ".join(thread_key(trace.tracks[i]) for i in (found or threads)[:20]) or "none"
    what = "There are several threads" if found else "There is no thread"
    raise BadRequest(f"{what} {text[:40]}.", "thread", f"Choose one of {known}.")
