"""The steps of a training in the history of a device: from annotations, else from the pattern of its allocations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.grouping import Groups, group
from tb_plugin.analyses.snapshot.held import Held, devices_of, levels_of
from tb_plugin.analyses.snapshot.marks import marks_of
from tb_plugin.snapshot.table import Action, Snapshot
from tb_plugin.trace.memo import remembered
from tb_plugin.trace.schema import MISSING

Int64 = npt.NDArray[np.int64]

FEWEST_STEPS = 4
"""Fewer repetitions are no pattern: a first step differs from the others, and three intervals are left."""
REGULAR = 0.1
"""Standard deviation of the allocations between those of one stack, over their mean: below, the stack allocates once a
step. One that allocates in a loop inside of steps has short and long intervals; one at random has about 1."""
ALIKE = 0.75
"""So many of the allocations of two steps that follow each other have the same stack, or there are no steps."""

ANNOTATED = "annotations"
PATTERN = "pattern of allocations"


@dataclass(frozen=True, eq=False)
class Steps:
    """n steps between n + 1 moments: step i is made of the events after ``moments[i]`` up to ``moments[i + 1]``."""

    moments: Int64
    """Numbers of events, ascending; -1 is before the first one. Empty: nothing tells of steps."""
    labels: tuple[str, ...]
    source: str

    def __len__(self) -> int:
        return max(len(self.moments) - 1, 0)

    def of(self, event: Int64) -> Int64:
        """Returns the step of each event: -1 before the first one, the number of steps after the last one."""
        return np.searchsorted(self.moments, event, side="left") - 1


NO_STEPS = Steps(np.empty(0, np.int64), (), "")


def steps_of(held: Held) -> Steps:
    """Returns the steps of a device, none where neither annotations nor a pattern tell of any."""
    return _steps(held.snapshot, held.place) if held.count else NO_STEPS


@remembered
def _steps(snapshot: Snapshot, place: int) -> Steps:
    held = devices_of(snapshot)[place]
    return _annotated(held) or _repeated(held) or NO_STEPS


def _annotated(held: Held) -> Steps | None:
    """Steps from the begin of one annotation to that of the next; the last one to its own end, where it has one."""
    marks = marks_of(held)
    if not len(marks.label):
        return None
    # What happens at the begin of a step belongs to it.
    moments = (marks.first - 1).tolist()
    if marks.is_ended[-1]:
        moments.append(int(marks.end[-1]) - 1)
    # Steps before the history, and steps in which nothing happened, are none of it.
    kept = [i for i in range(len(moments) - 1) if moments[i + 1] > moments[i]]
    if held.snapshot.device_ids[held.place] in held.snapshot.overflowed:
        kept = [i for i in kept if moments[i] >= 0]
    if len(kept) < 2:
        return None
    found = np.array([*(moments[i] for i in kept), moments[kept[-1] + 1]], np.int64)
    return Steps(found, tuple(marks.label[i] for i in kept), ANNOTATED)


def _repeated(held: Held) -> Steps | None:
    """Steps between the allocations of a stack that allocates once a step, else of a stack and size that do."""
    events = np.flatnonzero(held.action == Action.ALLOC)
    if len(events) < FEWEST_STEPS:
        return None
    stack = held.snapshot.events.stack[held.events][events].astype(np.int64)
    size = held.snapshot.events.size[held.events][events]
    with_size = group(stack, size)
    if stack.max() == MISSING:
        return _between(held, events, with_size)
    return _between(held, events, group(stack)) or _between(held, events, with_size)


def _between(held: Held, events: Int64, groups: Groups) -> Steps | None:
    """Steps between the allocations of a group; of several that at which least is allocated.

    Which groups these are: those with regular intervals that have the number of allocations that most of them have.
    """
    count = groups.count()
    order = np.argsort(groups.of, kind="stable")
    of, between = groups.of[order], np.diff(order, prepend=0)
    # The first interval is longer where the first step makes what all others use.
    inner = np.flatnonzero(of[2:] == of[:-2]) + 2
    number = np.maximum(count - 2, 1)
    mean = np.bincount(of[inner], between[inner], len(count)) / number
    spread = np.bincount(of[inner], (between[inner] - mean[of[inner]]) ** 2, len(count)) / number
    # They have to fill at least half of the history, and a step has more than one allocation.
    regular = (count > FEWEST_STEPS) & (np.sqrt(spread) <= REGULAR * mean) & (mean >= 2)
    regular &= mean * count >= len(events) / 2
    if not regular.any():
        return None
    often = np.bincount(count[regular])
    chosen = np.flatnonzero(regular & (count == often.argmax()))
    allocated = levels_of(held).allocated[events].astype(np.float64)  # before each allocation
    least = chosen[np.argmin((np.bincount(groups.of, allocated, len(count)) / count)[chosen])]
    moments = events[groups.of == least] - 1
    steps = Steps(moments, tuple(map(str, range(len(moments) - 1))), PATTERN)
    return steps if _alike(steps.of(events), groups.of, len(steps)) else None


def _alike(step: Int64, stack: Int64, count: int) -> bool:
    """Whether most allocations of two steps that follow each other have the same stack."""
    inside = (step >= 0) & (step < count)
    pairs = group(step[inside], stack[inside])
    first_step, first_stack = step[inside][pairs.first], stack[inside][pairs.first]
    number = pairs.count()
    order = np.lexsort((first_step, first_stack))
    where, what, many = first_step[order], first_stack[order], number[order]
    follows = (what[1:] == what[:-1]) & (where[1:] == where[:-1] + 1)
    shared = np.minimum(many[1:], many[:-1])[follows].sum()
    of_step = np.bincount(step[inside], minlength=count)
    return bool(shared >= ALIKE * np.maximum(of_step[1:], of_step[:-1]).sum())
