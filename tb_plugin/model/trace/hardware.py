"""The devices a trace speaks of, in neutral words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceFacts:
    """What words in profiles of a family mean: of cores, operations, counters and links; "" or () = there are none."""

    cores: tuple[tuple[str, str], ...] = ()
    """What kinds of cores are called on a page, in the order of pages; others are called what the profile calls them."""
    fallback_cores: tuple[str, ...] = ()
    """Kinds of cores that take what the others have no kernel for, and are slow at it."""
    conversions: tuple[str, ...] = ()
    """Operations that give numbers another layout or type, and compute nothing."""
    reading: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Keys of shares of a kernel's time: those in which it reads from memory, and those in which it computes meanwhile."""
    frequency: str = ""
    """Name of the counter of the cores' frequency."""
    normal_hertz: float = 0.0
    """The frequency at work."""
    idle_hertz: float = 0.0
    """The frequency without work."""
    packets: tuple[tuple[str, int], ...] = ()
    """Kinds of links, and the bytes from which on a packet makes good use of one."""
    receiving: str = ""
    """Regular expression for names of kernels that wait for what another rank sends."""


@dataclass(frozen=True)
class DeviceInfo:
    """One device. ``id`` is the text of ``args.device``; what the trace does not say is None."""

    id: str
    ordinal: int | None = None
    """Its number in the framework (cuda:0, hip:0), which allocator events record; None where the trace does not tell."""
    vendor: str = ""
    """Id of the device family that produced it: cuda, rocm, xpu, mtia, ..."""
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
    """The backend of process groups that is made for it, "" when none is known."""
    matrix_unit: str = ""
    """The vendor's word for its matrix units (Tensor Cores, Matrix Cores, XMX), "" when it has none."""
    precisions: tuple[str, ...] = ()
    """Number formats below 32 bit (and tf32) that its matrix units compute in: fp16, bf16, tf32, fp8; () = unknown."""
    multiprocessor: str = ""
    """The vendor's word for what runs a block of threads (SM, CU, Xe core), "" when it has none."""

    @property
    def is_named(self) -> bool:
        """Returns whether its id is a word and its number (gpu0): a name that says as much as cuda:0."""
        return not self.id.isdecimal() and self.id.rstrip("0123456789") + str(self.ordinal) == self.id

    peaks: tuple[tuple[str, float], ...] = ()
    """Operations in a nanosecond by number format (fp32 outside of matrix units; tf32, fp16, fp8: in them), () = unknown."""
    bandwidth: float | None = None
    """Bytes in a nanosecond to and from its memory."""
    link_bandwidth: float | None = None
    """Bytes in a nanosecond over all its links to other devices of its node, in one direction."""
    word: str = "GPU"
    """What such a device is called: GPU, NPU; "Device" where it is none of these, as a processor."""
    facts: DeviceFacts | None = None
    """What its profiles state beside what all do; None where nobody knows."""
