"""Findings about reserved memory that is unused, or that shrinks and grows."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.memory.growth import varying_share
from tb_plugin.analysis.memory.metrics import METRICS
from tb_plugin.analysis.memory.tables import MemoryScene
from tb_plugin.analysis.memory.trace_devices import Device
from tb_plugin.analysis.memory.window import MemoryRange, Peak, reserved_peak_of
from tb_plugin.analysis.phrases import references_of
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Figure, Link, Notice
from tb_plugin.rules._base import Check, percent
from tb_plugin.views.memory.finding_parts import NEAR, least_bytes, severity_near, subject_of
from tb_plugin.views.memory.surviving_blocks import StepBlocks

# Share of reserved memory. Allocators cache more than is requested; a fifth is more than rounding.
UNUSED_SHARE = 0.2
# Share of unused bytes. From here on, growth despite enough free bytes explains it.
MIN_GAP_GROWTH_SHARE = 0.5
# Share of bytes that steps allocate in sizes that not every step has: then shapes change.
VARYING_SHARE = 0.1


CHECK = Check(
    "memory_fragmentation",
    detects="Much of the reserved memory is never allocated, even while reserved memory is at its peak.",
    threshold=f"`unused_reserved_bytes` is at least {percent(UNUSED_SHARE)} of the peak (`unused_reserved_ratio`).",
    severity=f"Medium if the peak is at least {percent(NEAR)} of the device memory, else low.",
    notes="""
        `fragmentation_cause` is the first of these that applies. *Reserved before*: an earlier peak was higher, and the
        cache has not shrunk since. *Changing sizes* (`varying_sizes_ratio`) or *gaps between blocks*
        (`distinct_sizes`): reserved memory grew `gap_growths` times, by `gap_growth_bytes`, although enough bytes were
        free. *One large block*: reserved memory last grew for a block of at least half of the unused bytes. Otherwise
        *more than was requested*.
    """,
    cases=("before", "shapes", "sizes", "large", "other"),
)


def unused_of(device: Device, window: MemoryRange) -> tuple[Peak, int] | None:
    """Returns the peak of reserved memory, and the bytes that were never allocated during the peak; None if unknown."""
    peak = reserved_peak_of(device, window)
    if peak is None or peak.value <= 0 or not device.has_totals:
        return None
    inside = np.flatnonzero(window.holds(device.time_ns))
    at = np.concatenate((inside, device.each_at(window.begins - 1)))
    at = at[np.append(device.reserved, MISSING)[at] == peak.value]
    used = int(np.append(device.allocated, device.before)[at].max())
    return peak, max(peak.value - used, 0)


class _Growth(msgspec.Struct, frozen=True):
    times: int
    beside_free: int
    beside_free_bytes: int
    last: int
    """Index of the event that led to the peak; -1 if the window contains no such event."""


def _growth(device: Device, window: MemoryRange, peak: Peak) -> _Growth:
    known = np.flatnonzero(device.reserved != MISSING)
    reserved = device.reserved[known]
    grew = np.flatnonzero(np.diff(reserved) > 0) + 1
    grew = grew[window.holds(device.time_ns[known[grew]])]
    at, more = known[grew], reserved[grew] - reserved[grew - 1]
    free = reserved[grew - 1] - (device.allocated[at] - device.bytes[at])
    beside = (device.bytes[at] > 0) & (free >= device.bytes[at])
    last = at[device.reserved[at] == peak.value]
    return _Growth(len(at), int(beside.sum()), int(more[beside].sum()), int(last[-1]) if len(last) else MISSING)


def fragmentation_of(scene: MemoryScene, device: Device, steps: StepBlocks) -> Notice | None:
    found = unused_of(device, scene.window)
    if found is None:
        return None
    peak, unused = found
    if unused < UNUSED_SHARE * peak.value or unused < least_bytes(scene.trace, device):
        return None
    cause, text, figures = _cause(scene, device, steps, peak, unused)
    return Notice(
        rule=CHECK.id,
        severity=severity_near(scene.trace, device, peak.value),
        text="On {device}, {unused_reserved_bytes} of the {peak_reserved_bytes} reserved ({unused_reserved_ratio}) are "
        f"never allocated during that peak. {text}",
        todo=scene.trace.recorder.todo(CHECK.advice_key(cause)),
        figures=[
            METRICS.figure("unused_reserved_ratio", unused / peak.value),
            METRICS.figure("device", device.name),
            METRICS.figure("unused_reserved_bytes", unused),
            METRICS.figure("peak_reserved_bytes", peak.value),
            METRICS.figure("fragmentation_cause", CAUSES[cause]),
            *figures,
        ],
        measure="unused_reserved_ratio",
        threshold=UNUSED_SHARE,
        evidence=Link(
            "memory", {"device": device.name, "at_ns": str(peak.time_ns)}, "Show the allocations at that time"
        ),
        references=references_of(scene.trace.recorder, CHECK.id),
    )


CAUSES = {
    "before": "reserved before",
    "shapes": "changing sizes",
    "sizes": "gaps between blocks",
    "large": "one large block",
    "other": "more than was requested",
}


def _cause(
    scene: MemoryScene, device: Device, steps: StepBlocks, peak: Peak, unused: int
) -> tuple[str, str, list[Figure]]:
    growth = _growth(device, scene.window, peak)
    if growth.last == MISSING:
        return "before", "The memory was reserved earlier for a higher peak, and the cache has not shrunk since.", []
    if growth.beside_free_bytes >= MIN_GAP_GROWTH_SHARE * unused:
        grown = (
            "The allocator requested more memory from the driver {gap_growths} times ({gap_growth_bytes}), although enough "
            "bytes were free"
        )
        figures = [
            METRICS.figure("gap_growths", growth.beside_free),
            METRICS.figure("gap_growth_bytes", growth.beside_free_bytes),
        ]
        varying = varying_share(steps.bytes, steps.step, len(np.unique(steps.step)))
        if varying >= VARYING_SHARE:
            text = f"{grown}. {{varying_sizes_ratio}} of the bytes allocated in steps have sizes that differ between steps."
            return "shapes", text, [*figures, METRICS.figure("varying_sizes_ratio", varying)]
        sizes = np.unique(device.blocks.size[device.blocks.live(peak.at)])
        text = f"{grown}. The gaps between blocks were too small (distinct block sizes: {{distinct_sizes}})."
        return "sizes", text, [*figures, METRICS.figure("distinct_sizes", len(sizes))]
    requested = max(int(device.bytes[growth.last]), 0)
    if requested >= MIN_GAP_GROWTH_SHARE * unused:
        subject = subject_of(scene, device, int(device.record[growth.last]))
        text = (
            f"Reserved memory last grew for one block of {{block_bytes}}, by {subject.code}: no free gap "
            "was large enough."
        )
        return "large", text, [METRICS.figure("block_bytes", requested), *subject.figures]
    return "other", "Reserved memory grew by more than the recorded requests.", []
