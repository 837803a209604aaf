"""Gradients are reduced in many small collectives, each of which takes its time for the way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.grouping import group
from tb_plugin.analyses.metrics import STEPS, define
from tb_plugin.analyses.rules.base import Rule, Scene, Seen
from tb_plugin.analyses.rules.collectives import Collectives, collectives, could_hide, first_of, left_over
from tb_plugin.analyses.rules.metrics import METRICS as OF_RULES
from tb_plugin.analyses.rules.serial_collectives import serial
from tb_plugin.analyses.what_if import Change
from tb_plugin.analyses.wording import references_of
from tb_plugin.payloads import Link, Notice
from tb_plugin.trace.schema import MISSING

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

BUCKET_BYTES = 25 << 20
"""A bucket of gradients as DistributedDataParallel makes them unless it is told otherwise."""
MANY = 10
"""So many collectives less in a step are worth a word: every training has a few small ones."""
SMALL_BYTES = 64 << 10
"""A network of 10 GB/s moves this in 7 us: what is no larger takes its time for the way."""
LATENCY_SHARE = 0.01
"""Share of the steps that goes with the collectives: less is lost in what steps differ by."""

METRICS = OF_RULES.adding(
    define(
        STEPS,
        "number",
        {
            "small_collectives": ("Collectives", "Collectives that could go in buckets, a mean over the steps."),
            "small_buckets": ("Buckets", "So many buckets of 25 MB would hold what they move, a mean over the steps."),
        },
    ),
    define(
        STEPS,
        "bytes",
        {"small_mean_bytes": ("Mean size", "Bytes that they move over their number.")},
    ),
    define(
        STEPS,
        "ns",
        {
            "collective_latency_ns": (
                "Latency",
                "Least duration of those of them that move 64 KiB or less: what each takes whatever it moves.",
            ),
        },
    ),
)


def small(s: Scene, found: Collectives) -> Bool:
    """Returns which collectives this rule speaks of."""
    return _small(s, found)[0]


def _small(s: Scene, found: Collectives) -> tuple[Bool, Int64, int]:
    """Which of them this rule speaks of, the bucket of each, and what each of them takes whatever it moves."""
    own = np.flatnonzero(found.is_gradient & ~serial(found) & (found.bytes > 0))
    tiny = found.dur_ns[own[found.bytes[own] <= SMALL_BYTES]]
    bucket = np.full(len(found.row), MISSING, np.int64)
    steps = max(len(s.steps.label), 1)
    if len(own) <= MANY * steps or not len(tiny):
        return bucket != MISSING, bucket, 0
    by_step = group(found.step[own])
    reached = np.cumsum(found.bytes[own]) - found.bytes[own]
    reached -= by_step.min(reached)[by_step.of]
    buckets = group(found.step[own], reached // BUCKET_BYTES)
    fewer, latency = len(own) - len(buckets), int(tiny.min())
    if fewer < MANY * steps or fewer * latency <= LATENCY_SHARE * s.step_ns * steps:
        return bucket != MISSING, bucket, 0
    bucket[own] = buckets.of
    return bucket != MISSING, bucket, latency


def _look(s: Scene) -> Seen | None:
    found = collectives(s.trace, s.chosen)
    own, bucket, latency = _small(s, found)
    if not own.any():
        return None
    found, buckets = found.of(own), group(bucket[own])
    moved = int(found.bytes.sum())
    notice = Notice(
        rule="small_collectives",
        severity="medium",
        text="Gradients are reduced in {small_collectives} collectives of {small_mean_bytes} in each step, where "
        "{small_buckets} would do. Each takes {collective_latency_ns} whatever it moves.",
        todo=s.trace.recorder.todo("small_collectives"),
        figures=[
            METRICS.figure("small_collectives", s.per_step(len(found.row))),
            METRICS.figure("small_buckets", s.per_step(len(buckets))),
            METRICS.figure("small_mean_bytes", moved / len(found.row)),
            METRICS.figure("collective_latency_ns", latency),
        ],
        measure="small_collectives",
        threshold=MANY,
        evidence=Link("distributed", {}, "Show collectives"),
        references=references_of(s.trace.recorder, "small_collectives"),
        why="A collective of few bytes takes its time for the way between the ranks, and the next one waits for it. The "
        "bounds hold if a bucket takes what its collectives take less this latency: at least what then lies beneath the "
        "backward pass, at most what all other time of the step would hide.",
        confidence="medium",
    )
    count = len(s.steps.label)
    size = buckets.count()
    last = np.zeros(len(buckets), np.int64)
    np.maximum.at(last, buckets.of, np.arange(len(found.row)))
    whole = replace(found.of(last), ready_ns=buckets.max(found.ready_ns))
    took = buckets.sum(found.dur_ns) - (size - 1) * latency
    bare = np.bincount(found.step, found.bare_ns, count).astype(np.int64)
    gone = np.bincount(whole.step, (size - 1) * latency, count).astype(np.int64)
    least = first_of(found, bare - left_over(whole, took, count))
    most = first_of(found, could_hide(s.trace, s.steps) + gone)
    return Seen(
        notice,
        Change(row=found.row, less_ns=np.minimum(least, most)),
        Change(row=found.row, less_ns=most),
        found.row[np.lexsort((found.row, found.bytes))],
    )


RULE = Rule("small_collectives", "Many small collectives", _look)
