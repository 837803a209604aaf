"""Pipeline bubbles."""

from __future__ import annotations

from tb_plugin.analysis.parallelism.roles import PIPELINE, exposed_ns, roles_of
from tb_plugin.analysis.range_patterns import name_matches
from tb_plugin.analysis.simulate import Change
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.payloads import Link
from tb_plugin.rules._base import COMMON, Bounds, Detection, Limit, Rule, Scene, optional, percent

BUBBLE_SHARE = 0.05
"""Minimum share of bubbles. Filling and draining four stages may take up to this share."""
METRICS = COMMON.in_steps(
    ns={"pipeline_bubble_ns": ("Bubble", "Exposed pipeline communication per step.")},
    ratio={"pipeline_bubble_ratio": ("Bubble share", "Bubble divided by step time.")},
    number={"pipeline_ranges": ("Ranges", "Micro-batch ranges of the pipeline stage, per step.")},
)


def _look(s: Scene) -> Detection | None:
    trace, roles = s.trace, roles_of(s.trace)
    mine = roles.among(*PIPELINE) & s.rows[roles.row]
    rows, bare = roles.row[mine], exposed_ns(trace, mine)
    share = s.per_step(bare) / s.step_ns if s.step_ns else 0.0
    if share <= BUBBLE_SHARE:
        return None
    ranges = name_matches(trace, trace.recorder.parallel.micro_batch) & (trace.kind == EventKind.ANNOTATION) & s.rows
    count = int(ranges.sum())
    notice = s.notice(
        RULE,
        text=f"{s.per_step_words} this pipeline stage spends {{pipeline_bubble_ns}} only waiting for other stages or "
        f"exchanging data with them" + (" ({pipeline_ranges} micro-batch passes)." if count else "."),
        figures=METRICS.measured(
            pipeline_bubble_ns=s.per_step(bare),
            pipeline_bubble_ratio=share,
            **optional(count, pipeline_ranges=s.per_step(count)),
        ),
        measure="pipeline_bubble_ratio",
        threshold=BUBBLE_SHARE,
        evidence=Link("parallelism", {}, "Show roles"),
        why="A waiting stage computes nothing. More micro-batches, or several stages per rank, shorten the wait. Lower "
        "bound: zero, because one rank's trace cannot separate waiting from transfer. Upper bound: all of this time.",
    )
    most = Change(row=rows, less_ns=trace.dur_ns[rows])
    return Detection(notice, Bounds(Change(), most), s.by_length(rows))


RULE = Rule(
    __name__,
    title="Pipeline bubble",
    look=_look,
    order=220,
    detects="A pipeline stage only waits for other stages, or sends and receives data.",
    threshold=f"Waiting and transfer take more than {percent(BUBBLE_SHARE)} of step time.",
    saving="Upper bound: the time of all these transfers. Lower bound: 0, because every schedule that fills and drains a "
    "pipeline has a bubble.",
    needs="Transfers with a pipeline [role](../concepts/attribution.md#parallelism).",
    notes="""
        The trace of one rank does not show how much of the bubble is waiting and how much is transfer. `communication`
        excludes these transfers.
    """,
    has_data=lambda trace: bool(roles_of(trace).among(*PIPELINE).any()),
    needs_kernels=True,
    limits=(Limit.COMMUNICATION,),
)
