"""Exposed communication."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace
from msgspec.structs import replace as changed

from tb_plugin.analysis.advice import is_inference
from tb_plugin.analysis.communication import SEND_LESS, SHARE_LESS, computing, exposed
from tb_plugin.analysis.metrics import STEPS, define
from tb_plugin.analysis.parallelism.roles import GATHERS, PIPELINE, SHARDING, roles_of
from tb_plugin.analysis.severity import severity_of
from tb_plugin.analysis.simulate import Change
from tb_plugin.lib.groupby import group, sum_by
from tb_plugin.lib.intervals import Ranges, intersect, measure_within, union
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Link
from tb_plugin.rules._base import NO_SAVING, Bounds, Detection, Rule, Scene, percent
from tb_plugin.rules._collectives import ONE_RANK, Collectives, collectives, could_hide, first_of, left_over
from tb_plugin.rules._limits import Limit
from tb_plugin.rules._metrics import METRICS as OF_RULES
from tb_plugin.rules.serial_collectives import serial
from tb_plugin.rules.small_collectives import small

Int64 = npt.NDArray[np.int64]

EXPOSED_SHARE = 0.05
"""Share of the steps: the last gradients of a pass are reduced when nothing of it is left, and that may take half as much."""
UNKNOWN = (
    "The device computes nothing while only communication runs. No launches were recorded, so the "
    "saving from overlap is unknown."
)

METRICS = OF_RULES.adding(
    define(
        STEPS,
        "ns",
        {
            "could_hide_ns": ("Time to overlap", "Step time without communication."),
            "shards_bare_ns": ("Shards", "Exposed collectives of parameter and gradient shards per step."),
            "gathers_bare_ns": ("Gathers", "Exposed parameter gathers per step."),
            "group_exposed_ns": ("This group", "Exposed communication of the costliest process group per step."),
        },
    ),
    define("", "text", {"process_group": ("Process group", "Name of the process group.")}),
)


def _look(s: Scene) -> Detection | None:
    found = collectives(s.trace, s.chosen)
    roles = roles_of(s.trace)
    # What waits for another stage of a pipeline a rule of its own speaks of.
    handed = np.isin(found.row, roles.row[roles.among(*PIPELINE)])
    apart = bool(handed.any())
    found = found.of(~(serial(found) | small(s, found) | handed))
    if not len(found.row):
        return None
    total = _exposed_in_steps(s, found.row)
    part = s.per_step(total)
    share = part / s.step_ns if s.step_ns else 0.0
    if share <= EXPOSED_SHARE:
        return None
    hidden = could_hide(s.trace, s.steps)
    worst = _group(s, found)
    shards = int(found.bare_ns[np.isin(found.row, roles.row[roles.among(*SHARDING)])].sum())
    gathered = int(found.bare_ns[np.isin(found.row, roles.row[roles.among(*GATHERS)])].sum())
    notice = s.notice(
        RULE,
        severity=severity_of(share),
        text=(
            "Exposed communication takes {communication_ns} of each {step_time_mean_ns} step. Other work "
            "could overlap {could_hide_ns} of it. "
        )
        + ("Process group {process_group} has the largest part: {group_exposed_ns}. " if worst else "")
        + ("Pipeline sends and receives are excluded; they have their own finding. " if apart else "")
        + (
            "Sharding takes {shards_bare_ns} of it, including {gathers_bare_ns} to gather parameters. "
            if shards
            else ""
        )
        + ONE_RANK,
        todo=(
            "Load the traces of all ranks: Distributed then separates waiting from transfer. If this rank "
            "waits, find the late rank; sending less will not help. If data moves: "
        )
        + (SHARE_LESS if is_inference(s.trace) else SEND_LESS)
        + (f" {s.todo(RULE, 'sharding')}" if 2 * gathered > found.bare_ns.sum() else ""),
        figures=[
            METRICS.figure("communication_exposed", share),
            METRICS.figure("communication_ns", part),
            METRICS.figure("step_time_mean_ns", s.step_ns),
            METRICS.figure("could_hide_ns", s.per_step(int(hidden.sum()))),
            *(
                [METRICS.figure("process_group", worst[0]), METRICS.figure("group_exposed_ns", s.per_step(worst[1]))]
                if worst
                else []
            ),
            *(
                [
                    METRICS.figure("shards_bare_ns", s.per_step(shards)),
                    METRICS.figure("gathers_bare_ns", s.per_step(gathered)),
                ]
                if shards
                else []
            ),
        ],
        measure="communication_exposed",
        threshold=EXPOSED_SHARE,
        evidence=Link("distributed", {}, "Show communication"),
        why=(
            "The device computes nothing while only communication runs. Upper bound: communication overlaps "
            "all other work. Lower bound: gradients are reduced during the backward pass as soon as they "
            "exist. Sending less data saves more."
        ),
        confidence="medium",
    )
    count = len(s.steps.label)
    most = first_of(_beside_copies(s, found), hidden)
    events = found.row[np.lexsort((found.row, -found.bare_ns))]
    if not _launches_known(s.trace):
        return Detection(replace(notice, why=UNKNOWN, confidence=""), NO_SAVING, events, takes_ns=total)
    if not (s.trace.kind[found.row] == EventKind.KERNEL).all():
        return Detection(notice, Bounds(Change(), Change(_without(s, found, most))), events)
    least = np.zeros(len(found.row), np.int64)
    own = found.of(found.is_gradient)
    bare = sum_by(own.step, own.bare_ns, count)
    least[found.is_gradient] = first_of(own, bare - left_over(own, own.dur_ns, count))
    awaited = bool(np.isin(found.row, roles.row).any())
    best = Change(row=found.row, less_ns=most, awaited=awaited)
    return Detection(notice, Bounds(Change(row=found.row, less_ns=np.minimum(least, most)), best), events)


def _beside_copies(s: Scene, found: Collectives) -> Collectives:
    """Collectives; of those with a role the time in which nothing computes: what needs them waits beside copies as well."""
    kernels = (s.trace.kind[found.row] == EventKind.KERNEL) & np.isin(found.row, roles_of(s.trace).row)
    computed = measure_within(computing(s.trace), s.trace.start_ns[found.row], s.trace.ends(found.row))
    return changed(found, bare_ns=np.where(kernels, found.dur_ns - computed, found.bare_ns))


def _launches_known(trace: TraceTable) -> bool:
    """Returns whether any launch of a kernel is recorded, or there is none to launch: what steps wait for is known then."""
    kernels = trace.kind == EventKind.KERNEL
    return not kernels.any() or bool((trace.launch[kernels] != MISSING).any())


def _exposed_in_steps(s: Scene, rows: Int64) -> int:
    """How much of the steps nothing but these collectives takes."""
    steps = s.steps
    alone = intersect(exposed(s.trace), union(s.trace.start_ns[rows], s.trace.ends(rows)))
    return int(measure_within(alone, steps.start_ns, steps.end_ns).sum())


def _group(s: Scene, found: Collectives) -> tuple[str, int] | None:
    """The process group with the most that nothing hides, and how much; None where there are not several."""
    known = found.group != MISSING
    groups = group(found.group[known])
    if len(groups) < 2:
        return None
    bare = groups.sum(found.bare_ns[known])
    names = [s.trace.strings[each] for each in found.group[known][groups.first].tolist()]
    most = min(range(len(names)), key=lambda i: (-bare[i], names[i]))
    return names[most], int(bare[most])


def _without(s: Scene, found: Collectives, less_ns: Int64) -> Ranges:
    """When the host would not wait any more, if so much went from the begin of each."""
    bare = intersect(exposed(s.trace), s.host)
    return intersect(bare, union(s.trace.start_ns[found.row], s.trace.start_ns[found.row] + less_ns))


RULE = Rule(
    __name__,
    title="Exposed communication",
    look=_look,
    order=210,
    detects="Collectives are exposed: nothing else runs on the GPU during them.",
    threshold=f"Exposed collectives take more than {percent(EXPOSED_SHARE)} of the steps.",
    saving=(
        "At most the time of each step without communication (`could_hide_ns`). At least what starts earlier "
        "if gradients are reduced as soon as they are available. 0 for collectives that are no reductions of "
        "gradients. None if no launch is recorded."
    ),
    notes="""
        The rule counts collectives that `serial_collectives`, `small_collectives` and `pipeline_bubble` do not
        cover. The last gradients of a healthy training run take up to half of the threshold. The finding names
        the process group with most of it. The bounds assume that as much data moves as now, beside other work.
        Collectives with a [role](../concepts/attribution.md#parallelism) count in the upper bound as well while a copy runs.

        A collective reduces gradients if an operator `AccumulateGrad` launches it, or if it follows the
        backward pass directly. It starts when its gradients are available and the one before it has ended. What
        then remains after the backward pass stays exposed, at least the longest collective. Gradients are
        available when the kernels launched before the collective have ended.

        If shards of parameters or gradients are part of it (FSDP, ZeRO), the finding tells how much
        (`sharding`). One rank does not show whether it waits or transfers: the Distributed page does.
    """,
    cases=("", "sharding"),
    needs_kernels=True,
    limits=(Limit.COMMUNICATION,),
)
