"""Findings that traces and snapshots share: leaks, and peaks of one block."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from tb_plugin.analysis.memory.blocks import Blocks
from tb_plugin.analysis.memory.growth import LEAK_CONFIDENCE, Growth
from tb_plugin.analysis.memory.metrics import METRICS
from tb_plugin.analysis.phrases import plural, references_of
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.model.trace.recorder import Recorder
from tb_plugin.payloads import Figure, Link, Notice, Severity

# Share of the peak. From here on, the recorded steps alone have used significant memory.
LARGE_LEAK = 0.1
# Share of the peak. Below this, a leak is noticed only after thousands of steps.
SMALL_LEAK = 0.01
# Share of the peak. A smaller drop hardly allows one more sample in a batch of ten.
SPIKE_SHARE = 0.1
# Share of a step. Longer-lived blocks are part of the step's working set.
SHORT_LIFE = 0.1


class Subject(msgspec.Struct, frozen=True):
    """Texts about a device and a piece of code, for a finding."""

    recorder: Recorder
    device: str
    """Device that the finding names; "" = none."""
    code: str
    """Template that names the allocating code."""
    figures: Sequence[Figure]

    @property
    def of_device(self) -> str:
        return " of {device}" if self.device else ""

    @property
    def all_figures(self) -> list[Figure]:
        return [*([METRICS.figure("device", self.device)] if self.device else []), *self.figures]


def leak_figures(growth: Growth, rows: Int64) -> list[Figure]:
    largest = rows[0]
    values = {
        "step_growth_bytes": float(growth.step_bytes[rows].sum()),
        "step_growth_blocks": float(growth.step_blocks[rows].sum()),
        "growing_steps": int(growth.growing[largest]),
        "counted_steps": int(growth.counted[largest]),
        "left_bytes": int(growth.left_bytes[rows].sum()),
        "left_blocks": int(growth.left_blocks[rows].sum()),
    }
    return METRICS.figures(values)


def leak_notice(rule: str, subject: Subject, growth: Growth, rows: Int64, peak: int, evidence: Link) -> Notice:
    """Returns the finding that these owners retain memory in each step. ``subject`` names the first owner."""
    figures = leak_figures(growth, rows)
    counted, left, blocks = int(growth.counted[rows[0]]), int(growth.left_bytes[rows].sum()), int(figures[5].value or 0)
    by = "mostly allocated by" if len(rows) > 1 else "allocated by"
    return Notice(
        rule,
        _leak_severity(left / peak if peak else 0.0),
        f"Memory{subject.of_device} grows by {{step_growth_bytes}} per step: {{growing_steps}} of {{counted_steps}} "
        f"{plural(counted, 'step')} left {{left_blocks}} unreleased {plural(blocks, 'block')} ({{left_bytes}}), "
        f"{by} {subject.code}.",
        subject.recorder.todo(rule),
        [
            *figures,
            METRICS.figure("leak_confidence", float(growth.confidence[rows[0]])),
            *subject.all_figures,
        ],
        "leak_confidence",
        LEAK_CONFIDENCE,
        evidence,
        references_of(subject.recorder, rule),
    )


def _leak_severity(share: float) -> Severity:
    return "high" if share >= LARGE_LEAK else "medium" if share >= SMALL_LEAK else "low"


class SinglePeak(msgspec.Struct, frozen=True):
    peak: int
    block: int
    size: int
    without: int
    """Peak without this block and the other short-lived blocks of its owner."""


def single_peak_of(
    blocks: Blocks, short: Bool, at: int, peak: int, least: float, peak_without: Callable[[Bool], int]
) -> SinglePeak | None:
    """Returns the short-lived block that causes the peak after event ``at``, or None.

    ``short`` marks short-lived blocks. None if the peak drops by less than ``least`` bytes without the block, or if
    several short-lived blocks of the same owner are allocated at the peak.
    """
    least = max(least, SPIKE_SHARE * peak)
    candidates = np.flatnonzero(short & blocks.live(at))
    if not len(candidates):
        return None
    block = int(candidates[blocks.size[candidates].argmax()])
    alike = short & (blocks.owner == blocks.owner[block])
    if blocks.size[block] < least or alike[candidates].sum() > 1:
        return None
    # The same code may cause as high a peak in other steps.
    without = peak_without(alike)
    return SinglePeak(peak, block, int(blocks.size[block]), without) if peak - without >= least else None


def single_peak_notice(
    rule: str, subject: Subject, found: SinglePeak, life: Figure, severity: Severity, evidence: Link
) -> Notice:
    return Notice(
        rule,
        severity,
        f"One temporary block causes the peak{subject.of_device}: {{block_bytes}} for {{{life.metric.key}}}, "
        f"allocated by {subject.code}. Without it and similar blocks the peak of {{peak_allocated_bytes}} would be "
        "{peak_without_bytes}, {peak_drop_ratio} lower.",
        subject.recorder.todo(rule),
        [
            METRICS.figure("peak_drop_ratio", 1 - found.without / found.peak),
            METRICS.figure("block_bytes", found.size),
            life,
            METRICS.figure("peak_allocated_bytes", found.peak),
            METRICS.figure("peak_without_bytes", found.without),
            *subject.all_figures,
        ],
        "peak_drop_ratio",
        SPIKE_SHARE,
        evidence,
        references_of(subject.recorder, rule),
    )
