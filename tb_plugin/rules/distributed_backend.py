"""A communication backend that is slow on these devices."""

from __future__ import annotations

import re

import numpy as np

from tb_plugin.analysis.communication import BACKEND
from tb_plugin.analysis.range_patterns import DISTRIBUTED_DATA_PARALLEL
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.rules._base import COMMON, NO_SAVING, Detection, Limit, Rule, Scene

METRICS = COMMON.defining(
    {("", "text"): {"others": ("Backends", "Recorded backends, all different from the recommended one.")}}
)


def _look(s: Scene) -> Detection | None:
    """Reports only backends that occur in the trace. The old plugin does not check this."""
    capable = [device for device in s.trace.devices if device.collective_backend]
    if s.trace.strings.find(DISTRIBUTED_DATA_PARALLEL) == MISSING or not capable:
        return None
    best = {device.collective_backend for device in capable}
    on_device = bool((s.trace.is_collective & (s.trace.kind == EventKind.KERNEL)).any())
    seen = _backends_at_work(s.trace)
    if not seen or on_device or best & (seen | set(_recorded_backends(s.trace))):
        return None
    return Detection(
        s.notice(
            RULE,
            text="Ranks communicate through {others} on {affected} devices; {backend} is faster on these devices.",
            figures=[
                METRICS.figure("affected", len(capable), "Devices"),
                METRICS.figure("backend", ", ".join(sorted(best))),
                METRICS.figure("others", ", ".join(sorted(seen))),
            ],
            evidence=None,
            confidence="",
        ),
        NO_SAVING,
    )


def _backends_at_work(trace: TraceTable) -> set[str]:
    names = np.unique(trace.name[trace.is_collective & (trace.kind != EventKind.KERNEL)]).tolist()
    found = [BACKEND.match(trace.strings[name]) for name in names]
    return {match.group(1).lower() for match in found if match}


def _recorded_backends(trace: TraceTable) -> list[str]:
    """Returns the backends in ``distributedInfo``, such as ``cpu:gloo,cuda:nccl``."""
    info = trace.metadata.get("distributedInfo")
    stated = str(info.get("backend", "")) if isinstance(info, dict) else ""
    return re.split(r"[:,]", stated.lower())


RULE = Rule(
    __name__,
    title="Slow communication backend",
    look=_look,
    order=440,
    detects="Processes use a communication backend that is not designed for the GPUs.",
    threshold="`DistributedDataParallel.forward` runs, none of the recorded backends (`others`) is the recommended one, and "
    "no collective kernel runs.",
    saving="None: the trace does not show how fast the recommended backend would be.",
    notes="""
        NCCL supports NVIDIA GPUs with compute capability 3.5 or higher. On AMD GPUs, the name NCCL means RCCL.
    """,
    limits=(Limit.COMMUNICATION,),
)
