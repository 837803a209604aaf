"""Metrics of phases."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN, SHARED, STEP, SUM, define

METRICS = SHARED.adding(
    define(
        "",
        "code",
        {
            "phase": ("Phase", "Annotation name, with * for parts that vary."),
            "phase_pattern": ("Pattern", "RE2 pattern that matches the varying parts of names."),
        },
    ),
    define("", "text", {"phase_naming": ("Annotation API", "Annotation API of the tool that recorded the trace.")}),
    define(
        CHOSEN,
        "count",
        {
            "phase_names": ("Names", "Distinct annotation names."),
            "phases": ("Phases", "Annotation names grouped by pattern."),
            "phase_threads": ("Threads", "Host threads with the phase."),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "phase_device_ns": ("Device", "Busy time of device work launched in the phase; overlaps count once.", SUM),
            "phase_backward_ns": ("Backward device", "Busy time of the phase's backward work.", SUM),
            "phase_backward_host_ns": ("Backward host", "Host time of backward operators matched to the phase.", SUM),
            "phase_communication_ns": ("Communication", "Time of collectives in the phase.", SUM),
            "phase_idle_ns": ("Idle inside", "Time in the phase with all devices idle.", SUM),
        },
    ),
    define(
        CHOSEN,
        "ratio",
        {
            "phase_step_ratio": ("Share of steps", "Share of host step time in the phase."),
            "phase_device_ratio": ("Share of device time", "Share of device busy time in the phase."),
        },
    ),
    define(
        STEP,
        "ns",
        {
            "phase_host_in_step_ns": ("Host in the step", "Host time of the phase in the step."),
            "phase_device_in_step_ns": ("Device in the step", "Device time of the phase in the step."),
        },
    ),
)
