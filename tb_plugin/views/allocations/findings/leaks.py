"""Possible leaks: stacks that retain blocks in every step."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin.analysis.phrases import plural, references_of
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, levels_of
from tb_plugin.analysis.snapshot.growth import LEAK_CONFIDENCE, growth_of
from tb_plugin.analysis.snapshot.labels import NO_STACK, stack_words
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.payloads import Link, Notice, Severity
from tb_plugin.rules._base import percent
from tb_plugin.rules._checks import Check

# The view Growth lists all.
MAX_FINDINGS = 5
# Share of the peak. From here on, the recorded steps alone have used significant memory.
LARGE_LEAK = 0.1
# Share of the peak. Below this, a leak is noticed only after thousands of steps.
SMALL_LEAK = 0.01


CHECK = Check(
    "snapshot_leak",
    detects="One allocation stack leaves unreleased blocks in every step.",
    threshold=f"`leak_confidence` of at least {LEAK_CONFIDENCE}. A cache that fills for half of the steps stays below it.",
    severity=f"High if `left_bytes` is at least {percent(LARGE_LEAK)} of the peak, medium from {percent(SMALL_LEAK)} on.",
    notes=f"The {MAX_FINDINGS} stacks with the largest `step_growth_bytes` times confidence are findings. The "
    f"Growth page lists all stacks.",
)


def leaks(device: DeviceLevels) -> Iterator[Notice]:
    """Yields possible leaks, ranked by bytes per step times confidence."""
    growth = growth_of(device)
    peak = int(levels_of(device).allocated.max())
    words = stack_words(device.snapshot)
    for row in growth.leaks()[:MAX_FINDINGS].tolist():
        stack, kept, blocks = int(growth.stack[row]), int(growth.left_bytes[row]), int(growth.left_blocks[row])
        counted, every = int(growth.counted[row]), int(growth.last_blocks[row])
        figures = [
            METRICS.figure("allocation_line", words.line[stack].as_py() or NO_STACK),
            METRICS.figure("step_growth_bytes", float(growth.step_bytes[row])),
            METRICS.figure("step_growth_blocks", float(growth.step_blocks[row])),
            METRICS.figure("growing_steps", int(growth.growing[row])),
            METRICS.figure("counted_steps", counted),
            METRICS.figure("left_bytes", kept),
            METRICS.figure("left_blocks", blocks),
            METRICS.figure("last_step_bytes", int(growth.last_bytes[row])),
            METRICS.figure("last_step_blocks", every),
            METRICS.figure("leak_confidence", float(growth.confidence[row])),
        ]
        text = "{allocation_line} retains {step_growth_bytes} per step: {growing_steps} of {counted_steps} "
        text += f"{plural(counted, 'step')} left {{left_blocks}} unreleased {plural(blocks, 'block')} ({{left_bytes}})."
        if every != blocks:
            text += f" {{last_step_blocks}} {plural(every, 'block')} ({{last_step_bytes}}) "
            text += f"{plural(every, 'remains', 'remain')} after the last step."
        yield Notice(
            CHECK.id,
            _severity(kept / peak if peak else 0.0),
            text,
            device.snapshot.recorder.todo(CHECK.advice_key()),
            figures,
            "leak_confidence",
            LEAK_CONFIDENCE,
            Link("growth", {"device": device.name, "stack": str(stack), "row": str(stack)}, "Show its growth"),
            references_of(device.snapshot.recorder, CHECK.id),
        )


def _severity(share: float) -> Severity:
    return "high" if share >= LARGE_LEAK else "medium" if share >= SMALL_LEAK else "low"
