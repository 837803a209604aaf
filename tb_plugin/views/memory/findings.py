"""Findings about the memory of a trace."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tb_plugin.analysis.driver_calls import DriverCalls, driver_notice
from tb_plugin.analysis.memory.findings import (
    LARGE_LEAK,
    SHORT_LIFE,
    SMALL_LEAK,
    SPIKE_SHARE,
    leak_figures,
    leak_notice,
    single_peak_notice,
    single_peak_of,
)
from tb_plugin.analysis.memory.growth import LEAK_CONFIDENCE, WARM_UP, growth_of
from tb_plugin.analysis.memory.metrics import METRICS
from tb_plugin.analysis.memory.reserved import device_oscillation, device_oscillation_notice, room_notice
from tb_plugin.analysis.memory.tables import MemoryScene
from tb_plugin.analysis.memory.trace_devices import Device
from tb_plugin.analysis.memory.window import Peak, peak_without
from tb_plugin.analysis.out_of_memory import Failures, notice_of
from tb_plugin.analysis.phrases import references_of
from tb_plugin.lib.arrays import Int64
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Link, Notice, Notices
from tb_plugin.rules._base import Check, percent
from tb_plugin.views.memory.finding_parts import (
    MIN_BYTES,
    MIN_MEMORY_SHARE,
    NEAR,
    filter_of,
    least_bytes,
    severity_near,
    subject_of,
)
from tb_plugin.views.memory.reserved import fragmentation_of
from tb_plugin.views.memory.shapes import Varying, shapes_notice
from tb_plugin.views.memory.surviving_blocks import StepBlocks, owned_blocks

# Bytes per step. Slower growth takes a million steps to fill 64 GiB.
MIN_GROWTH_BYTES = 64 * 1024
# With fewer steps, the first one cannot be skipped as warm-up.
MIN_STEPS = 4


LEAK = Check(
    "memory_growth",
    detects="Every step leaves unreleased blocks from one operator, module and line.",
    threshold=(
        f"`leak_confidence` of at least {LEAK_CONFIDENCE}, and at least 64 KiB per step. "
        "A cache that grows only during the first half of the steps stays below this threshold."
    ),
    severity=f"High if `left_bytes` is at least {percent(LARGE_LEAK)} of the peak, medium from {percent(SMALL_LEAK)} on.",
    notes=f"""
        From {MIN_STEPS} steps on, the first step is excluded, because it allocates lasting memory. The last steps are
        excluded if their blocks may still be released: blocks of the same operator, module and line then lived for as
        many steps before their release. At least 3 steps must remain.

        Blocks that replace older blocks, as in a queue, are not growth. Older blocks have the same sizes, and they
        were released with at least half as many bytes as remain. In this case, allocated memory must grow by at least
        half of the remaining bytes. A queue that is longer than the trace still looks like a leak. The finding names
        the operator, module and line that grow most.
    """,
)
CACHE = Check(
    "memory_cache",
    detects="A cache is filled and never emptied.",
    threshold=(
        "An operator, module and line has blocks at the end of the first step. It retains blocks of at least two later "
        "steps, and more blocks than it releases. All such places together grow by at least "
        f"{MIN_GROWTH_BYTES >> 10} KiB per step."
    ),
    severity="Low.",
    notes=(
        "The growth is measured as in `memory_growth`, but a cache is not a leak. `cache_bytes` is the size of the cache "
        "at the end of the trace."
    ),
)


def growth_notices(scene: MemoryScene, device: Device, peak: int) -> list[Notice]:
    """Returns the findings about leaks and caches. With too few steps, the result is empty."""
    steps = _whole_steps(scene)
    if len(steps) < 2 or not scene.window.is_end_recorded:
        return []
    recorded = scene.trace.steps
    ends = np.append(recorded.host_start_ns[steps], recorded.host_end_ns[steps[-1]])
    blocks = owned_blocks(scene, device)
    blocks = blocks.take(np.flatnonzero(blocks.is_certain))
    warm_up = WARM_UP if len(steps) >= MIN_STEPS else 0
    # A block is retained if the trace contains no release, even after the selected steps.
    growth = growth_of(blocks, device.each_at(ends - 1), until=len(device.record) - 1, warm_up=warm_up)
    leaks = growth.leaks()
    caches = np.setdiff1d(
        np.flatnonzero(
            (growth.first_bytes > 0)
            & (growth.growing > 1)
            & (growth.left_blocks > growth.released_blocks)
            & growth.adds_memory
        ),
        leaks,
    )
    found = []
    for check, rows in ((LEAK, leaks), (CACHE, caches[np.argsort(-growth.left_bytes[caches], kind="stable")])):
        if not len(rows) or growth.step_bytes[rows].sum() < MIN_GROWTH_BYTES:
            continue
        first = np.flatnonzero(blocks.owner == growth.owner[rows[0]])[0]
        subject = subject_of(scene, device, int(device.record[blocks.allocation[first]]))
        where = {"device": device.name, "group": "memory_steps", "where": filter_of(list(subject.figures))}
        link = Link("memory", where, "Show by step")
        if check is LEAK:
            found.append(leak_notice(LEAK.id, subject, growth, rows, peak, link))
            continue
        figures = [
            METRICS.figure("cache_bytes", int(growth.last_bytes[rows].sum())),
            *leak_figures(growth, rows),
            *subject.all_figures,
        ]
        text = (
            "A cache on {device} grows and is never emptied; it contains {cache_bytes}. {counted_steps} steps add "
            f"{{step_growth_bytes}} each on average, allocated by {subject.code}."
        )
        found.append(
            Notice(
                CACHE.id,
                "low",
                text,
                subject.recorder.todo(CACHE.id),
                figures,
                "step_growth_bytes",
                MIN_GROWTH_BYTES,
                link,
                references_of(subject.recorder, CACHE.id),
            )
        )
    return found


def _whole_steps(scene: MemoryScene) -> Int64:
    steps, window = scene.trace.steps, scene.window
    if not steps.recorded:
        return np.empty(0, np.int64)
    chosen = np.flatnonzero(window.holds(steps.host_start_ns) & window.holds(steps.host_end_ns - 1))
    return chosen if len(chosen) and chosen[-1] - chosen[0] == len(chosen) - 1 else chosen[:0]


_ORDER = ("high", "medium", "low", "info")

SPIKE = Check(
    "memory_spike",
    detects="One temporary block causes the peak.",
    threshold=f"Without this and similar blocks, the peak would be at least {percent(SPIKE_SHARE)} lower "
    f"(`peak_drop_ratio`). The difference is at least {MIN_BYTES >> 20} MiB and at least {percent(MIN_MEMORY_SHARE)} of "
    "the device memory.",
    severity=f"Medium if the peak is at least {percent(NEAR)} of the device memory, else low.",
    notes=f"""
        A block is temporary if it lives for at most {percent(SHORT_LIFE)} of a mean step (without steps: of the
        recording). Similar blocks are temporary blocks of the same operator, module and line. `peak_without_bytes` is the
        peak without them. If another similar block is live at the peak, there is no finding.
    """,
)


def findings_of(
    scene: MemoryScene,
    devices: Sequence[Device],
    peaks: Sequence[Peak],
    steps: Sequence[StepBlocks],
    shapes: Sequence[Varying | None],
    calls: DriverCalls,
    failures: Failures,
) -> Notices:
    driver = driver_notice(calls, scene.trace.recorder, Link("timeline", {}, "Show in timeline"))
    found: list[Notice | None] = [notice_of(scene.trace, failures)] if len(failures.row) else []
    found += [driver if devices and not devices[0].is_host else None]
    if scene.trace.coverage.complete:
        for device, peak, blocks, varying in zip(devices, peaks, steps, shapes, strict=True):
            found += growth_notices(scene, device, peak.value)
            if device.allocator:
                continue  # advice on reserved memory is for the framework's allocator
            found.append(fragmentation_of(scene, device, blocks))
            found.append(_oscillation(scene, device, calls))
            found.append(shapes_notice(scene, device, varying))
            found.append(_spike(scene, device, peak))
            found.append(room_notice(scene.trace, device, scene.window))
    notices = [notice for notice in found if notice is not None]
    return Notices("advice", "Notes", "training", sorted(notices, key=lambda notice: _ORDER.index(notice.severity)))


def _oscillation(scene: MemoryScene, device: Device, calls: DriverCalls) -> Notice | None:
    oscillation = device_oscillation(device, scene.window)
    if oscillation is None:
        return None
    largest = oscillation.rises[np.argmax(device.bytes[oscillation.rises])]
    subject = subject_of(scene, device, int(device.record[largest]))
    return device_oscillation_notice(scene.trace, device, oscillation, calls, subject.code, subject.figures)


def _spike(scene: MemoryScene, device: Device, peak: Peak) -> Notice | None:
    if not device.has_totals or peak.from_before or peak.value <= 0:
        return None
    blocks, time = owned_blocks(scene, device), np.append(device.time_ns, 0)
    life = time[blocks.release] - time[blocks.allocation]
    short = (blocks.owner != MISSING) & (blocks.release != MISSING) & (life <= SHORT_LIFE * _step_ns(scene))
    least = least_bytes(scene.trace, device)
    found = single_peak_of(
        blocks, short, peak.at, peak.value, least, lambda some: peak_without(device, scene.window, some).value
    )
    if found is None:
        return None
    subject = subject_of(scene, device, int(device.record[blocks.allocation[found.block]]))
    where = {"device": device.name, "group": "memory_events", "where": f"block_number:{found.block}"}
    return single_peak_notice(
        SPIKE.id,
        subject,
        found,
        METRICS.figure("lifetime_ns", int(life[found.block])),
        severity_near(scene.trace, device, peak.value),
        Link("memory", where, "Show the block"),
    )


def _step_ns(scene: MemoryScene) -> float:
    steps, window = scene.trace.steps, scene.window
    if not steps.recorded or not len(steps.host_start_ns):
        return float(window.end_ns - window.start_ns)
    return float((steps.host_end_ns - steps.host_start_ns).mean())
