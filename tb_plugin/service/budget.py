"""How much memory the workers may take together, how much reading a file will need, and how much of it fits."""

from __future__ import annotations

import contextlib
import logging
import os
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

log = logging.getLogger("torch_trace")

MEMORY_VARIABLE = "TORCH_TRACE_MEMORY_MB"
"""Environment variable: megabytes (10**6 bytes) that all workers may take together."""
SHARE = 0.5
"""Of the machine's or the container's memory, when nothing is configured: training may run beside TensorBoard."""
_UNKNOWN_BYTES = 16 * 1024**3
"""Memory of a machine that does not say."""
PROCESS_BYTES = 150_000_000
"""An interpreter with its libraries and the buffers of a read."""
PER_TEXT_BYTE = 2.0
"""Memory at the peak of a read per byte of text: 0.65 to 2.1 were measured (V100 with stacks, MI300, torch 2.13)."""
_LEAST_ROOM = 1_000_000
"""Text that is kept whatever the budget: a few thousand events."""
_PACKED = 15
"""Text bytes per stored byte of a gzip file whose trailer says nothing: real traces pack 10 to 30 times."""
_GZIP_MAGIC = b"\x1f\x8b"


def budget_bytes() -> int:
    """What the environment allows, else a share of the machine's memory."""
    text = os.environ.get(MEMORY_VARIABLE, "").strip()
    try:
        if text:
            return max(1, int(float(text) * 1_000_000))
    except (ValueError, OverflowError):
        log.warning("%s=%s is not a number; the default is used.", MEMORY_VARIABLE, text)
    return int(SHARE * _machine_bytes())


def need_bytes(paths: Iterable[str]) -> int:
    """What reading local files will take at its peak, estimated from their sizes."""
    return PROCESS_BYTES + int(PER_TEXT_BYTE * sum(_text_bytes(Path(path)) for path in paths))


def need_unseen_bytes(sizes: Mapping[str, int]) -> int:
    """The same for files that are not here: stored size by name."""
    text = sum(size * (_PACKED if name.endswith(".gz") else 1) for name, size in sizes.items())
    return PROCESS_BYTES + int(PER_TEXT_BYTE * text)


def room_bytes(budget: int) -> int:
    """How much text a read may keep within a budget."""
    return max(_LEAST_ROOM, int((budget - PROCESS_BYTES) / PER_TEXT_BYTE))


def _text_bytes(path: Path) -> int:
    """About how much text a file holds; 0 when it cannot be read, which the read itself will say."""
    try:
        with path.open("rb") as stream:
            packed = stream.read(2) == _GZIP_MAGIC
            size = stream.seek(0, os.SEEK_END)
            if not packed or size < 18:
                return size
            stream.seek(-4, os.SEEK_END)
            # The length of the last member modulo 2**32: too small for several members and beyond 4 GiB.
            (said,) = struct.unpack("<I", stream.read(4))
    except OSError:
        return 0
    likely = _PACKED * size
    return int(said) if likely / 10 < said < likely * 10 else likely


def _machine_bytes() -> int:
    """Memory of the machine or of its container, whichever is less."""
    limits = []
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    # Not Linux: no such file; no limit: the word "max".
    with contextlib.suppress(OSError, ValueError):
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return min(limits, default=_UNKNOWN_BYTES)
