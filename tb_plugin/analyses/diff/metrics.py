"""The metrics of this view alone: what two profiles differ in."""

from __future__ import annotations

from tb_plugin.analyses.metrics import CHOSEN, SHARED, define

METRICS = SHARED.adding(
    define(
        "",
        "code",
        {
            "leading_row": (
                "Row",
                "Row of the leading part that changed most its way: a kernel, a runtime call, an operator, "
                "or the data loader's range; where only ranges are known the name whose own time changed most.",
            )
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
            "measure": ("Measure", "Key of the time that tables and call tree compare."),
            "per": ("Per", "step: means of the chosen steps; total: their sums."),
            "leading_part": ("Part", "Part of the step that changed most in the direction of the whole."),
            "opposite_part": ("Against it", "Part of the step that changed most in the other direction."),
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
        },
    ),
    define(
        CHOSEN,
        "number",
        {
            "base_calls": ("Baseline calls", "Calls on the baseline's side."),
            "exp_calls": ("Experiment calls", "Calls on the experiment's side."),
            "delta_calls": ("Change of calls", "Experiment less baseline."),
        },
    ),
    define(
        CHOSEN,
        "ratio",
        {
            "time_ratio": ("Ratio", "Experiment over baseline; empty where the baseline has no time."),
            "step_ratio": ("Ratio", "Experiment's step over baseline's."),
        },
    ),
    define(
        "",
        "count",
        {
            "tree_node": ("Node", "Number of the place in the call tree."),
            "parent_node": ("Parent", "Number of the place around it; -1 for phases."),
        },
    ),
)
