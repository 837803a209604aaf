"""Definitions of numbers: title, unit, meaning. A view's own stand beside it, those of several views here.

docs/metrics.md explains each; tests compare the two, and refuse a key that means two things anywhere in the product.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tb_plugin.payloads import Column, Figure, Metric, Scalar, Unit

CHOSEN = "the chosen steps, else the whole trace"
WHOLE = "the whole trace"
CHOSEN_WINDOW = "the chosen window or steps, else the whole trace"
STEPS = "all recorded steps, from the first one's start to the last one's end"
NO_STEPS = "the whole trace, which has no steps"
"""What STEPS comes to where none are recorded."""
CHOSEN_STEPS = "the chosen steps"
"""What STEPS comes to where some are chosen."""
STEP = "one step"


def define(window: str, unit: Unit, definitions: Mapping[str, tuple[str, str]]) -> Mapping[str, Metric]:
    """Returns metrics of one window and one unit, from (title, definition) by key."""
    return {key: Metric(key, title, unit, text, window) for key, (title, text) in definitions.items()}


class Metrics(Mapping[str, Metric]):
    """Metrics by key: what a view may show. Raises ValueError where two groups define one key."""

    def __init__(self, *groups: Mapping[str, Metric]) -> None:
        self._by_key: dict[str, Metric] = {}
        for group in groups:
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
        """Returns these metrics and more. Raises ValueError for a key that is there already."""
        return Metrics(self, *groups)

    def metric(self, key: str, title: str = "", window: str = "") -> Metric:
        """Returns the metric of a key, with another title or window where the place needs one."""
        found = self[key]
        return Metric(key, title or found.title, found.unit, found.definition, window or found.window)

    def columns(
        self,
        *keys: str,
        hidden: tuple[str, ...] = (),
        share: tuple[str, ...] = (),
        titles: Mapping[str, str] | None = None,
    ) -> list[Column]:
        """Returns columns of a table, in order; ``titles`` replaces titles by key."""
        renamed = titles or {}
        return [
            Column(self.metric(key, renamed.get(key, "")), hidden=key in hidden, share=key in share) for key in keys
        ]

    def figure(self, key: str, value: Scalar, title: str = "", note: str = "", window: str = "") -> Figure:
        """Returns a figure of a metric, with another title or window where the place needs one."""
        return Figure(self.metric(key, title, window), value, note)


SHARED = Metrics(
    define(
        "",
        "code",
        {
            "name": ("Name", "Name as recorded in the trace."),
            "readable": ("Readable name", "The name as it stood in the source, where a compiler has mangled it."),
            "operator": ("Operator", "Innermost operator open on the launching thread when the launch began."),
            "input_shape": ("Input shapes", "Dimensions of the operator's input tensors (record_shapes=True)."),
            "grid": ("Grid", "Thread blocks of the launch: x, y, z."),
            "block": ("Block", "Threads of a block: x, y, z."),
            "call_stack": (
                "Call stack",
                "Frames that called the operator, innermost first: as recorded, else the Python calls around it.",
            ),
            "backward_operator": (
                "Backward operator",
                "What the autograd engine runs for one node of its graph, by the function's name.",
            ),
            "forward_operator": (
                "Forward operator",
                "Operator of the forward pass that made the node; of AccumulateGrad that behind the gradient that it adds.",
            ),
            "forward_line": ("Line", "Line of Python that called the forward operator."),
            "module": ("Module", "nn.Module, with the number that the profiler gave to the instance."),
            "category": ("Category", "Category as recorded in the trace."),
            "collective": (
                "Collective",
                "Communication operation, in one spelling for all libraries; the name of its kernel where that serves "
                "several operations and nothing tells which.",
            ),
            "dtype": ("Type", "Element type of the buffers."),
            "group": ("Group", "Name of the process group."),
            "group_ranks": ("Ranks", "Ranks of the process group, as recorded."),
        },
    ),
    define(
        "",
        "bool",
        {"framework": ("Framework", "Code of the standard library or of an installed package, not of the person.")},
    ),
    define(
        "",
        "text",
        {
            "package": ("Package", "Whose code the frame is, by the path in its name."),
            "step": ("Step", "Number of the profiler step, as recorded."),
            "stream": ("Stream", "Stream or queue of the device on which the event ran."),
            "thread": ("Thread", "Host thread."),
            "thread_key": (
                "Thread id",
                "Process id and thread id, as recorded; #2, #3, ... are further threads recorded under the same id.",
            ),
            "device": ("Device", "Device id as recorded in the trace."),
            "kind": ("Kind", "What the event is, whatever its vendor calls it."),
            "worker": ("Worker", "Process or rank of the run, as its file is named."),
            "class": ("Class", "What the kernel does, by its name or the operators around its launch."),
            "cause": ("Cause", "Why the device had nothing to do; of several causes the one with most time."),
            "cause_key": ("Cause, as in facts", "The word for the cause in names of facts."),
            "class_by": ("Class by", "What speaks for the class: a rule, communication, or the operator."),
            "device_name": ("Name", "Name of the device as its driver reports it."),
            "capability": (
                "Compute capability",
                "Version of the instruction set that the device supports.",
            ),
            "group_description": ("Description", "Description of the process group."),
            "backend": ("Backend", "Communication library of the process group."),
            "node_kind": (
                "Kind",
                "phase, module, operator, annotation, Python or runtime call, or what ran on the device.",
            ),
        },
    ),
    define(
        CHOSEN,
        "count",
        {
            "workers": ("Workers", "Workers whose profile is behind the numbers."),
            "calls": ("Calls", "How often it was called, nested calls of the same name included."),
            "outer_calls": ("Calls", "How often it was called with no operator around it."),
            "operators": ("Operators", "Operators that the module called directly."),
            "registers": ("Registers", "Registers per thread."),
            "events": ("Events", "Number of events."),
            "group_size": ("Group size", "Ranks in the process group."),
            "source_rank": ("From rank", "Rank that sends, of point-to-point calls."),
            "destination_rank": ("To rank", "Rank that receives, of point-to-point calls."),
            "sequence": ("Sequence", "Number of the collective in its process group, as recorded."),
            "world_size": ("World size", "Ranks of the job, as recorded."),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "range_own_ns": (
                "Own",
                "Time in ranges of the name and in none inside them: of the open ones that began last.",
            ),
            "range_total_ns": (
                "Total",
                "Durations of the ranges of the name; of one inside another of it the outer one's.",
            ),
            "host_self_ns": (
                "Host self",
                "Time on the host less the time of directly nested operators, modules and runtime calls. What it leaves out "
                "of runtime calls stands in the view of them.",
            ),
            "host_total_ns": (
                "Host total",
                "Time on the host from begin to end, with what is nested in it; of nested calls of the same name only the "
                "outermost counts. Totals overlap: only self times add up to the whole.",
            ),
            "device_self_ns": (
                "Device self",
                "Kernel, memcpy and memset time launched by it directly. Concurrent streams add up.",
            ),
            "device_total_ns": (
                "Device total",
                "Device self of it and of everything nested in it; of nested calls of the same name the outermost. Totals "
                "overlap: only self times add up to the whole.",
            ),
            "total_ns": ("Total", "Sum of the durations. Concurrent streams add up."),
            "mean_ns": ("Mean", "Total over calls."),
            "min_ns": ("Min", "Shortest call."),
            "max_ns": ("Max", "Longest call."),
            "p50_ns": ("p50", "Median duration (linear interpolation)."),
            "p99_ns": ("p99", "99th percentile of the durations (linear interpolation)."),
            "backward_device_total_ns": ("Backward device", "Backward self of it and of its children."),
            "start_ns": ("Start", "Time since the first event of the trace."),
            "dur_ns": ("Duration", "End less start."),
            "recorded_dur_ns": (
                "Recorded duration",
                "What the file says, where it cannot be right: longer than all of the trace, though its stream went on.",
            ),
            "host_ns": ("Host", "Time on the host of the place and of everything beneath it, over all threads."),
            "device_ns": ("Device", "Kernel, memcpy and memset time launched from the place and beneath it."),
        },
    ),
    define(
        CHOSEN,
        "ratio",
        {
            "occupancy": ("Est. occupancy", "Occupancy that the profiler estimated for the launch."),
            "total_share": ("Share", "Its part of the total of all rows."),
            "device_self_share": ("Device self share", "Its part of the device self time of all rows."),
            "device_total_share": ("Device share", "Its part of the device time of all rows; none is inside another."),
            "host_self_share": ("Host self share", "Its part of the host self time of all rows."),
            "host_total_share": (
                "Host share",
                "Its part of the host time of all rows; none is inside another.",
            ),
        },
    ),
    define(
        CHOSEN,
        "number",
        {
            "blocks_per_sm": ("Blocks per SM", "Blocks of the launch per streaming multiprocessor."),
        },
    ),
    define(
        CHOSEN,
        "bool",
        {
            "matrix_eligible": ("Matrix unit eligible", "The operator can use matrix units (by its name)."),
        },
    ),
    define(
        CHOSEN,
        "bytes",
        {
            "shared_memory": ("Shared memory", "Shared memory per block, static and dynamic."),
            "bytes": ("Bytes", "Bytes copied or set."),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "compute_alone_ns": ("Compute alone", "Compute runs and no communication."),
            "overlap_ns": ("Overlap", "Compute and communication run at the same time."),
        },
    ),
    define(
        STEP,
        "ns",
        {
            "step_total_ns": (
                "Step",
                "From the step's start on the host to the end of the last device event that it launched; "
                "no earlier than the end of the step before.",
            ),
        },
    ),
    define(
        WHOLE,
        "ns",
        {
            "compute_ns": ("Compute", "Time in which at least one kernel that is not communication runs."),
            "exposed_communication_ns": (
                "Exposed communication",
                "Exposed communication. Of a device's window: its collective kernels run, and no other kernel.",
            ),
            "idle_ns": ("Idle", "No kernel, copy or set runs on any stream, and no unrecorded work."),
            "unrecorded_ns": (
                "Unrecorded work",
                "A device runs work that was launched while nothing was recorded, and no recorded work. It is no idle time.",
            ),
        },
    ),
    define(
        STEPS,
        "ratio",
        {
            "communication_exposed": (
                "Communication exposed",
                "Communication's part of the steps: nothing computes or copies meanwhile.",
            ),
            "utilization": (
                "GPU busy",
                "Share of the window, without unrecorded work, in which at least one kernel runs on the device.",
            ),
            "sm_efficiency": (
                "Est. SM efficiency",
                "Blocks per SM of the running kernels, added up and capped at 1, averaged over the window.",
            ),
        },
    ),
    define("", "bytes", {"memory_bytes": ("Memory", "Memory of the device.")}),
    define(
        WHOLE,
        "count",
        {
            "affected": ("Affected", "Events that the notice speaks of."),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "count",
        {
            "malloc_calls": (
                "Driver allocations",
                "Calls inside steps that get memory of the device from the driver, or map it.",
            ),
            "free_calls": (
                "Driver releases",
                "Calls inside steps that give memory of the device back to the driver.",
            ),
            "setup_calls": (
                "Driver set-up",
                "Calls for memory that take more than 20 times their median and more than 1 ms, or more than 500 ms: the "
                "driver is set up, once.",
            ),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "bytes",
        {
            "allocated_bytes": ("Allocated", "Bytes that tensors hold (Total Allocated)."),
            "reserved_bytes": ("Reserved", "Bytes that the allocator holds from the driver (Total Reserved)."),
            "change_bytes": (
                "Change",
                "Bytes allocated less bytes released since the first event: no totals recorded.",
            ),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "ns",
        {
            "malloc_ns": ("Time in them", "Time on the host in driver allocations inside steps."),
            "free_ns": ("Time in releases", "Time on the host in driver releases inside steps."),
            "setup_ns": ("Time in set-up", "Time on the host of the calls that set the driver up."),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "ratio",
        {
            "driver_memory_ratio": (
                "Time in the driver",
                "Driver allocations and releases over the steps' host time, without calls that set the driver up.",
            ),
        },
    ),
    define(
        "",
        "count",
        {
            "lane": ("Lane", "Place of the lane among those of the timeline."),
        },
    ),
)
"""Used by more than one view."""
