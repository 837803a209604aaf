"""What a comparison says in words: which part leads, and what besides the code differs between the two recordings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tb_plugin.analysis.base import Frame, Part
from tb_plugin.payloads import Figures, Notice, Notices, Severity
from tb_plugin.views.diff.metrics import METRICS
from tb_plugin.views.diff.waterfall import StepTime, difference, leading_part

SAME_BELOW = 0.01
"""Step times that differ by a smaller share are called equal."""
HIGH_FROM = 0.1
AGAINST_FROM = 0.5
"""A part that changed the other way is named from this share of the leading part's change on."""


def findings(base: Part, exp: Part, leading: Sequence[Notice]) -> Notices:
    """Returns what changed most first, then what makes the comparison unfair."""
    return Notices("findings", "Findings", "training", [*leading, *_unlike(base, exp)])


def settings(base: Part, exp: Part) -> Frame:
    """Returns what the files say of machine, software and profiler options, where the two differ."""
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
    """Title -> value; of several devices with one name the name."""
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
    """Returns the part with the largest change in the direction of the whole. Sums of unlike numbers of steps judge nothing.

    ``summed`` says of how many steps each time is the sum; None where it is that of one step. ``row`` is the row of the
    leading part that changed most, and its change in nanoseconds.
    """
    each = "a step" if summed is None else "in all"
    whole = "The whole step" if summed is None else "The sum of the steps"
    times = "The step times" if summed is None else "The sums of the steps"
    unlike = f" They are sums of {summed[0]:,} and {summed[1]:,} steps." if summed and summed[0] != summed[1] else ""
    parts = difference(base, exp)
    total = exp.total_ns - base.total_ns
    share = total / base.total_ns if base.total_ns else 0.0
    change = METRICS.figure("delta_step_ns", total)
    titles = {metric.key: metric.title for metric in exp.metrics}
    key = leading_part(base, exp)
    against = _against(parts, key, SAME_BELOW * base.total_ns)
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
                " Two changes cancel: {leading_part} {leading_delta_ns} and {opposite_part} {opposite_delta_ns} "
                f"{each}."
            )
            return Notice(
                "same_step_time", "info", text, "", [change, *leading, *opposite], "delta_step_ns", SAME_BELOW
            )
        return Notice("same_step_time", "info", text, "", [change], "delta_step_ns", SAME_BELOW)
    most = ""
    if row is not None:
        all_of_it = " of all its time, hidden or not" if key == "dataloader_ns" else ""
        most = f", the largest change in {{leading_row}} ({{leading_row_delta_ns}}{all_of_it})"
        leading += [METRICS.figure("leading_row", row[0]), METRICS.figure("leading_row_delta_ns", row[1])]
    severity: Severity = "info" if total < 0 or unlike else "high" if share > HIGH_FROM else "medium"
    rule = "unlike_sums" if unlike else "slower" if total > 0 else "faster"
    return Notice(
        rule,
        severity,
        f"{{leading_part}} leads: {{leading_delta_ns}} {each}{most}. "
        + ("Against it {opposite_part}: {opposite_delta_ns}. " if opposite else "")
        + f"{whole} changed by {{delta_step_ns}}.{unlike}",
        "",
        [*leading, change, *opposite],
        "leading_delta_ns",
    )


def _against(parts: Mapping[str, int], leading: str, least_ns: float) -> str | None:
    """The part that changed most against the leading one, if by at least half as much and by ``least_ns``."""
    change = parts[leading]
    found = min(parts, key=lambda part: (parts[part] if change > 0 else -parts[part], part))
    size = abs(parts[found])
    return found if parts[found] * change < 0 and size >= max(AGAINST_FROM * abs(change), least_ns) else None


def _unlike(base: Part, exp: Part) -> list[Notice]:
    """Reasons to doubt the comparison."""
    notices = []
    if bool(base.steps) != bool(exp.steps):
        text = "Only one side has profiler steps: its mean step is compared with the whole recording of the other."
        notices.append(Notice("steps_on_one_side", "medium", text, "Have the steps recorded on both sides.", []))
    windows = [part.coverage.window for part in (base, exp)]
    if any(windows):
        text = "Only a window of a large trace is compared."
        todo = "Choose the window above, that of the baseline beside it; the (i) says what was opened."
        notices.append(Notice("window", "medium", text, todo, []))
    if any(not part.coverage.complete and part.coverage.window is None for part in (base, exp)):
        text = "A file is cut off: what is missing there looks like time saved."
        notices.append(Notice("incomplete_side", "medium", text, "Record it again, or choose complete steps.", []))
    ours, theirs = _settings(base), _settings(exp)
    if ours.get("Profiler options") != theirs.get("Profiler options"):
        text = "The profiler options differ. Shapes, stacks and memory cost time of their own."
        notices.append(Notice("options_differ", "low", text, "Record both sides with the same options.", []))
    return notices
