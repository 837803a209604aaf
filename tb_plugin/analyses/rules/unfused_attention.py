"""Attention is computed as products, softmax and what is between: a fused kernel never writes the scores to memory."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.metrics import STEPS, define
from tb_plugin.analyses.rules.base import Rule, Scene, Seen
from tb_plugin.analyses.rules.metrics import METRICS as OF_RULES
from tb_plugin.analyses.rules.products import peaks_of, products
from tb_plugin.analyses.rules.shapes import arguments, extents, rows_that, sizes
from tb_plugin.analyses.rules.streams import Streams, streams
from tb_plugin.analyses.severity import severity_of
from tb_plugin.analyses.what_if import Change
from tb_plugin.analyses.wording import references_of
from tb_plugin.payloads import Link, Notice
from tb_plugin.trace.numbering import places_of
from tb_plugin.trace.schema import MISSING, KernelClass
from tb_plugin.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

ATTENTION_SHARE = 0.02
"""Of the kernel time of the steps: of less, what a fused kernel saves is lost in the noise of steps."""
MOST_BETWEEN = 8
"""Between the two products: scale, mask, casts, softmax, dropout."""
_BETWEEN = (KernelClass.ELEMENTWISE, KernelClass.NORMALISATION, KernelClass.COPY, KernelClass.REDUCTION)
METRICS = OF_RULES.adding(
    define(
        STEPS,
        "ns",
        {"scores_ns": ("Scores", "Kernels between the two products of unfused attention, a mean over the steps.")},
    ),
    define(STEPS, "ratio", {"scores_ratio": ("Scores", "Share of the kernel time in such kernels.")}),
    define(
        STEPS,
        "number",
        {"unfused_attentions": ("Softmax", "Softmax between two such products, a mean over the steps.")},
    ),
)


def _look(s: Scene) -> Seen | None:
    trace, all_of = s.trace, streams(s.trace)
    words = trace.recorder.operators
    softmax = np.flatnonzero((all_of.kernel_class == KernelClass.NORMALISATION) & (all_of.operator != MISSING))
    softmax = softmax[s.rows[all_of.row[softmax]]]
    softmax = softmax[rows_that(trace, all_of.operator[softmax], words.softmax)]
    if not len(softmax):
        return None
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
    rows = all_of.row[np.flatnonzero(np.cumsum(between[:-1]) > 0)]
    time, total = int(trace.dur_ns[rows].sum()), int(trace.dur_ns[s.kernels].sum())
    if not time or time < ATTENTION_SHARE * total:
        return None
    notice = Notice(
        rule="unfused_attention",
        severity=severity_of(time / total),
        text="Attention is computed in steps of its own: between its two products {scores_ns} of each step, "
        "{scores_ratio} of the kernel time, go over the matrix of scores.",
        todo=trace.recorder.todo("unfused_attention"),
        figures=[
            METRICS.figure("scores_ns", s.per_step(time)),
            METRICS.figure("scores_ratio", time / total),
            METRICS.figure("unfused_attentions", s.per_step(len(softmax))),
        ],
        measure="scores_ratio",
        threshold=ATTENTION_SHARE,
        evidence=Link("kernels", {"where": "class:normalisation"}, "Show kernels"),
        references=references_of(trace.recorder, "unfused_attention"),
        why="The scores, a number for each pair of positions, are written and read again by every kernel. A fused kernel keeps "
        "them on the chip: at least what runs between the products goes, at best also what the products take to write and "
        "read the scores.",
        confidence="high" if (arguments(trace).shape_of(all_of.operator[softmax]) != MISSING).all() else "medium",
    )
    least = Change(row=rows, less_ns=trace.dur_ns[rows])
    return Seen(
        notice, least, _with_products(trace, all_of, softmax, np.concatenate((before, after)), least), s.by_length(rows)
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
    """Whether a factor of each product has as many numbers as the softmax; where shapes are not recorded nothing is known."""
    numbers, texts = extents(trace, softmax).numbers, arguments(trace).shape_of(product)
    ids, of = np.unique(texts, return_inverse=True)
    counts = [{math.prod(dims) for dims in sizes(text or "[]") if dims} for text in trace.strings.take(ids).to_pylist()]
    pairs, back = np.unique(np.stack((of.ravel(), numbers)), axis=1, return_inverse=True)
    fits = np.array([not n or not counts[i] or n in counts[i] for i, n in pairs.T.tolist()], np.bool_)
    return fits[back.ravel()]


def _with_products(trace: TraceTable, all_of: Streams, softmax: Int64, sides: Int64, least: Change) -> Change:
    """Also what the products take to write or read the scores, where shapes, types and the device are known."""
    every = products(trace)
    sides, numbers = sides, np.tile(extents(trace, all_of.operator[softmax]).numbers, 2)
    at = places_of(every.row, len(trace))[all_of.row[sides]]
    width = np.append(every.bits, 0)[at] // 8
    row = all_of.row[sides]
    _, bandwidth = peaks_of(trace, row, "fp16")
    moved = np.nan_to_num(numbers * width / bandwidth).astype(np.int64)
    row, first = np.unique(row, return_index=True)
    less = np.minimum(moved[first], trace.dur_ns[row])
    return Change(row=np.concatenate((least.row, row)), less_ns=np.concatenate((least.less_ns, less)))


RULE = Rule("unfused_attention", "Attention without a fused kernel", _look)
