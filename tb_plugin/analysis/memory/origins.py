"""Python line, phase and step of allocator events."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.annotations import annotation_at, phases_of
from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.memory.owners import Owners, tracks_of
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.lib.groupby import places_of
from tb_plugin.model.trace.schema import MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import Steps, TraceTable
from tb_plugin.model.trace.tree import innermost_at

# Columns of ``Origins``.
ORIGINS = ("allocation_frame", "allocation_phase", "allocation_step")


class Origin(msgspec.Struct, frozen=True, eq=False):
    """One kind of origin, such as Python lines.

    ``of`` maps each allocator event to an index into ``texts`` (-1 = none).
    """

    of: Int32
    texts: pa.Array

    @property
    def is_recorded(self) -> bool:
        return bool((self.of != MISSING).any())

    def take(self, events: npt.NDArray[np.integer]) -> pa.Array:
        return self.texts_of(self.of[events])

    def texts_of(self, places: npt.NDArray[np.integer]) -> pa.Array:
        return self.texts.take(pa.array(places, pa.int32(), mask=places == MISSING))


class Origins(msgspec.Struct, frozen=True, eq=False):
    frame: Origin
    """Python line of each event, as in ``code_lines``."""
    phase: Origin
    step: Origin
    """Profiler step of each event. ``of`` contains indices into ``trace.steps``."""

    def recorded(self, keys: Iterable[str]) -> list[str]:
        """Returns the column keys for which the trace has data."""
        known = zip(ORIGINS, (self.frame.is_recorded, self.phase.is_recorded, self.step.is_recorded), strict=True)
        left_out = {key for key, there in known if not there} | (set() if self.step.is_recorded else {"outlives_step"})
        return [key for key in keys if key not in left_out]


def origins_of(trace: TraceTable, owners: Owners) -> Origins:
    return origins_at(trace, owners, tracks_of(trace), trace.memory.time_ns)


def origins_at(trace: TraceTable, owners: Owners, track: Int32, time: Int64) -> Origins:
    """Returns the origins at each (track, time). ``owners`` must be the result of ``owners_at`` for the same points."""
    phases = phases_of(trace)
    phase = phases.of[annotation_at(trace, track, time)].astype(np.int32)
    labels = trace.steps.label if trace.steps.recorded else ()
    return Origins(
        _frames(trace, owners, track, time),
        Origin(phase, pa.array(phases.labels, pa.large_string())),
        Origin(step_at(trace, time), pa.array(labels, pa.large_string())),
    )


def step_at(trace: TraceTable, time: Int64) -> Int32:
    """Returns, for each time, the index of the recorded step that runs on the host at that time (-1 = none)."""
    steps = trace.steps if trace.steps.recorded else Steps()
    return steps.at(time, on_host=True).astype(np.int32)


def _frames(trace: TraceTable, owners: Owners, track: Int32, time: Int64) -> Origin:
    """Returns the Python line of the innermost operator or call. A backward operator has that of its forward operator."""
    calls = np.flatnonzero(of_kind(trace.kind, EventKind.PYTHON, EventKind.MODULE) & np.isin(trace.track, track))
    parent = places_of(calls, len(trace))[trace.python_parent[calls]]
    place = innermost_at(trace.track[calls], trace.start_ns[calls], trace.ends(calls), parent, track, time)
    call = np.append(calls, MISSING)[place]
    operator = np.append(owners.operators, MISSING)[owners.operator]
    # Rows are in order of time, outer ones first: of two open events the later one is the inner one.
    lines = code_lines(trace)
    line = lines.of[np.maximum(call, operator)]
    return Origin(np.where(line != MISSING, line, lines.of[owners.forward]), lines.texts)
