"""The timeline of an HTML report."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import replace

from tb_plugin.analysis.timeline.pyramid import Items, Level, Pyramid
from tb_plugin.analysis.timeline.tiles import category_of
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.lib.groupby import number_groups
from tb_plugin.payloads import ReportEvents, ReportTimeline, TimelineLevel
from tb_plugin.views.timeline.view import busy_of, head_of


def report_timeline(pyramid: Pyramid, start_ns: int, end_ns: int, max_items: int) -> ReportTimeline:
    """Returns the finest level that has at most ``max_items`` items in the window. If there is none, the window ends
    earlier.
    """
    head = head_of(pyramid)
    start_ns = min(max(start_ns, head.start_ns), head.end_ns)
    end_ns = max(start_ns + 1, min(end_ns, head.end_ns))
    lines = np.arange(len(pyramid.lane))
    while (level := _finest(pyramid, lines, start_ns, end_ns, max_items)) is None and end_ns > start_ns + 1:
        end_ns = start_ns + (end_ns - start_ns) // 2
    level = level or pyramid.levels[-1]
    line, items = pyramid.items(level, lines, start_ns, end_ns)
    line, items = line[:max_items], items.take(slice(max_items))
    used, counts = np.unique(line, return_counts=True)
    lanes, number = np.unique(pyramid.lane[used], return_inverse=True)
    tracks = []
    for i, lane in enumerate(lanes.tolist()):
        mine = used[number == i]
        events = int(items.count[np.isin(line, mine)].sum())
        tracks.append(replace(pyramid.lanes[lane], rows=int(pyramid.depth[mine].max()) + 1, events=events))
    return ReportTimeline(
        replace(
            head,
            start_ns=start_ns,
            end_ns=end_ns,
            tracks=tracks,
            groups=[0, len(tracks)],
            levels=[TimelineLevel(level.cell_ns, end_ns + 1)],
            busy=busy_of(pyramid.trace, start_ns, end_ns)[0],
        ),
        _columns(pyramid, items, number.tolist(), pyramid.depth[used].tolist(), counts.tolist()),
    )


def _finest(pyramid: Pyramid, lines: Int64, start_ns: int, end_ns: int, max_items: int) -> Level | None:
    for level in pyramid.levels:
        first, stop = pyramid.places(level, lines, start_ns, end_ns)
        if int((stop - first).sum()) <= max_items:
            return level
    return None


def _columns(pyramid: Pyramid, items: Items, lane: list[int], row: list[int], counts: list[int]) -> ReportEvents:
    trace, rows = pyramid.trace, items.longest
    start = pyramid.start_ns(items)
    dur = pyramid.end_ns(items) - start
    name, names = _texts(pyramid, trace.name[rows])
    module, modules = _texts(pyramid, pyramid.modules(rows))
    return ReportEvents(
        lane=lane,
        row=row,
        items=counts,
        start_delta_ns=np.diff(start, prepend=0).tolist(),
        dur_ns=dur.tolist(),
        idle_ns=_unless_all(0, dur - items.busy_ns),
        count=_unless_all(1, items.count),
        event=rows.tolist(),
        category=category_of(trace, rows).tolist(),
        matrix=_unless_all(0, trace.uses_matrix_unit[rows]),
        name=name,
        names=names,
        module=module if modules != [""] else [],
        modules=modules,
    )


def _unless_all(value: int, column: npt.NDArray[np.generic]) -> list[int]:
    return [] if (column == value).all() else column.tolist()


def _texts(pyramid: Pyramid, ids: Int32) -> tuple[list[int], list[str]]:
    number, _ = number_groups(ids)
    texts = pyramid.trace.strings.take(pa.array(ids).unique().to_numpy()).cast(pa.string()).fill_null("")
    return number.tolist(), texts.to_pylist()
