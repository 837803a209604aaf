"""Operator calls, and their self and total times.

All operator tables are computed from these calls.
"""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.forest import Forest, Spans, with_ancestors
from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.analysis.graphs.scope_calls import ReplayPairs, VirtualCalls, virtual_operator_calls
from tb_plugin.analysis.kernel_facts import on_counted_cores
from tb_plugin.analysis.selection import Selection
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import places_of, sum_by
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace import tree
from tb_plugin.model.trace.reported_operators import TIMES, reported_operators
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, MatrixUse, of_kind
from tb_plugin.model.trace.steps.windows import STEP_NAME
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.model.trace.table import TraceTable


class Calls(msgspec.Struct, frozen=True, eq=False):
    """Selected operator calls, sorted by time if their times are known. ``parent`` is the index of the enclosing
    call.

    Times are in nanoseconds. Virtual calls of replayed work come last (``graphs/scope_calls.py``).
    """

    row: Int64
    """Row of the call in the trace. -1 if the call is virtual, or if the profiler reports the call only in a table."""
    is_replayed: Bool
    """Whether the call is virtual."""
    enclosed: ReplayPairs
    texts: StringTable
    """Texts of the string ids in ``name`` and ``shape``."""
    spans: Spans
    parent: Int32
    name: Int32
    shape: Int32
    stack: Int32
    host_self_ns: Int64
    host_total_ns: Int64
    runtime_self_ns: Int64
    """Self time of the runtime calls that this operator makes directly."""
    device_self_ns: Int64
    device_total_ns: Int64
    matrix_self_ns: Int64
    matrix_total_ns: Int64
    kernel_self_ns: Int64
    kernel_total_ns: Int64
    core_self_ns: Int64
    """Self time of kernels on core types with separate columns in operator tables (``KernelFacts.counted``)."""
    core_total_ns: Int64
    eligible: Bool
    stacks: list[str]
    """Texts of the call stacks. ``stack`` contains indices into this list."""
    no_operator: Int64
    """Rows of the selected device work that belongs to no selected operator."""
    no_operator_ns: int


def operator_calls(trace: TraceTable, selection: Selection) -> Calls:
    """Returns all selected operator calls with their self and total times."""
    rows = np.flatnonzero(selection.rows & is_call(trace))
    position = places_of(rows, len(trace))
    runtime = selection.of(trace, EventKind.RUNTIME)
    nested = call_nesting(trace)
    work = selection.of(trace, *DEVICE_WORK)
    parent = position[nested.call[rows]]
    scopes = origins_of(trace).scopes
    replayed = virtual_operator_calls(trace, work, rows, parent, position[trace.operator[work]])
    owner = replayed.owner
    count = len(rows) + len(replayed)
    kernel = trace.kind[work] == EventKind.KERNEL
    device_self = sum_by(owner, trace.dur_ns[work], count)
    kernel_self = sum_by(owner[kernel], trace.dur_ns[work[kernel]], count)
    matrix = kernel & (trace.uses_matrix_unit[work] == MatrixUse.YES)
    matrix_self = sum_by(owner[matrix], trace.dur_ns[work[matrix]], count)
    counted = kernel & on_counted_cores(trace)[work]
    core_self = sum_by(owner[counted], trace.dur_ns[work[counted]], count)
    shape = np.full(len(trace), MISSING, np.int32)
    shape[trace.operators.row] = trace.operators.shapes
    stack, stacks = _stacks(trace, rows)
    stack, stacks = _with_replayed(trace, replayed, stack, stacks)
    parent = replayed.with_virtual(parent, replayed.parent)
    forest = Forest(parent)

    with_virtual, nowhere = replayed.with_virtual, np.full(len(replayed), MISSING, np.int64)
    eligible = with_virtual(trace.matrix_eligible[rows], scopes.is_eligible[replayed.scope]) | (matrix_self > 0)
    return Calls(
        row=with_virtual(rows, nowhere),
        is_replayed=with_virtual(np.zeros(len(rows), np.bool_), np.ones(len(replayed), np.bool_)),
        enclosed=replayed.enclosed,
        texts=trace.strings,
        # Replayed calls have no time, so ``outermost_of`` uses the tree.
        spans=Spans(
            with_virtual(trace.track[rows], nowhere.astype(np.int32)),
            with_virtual(trace.start_ns[rows]),
            with_virtual(trace.ends(rows)),
        ),
        parent=parent,
        name=with_virtual(trace.name[rows], scopes.name[replayed.scope]),
        shape=with_virtual(shape[rows], scopes.shapes[replayed.scope]),
        stack=stack,
        host_self_ns=with_virtual(nested.self_ns[rows]),
        host_total_ns=with_virtual(trace.dur_ns[rows]),
        runtime_self_ns=sum_by(position[nested.call[runtime]], trace.self_ns[runtime], count),
        device_self_ns=device_self,
        device_total_ns=forest.sums(device_self),
        matrix_self_ns=matrix_self,
        matrix_total_ns=forest.sums(matrix_self),
        kernel_self_ns=kernel_self,
        kernel_total_ns=forest.sums(kernel_self),
        core_self_ns=core_self,
        core_total_ns=forest.sums(core_self),
        # Also if a nested call is eligible or runs a kernel on a matrix unit.
        eligible=eligible | forest.any_below(eligible),
        stacks=stacks,
        no_operator=work[owner == MISSING],
        no_operator_ns=int(trace.dur_ns[work[owner == MISSING]].sum()),
    )


def reported_calls(trace: TraceTable) -> Calls | None:
    """Returns calls from the profiler's table, None with operator events. Nesting is unknown, so totals may overlap."""
    table = None if of_kind(trace.kind, EventKind.OPERATOR).any() else reported_operators(trace.reported_tables)
    if table is None or not table.num_rows:
        return None
    columns = {key: table[key].combine_chunks().dictionary_encode() for key in ("name", "input_shape", "call_stack")}
    known = pa.concat_arrays([columns["name"].dictionary, columns["input_shape"].dictionary])
    texts = StringTable(known)
    ids = {key: np.asarray(pc.fill_null(column.indices, MISSING)).astype(np.int32) for key, column in columns.items()}
    shape = np.where(ids["input_shape"] == MISSING, MISSING, ids["input_shape"] + len(columns["name"].dictionary))
    count = table.num_rows
    times = {key: pc.fill_null(table[key], 0).to_numpy() for key in TIMES}
    none, nobody = np.zeros(count, np.int64), np.full(count, MISSING, np.int32)
    apart = np.arange(count)
    return Calls(
        row=nobody.astype(np.int64),
        is_replayed=none > 0,
        enclosed=ReplayPairs(),
        texts=texts,
        spans=Spans(nobody, apart, apart + 1),
        parent=nobody,
        name=ids["name"],
        shape=shape.astype(np.int32),
        stack=ids["call_stack"],
        runtime_self_ns=none,
        matrix_self_ns=none,
        matrix_total_ns=none,
        kernel_self_ns=times["device_self_ns"],
        kernel_total_ns=times["device_total_ns"],
        eligible=none > 0,
        stacks=columns["call_stack"].dictionary.to_pylist(),
        no_operator=none[:0],
        no_operator_ns=0,
        **times,
    )


def _ranges(trace: TraceTable) -> Int64:
    """Returns the annotations that the trace records under the operators' category, excluding profiler steps."""
    if not trace.recorder.ranges_are_calls:
        return np.empty(0, np.int64)
    rows = np.flatnonzero(trace.kind == EventKind.ANNOTATION)
    of_operators = np.unique(trace.category[trace.kind == EventKind.OPERATOR])
    rows = rows[np.isin(trace.category[rows], of_operators)]
    is_step = trace.strings.where(lambda text: STEP_NAME.match(text) is not None)
    found: Int64 = rows[~is_step[trace.name[rows]]]
    return found


def is_call(trace: TraceTable) -> Bool:
    """Returns a mask of the operator calls. Annotations that the profiler counts as operators are included."""
    calls = of_kind(trace.kind, EventKind.OPERATOR)
    calls[_ranges(trace)] = True
    return calls


class CallNesting(msgspec.Struct, frozen=True, eq=False):
    call: Int32
    """Row of the innermost call around each row; for device work, of the operator that launched it."""
    self_ns: Int64


@cached_by_argument
def call_nesting(trace: TraceTable) -> CallNesting:
    """Returns the nesting of operator calls. Annotations that count as operators are included."""
    if not len(_ranges(trace)):
        return CallNesting(trace.operator, trace.self_ns)
    calls = np.flatnonzero(is_call(trace))
    call, self_ns = trace.operator.copy(), trace.self_ns.copy()
    ends = trace.ends(calls)
    among = tree.nest(trace.track[calls], trace.start_ns[calls], ends)
    call[calls] = _rows(calls, among.parent)
    runtime = np.flatnonzero(trace.kind == EventKind.RUNTIME)
    call[runtime] = _rows(
        calls,
        tree.innermost_at(
            trace.track[calls], trace.start_ns[calls], ends, among.parent, trace.track[runtime], trace.start_ns[runtime]
        ),
    )
    both = np.sort(np.concatenate((calls, runtime)))
    found = tree.nest(trace.track[both], trace.start_ns[both], trace.ends(both))
    own = tree.self_time(trace.start_ns[both], trace.ends(both), found.parent, found.overlaps)
    is_range = trace.kind[both] == EventKind.ANNOTATION
    other = is_range.copy()
    other[found.parent[is_range & (found.parent != MISSING)]] = True
    other &= trace.kind[both] != EventKind.RUNTIME
    self_ns[both[other]] = own[other]
    return CallNesting(call, self_ns)


def _rows(members: Int64, places: Int32) -> Int32:
    """Converts indices into ``members`` to trace rows. -1 stays -1."""
    return np.where(places == MISSING, MISSING, members[places]).astype(np.int32)


def _stacks(trace: TraceTable, rows: Int64) -> tuple[Int32, list[str]]:
    """Returns the stack index of each row (-1 = none) and the texts: recorded stacks, else enclosing Python calls."""
    recorded = np.full(len(trace), MISSING, np.int32)
    recorded[trace.operators.row] = trace.operators.stack
    own, around = recorded[rows], trace.python_parent[rows]
    texts: list[str] = []
    stack = np.full(len(rows), MISSING, np.int32)
    has = own != MISSING
    if has.any():
        ids, which = np.unique(own[has], return_inverse=True)
        stack[has] = which
        texts += [trace.strings[int(i)] for i in ids]
    rebuilt = ~has & (around != MISSING)
    if rebuilt.any():
        path, python_texts = _paths(trace, around[rebuilt], trace.python_parent, trace.name)
        stack[rebuilt] = path + len(texts)
        texts += python_texts
    return stack, texts


def _with_replayed(
    trace: TraceTable, replayed: VirtualCalls, stack: Int32, stacks: list[str]
) -> tuple[Int32, list[str]]:
    """Appends the stacks of virtual calls: those of the capture, else its enclosing Python calls."""
    if not len(replayed):
        return stack, stacks
    scopes = origins_of(trace).scopes
    own = scopes.stack[replayed.scope]
    python = scopes.nearest(EventKind.PYTHON, EventKind.MODULE)
    around = python[replayed.scope]
    numbers = {text: number for number, text in reversed([*enumerate(stacks)])}
    every = [*stacks]

    def numbered(texts: list[str]) -> Int32:
        for text in texts:
            if text not in numbers:
                numbers[text] = len(every)
                every.append(text)
        return np.array([numbers[text] for text in texts], np.int32)

    found = np.full(len(own), MISSING, np.int32)
    stated = np.flatnonzero(own != MISSING)
    names, which = np.unique(own[stated], return_inverse=True)
    found[stated] = numbered(trace.strings.take(names).to_pylist())[which.ravel()]
    rebuilt = np.flatnonzero((own == MISSING) & (around != MISSING))
    if len(rebuilt):
        path, texts = _paths(trace, around[rebuilt], python[scopes.parent], scopes.name)
        found[rebuilt] = numbered(texts)[path]
    return np.concatenate((stack, found)), every


def _paths(trace: TraceTable, leaves: Int32, parents: Int32, names: Int32) -> tuple[Int64, list[str]]:
    """Returns the stack index of each leaf, and the texts of the distinct stacks (innermost frame first)."""
    members, parent = with_ancestors(parents, leaves)
    path = Forest(parent).paths(names[members])
    _, first, which = np.unique(path[np.searchsorted(members, leaves)], return_index=True, return_inverse=True)
    texts = []
    for leaf in first:
        frames, row = [], int(leaves[leaf])
        while row != MISSING:
            frames.append(trace.strings[int(names[row])])
            row = int(parents[row])
        texts.append(";".join(frames))
    return which.ravel(), texts
