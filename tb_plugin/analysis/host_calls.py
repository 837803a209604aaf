"""Nested host calls with host, device and backward times."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.annotations import launched_by
from tb_plugin.analysis.backward import BackwardOperators, Tie, backward_operators
from tb_plugin.analysis.backward_times import host_times
from tb_plugin.analysis.forest import Forest, Spans, outermost_of
from tb_plugin.analysis.graphs.attribution import counted_scopes
from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.analysis.graphs.scope_calls import RecordedCalls, ReplayPairs, virtual_calls
from tb_plugin.analysis.recomputation import recomputations
from tb_plugin.analysis.selection import Selection
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import Groups, Whole, group, places_of, sum_by
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import innermost_at, nest


class UnmatchedBackward(msgspec.Struct, frozen=True):
    """Selected backward operators that belong to no call: no call encloses them or their forward operators."""

    operators: int
    untied: int
    """Number of entries in ``operators`` whose forward operator is unknown."""
    host_ns: int


class HostCalls(msgspec.Struct, frozen=True, eq=False):
    """Selected calls of modules or compiled code, sorted by time. Virtual calls of replayed work come last
    (``graphs/scope_calls.py``).

    ``parent`` is the index of the enclosing call. Times are in nanoseconds. All times except ``host_total_ns``
    exclude nested calls.
    """

    row: Int64
    """Row of the call in the trace (-1 = virtual)."""
    is_replayed: Bool
    """Whether the call is virtual."""
    enclosed: ReplayPairs
    name: Int32
    """Name of the call (string id)."""
    spans: Spans
    parent: Int32
    key: Int64
    """Key of the called code. Modules with different names or ids have different keys."""
    host_self_ns: Int64
    host_total_ns: Int64
    device: Int64
    """Device time of the work that the call launches."""
    backward_device: Int64
    """Device time of the backward operators that belong to the call's operators."""
    recomputed: Int64
    """Part of ``device`` for recomputing activations in the backward pass."""
    backward_host: Int64
    """Host time of the backward operators that belong to the call's operators."""
    operators: Int64
    in_backward: Bool
    """Whether a backward operator encloses the call."""
    work: Int64
    """Rows of the selected device work with a recorded launch."""
    owner: Int32
    """Index of the call to which ``work`` belongs, forward or backward (-1 = none)."""
    unmatched: UnmatchedBackward


class Called(msgspec.Struct, frozen=True, eq=False):
    """Calls that a view shows: host rows, and scopes of graph captures. Calls of the same code have the same key."""

    row: Int64
    key: Int64
    is_visible: Bool
    """Mask over ``Origins.scopes``. It selects the scopes that the view shows as calls."""
    scope_key: Int64


def called_modules(trace: TraceTable, rows: Int64) -> Called:
    """Returns the modules that these rows call."""
    scopes = origins_of(trace).scopes
    number = np.full(len(trace) + 1, MISSING, np.int64)
    number[trace.python.row] = trace.python.module_id
    ids = number[scopes.row]
    if (elsewhere := np.flatnonzero(scopes.row == MISSING)).size:
        of_name = np.full(len(trace.strings), MISSING, np.int64)
        every = np.flatnonzero(trace.kind == EventKind.MODULE)[::-1]
        of_name[trace.name[every]] = number[every]
        ids[elsewhere] = of_name[scopes.name[elsewhere]]
    keys = group(np.concatenate((trace.name[rows], scopes.name)), np.concatenate((number[rows], ids))).of
    return Called(rows, keys[: len(rows)], scopes.kind == EventKind.MODULE, keys[len(rows) :])


def host_calls(trace: TraceTable, selection: Selection, called: Called) -> HostCalls:
    """Returns the calls that a view shows in the selected steps, with host, device and backward times."""
    rows = called.row
    nesting = nest(trace.track[rows], trace.start_ns[rows], trace.ends(rows))
    end = trace.ends(rows)

    def around(source: Whole) -> Int32:
        """Returns the innermost call that is active when each row starts; -1 = none."""
        found = np.full(len(source), MISSING, np.int32)
        known = source != MISSING
        at = source[known]
        found[known] = innermost_at(
            trace.track[rows], trace.start_ns[rows], end, nesting.parent, trace.track[at], trace.start_ns[at]
        )
        return found

    work = selection.of(trace, *DEVICE_WORK)
    source = launched_by(trace, work)
    work = work[source != MISSING]
    owner = around(source[source != MISSING])
    every = backward_operators(trace)
    of_forward = np.append(around(every.forward), np.int32(MISSING))
    inner = every.of[trace.operator[work]]
    backward_owner = of_forward[inner]
    # Work launched directly by a call is forward, also inside a recomputing backward pass.
    backward_owner[(owner != MISSING) | _by_hook(trace, every, work, source[source != MISSING])] = MISSING
    behind, is_backward = counted_scopes(trace, work, called.is_visible)
    replayed = virtual_calls(
        trace, work, behind, RecordedCalls(nesting.parent, called.key, owner), called.is_visible, called.scope_key
    )
    known = replayed.owner != MISSING
    owner = np.where(known, np.where(is_backward, MISSING, replayed.owner), owner)
    backward_owner = np.where(known, np.where(is_backward, replayed.owner, MISSING), backward_owner)
    at = np.flatnonzero(selection.rows[every.row])
    host_ns = np.where(every.adds, trace.dur_ns[every.function], host_times(trace))[at]
    outside = around(every.row[at]) == MISSING
    host_owner = np.where(outside, of_forward[at], MISSING)
    apart = at[outside & (host_owner == MISSING)]
    again = np.zeros(len(trace), np.bool_)
    again[recomputations(trace).work] = True
    direct = selection.of(trace, EventKind.OPERATOR)
    position = places_of(rows, len(trace))
    count, with_virtual = len(rows) + len(replayed), replayed.with_virtual
    nowhere = np.full(len(replayed), MISSING, np.int32)
    scopes = origins_of(trace).scopes
    return HostCalls(
        row=with_virtual(rows, nowhere.astype(np.int64)),
        is_replayed=with_virtual(np.zeros(len(rows), np.bool_), np.ones(len(replayed), np.bool_)),
        enclosed=replayed.enclosed,
        name=with_virtual(trace.name[rows], scopes.name[replayed.scope]),
        spans=Spans(with_virtual(trace.track[rows], nowhere), with_virtual(trace.start_ns[rows]), with_virtual(end)),
        parent=with_virtual(nesting.parent, replayed.parent),
        key=with_virtual(called.key, called.scope_key[replayed.scope]),
        host_self_ns=with_virtual(trace.self_ns[rows]),
        host_total_ns=with_virtual(trace.dur_ns[rows]),
        device=sum_by(owner, trace.dur_ns[work], count),
        backward_device=sum_by(backward_owner, trace.dur_ns[work], count),
        recomputed=sum_by(owner, np.where(again[work], trace.dur_ns[work], 0), count),
        backward_host=sum_by(host_owner, host_ns, count),
        operators=sum_by(position[trace.parent[direct]], np.ones(len(direct), np.int64), count),
        in_backward=with_virtual(every.of[trace.operator[rows]] != MISSING, scopes.is_backward[replayed.scope]),
        work=work,
        owner=np.where(owner != MISSING, owner, backward_owner).astype(np.int32),
        unmatched=UnmatchedBackward(
            len(apart), int((every.tie[apart] == Tie.NONE).sum()), int(host_times(trace)[apart].sum())
        ),
    )


def _by_hook(trace: TraceTable, every: BackwardOperators, work: Int64, source: Int32) -> Bool:
    """Returns the work launched by gradient hooks, which send the gradients of many modules and belong to none."""
    at = every.of[trace.operator[work]]
    start, function = trace.start_ns[source], np.append(every.function, 0)[at]
    own = (start >= trace.start_ns[function]) & (start < trace.ends(function)) & ~trace.is_collective[work]
    found: Bool = np.append(every.adds, False)[at] & ~own
    return found


def sums_of(calls: HostCalls, groups: Groups) -> dict[str, Int64]:
    """Returns sums per group of calls. Totals exclude calls nested in a call of the same group."""
    once = outermost_of(groups.of, calls.spans, calls.parent)
    forest = Forest(calls.parent)

    def total(values: Int64) -> Int64:
        return groups.sum(np.where(once, values, 0))

    return {
        "calls": groups.sum((~calls.is_replayed).astype(np.int64)),
        "replayed_calls": calls.enclosed.count(groups.of, len(groups)),
        "host_self_ns": groups.sum(calls.host_self_ns),
        "host_total_ns": total(calls.host_total_ns),
        "device_self_ns": groups.sum(calls.device),
        "device_total_ns": total(forest.sums(calls.device)),
        "backward_device_self_ns": groups.sum(calls.backward_device),
        "backward_device_total_ns": total(forest.sums(calls.backward_device)),
        "recomputed_device_ns": total(forest.sums(calls.recomputed)),
        "backward_host_total_ns": total(forest.sums(calls.backward_host)),
        "operators": groups.sum(calls.operators),
    }
