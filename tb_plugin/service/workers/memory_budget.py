"""Memory budget of all workers, and memory estimates from file sizes.

The plugin imports this module at startup, so this module must not import large libraries.
"""

from __future__ import annotations

import contextlib
import logging
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tb_plugin import settings
from tb_plugin.errors import BadRequest, UnreadableTrace, UserError

if TYPE_CHECKING:
    from tb_plugin.formats.base import FileSize, Reader, Windowed
    from tb_plugin.storage.safe_open import Located

log = logging.getLogger("torch_trace")

# Memory for all workers together, in megabytes (10**6 bytes).
MEMORY_VARIABLE = settings.MEMORY_MB.name
# Default share of the memory of the machine or container: training may run on the same machine.
SHARE = 0.5
# Share of the memory limit of this process: Dask kills a worker at 95 %.
LIMIT_SHARE = 0.9
# Assumed memory of a machine that does not report it.
_UNKNOWN_BYTES = 16 * 1024**3
# Memory of an interpreter with its libraries and read buffers.
PROCESS_BYTES = 160_000_000
# Maximum number of decoder processes of one file: the merge in one process limits the speed.
_MAX_DECODERS = 8
# Memory estimate of a smaller read: 60 MB of text or less. Starting processes would take longer than they save.
MIN_DIVIDED_BYTES = 120_000_000
# Memory of a decoder process: its buffers, and its copies of shared pages.
DECODER_BYTES = 60_000_000
# Size of an empty gzip file.
_EMPTY_ARCHIVE_BYTES = 18


def budget_bytes(limit_bytes: int | None = None) -> int:
    """Returns TORCH_TRACE_MEMORY_MB, or a share of the memory (``limit_bytes``, by default of the machine)."""
    text = os.environ.get(MEMORY_VARIABLE, "").strip()
    try:
        if text:
            return max(1, int(float(text) * 1_000_000))
    except (ValueError, OverflowError):
        log.warning("%s=%s is not a number; the default is used.", MEMORY_VARIABLE, text)
    return int(LIMIT_SHARE * limit_bytes) if limit_bytes else int(SHARE * _machine_bytes())


def _machine_bytes() -> int:
    limits = []
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    # The file does not exist on other systems. The word "max" means no limit.
    with contextlib.suppress(OSError, ValueError):
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return min(limits, default=_UNKNOWN_BYTES)


def window_unsupported_error(where: str, asked: str, need: int, budget: int, why: str) -> UserError:
    """Returns the error for a profile that cannot be opened as a window.

    ``asked`` is the requested window, or empty if the profile is too large to open as a whole. ``why`` is a
    sentence that starts with a lower-case letter.
    """
    if asked:
        return BadRequest(why[:1].upper() + why[1:], where, "Open the profile without a window.")
    what = (
        f"Opening the profile needs about {need / 1e6:,.0f} MB of memory, but {budget / 1e6:,.0f} MB are allowed; {why}"
    )
    return UnreadableTrace(
        what, where, f"Allow more memory with {MEMORY_VARIABLE}={need / 1e6 + 1:.0f}, or record a shorter trace."
    )


def peak_memory_bytes(reader: Reader[Any], sizes: Mapping[str, FileSize]) -> int:
    return PROCESS_BYTES + reader.peak_memory_bytes(sizes)


def decoders(peak_bytes: int, budget: int) -> int:
    """Returns the number of decoder processes for one file, or 1 if its worker decodes it.

    ``peak_bytes`` is the memory estimate of a read in one process. The others take DECODER_BYTES each.
    """
    if peak_bytes < PROCESS_BYTES + MIN_DIVIDED_BYTES:
        return 1
    text = os.environ.get(settings.DECODERS.name, "").strip()
    limit = int(text) if text.isdigit() and int(text) > 0 else min(cores(), _MAX_DECODERS)
    count = min(limit, (budget - peak_bytes) // DECODER_BYTES)
    return count if count > 1 else 1


def decoder_bytes(count: int) -> int:
    """Returns the memory of ``count`` decoder processes. A single decoder is part of the read."""
    return count * DECODER_BYTES if count > 1 else 0


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def room_bytes(reader: Windowed, budget: int) -> int:
    """Returns how many bytes of trace text fit into a memory budget."""
    return reader.room_bytes(budget - PROCESS_BYTES)


def local_file_sizes(files: Mapping[str, str | Located]) -> dict[str, FileSize]:
    return {name: _local_size(file) for name, file in files.items()}


def unseen_sizes(sizes: Mapping[str, int]) -> dict[str, FileSize]:
    from tb_plugin.formats.base import FileSize

    return {name: FileSize(size, name.endswith((".gz", ".zst"))) for name, size in sizes.items()}


def _local_size(file: str | Located) -> FileSize:
    from tb_plugin.formats.base import GZIP_MAGIC, ZSTD_MAGIC, FileSize
    from tb_plugin.storage.safe_open import open_regular

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
