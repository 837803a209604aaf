"""Metrics of Diff."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN, SHARED, define
from tb_plugin.analysis.reported_steps import REPORTED_COMPUTE as OF_KERNELS

_SIDES = {"base": "Baseline", "exp": "Experiment"}
METRICS = SHARED.adding(
    define(
        CHOSEN,
        "count",
        {f"{side}_mode_steps": (f"{word}: steps", "Steps of the mode.") for side, word in _SIDES.items()},
    ),
    define(
        CHOSEN,
        "ns",
        {
            **{f"{side}_mode_mean_ns": (f"{word}: mean", "Mean time of its steps.") for side, word in _SIDES.items()},
            **{
                f"{side}_mode_p95_ns": (f"{word}: p95", "95th percentile of the times of its steps.")
                for side, word in _SIDES.items()
            },
            "delta_mode_mean_ns": ("Change", "Mean of the experiment less that of the baseline; both need such steps."),
        },
    ),
    define(CHOSEN, "ratio", {"mode_time_ratio": ("Ratio", "Mean of the experiment over that of the baseline.")}),
    define(
        CHOSEN,
        "number",
        {
            f"{side}_mode_tokens_per_second": (
                f"{word}: tokens/s",
                "New tokens of its steps over their time to the next.",
            )
            for side, word in _SIDES.items()
        },
    ),
    OF_KERNELS,
    define(
        "",
        "code",
        {
            "beside_operator": (
                "Operator",
                "Nearest operator around the launch that both sides have with device time; else the outermost one.",
            ),
            "base_kernel": ("Baseline", "Kernel, copy or set of the baseline."),
            "exp_kernel": ("Experiment", "Kernel, copy or set of the experiment."),
            "leading_row": (
                "Row",
                "Row of the leading part that changed most its way: a kernel, a runtime call, an operator, "
                "or the data loader's range; where only ranges are known the name whose own time changed most.",
            ),
        },
    ),
    define(
        "",
        "text",
        {
            "setting": ("Setting", "What the file says of the machine, the software and the profiler's options."),
            "presence": (
                "In",
                "both; new: only the experiment has it; gone: only the baseline has it. The other side's time then is that "
                "of the calls that it wraps.",
            ),
            "base_setting": ("Baseline", "What the baseline's file says."),
            "exp_setting": ("Experiment", "What the experiment's file says."),
            "maker": ("Maker", "Family of devices that a device belongs to; empty: not known."),
            "device_word": ("Called", "What such a device is called."),
            "measure": ("Measure", "Key of the time that tables and call tree compare."),
            "per": ("Per", "step: means of the chosen steps; total: their sums."),
            "leading_part": ("Part", "Part of the step that changed most in the direction of the whole."),
            "opposite_part": ("Against it", "Part of the step that changed most in the other direction."),
            "overall_part": (
                "Part",
                "Parts of the step, as on the Overview: computing; communication and copies that nothing hides; free, in "
                "which no device works. Together they are the whole step.",
            ),
            "family": (
                "Family",
                "What kernels compute: attention, a convolution or a product of matrices where an operator around the launch "
                "is one, whatever the kernel itself does; else the class of the kernel's name.",
            ),
            "pass_direction": (
                "Pass",
                "forward or backward, of the three families that operators name: backward is what an operator of the "
                "backward pass launched, or no operator and its name says so. Empty where nothing tells.",
            ),
            "compared_memory": ("Memory", "Most that was allocated or reserved on the device that holds most."),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "base_ns": ("Baseline", "The baseline's time."),
            "exp_ns": ("Experiment", "The experiment's time."),
            "delta_ns": ("Change", "Experiment less baseline; 0 on the side that does not have it."),
            "base_step_ns": ("Baseline step", "Mean step of the baseline, in whole nanoseconds."),
            "exp_step_ns": ("Experiment step", "Mean step of the experiment, in whole nanoseconds."),
            "delta_step_ns": ("Change", "Experiment's step less baseline's."),
            "leading_delta_ns": ("Change", "Change of the part that leads the difference of the steps."),
            "leading_row_delta_ns": (
                "Change",
                "Change of that row: of kernels, runtime calls and the data loader's range all their time, also where "
                "something hides it; of operators host self, of ranges their own.",
            ),
            "delta_ranges_ns": (
                "Change in ranges",
                "Change of the time in which threads are in any range, over all threads.",
            ),
            "opposite_delta_ns": ("Change against it", "Change of the part that goes the other way."),
            "matrix_ns": ("On matrix units", "Time of kernels known to use matrix units."),
            "stated_wait_ns": ("Waits", "Time in which calls wait for other ranks, as the profile states it."),
            "stated_transit_ns": ("Transit", "Time in which calls move data, as the profile states it."),
            "base_matrix_ns": ("Baseline on matrix units", "Part of it in kernels known to use matrix units."),
            "exp_matrix_ns": ("Experiment on matrix units", "Part of it in kernels known to use matrix units."),
            "base_longest_ns": ("Baseline longest", "The baseline's longest call."),
            "exp_longest_ns": ("Experiment longest", "The experiment's longest call."),
            "base_wait_ns": (
                "Baseline waits",
                "Time in which its calls wait for other ranks, as the profile states it.",
            ),
            "exp_wait_ns": (
                "Experiment waits",
                "Time in which its calls wait for other ranks, as the profile states it.",
            ),
            "base_transit_ns": ("Baseline transit", "Time in which its calls move data, as the profile states it."),
            "exp_transit_ns": ("Experiment transit", "Time in which its calls move data, as the profile states it."),
        },
    ),
    define(
        CHOSEN,
        "number",
        {
            "base_calls": (
                "Baseline calls",
                "Calls on the baseline's side, in tables of operators and modules with those that replays stand for.",
            ),
            "exp_calls": (
                "Experiment calls",
                "Calls on the experiment's side, in tables of operators and modules with those that replays stand for.",
            ),
            "delta_calls": ("Change of calls", "Experiment less baseline."),
            "base_kernels": (
                "Baseline kernels",
                "The baseline's kernels, copies and sets; of an operator those that its device time is the time of.",
            ),
            "exp_kernels": (
                "Experiment kernels",
                "The experiment's kernels, copies and sets; of an operator those that its device time is the time of.",
            ),
            "launched_work": ("Launched", "Kernels, copies and sets that were launched in the calls."),
            "launched_itself": ("Launched itself", "Kernels, copies and sets that the calls launched directly."),
            "delta_kernels": ("Change of kernels", "Experiment less baseline."),
        },
    ),
    define(
        CHOSEN,
        "ratio",
        {
            "time_ratio": ("Ratio", "Experiment over baseline; empty where the baseline has no time."),
            "step_ratio": ("Ratio", "Experiment's step over baseline's."),
            "compared_ratio": (
                "Ratio",
                "Experiment over baseline: 1 where neither has any, empty where the experiment alone has (it is infinite).",
            ),
            "base_share": ("Baseline share", "Part of the baseline's sum of the rows."),
            "exp_share": ("Experiment share", "Part of the experiment's sum of the rows."),
            "base_matched_ratio": (
                "Baseline matched",
                "Part of the baseline's device time, without communication, that was launched in operators whose names the "
                "experiment has with device time too.",
            ),
            "exp_matched_ratio": (
                "Experiment matched",
                "The same of the experiment's device time and the baseline's operators.",
            ),
            "base_alike_ratio": (
                "Baseline alike",
                "Part of the baseline's device time, without communication, in operators that the experiment calls with the "
                "same input shapes.",
            ),
            "exp_alike_ratio": (
                "Experiment alike",
                "The same of the experiment's device time and the baseline's operators.",
            ),
        },
    ),
    define(
        CHOSEN,
        "bytes",
        {
            "base_bytes": ("Baseline", "The baseline's bytes."),
            "exp_bytes": ("Experiment", "The experiment's bytes."),
            "delta_bytes": ("Change", "Experiment less baseline."),
        },
    ),
    define(
        "",
        "count",
        {
            "beside_place": (
                "Place",
                "Place of the kernels of a row among those of the operator on their side, by time.",
            ),
            "path_node": ("Path", "Number of the path of operators around a launch."),
            "parent_path": ("Outer path", "Number of the path without its innermost operator; -1: it is one operator."),
            "tree_node": ("Node", "Number of the place in the call tree."),
            "parent_node": ("Parent", "Number of the place around it; -1 for phases."),
        },
    ),
)
