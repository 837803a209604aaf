"""Searchable list of a device's allocator events."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.base import (
    Frame,
    Params,
    Part,
    contains_text,
    int_param,
)
from tb_plugin.analysis.metrics import SHARED, define
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, levels_of_device, moment_of
from tb_plugin.analysis.snapshot.labels import address_texts, stack_words, stream_texts, texts_of
from tb_plugin.analysis.snapshot.metrics import HISTORY
from tb_plugin.analysis.snapshot.metrics import METRICS as OF_SNAPSHOTS
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.snapshot.table import Action, Snapshot
from tb_plugin.payloads import CoverageInfo, Figures, Payload
from tb_plugin.views.allocator_events import VIEW

# Events per answer.
PAGE = 300
OWN = define(
    HISTORY,
    "count",
    {
        "events_found": ("Matches", "Events that match the search."),
        "first_found": ("First listed", "Matches before the first listed match."),
        "near_found": ("Position", "Matches before the selected event."),
    },
)
METRICS = SHARED.adding(OWN)
_SHOWN = OF_SNAPSHOTS.adding(OWN)


class AllocatorEvents(DeclaredView, entry=VIEW):
    def part_key(self, params: Params) -> tuple[object, ...]:
        return (*(params.get(key) for key in ("device", "first", "near")), params.search)

    def part(self, snapshot: Snapshot, params: Params) -> Part:
        device = levels_of_device(snapshot, params)
        rows = _matching_events(snapshot, device.place, params.search) if params.search else None
        count = device.count if rows is None else len(rows)
        near, first = moment_of(device, params, "near"), int_param(params, "first")
        place = None if near is None else max(near, 0) if rows is None else int(np.searchsorted(rows, near))
        if first is None:
            first = 0 if place is None else place - PAGE // 2
        first = min(max(first, 0), max(count - 1, 0))
        last = min(first + PAGE, count)
        page_rows = np.arange(first, last) if rows is None else rows[first:last]
        payloads: dict[str, Payload] = {
            "found": Figures(
                "found",
                "Events",
                "",
                METRICS.figures({"events_found": count, "first_found": first, "near_found": place}),
            )
        }
        frames = {"events": _frame(device, page_rows)}
        coverage = CoverageInfo(complete=snapshot.report.complete)
        return Part(coverage, {}, frames, payloads, ("found", "events"), searched=True)


@cached_by_argument
def _matching_events(snapshot: Snapshot, place: int, search: str) -> Int64:
    """Returns the events whose action, frame or address matches. Raises BadRequest for an invalid regular expression."""
    events = snapshot.events
    rows = slice(int(snapshot.first[place]), int(snapshot.first[place + 1]))
    words = stack_words(snapshot)
    by_stack = np.append(contains_text(words.text.fill_null(""), search), False)  # stack -1 (none) reads the last entry
    by_action = contains_text(pa.array([action.name.lower() for action in Action]), search)
    found = by_stack[events.stack[rows]] | by_action[events.action[rows]]
    if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", search):
        found |= events.address[rows] == np.array(int(search, 16), np.uint64).astype(np.int64)
    return np.flatnonzero(found)


def _frame(device: DeviceLevels, rows: Int64) -> Frame:
    snapshot = device.snapshot
    events, words = snapshot.events, stack_words(snapshot)
    mine = rows + device.events.start
    action, stack = events.action[mine], events.stack[mine]
    names = pa.array([one.name.lower() for one in Action], pa.large_string())
    address = np.where(action == Action.OOM, -1, events.address[mine])
    table = pa.table(
        {
            "event_action": names.take(pa.array(action)),
            "event_number": pa.array(rows.astype(np.int64)),
            "event_ns": pa.array(events.time_ns[mine], mask=np.full(len(rows), not snapshot.has_times)),
            "event_bytes": pa.array(events.size[mine]),
            "address": address_texts(address),
            "stream_name": stream_texts(snapshot, events.stream[mine]),
            "allocation_line": texts_of(words.line, stack),
            "allocation_stack": texts_of(words.text, stack),
        }
    )
    columns = _SHOWN.columns(*table.column_names, hidden=("allocation_stack",))
    return Frame("events", "Events", columns, table, ("event_number",), "event_action")
