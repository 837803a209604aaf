"""Profiler steps of a snapshot's history: what its annotations tell of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.snapshot.held import Held
from tb_plugin.snapshot.table import Snapshot
from tb_plugin.trace.memo import remembered

Int64 = npt.NDArray[np.int64]

PREFIX = "ProfilerStep#"


@dataclass(frozen=True, eq=False)
class HistorySteps:
    """Steps in order of time, and the events of a device in each: those with ``begin_ns <= time < end_ns``."""

    label: tuple[str, ...]
    begin_ns: Int64
    end_ns: Int64
    first: Int64
    """The first event from its begin on."""
    end: Int64
    """The event behind the last one."""

    def at(self, event: int) -> str | None:
        """Returns the step of an event, None outside of all."""
        found = np.flatnonzero((self.first <= event) & (event < self.end))
        return self.label[found[-1]] if len(found) else None


def marks_of(held: Held) -> HistorySteps:
    """Returns the steps, none where events have no times. One without an end lasts until the next one, or the last event."""
    if not held.snapshot.has_times:
        none = np.empty(0, np.int64)
        return HistorySteps((), none, none, none, none)
    labels, begin, end = _times(held.snapshot)
    last = int(held.time_ns[-1]) + 1 if held.count else 0
    following = np.append(begin[1:], last)[: len(begin)]
    end = np.where(end < begin, np.maximum(following, begin), end)
    first, behind = np.searchsorted(held.time_ns, begin), np.searchsorted(held.time_ns, end)
    return HistorySteps(labels, begin, end, first, behind)


@remembered
def _times(snapshot: Snapshot) -> tuple[tuple[str, ...], Int64, Int64]:
    """Label, begin and end of each step; the end before the begin where none is recorded."""
    notes = snapshot.annotations
    ids, place = np.unique(notes.name, return_inverse=True)
    names = [str(name or "") for name in snapshot.strings.take(ids).to_pylist()]
    starts = notes.is_start == 1
    begin, end = np.full(len(ids), np.iinfo(np.int64).max), np.full(len(ids), np.iinfo(np.int64).min)
    np.minimum.at(begin, place[starts], notes.time_ns[starts])
    np.maximum.at(end, place[~starts], notes.time_ns[~starts])
    known = [i for i, name in enumerate(names) if name.startswith(PREFIX) and begin[i] < np.iinfo(np.int64).max]
    order = sorted(known, key=lambda i: int(begin[i]))
    return tuple(names[i].removeprefix(PREFIX) for i in order), begin[order], end[order]
