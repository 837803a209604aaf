"""What was captured for a graph, or ran before it did: device work in order of launch, and what stood around each launch.

It is made of this trace (``analyses/replays``) or of another one, whose texts were added to the strings of this one: all ids
count into the strings of the trace that has it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tb_plugin.trace.columns import no_rows

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
UInt8 = npt.NDArray[np.uint8]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Scopes:
    """What was open on a host thread around launches; a parent stands before its children. String ids; -1 = absent."""

    kind: UInt8 = no_rows(np.uint8)
    """EventKind: OPERATOR, MODULE, PYTHON or ANNOTATION."""
    name: Int32 = no_rows(np.int32)
    parent: Int32 = no_rows(np.int32)
    """Position of the innermost scope around it, of any kind."""
    shapes: Int32 = no_rows(np.int32)
    """As ``OperatorArgs.shapes``, where it is an operator."""
    types: Int32 = no_rows(np.int32)
    stack: Int32 = no_rows(np.int32)
    """As ``OperatorArgs.stack``, where it is an operator."""
    is_backward: Bool = no_rows(np.bool_)
    """What the autograd engine ran, and all inside of it."""
    is_eligible: Bool = no_rows(np.bool_)
    """As ``TraceTable.matrix_eligible``."""
    row: Int32 = no_rows(np.int32)
    """The row of this trace, -1 of what another trace has."""

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True, eq=False)
class Sequences:
    """Device work in order of launch: sequence i is ``[begin[i], begin[i + 1])`` of the other columns. -1 = absent."""

    begin: Int64 = field(default_factory=lambda: np.zeros(1, np.int64))
    is_capture: Bool = no_rows(np.bool_)
    """Whether each sequence was captured; else it ran."""
    kind: UInt8 = no_rows(np.uint8)
    """EventKind: KERNEL, MEMCPY or MEMSET."""
    name: Int32 = no_rows(np.int32)
    """String id of the kernel; absent where nothing ran and the call does not say."""
    grid: Int32 = no_rows(np.int32)
    block: Int32 = no_rows(np.int32)
    scope: Int32 = no_rows(np.int32)
    """The innermost scope around the launch."""

    def __len__(self) -> int:
        return len(self.begin) - 1


@dataclass(frozen=True, eq=False)
class Captured:
    """What another recording knows of the graphs that this trace replays."""

    source: str = ""
    """What a person calls the recording: its run, worker and span, or its file."""
    scopes: Scopes = field(default_factory=Scopes)
    sequences: Sequences = field(default_factory=Sequences)

    def __bool__(self) -> bool:
        return len(self.sequences) > 0
