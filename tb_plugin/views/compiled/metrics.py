"""Metrics of compiled code."""

from __future__ import annotations

from tb_plugin.analysis.compiled.metrics import BACKWARD_HOST, REGIONS
from tb_plugin.analysis.metrics import CHOSEN, SHARED, define

METRICS = SHARED.adding(
    REGIONS,
    BACKWARD_HOST,
    define(
        "",
        "code",
        {
            "break_at": (
                "Breaks off at",
                "Line where the compiled function ends and another goes on, by the name of the latter's frame.",
            ),
            "break_from": ("From", "Regions that broke off."),
            "break_to": ("Goes on in", "Regions that they called."),
            "generated_kernel": ("Kernel", "Kernel that the compiler generated."),
            "fused_operators": (
                "Operators in it",
                "Operators that the kernel was made of, by its name: a list says which of them have an underscore.",
            ),
            "kernel_file": ("File", "File of the generated code, as recorded beside the first launch."),
            "kernel_modules": (
                "Modules",
                "Innermost modules open around its calls, of a backward pass around the forward operator, in order.",
            ),
            "region_numbers": ("Regions", "Regions that called it, or in whose backward pass it ran."),
        },
    ),
    define("", "text", {"kernel_kind": ("Kind", "What the kernel is, by the code in its name.")}),
    define(
        CHOSEN,
        "count",
        {
            "cold_calls": (
                "Cold",
                "Calls in which something was compiled for the forward pass, or the first ones after it was.",
            ),
            "compilations": ("Compilations", "Stretches of time in which a thread compiled something."),
            "compiled_regions": ("Regions", "Compiled code that ran: a function and one compilation of it."),
            "recompilations": (
                "Recompilations",
                "Compilations of functions that had been compiled before: those with a second number above 0.",
            ),
            "guard_failures": (
                "Guards that failed",
                "Checks of guards after which the thread compiled, because nothing that was compiled fitted.",
            ),
            "graph_breaks": (
                "Graph breaks",
                "Places at which compiled code called other compiled code: a function that breaks off, and one that goes on.",
            ),
            "break_calls": ("Calls", "Calls of compiled code that other compiled code made."),
            "kernel_launches": ("Launches", "Launches of the kernel, or calls of it where it runs on the host."),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "region_compile_ns": (
                "Compilation",
                "Time in which it was compiled, forward and backward: the outermost ranges that say so, with its number.",
            ),
            "compiling_in_step_ns": ("Compilation", "Time of the step on the host in which any thread compiled code."),
            "compile_ns": (
                "Compilation",
                "Time in which threads compiled code; what no region is known of counts too.",
            ),
            "cold_mean_ns": (
                "Cold call",
                "Mean host time of its cold calls, with what was compiled in them: as a rule code behind a break. Its own "
                "compilation comes before the call, that of its backward pass after it.",
            ),
            "warm_mean_ns": ("Warm call", "Mean host time of its other calls."),
            "guard_ns": ("Guards", "Time of the checks of guards that led to its calls, or to its compilation."),
            "wrapper_ns": (
                "Wrapper",
                "Time of its calls outside of graphs, operators, other compiled code, checks of guards and compilation.",
            ),
            "break_ns": (
                "Cost",
                "Checks of guards that led to these calls, or to compilations before them, and their wrappers.",
            ),
            "kernel_host_ns": ("Host", "Time of the ranges on the host with its name: its launch, or all of it."),
            "kernel_device_ns": ("Device", "Time of the device in it."),
        },
    ),
    define(
        CHOSEN,
        "ratio",
        {"compiling_ratio": ("Of the step", "Share of the step on the host in which any thread compiled code.")},
    ),
)
