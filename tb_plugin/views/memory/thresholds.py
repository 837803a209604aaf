"""What is worth a word: how many bytes matter on a device, and how close to its end it came."""

from __future__ import annotations

from tb_plugin.analysis.device_memory.records import Device, memory_of
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Severity

LEAST_BYTES = 256 << 20
"""Allocators round segments to 2 and 20 MiB, and caches of libraries take some tens: less is no finding anywhere."""
LEAST_SHARE = 0.02
"""A share of a device's memory. Less decides over no batch size."""
NEAR = 0.8
"""A share of a device's memory. From here on what is wasted is what the next larger input lacks."""


def least_bytes(trace: TraceTable, device: Device) -> int:
    """Returns how many bytes are worth a finding."""
    return max(LEAST_BYTES, int(LEAST_SHARE * (memory_of(trace, device) or 0)))


def severity_near(trace: TraceTable, device: Device, most: int) -> Severity:
    """Returns how loud a finding about a level is: it matters where the memory is nearly used up."""
    memory = memory_of(trace, device)
    return "medium" if memory and most >= NEAR * memory else "low"
