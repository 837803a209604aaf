"""Thresholds of significance, and texts about allocating code, for memory findings."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.memory.findings import Subject
from tb_plugin.analysis.memory.metrics import METRICS
from tb_plugin.analysis.memory.tables import MemoryScene, module_names
from tb_plugin.analysis.memory.trace_devices import Device, memory_of
from tb_plugin.model.trace.schema import MISSING, NO_OPERATOR
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figure, Severity

# Allocators round segments to 2 and 20 MiB, and library caches take tens of MiB.
MIN_BYTES = 256 << 20
# Share of a device's memory. Less does not change the feasible batch size.
MIN_MEMORY_SHARE = 0.02
# Share of a device's memory. From here on, wasted memory limits the next larger input.
NEAR = 0.8


def least_bytes(trace: TraceTable, device: Device) -> int:
    return max(MIN_BYTES, int(MIN_MEMORY_SHARE * (memory_of(trace, device) or 0)))


def severity_near(trace: TraceTable, device: Device, most: int) -> Severity:
    memory = memory_of(trace, device)
    return "medium" if memory and most >= NEAR * memory else "low"


def subject_of(scene: MemoryScene, device: Device, event: int) -> Subject:
    at = np.array([event])
    name = int(scene.owners.names(scene.trace, at)[0])
    texts: dict[str, str | None] = {
        "name": NO_OPERATOR if name == MISSING else scene.trace.strings[name],
        "module": module_names(scene.trace, scene.owners.modules(scene.trace, at))[0].as_py(),
        "allocation_frame": scene.origins.frame.take(at)[0].as_py(),
    }
    figures = METRICS.figures({key: text for key, text in texts.items() if text})
    words = {"name": "{name}", "module": " in {module}", "allocation_frame": ", line {allocation_frame}"}
    code = "".join(words[figure.metric.key] for figure in figures)
    return Subject(scene.trace.recorder, device.name, code, figures)


def filter_of(code: list[Figure]) -> str:
    figure = code[-1] if code[-1].metric.key == "allocation_frame" else code[0]
    return f"{figure.metric.key}:{figure.value}"
