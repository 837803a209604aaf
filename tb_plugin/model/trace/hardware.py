"""Properties of the devices of a trace, independent of the vendor."""

from __future__ import annotations

import msgspec

GPU = "GPU"


class DeviceFacts(msgspec.Struct, frozen=True):
    """Names in profiles of one device family for cores, operations, counters and links.

    Empty = the family has none.
    """

    cores: tuple[tuple[str, str], ...] = ()
    """Kinds of cores and their display names, in page order.

    A kind that is not included is displayed with its name in the profile.
    """
    fallback_cores: tuple[str, ...] = ()
    """Kinds of slow cores, which run an operator if no faster core has a kernel for this operator."""
    conversions: tuple[str, ...] = ()
    """Names of operations that only convert the layout or type of a tensor."""
    reading: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Columns that contain the share of kernel time spent reading memory.

    Each is paired with the columns for the computation that runs in parallel.
    """
    frequency: str = ""
    """Name of the counter that records the core frequency."""
    normal_hertz: float = 0.0
    """Normal core frequency under load, in hertz."""
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
    """Device family: cuda, rocm, xpu, mtia, ..."""
    name: str | None = None
    memory_bytes: int | None = None
    sm_count: int | None = None
    capability: str | None = None
    """NVIDIA compute capability, as ``major.minor``; None for other vendors."""
    max_threads_per_sm: int | None = None
    warp_size: int | None = None
    has_matrix_unit: bool | None = None
    """Whether the device has matrix units; None = unknown."""
    collective_backend: str = ""
    """Recommended process group backend for this device; empty = unknown."""
    matrix_unit: str = ""
    """The vendor's name for matrix units (Tensor Cores, Matrix Cores, XMX); empty if there are none."""
    precisions: tuple[str, ...] = ()
    """Number formats that the matrix units support: tf32, and formats with fewer than 32 bits (fp16, bf16, fp8).

    () = unknown.
    """
    multiprocessor: str = ""
    """The vendor's name for a multiprocessor (SM, CU, Xe core); empty if there is none."""

    @property
    def has_name(self) -> bool:
        """Returns whether the id consists of a word and the ordinal, such as gpu0."""
        return not self.id.isdecimal() and self.id.rstrip("0123456789") + str(self.ordinal) == self.id

    peaks: tuple[tuple[str, float], ...] = ()
    """Peak operations per nanosecond, by number format; () = unknown.

    The peak for fp32 is the peak of the device if matrix units are not used. For all other formats, it is the peak
    of the matrix units.
    """
    bandwidth: float | None = None
    """Memory bandwidth, in bytes per nanosecond."""
    link_bandwidth: float | None = None
    """Total bandwidth from this device to all other devices of the node, in bytes per nanosecond."""
    word: str = "GPU"
    """Display word for the device: "GPU", "NPU", or "Device" for other kinds such as a CPU."""
    facts: DeviceFacts | None = None
    """Names that are used in profiles of this device's family; None = unknown."""
