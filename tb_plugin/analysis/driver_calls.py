"""Driver calls that allocate or release device memory."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.blocking_calls import waits_for_device
from tb_plugin.analysis.launches.unrecorded_work import device_occupied
from tb_plugin.analysis.metrics import SHARED
from tb_plugin.analysis.phrases import references_of
from tb_plugin.analysis.range_patterns import name_matches
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import distinct_values
from tb_plugin.lib.intervals import EMPTY, Ranges, covered_before, join, measure, measure_within, union
from tb_plugin.model.trace.recorder import Recorder
from tb_plugin.model.trace.schema import MISSING, CallRole, EventKind
from tb_plugin.model.trace.table import Steps, TraceTable
from tb_plugin.model.trace.tree import nest
from tb_plugin.payloads import Link, Notice

OFTEN = 0.05
# Multiple of the median. Longer calls also initialize the driver.
MAX_MEDIANS = 20
# Calls up to this length never count as initialization.
MAX_USUAL_NS = 1_000_000
# Longer calls always count as initialization: no memory call takes that long.
MIN_SETUP_NS = 500_000_000

# Servers record their own functions as runtime calls too (MTIA: predictor_executor::run).
_VENDOR_CALL = r"^(?:cu(?:da|dnn|blas)?|hip|hsa_?|ze|zes|ur|pi|sycl|aclr?t?|AscendCL@acl\w*?|mu(?:sa)?|cnrt|mtia)[A-Z_]"


class DriverCalls(msgspec.Struct, frozen=True):
    """Numbers and host times of top-level driver calls in the steps. ``steps_ns`` is the total duration of the steps."""

    malloc_calls: int
    malloc_ns: int
    free_calls: int
    free_ns: int
    setup_calls: int
    """Number of calls that took unusually long because they initialized the driver."""
    setup_ns: int
    steps_ns: int
    recorded: bool
    """Whether the trace contains steps. If it contains no steps, the entire recording counts as one step."""
    expandable: bool
    """Whether any call maps or unmaps memory of an expandable segment."""

    @property
    def usual_calls(self) -> int:
        """Returns the number of calls that do not initialize the driver."""
        return self.malloc_calls + self.free_calls - self.setup_calls

    @property
    def usual_ns(self) -> int:
        """Returns the time of the calls that do not initialize the driver."""
        return self.malloc_ns + self.free_ns - self.setup_ns


def step_time(steps: Steps) -> Ranges:
    """Returns the time ranges of these steps on the host. If no steps are recorded, returns the entire recording."""
    return union(steps.host_start_ns, steps.host_end_ns) if steps.recorded else union(steps.start_ns, steps.end_ns)


def driver_calls(trace: TraceTable, steps: Ranges) -> DriverCalls:
    """Returns the numbers and times of the driver calls that start in these time ranges."""
    rows = _outermost(trace, steps)
    gets = trace.calls_that(CallRole.ALLOCATE, CallRole.MAP)
    got, freed = rows[gets[rows]], rows[~gets[rows]]
    spent = [int(trace.dur_ns[some].sum()) for some in (got, freed)]
    setup = set_up(trace, rows)
    expandable = bool(trace.calls_that(CallRole.MAP, CallRole.UNMAP)[rows].any())
    return DriverCalls(
        malloc_calls=len(got),
        malloc_ns=spent[0],
        free_calls=len(freed),
        free_ns=spent[1],
        setup_calls=int(setup.sum()),
        setup_ns=int(trace.dur_ns[rows][setup].sum()),
        steps_ns=measure(steps),
        recorded=trace.steps.recorded,
        expandable=expandable,
    )


def usual_calls(trace: TraceTable, steps: Ranges) -> Int64:
    """Returns the rows of driver calls in these time ranges that do not initialize the driver."""
    rows = _outermost(trace, steps)
    return rows[~set_up(trace, rows)]


def _outermost(trace: TraceTable, steps: Ranges) -> Int64:
    roles = (CallRole.ALLOCATE, CallRole.MAP, CallRole.FREE, CallRole.UNMAP)
    rows = np.flatnonzero(trace.calls_that(*roles))
    # A runtime call and the driver call inside it count once.
    rows = rows[nest(trace.track[rows], trace.start_ns[rows], trace.ends(rows)).parent == MISSING]
    start = trace.start_ns[rows]
    inside: Int64 = rows[covered_before(steps, start + 1) > covered_before(steps, start)]
    return inside


def set_up(trace: TraceTable, rows: Int64) -> Bool:
    """Returns whether each call initializes the driver: it is unusually long and the devices are mostly idle."""
    far = sets_up(trace.dur_ns[rows])
    some = rows[far]
    worked = measure_within(join(EMPTY, *device_occupied(trace).values()), trace.start_ns[some], trace.ends(some))
    far[far] = 2 * worked < trace.dur_ns[some]
    return far


def sets_up(dur_ns: Int64) -> Bool:
    """Returns whether each call is longer than ``MAX_MEDIANS`` medians and ``MAX_USUAL_NS``, or ``MIN_SETUP_NS``."""
    if not len(dur_ns):
        return np.zeros(0, np.bool_)
    median = int(np.sort(dur_ns)[(len(dur_ns) - 1) // 2])
    return (dur_ns > max(MAX_MEDIANS * median, MAX_USUAL_NS)) | (dur_ns > MIN_SETUP_NS)


def creates_context(trace: TraceTable) -> Int64:
    """Returns the rows of calls that create a context or load code. These calls are identified by their duration
    instead of their name.

    Such a call is either a call of a vendor's driver or runtime that neither waits nor launches, or the first launch
    of a kernel in a process. Copies and graph launches are excluded, because their duration depends on their size.
    """
    calls = (trace.kind == EventKind.RUNTIME) & name_matches(trace, _VENDOR_CALL)
    launching = np.zeros(len(trace) + 1, np.bool_)  # the last entry is for work without a launch
    launching[trace.launch] = True
    other = calls & ~launching[:-1] & ~waits_for_device(trace) & ~trace.calls_that(*CallRole)
    others = np.flatnonzero(other)
    return np.concatenate((others[set_up(trace, others)], _loading_launches(trace)))


def _loading_launches(trace: TraceTable) -> Int64:
    """Returns launches far longer than most that are the first launch of their kernel in their process."""
    kernels = np.flatnonzero((trace.kind == EventKind.KERNEL) & (trace.launch != MISSING))
    launches = distinct_values(trace.launch[kernels].astype(np.int64))
    launches = launches[~trace.calls_that(CallRole.GRAPH)[launches]]
    far = launches[set_up(trace, launches)]
    if not len(far):
        return far
    kernels = kernels[np.isin(trace.name[kernels], trace.name[kernels[np.isin(trace.launch[kernels], far)]])]
    process = np.unique([track.pid for track in trace.tracks], return_inverse=True)[1][
        trace.track[trace.launch[kernels]]
    ]
    order = np.lexsort((trace.launch[kernels], trace.name[kernels], process))  # rows are in order of time
    kernels, process = kernels[order], process[order]
    first = np.append(True, (np.diff(trace.name[kernels]) != 0) | (np.diff(process) != 0))
    return np.intersect1d(far, trace.launch[kernels[first]]).astype(np.int64)


def driver_notice(calls: DriverCalls, recorder: Recorder, evidence: Link) -> Notice | None:
    """Returns the finding on driver calls, None if there are none except initialization."""
    if not calls.usual_calls:
        return None
    share = calls.usual_ns / calls.steps_ns if calls.steps_ns else 0.0
    where, of = ("Inside steps", "of the steps") if calls.recorded else ("While recording", "of the recording")
    cases = [
        "driver_memory_calls",
        *([] if calls.expandable else ["driver_memory_calls.segments"]),
        *([] if calls.recorded else ["driver_memory_calls.no_steps"]),
    ]
    keys = ["malloc_calls", "malloc_ns", "free_calls", "free_ns"]
    text = (
        f"{where}, the allocator calls the driver: allocations {{malloc_calls}} ({{malloc_ns}}), releases "
        "{free_calls} ({free_ns})"
    )
    if calls.setup_calls:
        keys += ["setup_calls", "setup_ns"]
        text += "; {setup_calls} of these calls took {setup_ns} to initialize the driver once"
        text += f". The other calls take {{driver_memory_ratio}} {of}."
    else:
        text += f", in total {{driver_memory_ratio}} {of}."
    return Notice(
        rule="driver_memory_calls",
        severity="medium" if share > OFTEN else "low",
        text=text,
        todo=" ".join(filter(None, map(recorder.todo, cases))),
        figures=[
            *(SHARED.figure(key, getattr(calls, key)) for key in keys),
            SHARED.figure("driver_memory_ratio", share),
        ],
        measure="driver_memory_ratio",
        threshold=OFTEN,
        evidence=evidence,
        references=references_of(recorder, "driver_memory_calls"),
    )
