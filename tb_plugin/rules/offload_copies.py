"""Tensors offloaded to host memory."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.parallelism.roles import OFFLOAD, Role, exposed_ns, roles_of
from tb_plugin.analysis.simulate import Change
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.rules._base import COMMON, MIN_SHARE, Bounds, Detection, Limit, Rule, Scene, percent

METRICS = COMMON.in_steps(
    ns={
        "offload_ns": ("Offloading", "Copy time of offloaded tensors, per step."),
        "offload_alone_ns": ("Exposed", "Time during which only copies of offloaded tensors run, per step."),
    },
    bytes={
        "offload_to_host_bytes": ("To host", "Bytes offloaded to the host per step."),
        "offload_to_device_bytes": ("To device", "Bytes loaded back to the device per step."),
    },
)


def _look(s: Scene) -> Detection | None:
    trace, roles = s.trace, roles_of(s.trace)
    mine = roles.among(*OFFLOAD) & s.rows[roles.row]
    rows, bare = roles.row[mine], exposed_ns(trace, mine)
    if not s.is_significant(bare):
        return None
    size = roles.bytes[mine]
    there = roles.role[mine] == Role.OFFLOAD_TO_HOST
    notice = s.notice(
        RULE,
        text=f"{s.per_step_words} copies of offloaded tensors take {{offload_ns}}. {{offload_alone_ns}} of this time is "
        "exposed. The copies move {offload_to_host_bytes} to the host and {offload_to_device_bytes} to the device.",
        figures=METRICS.measured(
            offload_ns=s.per_step(int(trace.dur_ns[rows].sum())),
            offload_alone_ns=s.per_step(bare),
            offload_to_host_bytes=s.per_step(int(size[there].sum())),
            offload_to_device_bytes=s.per_step(int(size[~there].sum())),
        ),
        why="Offloading saves device memory but costs copies between host and device. Upper bound: all of these copies and "
        "their calls disappear. Lower bound: the exposed part disappears.",
    )
    calls = np.unique(trace.launch[rows])
    calls = calls[calls != MISSING].astype(np.int64)
    operators = np.unique(trace.operator[rows])
    around = np.append(calls, operators[operators != MISSING].astype(np.int64))
    least = Change(row=rows, less_ns=roles.exposed_ns[mine])
    return Detection(notice, Bounds(least, Change(s.covered(around), rows, trace.dur_ns[rows])), s.by_length(rows))


RULE = Rule(
    __name__,
    title="Offloading copies",
    look=_look,
    order=70,
    detects="Offloaded tensors are copied to the CPU and back while nothing else runs.",
    threshold=f"The exposed time of these copies is at least {percent(MIN_SHARE)} of the step.",
    saving="Lower bound: the exposed time of these copies. Upper bound: the time of all these copies, including their calls "
    "and operators.",
    needs="Copies with an offloading [role](../concepts/attribution.md#parallelism).",
    notes="""
        Other rules ignore copies that bring offloaded tensors back to the GPU.
    """,
    has_data=lambda trace: bool(roles_of(trace).among(*OFFLOAD).any()),
    needs_kernels=True,
    limits=(Limit.COPIES,),
)
