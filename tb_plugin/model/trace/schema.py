"""The vocabulary of traces: kinds of events and meanings of columns.

All times are integer nanoseconds relative to the start of the trace unless a name says otherwise.
"""

from __future__ import annotations

from dataclasses import field
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import MISSING as MISSING

# Name of the row with device time without an operator.
NO_OPERATOR = "(no operator)"

# Name of the moment of a failed allocation.
OUT_OF_MEMORY = "[OutOfMemory]"


class EventKind(IntEnum):
    """Kind of an event, independent of vendors."""

    UNKNOWN = 0
    OPERATOR = 1
    """A framework operator on the host (cpu_op)."""
    ANNOTATION = 2
    """A named range on the host (user_annotation, record_function, ProfilerStep#N)."""
    PYTHON = 3
    """A Python function call."""
    MODULE = 4
    """A call of an nn.Module (or of a Lightning module)."""
    RUNTIME = 5
    """A call of the device's runtime or driver library on the host."""
    KERNEL = 6
    MEMCPY = 7
    MEMSET = 8
    DEVICE_ANNOTATION = 9
    """A host annotation projected onto a device row; never counted as device time."""
    SYNC = 10
    """A wait recorded on a device row (cuda_sync, cuda_event); never counted as device time."""
    OVERHEAD = 11
    """The profiler's own cost."""
    WINDOW = 12
    """The profiler's record window (category Trace)."""
    INSTANT = 13
    """A marked moment without duration."""
    ASYNC = 14
    """A part of an operation without a thread: it may start on one and end on another."""


class MatrixUse(IntEnum):
    """Whether a kernel computes on a matrix unit (Tensor Cores, Matrix Cores, XMX), as far as its name tells."""

    NO = 0
    YES = 1
    UNKNOWN = 2
    BY_TYPE = 3
    """In a raw trace: YES, but UNKNOWN where the operator's inputs are recorded as float32."""


class CallRole(IntEnum):
    """Role of a runtime or driver call, by its name."""

    OTHER = 0
    ALLOCATE = 1
    """Gets memory of the device from the driver."""
    FREE = 2
    """Gives it back."""
    MAP = 3
    """Gets pages for a segment that can grow."""
    UNMAP = 4
    """Gives such pages back."""
    GRAPH = 5
    """Launches a captured graph."""
    PIN = 6
    """Gets pinned memory of the host from the driver, or gives it back."""
    SETUP = 7
    """Sets up the driver, a context, a stream or a kernel library."""
    WAIT = 8
    """Waits for a device, or for a thread that does so."""
    LAUNCH = 9
    """Launches a kernel."""
    COPY = 10
    """Copies memory."""
    SET = 11
    """Sets memory."""
    CAPTURE = 12
    """Starts the capture of a graph: later launches become part of it instead of running."""
    CAPTURED = 13
    """Ends the capture of a graph."""
    JOIN = 14
    """Makes a stream wait for earlier work of another one."""


class KernelClass(IntEnum):
    """Class of a kernel. Its lower-case name is used in rules, tables and facts."""

    OTHER = 0
    """No rule matches the kernel or an operator around its launch."""
    GEMM = 1
    CONVOLUTION = 2
    ATTENTION = 3
    NORMALISATION = 4
    """Also softmax: each row is divided by a value of the whole row."""
    ELEMENTWISE = 5
    REDUCTION = 6
    """Also sorting, scanning and pooling."""
    EMBEDDING = 7
    """Rows are looked up by index, or added to."""
    MOE = 8
    """Sorting tokens to experts, and products of experts."""
    OPTIMIZER = 9
    COPY = 10
    """Data moved, set or cast by a kernel; driver copies are not kernels."""
    COMMUNICATION = 11


# Kinds that keep a device busy.
DEVICE_WORK = (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET)

# Kinds on a row of a device.
ON_DEVICE = (*DEVICE_WORK, EventKind.DEVICE_ANNOTATION, EventKind.SYNC)

# Kinds that nest in the operator tree of a host thread.
OP_TREE = (EventKind.OPERATOR, EventKind.MODULE, EventKind.RUNTIME)


def of_kind(kind: npt.NDArray[np.uint8], *wanted: EventKind) -> npt.NDArray[np.bool_]:
    """Returns which rows of a ``kind`` column are of one of these kinds."""
    flags = np.zeros(len(EventKind), np.bool_)
    flags[list(wanted)] = True
    # A look into 15 flags takes a tenth of the time of np.isin, which is asked so often that it showed in profiles.
    found: npt.NDArray[np.bool_] = flags[kind]
    return found


def no_rows(dtype: type[Any]) -> Any:
    """Returns the default of a column: a new empty array per model."""
    return field(default_factory=lambda: np.empty(0, dtype=dtype))
