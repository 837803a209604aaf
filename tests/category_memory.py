"""Memory by category by hand: rows of a raw memory timeline."""

from __future__ import annotations

import json

from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.formats.memory_timeline.reader import MemoryTimelineReader
from tb_plugin.model.category_memory import CategoryMemory, assembled
from tests.builders import Bytes

EPOCH = 1_795_194_180_000_000_000
"""Of time 0; nanoseconds since 1970."""


def category_memory(*rows: list[int]) -> CategoryMemory:
    """Rows of time (negative: there before), action, bytes and category."""
    text = json.dumps([[time if time < 0 else EPOCH + time, *rest] for time, *rest in rows]).encode()
    return assembled(MemoryTimelineReader().read(Bytes(text, "m.json"), ReadOptions(), no_progress))
