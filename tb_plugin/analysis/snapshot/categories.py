"""Categories of a snapshot's memory blocks, recorded or derived from stacks."""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.memory_categories import ORDER, categories_of, category_slices, passes_of
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, Levels, devices_of
from tb_plugin.analysis.snapshot.training_stages import lives_of, tells_stages
from tb_plugin.lib.arrays import Int8, Int64
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Breakdown, Notice

Source = Literal["recorded", "derived", "no stacks", "no stages", "no pass"]
UNKNOWN = ORDER.index("unknown")
SAYS = {
    "recorded": "Recorded.",
    "derived": "Derived from allocation stacks and times.",
}
WHY = {
    "no stacks": "Memory categories (parameters, gradients, activations, ...) are unknown: no stacks were recorded.",
    "no stages": "Memory categories (parameters, gradients, activations, ...) are unknown: no allocation stack contains "
    "a forward pass, a backward pass or an optimizer.",
    "no pass": "Memory categories (parameters, gradients, activations, ...) are unknown: no forward pass was detected. "
    "No allocation stack contains a module call (a function named forward is not enough).",
}


class BlockCategories(msgspec.Struct, frozen=True, eq=False):
    of: Int8
    """For each block, an index into ``names``."""
    names: tuple[str, ...]
    """Keys of ``memory_categories.ORDER``, followed by additional categories that the snapshot contains."""
    source: Source

    @property
    def has_any(self) -> bool:
        return self.source in SAYS

    def texts(self, rows: Int64) -> pa.Array:
        if not self.has_any:
            return pa.nulls(len(rows), pa.large_string())
        return pa.array(self.names, pa.large_string()).take(pa.array(self.of[rows]))


def categories_of_blocks(device: DeviceLevels) -> BlockCategories:
    return _categories(device.snapshot, device.place) if devices_of(device.snapshot) else _none(0, "no stacks")


@cached_by_argument
def _categories(snapshot: Snapshot, place: int) -> BlockCategories:
    device = devices_of(snapshot)[place]
    stated = device.block("category")
    if (stated != MISSING).any():
        return _recorded(snapshot, stated)
    if not len(snapshot.stacks.frame):
        return _none(len(stated), "no stacks")
    if not tells_stages(device):
        return _none(len(stated), "no stages")
    lives = lives_of(device)
    if not passes_of(lives):
        return _none(len(stated), "no pass")
    return BlockCategories(categories_of(lives), ORDER, "derived")


def _none(count: int, source: Source) -> BlockCategories:
    return BlockCategories(np.full(count, UNKNOWN, np.int8), ORDER, source)


def _recorded(snapshot: Snapshot, stated: npt.NDArray[np.integer]) -> BlockCategories:
    """Returns the recorded categories. Blocks without a category, or beyond the int8 codes, are unknown."""
    ids, of = np.unique(stated, return_inverse=True)
    texts = [
        text if number != MISSING else None
        for number, text in zip(ids, snapshot.strings.take(ids).to_pylist(), strict=True)
    ]
    extra = dict.fromkeys(text for text in texts if text and text not in ORDER)
    names = (*ORDER, *list(extra)[: np.iinfo(np.int8).max - len(ORDER)])
    place = {name: i for i, name in enumerate(names)}
    codes = np.array([place.get(text or "unknown", UNKNOWN) for text in texts], np.int8)
    return BlockCategories(codes[of], names, "recorded")


def bytes_by_category(device: DeviceLevels, rows: Int64) -> dict[str, int]:
    found = categories_of_blocks(device)
    size = np.zeros(len(found.names), np.int64)
    np.add.at(size, found.of[rows], device.block("size")[rows])
    return {name: value for name, value in zip(found.names, size.tolist(), strict=True) if value}


def category_bar(device: DeviceLevels, levels: Levels, at: int, when: str) -> dict[str, Breakdown]:
    found = categories_of_blocks(device)
    if not found.has_any:
        return {}
    parts = category_slices("held", bytes_by_category(device, device.allocated(at)), SAYS[found.source])
    total = int(levels.allocated[at + 1])
    title = f"Allocated {when} by category"
    return {"held_categories": Breakdown("held_categories", title, device.name, "bytes", total, parts, "bar")}


def category_notes(device: DeviceLevels) -> list[Notice]:
    found = categories_of_blocks(device)
    if found.has_any or not len(device.block("size")):
        return []
    todo = device.snapshot.recorder.todo("categories_missing")
    return [Notice("categories_missing", "info", WHY[found.source], todo)]
