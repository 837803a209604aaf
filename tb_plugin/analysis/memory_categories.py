"""Memory categories, derived from training stages of allocation and release.

The rules do not depend on traces. Callers provide the stage in which each block is allocated, and the stage in
which it is released.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import msgspec
import numpy as np

from tb_plugin.lib.arrays import Bool, Int8, Int64
from tb_plugin.lib.groupby import group
from tb_plugin.payloads import Metric, Slice

# By id, in order of stacking: the longest-lived category is at the bottom.
TITLES: Mapping[str, str] = {
    "parameter": "Parameters",
    "optimizer_state": "Optimizer state",
    "gradient": "Gradients",
    "activation": "Activations",
    "autograd_detail": "Autograd detail",
    "input": "Inputs",
    "temporary": "Temporary",
    "unknown": "Unknown",
}
MEANINGS: Mapping[str, str] = {
    "parameter": "Tensors and buffers updated by the optimizer.",
    "optimizer_state": "Optimizer state of the parameters.",
    "gradient": "Gradients of parameters.",
    "activation": "Forward results saved for the backward pass.",
    "autograd_detail": "Intermediate results of the backward pass.",
    "input": "Batches, labels and masks.",
    "temporary": "Memory allocated and released within one operator.",
    "unknown": "Memory in no other category.",
}
# ``categories_of`` returns indices into it.
ORDER = tuple(TITLES)


class When(IntEnum):
    NEVER = -1
    """The allocation or release is not recorded."""
    BETWEEN = 0
    """Before the first forward pass, or between two other training stages."""
    FORWARD = 1
    BACKWARD = 2
    STEP = 3
    CLEAR = 4


class Lives(msgspec.Struct, frozen=True, eq=False):
    """Lives of memory blocks. A forward pass starts with the first work of the model after any other stage."""

    bytes: Int64
    begin: Int8
    """Stage of the allocation. ``NEVER`` if the block was allocated before the recording."""
    end: Int8
    begin_pass: Int64
    """Number of forward passes that started before the allocation."""
    end_pass: Int64
    in_operator: Bool
    """Whether the block was allocated and released within the same top-level operator call."""
    in_stage: Bool
    """Whether the block was allocated and released within the same optimizer step, backward pass, or pause."""


def passes_of(lives: Lives) -> int:
    return max(int(lives.begin_pass.max(initial=0)), int(lives.end_pass.max(initial=0)))


def categories_of(lives: Lives) -> Int8:
    """Returns the category of each block, as an index into ``ORDER``."""
    begin, end = lives.begin, lives.end
    old = begin == When.NEVER
    early = (begin == When.BETWEEN) & (lives.begin_pass == 0)
    gradient = np.where(old, end == When.CLEAR, (begin == When.BACKWARD) & ~lives.in_stage)
    # A parameter is as large as its gradient; lasting buffers and data are no parameters.
    sizes = np.unique(lives.bytes[gradient & ~old])
    sized = np.isin(lives.bytes, sizes)
    passes = passes_of(lives)
    stays = (end == When.NEVER) & (sized | (len(sizes) == 0)) | (sized & (lives.end_pass == passes))
    rules = [
        (np.full(len(begin), passes == 0), "unknown"),
        (gradient, "gradient"),
        (old & (end == When.BACKWARD), "activation"),
        (_old_parameters(lives, old & (end == When.NEVER), gradient & ~old), "parameter"),
        (old, "unknown"),
        (lives.in_operator, "temporary"),
        (begin == When.BACKWARD, "autograd_detail"),
        (begin == When.FORWARD, "activation"),
        ((begin == When.STEP) & ~lives.in_stage, "optimizer_state"),
        # The profiler has no category for most temporary memory of a step; neither has this function.
        ((begin == When.STEP) | (begin == When.CLEAR), "unknown"),
        (early & stays, "parameter"),
        (lives.in_stage, "temporary"),
    ]
    codes = [np.int8(ORDER.index(category)) for _, category in rules]
    return np.select([where for where, _ in rules], codes, np.int8(ORDER.index("input"))).astype(np.int8)


def _old_parameters(lives: Lives, old: Bool, gradient: Bool) -> Bool:
    """Returns the blocks of ``old`` that are parameters: there are at most as many of this size as gradients of one pass.

    If optimizer state is older than the recording too, there are more blocks than gradients.
    """
    sizes, of = np.unique(lives.bytes, return_inverse=True)
    of = of.ravel()
    in_pass = group(of[gradient], lives.begin_pass[gradient])
    gradients = np.zeros(len(sizes), np.int64)
    np.maximum.at(gradients, of[gradient][in_pass.first], in_pass.count())
    fits: Bool = np.bincount(of[old], minlength=len(sizes)) <= gradients
    return old & fits[of]


def category_slices(prefix: str, sizes: Mapping[str, int], source: str) -> list[Slice]:
    """Returns the parts of a bar of memory by category. Categories without bytes are omitted."""
    return [
        Slice(
            Metric(f"{prefix}_{name}", TITLES.get(name, name), "bytes", f"{MEANINGS.get(name, '')} {source}".strip()),
            name if name in TITLES else "unknown",
            size,
        )
        for name, size in sizes.items()
        if size
    ]
