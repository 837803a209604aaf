"""Devices of a trace in neutral words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceFacts:
    """Vocabulary of a device family: cores, operations, counters and links; "" or () = none."""

    cores: tuple[tuple[str, str], ...] = ()
    """Display names of core kinds, in page order; others keep the name in the profile."""
    fallback_cores: tuple[str, ...] = ()
    """Slow core kinds that run operators without a kernel for the others."""
    conversions: tuple[str, ...] = ()
    """Operations that only convert layout or type."""
    reading: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Keys of shares of a kernel's time: memory reads, and computation in parallel."""
    frequency: str = ""
    """Name of the counter of the cores' frequency."""
    normal_hertz: float = 0.0
    """The frequency under load."""
    idle_hertz: float = 0.0
    """The idle frequency."""
    packets: tuple[tuple[str, int], ...] = ()
    """Kinds of links, and the minimum packet size in bytes for good use of one."""
    receiving: str = ""
    """Regular expression for names of kernels that wait for data of another rank."""


@dataclass(frozen=True)
class DeviceInfo:
    """One device. ``id`` is the text of ``args.device``; unknown values are None."""

    id: str
    ordinal: int | None = None
    """Its number in the framework (cuda:0, hip:0), as in allocator events; None if unknown."""
    vendor: str = ""
    """Id of its device family: cuda, rocm, xpu, mtia, ..."""
    name: str | None = None
    memory_bytes: int | None = None
    sm_count: int | None = None
    """Number of multiprocessors."""
    capability: str | None = None
    """Compute capability ``major.minor`` (NVIDIA), None elsewhere."""
    max_threads_per_sm: int | None = None
    warp_size: int | None = None
    has_matrix_unit: bool | None = None
    """True when the device has one; None when unknown."""
    collective_backend: str = ""
    """The backend of process groups for it, "" if unknown."""
    matrix_unit: str = ""
    """The vendor's word for its matrix units (Tensor Cores, Matrix Cores, XMX), "" when it has none."""
    precisions: tuple[str, ...] = ()
    """Number formats below 32 bit (and tf32) of its matrix units: fp16, bf16, tf32, fp8; () = unknown."""
    multiprocessor: str = ""
    """The vendor's word for a multiprocessor (SM, CU, Xe core), "" when it has none."""

    @property
    def has_name(self) -> bool:
        """Returns whether its id is a word with its number (gpu0), as informative as cuda:0."""
        return not self.id.isdecimal() and self.id.rstrip("0123456789") + str(self.ordinal) == self.id

    peaks: tuple[tuple[str, float], ...] = ()
    """Operations per nanosecond by number format (fp32 outside matrix units; tf32, fp16, fp8 in them), () = unknown."""
    bandwidth: float | None = None
    """Memory bandwidth, bytes per nanosecond."""
    link_bandwidth: float | None = None
    """Bytes per nanosecond over all its links to other devices of its node, in one direction."""
    word: str = "GPU"
    """Word for such a device: GPU, NPU; "Device" for others, such as a processor."""
    facts: DeviceFacts | None = None
    """Vocabulary of its profiles; None if unknown."""
