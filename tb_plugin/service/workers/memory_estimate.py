"""Memory estimates from file sizes."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from typing import Any

from tb_plugin.formats.base import GZIP_MAGIC, ZSTD_MAGIC, FileSize, Reader, Windowed
from tb_plugin.service.workers.memory_budget import PROCESS_BYTES
from tb_plugin.storage.safe_open import Located, open_regular

# Size of an empty gzip file.
_EMPTY_ARCHIVE_BYTES = 18


def peak_memory_bytes(reader: Reader[Any], sizes: Mapping[str, FileSize]) -> int:
    """Estimates the peak memory of reading files of these sizes."""
    return PROCESS_BYTES + reader.peak_memory_bytes(sizes)


def room_bytes(reader: Windowed, budget: int) -> int:
    """Returns how many bytes of trace text fit into a memory budget."""
    return reader.room_bytes(budget - PROCESS_BYTES)


def local_file_sizes(files: Mapping[str, str | Located]) -> dict[str, FileSize]:
    """Returns the size of each local file on disk and after decompression, by name."""
    return {name: _local_size(file) for name, file in files.items()}


def unseen_sizes(sizes: Mapping[str, int]) -> dict[str, FileSize]:
    """Returns the sizes of remote files in storage, by name."""
    return {name: FileSize(size, name.endswith((".gz", ".zst"))) for name, size in sizes.items()}


def _local_size(file: str | Located) -> FileSize:
    try:
        with open_regular(file) as stream:
            magic = stream.read(4)
            size = stream.seek(0, os.SEEK_END)
            if magic == ZSTD_MAGIC:
                return FileSize(size, True)
            packed = magic[:2] == GZIP_MAGIC
            if not packed or size < _EMPTY_ARCHIVE_BYTES:
                return FileSize(size)
            stream.seek(-4, os.SEEK_END)
            (stated,) = struct.unpack("<I", stream.read(4))
    except OSError:
        return FileSize(0)
    return FileSize(size, True, int(stated))
