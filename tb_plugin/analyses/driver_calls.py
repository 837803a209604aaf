"""Calls of the driver for device memory: what the overview and the memory view say about them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.metrics import SHARED
from tb_plugin.payloads import Link, Notice, Reference
from tb_plugin.trace.intervals import Ranges, covered_before, measure
from tb_plugin.trace.schema import MISSING, EventKind
from tb_plugin.trace.table import TraceTable
from tb_plugin.trace.tree import nest

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

_GETS = re.compile(r"[a-z]+(Malloc|Mem(Alloc|Create|Map))(Async|FromPoolAsync|Managed|Pitch|3D)?(_v\d+)?$"
                   r"|hipExtMallocWithFlags$|zeMemAlloc(Device|Shared)$|ur(USM)(Device|Shared)Alloc$")  # fmt: skip
_GIVES_BACK = re.compile(r"[a-z]+(Free|Mem(Unmap|Release|Free))(Async)?(_v\d+)?$|zeMemFree$|urUSMFree$")
"""Of a device's memory, not of the host's: cudaMalloc, hipFree, cuMemMap, zeMemAllocDevice."""
_MAPS = re.compile(r"(cu|hip)Mem(Create|Map|Unmap|Release)")
"""How expandable segments get and give back their pages."""
OFTEN = 0.05
FAR = 20
"""A call that takes more than so many medians does something that the others do not: it sets the driver up."""
SHORT_NS = 1_000_000
"""No call up to here is set apart, however short the others are."""
LONG_NS = 500_000_000
"""No call for memory takes longer, whatever the others take: it sets the driver up."""


@dataclass(frozen=True)
class DriverCalls:
    """Outermost calls that begin in ``steps_ns`` nanoseconds of steps, and their time on the host."""

    malloc_calls: int
    malloc_ns: int
    free_calls: int
    free_ns: int
    setup_calls: int
    """Those among them that take far longer than the others."""
    setup_ns: int
    steps_ns: int
    recorded: bool
    """Whether the trace has steps: else the whole recording stands for one."""
    expandable: bool
    """Whether any of them is of an expandable segment."""

    @property
    def usual_calls(self) -> int:
        """Number of calls without those that set the driver up."""
        return self.malloc_calls + self.free_calls - self.setup_calls

    @property
    def usual_ns(self) -> int:
        """Their time, nanoseconds."""
        return self.malloc_ns + self.free_ns - self.setup_ns


def driver_calls(trace: TraceTable, steps: Ranges) -> DriverCalls:
    """Calls that begin in these ranges of host time."""
    gets = trace.strings.where(lambda name: _GETS.match(name) is not None)
    gives_back = trace.strings.where(lambda name: _GIVES_BACK.match(name) is not None)
    rows = np.flatnonzero((trace.kind == EventKind.RUNTIME) & (gets | gives_back)[trace.name])
    # A runtime call and the driver call inside it are one.
    rows = rows[nest(trace.track[rows], trace.start_ns[rows], trace.end_ns[rows]).parent == MISSING]
    start = trace.start_ns[rows]
    rows = rows[covered_before(steps, start + 1) > covered_before(steps, start)]
    got, freed = rows[gets[trace.name[rows]]], rows[gives_back[trace.name[rows]]]
    spent = [int(trace.dur_ns[some].sum()) for some in (got, freed)]
    setup = sets_up(trace.dur_ns[rows])
    expandable = bool(trace.strings.where(lambda name: _MAPS.match(name) is not None)[trace.name[rows]].any())
    return DriverCalls(
        malloc_calls=len(got),
        malloc_ns=spent[0],
        free_calls=len(freed),
        free_ns=spent[1],
        setup_calls=int(setup.sum()),
        setup_ns=int(trace.dur_ns[rows][setup].sum()),
        steps_ns=measure(steps),
        recorded=trace.steps.recorded,
        expandable=expandable,
    )


def sets_up(dur_ns: Int64) -> Bool:
    """Which of these calls set the driver up, once, instead of asking it for memory: those that take far longer.

    Far is more than ``FAR`` times the median (of an even number the lower one of the two in the middle).
    """
    if not len(dur_ns):
        return np.zeros(0, np.bool_)
    median = int(np.sort(dur_ns)[(len(dur_ns) - 1) // 2])
    return (dur_ns > max(FAR * median, SHORT_NS)) | (dur_ns > LONG_NS)


def driver_notice(calls: DriverCalls, evidence: Link) -> Notice | None:
    """What follows from such calls; None where there are none but those that set the driver up."""
    if not calls.usual_calls:
        return None
    share = calls.usual_ns / calls.steps_ns if calls.steps_ns else 0.0
    where, of = ("Inside steps", "of the steps") if calls.recorded else ("While recording", "of the recording")
    todo = "The reserved curve should be flat. Keep shapes constant, and warm up with the largest input."
    if not calls.expandable:
        todo += " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets segments grow instead of adding new ones."
    if not calls.recorded:
        todo += " Call profiler.step() once an iteration to tell the warm-up from the rest."
    keys = ["malloc_calls", "malloc_ns", "free_calls", "free_ns"]
    text = (
        f"{where} the driver was called for memory: allocations {{malloc_calls}} ({{malloc_ns}}), releases "
        "{free_calls} ({free_ns})"
    )
    if calls.setup_calls:
        keys += ["setup_calls", "setup_ns"]
        text += "; {setup_calls} of these calls took {setup_ns}, far longer than the others (the driver is set up once)"
        text += f". The others: {{driver_memory_ratio}} {of}."
    else:
        text += f", together {{driver_memory_ratio}} {of}."
    return Notice(
        rule="driver_memory_calls",
        severity="medium" if share > OFTEN else "low",
        text=text,
        todo=todo,
        figures=[
            *(SHARED.figure(key, getattr(calls, key)) for key in keys),
            SHARED.figure("driver_memory_ratio", share),
        ],
        measure="driver_memory_ratio",
        threshold=OFTEN,
        evidence=evidence,
        references=[
            Reference(
                "PyTorch: CUDA memory management",
                "https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-memory-management",
            )
        ],
    )
