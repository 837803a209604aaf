"""Peaks caused by one short-lived block."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.device_memory.peaks import Peak, peak_without
from tb_plugin.analysis.device_memory.records import Device
from tb_plugin.analysis.memory.metrics import METRICS
from tb_plugin.analysis.memory.tables import Scene
from tb_plugin.analysis.phrases import references_of
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Link, Notice
from tb_plugin.rules._base import percent
from tb_plugin.rules._checks import Check
from tb_plugin.views.memory.attribution_text import operator_and_place, sentence_of
from tb_plugin.views.memory.thresholds import NEAR, least_bytes, severity_near

Int64 = npt.NDArray[np.int64]

# Share of a step. Longer-lived blocks are part of the step's working set.
SHORT_LIFE = 0.1
# Share of the peak. A smaller drop hardly allows one more sample in a batch of ten.
SPIKE_SHARE = 0.1
# Largest blocks to try: with more of one size at the peak, no single block causes it.
MAX_TRIED_BLOCKS = 4


CHECK = Check(
    "memory_spike",
    detects="One temporary block causes the peak.",
    threshold=f"Without this and similar blocks, the peak would be at least {percent(SPIKE_SHARE)} lower "
    "(`peak_drop_ratio`).",
    severity=f"Medium if the peak is at least {percent(NEAR)} of the device memory, else low.",
    notes=f"""
        A block is temporary if it lives for at most {percent(SHORT_LIFE)} of a mean step (without steps: of the
        recording). Similar blocks have the same size, operator, module and line. `peak_without_bytes` is the peak
        without them. If other temporary blocks are live at the peak as well, there is no finding.
    """,
)


def spike_of(scene: Scene, device: Device, peak: Peak) -> Notice | None:
    """Returns the finding on the block that causes the peak. None if no single block causes it."""
    blocks = device.blocks
    if not device.has_totals or peak.from_before or peak.value <= 0:
        return None
    least = max(SPIKE_SHARE * peak.value, least_bytes(scene.trace, device))
    life = np.append(device.time_ns, 0)[blocks.release] - np.append(device.time_ns, 0)[blocks.allocation]
    is_at_peak = blocks.paired & (blocks.allocation != MISSING) & (blocks.release != MISSING) & blocks.live(peak.at)
    found = np.flatnonzero(is_at_peak & (blocks.bytes >= least) & (life <= SHORT_LIFE * _step_ns(scene)))
    found = found[np.argsort(-blocks.bytes[found], kind="stable")][:MAX_TRIED_BLOCKS]
    rest = [(_rest(scene, device, peak, int(block)), int(block)) for block in found]
    lower, block = min(rest, default=(peak.value, MISSING))
    if peak.value - lower < least:
        return None
    who = operator_and_place(scene, int(device.record[blocks.allocation[block]]))
    return Notice(
        rule=CHECK.id,
        severity=severity_near(scene.trace, device, peak.value),
        text="One temporary block causes the peak of {device}: {block_bytes} for {lifetime_ns}, allocated by "
        f"{sentence_of(who)}. Without it and similar blocks the peak of {{peak_allocated_bytes}} would be "
        "{peak_without_bytes}, {peak_drop_ratio} lower.",
        todo=scene.trace.recorder.todo(CHECK.advice_key()),
        figures=[
            METRICS.figure("peak_drop_ratio", 1 - lower / peak.value),
            METRICS.figure("device", device.name),
            METRICS.figure("block_bytes", int(blocks.bytes[block])),
            METRICS.figure("lifetime_ns", int(life[block])),
            METRICS.figure("peak_allocated_bytes", peak.value),
            METRICS.figure("peak_without_bytes", lower),
            *who,
        ],
        measure="peak_drop_ratio",
        threshold=SPIKE_SHARE,
        evidence=Link(
            "memory",
            {"device": device.name, "group": "memory_events", "where": f"block_number:{block}"},
            "Show the block",
        ),
        references=references_of(scene.trace.recorder, CHECK.id),
    )


def _step_ns(scene: Scene) -> float:
    """Returns the mean step time in nanoseconds. If there are no steps, returns the length of the recording."""
    steps, window = scene.trace.steps, scene.window
    if not steps.recorded or not len(steps.host_start_ns):
        return float(window.end_ns - window.start_ns)
    return float((steps.host_end_ns - steps.host_start_ns).mean())


def _rest(scene: Scene, device: Device, peak: Peak, block: int) -> int:
    """Returns the peak that memory would reach without this block and similar blocks.

    Similar blocks have the same size, operator, module and line. If several of them are live at the peak, returns
    the peak unchanged.
    """
    blocks, trace = device.blocks, scene.trace
    same = np.flatnonzero((blocks.bytes == blocks.bytes[block]) & (blocks.allocation != MISSING) & blocks.paired)
    event = device.record[blocks.allocation[same]]
    owners = (scene.owners.names(trace, event), scene.owners.modules(trace, event), scene.origins.frame.of[event])
    alike = np.all([values == values[same == block] for values in owners], axis=0)
    like = np.zeros(len(blocks.bytes), np.bool_)
    like[same[alike]] = True
    if (like & blocks.live(peak.at)).sum() > 1:
        return peak.value
    return peak_without(device, scene.window, like).value
