"""Memory leaks and growing caches."""

from __future__ import annotations

import msgspec
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

# Bytes per step. Slower growth takes a million steps to fill 64 GiB.
MIN_GROWTH_BYTES = 64 * 1024
# Without the last step, whose blocks the next one may still release, two steps remain.
MIN_STEPS = 3
# Smallest step by largest step. Below this, not every step contributes to the growth.
MIN_STEADY_RATIO = 0.5
# Share of the older memory that was released while the total grew by less than half: a queue.
MIN_REPLACED_SHARE = 0.5
# From this many steps on, growth of similar size is no coincidence.
SURE_STEPS = 4
SURE_STEADY = 0.9


LEAK = Check(
    "memory_growth",
    detects="Every step leaves unreleased blocks from one operator, module and line.",
    threshold=(
        "Every step leaves at least 64 KiB (`growth_bytes`, `growth_blocks`). The step with the least "
        "growth leaves at least half as many bytes as the step with the most growth."
    ),
    severity="Low if `growth_confidence` is low, else medium.",
    notes=f"""
        `growth_steps` steps are compared. The last step is excluded, because the step may still need its blocks. From
        {SURE_STEPS} steps on, the first step is also excluded, because it allocates lasting memory. At least {MIN_STEPS}
        steps are needed.

        Blocks that replace older memory, as in a queue, are not growth. There are two signs of replacement. First,
        blocks from before the trace were released, with at least half as many bytes as remain. In this case, allocated
        memory must also have grown by less than half of the remaining bytes. Second, a similar block outlived its step
        and was released at an age that no remaining block has reached. A queue that is longer than the trace still
        looks like a leak.

        The finding names the operator, module and line that grow most (`owner_growth_bytes`). `growth_confidence` is
        high from {SURE_STEPS} compared steps on if the smallest growth is 90 % of the largest. It is medium from
        {MIN_STEPS} steps on, else low.
    """,
)
CACHE = Check(
    "memory_cache",
    detects="A cache is filled and never emptied.",
    threshold=(
        "One operator, module and line allocated blocks in the first step and in two later steps that were not "
        "freed. More of these blocks are retained than released."
    ),
    severity="Low.",
    notes=(
        "The growth is measured as in `memory_growth`, but a cache is not a leak. `cache_bytes` is the "
        "size of the cache when the last step starts."
    ),
)


class _Remaining(msgspec.Struct, frozen=True, eq=False):
    """Blocks that outlive their step: one row per owner and step.

    The last step is excluded, because its blocks may still be released in the next step.
    """

    owner: Int64
    step: Int64
    blocks: Int64
    bytes: Int64
    lasted: Int64
    """Age in steps of the oldest of these blocks."""
    life: Int64
    """For each owner, the longest life in steps of a released block that outlived its step; 0 = none."""
    gone: Int64
    """Number of released blocks of each owner."""
    steps: int
    grew: int
    """Growth of all allocated memory over the compared steps, in bytes."""
    replaced: int
    """Bytes that were allocated before the trace and released in the compared steps."""

    @property
    def first(self) -> int:
        return _first(self.steps)

    def by_owner(self, values: Int64, some: Bool) -> Int64:
        """Returns, for each owner, the sum of ``values`` over the selected rows."""
        return sum_by(self.owner[some], values[some], len(self.gone))


def _first(steps: int) -> int:
    """Returns the first step to compare.

    With at least three steps, this is the second step, because the first step also allocates memory for the whole
    run.
    """
    return 1 if steps >= MIN_STEPS else 0


def growth_of(scene: Scene, device: Device, of: StepBlocks) -> list[Notice]:
    """Returns the findings about leaks and caches. With too few steps, the result is empty."""
    steps = _whole_steps(scene)
    if len(steps) < MIN_STEPS or not of.stays.any() or not scene.window.is_end_recorded:
        return []
    kept = _remaining(scene, device, of, steps)
    leaks = _leaks(kept)
    found = {LEAK: leaks, CACHE: _caches(kept) & ~leaks}
    return [_notice(scene, device, of, kept, owners, check) for check, owners in found.items() if owners.any()]


def _whole_steps(scene: Scene) -> Int64:
    """Returns the indices of the recorded steps that lie completely in the window.

    If these steps are not adjacent, the result is empty.
    """
    steps, window = scene.trace.steps, scene.window
    if not steps.recorded:
        return np.empty(0, np.int64)
    chosen = np.flatnonzero(window.holds(steps.host_start_ns) & window.holds(steps.host_end_ns - 1))
    return chosen if len(chosen) and chosen[-1] - chosen[0] == len(chosen) - 1 else chosen[:0]


def _remaining(scene: Scene, device: Device, of: StepBlocks, steps: Int64) -> _Remaining:
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
    return _Remaining(
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


def _leaks(kept: _Remaining) -> Bool:
    """Returns a mask of the owners that retain a similar number of bytes in every step."""
    later = kept.step >= kept.first
    ones = np.ones(len(kept.step), np.int64)
    low = np.full(len(kept.gone), np.iinfo(np.int64).max)
    high = np.zeros(len(kept.gone), np.int64)
    np.minimum.at(low, kept.owner[later], kept.bytes[later])
    np.maximum.at(high, kept.owner[later], kept.bytes[later])
    return _growing_owners(
        kept, (kept.by_owner(ones, later) == kept.steps - kept.first) & (low >= MIN_STEADY_RATIO * high)
    )


def _caches(kept: _Remaining) -> Bool:
    """Returns a mask of the owners that fill a cache.

    An owner that fills a cache retains blocks of the first step and of at least two later steps, and retains more
    blocks than it releases.
    """
    ones = np.ones(len(kept.step), np.int64)
    first, later = kept.step == 0, kept.step > 0
    stays = kept.by_owner(kept.blocks, first | later)
    return _growing_owners(
        kept, (kept.by_owner(ones, first) > 0) & (kept.by_owner(ones, later) > 1) & (stays > kept.gone)
    )


def _growing_owners(kept: _Remaining, owners: Bool) -> Bool:
    """Returns a mask of the owners that increase allocated memory. Other owners only replace older blocks."""
    later = kept.step >= kept.first
    size = kept.by_owner(kept.bytes, later)
    oldest = np.zeros(len(kept.life), np.int64)
    np.maximum.at(oldest, kept.owner[later], kept.lasted[later])
    # Blocks that last some steps and are then released fill a queue: none of the owner's blocks is older than that.
    owners = owners & _adds_memory(kept, size) & (oldest > kept.life)
    total = size[owners].sum()
    enough = total >= MIN_GROWTH_BYTES * (kept.steps - kept.first) and _adds_memory(kept, total)
    return owners if enough else np.zeros_like(owners)


def _adds_memory(kept: _Remaining, size: Int64) -> Bool:
    adds: Bool = (MIN_REPLACED_SHARE * size <= kept.grew) | (kept.replaced < MIN_REPLACED_SHARE * size)
    return adds


def _notice(scene: Scene, device: Device, of: StepBlocks, kept: _Remaining, owners: Bool, check: Check) -> Notice:
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
        threshold=MIN_GROWTH_BYTES,
        evidence=Link(
            "memory", {"device": device.name, "group": "memory_steps", "where": filter_of(who)}, "Show by step"
        ),
        references=references_of(scene.trace.recorder, check.id),
    )


def confidence_of(by_step: Int64) -> str:
    """Returns how likely a leak causes the growth per step (bytes): high, medium or low."""
    if len(by_step) >= SURE_STEPS and by_step.min() >= SURE_STEADY * by_step.max():
        return "high"
    return "medium" if len(by_step) >= MIN_STEPS else "low"
