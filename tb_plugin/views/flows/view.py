"""Arrows between events, in a time window or at one event."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.base import Params, Part, bounds_of, int_param
from tb_plugin.analysis.filters import event_of
from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.timeline.lanes import lanes_of
from tb_plugin.analysis.timeline.tiles import CATEGORIES, category_of
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.errors import BadRequest
from tb_plugin.lib.arrays import Bool, Int32, Int64, UInt8
from tb_plugin.lib.groupby import group
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.links import first_in_process
from tb_plugin.model.trace.order import overlaps_range
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, ON_DEVICE, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Flows
from tb_plugin.views.flows import VIEW

KINDS = ("launch", "forward_backward", "sync", "operator", "recorded")
LAUNCH, AUTOGRAD, SYNC, OPERATOR, RECORDED = range(len(KINDS))
# Maximum arrows of a window; beyond it none are shown.
MOST = 500
MOST_ALLOWED = 5000
# Maximum arrows of an event per kind, earliest first.
CHAIN = 100


class FlowsAnalysis(DeclaredView, entry=VIEW):
    def part_key(self, params: Params) -> tuple[object, ...]:
        return (params.steps, *(params.get(key) for key in ("event", "start_ns", "end_ns", "kinds", "most")))

    def part(self, trace: TraceTable, params: Params) -> Part:
        """Returns the arrows of ``event`` or of the time range. Raises BadRequest for an invalid parameter."""
        coverage = select_rows(trace, params.steps).coverage
        arrows, wanted, text = arrows_of(trace), _kinds(params), params.get("event")
        if text:
            event = event_of(trace, text)
            groups = [group[wanted[arrows.kind[group]]] for group in _chain(trace, arrows, event)]
            shown = np.concatenate([group[:CHAIN] for group in groups])
            flows = _payload(trace, arrows, shown, sum(map(len, groups)), [event])
        else:
            found = _touching(trace, arrows, *bounds_of(trace, params))
            found = found[wanted[arrows.kind[found]]]
            shown = found if len(found) <= _most(params) else found[:0]
            flows = _payload(trace, arrows, shown, len(found), [])
        return Part(coverage, payloads={"flows": flows}, layout=("flows",))


def _kinds(params: Params) -> Bool:
    names = params.get("kinds").split(",") if params.get("kinds") else KINDS
    if unknown := set(names) - set(KINDS):
        raise BadRequest(f"No such arrow: {min(unknown)[:40]}.", "kinds", f"Kinds are {', '.join(KINDS)}.")
    return np.array([kind in names for kind in KINDS])


def _most(params: Params) -> int:
    most = int_param(params, "most")
    return MOST if most is None else min(max(most, 0), MOST_ALLOWED)


class Arrows(msgspec.Struct, frozen=True, eq=False):
    """All arrows of a trace, each from event ``tail`` to event ``head``, sorted by (tail, head)."""

    tail: Int32
    head: Int32
    kind: UInt8
    name: Int32
    """String id of the recorded name; -1 = none."""


@cached_by_argument
def arrows_of(trace: TraceTable) -> Arrows:
    """Returns the arrows of a trace.

    - ``launch``: from a call to its device work.
    - ``operator``: from an operator to device work that has no recorded launch.
    - ``sync``: from a call to a wait on a device row, or to a graph node without device work.
    - ``forward_backward``: from a forward operator to its backward operator.
    - ``recorded``: all other arrows in the trace. Arrows of this kind have their recorded names.

    An event has at most one incoming arrow of each kind, but may have several of kind ``recorded``.
    """
    unlaunched = of_kind(trace.kind, *DEVICE_WORK) & (trace.launch == MISSING)
    waits = np.flatnonzero(trace.kind == EventKind.SYNC)
    calls = np.flatnonzero(trace.kind == EventKind.RUNTIME) if len(waits) else waits
    columns = {
        LAUNCH: trace.launch,
        AUTOGRAD: trace.forward,
        OPERATOR: np.where(unlaunched, trace.operator, np.int32(MISSING)),
    }
    heads = {kind: np.flatnonzero(column != MISSING).astype(np.int32) for kind, column in columns.items()}
    tails = {kind: columns[kind][rows] for kind, rows in heads.items()}
    made_by = first_in_process(trace.correlation[calls], calls, trace.correlation[waits], trace.process, waits)
    heads[SYNC], tails[SYNC] = waits[made_by != MISSING].astype(np.int32), made_by[made_by != MISSING]
    head, tail = np.concatenate(list(heads.values())), np.concatenate(list(tails.values()))
    kind = np.repeat(np.array(list(heads), np.uint8), [len(rows) for rows in heads.values()])
    recorded = trace.arrows
    name = np.concatenate((np.full(len(kind), MISSING, np.int32), recorded.name))
    tail, head = np.concatenate((tail, recorded.tail)), np.concatenate((head, recorded.head))
    kind = np.concatenate((kind, np.full(len(recorded.name), RECORDED, np.uint8)))
    order = np.lexsort((head, tail))
    return Arrows(tail[order], head[order], kind[order], name[order])


def _touching(trace: TraceTable, arrows: Arrows, start: int, end: int) -> Int64:
    def inside(rows: Int32) -> Bool:
        begins = trace.start_ns[rows]
        return overlaps_range(begins, begins + trace.dur_ns[rows], start, end)

    return _by_head(arrows, np.flatnonzero(inside(arrows.tail) | inside(arrows.head)))


def _by_head(arrows: Arrows, chosen: Int64) -> Int64:
    return chosen[np.argsort(arrows.head[chosen], kind="stable")]


def _chain(trace: TraceTable, arrows: Arrows, event: int) -> list[Int64]:
    """Returns three groups of arrows, each sorted by time.

    Arrows of the first group point to device work of the event. Arrows of the second group are the event's other
    links (forward, backward, recorded). Arrows of the third group point to device work of the operators at the
    other ends of these links.
    """
    work = ~_is_link(arrows)
    if of_kind(trace.kind[[event]], *ON_DEVICE)[0]:
        own = np.flatnonzero((arrows.head == event) & work)
        source = int(arrows.tail[own[0]]) if len(own) else MISSING
        among = np.flatnonzero(~work & ((arrows.head == event) | (arrows.tail == event)))
    else:
        beneath = _tails_inside(trace, arrows, np.array([event]))
        own, source = beneath[work[beneath]], event
        linked = np.flatnonzero(~work)
        heads = arrows.head[linked]
        among = np.union1d(beneath[~work[beneath]], linked[_inside(trace, heads, event)])
    if not len(among):
        among, event = _links_around(trace, arrows, source)
    among = _by_head(arrows, among)
    shown = among[:CHAIN]
    ends = np.concatenate((arrows.tail[shown], arrows.head[shown])).astype(np.int64)
    others = np.unique(ends[~_inside(trace, ends, event)])
    further = _tails_inside(trace, arrows, others)
    further = np.setdiff1d(further[work[further]], own)
    return [_by_head(arrows, own), among, _by_head(arrows, further)]


def _is_link(arrows: Arrows) -> Bool:
    linked: Bool = (arrows.kind == AUTOGRAD) | (arrows.kind == RECORDED)
    return linked


def _inside(trace: TraceTable, rows: npt.NDArray[np.integer], event: int) -> Bool:
    """Returns whether each row is the event itself, or starts on the same thread inside the event."""
    began = (rows > event) & (trace.start_ns[rows] < trace.start_ns[event] + trace.dur_ns[event])
    inside: Bool = (rows == event) | began & (trace.track[rows] == trace.track[event])
    return inside


def _tails_inside(trace: TraceTable, arrows: Arrows, events: Int64) -> Int64:
    """Returns the indices of the arrows that start at or inside one of these events, ascending."""
    # Rows are sorted by start, so events inside are a contiguous range of rows, and of arrows by tail.
    after = np.searchsorted(trace.start_ns, trace.ends(events), side="left")
    low = np.searchsorted(arrows.tail, events, side="left")
    length = np.searchsorted(arrows.tail, np.maximum(after, events + 1), side="left") - low
    before = np.cumsum(length) - length
    found = np.arange(length.sum()) + np.repeat(low - before, length)
    own = trace.track[arrows.tail[found]] == np.repeat(trace.track[events], length)
    return np.unique(found[own])


def _links_around(trace: TraceTable, arrows: Arrows, row: int) -> tuple[Int64, int]:
    linked = np.flatnonzero(_is_link(arrows))
    while row != MISSING:
        found = linked[(arrows.tail[linked] == row) | (arrows.head[linked] == row)]
        if len(found):
            return found, row
        row = int(trace.operator[row])
    return linked[:0], row


def _payload(trace: TraceTable, arrows: Arrows, shown: Int64, total: int, events: list[int]) -> Flows:
    tail, head = arrows.tail[shown], arrows.head[shown]
    points = np.unique(np.concatenate((tail, head, np.array(events, np.int32))))
    recorded_name = arrows.name[shown]
    texts = np.concatenate((trace.name[points], recorded_name[recorded_name != MISSING]))
    names = group(texts)
    number = names.of
    name, label = number[: len(points)], np.full(len(recorded_name), MISSING, np.int64)
    label[recorded_name != MISSING] = number[len(points) :]
    return Flows(
        names=[trace.strings[int(i)] for i in texts[names.first]],
        categories=CATEGORIES,
        kinds=list(KINDS),
        event=points.tolist(),
        lane=lanes_of(trace).places(trace, points).tolist(),
        row=trace.depth[points].tolist(),
        start_ns=trace.start_ns[points].tolist(),
        dur_ns=trace.dur_ns[points].tolist(),
        name=name.tolist(),
        category=category_of(trace, points).tolist(),
        from_=np.searchsorted(points, tail).tolist(),
        to=np.searchsorted(points, head).tolist(),
        arrow=arrows.kind[shown].tolist(),
        label=label.tolist(),
        total=total,
        hidden=total - len(shown),
    )
