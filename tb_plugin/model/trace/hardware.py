"""Properties of the devices of a trace, independent of the vendor."""

from __future__ import annotations

import msgspec

GPU = "GPU"


class DeviceFacts(msgspec.Struct, frozen=True):
    """Names in profiles of one device family for cores, operations, counters and links. Empty = the family has none."""

    cores: tuple[tuple[str, str], ...] = ()
    """Kinds of cores and their display names, in page order. Others keep their name."""
    fallback_cores: tuple[str, ...] = ()
    """Kinds of slow cores, which run an operator if no faster core has a kernel for this operator."""
    conversions: tuple[str, ...] = ()
    reading: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Columns with the share of kernel time spent reading memory, each with those for parallel computation."""
    frequency: str = ""
    normal_hertz: float = 0.0
    idle_hertz: float = 0.0
    packets: tuple[tuple[str, int], ...] = ()
    """Kinds of links. Each has the minimum packet size for efficient transfers, in bytes."""
    receiving: str = ""
    """Regular expression for the names of kernels that wait for data from another rank."""


class DeviceInfo(msgspec.Struct, frozen=True):
    """Properties of one device. ``id`` is the text of ``args.device``. None = unknown."""

    id: str
    ordinal: int | None = None
    """Device number in PyTorch (1 in cuda:1), as in allocator events."""
    vendor: str = ""
    name: str | None = None
    memory_bytes: int | None = None
    sm_count: int | None = None
    capability: str | None = None
    """NVIDIA compute capability, as ``major.minor``; None for other vendors."""
    has_matrix_unit: bool | None = None
    collective_backend: str = ""
    """Recommended process group backend for this device; empty = unknown."""
    matrix_unit: str = ""
    """The vendor's name for matrix units (Tensor Cores, Matrix Cores, XMX); empty if there are none."""
    precisions: tuple[str, ...] = ()
    """Formats of the matrix units: tf32, and those with fewer than 32 bits (fp16, bf16, fp8); () = unknown."""
    multiprocessor: str = ""
    """The vendor's name for a multiprocessor (SM, CU, Xe core); empty if there is none."""
    matrix_tile: str = ""
    """Regular expression for the tile of the output in names of matmul kernels: rows and columns; empty = unknown."""
    matrix_load: str = ""
    """Regular expression for the elements that a thread loads at once in names of matmul kernels; empty = unknown."""

    @property
    def has_name(self) -> bool:
        return not self.id.isdecimal() and self.id.rstrip("0123456789") + str(self.ordinal) == self.id

    peaks: tuple[tuple[str, float], ...] = ()
    """Peak operations per nanosecond by number format, of the matrix units except for fp32; () = unknown."""
    bandwidth: float | None = None
    """Memory bandwidth, in bytes per nanosecond."""
    link_bandwidth: float | None = None
    """Total bandwidth from this device to all other devices of the node, in bytes per nanosecond."""
    word: str = "GPU"
    """Display word for the device: "GPU", "NPU", or "Device" for other kinds such as a CPU."""
    facts: DeviceFacts | None = None
    """Names that are used in profiles of this device's family; None = unknown."""
