"""Operators that were open when a block of a snapshot was allocated."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from tb_plugin.analysis.base import Frame, Params, Part, int_param
from tb_plugin.analysis.filters import EVENT
from tb_plugin.analysis.memory.metrics import METRICS
from tb_plugin.analysis.memory.origins import ORIGINS, origins_at
from tb_plugin.analysis.memory.owners import owners_at, tracks_of
from tb_plugin.analysis.memory.tables import module_names
from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.thread_and_stream_names import track_names
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.errors import BadRequest
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.lib.groupby import distinct_values
from tb_plugin.model.trace.schema import MISSING, NO_OPERATOR, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import climb_to_open
from tb_plugin.payloads import Column, Figures
from tb_plugin.views.allocated_in import VIEW

# Allocator times are whole microseconds.
MOMENT_NS = 1_000
# Tolerances of the match, smallest first: two recorders convert the clock differently. Allocators reuse addresses
# within microseconds, so the smallest tolerance with a match decides.
TOLERANCES_NS = (0, 10_000, 100_000)
BY_ADDRESS, BY_TIME = "address and time", "time"


class AllocatedIn(DeclaredView, entry=VIEW):
    def part_key(self, params: Params) -> tuple[object, ...]:
        return (params.steps, *(params.get(key) for key in ("at_ns", "address", "bytes")))

    def part(self, trace: TraceTable, params: Params) -> Part:
        coverage = select_rows(trace, params.steps).coverage
        at, address, size = int_param(params, "at_ns"), _address(params), int_param(params, "bytes")
        matched_by: str | None = None
        distance_ns: int | None = None
        frame = _frame(trace, np.empty(0, np.int32), np.empty(0, np.int64))
        if at is not None and at + MOMENT_NS >= 0 and at <= trace.coverage.end_ns:
            found = _by_address(trace, at, address, max(size or 0, 1))
            if len(found):
                matched_by, distance_ns = BY_ADDRESS, int(_distance_ns(trace.memory.time_ns[found], at).min())
                frame = _frame(trace, tracks_of(trace)[found], trace.memory.time_ns[found])
            else:
                matched_by, frame = BY_TIME, _by_time(trace, at)
        figures = [METRICS.figure("matched_by", matched_by), METRICS.figure("clock_apart_ns", distance_ns)]
        matching = Figures("matching", "Match", "", figures)
        return Part(coverage, {}, {frame.name: frame}, {"matching": matching}, ("matching", frame.name))


def _address(params: Params) -> int | None:
    """Returns the address in decimal or hexadecimal text (``0x7f20``). Raises BadRequest for other text."""
    text = params.get("address")
    if not text:
        return None
    if not re.fullmatch(r"0x[0-9a-fA-F]{1,15}|[0-9]{1,18}", text):
        raise BadRequest("The parameter address is not an address.", "address", f"Got {text[:40]!r}.")
    return int(text, 0) if text.startswith("0x") else int(text)


def _by_address(trace: TraceTable, at: int, address: int | None, size: int) -> Int64:
    """Returns the allocation events of at least ``size`` bytes that may have allocated the block at this address."""
    memory = trace.memory
    if not address:
        return np.empty(0, np.int64)
    first, last = np.searchsorted(memory.time_ns, (at - TOLERANCES_NS[-1], at + MOMENT_NS + TOLERANCES_NS[-1]))
    near = np.arange(first, last)
    near = near[(memory.address[near] == address) & (memory.bytes[near] >= size)]
    distance_ns = _distance_ns(memory.time_ns[near], at)
    return next((found for reach in TOLERANCES_NS if len(found := near[distance_ns <= reach])), near[:0])


def _distance_ns(time: Int64, at: int) -> Int64:
    return np.maximum(np.maximum(at - time, time - (at + MOMENT_NS - 1)), 0)


def _by_time(trace: TraceTable, at: int) -> Frame:
    """Returns, for each thread, the innermost operator that was open during the whole microsecond after ``at``."""
    track = distinct_values(trace.track[trace.kind == EventKind.OPERATOR]).astype(np.int32)
    return _frame(trace, track, np.full(len(track), at), MOMENT_NS)


def _frame(trace: TraceTable, track: Int32, time: Int64, length_ns: int = 0) -> Frame:
    owners = owners_at(trace, track, time)
    if length_ns:
        ends = trace.ends(owners.operators)
        owners = replace(owners, operator=climb_to_open(owners.operator, ends, owners.parent, time + length_ns - 1))
    event = np.append(owners.operators, MISSING)[owners.operator]
    first = np.sort(np.unique(np.stack((track.astype(np.int64), event)), axis=1, return_index=True)[1])
    first = first[event[first] != MISSING] if length_ns else first
    origins = origins_at(trace, owners, track, time)
    known, row = event[first] != MISSING, np.maximum(event[first], 0)
    threads = [*(name.label for name in track_names(trace)), None]
    table = pa.table(
        {
            "name": pc.fill_null(
                trace.strings.take(owners.names(trace, first)), pa.scalar(NO_OPERATOR, pa.large_string())
            ),
            "outermost_operator": trace.strings.take(owners.outermost(trace, first)),
            "module": module_names(trace, owners.modules(trace, first)),
            "allocation_frame": origins.frame.take(first),
            "allocation_phase": origins.phase.take(first),
            "allocation_step": origins.step.take(first),
            "thread": pa.array([threads[place] for place in track[first].tolist()], pa.string()),
            "start_ns": pa.array(trace.start_ns[row] if len(row) else row, mask=~known),
            "dur_ns": pa.array(trace.dur_ns[row] if len(row) else row, mask=~known),
            "event": pa.array(event[first], mask=~known),
        }
    )
    keys = ("name", "outermost_operator", "module", *ORIGINS, "thread", "start_ns", "dur_ns")
    columns = [*METRICS.columns(*keys), Column(EVENT, hidden=True)]
    return Frame(
        "allocating_operators", "Operators running at the allocation", columns, table, ("thread", "event"), "name"
    )
