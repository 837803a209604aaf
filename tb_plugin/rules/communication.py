"""Exposed communication."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from tb_plugin.analysis.advice import is_inference
from tb_plugin.analysis.communication import (
    MESSAGES,
    SEND_FEWER,
    SEND_LESS,
    SHARE_FEWER,
    SHARE_LESS,
    computation_ranges,
    exposed_ranges,
    small_messages,
)
from tb_plugin.analysis.parallelism.roles import GATHERS, PIPELINE, SHARDING, roles_of
from tb_plugin.analysis.phrases import capitalized
from tb_plugin.analysis.severity import severity_of
from tb_plugin.analysis.simulate import Change
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import group, sum_by
from tb_plugin.lib.intervals import Ranges, intersect, measure_within, union
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Link
from tb_plugin.rules._base import COMMON, NO_SAVING, Bounds, Detection, Limit, Rule, Scene, optional, percent
from tb_plugin.rules._collectives import ONE_RANK, Collectives, collectives, could_hide, first_of, left_over
from tb_plugin.rules.serial_collectives import serial_calls
from tb_plugin.rules.small_collectives import small_calls

EXPOSED_SHARE = 0.05
"""Minimum share of exposed communication. The last gradients of a backward pass may take half of it."""
UNKNOWN = (
    "The device computes nothing while only communication runs. No launches were recorded, so the "
    "saving from overlap is unknown."
)
NO_COMPUTE = "A saving is unknown: the steps contain no recorded compute that could run during communication."

METRICS = (
    COMMON.adding(MESSAGES)
    .in_steps(
        ns={
            "could_hide_ns": ("Time to overlap", "Step time during which no communication runs."),
            "shards_bare_ns": ("Shards", "Exposed time of collectives for sharded parameters and gradients, per step."),
            "gathers_bare_ns": ("Gathers", "Exposed time of parameter gathers, per step."),
            "group_exposed_ns": ("This group", "Largest exposed communication of one process group, per step."),
        }
    )
    .defining({("", "text"): {"process_group": ("Process group", "Process group name.")}})
)


def _look(s: Scene) -> Detection | None:
    found = collectives(s.trace, s.chosen)
    roles = roles_of(s.trace)
    # The rule pipeline_bubble covers waits for other pipeline stages.
    handed = np.isin(found.row, roles.row[roles.among(*PIPELINE)])
    apart = bool(handed.any())
    found = found.of(~(serial_calls(found) | small_calls(s, found) | handed))
    if not len(found.row):
        return None
    total = _exposed_in_steps(s, found.row)
    part = s.per_step(total)
    share = part / s.step_ns if s.step_ns else 0.0
    if share <= EXPOSED_SHARE:
        return None
    hidden = could_hide(s.trace, s.steps)
    hides = bool(hidden.any())
    worst, worst_ns = _group(s, found)
    shards = int(found.bare_ns[np.isin(found.row, roles.row[roles.among(*SHARDING)])].sum())
    gathered = int(found.bare_ns[np.isin(found.row, roles.row[roles.among(*GATHERS)])].sum())
    small = small_messages(found.bytes, found.dur_ns)
    notice = s.notice(
        RULE,
        severity=severity_of(share),
        text=(
            "Exposed communication takes {communication_ns} of {step_time_mean_ns} per step. "
            + (
                "At most {could_hide_ns} can overlap: only this part of the step has no communication. "
                if hides
                else "No compute is recorded that could overlap with it. "
            )
        )
        + ("Process group {process_group} takes the most: {group_exposed_ns}. " if worst else "")
        + ("Pipeline sends and receives are excluded, because another finding covers them. " if apart else "")
        + (
            (
                "Sharding takes {shards_bare_ns} of the exposed communication, including {gathers_bare_ns} "
                "to gather parameters. "
            )
            if shards
            else ""
        )
        + (
            "Most of it goes to messages of at most {message_bytes} that reach {message_rate}: bandwidth is not the limit. "
            if small
            else ""
        )
        + ONE_RANK,
        case="small" if small and not is_inference(s.trace) else "",
        todo=_todo(s, small is not None)
        + (f" {s.todo(RULE, 'sharding')}" if 2 * gathered > found.bare_ns.sum() else ""),
        figures=METRICS.measured(
            communication_exposed=share,
            communication_ns=part,
            step_time_mean_ns=s.step_ns,
            **(small.values if small else {}),
            **optional(hides, could_hide_ns=s.per_step(int(hidden.sum()))),
            **optional(worst, process_group=worst, group_exposed_ns=s.per_step(worst_ns)),
            **optional(shards, shards_bare_ns=s.per_step(shards), gathers_bare_ns=s.per_step(gathered)),
        ),
        measure="communication_exposed",
        threshold=EXPOSED_SHARE,
        evidence=Link("distributed", {}, "Show communication"),
        why="The device computes nothing while only communication runs. Upper bound: communication overlaps with all other "
        "work. Lower bound: gradients are reduced during the backward pass as soon as they exist. Sending less data would "
        "save more.",
    )
    count = len(s.steps.label)
    most = first_of(_beside_copies(s, found), hidden)
    events = found.row[np.lexsort((found.row, -found.bare_ns))]
    if not hides:
        return Detection(replace(notice, why=NO_COMPUTE, confidence=""), NO_SAVING, events, takes_ns=total)
    if not _launches_known(s.trace):
        return Detection(replace(notice, why=UNKNOWN, confidence=""), NO_SAVING, events, takes_ns=total)
    if not (s.trace.kind[found.row] == EventKind.KERNEL).all():
        return Detection(notice, Bounds(Change(), Change(_without(s, found, most))), events)
    least = np.zeros(len(found.row), np.int64)
    own = found.of(found.is_gradient)
    bare = sum_by(own.step, own.bare_ns, count)
    least[found.is_gradient] = first_of(own, bare - left_over(own, own.dur_ns, count))
    best = Change(row=found.row, less_ns=most)
    return Detection(notice, Bounds(Change(row=found.row, less_ns=np.minimum(least, most)), best), events)


def _todo(s: Scene, is_small: bool) -> str:
    if is_small:
        advice = capitalized(SHARE_FEWER if is_inference(s.trace) else SEND_FEWER)
        return f"{advice} The page Ranks shows whether ranks wait: if most of the time is waiting, fix the late rank first."
    return (
        "Load all ranks and compare them on the page Ranks: it separates waiting from transfer. If most of it is "
        "waiting, fix the late rank. If most of it is transfer, "
    ) + (SHARE_LESS if is_inference(s.trace) else SEND_LESS)


def _beside_copies(s: Scene, found: Collectives) -> Collectives:
    """Counts overlap with copies as exposed for collectives with a role, because dependent work waits for both."""
    kernels = (s.trace.kind[found.row] == EventKind.KERNEL) & np.isin(found.row, roles_of(s.trace).row)
    computed = measure_within(computation_ranges(s.trace), s.trace.start_ns[found.row], s.trace.ends(found.row))
    return replace(found, bare_ns=np.where(kernels, found.dur_ns - computed, found.bare_ns))


def _launches_known(trace: TraceTable) -> bool:
    """Returns whether any kernel has a recorded launch. Also returns True if the trace has no kernels."""
    kernels = trace.kind == EventKind.KERNEL
    return not kernels.any() or bool((trace.launch[kernels] != MISSING).any())


def _exposed_in_steps(s: Scene, rows: Int64) -> int:
    steps = s.steps
    alone = intersect(exposed_ranges(s.trace), union(s.trace.start_ns[rows], s.trace.ends(rows)))
    return int(measure_within(alone, steps.start_ns, steps.end_ns).sum())


def _group(s: Scene, found: Collectives) -> tuple[str, int]:
    """Returns the process group with the most exposed time, and this time; "" if there are fewer than two groups."""
    known = found.group != MISSING
    groups = group(found.group[known])
    if len(groups) < 2:
        return "", 0
    bare = groups.sum(found.bare_ns[known])
    names = [s.trace.strings[each] for each in found.group[known][groups.first].tolist()]
    most = min(range(len(names)), key=lambda i: (-bare[i], names[i]))
    return names[most], int(bare[most])


def _without(s: Scene, found: Collectives, less_ns: Int64) -> Ranges:
    """Returns the time ranges on the host that are saved if the first ``less_ns`` of each collective are removed."""
    bare = intersect(exposed_ranges(s.trace), s.host)
    return intersect(bare, union(s.trace.start_ns[found.row], s.trace.start_ns[found.row] + less_ns))


RULE = Rule(
    __name__,
    title="Exposed communication",
    look=_look,
    order=210,
    detects="Collectives are exposed: nothing else runs on the GPU at the same time.",
    threshold=f"Exposed collectives take more than {percent(EXPOSED_SHARE)} of step time.",
    saving="Upper bound: the step time during which no communication runs (`could_hide_ns`). Lower bound: the overlap "
    "gained if gradients are reduced as soon as they are available. For other collectives, the lower bound is 0. There are "
    "no bounds if no launch is recorded.",
    notes="""
        The rule excludes collectives that `serial_collectives`, `small_collectives` and `pipeline_bubble` cover. Even
        in a healthy training run, collectives of the last gradients may reach half of the threshold. The finding names
        the process group with the most exposed time. The bounds assume that the same amount of data moves while other
        work runs. For collectives with a [role](../concepts/attribution.md#parallelism), the upper bound includes time
        during which only copies run.

        A collective reduces gradients if the operator `AccumulateGrad` launches it, or if it directly follows the
        backward pass. For the lower bound, such a collective starts when its gradients are available and the previous
        collective has ended. Communication after the backward pass stays exposed, at least for the duration of the
        longest collective. Gradients are available when all kernels launched before the collective have ended.

        The advice is to merge collectives (`small`) if small messages take at least half of the time. A small message has
        at most 2.5 MiB, and reaches less than half of the best rate in the trace.

        If parameters or gradients are sharded (FSDP, ZeRO), the finding also reports the time of their collectives
        (`sharding`). The trace of one rank does not show whether the rank waits or transfers. The page Ranks
        shows both.
    """,
    cases=("", "small", "sharding"),
    needs_kernels=True,
    limits=(Limit.COMMUNICATION,),
)
