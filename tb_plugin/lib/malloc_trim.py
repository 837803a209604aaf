"""Memory that is free goes back to the system."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

import pyarrow as pa


def give_back_memory() -> None:
    """Has the allocators hand over what is free: in the middle of work that needed much more than what comes next."""
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)
