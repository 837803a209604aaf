"""The devices a trace speaks of, in neutral words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceInfo:
    """One device. ``id`` is the text of ``args.device``; what the trace does not say is None."""

    id: str
    vendor: str = ""
    """Id of the device family that produced it: cuda, rocm, xpu, mtia, ..."""
    name: str | None = None
    memory_bytes: int | None = None
    sm_count: int | None = None
    """Streaming multiprocessors (compute units on AMD)."""
    capability: str | None = None
    """Compute capability ``major.minor`` (NVIDIA), None elsewhere."""
    max_threads_per_sm: int | None = None
    warp_size: int | None = None
    has_matrix_unit: bool | None = None
    """True when the device has Tensor Cores, MFMA or an equivalent; None when unknown."""
