"""Metric definitions: title, unit and meaning.

Metrics that several views use are defined in this module. Each other metric is defined in the package of its view.
docs/reference/metrics.md contains all metrics. A test rejects keys that have two meanings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast, get_args

from tb_plugin.payloads import Column, Figure, Metric, Scalar, Unit

CHOSEN = "selected steps, else the full trace"
FULL_TRACE = "the full trace"
CHOSEN_WINDOW = "selected window or steps, else the full trace"
STEPS = "all recorded steps, first start to last end"
# Text of STEPS if none are recorded.
NO_STEPS = "the full trace, which has no steps"
# Text of STEPS if some are selected.
CHOSEN_STEPS = "selected steps"
STEP = "one step"
SUM = "sum over the "
"""Start of the window of a sum. The page divides sums over the selected steps by the number of steps."""
PER_STEP = "{per_step}"
"""Placeholder in sentences. The page replaces it with " per step" if it divides sums, else with nothing."""
Definition = tuple[str, str] | tuple[str, str, str]

P50 = "Median {}."
P95 = "95th percentile of {}."
P99 = "99th percentile of {}."
"""Definition of a 99th percentile. Percentiles use linear interpolation."""
LINE = "Python line with the most {} time."


def define(window: str, unit: Unit, definitions: Mapping[str, Definition]) -> Mapping[str, Metric]:
    """Returns metrics that all have this window and this unit.

    ``definitions`` maps each key to (title, definition), or to (title, definition, SUM) for sums over the window.
    """
    return {key: Metric(key, text[0], unit, text[1], "".join(text[2:]) + window) for key, text in definitions.items()}


class Metrics(Mapping[str, Metric]):
    """Metrics by key. Raises ValueError if two groups define the same key."""

    def __init__(self, *groups: Mapping[str, Metric]) -> None:
        self._by_key: dict[str, Metric] = {}
        for each in groups:
            group = each._by_key if isinstance(each, Metrics) else each
            twice = self._by_key.keys() & group.keys()
            if twice:
                raise ValueError(f"Two definitions of one metric: {', '.join(sorted(twice))}.")
            self._by_key |= group

    def __getitem__(self, key: str) -> Metric:
        return self._by_key[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)

    def adding(self, *groups: Mapping[str, Metric]) -> Metrics:
        """Returns a mapping of these metrics and the metrics in ``groups``. Raises ValueError if a key is defined twice."""
        return Metrics(self, *groups)

    def defining(self, texts: Mapping[tuple[str, Unit], Mapping[str, Definition]]) -> Metrics:
        """Returns a mapping of these metrics and others: (title, definition) by key, by (window, unit).

        Raises ValueError if a key is defined twice.
        """
        return self.adding(*(define(window, unit, each) for (window, unit), each in texts.items()))

    def in_steps(self, **texts: Mapping[str, Definition]) -> Metrics:
        """Returns a mapping of these metrics and others over all recorded steps: (title, definition) by key, by unit.

        Raises ValueError for an unknown unit, or if a key is defined twice.
        """
        if unknown := texts.keys() - set(get_args(Unit)):
            raise ValueError(f"Unknown units: {', '.join(sorted(unknown))}.")
        return self.adding(*(define(STEPS, cast(Unit, unit), each) for unit, each in texts.items()))

    def metric(self, key: str, title: str = "", window: str = "") -> Metric:
        """Returns the metric with this key. ``title`` and ``window`` replace those of the metric."""
        found = self[key]
        if window and found.window.startswith(SUM) and window in (CHOSEN, CHOSEN_STEPS):
            window = SUM + window
        return Metric(key, title or found.title, found.unit, found.definition, window or found.window)

    def columns(
        self,
        *keys: str,
        hidden: tuple[str, ...] = (),
        share: tuple[str, ...] = (),
        titles: Mapping[str, str] | None = None,
    ) -> list[Column]:
        """Returns the table columns with these keys, in this order. ``titles`` replace those of the metrics."""
        renamed = titles or {}
        return [
            Column(self.metric(key, renamed.get(key, "")), hidden=key in hidden, share=key in share) for key in keys
        ]

    def figure(self, key: str, value: Scalar, title: str = "", note: str = "", window: str = "") -> Figure:
        """Returns a value of this metric for a finding. ``title`` and ``window`` replace those of the metric."""
        return Figure(self.metric(key, title, window), value, note)

    def measured(self, **values: Scalar) -> list[Figure]:
        """Returns the values of these metrics by key."""
        return self.figures(values)

    def figures(self, values: Mapping[str, Scalar], window: str = "") -> list[Figure]:
        """Returns the values of these metrics. If ``window`` is given, it replaces the window of each metric."""
        return [self.figure(key, value, window=window) for key, value in values.items()]


SHARED = Metrics(
    define(
        "",
        "code",
        {
            "name": ("Name", "Recorded name."),
            "readable": ("Readable name", "Demangled name."),
            "operator": ("Operator", "Innermost operator around the launch."),
            "input_shape": ("Input shapes", "Dimensions of the operator's inputs (record_shapes=True)."),
            "grid": ("Grid", "Thread blocks in x, y and z."),
            "block": ("Block", "Threads per block in x, y and z."),
            "call_stack": ("Call stack", "Frames of the call, innermost first."),
            "backward_operator": ("Backward operator", "Name of the autograd function."),
            "forward_operator": ("Forward operator", "Forward operator that created the autograd node."),
            "forward_line": ("Line", "Python line of the forward operator."),
            "module": ("Module", "nn.Module and its recorded instance number."),
            "category": ("Category", "Recorded category."),
            "collective": ("Collective", "Communication operation, with the same name for all libraries."),
            "dtype": ("Type", "Element type of the buffers."),
            "group": ("Group", "Process group name."),
            "group_ranks": ("Ranks", "Recorded ranks of the process group."),
        },
    ),
    define("", "bool", {"framework": ("Framework", "Code from the standard library or an installed package.")}),
    define(
        "",
        "text",
        {
            "package": ("Package", "Package of the frame, from its path."),
            "step": ("Step", "Recorded step number."),
            "stream": ("Stream", "Device stream or queue."),
            "thread": ("Thread", "Host thread."),
            "thread_key": ("Thread id", "Recorded process and thread id; #2 and #3 mark reused ids."),
            "device": ("Device", "Recorded device id."),
            "kind": ("Kind", "Event kind, the same for all vendors."),
            "worker": ("Worker", "Process or rank of the run, named after its file."),
            "class": ("Class", "Kernel class, derived from the kernel's name or operators."),
            "cause": ("Cause", "Idle cause with the most time."),
            "cause_key": ("Cause key", "Short name of the idle cause, used in keys."),
            "class_title": ("Class name", "Name of the kernel class on the page."),
            "class_by": ("Class by", "Source of the kernel class: rule, communication or operator."),
            "device_name": ("Name", "Device name reported by the driver."),
            "capability": ("Compute capability", "Version of the device's instruction set."),
            "group_description": ("Description", "Process group description."),
            "backend": ("Backend", "Communication library of the process group."),
            "node_kind": ("Kind", "Phase, module, operator, annotation, Python or runtime call, or device work."),
        },
    ),
    define(
        CHOSEN,
        "count",
        {
            "workers": ("Workers", "Number of workers."),
            "calls": ("Calls", "Calls, including nested calls of the same name.", SUM),
            "outer_calls": ("Calls", "Top-level calls.", SUM),
            "operators": ("Operators", "Operators called directly by the module."),
            "registers": ("Registers", "Registers per thread."),
            "events": ("Events", "Number of events."),
            "group_size": ("Group size", "Ranks in the process group."),
            "source_rank": ("From rank", "Sending rank of a point-to-point call."),
            "destination_rank": ("To rank", "Receiving rank of a point-to-point call."),
            "sequence": ("Sequence", "Recorded sequence number of the collective in its group."),
            "world_size": ("World size", "Recorded number of ranks in the job."),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "range_own_ns": ("Self", "Time in ranges with this name, excluding nested ranges.", SUM),
            "range_total_ns": ("Total", "Time in ranges with this name; nested ranges count once.", SUM),
            "host_self_ns": ("Host self", "Host time minus nested operators, modules and runtime calls.", SUM),
            "host_total_ns": (
                "Host total",
                "Host time including nested calls and overlapped device work, without double counting.",
                SUM,
            ),
            "device_self_ns": (
                "Device self",
                "Time of directly launched kernels, copies and memsets, summed over streams.",
                SUM,
            ),
            "device_total_ns": ("Device total", "Device time including nested calls, without double counting.", SUM),
            "total_ns": ("Total", "Sum of durations over all streams.", SUM),
            "mean_ns": ("Mean", "Total divided by calls."),
            "min_ns": ("Min", "Shortest duration."),
            "max_ns": ("Max", "Longest duration."),
            "p50_ns": ("P50", P50.format("duration")),
            "p99_ns": ("P99", P99.format("duration")),
            "backward_device_total_ns": (
                "Backward device",
                "Backward device time of the module and its children.",
                SUM,
            ),
            "start_ns": ("Start", "Time since the first event."),
            "dur_ns": ("Duration", "Event end minus event start."),
            "recorded_dur_ns": ("Recorded duration", "Implausible duration in the file, before correction."),
            "host_ns": ("Host", "Host time including nested calls, summed over threads.", SUM),
            "device_ns": ("Device", "Device time of launched work, including nested calls.", SUM),
        },
    ),
    define(
        CHOSEN,
        "ratio",
        {
            "occupancy": ("Est. occupancy", "Occupancy estimated by the profiler."),
            "total_share": ("Share", "Total divided by its sum over rows."),
            "device_self_share": ("Device self share", "Device self divided by its sum over rows."),
            "device_total_share": ("Device share", "Device time divided by its sum over rows."),
            "host_self_share": ("Host self share", "Host self divided by its sum over rows."),
            "host_total_share": ("Host share", "Host time divided by its sum over rows."),
        },
    ),
    define(CHOSEN, "number", {"blocks_per_sm": ("Blocks per SM", "Thread blocks per streaming multiprocessor.")}),
    define(
        CHOSEN,
        "bool",
        {"matrix_eligible": ("Matrix unit eligible", "The operator's name shows that it can use matrix units.")},
    ),
    define(
        CHOSEN,
        "bytes",
        {
            "shared_memory": ("Shared memory", "Static plus dynamic shared memory per block."),
            "bytes": ("Bytes", "Bytes copied or set.", SUM),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "compute_alone_ns": ("Compute only", "Compute time not overlapped by communication."),
            "overlap_ns": ("Overlap", "Time when compute and communication overlap."),
        },
    ),
    define(STEP, "ns", {"step_total_ns": ("Step", "Time from the step's host start to the end of its device work.")}),
    define(
        FULL_TRACE,
        "ns",
        {
            "compute_ns": ("Compute", "Time with at least one non-communication kernel running."),
            "exposed_communication_ns": ("Exposed communication", "Communication time not overlapped by compute."),
            "idle_ns": ("Idle", "Time with no kernels, copies, memsets or unrecorded work running."),
            "unrecorded_ns": ("Unrecorded work", "Time when the device runs only unrecorded work."),
        },
    ),
    define(
        STEPS,
        "ratio",
        {
            "communication_exposed": ("Exposed communication", "Exposed communication divided by step time."),
            "utilization": (
                "GPU busy",
                "Time with a running kernel divided by the span of the steps, excluding unrecorded work.",
            ),
            "sm_efficiency": (
                "Est. SM efficiency",
                "Blocks per SM of running kernels, capped at 1, averaged over time.",
            ),
        },
    ),
    define("", "bytes", {"memory_bytes": ("Memory", "Device memory.")}),
    define(FULL_TRACE, "count", {"affected": ("Affected", "Events that the notice describes.")}),
    define(
        CHOSEN_WINDOW,
        "count",
        {
            "malloc_calls": ("Driver allocations", "Driver calls that allocate or map device memory during steps."),
            "free_calls": ("Driver releases", "Driver calls that release device memory during steps."),
            "setup_calls": ("Driver set-up", "Driver memory calls over 500 ms, or over 1 ms and 20 times the median."),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "bytes",
        {
            "allocated_bytes": ("Allocated", "The allocator's recorded Total Allocated."),
            "reserved_bytes": ("Reserved", "The allocator's recorded Total Reserved."),
            "change_bytes": ("Change", "Allocated minus released bytes since the first event."),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "ns",
        {
            "malloc_ns": ("Allocation time", "Host time of driver allocations during steps."),
            "free_ns": ("Release time", "Host time of driver releases during steps."),
            "setup_ns": ("Set-up time", "Host time of driver set-up calls."),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "ratio",
        {
            "driver_memory_ratio": (
                "Driver share",
                "Driver allocation and release time, excluding set-up, divided by step time.",
            )
        },
    ),
    define("", "count", {"lane": ("Lane", "Lane position on the timeline.")}),
)
