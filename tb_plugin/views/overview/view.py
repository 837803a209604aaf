"""Cost of a step, device activity and findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from msgspec.structs import asdict

from tb_plugin.analysis.base import Frame, Number, Params, Part
from tb_plugin.analysis.busy_intervals import device_busy
from tb_plugin.analysis.device_time import (
    DeviceRatios,
    DeviceTime,
    busy_title,
    device_ratios,
    device_time,
    without_operator,
)
from tb_plugin.analysis.failure_notices import failed_payloads
from tb_plugin.analysis.metrics import CHOSEN_STEPS, NO_STEPS, STEP
from tb_plugin.analysis.phrases import count_with_noun
from tb_plugin.analysis.range_traces import is_range_trace
from tb_plugin.analysis.reported_steps import missing_computation, reported_step_length, reported_steps
from tb_plugin.analysis.selection import Selection, select_rows, steps_of
from tb_plugin.analysis.step_shares import UNRECORDED, StepShares, active_rows, break_down
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.lib.isolation import Isolation
from tb_plugin.model.trace.schema import DEVICE_WORK, EventKind, of_kind
from tb_plugin.model.trace.table import Steps, TraceTable
from tb_plugin.payloads import (
    Breakdown,
    Column,
    Figures,
    Line,
    Link,
    Metric,
    Notice,
    Notices,
    Payload,
    Series,
    Slice,
)
from tb_plugin.rules._ordered_findings import Findings, LeftOut, findings_of, left_out, unknown_notices
from tb_plugin.rules._verdict import verdict_of
from tb_plugin.sql.statements import with_sql
from tb_plugin.views.overview import VIEW
from tb_plugin.views.overview.configuration import configuration
from tb_plugin.views.overview.core_kinds import core_facts
from tb_plugin.views.overview.data_quality import crossing_count, data_notices
from tb_plugin.views.overview.device_cards import cards_of_devices, idle_facts
from tb_plugin.views.overview.device_steps import OfDevices, steps_of_devices
from tb_plugin.views.overview.first_sentence import cost_notices, largest_cost, reported_cost
from tb_plugin.views.overview.health import outside_steps, trace_health
from tb_plugin.views.overview.metrics import METRICS
from tb_plugin.views.overview.model_flops import ModelFlops, model_flops
from tb_plugin.views.overview.range_overview import ranges_payloads

EVIDENCE = {
    "kernel": ("kernels", {}),
    "memcpy": ("kernels", {"group": "copies"}),
    "memset": ("kernels", {"group": "copies"}),
    "runtime": ("launches", {}),
    "cpu": ("operators", {}),
}
"""View and parameters that show the events of each category. Categories that are not listed link to the timeline."""

MAX_TILES = 5
Card = Breakdown | Figures | Notices | Series
TOTAL = Metric("total_ns", "Total", "ns", METRICS["step_total_ns"].definition, METRICS["step_total_ns"].window)


class Overview(DeclaredView, entry=VIEW):
    def part_key(self, params: Params) -> tuple[object, ...]:
        return (params.steps, left_out(params))

    def part(self, trace: TraceTable, params: Params) -> Part:
        steps, selection = steps_of(trace, params.steps), select_rows(trace, params.steps)
        breakdown = break_down(trace, params.steps)
        times = {d.id: t for i, d in enumerate(trace.devices) if (t := device_time(trace, i)) is not None}
        ratios = {d.id: device_ratios(trace, i, params.steps) for i, d in enumerate(trace.devices) if d.id in times}
        window = NO_STEPS if not trace.steps.recorded else CHOSEN_STEPS if params.steps else ""
        parts = Isolation()
        run, no_facts = parts.run, dict[str, Number]()
        facts = run("Facts", lambda: _facts(trace, breakdown, times, ratios), no_facts)
        if is_range_trace(trace):
            return _range_page(trace, breakdown, selection, facts, parts)
        # Without kernels, the idle time of a device is unknown.
        known = missing_computation(trace) is None
        on_devices = run(
            "Device time per step", lambda: steps_of_devices(trace, steps, params.steps), OfDevices({}, {}, {})
        )
        out = left_out(params)
        # The cost comes first: it needs the most memory, and findings leave large caches.
        verdict = run("Verdict", lambda: verdict_of(trace, params.steps) if known else None, None)
        cost = run("Largest costs", lambda: largest_cost(trace, steps, verdict, selection.chosen), None)
        findings = run("Findings", lambda: findings_of(trace, params.steps, out), None)
        if findings is not None:
            parts.failures += findings.failures
        flops = run("MFU", lambda: model_flops(trace, params.steps, breakdown) if known and times else None, None)

        def headline() -> Card:
            if not known:
                return _reported_headline(trace, params)
            used = {device: ratio for device, ratio in ratios.items() if times[device].kernels}
            return _headline(trace, breakdown, used if trace.report.complete else {}, flops, window)

        def largest() -> Card | None:
            found = findings or Findings.without(verdict)
            costs = (
                cost_notices(trace, steps, cost, found, params.steps) if known else reported_cost(trace, params.steps)
            )
            return Notices("largest_costs", "Largest costs", "answer", costs) if costs else None

        has_device = bool(times)
        payloads = {
            **_card(parts, "Headline", headline),
            **_card(parts, "Largest costs", largest),
            **_card(
                parts,
                "Steps",
                lambda: _steps_series(breakdown, has_device) if steps.recorded else None,
            ),
            **_card(
                parts,
                "Average step",
                lambda: _average(breakdown, has_device, _step_title(trace, steps)) if known else None,
            ),
            **_card(parts, "Outside steps", lambda: outside_steps(trace)),
            **(_findings(findings, out) if findings is not None else {}),
            **{f"device_steps_{device}": bar for device, bar in on_devices.bars.items()},
            **cards_of_devices(trace, times, times if known else {}, ratios if known else {}, window, parts),
            **_trace_cards(trace, breakdown, window, parts, lambda: unknown_notices(out)),
        }
        facts = facts | run("Idle time", lambda: idle_facts(trace, steps, times), no_facts) | on_devices.facts
        payloads |= failed_payloads(parts.failures)
        return Part(
            coverage=selection.coverage,
            facts=facts,
            frames={**with_sql({"steps": _frame(breakdown, flops)}, params), **on_devices.frames},
            payloads=payloads,
            layout=(*payloads, *(name for name, frame in on_devices.frames.items() if len(frame.data))),
        )


def _card(parts: Isolation, title: str, make: Callable[[], Card | None]) -> dict[str, Payload]:
    """Returns the payload by name. Without a payload, or if its computation fails, the result is empty."""
    card = parts.run(title, make, None)
    return {} if card is None else {card.name: card}


def _range_page(
    trace: TraceTable, breakdown: StepShares, selection: Selection, facts: dict[str, Number], parts: Isolation
) -> Part:
    nothing: tuple[dict[str, Payload], dict[str, Frame]] = ({}, {})
    payloads, frames = parts.run("Ranges", lambda: ranges_payloads(trace), nothing)
    cards = _trace_cards(trace, breakdown, NO_STEPS, parts)
    cards |= failed_payloads(parts.failures)
    layout = (*payloads, *frames, *cards)
    return Part(selection.coverage, facts, {"steps": _frame(breakdown), **frames}, {**payloads, **cards}, layout)


def _trace_cards(
    trace: TraceTable, breakdown: StepShares, window: str, parts: Isolation, more: Callable[[], list[Notice]] = list
) -> dict[str, Payload]:
    notices = [*data_notices(trace, parts), *parts.run("About torch_trace_ignore", more, list[Notice]())]
    return {
        **_card(parts, "Trace health", lambda: trace_health(trace, breakdown, window)),
        **_card(parts, "Configuration", lambda: configuration(trace)),
        "data_quality": Notices("data_quality", "About this trace", "data", notices),
    }


def _findings(findings: Findings, out: LeftOut) -> dict[str, Payload]:
    payloads: dict[str, Payload] = {"findings": Notices("findings", "Findings", "training", findings.notices)}
    if findings.left_out:
        ignored = sum(each.rule.id in out.ignored for each in findings.left_out)
        figures = [
            METRICS.figure("findings_dismissed", len(findings.left_out) - ignored),
            METRICS.figure("findings_ignored", ignored),
        ]
        payloads["left_out"] = Figures("left_out", "Dismissed findings", "", figures)
    return payloads


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _step_title(trace: TraceTable, steps: Steps) -> str:
    if not steps.recorded:
        begun = [int(busy.start[0]) for busy in device_busy(trace).values() if len(busy)]
        is_late = bool(begun) and min(begun) < int(steps.start_ns[0])
        return "Recording, without work launched before it" if is_late else "Whole recording"
    return "Average step" if len(steps.label) != 1 else f"Step {steps.label[0]}"


def _headline(
    trace: TraceTable, breakdown: StepShares, ratios: dict[str, DeviceRatios], flops: ModelFlops | None, window: str
) -> Figures:
    recorded, count = trace.steps.recorded, len(breakdown.label)
    total = float(breakdown.total.mean()) if count else None
    subtitle = count_with_noun(count, "step") if recorded else "no steps recorded"
    of = ("of the step" if count == 1 else "of the steps") if recorded else "of the recording"
    note = subtitle if recorded else ""
    figures = [METRICS.figure("step_time_mean_ns", total, "" if recorded else "Recorded time", note, window)]
    if count > 1:
        figures.append(METRICS.figure("step_time_p95_ns", float(np.percentile(breakdown.total, 95)), window=window))
    unrecorded = _share(breakdown, UNRECORDED)
    if unrecorded:
        note = "per step" if count > 1 else of
        figures.append(METRICS.figure("unrecorded_ns", breakdown.mean(UNRECORDED), "", note, window))
    if ratios:
        known = f"{of} excluding unrecorded work" if unrecorded else of
        note = f"{known}, mean of {len(ratios)} devices" if len(ratios) > 1 else known
        note += ", kernels only" if breakdown.parts["memcpy"].any() or breakdown.parts["memset"].any() else ""
        mean = _mean([ratio.utilization for ratio in ratios.values()])
        figures.append(METRICS.figure("utilization", mean, busy_title(trace, *ratios), note, window))
    if flops is not None and ratios:
        figures += flops.figures(window)
    if active_rows(trace, "dataloader").any():
        figures.append(METRICS.figure("waiting_for_input", _share(breakdown, "dataloader"), "", of, window))
    if trace.report.complete and trace.is_collective.any():
        figures.append(METRICS.figure("communication_exposed", _share(breakdown, "communication"), "", of, window))
    if len(figures) > MAX_TILES:
        figures = [each for each in figures if each.metric.key != "step_time_p95_ns"]
    return Figures("headline", "Headline", subtitle, figures, "headline")


def _reported_headline(trace: TraceTable, params: Params) -> Figures:
    length = reported_step_length(reported_steps(trace, params.steps))
    figures = [METRICS.figure("stated_step_ns", length, window=CHOSEN_STEPS if params.steps else "")]
    return Figures("headline", "Headline", "reported by the profiler", figures, "headline")


def _share(breakdown: StepShares, category: str) -> float | None:
    total = int(breakdown.total.sum())
    return int(breakdown.parts[category].sum()) / total if total else None


def _categories(breakdown: StepShares, has_device: bool) -> list[str]:
    """Returns the categories with time. Without a device, only the CPU is certain to be recorded."""
    always = ("kernel",) if has_device else ("cpu",)
    return [c for c in breakdown.categories if c in always or breakdown.parts[c].any()]


def _steps_series(breakdown: StepShares, has_device: bool) -> Series:
    lines = [
        Line(METRICS.metric(f"{c}_ns"), c, [int(v) for v in breakdown.parts[c]])
        for c in _categories(breakdown, has_device)
    ]
    return Series(
        name="steps",
        title="Steps",
        subtitle="host start to last device event" if has_device else "",
        x_metric=METRICS.metric("step"),
        x=list(breakdown.label),
        lines=lines,
        style="stacked_bars",
    )


def _average(breakdown: StepShares, has_device: bool, title: str) -> Breakdown:
    count = max(len(breakdown.total), 1)
    # Without launches, their view would be empty.
    views = {c: view for c, view in EVIDENCE.items() if c != "runtime" or breakdown.parts[c].any()}
    parts = [
        Slice(
            metric=METRICS.metric(f"{c}_ns", window="mean per step"),
            category=c,
            value=int(breakdown.parts[c].sum()) / count,
            link=Link(*views.get(c, ("timeline", {})), "Show evidence"),
        )
        for c in _categories(breakdown, has_device)
    ]
    total = int(breakdown.total.sum()) / count
    return Breakdown("average_step", title, "", "ns", total, parts, "table")


def _frame(breakdown: StepShares, flops: ModelFlops | None = None) -> Frame:
    data = {"step": pa.array(breakdown.label, pa.string())}
    data |= {f"{c}_ns": pa.array(breakdown.parts[c]) for c in breakdown.categories}
    data["total_ns"] = pa.array(breakdown.total)
    found = flops.columns() if flops is not None else {}
    return Frame(
        name="steps",
        title="Steps",
        columns=[
            *METRICS.columns("step", *(f"{c}_ns" for c in breakdown.categories)),
            Column(TOTAL),
            *(Column(METRICS.metric(key, window=STEP)) for key in found),
        ],
        data=pa.table(data | found),
        row_key=("step",),
        name_column="step",
    )


def _facts(
    trace: TraceTable, breakdown: StepShares, times: dict[str, DeviceTime], ratios: dict[str, DeviceRatios]
) -> dict[str, Number]:
    operator_category = trace.strings.where(lambda text: text.lower() in ("cpu_op", "operator"))[trace.category]
    facts: dict[str, Number] = {
        "trace.events": len(trace),
        "trace.cpu_ops": int(operator_category.sum()),
        "trace.runtime_calls": int((trace.kind == EventKind.RUNTIME).sum()),
        "trace.python_functions": int(of_kind(trace.kind, EventKind.PYTHON, EventKind.MODULE).sum()),
        "trace.memory_events": len(trace.memory.time_ns),
        "trace.partial_overlaps": crossing_count(trace),
        "trace.external_id_disagreements": trace.external_disagreements,
        "overview.steps": len(breakdown.label),
        "overview.step_time_mean_ns": float(breakdown.total.mean()) if len(breakdown.total) else None,
    }
    facts |= {f"overview.breakdown.{c}_mean_ns": breakdown.mean(c) for c in breakdown.categories}
    for device, time in times.items():
        facts |= {
            f"device.{device}.{key}": value for key, value in asdict(time).items() if key != "unrecorded_ns" or value
        }
        facts |= {f"device.{device}.{key}": value for key, value in asdict(ratios[device]).items()}
    for i in range(len(trace.devices)):
        facts |= core_facts(trace, i)
    work = np.flatnonzero(of_kind(trace.kind, *DEVICE_WORK))
    facts["trace.no_operator_ns"] = int(trace.dur_ns[without_operator(trace, work)].sum())
    return facts
