"""Memory estimate for reading JSON text."""

from __future__ import annotations

from collections.abc import Mapping

from tb_plugin.formats.base import FileSize

PER_TEXT_BYTE = 2.0  # peak memory per byte of text: 0.65 to 2.1 were measured (V100 with stacks, MI300, torch 2.13)
PACKED = 15  # assumed compression ratio of a gzip file without a usable trailer; real ratios are 10 to 30
_MIN_TEXT_BYTES = 1_000_000  # text that is always loaded, whatever the memory limit: a few thousand events


def peak_memory_bytes(sizes: Mapping[str, FileSize]) -> int:
    return int(PER_TEXT_BYTE * sum(size.text_bytes(PACKED) for size in sizes.values()))


def room_bytes(memory_bytes: int) -> int:
    """Returns the maximum size of JSON text that can be read with ``memory_bytes`` of memory."""
    return max(_MIN_TEXT_BYTES, int(memory_bytes / PER_TEXT_BYTE))
