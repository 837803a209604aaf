"""Passes over ``trace_view.json``, and the memory estimate of a read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from tb_plugin.errors import WindowUnsupported
from tb_plugin.formats._chrome.columns import Column, int64s
from tb_plugin.formats._chrome.generic.events import Event, decode
from tb_plugin.formats._chrome.generic.rows import Collected, EventPass
from tb_plugin.formats._chrome.interning import as_text
from tb_plugin.formats._chrome.memory_estimate import PACKED, peak_memory_bytes
from tb_plugin.formats._chrome.other_events import Names
from tb_plugin.formats._chrome.parse import single_pass
from tb_plugin.formats._chrome.survey import LinkedWork, Surveying
from tb_plugin.formats._chrome.window_cut import Cut
from tb_plugin.formats.ascend import filenames as files
from tb_plugin.formats.ascend.arguments import kind_of_task
from tb_plugin.formats.ascend.filenames import by_kind, kind_of
from tb_plugin.formats.ascend.lanes import Lane, Lanes
from tb_plugin.formats.ascend.open_files import ProfileSource
from tb_plugin.formats.ascend.timeline import CONNECTION, IN_PAIRS
from tb_plugin.formats.base import FileSize, Progress, ReadOptions, Source
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.model.trace.links import rows_starting_at
from tb_plugin.model.trace.order import FAR
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.model.trace.steps.annotations import with_own
from tb_plugin.model.trace.table import Window
from tb_plugin.model.trace.window import Survey
from tb_plugin.profilers import TORCH_NPU

DATABASES = frozenset({"db", files.ANALYSED})
DOCUMENTS = (files.COMMUNICATION, files.MATRIX)
MOST_DOCUMENT_BYTES = 64 * 1024 * 1024  # limit on the text of a document, about 55,000 calls
PER_DOCUMENT_BYTE = 7.0
# peak memory per byte of a database (4.7 to 6.0 were measured: 2,000,000 and 500,000 rows, no stacks)
PER_DATABASE_BYTE = 6.0
PER_TABLE_BYTE = 4.0  # peak memory per byte of a table (3.7 were measured: kernels and blocks of 200 MB each)
_PARTIAL_TABLES = frozenset({files.KERNELS, files.BLOCKS, files.MEMORY})  # tables of which only a window is read
_TASK = "Task Type"
_COLUMNS = ("correlation", "start", "end", "thread", "kind")


def events_pass(window: Window | None) -> EventPass:
    """Returns the receiver of the events in a window, or of all events."""
    return EventPass(lambda log: Collected(log, IN_PAIRS, None if window is None else cut_of(window)))


class AscendSurvey(Surveying):
    """Survey of one trace view while it is read. Rows wait in a buffer until the names of all threads are known."""

    has_arrows = True

    def _restart_at(self, text_bytes: int) -> None:
        super()._restart_at(text_bytes)
        self._names = Names()
        self._waiting = {name: Column(np.int64) for name in _COLUMNS}
        self._threads: dict[tuple[str, str], int] = {}
        self._kinds: dict[str, int] = {}
        self._begun: dict[Any, int] = {}
        self._requests = {name: Column(np.int64) for name in ("time", "thread", "at")}

    def add_names(self, events: Sequence[Event]) -> None:
        for event in [event for event in events if event.ph == "M"]:
            args = event.args or {}
            self._names.add(event, args.get("name"), args.get("labels"), args.get("sort_index"))

    def add_rows(self, rows: Sequence[Event], start: Int64, dur: Int64) -> None:
        # Host events have a category; CANN calls and device events have none.
        bare = np.array([event.cat is None for event in rows], np.bool_)
        right = (dur >= 0) & (dur <= FAR) & (np.abs(start) < FAR) & ~(bare & (start == 0) & (dur == 0))
        end = start + np.where(right, dur, 0)
        self.bounds.add(start[right], end[right])
        at = np.flatnonzero(bare & right)
        some = [rows[i] for i in at.tolist()]
        threads, kinds = self._threads, self._kinds
        columns = {
            "correlation": int64s([_connection(event) for event in some]),
            "start": start[at],
            "end": end[at],
            "thread": int64s([threads.setdefault((as_text(e.pid), as_text(e.tid)), len(threads)) for e in some]),
            "kind": int64s([self._kind(kinds, event) for event in some]),
        }
        for name, column in columns.items():
            self._waiting[name].add(column)
        self.work.add_steps(rows, start, dur, right & ~bare)

    def add_arrows(self, ends: Sequence[Event], start: Int64) -> None:
        """Adds arrows from operators to device work. In the file, each arrow starts before it ends."""
        found = []
        for event, time in zip(ends, start.tolist(), strict=True):
            if event.name not in IN_PAIRS:
                continue
            key = as_text(event.id)
            if event.ph == "s":
                self._begun[key] = time
            elif (begin := self._begun.pop(key, None)) is not None:
                thread = (as_text(event.pid), as_text(event.tid))
                found.append((begin, self._threads.setdefault(thread, len(self._threads)), time))
        for column, values in zip(self._requests.values(), np.array(found, np.int64).reshape(-1, 3).T, strict=True):
            column.add(values)

    def linked(self) -> LinkedWork:
        waiting = {name: column.take() for name, column in self._waiting.items()}
        lanes = Lanes((), self._names.processes(), self._names.threads())
        lane = np.array([lanes.what(*thread)[0] for thread in self._threads] or [Lane.OTHER], np.uint8)[
            waiting["thread"]
        ]
        correlation, start, end = (waiting[name] for name in ("correlation", "start", "end"))
        launches = np.flatnonzero((lane == Lane.CANN) & (correlation != MISSING))
        kind = np.where(lane == Lane.GROUP, EventKind.KERNEL, waiting["kind"]).astype(np.uint8)
        on_device = (lane == Lane.STREAM) | (lane == Lane.GROUP)
        work = np.flatnonzero(on_device & of_kind(kind, *DEVICE_WORK))
        self.work.add_launches(correlation[launches], start[launches], end[launches])
        thread, requests = (
            waiting["thread"].astype(np.int32),
            {name: column.take() for name, column in self._requests.items()},
        )
        work = work[np.argsort(start[work], kind="stable")]
        ends = rows_starting_at(thread, start, work, requests["thread"].astype(np.int32), requests["at"])
        time = np.full(len(start), MISSING, np.int64)
        time[ends[ends != MISSING]] = requests["time"][ends != MISSING]
        self.work.add_work(correlation[work], start[work], end[work], thread[work], time[work])
        return self.work

    @staticmethod
    def _kind(kinds: dict[str, int], event: Event) -> int:
        task = (event.args or {}).get(_TASK)
        if not isinstance(task, str):
            return int(EventKind.KERNEL)
        if task not in kinds:
            kinds[task] = int(kind_of_task(task))
        return kinds[task]


def _connection(event: Event) -> int:
    """Returns the number that a launch shares with its device work; -1 = none."""
    stated = (event.args or {}).get(CONNECTION)
    if isinstance(stated, str) and stated.isdecimal() and len(stated) < 19:
        stated = int(stated)
    return stated if type(stated) is int and 0 < stated < 2**63 else MISSING


def survey(source: Source, options: ReadOptions, progress: Progress) -> Survey:
    """Returns time bounds, steps and device work of the trace view. Raises WindowUnsupported if there is no trace view."""
    source = ProfileSource(source)
    names = by_kind(source.names())
    view = names.get(files.TRACE)
    if view is None:
        raise WindowUnsupported(
            "a profile without a trace view cannot be opened as a time window.", next(iter(source.names()), "")
        )
    surveying = AscendSurvey(with_own(TORCH_NPU.steps, options.own_steps))
    with single_pass(ProfileSource(source, view), options, surveying, decode, progress) as (_, stream):
        found = surveying.finish()
    # Assumes that table rows are distributed over time like the events.
    sizes = {name: _size(source, name) for kind, name in names.items() if kind in _PARTIAL_TABLES}
    share = 1 + estimated_peak_bytes(sizes) / max(1, estimated_peak_bytes({view: FileSize(stream.text_bytes)}))
    return replace(found, cell_bytes=tuple(round(size * share) for size in found.cell_bytes))


def _size(source: Source, name: str) -> FileSize:
    return FileSize(source.size(name), is_packed=name.endswith(files.PACKED))


def cut_of(window: Window) -> Cut:
    """Returns a Cut for the events of a window. Launches and device work have a connection number."""

    def near(events: Sequence[Event]) -> tuple[Bool, Bool]:
        linked = np.array([_connection(event) != MISSING for event in events], np.bool_)
        return linked, linked

    return Cut(window, near, arrow_lag_ns=window.lag_ns)


def estimated_peak_bytes(sizes: Mapping[str, FileSize]) -> int:
    """Returns the estimated peak memory of a read, in bytes."""
    kinds = {name: kind_of(name) for name in sizes}
    is_drawn = files.TRACE in kinds.values()
    read = {name: size for name, size in sizes.items() if not (is_drawn and kinds[name] == files.OPERATORS)}
    stored = sum(size.stored_bytes for name, size in read.items() if kinds[name] in DATABASES)
    tables = sum(size.text_bytes(PACKED) for name, size in read.items() if kinds[name] in files.TABLES)
    documents = sum(
        min(size.text_bytes(PACKED), MOST_DOCUMENT_BYTES) for name, size in read.items() if kinds[name] in DOCUMENTS
    )
    others = {name: size for name, size in read.items() if kinds[name] not in DATABASES | files.TABLES}
    more = PER_TABLE_BYTE * tables + PER_DATABASE_BYTE * stored + PER_DOCUMENT_BYTE * documents
    return peak_memory_bytes(others) + int(more)
