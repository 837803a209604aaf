"""Training steps in a device's event history, from annotations."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, devices_of
from tb_plugin.analysis.snapshot.history_steps import marks_of
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.snapshot.table import Snapshot

Int64 = npt.NDArray[np.int64]

ANNOTATED = "annotations"


class Steps(msgspec.Struct, frozen=True, eq=False):
    """Consecutive steps. Step i contains the events after ``moments[i]``, up to and including ``moments[i + 1]``."""

    moments: Int64
    """Event numbers in ascending order; -1 = before the first event. Empty if there are no steps."""
    labels: tuple[str, ...]
    source: str

    def __len__(self) -> int:
        return max(len(self.moments) - 1, 0)

    def of(self, event: Int64) -> Int64:
        """Returns the step of each event. -1 for events before the first step; the number of steps for events after
        the last step.
        """
        return np.searchsorted(self.moments, event, side="left") - 1


NO_STEPS = Steps(np.empty(0, np.int64), (), "")


def steps_of(device: DeviceLevels) -> Steps:
    """Returns the annotated steps of a device. Steps are never inferred from repeated work."""
    return _steps(device.snapshot, device.place) if device.count else NO_STEPS


@cached_by_argument
def _steps(snapshot: Snapshot, place: int) -> Steps:
    device = devices_of(snapshot)[place]
    return _annotated(device) or NO_STEPS


def _annotated(device: DeviceLevels) -> Steps | None:
    """Returns steps, each of which lasts from the start of one annotation to the start of the next.

    The last step lasts until the end of its annotation. If that end is not recorded, the last step is omitted.
    """
    marks = marks_of(device)
    if not len(marks.label):
        return None
    # Events at the start of a step belong to it.
    moments = (marks.first - 1).tolist()
    if marks.is_ended[-1]:
        moments.append(int(marks.end[-1]) - 1)
    # Steps before the history and steps without events are skipped.
    kept = [i for i in range(len(moments) - 1) if moments[i + 1] > moments[i]]
    if device.snapshot.device_ids[device.place] in device.snapshot.overflowed:
        kept = [i for i in kept if moments[i] >= 0]
    if len(kept) < 2:
        return None
    found = np.array([*(moments[i] for i in kept), moments[kept[-1] + 1]], np.int64)
    return Steps(found, tuple(marks.label[i] for i in kept), ANNOTATED)
