"""Memory budget of all workers.

The plugin imports this module at startup, so this module must not import large libraries.
"""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path

from tb_plugin import settings
from tb_plugin.errors import BadRequest, UnreadableTrace, UserError

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
_NO_WINDOW = "Open the profile without a window."


def budget_bytes(limit_bytes: int | None = None) -> int:
    """Returns the memory budget: TORCH_TRACE_MEMORY_MB, or a share of the available memory.

    ``limit_bytes`` is the memory limit of this process. By default, the memory of the machine or container is the
    limit.
    """
    text = os.environ.get(MEMORY_VARIABLE, "").strip()
    try:
        if text:
            return max(1, int(float(text) * 1_000_000))
    except (ValueError, OverflowError):
        log.warning("%s=%s is not a number; the default is used.", MEMORY_VARIABLE, text)
    return int(LIMIT_SHARE * limit_bytes) if limit_bytes else int(SHARE * _machine_bytes())


def window_unsupported_error(where: str, asked: str, need: int, budget: int, why: str) -> UserError:
    """Returns the error for a profile that cannot be opened as a window.

    ``asked`` is the requested window, or empty if the profile is too large to open as a whole. ``why`` is a
    sentence that starts with a lower-case letter.
    """
    if asked:
        return BadRequest(why[:1].upper() + why[1:], where, _NO_WINDOW)
    what = (
        f"Opening the profile needs about {need / 1e6:,.0f} MB of memory, but {budget / 1e6:,.0f} MB are allowed; {why}"
    )
    return UnreadableTrace(
        what, where, f"Allow more with {MEMORY_VARIABLE}={need / 1e6 + 1:.0f}, or record a shorter trace."
    )


def _machine_bytes() -> int:
    limits = []
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    # The file does not exist on other systems. The word "max" means no limit.
    with contextlib.suppress(OSError, ValueError):
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return min(limits, default=_UNKNOWN_BYTES)
