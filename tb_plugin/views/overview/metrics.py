"""The metrics of this view alone: steps, devices and the trace itself."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN_STEPS, STEP, STEPS, WHOLE, define
from tb_plugin.analysis.reported_steps import REPORTED_COMPUTE, REPORTED_STEP
from tb_plugin.rules._metrics import METRICS as OF_RULES

METRICS = OF_RULES.adding(
    REPORTED_STEP,
    REPORTED_COMPUTE,
    define(
        STEP,
        "ns",
        {
            "kernel_ns": ("Kernel", "Device kernels other than communication, on any device."),
            "memcpy_ns": ("Memcpy", "Copies on a device while no kernel runs."),
            "memset_ns": ("Memset", "Memory sets on a device while none of the above runs."),
            "runtime_ns": ("Runtime", "Runtime and driver calls on the host while none of the above runs."),
            "dataloader_ns": ("Data loading", "Waiting for the data loader while none of the above runs."),
            "cpu_ns": ("CPU", "Operators and annotations on the host while none of the above runs."),
            "other_ns": ("Other", "The rest of the step."),
        },
    ),
    define(
        WHOLE,
        "ns",
        {
            "exposed_memcpy_ns": ("Exposed memcpy", "Copies run, and neither compute nor communication."),
            "exposed_memset_ns": ("Exposed memset", "Memory sets run, and nothing else."),
            "window_ns": ("Window", "From the first device event's start to the last one's end."),
            "no_operator_ns": ("Without operator", "Device time that no recorded operator launched."),
            "window_start_ns": ("Window from", "Where the window that was opened begins, from the start of the trace."),
            "window_end_ns": ("Window to", "Where the window that was opened ends, from the start of the trace."),
            "outside_ns": ("Recorded time", "From the first event to the end of the last, less all steps."),
            "outside_device_ns": (
                "Device busy",
                "Any device works there: kernels, copies and sets of all devices, united.",
            ),
            "device_lag_ns": (
                "Device starts after host",
                "From the start of the first operator or runtime call to that of the first device work; negative where work "
                "runs that was launched before the recording.",
            ),
            "device_tail_ns": (
                "Device ends after host",
                "From the end of the last operator or runtime call to that of the last device work; negative where the host "
                "went on.",
            ),
            "trace_ns": (
                "Length of the trace",
                "From its first event to the end of its last, also outside the window.",
            ),
        },
    ),
    define(
        WHOLE,
        "ns",
        {
            "in_ranges_ns": ("In ranges", "Time in which threads are in any range, summed over the threads."),
            "busiest_ns": ("Of its own", "Time in ranges of the name and in none inside them."),
            "longest_ns": (
                "In all",
                "Time in ranges of the name; of one inside another of its name the outer one counts.",
            ),
            "thread_ranges_ns": ("In ranges", "Time in which the thread is in any range."),
            "operation_total_ns": (
                "Total",
                "Durations of all parts of operations of the name; several may run at once.",
            ),
            "operation_max_ns": ("Longest", "The longest of them."),
        },
    ),
    define(
        STEPS,
        "ns",
        {
            "step_time_p95_ns": ("p95", "95th percentile of the step durations (linear interpolation)."),
            "largest_ns": ("Limited for", "Time of what limits the program, a mean over the steps."),
            "largest_name_ns": (
                "Of this name",
                "How much of the largest part rows of one name cover, a mean over the steps: each moment of a thread counts "
                "for the innermost row, rows of several threads or streams count each, up to the part.",
            ),
        },
    ),
    define(
        STEPS,
        "ratio",
        {
            "achieved_occupancy": (
                "Est. achieved occupancy",
                "Estimated occupancy of the kernels, weighted by their time in the window.",
            ),
            "unexplained_ratio": (
                "Nothing recorded, of the steps",
                "Share of the steps in which nothing runs on a device and no operator or call on the host. Why devices idle "
                "is another question: what of that has no cause is a share of the idle time.",
            ),
            "sampled_share": (
                "Recorded",
                "Share of the operators (by their numbers), or of the launched kernels, that is recorded.",
            ),
            "unknown_share": ("Unknown kernels", "Time of kernels of unknown kinds over all kernel time."),
            "largest_share": ("Limited for", "Time of what limits the program over the time of the steps."),
        },
    ),
    define(
        WHOLE,
        "ratio",
        {
            "tensor_core_ratio": (
                "Kernel time on matrix units",
                "Share of all kernel time in kernels that are known (by name) to use matrix units.",
            ),
            "linked_ratio": ("Linked to launches", "Share of the pieces of device work whose launch was recorded."),
            "owned_ratio": (
                "Linked to operators",
                "Share of the device time (sum of durations) that an operator launched.",
            ),
            "outside_device_ratio": ("Of the device's busy time", "Device busy outside of the steps over all of it."),
            "largest_group_ratio": (
                "Most events are",
                "Share of the events that the largest kind has, which makes the file big.",
            ),
        },
    ),
    define(
        WHOLE,
        "count",
        {
            "ordinal": ("Number", "Number of the device in the framework, which allocator events record."),
            "lost_events": ("Lost events", "Events that were dropped, or set aside for their times: in no figure."),
            "odd_times": (
                "Odd times",
                "Host events that overlap another of their thread in part, and device work whose end was not believed.",
            ),
            "unlaunched": ("Without launch", "Device events whose launching call was not recorded."),
            "window_events": ("Events opened", "Events of the window that was opened."),
            "trace_events": ("Events of the trace", "Events of the window and outside it."),
            "ranges": ("Ranges", "Ranges with a begin and an end on a thread, and calls."),
            "range_threads": ("Threads", "Threads with any event."),
            "never_ended": ("Never ended", "Ranges of this name that nothing ends: they last to the end of the trace."),
            "async_ranges": (
                "On no thread",
                "Ranges that belong to no thread: parts of asynchronous operations, and totals that a tool writes beside its "
                "ranges.",
            ),
            "instants": (
                "Instants",
                "Moments that were marked, also in asynchronous operations: they have no duration.",
            ),
            "trace_steps": ("Steps of the trace", "Recorded steps, also outside the window that was opened."),
        },
    ),
    define(
        CHOSEN_STEPS,
        "count",
        {
            "findings_dismissed": ("Dismissed", "Rules that apply and that the question leaves out."),
            "findings_ignored": (
                "Dismissed by torch_trace_ignore",
                "Rules that apply and that a file of the log directory leaves out.",
            ),
        },
    ),
    define(
        "", "count", {"sm_count": ("Multiprocessors", "Multiprocessors of the device, which run blocks of threads.")}
    ),
    define(
        "",
        "bytes",
        {
            "need_bytes": ("Memory needed", "Estimated from the size of the file: what opening all of it takes."),
            "budget_bytes": ("Memory allowed", "TORCH_TRACE_MEMORY_MB, by default half of the machine's memory."),
        },
    ),
    define(
        STEPS,
        "code",
        {
            "busiest_name": ("Name", "Ranges of this name have most time of their own, in none inside them."),
            "longest_name": (
                "Name",
                "Ranges of this name have most time with what is in them; the outermost one counts.",
            ),
            "unread_mark": ("Mark", "First name that marks a step of a server in an unknown form."),
            "held_name": ("Name", "The profiler's own work that is waited for longest."),
            "largest_name": ("Name", "Name of the rows that cover most of the largest part."),
            "largest_caller": ("Caller", "Operator that launched, or is open around, most of what has that name."),
            "largest_line": ("Python", "Line of Python that most of what has that name was called or launched under."),
        },
    ),
    define(
        STEPS,
        "text",
        {
            "limit": ("Limit", "What limits the program."),
            "class_mix": ("Kernel time", "Kernel time by class over all kernel time, without communication."),
        },
    ),
    define(
        "",
        "text",
        {
            "first_step": ("First step", "Of those wholly inside the window that was opened."),
            "last_step": ("Last step", "Of those wholly inside the window that was opened."),
            "capture": ("Capture", "The recording that was to tell of the graphs that are replayed."),
            "capture_difference": ("First difference", "Between the capture and the replay, of the first such graph."),
        },
    ),
)
