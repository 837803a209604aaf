"""What grows from step to step: blocks that every step leaves behind, and caches that are filled and never emptied."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.device_memory.records import Device
from tb_plugin.analysis.memory.metrics import METRICS
from tb_plugin.analysis.memory.tables import Scene
from tb_plugin.analysis.phrases import references_of
from tb_plugin.lib.groupby import group, sum_by
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Link, Notice
from tb_plugin.rules._checks import Check
from tb_plugin.views.memory.attribution_text import filter_of, operator_and_place, sentence_of
from tb_plugin.views.memory.surviving_blocks import StepBlocks

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

LEAST_GROWTH = 64 * 1024
"""Bytes a step. What grows slower does not fill 64 GiB in a million steps: no training ends by it."""
LEAST_STEPS = 3
"""The last step is left out, for the next one may release what it got, and one step alone is no growth."""
STEADY = 0.5
"""What grows in every step grows by about as much; where the least is below half of the most, it is no rule of each step."""
REPLACED = 0.5
"""Where at least half as much from before the trace was released, and all that is allocated grew by less than half: it takes
the place of the older, as in a queue."""
SURE_STEPS = 4
"""From so many steps on growth of about the same size is no chance."""
SURE_STEADY = 0.9


LEAK = Check(
    "memory_growth",
    detects="Every step leaves unreleased blocks of one operator, module and line.",
    threshold="64 KiB per step or more (`growth_bytes`, `growth_blocks`); the smallest step leaves half of the largest.",
    severity="Low if `growth_confidence` is low, else medium.",
    notes=f"""
        `growth_steps` steps are compared. The last step does not count: it may still need its blocks. From
        {SURE_STEPS} steps on, the first one does not count either: it allocates lasting memory. {LEAST_STEPS} steps
        are needed.

        Blocks that replace older memory, as in a queue, are no growth. There are two signs of this. Half as many bytes
        from before the trace were released, and allocated memory grew by less than half. Or a similar block outlived
        its step and was released after at least the age of the oldest remaining one. A queue that is longer than the
        trace still looks like a leak.

        The finding names the operator, module and line that grow most (`owner_growth_bytes`). `growth_confidence` is
        high from {SURE_STEPS} compared steps on if the smallest growth is 90 % of the largest. It is medium from
        {LEAST_STEPS} steps on, else low.
    """,
)
CACHE = Check(
    "memory_cache",
    detects="A cache is filled and never emptied.",
    threshold="One operator, module and line keeps blocks of the first step and of two later ones, more than it releases.",
    severity="Low.",
    notes="Measured like `memory_growth`, but not a leak. `cache_bytes` is its size when the last step starts.",
)


@dataclass(frozen=True, eq=False)
class _Kept:
    """What stays, in (owner, step) pairs; of the last step nothing, for the next one may still need it."""

    owner: Int64
    step: Int64
    """From 0 on."""
    blocks: Int64
    bytes: Int64
    lasted: Int64
    """So many steps the oldest of them has stayed."""
    life: Int64
    """Longest life in steps of what outlived its step and was released, for each owner; 0 where nothing was."""
    gone: Int64
    """Blocks that were released, for each owner."""
    steps: int
    grew: int
    """By so many bytes all that is allocated grew in the steps that count for growth."""
    replaced: int
    """So many bytes from before the trace were released in them."""

    @property
    def first(self) -> int:
        """Returns the first step that counts for growth."""
        return _first(self.steps)

    def by_owner(self, values: Int64, some: Bool) -> Int64:
        """Returns sums over the pairs that are meant, for each owner."""
        return sum_by(self.owner[some], values[some], len(self.gone))


def _first(steps: int) -> int:
    """The first that counts: of three or more steps not the one that also sets up what stays."""
    return 1 if steps >= LEAST_STEPS else 0


def growth_of(scene: Scene, device: Device, of: StepBlocks) -> list[Notice]:
    """Returns what every step leaves behind, and what some steps add to; nothing where the steps are too few to tell."""
    steps = _whole_steps(scene)
    if len(steps) < LEAST_STEPS or not of.stays.any() or not scene.window.is_end_known:
        return []
    kept = _kept(scene, device, of, steps)
    leaks = _leaks(kept)
    found = {LEAK: leaks, CACHE: _caches(kept) & ~leaks}
    return [_notice(scene, device, of, kept, owners, check) for check, owners in found.items() if owners.any()]


def _whole_steps(scene: Scene) -> Int64:
    """Positions of the recorded steps that lie in the window from begin to end; none where others lie between them."""
    steps, window = scene.trace.steps, scene.window
    if not steps.recorded:
        return np.empty(0, np.int64)
    chosen = np.flatnonzero(window.holds(steps.host_start_ns) & window.holds(steps.host_end_ns - 1))
    return chosen if len(chosen) and chosen[-1] - chosen[0] == len(chosen) - 1 else chosen[:0]


def _kept(scene: Scene, device: Device, of: StepBlocks, steps: Int64) -> _Kept:
    count = len(steps) - 1
    step = of.step - steps[0]
    counted = np.flatnonzero((step >= 0) & (step < count) & of.stays)
    pairs = group(of.owner.of[counted], step[counted])
    begin, end = scene.trace.steps.host_start_ns[steps][[_first(count), -1]]
    before, after = device.each_at(np.array([begin, end]) - 1).tolist()
    blocks = device.blocks
    older = (blocks.allocation == MISSING) & blocks.paired & (blocks.release > before) & (blocks.release <= after)
    life = np.zeros(len(of.owner), np.int64)
    left = of.outlives & ~of.stays
    np.maximum.at(life, of.owner.of[left], of.lasted[left])
    return _Kept(
        owner=of.owner.of[counted][pairs.first],
        step=step[counted][pairs.first].astype(np.int64),
        blocks=pairs.count(),
        bytes=pairs.sum(of.bytes[counted]),
        lasted=of.lasted[counted][pairs.first],
        life=life,
        gone=np.bincount(of.owner.of[~of.stays], minlength=len(of.owner)).astype(np.int64),
        steps=count,
        grew=device.level(after) - device.level(before),
        replaced=int(blocks.bytes[older].sum()),
    )


def _leaks(kept: _Kept) -> Bool:
    """Owners of which every step keeps about as much."""
    later = kept.step >= kept.first
    ones = np.ones(len(kept.step), np.int64)
    low = np.full(len(kept.gone), np.iinfo(np.int64).max)
    high = np.zeros(len(kept.gone), np.int64)
    np.minimum.at(low, kept.owner[later], kept.bytes[later])
    np.maximum.at(high, kept.owner[later], kept.bytes[later])
    return _grew(kept, (kept.by_owner(ones, later) == kept.steps - kept.first) & (low >= STEADY * high))


def _caches(kept: _Kept) -> Bool:
    """Owners that keep what the first step got, and more in two later ones, and let go of less than they keep."""
    ones = np.ones(len(kept.step), np.int64)
    first, later = kept.step == 0, kept.step > 0
    stays = kept.by_owner(kept.blocks, first | later)
    return _grew(kept, (kept.by_owner(ones, first) > 0) & (kept.by_owner(ones, later) > 1) & (stays > kept.gone))


def _grew(kept: _Kept, owners: Bool) -> Bool:
    """Of these owners, those that add to what is allocated instead of replacing what was."""
    later = kept.step >= kept.first
    size = kept.by_owner(kept.bytes, later)
    oldest = np.zeros(len(kept.life), np.int64)
    np.maximum.at(oldest, kept.owner[later], kept.lasted[later])
    # What lasts some steps and is released then fills a queue: nothing of it is left that is older than that.
    owners = owners & _adds(kept, size) & (oldest > kept.life)
    total = size[owners].sum()
    enough = total >= LEAST_GROWTH * (kept.steps - kept.first) and _adds(kept, total)
    return owners if enough else np.zeros_like(owners)


def _adds(kept: _Kept, size: Int64) -> Bool:
    adds: Bool = (REPLACED * size <= kept.grew) | (kept.replaced < REPLACED * size)
    return adds


def _notice(scene: Scene, device: Device, of: StepBlocks, kept: _Kept, owners: Bool, check: Check) -> Notice:
    """A notice about all such owners, that names the one that grows most."""
    steps = kept.steps - kept.first
    meant = owners[kept.owner] & (kept.step >= kept.first)
    size = kept.by_owner(kept.bytes, meant)
    largest = int(np.argmax(size))
    who = operator_and_place(scene, int(of.event[of.owner.first[largest]]))
    figures = [
        METRICS.figure("device", device.name),
        METRICS.figure("growth_bytes", int(size.sum()) / steps),
        METRICS.figure("growth_blocks", int(kept.blocks[meant].sum()) / steps),
        METRICS.figure("growth_steps", steps),
        *who,
    ]
    by = "allocated by "
    if owners.sum() > 1:
        figures.append(METRICS.figure("owner_growth_bytes", int(size[largest]) / steps))
        by = "{owner_growth_bytes} of this by "
    if check is LEAK:
        sure = confidence_of(sum_by(kept.step[meant] - kept.first, kept.bytes[meant], steps))
        figures.append(METRICS.figure("growth_confidence", sure))
        text = (
            "Each of {growth_steps} steps leaves {growth_bytes} unreleased on {device} (blocks: {growth_blocks}), "
            f"{by}{sentence_of(who)}. Confidence that this is a leak: {{growth_confidence}}."
        )
    else:
        sure = "low"
        figures.append(METRICS.figure("cache_bytes", int(kept.bytes[owners[kept.owner]].sum())))
        text = (
            "A cache on {device} grows and is never emptied; it contains {cache_bytes}. {growth_steps} steps after the "
            f"first one add {{growth_bytes}} each on average, {by}{sentence_of(who)}."
        )
    return Notice(
        rule=check.id,
        severity="low" if sure == "low" else "medium",
        text=text,
        todo=scene.trace.recorder.todo(check.advice_key()),
        figures=figures,
        measure="growth_bytes",
        threshold=LEAST_GROWTH,
        evidence=Link(
            "memory", {"device": device.name, "group": "memory_steps", "where": filter_of(who)}, "Show by step"
        ),
        references=references_of(scene.trace.recorder, check.id),
    )


def confidence_of(by_step: Int64) -> str:
    """Returns how sure it is that what grew by these bytes in steps is no chance: high, medium or low."""
    if len(by_step) >= SURE_STEPS and by_step.min() >= SURE_STEADY * by_step.max():
        return "high"
    return "medium" if len(by_step) >= LEAST_STEPS else "low"
