"""Calls of the driver for device memory: what the overview and the memory view say about them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tb_plugin.analyses.metrics import SHARED
from tb_plugin.payloads import Link, Notice, Reference
from tb_plugin.trace.intervals import Ranges, covered_before, measure
from tb_plugin.trace.schema import MISSING, EventKind
from tb_plugin.trace.table import TraceTable
from tb_plugin.trace.tree import nest

_GETS = re.compile(r"[a-z]+(Malloc|Mem(Alloc|Create|Map))(Async|FromPoolAsync|Managed|Pitch|3D)?(_v\d+)?$"
                   r"|hipExtMallocWithFlags$|zeMemAlloc(Device|Shared)$|ur(USM)(Device|Shared)Alloc$")  # fmt: skip
_GIVES_BACK = re.compile(r"[a-z]+(Free|Mem(Unmap|Release|Free))(Async)?(_v\d+)?$|zeMemFree$|urUSMFree$")
"""Of a device's memory, not of the host's: cudaMalloc, hipFree, cuMemMap, zeMemAllocDevice."""
_MAPS = re.compile(r"(cu|hip)Mem(Create|Map|Unmap|Release)")
"""How expandable segments get and give back their pages."""
OFTEN = 0.05


@dataclass(frozen=True)
class DriverCalls:
    """Outermost calls that begin in ``steps_ns`` nanoseconds of steps, and their time on the host."""

    malloc_calls: int
    malloc_ns: int
    free_calls: int
    free_ns: int
    steps_ns: int
    recorded: bool
    """Whether the trace has steps: else the whole recording stands for one."""
    expandable: bool
    """Whether any of them is of an expandable segment."""


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
    expandable = bool(trace.strings.where(lambda name: _MAPS.match(name) is not None)[trace.name[rows]].any())
    return DriverCalls(len(got), spent[0], len(freed), spent[1], measure(steps), trace.steps.recorded, expandable)


def driver_notice(calls: DriverCalls, evidence: Link) -> Notice | None:
    """What follows from such calls; None where there are none."""
    if not calls.malloc_calls + calls.free_calls:
        return None
    share = (calls.malloc_ns + calls.free_ns) / calls.steps_ns if calls.steps_ns else 0.0
    where, of = ("Inside steps", "of the steps") if calls.recorded else ("While recording", "of the recording")
    todo = "The reserved curve should be flat. Keep shapes constant, and warm up with the largest input."
    if not calls.expandable:
        todo += " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets segments grow instead of adding new ones."
    if not calls.recorded:
        todo += " Call profiler.step() once an iteration to tell the warm-up from the rest."
    keys = ("malloc_calls", "malloc_ns", "free_calls", "free_ns")
    return Notice(
        rule="driver_memory_calls",
        severity="medium" if share > OFTEN else "low",
        text=f"{where} the driver was called for memory: allocations {{malloc_calls}} ({{malloc_ns}}), releases "
        f"{{free_calls}} ({{free_ns}}), together {{driver_memory_ratio}} {of}.",
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
