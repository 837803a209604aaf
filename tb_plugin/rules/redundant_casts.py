"""Repeated and round-trip casts."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.metrics import LINE
from tb_plugin.analysis.simulate import Change
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import Groups, group
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit
from tb_plugin.rules._base import COMMON, MIN_SHARE, Bounds, Detection, Limit, Rule, Scene, optional, percent
from tb_plugin.rules._shapes import Dims, arguments, input_dims
from tb_plugin.rules._streams import enclosing_match, streams

REPEATED = 4
"""Minimum number of casts by one line in one module call. Queries, keys and values also look alike."""
METRICS = COMMON.in_steps(
    ns={"casts_ns": ("Repeated casts", "Time of repeated cast kernels per step.")},
    number={"casts": ("Casts", "Repeated casts per step.")},
    code={"cast_line": ("Python line", LINE.format("cast"))},
)


def _look(s: Scene) -> Detection | None:
    trace = s.trace
    kernels = s.kernels[trace.operator[s.kernels] != MISSING]
    casting = enclosing_match(trace, trace.operator[kernels], trace.recorder.operators.casting)
    row, cast = kernels[casting != MISSING], casting[casting != MISSING]
    total = int(trace.dur_ns[s.kernels].sum())
    if not len(row) or trace.dur_ns[row].sum() < MIN_SHARE * total:
        return None
    told = arguments(trace)
    shape, kind = told.shape_of(cast), told.type_of(cast)
    known = shape != MISSING
    row, cast, shape, kind = row[known], cast[known], shape[known], kind[known]
    again, in_step = _again(s, row, cast, shape, kind)
    sure = again | _weights_again(s, row, cast, shape, kind) | _there_and_back(trace, row, shape, kind)
    redundant = sure | in_step
    time = int(trace.dur_ns[row[redundant]].sum())
    if not time or time < MIN_SHARE * total:
        return None
    rows = s.by_length(row[redundant])
    line = s.line(rows)
    notice = s.notice(
        RULE,
        text="{casts} kernels per step repeat an earlier cast and take {casts_ns}"
        + (", mostly at {cast_line}." if line else "."),
        figures=METRICS.measured(
            casts=s.per_step(len(rows)), casts_ns=s.per_step(time), **optional(line, cast_line=line)
        ),
        why="Casts of the same shape and type at one line probably cast the same tensor; the trace does not show this. "
        "Lower bound: one cast per module call remains. Upper bound: one cast per step remains. Both bounds assume that "
        "round-trip casts disappear.",
    )
    outer = np.unique(cast[redundant])
    return Detection(
        notice,
        Bounds(
            Change(row=row[sure], less_ns=trace.dur_ns[row[sure]]),
            Change(s.covered(outer), row[redundant], trace.dur_ns[row[redundant]]),
        ),
        rows,
    )


def _again(s: Scene, row: Int64, cast: Int64, shape: Int64, kind: Int64) -> tuple[Bool, Bool]:
    """Returns whether each cast repeats an earlier cast in the same module call, and in the same step."""
    trace = s.trace
    module, step = _module(trace, cast), _step(s, cast)
    line = code_lines(trace).of[trace.launch[row]]
    groups = group(module, line, shape, kind)
    often = (groups.count() >= REPEATED)[groups.of] & (module != MISSING)
    first = _firsts(trace, groups, row)
    everywhere = group(step, line, shape, kind, often)
    return often & ~first, often & ~_firsts(trace, everywhere, row)


def _weights_again(s: Scene, row: Int64, cast: Int64, shape: Int64, kind: Int64) -> Bool:
    """Returns whether each cast repeats one of the same weight (second input of a matmul) in its module and step."""
    trace = s.trace
    above = np.append(trace.operator, MISSING)
    outer = above[above[cast]]  # the operator around aten::to
    module = _module(trace, cast)
    inside = np.append(trace.matrix_eligible, False)[outer] & (module != MISSING)
    texts = arguments(trace).shape_of(outer)
    pairs, of = np.unique(np.stack((np.where(inside, texts, MISSING), shape)), axis=1, return_inverse=True)
    both = (trace.strings.take(each).to_pylist() for each in pairs)
    of_weight = np.array(
        [_is_weight(input_dims(outside or ""), input_dims(text or "")) for outside, text in zip(*both, strict=True)]
    )
    mine = of_weight.astype(np.bool_)[of.ravel()] & inside
    groups = group(np.append(trace.name, MISSING)[module], _step(s, cast), shape, kind, mine)
    found: Bool = mine & ~_firsts(trace, groups, row)
    return found


def _is_weight(product: list[Dims], cast: list[Dims]) -> bool:
    return len(product) > 1 and bool(cast) and cast[0] == product[1] != product[0]


def _module(trace: TraceTable, cast: Int64) -> Int64:
    calls = np.where(trace.kind == EventKind.MODULE, np.arange(len(trace)), MISSING).astype(np.int32)
    found: Int64 = inherit(calls, trace.python_parent)[cast].astype(np.int64)
    return found


def _step(s: Scene, cast: Int64) -> Int64:
    found: Int64 = np.searchsorted(s.steps.host_start_ns, s.trace.start_ns[cast], side="right")
    return found


def _firsts(trace: TraceTable, groups: Groups, row: Int64) -> Bool:
    order = np.lexsort((trace.start_ns[row], groups.of))
    found = np.zeros(len(row), np.bool_)
    found[order[np.append(True, np.diff(groups.of[order]) > 0)[: len(row)]]] = True
    return found


def _there_and_back(trace: TraceTable, row: Int64, shape: Int64, kind: Int64) -> Bool:
    """Returns, for each cast, whether the previous or next cast on its stream has the same shape and another type."""
    found = np.zeros(len(row), np.bool_)
    place = np.full(len(trace), MISSING, np.int64)
    place[row] = np.arange(len(row))
    all_of = streams(trace)
    here = place[all_of.row]
    pair = (here[1:] != MISSING) & (here[:-1] != MISSING) & ~all_of.first[1:]
    one, two = here[:-1][pair], here[1:][pair]
    both = (shape[one] == shape[two]) & (kind[one] != kind[two]) & (np.minimum(kind[one], kind[two]) != MISSING)
    found[one[both]] = found[two[both]] = True
    return found


RULE = Rule(
    __name__,
    title="Repeated casts",
    look=_look,
    order=340,
    detects="The same tensor is cast repeatedly, or cast to another type and back.",
    threshold=f"These casts take at least {percent(MIN_SHARE)} of the kernel time.",
    saving="Lower bound: the time of all casts except the first per module call, or per weight and step. Both casts of a "
    "round trip count. Upper bound: the time of all casts except the first per step, including their operators.",
    needs="Input shapes and types.",
    notes="""
        Three cases count. First, one Python line launches at least four casts (`aten::_to_copy`) of the same shape and
        type in one module call. Second, a module casts the same weight again in a step, as under autocast. Third, a
        cast directly follows another cast of the same shape and converts back to the original type. The trace does not
        show whether these casts read the same tensor.
    """,
    limits=(Limit.GPU,),
)
