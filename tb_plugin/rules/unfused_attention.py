"""Attention computed by several kernels."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from tb_plugin.analysis.severity import severity_of
from tb_plugin.analysis.simulate import Change, merge_changes
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import places_of
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, KernelClass
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Link
from tb_plugin.rules._base import COMMON, MIN_SHARE, Bounds, Detection, Limit, Rule, Scene, percent
from tb_plugin.rules._matrix_products import matrix_kernels, peaks_of
from tb_plugin.rules._shapes import arguments, input_dims, largest_inputs, rows_that
from tb_plugin.rules._streams import Streams, streams

MOST_BETWEEN = 8
"""Maximum number of kernels between the two matmuls, such as scale, mask, casts, softmax and dropout."""
USUAL = 4
"""Ratio of the 16-bit peak rate to the slowest rate of fused kernels, including recomputation in the backward pass."""
_BETWEEN = (KernelClass.ELEMENTWISE, KernelClass.NORMALISATION, KernelClass.COPY, KernelClass.REDUCTION)
METRICS = COMMON.in_steps(
    ns={"scores_ns": ("Scores", "Kernel time between the two matmuls of unfused attention, per step.")},
    ratio={"scores_ratio": ("Scores", "Score time divided by kernel time.")},
    number={"unfused_attentions": ("Softmax", "Softmax calls of unfused attention per step.")},
)


class Attention(msgspec.Struct, frozen=True, eq=False):
    """Unfused attention computations: ``rows`` are rows of the trace, the other fields indices into ``streams``."""

    softmax: Int64
    before: Int64
    after: Int64
    """Second matmul of each attention computation, after the softmax. ``before`` contains the first matmul."""
    rows: Int64
    """The kernels between the two matmuls."""


@cached_by_argument
def unfused_attention(s: Scene) -> Attention:
    """Returns the attention computations in the steps that use several kernels instead of a single fused kernel."""
    trace, all_of = s.trace, streams(s.trace)
    words = trace.recorder.operators
    softmax = np.flatnonzero((all_of.kernel_class == KernelClass.NORMALISATION) & (all_of.operator != MISSING))
    softmax = softmax[s.rows[all_of.row[softmax]]]
    softmax = softmax[rows_that(trace, all_of.operator[softmax], words.softmax)]
    before, after = _neighbours(all_of, softmax)
    is_whole = (before != MISSING) & (after != MISSING) & (after - before <= MOST_BETWEEN + 1)
    softmax, before, after = softmax[is_whole], before[is_whole], after[is_whole]
    both = rows_that(trace, all_of.operator[before], words.batched_product)
    both &= rows_that(trace, all_of.operator[after], words.batched_product)
    both &= _takes(trace, all_of.operator[softmax], all_of.operator[after])
    softmax, before, after = softmax[both], before[both], after[both]
    between = np.zeros(len(all_of.row) + 1, np.int64)
    np.add.at(between, before + 1, 1)
    np.add.at(between, after, -1)
    return Attention(softmax, before, after, all_of.row[np.flatnonzero(np.cumsum(between[:-1]) > 0)])


def _look(s: Scene) -> Detection | None:
    trace, found = s.trace, unfused_attention(s)
    softmax, rows = found.softmax, found.rows
    time, total = int(trace.dur_ns[rows].sum()), int(trace.dur_ns[s.kernels].sum())
    if not time or time < MIN_SHARE * total:
        return None
    notice = s.notice(
        RULE,
        severity=severity_of(time / total),
        text="Attention is not fused: kernels between its two matmuls take {scores_ns} per step, {scores_ratio} of the "
        "kernel time.",
        figures=METRICS.measured(
            scores_ns=s.per_step(time), scores_ratio=time / total, unfused_attentions=s.per_step(len(softmax))
        ),
        measure="scores_ratio",
        threshold=MIN_SHARE,
        evidence=Link("kernels", {"where": "class:normalisation"}, "Show kernels"),
        why="Separate kernels write and read the scores, one number per pair of positions. A fused kernel keeps the scores "
        "on the chip. The bounds assume that the kernels between the matmuls disappear. If shapes are recorded, the upper "
        "bound also assumes that matmuls reach the device's peak. The lower bound assumes a quarter of this peak.",
        confidence="high"
        if (arguments(trace).shape_of(streams(trace).operator[softmax]) != MISSING).all()
        else "medium",
    )
    between_both = Change(row=rows, less_ns=trace.dur_ns[rows])
    least, most = _products(s)
    return Detection(
        notice, Bounds(merge_changes([between_both, least]), merge_changes([between_both, most])), s.by_length(rows)
    )


def _neighbours(all_of: Streams, softmax: Int64) -> tuple[Int64, Int64]:
    """Returns the nearest work (not of scores) before and after each softmax on its stream; -1 = none."""
    stops = ~np.isin(all_of.kernel_class, _BETWEEN)
    stop = np.flatnonzero(stops)
    place = np.searchsorted(stop, softmax)
    before, after = np.append(stop, MISSING)[place - 1], np.append(stop, MISSING)[place]
    before[place == 0] = MISSING
    track = np.cumsum(all_of.first)
    before[track[before] != track[softmax]] = MISSING
    after[track[after] != track[softmax]] = MISSING
    return before, after


def _takes(trace: TraceTable, softmax: Int64, product: Int64) -> Bool:
    """Returns whether each matmul has an input or output as large as the softmax. True if shapes are not recorded."""
    numbers, texts = largest_inputs(trace, softmax).numbers, arguments(trace).shape_of(product)
    ids, of = np.unique(texts, return_inverse=True)
    counts = [_counts(text or "[]") for text in trace.strings.take(ids).to_pylist()]
    pairs, back = np.unique(np.stack((of.ravel(), numbers)), axis=1, return_inverse=True)
    fits = np.array([not n or not counts[i] or n in counts[i] for i, n in pairs.T.tolist()], np.bool_)
    found: Bool = fits[back.ravel()]
    return found


def _counts(text: str) -> set[int]:
    inputs = [dims for dims in input_dims(text) if dims]
    made = [(*inputs[-2][:-1], inputs[-1][-1])] if len(inputs) > 1 else []
    return {math.prod(dims) for dims in (*inputs, *made)}


def attention_matmuls(s: Scene) -> Int64:
    """Returns the rows of the matmuls next to each softmax: one on each side, two in the backward pass."""
    trace, all_of, attention = s.trace, streams(s.trace), unfused_attention(s)
    softmax, before, after = attention.softmax, attention.before, attention.after
    batched = rows_that(trace, all_of.operator, trace.recorder.operators.batched_product)
    found = [before, after]
    for side, step in ((before, -1), (after, 1)):
        next_one = np.clip(side + step, 0, len(all_of.row) - 1)
        is_more = batched[next_one]
        is_more[is_more] = _takes(trace, all_of.operator[softmax[is_more]], all_of.operator[next_one[is_more]])
        found.append(next_one[is_more])
    return np.unique(all_of.row[np.concatenate(found)])


def _products(s: Scene) -> tuple[Change, Change]:
    """Returns bounds of the saving in the matmuls of attention."""
    trace, every = s.trace, matrix_kernels(s.trace)
    at = places_of(every.row, len(trace))[attention_matmuls(s)]
    some = every.take(at[at != MISSING])
    some = some.take((some.flops > 0) & (some.bits == 16))
    peak, _ = peaks_of(trace, some.row, "fp16")
    least, most = (np.nan_to_num(np.maximum(trace.dur_ns[some.row] - by * some.flops / peak, 0)) for by in (USUAL, 1))
    return Change(row=some.row, less_ns=least.astype(np.int64)), Change(row=some.row, less_ns=most.astype(np.int64))


RULE = Rule(
    __name__,
    title="Unfused attention",
    look=_look,
    order=300,
    detects="Attention runs as separate kernels that write and read the score matrix.",
    threshold=f"The kernels between the two matmuls take at least {percent(MIN_SHARE)} of the kernel time.",
    saving="The time of all kernels between the two matmuls. If 16-bit shapes are recorded, matmul time is saved too. Upper "
    "bound: the matmul time minus the time at the GPU's peak. Lower bound: the matmul time minus four times the time at the "
    "peak.",
    notes="""
        At most 8 kernels run between two batched matmuls (`bmm`, `baddbmm`) of a stream. All these kernels are elementwise,
        norms, reductions or copies, and one is a softmax or its backward pass. If shapes are recorded, the later matmul
        has as many elements as the softmax. The bounds also hold for fused kernels that recompute in the backward pass.
    """,
    limits=(Limit.GPU,),
)
