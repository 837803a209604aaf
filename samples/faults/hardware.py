"""The invented hardware: its figures, what is known of its calls, and the random bits of places."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, lru_cache
from zlib import crc32

from events import Json, strides

Dims = tuple[int, ...]

US, MS = 1_000, 1_000_000
MIB, GIB = 1 << 20, 1 << 30
QUEUE = 1_024
"""So many launches of a stream may wait to be taken by the device; the next one blocks."""
LATENCY = 2_600
"""From the end of a launch to the begin of its work on a device that is waiting."""
GAP = 900
"""Between two pieces of work of one stream."""
RETURN = 5_000
"""From the end of the work to the return of a call that waits for it."""
COMPUTE, COPY, COMM, SIDE = 7, 20, 24, 28
"""The streams: their numbers in the trace."""
SECOND = 1_000
"""What is added to the number of a stream for the same one of a second device."""
DEVICE_BYTES = 85_018_279_936
SMS = 132
PINNED, PAGEABLE, ON_DEVICE, PEER = 52.0, 7.5, 1_200.0, 180.0
"""Bytes in a nanosecond that a copy moves."""

BF16, FLOAT, LONG = "c10::BFloat16", "float", "long int"
CALLS = {
    "cudaLaunchKernel": ("cuda_runtime", 211, 3_800),
    "cuLaunchKernel": ("cuda_driver", 307, 3_600),
    "cudaLaunchKernelExC": ("cuda_runtime", 430, 5_200),
    "cudaGraphLaunch": ("cuda_runtime", 311, 9_000),
    "cudaMemcpyAsync": ("cuda_runtime", 41, 5_000),
    "cudaMemsetAsync": ("cuda_runtime", 51, 3_600),
    "cudaEventRecord": ("cuda_runtime", 135, 900),
    "cudaStreamWaitEvent": ("cuda_runtime", 147, 900),
    "cudaStreamSynchronize": ("cuda_runtime", 131, 2_000),
    "cudaDeviceSynchronize": ("cuda_runtime", 165, 2_000),
    "cudaMalloc": ("cuda_runtime", 20, 120_000),
    "cudaFree": ("cuda_runtime", 22, 90_000),
}
"""Category, number (cbid) and duration of each call of the runtime or the driver."""
_MASK = (1 << 64) - 1


def mixed(place: int, more: int) -> int:
    """Returns 64 random bits of a place inside of a place (the mixing of splitmix64)."""
    bits = (place + 0x9E3779B97F4A7C15 * (more + 1)) & _MASK
    bits = ((bits ^ bits >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    bits = ((bits ^ bits >> 27) * 0x94D049BB133111EB) & _MASK
    return bits ^ bits >> 31


def share(place: int) -> float:
    """Returns a number from 0 to 1 of the bits of a place."""
    return (place >> 11) / (1 << 53)


@cache
def _number(name: str) -> int:
    return crc32(name.encode())


def named(place: int, name: str) -> int:
    """Returns the place of a name inside of a place."""
    return mixed(place, _number(name))


@dataclass(slots=True)
class Row:
    """A slice of a track: what becomes an event of the file."""

    category: str
    name: str
    track: int
    start: int
    end: int
    args: Json
    flows: tuple[tuple[str, str, int], ...] = ()
    """Phase, category and number of the arrows that begin or end here."""


@dataclass(slots=True)
class Kernel:
    """What is launched: its name, how long it takes on average, and its grid."""

    name: str
    ns: float
    blocks: int = 4_096
    threads: int = 256
    args: Json = field(default_factory=dict)


@dataclass(slots=True)
class Thread:
    """A host thread and what is open on it."""

    tid: int
    name: str
    ids: list[int] = field(default_factory=list)
    """External ids of open operators and annotations."""


def grid_of(kernel: Kernel) -> Json:
    """Returns what the profiler says of how a kernel was launched."""
    per_sm = kernel.blocks / SMS
    warps = per_sm * kernel.threads / 32
    return {
        "queued": 0, "registers per thread": 64, "shared memory": 0, "blocks per SM": round(per_sm, 6),
        "warps per SM": round(warps, 6), "grid": [kernel.blocks, 1, 1], "block": [kernel.threads, 1, 1],
        "est. achieved occupancy %": round(min(1.0, warps / 64) * 100),
    }  # fmt: skip


@lru_cache(maxsize=4_096)
def inputs_of(dims: tuple[Dims, ...], dtype: str) -> Json:
    """Returns what the profiler says of the inputs of an operator."""
    return {
        "Concrete Inputs": [""] * len(dims), "Input type": [dtype if shape else "Scalar" for shape in dims],
        "Input Strides": [strides(shape) for shape in dims], "Input Dims": [list(shape) for shape in dims],
    }  # fmt: skip
