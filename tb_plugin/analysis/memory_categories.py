"""The categories of memory: what they mean, and which one a block belongs to by when it was allocated and released.

The rule knows no operators and no devices: whoever has blocks says in which stage of the training each began and ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Int8 = npt.NDArray[np.int8]
Bool = npt.NDArray[np.bool_]

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
"""By id, in the order of stacking: what stays longest lies at the bottom."""
MEANINGS: Mapping[str, str] = {
    "parameter": "Tensors and buffers updated by the optimizer.",
    "optimizer_state": "State of the optimizer per parameter.",
    "gradient": "Gradients of parameters.",
    "activation": "Forward results saved for the backward pass.",
    "autograd_detail": "Intermediate results of the backward pass.",
    "input": "Batches, labels and masks.",
    "temporary": "Allocated and released within one operator.",
    "unknown": "Memory of no other category.",
}
ORDER = tuple(TITLES)
"""The codes that ``categories_of`` gives are positions in it."""


class When(IntEnum):
    """What a training does while a block is allocated or released."""

    NEVER = -1
    """It does not happen in the recording."""
    BETWEEN = 0
    """None of the others: before the first forward pass, or after a backward pass or a step and before the next one."""
    FORWARD = 1
    BACKWARD = 2
    STEP = 3
    """The optimizer's step."""
    CLEAR = 4
    """Clearing of gradients."""


@dataclass(frozen=True, eq=False)
class Lives:
    """When blocks lived, a row each. A forward pass begins with the first work of the model after everything else."""

    bytes: Int64
    begin: Int8
    """``When`` it was allocated; ``NEVER`` where that was before the recording."""
    end: Int8
    begin_pass: Int64
    """Forward passes that had begun by then."""
    end_pass: Int64
    in_operator: Bool
    """It was allocated and released within one outermost operator."""
    in_stage: Bool
    """It was allocated and released within one call of the optimizer's step, one backward pass, or one time between."""


def passes_of(lives: Lives) -> int:
    """Returns how many forward passes had begun at the last event of any block."""
    return max(int(lives.begin_pass.max(initial=0)), int(lives.end_pass.max(initial=0)))


def categories_of(lives: Lives) -> Int8:
    """Returns the category of each block, as a position in ``ORDER``."""
    begin, end = lives.begin, lives.end
    old = begin == When.NEVER
    early = (begin == When.BETWEEN) & (lives.begin_pass == 0)
    gradient = np.where(old, end == When.CLEAR, (begin == When.BACKWARD) & ~lives.in_stage)
    # A parameter is as large as its gradient; buffers and data that stay as well are no parameters.
    sizes = np.unique(lives.bytes[gradient & ~old])
    sized = np.isin(lives.bytes, sizes)
    passes = passes_of(lives)
    stays = (end == When.NEVER) & (sized | (len(sizes) == 0)) | (sized & (lives.end_pass == passes))
    rules = [
        (np.full(len(begin), passes == 0), "unknown"),
        (gradient, "gradient"),
        (old & (end == When.BACKWARD), "activation"),
        (old, "unknown"),
        (lives.in_operator, "temporary"),
        (begin == When.BACKWARD, "autograd_detail"),
        (begin == When.FORWARD, "activation"),
        ((begin == When.STEP) & ~lives.in_stage, "optimizer_state"),
        # The profiler has no category for most of what a step needs while it runs; it is called as there.
        ((begin == When.STEP) | (begin == When.CLEAR), "unknown"),
        (early & stays, "parameter"),
        (lives.in_stage, "temporary"),
    ]
    codes = [np.int8(ORDER.index(category)) for _, category in rules]
    return np.select([where for where, _ in rules], codes, np.int8(ORDER.index("input"))).astype(np.int8)
