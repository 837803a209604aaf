"""Metrics of the Diff view."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN, P95, SHARED, define
from tb_plugin.analysis.reported_steps import REPORTED_COMPUTE as OF_KERNELS

_SIDES = {"base": "Baseline", "exp": "Experiment"}
CHANGE = "Experiment minus baseline."
RATIO = "Experiment divided by baseline."
MATCHED = "Share of device time in operators that both sides have."
SAME_SHAPES = "Share of device time in operators with the same name and shapes."


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
    define(
        CHOSEN,
        "number",
        _by_side("mode_tokens_per_second", "tokens/s", "New tokens divided by step-to-step time"),
    ),
    OF_KERNELS,
    define(
        "",
        "code",
        {
            "beside_operator": (
                "Operator",
                "Nearest launching operator found on both sides, else the top-level operator.",
            ),
            "base_kernel": ("Baseline", "Kernel, copy or memset of the baseline."),
            "exp_kernel": ("Experiment", "Kernel, copy or memset of the experiment."),
            "leading_row": ("Row", "Kernel, call, operator or range that changed most in the leading part."),
        },
    ),
    define(
        "",
        "text",
        {
            "setting": ("Setting", "Setting of machine, software or profiler."),
            "presence": ("In", "both: on both sides. new: experiment only. gone: baseline only."),
            "base_setting": ("Baseline", "Setting of the baseline."),
            "exp_setting": ("Experiment", "Setting of the experiment."),
            "maker": ("Vendor", "Device family."),
            "device_word": ("Device type", "Common name of the device type."),
            "measure": ("Measure", "Key of the compared time."),
            "per": ("Per", "step: mean per step. total: sum over steps."),
            "leading_part": ("Part", "Step part that contributed most to the step's change."),
            "opposite_part": ("Opposite part", "Step part that changed most in the opposite direction."),
            "overall_part": ("Part", "Compute, exposed communication, exposed copies, or free."),
            "family": (
                "Family",
                "Attention, convolution or GEMM, from the launching operators; else the kernel class.",
            ),
            "pass_direction": ("Pass", "forward or backward, from operators or the kernel name."),
            "compared_memory": ("Memory", "Largest peak allocated or reserved memory of a device."),
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
            "leading_delta_ns": ("Change", "Change of the leading part."),
            "leading_row_delta_ns": ("Change", "Change of the row, including overlapped time."),
            "delta_ranges_ns": ("Change in ranges", "Change of the time in ranges, summed over all threads."),
            "opposite_delta_ns": ("Opposite change", "Change of the opposite part."),
            "matrix_ns": ("On matrix units", "Kernel time on matrix units."),
            "stated_wait_ns": ("Wait", "Reported wait time for other ranks."),
            "stated_transit_ns": ("Transit", "Reported data transfer time."),
            "base_matrix_ns": ("Baseline on matrix units", _of("Kernel time on matrix units", "base")),
            "exp_matrix_ns": ("Experiment on matrix units", _of("Kernel time on matrix units", "exp")),
            "base_longest_ns": ("Baseline longest", _of("Longest call", "base")),
            "exp_longest_ns": ("Experiment longest", _of("Longest call", "exp")),
            "base_wait_ns": ("Baseline wait", _of("Reported wait time for other ranks", "base")),
            "exp_wait_ns": ("Experiment wait", _of("Reported wait time for other ranks", "exp")),
            "base_transit_ns": ("Baseline transit", _of("Reported data transfer time", "base")),
            "exp_transit_ns": ("Experiment transit", _of("Reported data transfer time", "exp")),
        },
    ),
    define(
        CHOSEN,
        "number",
        {
            "base_calls": ("Baseline calls", _of("Calls, including replays,", "base")),
            "exp_calls": ("Experiment calls", _of("Calls, including replays,", "exp")),
            "delta_calls": ("Change of calls", CHANGE),
            "base_kernels": ("Baseline kernels", _of("Kernels, copies and memsets", "base")),
            "exp_kernels": ("Experiment kernels", _of("Kernels, copies and memsets", "exp")),
            "launched_work": ("Launched", "Kernels, copies and memsets launched, including nested calls."),
            "launched_itself": ("Launched directly", "Kernels, copies and memsets launched directly."),
            "delta_kernels": ("Change of kernels", CHANGE),
        },
    ),
    define(
        CHOSEN,
        "ratio",
        {
            "time_ratio": ("Ratio", RATIO),
            "step_ratio": ("Ratio", "Experiment step divided by baseline step."),
            "compared_ratio": ("Ratio", RATIO),
            "base_share": ("Baseline share", _of("Time divided by its sum over rows", "base")),
            "exp_share": ("Experiment share", _of("Time divided by its sum over rows", "exp")),
            "base_matched_ratio": ("Baseline matched", MATCHED),
            "exp_matched_ratio": ("Experiment matched", MATCHED),
            "base_alike_ratio": ("Baseline same shapes", SAME_SHAPES),
            "exp_alike_ratio": ("Experiment same shapes", SAME_SHAPES),
        },
    ),
    define(
        CHOSEN,
        "bytes",
        {
            "base_bytes": ("Baseline", "Bytes of the baseline."),
            "exp_bytes": ("Experiment", "Bytes of the experiment."),
            "delta_bytes": ("Change", CHANGE),
        },
    ),
    define(
        "",
        "count",
        {
            "beside_place": ("Position", "Position among the operator's kernels, longest first."),
            "path_node": ("Path", "Operator path number."),
            "parent_path": ("Outer path", "Surrounding path number; -1 for a single operator."),
            "tree_node": ("Node", "Node number in the call tree."),
            "parent_node": ("Parent", "Parent node number; -1 for phases."),
        },
    ),
)
