"""Metrics of Phases."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN, SHARED, STEP, define

METRICS = SHARED.adding(
    define(
        "",
        "code",
        {
            "phase": (
                "Phase",
                "Range that the program or its framework named: a step, an optimizer, a server's range. Names that differ "
                "only in what the pattern matches are one, with * in its place.",
            ),
            "phase_pattern": ("Pattern", "What names of one phase may differ in, a regular expression (RE2)."),
        },
    ),
    define("", "text", {"phase_naming": ("To name more", "What the tool that recorded the trace offers for it.")}),
    define(
        CHOSEN,
        "count",
        {
            "phase_names": ("Names", "Different names of annotations."),
            "phases": ("Phases", "Names that differ only in what the pattern matches are one."),
            "phase_threads": ("Threads", "Host threads on which it was open: host times of several add up."),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "phase_device_ns": (
                "Device",
                "Time in which work runs on a device that was launched while a call was open, there or on an autograd thread "
                "that works for it. Streams and threads that overlap count once, devices add up.",
            ),
            "phase_backward_ns": (
                "Backward device",
                "The same of work that backward operators launched whose forward operator ran inside, wherever they run.",
            ),
            "phase_backward_host_ns": (
                "Backward host",
                "Host time of the outermost backward operators whose forward operator ran inside.",
            ),
            "phase_communication_ns": (
                "Communication",
                "Of Device the time in which a collective runs; of process groups that work on the host (gloo, MPI, UCC) the "
                "time in which they do so while a call is open.",
            ),
            "phase_idle_ns": (
                "Idle inside",
                "While a call is open on the host, time in which no device does anything.",
            ),
        },
    ),
    define(
        CHOSEN,
        "ratio",
        {
            "phase_step_ratio": (
                "Of the steps",
                "Share of the steps (of the whole trace where none was recorded) in which a call is open on the host.",
            ),
            "phase_device_ratio": ("Of the device time", "Device over the time in which any device works."),
        },
    ),
    define(
        STEP,
        "ns",
        {
            "phase_host_in_step_ns": ("Host in the step", "Time of the step on the host in which a call is open."),
            "phase_device_in_step_ns": ("Device in the step", "Device, of work that was launched in the step."),
        },
    ),
)
