"""Gradients reduced in many small collectives."""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import replace

from tb_plugin.analysis.communication import SMALL_BYTES
from tb_plugin.analysis.simulate import Change
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import Groups, group, sum_by
from tb_plugin.lib.intervals import Ranges
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Link
from tb_plugin.rules._base import COMMON, Bounds, Detection, Limit, Rule, Scene, percent
from tb_plugin.rules._collectives import Collectives, collectives, could_hide, first_of, left_over
from tb_plugin.rules.serial_collectives import serial_calls

BUCKET_BYTES = 25 << 20
"""Default bucket size of DistributedDataParallel."""
MANY = 10
"""Minimum number of collectives per step that the fix removes. Every training run has a few small collectives."""
TINY_BYTES = 64 << 10
"""Maximum size of a tiny collective, whose time is mostly latency. The slowest network transfers this size in 7 us."""
NETWORK = 10.0
"""Minimum transfer rate of networks between devices, in bytes per nanosecond; a faster rate in the trace wins."""
LATENCY_SHARE = 0.01
"""Minimum share of the saved latency in the steps. Smaller shares are within step-to-step noise."""

METRICS = COMMON.in_steps(
    number={
        "small_collectives": ("Collectives", "Collectives that could share buckets, per step."),
        "small_buckets": ("Buckets", "Buckets of 25 MB that these collectives need, per step."),
    },
    bytes={"small_mean_bytes": ("Mean size", "Bytes of these collectives divided by their number.")},
    ns={"collective_latency_ns": ("Latency", "Shortest duration of a collective of at most 64 KiB.")},
)


class _Small(msgspec.Struct, frozen=True, eq=False):
    """Small gradient collectives that could be grouped into buckets."""

    is_small: Bool
    buckets: Groups
    latency_ns: tuple[int, int]
    """Lower and upper bound of the latency per collective."""


def small_calls(s: Scene, found: Collectives) -> Bool:
    """Returns, for each collective, whether this rule applies."""
    return _small(s, found).is_small


def _small(s: Scene, found: Collectives) -> _Small:
    known = found.is_gradient & ~serial_calls(found) & (found.bytes > 0)
    own = np.flatnonzero(known & (found.bytes <= SMALL_BYTES))
    nothing = _Small(np.zeros(len(found.row), np.bool_), group(own[:0]), (0, 0))
    tiny = own[found.bytes[own] <= TINY_BYTES]
    steps = max(len(s.steps.label), 1)
    if len(own) <= MANY * steps or not len(tiny):
        return nothing
    by_step = group(found.step[own])
    reached = np.cumsum(found.bytes[own]) - found.bytes[own]
    reached -= by_step.min(reached)[by_step.of]
    buckets = group(found.step[own], reached // BUCKET_BYTES)
    fewer, most = len(own) - len(buckets), int(found.dur_ns[tiny].min())
    if fewer < MANY * steps or fewer * most <= LATENCY_SHARE * s.step_ns * steps:
        return nothing
    rate = max(NETWORK, float((found.bytes[known] / np.maximum(found.dur_ns[known], 1)).max()))
    least = int((found.dur_ns[tiny] - np.ceil(found.bytes[tiny] / rate)).min())
    is_small = nothing.is_small.copy()
    is_small[own] = True
    return _Small(is_small, buckets, (max(least, 0), most))


def _look(s: Scene) -> Detection | None:
    found = collectives(s.trace, s.chosen)
    own = _small(s, found)
    if not own.is_small.any():
        return None
    found, buckets, (least, most) = found.of(own.is_small), own.buckets, own.latency_ns
    notice = s.notice(
        RULE,
        text="Gradients are reduced in {small_collectives} collectives of {small_mean_bytes} per step; {small_buckets} "
        "collectives would be enough. The shortest small collective takes {collective_latency_ns}. Longer collectives may "
        "wait for other ranks, which one trace cannot show.",
        figures=METRICS.measured(
            small_collectives=s.per_step(len(found.row)),
            small_buckets=s.per_step(len(buckets)),
            small_mean_bytes=int(found.bytes.sum()) / len(found.row),
            collective_latency_ns=most,
        ),
        measure="small_collectives",
        threshold=MANY,
        evidence=Link("distributed", {}, "Show collectives"),
        why="A small collective costs mostly latency, and the next collective waits for it. The bounds assume that a bucket "
        "has the latency of one collective. Lower bound: buckets overlap with the backward pass. Upper bound: buckets "
        "overlap with the whole step.",
    )
    count = len(s.steps.label)
    size, last = buckets.count(), buckets.max(np.arange(len(found.row)))
    whole = replace(found.of(last), ready_ns=buckets.max(found.ready_ns))
    took = buckets.sum(found.dur_ns) - (size - 1) * least
    bare = sum_by(found.step, found.bare_ns, count)
    gone = sum_by(whole.step, (size - 1) * most, count)
    calls = Change(_calls(s, np.delete(found.row, last)))
    at_best = first_of(found, could_hide(s.trace, s.steps) + gone)
    surely = np.minimum(first_of(found, bare - left_over(whole, took, count)), at_best)
    return Detection(
        notice,
        Bounds(replace(calls, row=found.row, less_ns=surely), replace(calls, row=found.row, less_ns=at_best)),
        found.row[np.lexsort((found.row, found.bytes))],
    )


def _calls(s: Scene, rows: Int64) -> Ranges:
    trace = s.trace
    outer, at = trace.launch[rows].astype(np.int64), trace.operator[rows].astype(np.int64)
    while (inside := (at != MISSING) & trace.is_collective[at]).any():
        outer, at = np.where(inside, at, outer), np.where(inside, trace.operator[at], MISSING).astype(np.int64)
    return s.covered(outer)


RULE = Rule(
    __name__,
    title="Many small collectives",
    look=_look,
    order=250,
    detects="Gradients are reduced in many small collectives.",
    threshold=f"Each step has at least {MANY} more collectives than buckets of 25 MB would need. The latency of these "
    f"collectives is more than {percent(LATENCY_SHARE)} of step time.",
    saving="Lower bound: the overlap with the backward pass if buckets replace these collectives. Upper bound: the latency "
    "of these collectives, and the overlap with the whole step. Most calls of these collectives disappear too.",
    notes="""
        A collective is small if it moves less than a tenth of a bucket. Collectives on the compute stream are excluded.
        Latency is the shortest duration of a collective up to 64 KiB. For the lower bound, the transfer time of this
        collective's bytes is subtracted. The transfer rate is the best one in the trace, or 10 GB/s if that is higher.
    """,
    needs_kernels=True,
    limits=(Limit.COMMUNICATION,),
)
