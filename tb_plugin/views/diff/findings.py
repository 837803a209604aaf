"""Findings of a comparison: the main change, and different settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from tb_plugin.analysis.base import Frame, Part
from tb_plugin.analysis.range_patterns import DATALOADER
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Figure, Figures, Metric, Notice, Notices, Severity
from tb_plugin.views.diff.metrics import CHANGE, METRICS
from tb_plugin.views.diff.noise import Noise, change_sentence, interval_figures
from tb_plugin.views.diff.paired_tables import PER_STEP, RANGES, TOTAL, Scaling, join, own_ns
from tb_plugin.views.diff.step_parts import is_on_device
from tb_plugin.views.diff.waterfall import StepTime, leading_part, part_differences

# Name of a payload: vendors of the devices with recorded work.
VENDORS = "vendors"
REPORTED_STEP = "diff.stated_step_ns"
# Facts of a profile with missing kernels: its reported and its recorded compute time.
REPORTED_COMPUTE, RECORDED_COMPUTE = "diff.stated_compute_ns", "diff.recorded_compute_ns"
# Relative differences of step times.
SAME_BELOW = 0.01
HIGH_FROM = 0.1
# Changes of other parts are mentioned from these shares of the main change and of the step.
ALONG_FROM = 0.25
AGAINST_FROM = 0.1
MOST_MENTIONED = 3
# Settings that differ between any two recordings: times, paths, process ids and the like.
_ALWAYS_DIFFERENT = re.compile(
    r"(time|date|datetime|timestamp|stamp|path|file|filename|dir|directory|folder|pid|uuid|port|url|cmdline|argv)s?",
    re.IGNORECASE,
)
_TRUNCATED_JSON = re.compile(r"[{\[].*[^}\]]", re.DOTALL)
_PATH = re.compile(r"(/|~/|[A-Za-z]:\\|[a-z0-9]+://)\S*$|\d{4}-\d\d-\d\d[T ]\d\d:")


def findings(base: Part, exp: Part, leading: Sequence[Notice]) -> Notices:
    """Returns the findings in ``leading``, followed by reasons why the comparison may be misleading."""
    return Notices("findings", "Findings", "training", [*leading, *_doubts(base, exp)])


def kernels_missing(base: Part, exp: Part) -> list[Notice]:
    """Returns a finding for each side with missing kernels, because missing kernels look like saved time."""
    text = (
        "Kernels of the {side} are missing: its profiler reports {{stated_compute_ns}} of computation, but its "
        "kernels cover only {{recorded_compute_ns}}. The missing kernels can make kernels and step parts look new, "
        "missing or faster."
    )
    todo = "Choose a profile that contains kernels. In this profile, only the reported step times can be compared."
    notices = []
    for side, facts in (("baseline", base.facts), ("experiment", exp.facts)):
        if REPORTED_COMPUTE in facts:
            keys = (REPORTED_COMPUTE, RECORDED_COMPUTE)
            figures = [METRICS.figure(key.removeprefix("diff."), facts[key]) for key in keys]
            notices.append(Notice("kernels_missing", "high", text.format(side=side), todo, figures))
    return notices


def have_other_vendors(base: Part, exp: Part) -> bool:
    found = (part.payloads.get(VENDORS) for part in (base, exp))
    one, other = ({each.value for each in side.figures} if isinstance(side, Figures) else set() for side in found)
    return bool(one and other) and not one & other


def range_notices(base: Part, exp: Part) -> Sequence[Notice]:
    """Returns a finding about the range with the largest change of self time. Without changes, the result is empty."""
    before, after = own_ns(base), own_ns(exp)
    data = join(base, RANGES, exp, "host_self_ns", Scaling("total", 1, 1)).data
    if not data.num_rows:
        return []
    at = int(pc.index(pc.abs(data["delta_ns"]), pc.max(pc.abs(data["delta_ns"]))).as_py())
    change = data["delta_ns"][at].as_py()
    if not change:
        return []
    figures = [
        METRICS.figure("leading_row", data["name"][at].as_py()),
        METRICS.figure("leading_row_delta_ns", change),
        METRICS.figure("delta_ranges_ns", after - before),
    ]
    text = (
        "Largest change: {leading_row} ({leading_row_delta_ns} of self time). Total time in ranges: {delta_ranges_ns}."
    )
    return [Notice("ranges_changed", "info", text, "", figures, "leading_row_delta_ns")]


def settings(base: Part, exp: Part) -> Frame:
    ours, theirs = _settings(base), _settings(exp)
    rows = [
        {"setting": key, "base_setting": ours.get(key), "exp_setting": theirs.get(key)}
        for key in dict.fromkeys((*ours, *theirs))
        if ours.get(key) != theirs.get(key) and not _is_incidental(key, ours.get(key), theirs.get(key))
    ]
    data = pa.Table.from_pylist(
        rows, pa.schema([(key, pa.string()) for key in ("setting", "base_setting", "exp_setting")])
    )
    return Frame("settings", "Different settings", METRICS.columns(*data.column_names), data, ("setting",), "setting")


def _is_incidental(key: str, *values: str | None) -> bool:
    """Returns whether a setting says nothing about the program: each recording has a value of its own."""
    words = re.split(r"[._\-\s]|(?<=[a-z])(?=[A-Z])", key)
    is_own = any(_PATH.match(value or "") or _TRUNCATED_JSON.fullmatch(value or "") for value in values)
    return is_own or bool(_ALWAYS_DIFFERENT.fullmatch(words[-1]))


def _settings(part: Part) -> dict[str, str]:
    found: dict[str, str] = {}
    devices = part.payloads["devices"]
    if isinstance(devices, Figures) and devices.figures:
        found["Device"] = ", ".join(dict.fromkeys(str(f.value) for f in devices.figures))
    configuration = part.payloads.get("configuration")
    if isinstance(configuration, Figures):
        stated = [f for f in configuration.figures if f.metric.key != "trace_id" and f.value not in (None, "")]
        found |= {f.metric.title: str(f.value) for f in stated}
    return found


def leading_notice(
    base: StepTime,
    exp: StepTime,
    steps: tuple[int, int],
    noise: Noise | None,
    row: tuple[str, float] | None,
    *,
    per: str,
) -> Notice:
    """Returns a finding about the change of the step time, its significance, and the part that explains most of it.

    If times are sums over different numbers of steps, the finding does not say which side is faster. ``row``
    contains the table row with the largest change in that part of the step, and the change in ns.
    """
    summed = per == TOTAL
    each = "in total" if summed else "per step"
    unlike = f" The times are sums over {steps[0]:,} and {steps[1]:,} steps." if summed and steps[0] != steps[1] else ""
    parts = part_differences(base, exp)
    total = exp.total_ns - base.total_ns
    share = total / base.total_ns if base.total_ns else 0.0
    is_same = abs(share) < SAME_BELOW
    subject = "The sum of the step times" if summed else "The step time"
    text = change_sentence(subject, noise, steps, ", less than 1 %" if is_same else "") + unlike
    change = [METRICS.figure("delta_step_ns", total), *interval_figures(noise)]
    titles = {metric.key: metric.title for metric in exp.metrics}
    key = leading_part(base, exp)
    significant = [each for each in parts if noise is None or noise.parts[each].is_significant]
    along, against = (
        _mentioned(parts, significant, key, max(least * abs(parts[key]), SAME_BELOW * base.total_ns), same=same)
        for least, same in ((ALONG_FROM, True), (AGAINST_FROM, False))
    )
    leading = [METRICS.figure("leading_part", titles[key]), METRICS.figure("leading_delta_ns", parts[key])]
    changes = [_part_change(exp.metrics, each, parts[each]) for each in (*along, *against)]
    # A change within noise needs no explanation.
    is_noise = key not in significant
    if is_same:
        if against and not is_noise:
            text += f" Changes cancel out: {{leading_part}} {{leading_delta_ns}} {each}, {_listed(titles, against)}."
            change += [*leading, *changes]
        return Notice("same_step_time", "info", text, "", change, "delta_step_ns", SAME_BELOW)
    if noise is not None and not noise.step.is_significant and is_noise:
        return Notice("within_noise", "info", text, "", change, "delta_step_ns")
    most = ""
    if row is not None:
        most = ", mostly {leading_row} ({leading_row_delta_ns})"
        leading += [METRICS.figure("leading_row", row[0]), METRICS.figure("leading_row_delta_ns", row[1])]
    is_harmless = total < 0 or unlike or (noise is not None and not noise.step.is_significant)
    severity: Severity = "info" if is_harmless else "high" if share > HIGH_FROM else "medium"
    rule = "unlike_sums" if unlike else "slower" if total > 0 else "faster"
    return Notice(
        rule,
        severity,
        f"{text} Main change: {{leading_part}}, {{leading_delta_ns}} {each}{most}."
        + (f" Also {'slower' if parts[key] > 0 else 'faster'}: {_listed(titles, along)}." if along else "")
        + (f" Partly offset by {_listed(titles, against)}." if against else ""),
        "",
        [*leading, *change, *changes],
        "leading_delta_ns",
    )


def _mentioned(
    parts: Mapping[str, int], significant: Sequence[str], leading: str, least_ns: float, *, same: bool
) -> list[str]:
    """Returns other parts that changed by at least ``least_ns`` in the same or in the opposite direction, largest first."""
    found = [
        each
        for each in significant
        if each != leading and abs(parts[each]) >= least_ns and (parts[each] * parts[leading] > 0) == same
    ]
    return sorted(found, key=lambda each: -abs(parts[each]))[:MOST_MENTIONED]


def _listed(titles: Mapping[str, str], parts: Sequence[str]) -> str:
    texts = [f"{titles[each]} {{delta_{each}}}" for each in parts]
    return f"{', '.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else texts[0]


def _part_change(metrics: Sequence[Metric], part: str, change_ns: int) -> Figure:
    metric = next(each for each in metrics if each.key == part)
    return Figure(replace(metric, key=f"delta_{part}", definition=f"{CHANGE} {metric.definition}"), change_ns)


def phases_notice(base: Part, exp: Part, base_step: StepTime, exp_step: StepTime, scaling: Scaling) -> list[Notice]:
    """Returns a finding if training stages changed in opposite directions, with the likely cause where it is recorded."""
    main = leading_part(base_step, exp_step)
    change = part_differences(base_step, exp_step)[main]
    on_device = is_on_device(main)
    one, other = (
        _phase_times(side, "device_ns" if on_device else "host_ns", count)
        for side, count in ((base, scaling.base), (exp, scaling.exp))
    )
    least = max(AGAINST_FROM * abs(change), SAME_BELOW * base_step.total_ns)
    moved = {name: other.get(name, 0.0) - one.get(name, 0.0) for name in dict.fromkeys((*one, *other))}
    moved = {name: time for name, time in moved.items() if abs(time) >= least}
    against = [name for name, time in moved.items() if time * change < 0]
    if not against:
        return []
    texts, figures = [], []
    for number, (name, time) in enumerate(moved.items()):
        metric = METRICS["delta_phase_ns"]
        figures.append(Figure(replace(metric, key=f"{metric.key}_{number}", title=name), time))
        texts.append(f"{name} {{{metric.key}_{number}}}")
    text = (
        f"{'Device' if on_device else 'CPU'} time by phase, {'per step' if scaling.per == PER_STEP else 'in total'}: "
    )
    text += ", ".join(texts) + "."
    loaders = [_loads_in_processes(side) for side in (base, exp)]
    if not on_device and change < 0 and loaders == [False, True]:
        text += (
            " The experiment loads data in worker processes, the baseline in the training process. Likely cause: the "
            "workers compete with the training process for the CPU."
        )
    return [Notice("phases_changed", "info", text, "", figures)]


def _phase_times(part: Part, value: str, count: int) -> dict[str, float]:
    data = part.frames["call_tree"].data
    phases = data.filter(pc.equal(data["parent_node"], MISSING))
    times = zip(phases["name"].to_pylist(), phases[value].to_pylist(), strict=True)
    return {name: time / count for name, time in times}


def _loads_in_processes(part: Part) -> bool | None:
    """Returns whether the data loader runs worker processes; None if no data loader is recorded."""
    names = [name for name in part.frames["call_tree"].data["name"].to_pylist() if DATALOADER.match(name)]
    return any("MultiProcessing" in name for name in names) if names else None


def _doubts(base: Part, exp: Part) -> list[Notice]:
    notices = []
    if have_other_vendors(base, exp):
        text = (
            "The devices come from different vendors and their kernels have different names, so kernels cannot be "
            "compared one by one. Step parts, operators and kernel classes can be compared."
        )
        todo = "Compare profiles of the same model and batch size."
        notices.append(Notice("other_makers", "info", text, todo, []))
    if bool(base.steps) != bool(exp.steps):
        text = "Only one profile has steps: its mean step is compared with the whole recording of the other profile."
        todo = "Record steps in both profiles: call step() of the profiler after each training step."
        notices.append(Notice("steps_on_one_side", "medium", text, todo, []))
    windows = [part.coverage.window for part in (base, exp)]
    if any(windows):
        text = "Only a window of a large trace is compared."
        todo = "Choose the windows of both profiles above. The (i) button shows which part of the trace is open."
        notices.append(Notice("window", "medium", text, todo, []))
    if any(not part.coverage.complete and part.coverage.window is None for part in (base, exp)):
        text = "A file is truncated: the missing part looks like saved time."
        notices.append(
            Notice("incomplete_side", "medium", text, "Record the truncated file again, or select complete steps.", [])
        )
    ours, theirs = _settings(base), _settings(exp)
    if ours.get("Profiler options") != theirs.get("Profiler options"):
        text = "The profiler options differ. Recording shapes, stacks or memory slows a run down."
        notices.append(Notice("options_differ", "low", text, "Record both profiles with the same options.", []))
    return notices
