"""Attention is computed as products, softmax and what is between: a fused kernel never writes the scores to memory."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.metrics import STEPS, define
from tb_plugin.analysis.severity import severity_of
from tb_plugin.analysis.simulate import Change, merge_changes
from tb_plugin.lib.groupby import places_of
from tb_plugin.lib.model_cache import remembered
from tb_plugin.model.trace.schema import MISSING, KernelClass
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Link
from tb_plugin.rules._base import Bounds, Detection, Rule, Scene, percent
from tb_plugin.rules._limits import Limit
from tb_plugin.rules._matrix_products import peaks_of, products
from tb_plugin.rules._metrics import METRICS as OF_RULES
from tb_plugin.rules._shapes import arguments, extents, rows_that, sizes
from tb_plugin.rules._streams import Streams, streams

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

ATTENTION_SHARE = 0.01
"""Share of the kernel time of the steps: what takes less hardly saves a hundredth of a step."""
MOST_BETWEEN = 8
"""Between the two products: scale, mask, casts, softmax, dropout."""
USUAL = 4
"""Fused kernels reach at least a quarter of a device's peak in 16 bit, with what they compute again in the backward pass."""
_BETWEEN = (KernelClass.ELEMENTWISE, KernelClass.NORMALISATION, KernelClass.COPY, KernelClass.REDUCTION)
METRICS = OF_RULES.adding(
    define(
        STEPS,
        "ns",
        {"scores_ns": ("Scores", "Kernel time between the two products of unfused attention, per step.")},
    ),
    define(STEPS, "ratio", {"scores_ratio": ("Scores", "Scores time divided by kernel time.")}),
    define(
        STEPS,
        "number",
        {"unfused_attentions": ("Softmax", "Softmax calls of unfused attention per step.")},
    ),
)


class Attention(msgspec.Struct, frozen=True, eq=False):
    """Attention computed by several kernels: places among the work of all streams, and rows."""

    softmax: Int64
    before: Int64
    after: Int64
    """The products around each softmax."""
    rows: Int64
    """The kernels between the two products."""


@remembered
def unfused_attention(s: Scene) -> Attention:
    """Returns the attention of the steps that several kernels compute."""
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
    if not time or time < ATTENTION_SHARE * total:
        return None
    notice = s.notice(
        RULE,
        severity=severity_of(time / total),
        text=(
            "Attention is not fused: kernels between its two products take {scores_ns} per step, "
            "{scores_ratio} of the kernel time."
        ),
        figures=[
            METRICS.figure("scores_ns", s.per_step(time)),
            METRICS.figure("scores_ratio", time / total),
            METRICS.figure("unfused_attentions", s.per_step(len(softmax))),
        ],
        measure="scores_ratio",
        threshold=ATTENTION_SHARE,
        evidence=Link("kernels", {"where": "class:normalisation"}, "Show kernels"),
        why=(
            "Every kernel writes and reads the scores, one number for each pair of positions. A fused kernel "
            "keeps them on the chip. The kernels between the products disappear. With recorded shapes, the "
            "bounds assume products at the device's peak, or at a quarter of it."
        ),
        confidence="high"
        if (arguments(trace).shape_of(streams(trace).operator[softmax]) != MISSING).all()
        else "medium",
    )
    between_both = Change(row=rows, less_ns=trace.dur_ns[rows])
    least, most = _products(s, streams(trace), softmax, found.before, found.after)
    return Detection(
        notice, Bounds(merge_changes([between_both, least]), merge_changes([between_both, most])), s.by_length(rows)
    )


def _neighbours(all_of: Streams, softmax: Int64) -> tuple[Int64, Int64]:
    """The work before and after each softmax on its stream that is nothing done to scores; -1 = none."""
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
    """Whether each product takes or makes as many numbers as the softmax; where shapes are not recorded nothing is known."""
    numbers, texts = extents(trace, softmax).numbers, arguments(trace).shape_of(product)
    ids, of = np.unique(texts, return_inverse=True)
    counts = [_counts(text or "[]") for text in trace.strings.take(ids).to_pylist()]
    pairs, back = np.unique(np.stack((of.ravel(), numbers)), axis=1, return_inverse=True)
    fits = np.array([not n or not counts[i] or n in counts[i] for i, n in pairs.T.tolist()], np.bool_)
    found: Bool = fits[back.ravel()]
    return found


def _counts(text: str) -> set[int]:
    """How many numbers the inputs of a product hold, and what it makes of the last two."""
    inputs = [dims for dims in sizes(text) if dims]
    made = [(*inputs[-2][:-1], inputs[-1][-1])] if len(inputs) > 1 else []
    return {math.prod(dims) for dims in (*inputs, *made)}


def _products(s: Scene, all_of: Streams, softmax: Int64, before: Int64, after: Int64) -> tuple[Change, Change]:
    """What goes of the products around each softmax: one on either side, two of the backward pass."""
    trace, every = s.trace, products(s.trace)
    batched = rows_that(trace, all_of.operator, trace.recorder.operators.batched_product)
    found = [before, after]
    for side, step in ((before, -1), (after, 1)):
        next_one = np.clip(side + step, 0, len(all_of.row) - 1)
        is_more = batched[next_one]
        is_more[is_more] = _takes(trace, all_of.operator[softmax[is_more]], all_of.operator[next_one[is_more]])
        found.append(next_one[is_more])
    row = np.unique(all_of.row[np.concatenate(found)])
    at = places_of(every.row, len(trace))[row]
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
    detects="Attention runs as separate kernels that write and read the matrix of scores.",
    threshold=f"The kernels between both products take {percent(ATTENTION_SHARE)} of the kernel time or more.",
    saving=(
        "At least all kernels between the two products. With shapes of 16 bit also time of the products beyond their need "
        "at the peak of the GPU. At most all of that time, at least the part beyond four times the need."
    ),
    notes="""
        Between two batched products (`bmm`, `baddbmm`) of a stream run at most 8 kernels. All of them are
        elementwise, norms, reductions or copies, and one is a softmax or its backward pass. With shapes, the
        later product has as many numbers as the softmax. Fused kernels that compute more in the backward pass
        stay within the bounds.
    """,
    limits=(Limit.GPU,),
)
