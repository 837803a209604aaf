"""Event kinds and other enumerations of the trace model.

All times are integer nanoseconds relative to the start of the trace, unless a name says otherwise.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tb_plugin.lib.groupby import MISSING as MISSING

Columns = TypeVar("Columns", bound=msgspec.Struct)
Timed = TypeVar("Timed", bound=Any)

# Name of the row with device time without an operator.
NO_OPERATOR = "(no operator)"

# Event name of a failed allocation.
OUT_OF_MEMORY = "[OutOfMemory]"


class EventKind(IntEnum):
    """Kind of an event, independent of the vendor."""

    UNKNOWN = 0
    OPERATOR = 1
    """A framework operator on the CPU (cpu_op)."""
    ANNOTATION = 2
    """A named range on the CPU (user_annotation, record_function, ProfilerStep#N)."""
    PYTHON = 3
    MODULE = 4
    """A call of an nn.Module or of a Lightning module."""
    RUNTIME = 5
    """A CPU call of the device's runtime or driver library."""
    KERNEL = 6
    MEMCPY = 7
    MEMSET = 8
    DEVICE_ANNOTATION = 9
    """A CPU annotation that is displayed on a device row. Its duration is not device time."""
    SYNC = 10
    """A wait recorded on a device row (cuda_sync, cuda_event). Its duration is not device time."""
    OVERHEAD = 11
    WINDOW = 12
    """The time range in which the profiler recorded events (category Trace)."""
    INSTANT = 13
    """An event without duration."""
    ASYNC = 14
    """Part of an asynchronous operation, which may start on one thread and end on another thread."""


class MatrixUse(IntEnum):
    """Whether a kernel uses matrix units (Tensor Cores, Matrix Cores, XMX), according to its name."""

    NO = 0
    YES = 1
    UNKNOWN = 2
    BY_TYPE = 3
    """Only in raw traces; assembly decides by the operator's input types (float32: UNKNOWN, others: YES)."""


class CallRole(IntEnum):
    """Purpose of a runtime or driver call, according to its name."""

    OTHER = 0
    ALLOCATE = 1
    """Allocates device memory from the driver."""
    FREE = 2
    """Returns device memory to the driver."""
    MAP = 3
    """Maps pages into an expandable segment."""
    UNMAP = 4
    """Unmaps pages of an expandable segment."""
    GRAPH = 5
    """Launches a CUDA graph."""
    PIN = 6
    """Allocates or frees pinned host memory."""
    SETUP = 7
    """Initializes the driver, a context, a stream or a kernel library."""
    WAIT = 8
    """Waits for a device, or for a thread that waits for a device."""
    LAUNCH = 9
    COPY = 10
    SET = 11
    """Launches a memset."""
    CAPTURE = 12
    """Starts the capture of a graph. Later launches are added to the graph and not executed."""
    CAPTURED = 13
    """Ends the capture of a graph."""
    JOIN = 14
    """Makes a stream wait for work that was enqueued earlier on another stream."""


class KernelClass(IntEnum):
    """Class of a kernel. Rules, tables and results use the name of the class in lower case."""

    OTHER = 0
    """No rule matches the kernel name or the name of an operator that encloses the kernel's launch."""
    GEMM = 1
    CONVOLUTION = 2
    ATTENTION = 3
    NORMALISATION = 4
    """Normalisation kernels, including softmax."""
    ELEMENTWISE = 5
    REDUCTION = 6
    """Reduction kernels, including sorting, scans and pooling."""
    EMBEDDING = 7
    """Kernels that read rows of a table by index, or add values to such rows."""
    MOE = 8
    """Kernels that sort tokens by expert, or multiply the matrices of experts."""
    OPTIMIZER = 9
    COPY = 10
    """Kernels that copy data, set memory to a value, or cast data. Copies by the driver are not kernels."""
    COMMUNICATION = 11


# Kinds that keep a device busy.
DEVICE_WORK = (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET)

# Kinds that are recorded on a device row.
ON_DEVICE = (*DEVICE_WORK, EventKind.DEVICE_ANNOTATION, EventKind.SYNC)

# Kinds that nest in the operator tree of a host thread.
OP_TREE = (EventKind.OPERATOR, EventKind.MODULE, EventKind.RUNTIME)


def of_kind(kind: npt.NDArray[np.uint8], *wanted: EventKind) -> npt.NDArray[np.bool_]:
    flags = np.zeros(len(EventKind), np.bool_)
    flags[list(wanted)] = True
    # A table lookup takes a tenth of the time of np.isin. This function is called very often.
    found: npt.NDArray[np.bool_] = flags[kind]
    return found


def no_rows(dtype: type[Any]) -> Any:
    return msgspec.field(default_factory=lambda: np.empty(0, dtype=dtype))


def taken(columns: Columns, rows: Any) -> Columns:
    """Returns the selected rows of a Struct of columns."""
    return type(columns)(**{f: getattr(columns, f)[rows] for f in columns.__struct_fields__})


def taken_since(columns: Timed, rows: Any, origin_ns: int) -> Timed:
    """Returns the selected rows of a Struct of columns, with ``time_ns`` relative to ``origin_ns``."""
    chosen = taken(columns, rows)
    return replace(chosen, time_ns=chosen.time_ns - origin_ns)
