"""Profiler steps of a snapshot, from ``ProfilerStep#N`` annotations."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, devices_of
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.model.trace.steps.windows import STEP_NAME

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


class HistorySteps(msgspec.Struct, frozen=True, eq=False):
    """Steps sorted by time. A step contains the events with ``begin_ns <= time < end_ns``."""

    label: tuple[str, ...]
    begin_ns: Int64
    end_ns: Int64
    first: Int64
    """First event of each step."""
    end: Int64
    """For each step, the number of the event that follows its last event."""
    is_ended: Bool
    """Whether the end of the step is recorded.

    If not, the step lasts until the next step starts or until the last event.
    """

    def at(self, event: int) -> str | None:
        """Returns the label of the step that contains an event, None if no step contains it."""
        found = np.flatnonzero((self.first <= event) & (event < self.end))
        return self.label[found[-1]] if len(found) else None


def marks_of(device: DeviceLevels) -> HistorySteps:
    """Returns the steps that are annotated on the device.

    If none are annotated on it, returns the steps annotated on any device. Returns no steps if the events have no
    times.
    """
    return _marks(device.snapshot, device.place)


@cached_by_argument
def _marks(snapshot: Snapshot, place: int) -> HistorySteps:
    none = np.empty(0, np.int64)
    devices = devices_of(snapshot)
    notes = snapshot.annotations
    if not snapshot.has_times or not devices or not len(notes.name):
        return HistorySteps((), none, none, none, none, none > 0)
    device = devices[place]
    names = snapshot.strings.take(notes.name)
    named = snapshot.strings.where(lambda text: STEP_NAME.fullmatch(text) is not None)[notes.name]
    mine = named & (notes.device == snapshot.device_ids[place])
    rows = np.flatnonzero(mine if mine.any() else named)
    rows = rows[np.argsort(notes.time_ns[rows], kind="stable")]
    begins = rows[notes.is_start[rows] == 1]
    ends: dict[int, list[int]] = defaultdict(list)
    for row in rows[notes.is_start[rows] == 0].tolist():
        ends[int(notes.name[row])].append(int(notes.time_ns[row]))
    begin = notes.time_ns[begins]
    last = int(device.time_ns[-1]) + 1 if device.count else 0
    following = np.append(begin[1:], last)[: len(begin)]
    end, is_ended = np.maximum(following, begin), np.zeros(len(begin), np.bool_)
    for i, (name, time) in enumerate(zip(notes.name[begins].tolist(), begin.tolist(), strict=True)):
        found = bisect_left(ends[name], time)
        if found < len(ends[name]):
            end[i], is_ended[i] = ends[name][found], True
    label = tuple((text or "").partition("#")[2] for text in names.take(begins).to_pylist())
    first, behind = np.searchsorted(device.time_ns, begin), np.searchsorted(device.time_ns, end)
    return HistorySteps(label, begin, end, first, behind, is_ended)
