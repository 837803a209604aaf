"""Thresholds of significance for memory findings."""

from __future__ import annotations

from tb_plugin.analysis.device_memory.records import Device, memory_of
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Severity

# Allocators round segments to 2 and 20 MiB, and library caches take tens of MiB.
MIN_BYTES = 256 << 20
# Share of a device's memory. Less does not change the feasible batch size.
MIN_MEMORY_SHARE = 0.02
# Share of a device's memory. From here on, wasted memory limits the next larger input.
NEAR = 0.8


def least_bytes(trace: TraceTable, device: Device) -> int:
    """Returns the number of bytes from which memory is significant on the device."""
    return max(MIN_BYTES, int(MIN_MEMORY_SHARE * (memory_of(trace, device) or 0)))


def severity_near(trace: TraceTable, device: Device, most: int) -> Severity:
    """Returns medium if ``most`` bytes are close to the device's memory size, otherwise low."""
    memory = memory_of(trace, device)
    return "medium" if memory and most >= NEAR * memory else "low"
