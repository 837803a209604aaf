"""Filters of events."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.annotations import calls_of
from tb_plugin.analysis.backward import BackwardOperators, backward_operators
from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.graphs.attribution import operator_names
from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.analysis.kernel_facts import first_reported_text
from tb_plugin.analysis.module_paths import module_paths
from tb_plugin.analysis.operator_calls import call_nesting, is_call
from tb_plugin.analysis.parallelism.roles import WORDS, roles_of
from tb_plugin.analysis.range_patterns import MODULE_PREFIXES
from tb_plugin.analysis.recomputation import Sign, recomputations
from tb_plugin.analysis.runtime_calls import callers
from tb_plugin.errors import BadRequest
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import Whole
from tb_plugin.model.trace.recorder import KernelFacts
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, NO_OPERATOR, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit
from tb_plugin.payloads import Metric

T = TypeVar("T")
_Of = Callable[[TraceTable, BackwardOperators], T]

EVENT = Metric("event", "Event", "count", "Event number on the timeline.")


def event_of(trace: TraceTable, text: str) -> int:
    """Parses the row number in a request parameter. Raises BadRequest if the row number is invalid."""
    if text.isdecimal() and len(text) < 20 and int(text) < len(trace):
        return int(text)
    raise BadRequest("No such event.", "event", f"The trace has the events 0 to {len(trace) - 1}.")


def _with_name(trace: TraceTable, text: str) -> Bool:
    """Returns a mask of the events that have this name. For a module, ``text`` may omit the prefix of the name."""
    return _flags(trace.name, *(trace.strings.find(prefix + text) for prefix in ("", *MODULE_PREFIXES)))


def _flags(column: Whole, *values: int) -> Bool:
    flags: Bool = np.isin(column, values)
    return flags


def _operator(trace: TraceTable, text: str) -> Bool:
    flags = _flags(trace.operator, MISSING)
    if text and text != NO_OPERATOR:
        flags = ~flags & _flags(trace.name[trace.operator], trace.strings.find(text))
    # Replayed work uses the operator of the capture.
    replayed = origins_of(trace).work
    if len(replayed):
        name = operator_names(trace, replayed)
        flags[replayed] = name == (MISSING if text in ("", NO_OPERATOR) else trace.strings.find(text))
    return flags & _flags(trace.kind, *DEVICE_WORK) if text == NO_OPERATOR else flags


def _replayed(kind: EventKind, shape: str | None, trace: TraceTable, text: str) -> Bool:
    """Returns a mask of the replayed work of captured calls with this name and, unless None, this ``shape``."""
    origins = origins_of(trace)
    scopes = origins.scopes
    names = (trace.strings.find(prefix + text) for prefix in ("", *MODULE_PREFIXES))
    called = (scopes.kind == kind) & (scopes.name != MISSING) & _flags(scopes.name, *names)
    if shape is not None:
        called &= scopes.shapes == (trace.strings.find(shape) if shape else MISSING)
    inside = inherit(np.where(called, np.arange(len(called)), MISSING).astype(np.int32), scopes.parent)
    return _flagged(trace, origins.work[np.append(inside, MISSING)[origins.scope] != MISSING])


def _shape(trace: TraceTable, text: str) -> Bool:
    shape = np.full(len(trace), MISSING, np.int32)
    shape[trace.operators.row] = trace.operators.shapes
    return _flags(shape, trace.strings.find(text) if text else MISSING)


def _kind(trace: TraceTable, text: str) -> Bool:
    if text.upper() not in EventKind.__members__:
        kinds = ", ".join(kind.name.lower() for kind in EventKind)
        raise BadRequest(f"No such kind: {text[:40]}.", "where", f"Kinds are {kinds}.")
    chosen = EventKind[text.upper()]
    # The calls that operator tables count.
    return is_call(trace) if chosen == EventKind.OPERATOR else _flags(trace.kind, chosen)


def _external_id(trace: TraceTable, text: str) -> Bool:
    """Returns a mask of the operators with this external id, and of the device work of these operators."""
    number = int(text) if re.fullmatch(r"[1-9][0-9]{0,17}", text) else MISSING
    return _flags(trace.external_id, number) & (trace.external_id > 0)


def _launch(column: str) -> Callable[[TraceTable, str], Bool]:
    def matches(trace: TraceTable, text: str) -> Bool:
        value = np.full(len(trace), MISSING, np.int32)
        value[trace.device_args.row] = getattr(trace.device_args, column)
        return _flags(value, trace.strings.find(text) if text else MISSING)

    return matches


def _reported(keys: Callable[[KernelFacts], Sequence[str]]) -> Callable[[TraceTable, str], Bool]:
    """Returns a filter for kernels by a reported value. An empty text matches kernels without the value."""

    def matches(trace: TraceTable, text: str) -> Bool:
        kernels = np.flatnonzero(trace.kind == EventKind.KERNEL)
        found = first_reported_text(trace, keys(trace.recorder.kernels), kernels)
        return _flagged(trace, kernels[found == (trace.strings.find(text) if text else MISSING)])

    return matches


def _flagged(trace: TraceTable, rows: Int64) -> Bool:
    flags = np.zeros(len(trace), np.bool_)
    flags[rows] = True
    return flags


def _by_text(trace: TraceTable, rows: Int64, of: Whole, texts: pa.Array, text: str) -> Bool:
    """Returns a mask of the rows whose text (index ``of`` into ``texts``) is ``text``; "" matches rows without one."""
    place = texts.index(pa.scalar(text, texts.type)).as_py() if text else MISSING
    return _flagged(trace, rows[of == place] if place != MISSING or not text else rows[:0])


def _phase(trace: TraceTable, text: str) -> Bool:
    made_by = callers(trace)
    return _by_text(trace, made_by.row, made_by.phase, trace.strings.array, text)


def _frame(trace: TraceTable, text: str) -> Bool:
    made_by = callers(trace)
    return _by_text(trace, made_by.row, made_by.frame, made_by.frames, text)


def _backward(number: _Of[Int32], texts: _Of[pa.Array]) -> Callable[[TraceTable, str], Bool]:
    """Returns a filter for backward operator calls by a column of their table."""

    def matches(trace: TraceTable, text: str) -> Bool:
        every = backward_operators(trace)
        return _by_text(trace, every.row, number(trace, every), texts(trace, every), text)

    return matches


def _role(trace: TraceTable, text: str) -> Bool:
    roles = roles_of(trace)
    return _flagged(trace, roles.row[roles.role == WORDS.get(text, MISSING)])


def _recomputed(trace: TraceTable, text: str) -> Bool:
    found = recomputations(trace)
    mine = found.sign == Sign.__members__.get(text.upper(), MISSING)
    modules = np.flatnonzero(trace.kind == EventKind.MODULE)
    at = found.at(trace.track[modules], trace.start_ns[modules])
    operators = found.operator[mine[found.operator_of]]
    return _flagged(trace, np.append(operators, modules[np.append(mine, False)[at]]))


FILTERS: dict[str, Callable[[TraceTable, str], Bool]] = {
    "name": _with_name,
    "module": _with_name,
    "operator": _operator,
    "input_shape": _shape,
    "kind": _kind,
    "outermost": lambda trace, text: (call_nesting(trace).call == MISSING) == (text == "true"),
    "external_id": _external_id,
    "category": lambda trace, text: _flags(trace.category, trace.strings.find(text)),
    "grid": _launch("grid"),
    "block": _launch("block"),
    "direction": _launch("direction"),
    "kernel_type": _reported(lambda facts: facts.type),
    "core": _reported(lambda facts: facts.core),
    "kernel_shapes": _reported(lambda facts: facts.shapes),
    "caller_phase": _phase,
    "caller_frame": _frame,
    "role": _role,
    "recomputed_by": _recomputed,
    "backward_operator": _backward(lambda trace, every: every.name, lambda trace, every: every.names),
    "forward_operator": _backward(
        lambda trace, every: np.append(trace.name, np.int32(MISSING))[every.forward],
        lambda trace, every: trace.strings.array,
    ),
    "forward_path": _backward(
        lambda trace, every: module_paths(trace).of[every.forward], lambda trace, every: module_paths(trace).texts
    ),
    "forward_line": _backward(
        lambda trace, every: code_lines(trace).of[every.forward], lambda trace, every: code_lines(trace).texts
    ),
}


def matching(trace: TraceTable, rows: Bool, where: tuple[tuple[str, str], ...], pattern: str = "") -> Bool:
    """Returns the selected events that match all filters. Raises BadRequest for an unknown filter, kind or phase."""
    shape = dict(where).get("replayed_shape")
    filters: dict[str, Callable[[TraceTable, str], Bool]] = {
        **FILTERS,
        "phase": partial(calls_of, pattern=pattern),
        "replayed_operator": partial(_replayed, EventKind.OPERATOR, shape),
        "replayed_module": partial(_replayed, EventKind.MODULE, None),
        # Name and shapes must match the same call, so the name filter checks both.
        "replayed_shape": lambda trace, text: _flagged(trace, origins_of(trace).work),
    }
    chosen = rows.copy()
    for key, text in where:
        if key not in filters:
            raise BadRequest(f"Events cannot be filtered by {key[:40]}.", "where", f"Use {', '.join(filters)}.")
        chosen &= filters[key](trace, text)
    return chosen
