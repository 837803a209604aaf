"""The definition of every number the product shows: title, unit, meaning. docs/metrics.md explains each (a test).

One literal table, as long as the list of numbers: splitting it would only hide where a definition stands.
"""

from __future__ import annotations

from tb_plugin.payloads import Column, Figure, Metric, Scalar, Unit

CHOSEN = "the chosen steps, else the whole trace"
WHOLE = "the whole trace"
CHOSEN_WINDOW = "the chosen window or steps, else the whole trace"
STEPS = "all recorded steps, from the first one's start to the last one's end"
STEP = "one step"
EACH_BIN = "each bin of the window"


def _metrics(window: str, unit: Unit, definitions: dict[str, tuple[str, str]]) -> dict[str, Metric]:
    return {key: Metric(key, title, unit, text, window) for key, (title, text) in definitions.items()}


METRICS: dict[str, Metric] = {
    **_metrics(
        "",
        "code",
        {
            "name": ("Name", "Name as recorded in the trace."),
            "operator": ("Operator", "Innermost operator open on the launching thread when the launch began."),
            "input_shape": ("Input shapes", "Dimensions of the operator's input tensors (record_shapes=True)."),
            "grid": ("Grid", "Thread blocks of the launch: x, y, z."),
            "block": ("Block", "Threads of a block: x, y, z."),
            "call_stack": (
                "Call stack",
                "Frames that called the operator, innermost first: as recorded, else the Python calls around it.",
            ),
            "module_path": (
                "Modules",
                "Calls of nn.Module that were open when it began, on a device when its launch did, outermost first; "
                "in the backward pass those of its forward operator.",
            ),
            "module": ("Module", "nn.Module, with the number that the profiler gave to the instance."),
            "category": ("Category", "Category as recorded in the trace."),
            "collective": ("Collective", "Communication operation, in one spelling for all libraries."),
            "dtype": ("Type", "Element type of the buffers."),
            "group": ("Group", "Name of the process group."),
            "group_ranks": ("Ranks", "Ranks of the process group, as recorded."),
        },
    ),
    **_metrics(
        "",
        "text",
        {
            "step": ("Step", "Number of the profiler step, as recorded."),
            "stream": ("Stream", "Stream or queue of the device on which the event ran."),
            "thread": ("Thread", "Host thread."),
            "thread_key": ("Thread id", "Process id and thread id, as recorded."),
            "device": ("Device", "Device id as recorded in the trace."),
            "kind": ("Kind", "What the event is, whatever its vendor calls it."),
            "device_name": ("Name", "Name of the device as its driver reports it."),
            "capability": ("Compute capability", "Version of the instruction set that an NVIDIA device supports."),
            "worker": ("Worker", "Process or rank of the run, as its file is named."),
            "node": ("Node", "Host that the process ran on."),
            "process": ("Process", "Rank where recorded, else the worker."),
            "group_description": ("Description", "Description of the process group."),
            "backend": ("Backend", "Communication library of the process group."),
            "timing": (
                "Timing",
                "measured: all ranks of the group are here. bound: one is missing, waiting is at least and transfer at most "
                "this. estimated: a worker lacks the call, transfer is the median of others like it.",
            ),
            "last_worker": ("Last", "The worker that arrived last: its call is the shortest, it waits for nobody."),
            "setting": ("Setting", "What the file says of the machine, the software and the profiler's options."),
        },
    ),
    **_metrics(
        CHOSEN,
        "count",
        {
            "calls": ("Calls", "How often it was called, nested calls of the same name included."),
            "operators": ("Operators", "Operators that the module called directly."),
            "registers": ("Registers", "Registers per thread."),
            "events": ("Events", "Number of events."),
        },
    ),
    **_metrics(
        CHOSEN,
        "count",
        {
            "call": ("Call", "Number of the call in order of time, of its worker."),
            "elements": ("Elements", "Elements of the larger buffer where the two differ by the group's size."),
            "group_size": ("Group size", "Ranks in the process group."),
            "source_rank": ("From rank", "Rank that sends, of point-to-point calls."),
            "destination_rank": ("To rank", "Rank that receives, of point-to-point calls."),
            "bounded": (
                "Bounds",
                "Matched calls that a rank of their group is missing from. It may have arrived later than those here, so "
                "waiting is at least and transfer at most what stands there.",
            ),
            "estimated": (
                "Estimated",
                "Matched calls that a worker lacks and that are longer than usual elsewhere, as if it had arrived last: "
                "transfer is the median of the same collective where nobody lacks it.",
            ),
            "sequence": ("Sequence", "Number of the collective in its process group, as recorded."),
            "match": ("Match", "Number of the collective that calls of several workers are."),
            "matched_workers": ("Workers", "Workers on which the collective was found."),
            "matched": ("Matched", "Calls that were found on at least one other worker as well."),
            "unmatched": ("Unmatched", "Calls that no other worker has; they are in no wait, transfer or bandwidth."),
            "arrived_last": ("Arrived last", "Matched collectives that waited for this worker."),
            "workers": ("Workers", "Workers whose profile is behind the numbers."),
            "world_size": ("World size", "Ranks of the job, as recorded."),
        },
    ),
    **_metrics(
        CHOSEN,
        "ns",
        {
            "compute_alone_ns": ("Compute alone", "Compute runs and no communication."),
            "overlap_ns": ("Overlap", "Compute and communication run at the same time."),
            "step_other_ns": ("Other", "The rest of the step: neither compute nor communication."),
            "wait_ns": (
                "Synchronizing",
                "Communication less transfer: waiting inside a collective for the worker that arrives last.",
            ),
            "transfer_ns": (
                "Data transfer",
                "Of a collective the duration on the worker that arrives last, at the end of each call; "
                "of several the length of the union.",
            ),
            "latency_ns": ("Latency", "Length of the union of the calls, from begin to end, waiting included."),
            "mean_latency_ns": ("Mean latency", "Latency over calls."),
            "mean_transfer_ns": ("Mean transfer", "Data transfer over matched calls."),
            "caused_wait_ns": (
                "Others waited",
                "How long the other workers waited for this one: of each worker and step the length of the union, summed up.",
            ),
        },
    ),
    **_metrics(
        CHOSEN,
        "bytes",
        {
            "comm_bytes": (
                "Size",
                "Elements times the bytes of their type: S of nccl-tests (all_gather: output, reduce_scatter: input).",
            ),
            "mean_comm_bytes": ("Mean size", "Size over calls."),
        },
    ),
    **_metrics(
        CHOSEN,
        "bytes_per_second",
        {
            "algorithm_bandwidth": (
                "Algorithm bandwidth",
                "Size over data transfer, of matched calls. 1 GB = 10^9 bytes.",
            ),
            "bus_bandwidth": ("Bus bandwidth", "Algorithm bandwidth times the factor of nccl-tests."),
        },
    ),
    **_metrics(CHOSEN, "number", {"bus_factor": ("Factor", "Of nccl-tests, by collective and group size.")}),
    **_metrics(CHOSEN, "bool", {"on_device": ("On device", "A kernel on a device; otherwise a call on the host.")}),
    **_metrics(
        CHOSEN,
        "ratio",
        {
            "wait_share": ("Waiting", "Synchronizing over the duration of the steps, mean of the workers."),
            "last_share": (
                "Arrives last",
                "Share of the matched collectives it takes part in that waited for this worker.",
            ),
        },
    ),
    **_metrics(
        CHOSEN,
        "ns",
        {
            "host_self_ns": (
                "Host self",
                "Time on the host less the time of directly nested operators, modules and runtime calls.",
            ),
            "host_total_ns": (
                "Host total",
                "Time on the host from begin to end; of nested calls of the same name only the outermost counts.",
            ),
            "device_self_ns": (
                "Device self",
                "Kernel, memcpy and memset time launched by it directly. Concurrent streams add up.",
            ),
            "device_total_ns": (
                "Device total",
                "Device self of it and of everything nested in it; of nested calls of the same name the outermost.",
            ),
            "total_ns": ("Total", "Sum of the durations. Concurrent streams add up."),
            "mean_ns": ("Mean", "Total over calls."),
            "min_ns": ("Min", "Shortest call."),
            "max_ns": ("Max", "Longest call."),
            "p50_ns": ("p50", "Median duration (linear interpolation)."),
            "p99_ns": ("p99", "99th percentile of the durations (linear interpolation)."),
            "backward_host_total_ns": (
                "Backward host",
                "Host time of the backward operators whose forward operator the module or its children called.",
            ),
            "backward_device_self_ns": (
                "Backward self",
                "Device time launched by backward operators whose forward operator the module called directly.",
            ),
            "backward_device_total_ns": ("Backward device", "Backward self of it and of its children."),
            "start_ns": ("Start", "Time since the first event of the trace."),
            "dur_ns": ("Duration", "End less start."),
            "launch_delay_ns": ("Launch to start", "From the begin of the launching call to the begin on the device."),
        },
    ),
    **_metrics(
        CHOSEN,
        "ratio",
        {
            "device_share": ("Share", "Device self over the device time of all operators."),
            "share": ("Share", "Total over the total of all rows."),
            "matrix_self_ratio": (
                "Tensor Cores self",
                "Share of the operator's own kernel time that ran in kernels using Tensor Cores (MFMA, XMX).",
            ),
            "matrix_total_ratio": ("Tensor Cores total", "The same over the kernels of nested operators as well."),
            "mean_occupancy": (
                "Occupancy",
                "Estimated achieved occupancy, mean weighted by duration; kernels without a value count as 0.",
            ),
            "occupancy": ("Est. occupancy", "Occupancy that the profiler estimated for the launch."),
        },
    ),
    **_metrics(
        CHOSEN,
        "number",
        {
            "mean_blocks_per_sm": (
                "Blocks per SM",
                "Blocks of a launch per streaming multiprocessor, mean weighted by duration; no value counts as 0.",
            ),
            "blocks_per_sm": ("Blocks per SM", "Blocks of the launch per streaming multiprocessor."),
        },
    ),
    **_metrics(
        CHOSEN,
        "bool",
        {
            "matrix_eligible": ("Tensor Core eligible", "The operator can use Tensor Cores (by its name)."),
            "uses_matrix_unit": ("Tensor Cores", "The kernel uses Tensor Cores, MFMA or XMX (by its name)."),
            "has_stack": ("Stack", "A call stack is known for at least one call."),
        },
    ),
    **_metrics(
        CHOSEN,
        "bytes",
        {
            "shared_memory": ("Shared memory", "Shared memory per block, static and dynamic."),
            "bytes": ("Bytes", "Bytes copied or set."),
        },
    ),
    **_metrics(CHOSEN, "bytes_per_second", {"bandwidth": ("Bandwidth", "Bytes over duration.")}),
    **_metrics(
        STEP,
        "ns",
        {
            "kernel_ns": ("Kernel", "Device kernels other than communication, on any device."),
            "memcpy_ns": ("Memcpy", "Copies on a device while no kernel runs."),
            "memset_ns": ("Memset", "Memory sets on a device while none of the above runs."),
            "communication_ns": (
                "Communication",
                "Collective kernels and collective calls on the host while none of the above runs.",
            ),
            "runtime_ns": ("Runtime", "Runtime and driver calls on the host while none of the above runs."),
            "dataloader_ns": ("Data loader", "Waiting for the DataLoader while none of the above runs."),
            "cpu_ns": ("CPU", "Operators and annotations on the host while none of the above runs."),
            "other_ns": ("Other", "The rest of the step."),
            "step_total_ns": (
                "Step",
                "From the step's start on the host to the end of the last device event that it launched; "
                "no earlier than the end of the step before.",
            ),
        },
    ),
    **_metrics(
        WHOLE,
        "ns",
        {
            "compute_ns": ("Compute", "Time in which at least one kernel that is not communication runs."),
            "exposed_communication_ns": ("Exposed communication", "Communication kernels run, and no compute."),
            "exposed_memcpy_ns": ("Exposed memcpy", "Copies run, and neither compute nor communication."),
            "exposed_memset_ns": ("Exposed memset", "Memory sets run, and nothing else."),
            "idle_ns": ("Idle", "No kernel, copy or set runs on any stream."),
            "window_ns": ("Window", "From the first device event's start to the last one's end."),
            "busy_ns": ("Busy", "Length of the union of all kernels, copies and sets."),
            "no_operator_ns": ("Without operator", "Device time that no recorded operator launched."),
        },
    ),
    **_metrics(
        STEPS,
        "ns",
        {
            "step_time_mean_ns": ("Step time", "Mean duration of the steps."),
            "step_time_p95_ns": ("p95", "95th percentile of the step durations (linear interpolation)."),
            "dataloader_mean_ns": ("Waiting for input", "Mean of the data loader's part of the steps."),
        },
    ),
    **_metrics(
        STEPS,
        "ratio",
        {
            "utilization": ("GPU busy", "Share of the window in which at least one kernel runs on the device."),
            "sm_efficiency": (
                "Est. SM efficiency",
                "Blocks per SM of the running kernels, added up and capped at 1, averaged over the window.",
            ),
            "achieved_occupancy": (
                "Est. achieved occupancy",
                "Estimated occupancy of the kernels, weighted by their time in the window.",
            ),
            "waiting_for_input": ("Waiting for input", "Data loader's part of the mean step."),
            "communication_exposed": (
                "Communication exposed",
                "Communication's part of the mean step: not hidden behind kernels or copies.",
            ),
        },
    ),
    **_metrics(
        WHOLE,
        "ratio",
        {
            "tensor_core_ratio": (
                "Kernel time on Tensor Cores",
                "Share of the kernel time launched by operators that ran in kernels using Tensor Cores (MFMA, XMX).",
            ),
            "matrix_eligible_ratio": (
                "Eligible for Tensor Cores",
                "Share of the kernel time launched by operators that belongs to operators able to use Tensor Cores.",
            ),
            "matrix_used_ratio": ("On Tensor Cores", "Share of all kernel time in kernels that use Tensor Cores."),
            "memory_peak_ratio": ("Peak memory", "Most bytes allocated at a time over the device's memory."),
        },
    ),
    **_metrics(
        WHOLE,
        "bytes",
        {
            "memory_bytes": ("Memory", "Memory of the device."),
            "memory_peak_bytes": ("Peak allocated", "Most bytes that PyTorch had allocated at a time."),
        },
    ),
    **_metrics(
        WHOLE,
        "count",
        {
            "sm_count": ("Multiprocessors", "Streaming multiprocessors (compute units on AMD)."),
            "unlaunched": ("Without launch", "Device events whose launching call was not recorded."),
            "affected": ("Affected", "Events that the notice speaks of."),
            "window_events": ("Events opened", "Events of the window that was opened."),
            "trace_events": ("Events of the trace", "Events of the window and outside it."),
            "trace_steps": ("Steps of the trace", "Recorded steps, also outside the window that was opened."),
        },
    ),
    **_metrics(
        WHOLE,
        "ns",
        {
            "window_start_ns": ("Window from", "Where the window that was opened begins, from the start of the trace."),
            "window_end_ns": ("Window to", "Where the window that was opened ends, from the start of the trace."),
            "trace_ns": (
                "Length of the trace",
                "From its first event to the end of its last, also outside the window.",
            ),
        },
    ),
    **_metrics(
        "",
        "bytes",
        {
            "need_bytes": ("Memory needed", "Estimated from the size of the file: what opening all of it takes."),
            "budget_bytes": ("Memory allowed", "TORCH_TRACE_MEMORY_MB, by default half of the machine's memory."),
        },
    ),
    **_metrics(
        "",
        "text",
        {
            "first_step": ("First step", "Of those wholly inside the window that was opened."),
            "last_step": ("Last step", "Of those wholly inside the window that was opened."),
        },
    ),
    **_metrics(
        "",
        "code",
        {"caller": ("Called by", "Operator around the one that allocated.")},
    ),
    **_metrics(
        "",
        "text",
        {
            "block_state": (
                "State",
                "released: allocated and released in the window; released later: after it; never released in the trace; "
                "allocated before the window (or the trace); unpaired: the other event is not recorded.",
            ),
        },
    ),
    **_metrics(
        CHOSEN_WINDOW,
        "count",
        {
            "allocation_count": (
                "Allocations",
                "Allocations by it and everything nested in it; of nested calls of the same name the outermost counts.",
            ),
            "self_allocation_count": ("Self allocations", "Allocations by it directly."),
            "allocations": ("Allocations", "Events that got memory."),
            "blocks": ("Blocks", "Blocks that were live; empty where nobody counted them."),
            "block": ("Block", "Number of the block on its device, by its first event."),
            "malloc_calls": (
                "Driver allocations",
                "Calls inside steps that get memory from the driver: cudaMalloc, hipMalloc, cuMemMap and the like.",
            ),
            "free_calls": (
                "Driver releases",
                "Calls inside steps that give memory back: cudaFree, hipFree and the like.",
            ),
        },
    ),
    **_metrics(
        CHOSEN_WINDOW,
        "bytes",
        {
            "size_increase_bytes": (
                "Size increase",
                "Bytes allocated less bytes released, by it and everything nested in it.",
            ),
            "self_size_increase_bytes": ("Self increase", "Bytes allocated less bytes released, by it directly."),
            "allocation_bytes": ("Allocation size", "Bytes allocated by it and everything nested in it."),
            "self_allocation_bytes": ("Self allocation size", "Bytes allocated by it directly."),
            "block_bytes": ("Size", "Bytes of the block, as the allocator rounded them."),
            "live_bytes": ("Live", "Bytes of the blocks that were live at the peak, or at the chosen moment."),
            "allocated_bytes": ("Allocated", "Bytes that tensors hold (Total Allocated)."),
            "reserved_bytes": ("Reserved", "Bytes that the allocator holds from the driver (Total Reserved)."),
            "change_bytes": (
                "Change",
                "Bytes allocated less bytes released since the first event: no totals recorded.",
            ),
            "peak_allocated_bytes": ("Peak allocated", "Most bytes allocated at a time, and the operator that did it."),
            "peak_reserved_bytes": ("Peak reserved", "Most bytes that the allocator held from the driver."),
            "unreleased_bytes": ("Unreleased", "Bytes allocated in the window and not released before the trace ends."),
            "live_before_bytes": ("Live before", "Bytes that were allocated when the window began."),
        },
    ),
    **_metrics(
        CHOSEN_WINDOW,
        "ns",
        {
            "moment_ns": ("Time", "Time since the first event of the trace."),
            "allocated_at_ns": ("Allocated at", "Time of the allocation since the first event of the trace."),
            "released_at_ns": ("Released at", "Time of the release since the first event of the trace."),
            "lifetime_ns": ("Lifetime", "Release less allocation."),
            "peak_time_ns": ("Peak at", "Time of the peak since the first event of the trace."),
            "peak_reserved_time_ns": ("Peak reserved at", "First time at which most was reserved."),
            "malloc_ns": ("Time in them", "Time on the host in driver allocations inside steps."),
            "free_ns": ("Time in releases", "Time on the host in driver releases inside steps."),
        },
    ),
    **_metrics(
        CHOSEN_WINDOW,
        "ratio",
        {
            "fragmentation": ("Fragmentation", "1 - allocated / reserved at the peak of allocated."),
            "driver_memory_ratio": ("Time in the driver", "Driver allocations and releases over the steps' host time."),
        },
    ),
    **_metrics(
        CHOSEN,
        "ns",
        {
            "host_ns": ("Host", "Time on the host of the place and of everything beneath it, over all threads."),
            "device_ns": ("Device", "Kernel, memcpy and memset time launched from the place and beneath it."),
            "host_own_ns": ("Host own", "Host time of the place without what stands beneath it."),
            "device_own_ns": ("Device own", "Device time launched from the place itself, not from beneath it."),
            "base_ns": ("Baseline", "The baseline's time."),
            "exp_ns": ("Experiment", "The experiment's time."),
            "delta_ns": ("Change", "Experiment less baseline; 0 on the side that does not have it."),
            "base_step_ns": ("Baseline step", "Mean step of the baseline, in whole nanoseconds."),
            "exp_step_ns": ("Experiment step", "Mean step of the experiment, in whole nanoseconds."),
            "delta_step_ns": ("Change", "Experiment's step less baseline's."),
            "leading_delta_ns": ("Change", "Change of the part that leads the difference of the steps."),
        },
    ),
    **_metrics(
        CHOSEN,
        "number",
        {
            "base_calls": ("Baseline calls", "Calls on the baseline's side."),
            "exp_calls": ("Experiment calls", "Calls on the experiment's side."),
            "delta_calls": ("Change of calls", "Experiment less baseline."),
        },
    ),
    **_metrics(
        CHOSEN,
        "ratio",
        {
            "time_ratio": ("Ratio", "Experiment over baseline; empty where the baseline has no time."),
            "step_ratio": ("Ratio", "Experiment's step over baseline's."),
        },
    ),
    **_metrics(
        "",
        "text",
        {
            "presence": ("In", "both; new: only the experiment has it; gone: only the baseline has it."),
            "node_kind": (
                "Kind",
                "phase, module, operator, annotation, Python or runtime call, or what ran on the device.",
            ),
            "base_setting": ("Baseline", "What the baseline's file says."),
            "exp_setting": ("Experiment", "What the experiment's file says."),
            "measure": ("Measure", "Key of the time that tables and call tree compare."),
            "per": ("Per", "step: means of the chosen steps; total: their sums."),
            "leading_part": ("Part", "Part of the step that changed most in the direction of the whole."),
        },
    ),
    **_metrics(
        "the marked range",
        "ns",
        {
            "range_length_ns": ("Length", "From the begin of the range to its end."),
            "inside_ns": (
                "Inside",
                "Of the events what lies in the range, summed up. Concurrent threads and streams add up.",
            ),
            "inside_self_ns": (
                "Self inside",
                "Inside, less what lies in the calls beneath: of operators and runtime calls those of the operator tree, of "
                "Python calls other Python calls. Ranges that only lie around others have none.",
            ),
        },
    ),
    **_metrics(
        "the marked range",
        "ratio",
        {
            "inside_ratio": (
                "Of the range",
                "Inside over the length of the range; above 1 where events ran side by side.",
            ),
            "busy_ratio": ("Busy share", "Busy over the length of the range."),
        },
    ),
    **_metrics(
        "the window",
        "count",
        {
            "gaps": ("Gaps", "Times between two pieces of work of a device stream, no shorter than asked for."),
            "gaps_listed": ("Listed", "The longest of them, which are listed."),
            "lane": ("Lane", "Place of the stream among all lanes of the timeline."),
        },
    ),
    **_metrics(
        "the window",
        "ns",
        {
            "gap_ns": ("In gaps", "Parts of the gaps that lie in the window, added up over the streams."),
            "launched_at_ns": ("Launched at", "When the call that launched the work after the gap began."),
            "host_doing_ns": (
                "In it",
                "Time of the gap (until the launch, where it was late) in what the host did most.",
            ),
        },
    ),
    **_metrics(
        "the window",
        "ratio",
        {
            "gap_ratio": (
                "Share",
                "Time in gaps over the length of the window times the number of streams that worked.",
            ),
            "other_busy_ratio": ("Others busy", "Share of the gap in which another stream of the device worked."),
            "host_doing_ratio": ("Of the gap", "Time in what the host did most over the length of the gap."),
        },
    ),
    **_metrics(
        "",
        "text",
        {
            "why": (
                "Why",
                "host busy: the launch came late, its thread did something else. host waits: late, the thread waited for "
                "a device. launched before: the work was launched in time and waited on the device. nothing recorded: no "
                "launch, or the thread recorded nothing meanwhile.",
            ),
        },
    ),
    **_metrics(
        "",
        "code",
        {
            "host_doing": (
                "Host did",
                "Name that was innermost longest on the thread that launched the work after the gap: until the launch "
                "where it was late, else in all of the gap. Empty: no event was open.",
            ),
        },
    ),
    **_metrics(
        EACH_BIN,
        "count",
        {
            "queue_depth": (
                "Launched, not started",
                "Kernels, copies and sets whose launching call has begun and which have not begun on the device.",
            ),
        },
    ),
    **_metrics(
        EACH_BIN,
        "bytes_per_second",
        {
            "copy_bandwidth": (
                "Copies",
                "Bytes of the running copies, each spread evenly over its duration. 1 GB = 10^9 bytes.",
            ),
        },
    ),
    **_metrics(
        EACH_BIN,
        "number",
        {"recorded_value": ("Recorded", "Value of a counter event of the trace, until the next one of its series.")},
    ),
    **_metrics(
        "",
        "count",
        {
            "found_names": ("Names", "Distinct names among the events found."),
            "hit_position": (
                "Position",
                "Of the first event found that starts at this time or later, in order of time from 0; "
                "their number when all start before.",
            ),
        },
    ),
    **_metrics(
        "",
        "ns",
        {
            "first_hit_ns": ("First", "Start of the first event found."),
            "last_hit_ns": ("Last", "Start of the last event found."),
        },
    ),
    **_metrics(
        "",
        "count",
        {
            "node": ("Node", "Number of the place in the call tree."),
            "parent_node": ("Parent", "Number of the place around it; -1 for phases."),
        },
    ),
}


def metric(key: str, title: str = "", window: str = "") -> Metric:
    """The metric of a key, with another title or window where the place needs one."""
    found = METRICS[key]
    return Metric(key, title or found.title, found.unit, found.definition, window or found.window)


def columns(*keys: str, hidden: tuple[str, ...] = (), share: tuple[str, ...] = ()) -> list[Column]:
    """Columns of a table, in order."""
    return [Column(METRICS[key], hidden=key in hidden, share=key in share) for key in keys]


def figure(key: str, value: Scalar, title: str = "", note: str = "") -> Figure:
    """A figure of a metric."""
    return Figure(metric(key, title), value, note)
