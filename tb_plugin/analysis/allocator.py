"""Device names and allocated bytes from allocator events."""

from __future__ import annotations

import numpy as np

from tb_plugin.lib.arrays import Int64
from tb_plugin.model.trace.schema import MISSING

HOST_TYPE = 0
# PyTorch's numbers of device types (c10::DeviceType), as in traces.
TYPES = (
    "cpu", "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip", "fpga", "maia", "xla", "vulkan", "metal", "xpu", "mps",
    "meta", "hpu", "ve", "lazy", "ipu", "mtia", "privateuseone",
)  # fmt: skip
PRIVATE_TYPE = TYPES.index("privateuseone")


def device_name(kind: int, number: int) -> str:
    """Returns a device name in the format of ``torch.device``; "unknown" if the device type is missing."""
    name = TYPES[kind] if 0 <= kind < len(TYPES) else "unknown" if kind == MISSING else f"type{kind}"
    return name if number < 0 else f"{name}:{number}"


def levels_of(total: Int64, size: Int64) -> Int64:
    """Returns the bytes allocated after each event. An event without a recorded total changes the last total by ``size``."""
    change = np.cumsum(size)
    known = np.flatnonzero(total != MISSING)
    if not len(known):
        return change
    nearest = known[np.maximum(np.searchsorted(known, np.arange(len(total)), side="right") - 1, 0)]
    levels: Int64 = change + (total - change)[nearest]
    return levels
