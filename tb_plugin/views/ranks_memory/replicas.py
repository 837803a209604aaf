"""Parameters, gradients and optimizer state that ranks replicate.

Only the sizes of blocks are compared, not their contents. Each rank is measured at the time when these states take
the most memory on that rank. This time may differ between ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.base import Frame, Part
from tb_plugin.analysis.memory_categories import ORDER, TITLES
from tb_plugin.analysis.metrics import SHARED
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import group
from tb_plugin.payloads import Figure, Notice

Counts = Mapping[tuple[str, int], int]

# States that data parallelism replicates on every rank and sharding divides.
STATES = ("parameter", "gradient", "optimizer_state")
# Share of the bytes in blocks of the same sizes on all ranks. Below this, ranks have different parts of a model.
ALIKE = 0.8
FRAME = "memory_states"

MOST_STATES = "the peak of parameters, gradients and optimizer state of each rank"
METRICS = SHARED.defining(
    {
        (MOST_STATES, "text"): {"state_category": ("State", "Parameters, gradients or optimizer state.")},
        (MOST_STATES, "count"): {"state_blocks": ("Blocks", "Blocks of this state and size on the rank.")},
        (MOST_STATES, "bytes"): {
            **{
                f"repeated_{name}_bytes": (f"{TITLES[name]}, replicated", "Bytes in equal blocks on every rank.")
                for name in STATES
            },
            "state_block_bytes": ("Block size", "Bytes per block."),
            "repeated_bytes": (
                "Replicated",
                "Parameters, gradients and optimizer state in equal blocks on every rank.",
            ),
            "sharding_bytes": ("Freed by sharding", "Replicated bytes multiplied by (N - 1) / N, for N ranks."),
        },
        ("the allocated peak of each rank", "bytes"): {
            "peak_sharding_bytes": (
                "Freed at the peak",
                "Replicated bytes at the memory peaks, multiplied by (N - 1) / N.",
            ),
        },
        (MOST_STATES, "ratio"): {
            "repeated_ratio": (
                "Replicated share",
                "Replicated share of these states' bytes, on the rank with the most.",
            ),
        },
    }
)


# columns of a ``states_frame``
STATE = ("state_category", "state_block_bytes", "state_blocks")


def states_frame(code: npt.NDArray[np.integer], begin: Int64, end: Int64, size: Int64, at: int | None = None) -> Frame:
    """Returns a table of the blocks that are allocated after event ``at``, by state and size. By default, ``at`` is
    the event at which these states take the most memory.

    ``code`` contains indices into ``memory_categories.ORDER``. A block is allocated after event e if ``begin <= e <
    end``.
    """
    states = np.flatnonzero(np.isin(code, [ORDER.index(name) for name in STATES]) & (end > begin))
    code, begin, end, size = (column[states].astype(np.int64) for column in (code, begin, end, size))
    at = _peak_event(begin, end, size) if at is None else at
    is_live = (begin <= at) & (end > at)
    code, size = code[is_live], size[is_live]
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


def _peak_event(begin: Int64, end: Int64, size: Int64) -> int:
    """Returns the first event after which the most bytes are allocated; -1 = before the first event."""
    event, change = np.concatenate((begin, end)), np.concatenate((size, -size))
    order = np.argsort(event, kind="stable")
    level = np.cumsum(change[order])
    # If an event has several changes, the last one has the resulting level.
    last = np.append(event[order][1:] != event[order][:-1], True)[: len(order)]
    return int(event[order][last][np.argmax(level[last])]) if len(order) else -1


def counts_of(part: Part, name: str = FRAME) -> Counts:
    """Returns the number of blocks for each (state, size)."""
    rows = zip(*(part.frames[name].data[key].to_pylist() for key in STATE), strict=True)
    return {(state, size): count for state, size, count in rows}


class Repeated(msgspec.Struct, frozen=True):
    """States that are replicated on ``ranks`` ranks.

    ``alike`` contains the replicated bytes by state. ``total`` is the total size of these states on the largest
    rank, in bytes.
    """

    ranks: int
    alike: Mapping[str, int]
    total: int

    @property
    def bytes(self) -> int:
        return sum(self.alike.values())

    @property
    def sentence(self) -> str:
        return ", ".join(f"{TITLES[name].lower()} {{repeated_{name}_bytes}}" for name in STATES if self.alike[name])

    @property
    def figures(self) -> list[Figure]:
        return [
            METRICS.figure("repeated_ratio", self.bytes / self.total),
            METRICS.figure("workers", self.ranks),
            METRICS.figure("repeated_bytes", self.bytes),
            *(METRICS.figure(f"repeated_{name}_bytes", self.alike[name]) for name in STATES if self.alike[name]),
            METRICS.figure("sharding_bytes", self.bytes * (self.ranks - 1) // self.ranks),
        ]


def replicated_states(by_rank: Sequence[Counts]) -> Repeated | None:
    """Returns the states that ranks replicate; None below ``ALIKE`` of the states of the largest rank."""
    if len(by_rank) < 2:
        return None
    total = max(sum(size * count for (_, size), count in counts.items()) for counts in by_rank)
    found = Repeated(len(by_rank), alike_in(by_rank), total)
    return found if found.bytes and found.bytes >= ALIKE * total else None


def alike_in(by_rank: Sequence[Counts]) -> dict[str, int]:
    """Returns, for each state, the number of bytes in blocks that have the same size on all ranks."""
    alike = dict.fromkeys(STATES, 0)
    for (name, size), count in by_rank[0].items():
        alike[name] += size * min(count, *(other.get((name, size), 0) for other in by_rank[1:]))
    return alike


def replication_notice(found: Repeated, at_peak: int) -> Notice:
    """Returns the finding about replicated states. ``at_peak`` is the saving at the peaks, in bytes."""
    return Notice(
        "redundant_states",
        "low",
        f"All {{workers}} ranks have {{repeated_bytes}} in blocks of equal size: {found.sentence}. With sharding, each "
        "rank would need {sharding_bytes} less memory at their maximum, and {peak_sharding_bytes} less at the memory peak.",
        (
            "If the ranks are replicas of one model, shard the optimizer state. Shard the gradients and "
            "parameters too to save more. Sharding adds communication."
        ),
        [*found.figures, METRICS.figure("peak_sharding_bytes", at_peak)],
        "repeated_ratio",
        ALIKE,
    )
