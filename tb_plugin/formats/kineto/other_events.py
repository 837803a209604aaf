"""Allocator events and forward-backward arrows of torch.profiler."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from tb_plugin.formats._chrome.columns import Column, int64s
from tb_plugin.formats._chrome.interning import Interner, as_text
from tb_plugin.formats.kineto.events import NO_ARGS, Event
from tb_plugin.lib.arrays import Int64
from tb_plugin.model.trace.table import Flows, MemoryEvents


class Memory:
    def __init__(self, interner: Interner) -> None:
        self.count = 0
        self._interner = interner
        self._columns = {
            **{name: Column(np.int64) for name in ("time_ns", "bytes", "address", "total_allocated", "total_reserved")},
            **{name: Column(np.int32) for name in ("device_type", "device_id", "pid", "tid")},
        }

    def add(self, events: Sequence[Event], time_ns: Int64) -> None:
        if not events:
            return
        args, columns, keys = [event.args or NO_ARGS for event in events], self._columns, self._interner.keys
        columns["time_ns"].add(time_ns)
        columns["bytes"].add(int64s([0 if a.memory_bytes is None else a.memory_bytes for a in args]))
        columns["address"].add(int64s([0 if a.address is None else a.address for a in args]))
        columns["total_allocated"].add(int64s([a.total_allocated for a in args]))
        columns["total_reserved"].add(int64s([a.total_reserved for a in args]))
        columns["device_type"].add(int64s([a.device_type for a in args]))
        columns["device_id"].add(int64s([a.device_id for a in args]))
        columns["pid"].add(keys.of([event.pid for event in events]))
        columns["tid"].add(keys.of([event.tid for event in events]))
        self.count += len(events)

    def take(self) -> MemoryEvents:
        columns = {name: column.take() for name, column in self._columns.items()}
        order = np.argsort(columns["time_ns"], kind="stable")
        return MemoryEvents(**{name: column[order] for name, column in columns.items()})


class Arrows:
    """Collects forward-backward arrows. In the file, the start or the end of an arrow may come first."""

    def __init__(self, interner: Interner) -> None:
        self._keys = interner.keys
        self._starts: dict[Any, list[tuple[int, int, int]]] = defaultdict(list)
        self._ends: dict[Any, list[tuple[int, int, int]]] = defaultdict(list)

    def add(self, events: Sequence[Event], time_ns: Int64) -> None:
        if not events:
            return
        keys = self._keys.of([key for event in events for key in (event.pid, event.tid)]).tolist()
        for event, time, pid, tid in zip(events, time_ns.tolist(), keys[::2], keys[1::2], strict=True):
            side = self._starts if event.ph == "s" else self._ends
            side[as_text(event.id)].append((time, pid, tid))

    def take(self) -> tuple[Flows, int]:
        """Returns matched arrows by id, then in file order, and the number of unmatched starts and ends."""
        pairs = [
            (start, end)
            for flow_id, starts in self._starts.items()
            for start, end in zip(starts, self._ends.get(flow_id, ()), strict=False)
        ]
        total = sum(map(len, self._starts.values())) + sum(map(len, self._ends.values()))
        starts = np.array([start for start, _ in pairs], np.int64).reshape(-1, 3)
        ends = np.array([end for _, end in pairs], np.int64).reshape(-1, 3)
        flows = Flows(
            start_time_ns=starts[:, 0].copy(),
            start_pid=starts[:, 1].astype(np.int32),
            start_tid=starts[:, 2].astype(np.int32),
            end_time_ns=ends[:, 0].copy(),
            end_pid=ends[:, 1].astype(np.int32),
            end_tid=ends[:, 2].astype(np.int32),
        )
        return flows, total - 2 * len(pairs)
