"""Metrics of the Diff view."""

from __future__ import annotations

from tb_plugin.analysis.kernel_classes import TITLES, WHAT, word_of
from tb_plugin.analysis.metrics import CHOSEN, P95, SHARED, STEP, define
from tb_plugin.analysis.reported_steps import REPORTED_COMPUTE as OF_KERNELS
from tb_plugin.model.trace.schema import KernelClass

# Kernel classes that may be parts of a step, in order of priority; the others count as other kernels.
SPLIT_CLASSES = tuple(each for each in TITLES if each not in (KernelClass.COMMUNICATION, KernelClass.OTHER))
CLASS_SUFFIX = "_kernel_ns"
_SIDES = {"base": "Baseline", "exp": "Experiment"}
CHANGE = "Experiment minus baseline."
RATIO = "Experiment divided by baseline."


def _of(text: str, side: str) -> str:
    return f"{text} in the {_SIDES[side].lower()}."


def _by_side(key: str, title: str, text: str) -> dict[str, tuple[str, str]]:
    return {f"{side}_{key}": (f"{word}: {title}", _of(text, side)) for side, word in _SIDES.items()}


METRICS = SHARED.adding(
    define(CHOSEN, "count", _by_side("mode_steps", "steps", "Steps of the mode")),
    define(
        CHOSEN,
        "ns",
        {
            **_by_side("mode_mean_ns", "mean", "Mean step time"),
            **_by_side("mode_p95_ns", "P95", P95.format("step time").rstrip(".")),
            "delta_mode_mean_ns": ("Change", "Experiment mean minus baseline mean."),
        },
    ),
    define(CHOSEN, "ratio", {"mode_time_ratio": ("Ratio", "Experiment mean divided by baseline mean.")}),
    define(CHOSEN, "number", _by_side("mode_tokens_per_second", "tokens/s", "New tokens divided by step-to-step time")),
    OF_KERNELS,
    define(
        STEP,
        "ns",
        {
            word_of(each) + CLASS_SUFFIX: (f"{TITLES[each]} kernels", f"Time with such a kernel running. {WHAT[each]}")
            for each in SPLIT_CLASSES
        },
    ),
    define(
        "", "code", {"leading_row": ("Row", "Kernel, call, operator or range that changed most in this step part.")}
    ),
    define(
        "",
        "text",
        {
            "setting": ("Setting", "Setting of machine, software or profiler."),
            "noise": ("Noise", "within noise: the 95 % interval of the change contains 0. Otherwise: significant."),
            "presence": ("In", "both: baseline and experiment. new: experiment only. gone: baseline only."),
            "base_setting": ("Baseline", "Setting of the baseline."),
            "exp_setting": ("Experiment", "Setting of the experiment."),
            "vendor": ("Vendor", "Device family."),
            "measure": ("Measure", "Key of the compared time."),
            "per": ("Per", "step: mean per step. total: sum over steps."),
            "leading_part": ("Part", "Step part that contributed most to the step's change."),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "base_ns": ("Baseline", "Time of the baseline."),
            "exp_ns": ("Experiment", "Time of the experiment."),
            "delta_ns": ("Change", CHANGE),
            "base_step_ns": ("Baseline step", "Mean step time of the baseline."),
            "exp_step_ns": ("Experiment step", "Mean step time of the experiment."),
            "delta_step_ns": ("Change", "Experiment step minus baseline step."),
            "interval_low_ns": ("Low end", "Low end of the 95 % interval of the change."),
            "interval_high_ns": ("High end", "High end of the 95 % interval of the change."),
            "leading_delta_ns": ("Change", "Time change of this step part."),
            "leading_row_delta_ns": ("Change", "Time change of this row, including overlapped time."),
            "delta_ranges_ns": ("Change in ranges", "Change in range time, summed over all threads."),
            "delta_phase_ns": (
                "Change of the phase",
                "Time change of the calls in the phase, including overlapped time.",
            ),
        },
    ),
    define(
        CHOSEN,
        "number",
        {
            "base_calls": ("Baseline calls", _of("Calls, including replays,", "base")),
            "exp_calls": ("Experiment calls", _of("Calls, including replays,", "exp")),
            "delta_calls": ("Change of calls", CHANGE),
        },
    ),
    define(
        CHOSEN,
        "ratio",
        {"time_ratio": ("Ratio", RATIO), "step_ratio": ("Ratio", "Experiment step divided by baseline step.")},
    ),
    define(
        "",
        "count",
        {
            "step_position": ("Selected step", "Position of the step among the selected steps."),
            "tree_node": ("Node", "Node number in the call tree."),
            "parent_node": ("Parent", "Parent node number; -1 for training stages."),
        },
    ),
)
