"""Assembly of the trace model from reader output."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tb_plugin.lib.arrays import Bool, Int16, Int32, Int64, UInt8
from tb_plugin.lib.groupby import group, places_of
from tb_plugin.model.trace import links, recorded_arrows, tree
from tb_plugin.model.trace.extra_columns import blocks_from, moved_columns
from tb_plugin.model.trace.hardware import DeviceInfo
from tb_plugin.model.trace.hook_ranges import with_hook_ranges
from tb_plugin.model.trace.lanes import lanes
from tb_plugin.model.trace.merged_processes import separate_processes
from tb_plugin.model.trace.order import kinds, sort, split_by_plausibility
from tb_plugin.model.trace.overflow import clip_overflows, report_with_overflow
from tb_plugin.model.trace.quarantine import counters_of, memory_of, set_aside, totals_of, without_impossible_numbers
from tb_plugin.model.trace.rows import Nests, Rows
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, ON_DEVICE, OP_TREE, EventKind, MatrixUse, of_kind
from tb_plugin.model.trace.step_sources import steps_in
from tb_plugin.model.trace.table import (
    AsyncRows,
    CollectiveArgs,
    DeviceArgs,
    OperatorArgs,
    PythonArgs,
    RawTrace,
    TraceTable,
    Track,
    Window,
)
from tb_plugin.model.trace.window import coverage, rows_inside, without_outside

_WIDE = re.compile(r"\b(?:float|float32|double|float64)\b", re.IGNORECASE)
# Input types that need a matrix unit. Multiplications of wider types may run without one.
_NARROW = re.compile(r"half|float16|float8|u?int8|char", re.IGNORECASE)
Section = TypeVar("Section", OperatorArgs, PythonArgs, DeviceArgs, CollectiveArgs, AsyncRows)


def assemble(raw: RawTrace) -> TraceTable:
    """Returns the trace model. Times become relative to the first plausible event."""
    merged = separate_processes(with_hook_ranges(raw))
    raw = merged.raw
    kept, aside = split_by_plausibility(raw)
    kept, outside = rows_inside(raw, kept)
    order = kept[sort(raw, kept)]
    origin = _origin(raw, order)
    tracks, track = _tracks(raw, order, merged.process)
    devices, device = _devices(raw)
    start = raw.start_ns[order] - origin
    recorded = Rows(
        start=start,
        end=start + raw.dur_ns[order],
        kind=kinds(raw)[order],
        track=track,
        name=raw.name[order],
        correlation=raw.correlation[order],
        external_id=raw.external_id[order],
        process=None if merged.process is None else merged.process[order],
    )
    rows, cut = clip_overflows(recorded)
    position = places_of(order, len(raw.start_ns))
    operators = _moved(raw.operators, position)
    python = _moved(raw.python, position)

    nests = Nests(rows)
    drawn = _drawn(rows, nests, _moved(raw.asynchronous, position))
    parent, self_ns, overlaps = _op_tree(rows, nests, raw.window)
    operator = _operators(rows, nests)
    launch, operator, disagreements = _device_links(rows, operator, raw.is_external_id_sure)
    python_parent = _python(rows, nests)
    collective = _collective(raw.is_collective[order], rows, operator, launch)
    counters, untimely = counters_of(raw.counters, origin)
    memory, stated_memory, early, unsized, untotalled = memory_of(raw.memory, raw.reported_memory, origin)
    totals, strange = totals_of(raw.totals, origin)
    components, odd = totals_of(raw.components, origin)
    report = set_aside(raw.report, "impossible_time", len(aside) + untimely + early, strange + odd)
    report = set_aside(report, "impossible_size", unsized, untotalled)
    report = report_with_overflow(without_outside(report, outside), cut)
    arrows, unbound = recorded_arrows.bound(raw.arrows, raw.strings, rows, tracks, origin, position)
    report = report if raw.window is not None else recorded_arrows.report_with_arrows(report, unbound)
    return TraceTable(
        start_ns=rows.start,
        dur_ns=rows.end - rows.start,
        name=rows.name,
        category=raw.category[order],
        kind=rows.kind,
        track=track,
        device=device[order],
        correlation=rows.correlation,
        external_id=rows.external_id,
        is_collective=collective,
        uses_matrix_unit=_matrix_use(raw, raw.uses_matrix_unit[order], operators, operator),
        matrix_eligible=raw.matrix_eligible[order],
        parent=parent,
        operator=operator,
        launch=launch,
        python_parent=python_parent,
        forward=_forward(raw, rows, operators, tracks, origin),
        self_ns=self_ns,
        overlaps=overlaps | drawn.overlaps,
        depth=drawn.depth,
        strings=raw.strings,
        tracks=tracks,
        devices=devices,
        operators=operators,
        python=python,
        device_args=without_impossible_numbers(_moved(raw.device_args, position)),
        collectives=_moved(raw.collectives, position),
        clipped=cut,
        calls=raw.calls,
        classes=raw.classes,
        memory=memory,
        reported_memory=stated_memory,
        counters=counters,
        counter_series=raw.counter_series,
        arrows=arrows,
        steps=steps_in(raw, rows, _requester(raw, launch, operator), origin),
        metadata=raw.metadata,
        report=report,
        coverage=coverage(int(rows.end.max(initial=0)), report, raw.window),
        origin_ns=origin,
        base_time_ns=raw.base_time_ns,
        external_disagreements=disagreements,
        recorder=raw.recorder,
        others=moved_columns(raw.others, position),
        reported_tables=raw.reported_tables,
        blocks=blocks_from(raw.blocks, origin),
        totals=totals,
        components=components,
    )


def _origin(raw: RawTrace, order: Int64) -> int:
    if raw.window is not None:
        return raw.window.origin_ns
    times = [int(raw.start_ns[order[0]])] if len(order) else []
    stated = () if raw.reported_steps is None else (raw.reported_steps.start_ns,)
    blocks = raw.blocks.start_ns[raw.blocks.start_ns != MISSING]
    for others in (
        raw.memory.time_ns,
        raw.counters.time_ns,
        blocks,
        raw.totals.time_ns,
        *stated,
        raw.components.time_ns,
    ):
        if not times and len(others):
            times = [int(others.min())]
    return times[0] if times else 0


def _tracks(raw: RawTrace, order: Int64, process: Int32 | None) -> tuple[tuple[Track, ...], Int32]:
    is_async = np.zeros(len(raw.start_ns), np.bool_)
    is_async[raw.asynchronous.row] = True
    sort = np.where(is_async[order], 1, 2 * of_kind(raw.kind[order], *ON_DEVICE))
    width = len(raw.strings) + 1
    key = (sort * width + raw.pid[order].astype(np.int64) + 1) * width + raw.tid[order] + 1
    groups = group(key)
    track, first = groups.of, groups.first
    by_time = np.lexsort((first, sort[first]))
    number = np.empty(len(by_time), np.int32)
    number[by_time] = np.arange(len(by_time), dtype=np.int32)
    tracks = []
    for position in order[first[by_time]]:
        pid, tid = raw.strings[int(raw.pid[position])], raw.strings[int(raw.tid[position])]
        tracks.append(
            Track(
                pid=pid,
                tid=tid,
                process=raw.process_names.get(pid, ""),
                thread="" if is_async[position] else raw.thread_names.get((pid, tid), ""),
                is_device=bool(raw.kind[position] in ON_DEVICE),
                is_async=bool(is_async[position]),
                process_order=raw.process_order.get(pid, 0),
                thread_order=0 if is_async[position] else raw.thread_order.get((pid, tid), 0),
                part=MISSING if process is None else int(process[position]),
            )
        )
    return tuple(tracks), number[track]


def _devices(raw: RawTrace) -> tuple[tuple[DeviceInfo, ...], Int16]:

    def number(position: int) -> tuple[bool, int, str]:
        text = raw.devices[position].id
        return (not text.isdecimal(), int(text) if text.isdecimal() else 0, text)

    by_number = sorted(range(len(raw.devices)), key=number)
    place = np.full(len(raw.devices) + 1, MISSING, np.int16)  # the last entry is for index -1
    place[by_number] = np.arange(len(raw.devices), dtype=np.int16)
    return tuple(raw.devices[i] for i in by_number), place[raw.device]


def _moved(section: Section, position: Int32) -> Section:
    row = position[section.row]
    kept = np.flatnonzero(row != MISSING)
    # A section contains each row at most once, so writing each to its position sorts them.
    place = np.full(len(position), MISSING, np.int32)
    place[row[kept]] = kept
    order = place[place != MISSING]
    columns = {f: getattr(section, f)[order] for f in section.__struct_fields__ if f != "row"}
    return replace(section, row=row[order], **columns)


def _op_tree(rows: Rows, nests: Nests, window: Window | None) -> tuple[Int32, Int64, Bool]:
    """Returns parents and self times. The self time of a row that leaves the window counts only the time inside."""
    parent = np.full(len(rows.start), MISSING, np.int32)
    self_ns = rows.end - rows.start
    overlaps = np.zeros(len(rows.start), np.bool_)
    members, among, crossing = nests.parents(*OP_TREE)
    parent[members] = _globally(among, members)
    start, end = rows.start[members], rows.end[members]
    if window is not None:
        start, end = (np.clip(times, window.begin_ns, window.end_ns) for times in (start, end))
    self_ns[members] = tree.self_time(start, end, among, crossing)
    overlaps[members] = crossing
    return parent, self_ns, overlaps


def _globally(local: Int32, members: Int64) -> Int32:
    if not len(members):
        return local
    return np.where(local == MISSING, MISSING, members[local]).astype(np.int32)


def _operators(rows: Rows, nests: Nests) -> Int32:
    operator = np.full(len(rows.start), MISSING, np.int32)
    members, among, _ = nests.parents(EventKind.OPERATOR)
    operator[members] = _globally(among, members)
    others = rows.of(EventKind.RUNTIME, EventKind.MODULE, EventKind.ANNOTATION, EventKind.INSTANT)
    operator[others] = _innermost(rows, members, among, rows.track[others], rows.start[others])
    return operator


def _innermost(rows: Rows, members: Int64, parent: Int32, at_track: Int32, at: Int64) -> Int32:
    found = tree.innermost_at(rows.track[members], rows.start[members], rows.end[members], parent, at_track, at)
    return _globally(found, members)


def _device_links(rows: Rows, operator: Int32, is_external_id_sure: bool) -> tuple[Int32, Int32, int]:
    launch = np.full(len(rows.start), MISSING, np.int32)
    work = rows.of(*DEVICE_WORK)
    calls = rows.of(EventKind.RUNTIME)
    launch[work] = links.first_in_process(rows.correlation[calls], calls, rows.correlation[work], rows.process, work)
    launched = work[launch[work] != MISSING]
    operator = operator.copy()
    operator[launched] = operator[launch[launched]]
    named = rows.of(EventKind.OPERATOR)
    by_id = links.first_in_process(rows.external_id[named], named, rows.external_id[work], rows.process, work)
    alone = (operator[work] if is_external_id_sure else launch[work]) == MISSING
    operator[work[alone]] = by_id[alone]
    both = ~alone & (by_id != MISSING) & (operator[work] != MISSING)
    return launch, operator, int((by_id[both] != operator[work[both]]).sum())


def _python(rows: Rows, nests: Nests) -> Int32:
    python_parent = np.full(len(rows.start), MISSING, np.int32)
    members, among, _ = nests.parents(EventKind.PYTHON, EventKind.MODULE)
    python_parent[members] = _globally(among, members)
    operators = rows.of(EventKind.OPERATOR, EventKind.RUNTIME, EventKind.INSTANT)
    python_parent[operators] = _innermost(rows, members, among, rows.track[operators], rows.start[operators])
    return python_parent


def _collective(known: Bool, rows: Rows, operator: Int32, launch: Int32) -> Bool:
    """Returns a mask of communication. Without a recorded launch, a kernel's external id may name an annotation."""
    collective = known.copy()
    kernels = rows.of(EventKind.KERNEL)
    by_operator = kernels[operator[kernels] != MISSING]
    collective[by_operator] |= known[operator[by_operator]]
    alone = kernels[launch[kernels] == MISSING]
    named = rows.of(EventKind.ANNOTATION)
    by_id = links.first_in_process(rows.external_id[named], named, rows.external_id[alone], rows.process, alone)
    hit = by_id != MISSING
    collective[alone[hit]] |= known[by_id[hit]]
    return collective


def _matrix_use(raw: RawTrace, use: UInt8, operators: OperatorArgs, operator: Int32) -> UInt8:
    rows = np.flatnonzero(use == MatrixUse.BY_TYPE)
    if not len(rows):
        return use
    types = np.full(len(use) + 1, MISSING, np.int32)
    types[operators.row] = operators.types
    single = raw.strings.where(lambda text: _WIDE.search(text) is not None and _NARROW.search(text) is None)
    use[rows] = np.where(single[types[operator[rows]]], MatrixUse.UNKNOWN, MatrixUse.YES)
    return use


def _forward(raw: RawTrace, rows: Rows, operators: OperatorArgs, tracks: tuple[Track, ...], origin: int) -> Int32:
    forward = np.full(len(rows.start), MISSING, np.int32)
    is_operator = rows.kind[operators.row] == EventKind.OPERATOR
    autograd = links.Autograd(
        operators.row[is_operator].astype(np.int64),
        operators.sequence[is_operator],
        operators.forward_thread[is_operator],
    )
    backward_row, forward_row = links.forward_by_sequence(autograd, rows.track)
    forward[backward_row] = forward_row
    flows = raw.flows
    if len(flows.start_time_ns):

        def ends(pid: Int32, tid: Int32, time: Int64) -> Int32:
            track = recorded_arrows.tracks_at(raw.strings, tracks, pid, tid, on_device=False)
            return links.rows_starting_at(rows.track, rows.start, rows.of(EventKind.OPERATOR), track, time - origin)

        source = ends(flows.start_pid, flows.start_tid, flows.start_time_ns)
        target = ends(flows.end_pid, flows.end_tid, flows.end_time_ns)
        hit = (source != MISSING) & (target != MISSING) & (source != target)
        forward[target[hit]] = source[hit]
    return forward


class _Drawn(msgspec.Struct, frozen=True, eq=False):
    depth: npt.NDArray[np.int16]
    overlaps: Bool


def _drawn(rows: Rows, nests: Nests, asynchronous: AsyncRows) -> _Drawn:
    """Stacks rows by groups of kinds. Device rows never count as overlapping: kernels of a stream may overlap by design."""
    depth = np.zeros(len(rows.start), np.int16)
    overlaps = np.zeros(len(rows.start), np.bool_)
    groups = (
        (EventKind.ANNOTATION, EventKind.OPERATOR, EventKind.RUNTIME, EventKind.INSTANT),
        (EventKind.PYTHON, EventKind.MODULE),
        DEVICE_WORK,
        (EventKind.DEVICE_ANNOTATION,),
        (EventKind.SYNC,),
        (EventKind.OVERHEAD, EventKind.UNKNOWN, EventKind.WINDOW),
    )
    for i, chosen in enumerate(groups):
        members, nesting = nests.of(*chosen)
        depth[members] = nesting.depth
        if i < 2:
            overlaps[members] = nesting.overlaps
    free = asynchronous.row
    lane = lanes(rows.track[free], asynchronous.operation, rows.start[free], rows.end[free])
    depth[free] = np.minimum(lane, np.iinfo(np.int16).max)
    overlaps[free] = False
    return _Drawn(depth, overlaps)


def _requester(raw: RawTrace, launch: Int32, operator: Int32) -> Int32:
    return np.where(operator != MISSING, operator, launch).astype(np.int32) if raw.is_external_id_sure else launch
