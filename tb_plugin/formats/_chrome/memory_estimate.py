"""How much memory a read of JSON text takes, and how much text fits into some memory."""

from __future__ import annotations

from collections.abc import Mapping

from tb_plugin.formats.base import FileSize

PER_TEXT_BYTE = 2.0
"""Memory at the peak of a read per byte of text: 0.65 to 2.1 were measured (V100 with stacks, MI300, torch 2.13)."""
PACKED = 15
"""Text bytes per stored byte of a gzip file whose trailer says nothing: real traces pack 10 to 30 times."""
_LEAST_ROOM = 1_000_000
"""Text that is kept whatever the budget: a few thousand events."""


def need_bytes(sizes: Mapping[str, FileSize]) -> int:
    """Returns the memory that reading files of these sizes takes at its peak."""
    return int(PER_TEXT_BYTE * sum(size.text_bytes(PACKED) for size in sizes.values()))


def room_bytes(memory_bytes: int) -> int:
    """Returns how many bytes of text a read can keep in so much memory."""
    return max(_LEAST_ROOM, int(memory_bytes / PER_TEXT_BYTE))
