"""Training steps in a device's event history, from ``ProfilerStep#N`` annotations."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict

import msgspec
import numpy as np

from tb_plugin.analysis.memory.growth import Growth, Rise, growth_of
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, devices_of
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.model.trace.steps.windows import STEP_NAME
from tb_plugin.payloads import Figure


class Steps(msgspec.Struct, frozen=True, eq=False):
    """Consecutive steps. Step i contains the events after ``moments[i]``, up to and including ``moments[i + 1]``."""

    moments: Int64
    """Event numbers in ascending order; -1 = before the first event. Empty if there are no steps."""
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)


def steps_of(device: DeviceLevels) -> Steps:
    """Returns the annotated steps of a device. Steps are never inferred from repeated work."""
    return _steps(device.snapshot, device.place) if device.count else Steps(np.empty(0, np.int64), ())


@cached_by_argument
def _steps(snapshot: Snapshot, place: int) -> Steps:
    """Returns steps from the start of one annotation to the next. The last step needs a recorded end."""
    marks = marks_of(devices_of(snapshot)[place])
    # Events at the start of a step belong to it.
    moments = (marks.first - 1).tolist()
    if len(moments) and marks.is_ended[-1]:
        moments.append(int(marks.end[-1]) - 1)
    # Steps before the history and steps without events are skipped.
    kept = [i for i in range(len(moments) - 1) if moments[i + 1] > moments[i]]
    if snapshot.device_ids[place] in snapshot.overflowed:
        kept = [i for i in kept if moments[i] >= 0]
    if len(kept) < 2:
        return Steps(np.empty(0, np.int64), ())
    found = np.array([*(moments[i] for i in kept), moments[kept[-1] + 1]], np.int64)
    return Steps(found, tuple(marks.label[i] for i in kept))


def growth_of_device(device: DeviceLevels) -> Growth:
    return _growth(device.snapshot, device.place) if device.count else growth_of(device.table, np.empty(0, np.int64))


@cached_by_argument
def _growth(snapshot: Snapshot, place: int) -> Growth:
    device = devices_of(snapshot)[place]
    return growth_of(device.table, steps_of(device).moments)


def rise_figures(rise: Rise) -> list[Figure]:
    values = {
        "peak_growth_bytes": (rise.last_bytes - rise.first_bytes) / rise.steps,
        "first_peak_bytes": rise.first_bytes,
        "last_peak_bytes": rise.last_bytes,
        "peak_steps": rise.steps,
        "rising_ratio": rise.rising,
    }
    return METRICS.figures(values)


class HistorySteps(msgspec.Struct, frozen=True, eq=False):
    """Steps sorted by time. A step contains the events with ``begin_ns <= time < end_ns``."""

    label: tuple[str, ...]
    begin_ns: Int64
    end_ns: Int64
    first: Int64
    end: Int64
    """For each step, the number of the event that follows its last event."""
    is_ended: Bool
    """Whether the end of the step is recorded. If not, the step lasts until the next step or the last event."""

    def at(self, event: int) -> str | None:
        found = np.flatnonzero((self.first <= event) & (event < self.end))
        return self.label[found[-1]] if len(found) else None


def marks_of(device: DeviceLevels) -> HistorySteps:
    """Returns the steps annotated on the device, else on any device. Returns no steps if the events have no times."""
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
