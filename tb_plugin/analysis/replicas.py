"""Replicas: which parameters, gradients and optimizer state several ranks hold alike, and what dividing them would free.

Sizes alone are compared, not contents. The moment is the one at which a rank holds most of the three together: the peaks of
replicas may lie anywhere in a step, with more or fewer gradients, and activations have no say in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.base import Frame, Part
from tb_plugin.analysis.memory_categories import ORDER, TITLES
from tb_plugin.analysis.metrics import SHARED, define
from tb_plugin.lib.groupby import group
from tb_plugin.payloads import Figure, Notice

Int64 = npt.NDArray[np.int64]
Counts = Mapping[tuple[str, int], int]
"""Number of blocks by state and size."""

STATES = ("parameter", "gradient", "optimizer_state")
"""What data parallelism repeats on every rank, and sharding divides."""
ALIKE = 0.8
"""So much of it is there on all ranks in the same sizes, or they hold different parts of a model."""
FRAME = "memory_states"
_MOST_BYTES = 1 << 50
"""No rank holds more in blocks of one size."""

MOST_STATES = "the peak of parameters, gradients and optimizer state of each rank"
METRICS = SHARED.adding(
    define(MOST_STATES, "text", {"state_category": ("State", "Parameters, gradients or optimizer state.")}),
    define(
        MOST_STATES,
        "count",
        {
            "state_blocks": ("Blocks", "Blocks of this state and size on the rank."),
            "replica_groups": ("Groups", "Further groups of ranks with the same blocks."),
        },
    ),
    define(
        MOST_STATES,
        "bytes",
        {
            f"repeated_{name}_bytes": (f"{TITLES[name]}, replicated", "Bytes in blocks of equal size on every rank.")
            for name in STATES
        }
        | {
            "state_block_bytes": ("Block size", "Bytes per block."),
            "repeated_bytes": (
                "Replicated",
                "Parameters, gradients and optimizer state in equal blocks on every rank.",
            ),
            "sharding_bytes": ("Freed by sharding", "Replicated bytes times (N - 1) / N, for N ranks."),
        },
    ),
    define(
        "the allocated peak of each rank",
        "bytes",
        {"peak_sharding_bytes": ("Freed at the peak", "Replicated bytes at the peaks times (N - 1) / N.")},
    ),
    define(
        MOST_STATES,
        "ratio",
        {"repeated_ratio": ("Replicated share", "Replicated bytes divided by these states on the largest rank.")},
    ),
    define(
        "mean per step",
        "bytes",
        {"all_reduced_bytes": ("All-reduced per step", "Bytes all-reduced in the group per step.")},
    ),
)


STATE = {"state_category": pa.string(), "state_block_bytes": pa.int64(), "state_blocks": pa.int64()}
"""Columns of a ``states_frame``."""


def states_frame(code: npt.NDArray[np.integer], begin: Int64, end: Int64, size: Int64, at: int | None = None) -> Frame:
    """Returns how many blocks of each size a rank has of each state after event ``at``, by default when it holds most.

    ``code`` are positions in ``memory_categories.ORDER``; a block is there after event e when ``begin <= e < end``.
    """
    states = np.flatnonzero(np.isin(code, [ORDER.index(name) for name in STATES]) & (end > begin))
    code, begin, end, size = (column[states].astype(np.int64) for column in (code, begin, end, size))
    at = _most(begin, end, size) if at is None else at
    there = (begin <= at) & (end > at)
    code, size = code[there], size[there]
    groups = group(code, size)
    first = groups.first if len(code) else code
    data = pa.table(
        {
            "state_category": pa.array(ORDER, pa.string()).take(pa.array(code[first])),
            "state_block_bytes": pa.array(size[first]),
            "state_blocks": pa.array(groups.count()),
        }
    )
    key = ("state_category", "state_block_bytes")
    return Frame(FRAME, "Training state", METRICS.columns(*data.column_names), data, key, key[0])


def _most(begin: Int64, end: Int64, size: Int64) -> int:
    """The first event after which most bytes are there; -1 = before the first one."""
    event, change = np.concatenate((begin, end)), np.concatenate((size, -size))
    order = np.argsort(event, kind="stable")
    level = np.cumsum(change[order])
    # Of changes at one event the last tells what is there after it.
    last = np.append(event[order][1:] != event[order][:-1], True)[: len(order)]
    return int(event[order][last][np.argmax(level[last])]) if len(order) else -1


def counts_of(part: Part, name: str = FRAME) -> Counts:
    """Returns the number of a rank's blocks by state and size, from a ``states_frame`` that it has by a name.

    A part may be of a rank summary, which anybody may have written: rows that no profile makes are left out.
    """
    frame = part.frames.get(name)
    if frame is None:
        return {}
    rows = zip(*(frame.data[key].to_pylist() for key in STATE), strict=True)
    return {
        (state, size): count
        for state, size, count in rows
        if state in STATES and min(size, count) >= 0 and size * count <= _MOST_BYTES
    }


@dataclass(frozen=True)
class Repeated:
    """What ``ranks`` ranks hold alike: bytes by state, and of ``total`` bytes of the rank that holds most."""

    ranks: int
    alike: Mapping[str, int]
    total: int

    @property
    def bytes(self) -> int:
        """Returns what is alike in all."""
        return sum(self.alike.values())

    @property
    def said(self) -> str:
        """Returns the states that are alike as a template."""
        return ", ".join(f"{TITLES[name].lower()} {{repeated_{name}_bytes}}" for name in STATES if self.alike[name])

    @property
    def figures(self) -> list[Figure]:
        """Returns the figures of a notice about it."""
        return [
            METRICS.figure("repeated_ratio", self.bytes / self.total),
            METRICS.figure("workers", self.ranks),
            METRICS.figure("repeated_bytes", self.bytes),
            *(METRICS.figure(f"repeated_{name}_bytes", self.alike[name]) for name in STATES if self.alike[name]),
            METRICS.figure("sharding_bytes", self.bytes * (self.ranks - 1) // self.ranks),
        ]


def repeated(held: Sequence[Counts]) -> Repeated | None:
    """Returns what all ranks hold alike, if it is most of what any of them holds; None of one rank alone."""
    if len(held) < 2:
        return None
    total = max(sum(size * count for (_, size), count in counts.items()) for counts in held)
    found = Repeated(len(held), alike_in(held), total)
    return found if found.bytes and found.bytes >= ALIKE * total else None


def alike_in(held: Sequence[Counts]) -> dict[str, int]:
    """Returns the bytes of each state that two ranks or more have in blocks of the same sizes."""
    alike = dict.fromkeys(STATES, 0)
    for (name, size), count in held[0].items():
        alike[name] += size * min(count, *(other.get((name, size), 0) for other in held[1:]))
    return alike


def redundant(found: Repeated, text: str, more: Sequence[Figure] = (), at_peak: int | None = None) -> Notice:
    """Returns the notice about what ranks hold alike; ``text`` says who they are, and how they are known.

    ``at_peak`` is what of it sharding frees at the peaks of the ranks, where that is known.
    """
    peak = ""
    if at_peak is not None:
        peak = " when it holds most of them, and {peak_sharding_bytes} less at its peak"
        more = [*more, METRICS.figure("peak_sharding_bytes", at_peak)]
    return Notice(
        "redundant_states",
        "low",
        f"{text} Divided among them, each would hold {{sharding_bytes}} less{peak}.",
        "Shard them where the ranks are replicas of one model: the optimizer's state alone, with the gradients, or all "
        "three with fully sharded data parallelism. It costs communication.",
        [*found.figures, *more],
        "repeated_ratio",
        ALIKE,
    )
