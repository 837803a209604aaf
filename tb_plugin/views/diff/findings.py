"""Findings of a comparison: main change and differing settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tb_plugin.analysis.base import Frame, Part
from tb_plugin.payloads import Figures, Notice, Notices, Severity
from tb_plugin.views.diff.metrics import METRICS
from tb_plugin.views.diff.waterfall import StepTime, leading_part, part_differences

# Relative differences of step times.
SAME_BELOW = 0.01
HIGH_FROM = 0.1
AGAINST_FROM = 0.5
"""A change in the opposite direction is mentioned if it is at least this share of the main change."""


def findings(base: Part, exp: Part, leading: Sequence[Notice]) -> Notices:
    """Returns the findings in ``leading``, followed by reasons why the comparison may be misleading."""
    return Notices("findings", "Findings", "training", [*leading, *_doubts(base, exp)])


def settings(base: Part, exp: Part) -> Frame:
    """Returns the settings of machine, software and profiler that differ between the profiles."""
    ours, theirs = _settings(base), _settings(exp)
    rows = [
        {"setting": key, "base_setting": ours.get(key), "exp_setting": theirs.get(key)}
        for key in dict.fromkeys((*ours, *theirs))
        if ours.get(key) != theirs.get(key)
    ]
    data = pa.Table.from_pylist(
        rows, pa.schema([(key, pa.string()) for key in ("setting", "base_setting", "exp_setting")])
    )
    return Frame("settings", "Different settings", METRICS.columns(*data.column_names), data, ("setting",), "setting")


def _settings(part: Part) -> dict[str, str]:
    found: dict[str, str] = {}
    configuration = part.payloads.get("configuration")
    if isinstance(configuration, Figures):
        stated = [f for f in configuration.figures if f.metric.key != "trace_id" and f.value not in (None, "")]
        found |= {f.metric.title: str(f.value) for f in stated}
    devices = part.payloads["devices"]
    if isinstance(devices, Figures) and devices.figures:
        found["Device"] = ", ".join(dict.fromkeys(str(f.value) for f in devices.figures))
    return found


def leading_notice(
    base: StepTime, exp: StepTime, summed: tuple[int, int] | None, row: tuple[str, float] | None
) -> Notice:
    """Returns a finding about the part of the step that explains most of the total change.

    ``summed`` contains the step counts of both sides if times are sums over steps, else it is None. If the counts
    differ, the finding does not say which side is faster. ``row`` is the table row within that part that changed
    most, with its change in ns.
    """
    each = "per step" if summed is None else "in total"
    whole = "The whole step" if summed is None else "The sum of the steps"
    times = "The step times" if summed is None else "The sums of the steps"
    unlike = f" These are sums over {summed[0]:,} and {summed[1]:,} steps." if summed and summed[0] != summed[1] else ""
    parts = part_differences(base, exp)
    total = exp.total_ns - base.total_ns
    share = total / base.total_ns if base.total_ns else 0.0
    change = METRICS.figure("delta_step_ns", total)
    titles = {metric.key: metric.title for metric in exp.metrics}
    key = leading_part(base, exp)
    against = _opposite_part(parts, key, SAME_BELOW * base.total_ns)
    leading = [METRICS.figure("leading_part", titles[key]), METRICS.figure("leading_delta_ns", parts[key])]
    opposite = []
    if against is not None:
        opposite = [
            METRICS.figure("opposite_part", titles[against]),
            METRICS.figure("opposite_delta_ns", parts[against]),
        ]
    if abs(share) < SAME_BELOW:
        text = f"{times} differ by {{delta_step_ns}}, less than 1 %.{unlike}"
        if opposite:
            text += (
                " Two changes cancel out: {leading_part} {leading_delta_ns} and {opposite_part} {opposite_delta_ns} "
                f"{each}."
            )
            return Notice(
                "same_step_time", "info", text, "", [change, *leading, *opposite], "delta_step_ns", SAME_BELOW
            )
        return Notice("same_step_time", "info", text, "", [change], "delta_step_ns", SAME_BELOW)
    most = ""
    if row is not None:
        all_of_it = " of total time, including overlapped time" if key == "dataloader_ns" else ""
        most = f", mostly {{leading_row}} ({{leading_row_delta_ns}}{all_of_it})"
        leading += [METRICS.figure("leading_row", row[0]), METRICS.figure("leading_row_delta_ns", row[1])]
    severity: Severity = "info" if total < 0 or unlike else "high" if share > HIGH_FROM else "medium"
    rule = "unlike_sums" if unlike else "slower" if total > 0 else "faster"
    return Notice(
        rule,
        severity,
        f"Main change: {{leading_part}}, {{leading_delta_ns}} {each}{most}. "
        + ("Partly offset by {opposite_part}: {opposite_delta_ns}. " if opposite else "")
        + f"{whole} changed by {{delta_step_ns}}.{unlike}",
        "",
        [*leading, change, *opposite],
        "leading_delta_ns",
    )


def _opposite_part(parts: Mapping[str, int], leading: str, least_ns: float) -> str | None:
    """Part of the step with the largest change in the opposite direction.

    None if this is less than ``AGAINST_FROM`` of the main change, or less than ``least_ns``.
    """
    change = parts[leading]
    found = min(parts, key=lambda part: (parts[part] if change > 0 else -parts[part], part))
    size = abs(parts[found])
    return found if parts[found] * change < 0 and size >= max(AGAINST_FROM * abs(change), least_ns) else None


def _doubts(base: Part, exp: Part) -> list[Notice]:
    notices = []
    if bool(base.steps) != bool(exp.steps):
        text = "Only one profile has steps: its mean step is compared with the whole recording of the other profile."
        todo = "Record steps in both profiles: call step() of the profiler after each one."
        notices.append(Notice("steps_on_one_side", "medium", text, todo, []))
    windows = [part.coverage.window for part in (base, exp)]
    if any(windows):
        text = "Only a window of a large trace is compared."
        todo = "Choose the windows of both profiles above. The (i) button shows the opened part."
        notices.append(Notice("window", "medium", text, todo, []))
    if any(not part.coverage.complete and part.coverage.window is None for part in (base, exp)):
        text = "A file is truncated: the missing part looks like saved time."
        notices.append(Notice("incomplete_side", "medium", text, "Record it again, or select complete steps.", []))
    ours, theirs = _settings(base), _settings(exp)
    if ours.get("Profiler options") != theirs.get("Profiler options"):
        text = "The profiler options differ. Recording shapes, stacks or memory slows a run down."
        notices.append(Notice("options_differ", "low", text, "Record both profiles with the same options.", []))
    return notices
