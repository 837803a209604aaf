"""Diff view: changes from one profile to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame, Params, Part, answer_view
from tb_plugin.analysis.busy_intervals import device_busy
from tb_plugin.analysis.idle.account import idle_account
from tb_plugin.analysis.idle.causes import cause_metrics
from tb_plugin.analysis.kernel_classes import word_of
from tb_plugin.analysis.phrases import count_with_noun
from tb_plugin.analysis.range_patterns import DATALOADER
from tb_plugin.analysis.reported_steps import missing_computation, reported_step_length, reported_steps
from tb_plugin.analysis.selection import select_rows, steps_of
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.errors import BadRequest
from tb_plugin.model.trace.schema import MISSING, KernelClass
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import (
    Breakdown,
    CoverageInfo,
    Figures,
    Metric,
    Notice,
    Payload,
    Slice,
    Table,
    Tree,
    View,
)
from tb_plugin.views.diff import VIEW, unlike_devices
from tb_plugin.views.diff.call_tree import call_tree
from tb_plugin.views.diff.device_frames import device_frames
from tb_plugin.views.diff.findings import findings, leading_notice, settings
from tb_plugin.views.diff.merged_tree import both_trees
from tb_plugin.views.diff.metrics import METRICS
from tb_plugin.views.diff.missing_kernels import (
    RECORDED_COMPUTE,
    REPORTED_COMPUTE,
    REPORTED_STEP,
    missing_kernels,
    reported_headline,
)
from tb_plugin.views.diff.paired_tables import (
    ALL_MEASURES,
    BY_TYPE,
    MEASURES,
    PER_STEP,
    RANGES,
    TABLES,
    TOTAL,
    Scaling,
    join,
)
from tb_plugin.views.diff.range_tables import are_range_traces, changed_most, own_ns, range_frames, recording_lengths
from tb_plugin.views.diff.serving_modes import modes_frame
from tb_plugin.views.diff.waterfall import (
    IDLE,
    ON_DEVICE,
    StepTime,
    idle_time,
    leading_part,
    part_differences,
    step_time,
)

NAME_COLUMNS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "kernel_ns": ("kernels", "total_ns"),
        "communication_ns": ("kernels", "total_ns"),
        "runtime_ns": ("runtime_calls", "host_total_ns"),
        "cpu_ns": ("operators", "host_self_ns"),
    }
)
"""Maps each part of the step to the table and time column that explain its change."""


class _Sides(msgspec.Struct, frozen=True):
    """Both profiles, their step times if known, and the options of the comparison."""

    base: Part
    exp: Part
    base_step: StepTime | None
    exp_step: StepTime | None
    scaling: Scaling
    measure: str
    leading: str

    @property
    def compares_devices(self) -> bool:
        """Returns whether the vendors of the two sides differ, or a device is not a GPU."""
        return unlike_devices.compares_devices(self.base, self.exp)

    @property
    def are_range_traces(self) -> bool:
        return are_range_traces(self.base, self.exp)

    @property
    def slower(self) -> bool:
        """Returns whether the step of the experiment is longer than the step of the baseline.

        Returns True if a step time is unknown. For traces with only ranges, total times are compared.
        """
        if self.are_range_traces:
            return own_ns(self.exp) >= own_ns(self.base)
        return self.base_step is None or self.exp_step is None or self.exp_step.total_ns >= self.base_step.total_ns


class Diff(DeclaredView, entry=VIEW):
    """Compares two profiles: the first part is the baseline, the second part is the experiment."""

    def part_key(self, params: Params) -> tuple[object, ...]:
        return (params.steps,)

    def part(self, trace: TraceTable, params: Params) -> Part:
        """Returns the data of one profile, such as call tree and devices. Raises BadRequest for unknown steps."""
        selection = select_rows(trace, params.steps)
        names = [
            METRICS.figure("device_name", device.name, f"Device {device.id}") for device in trace.devices if device.name
        ]
        return Part(
            coverage=selection.coverage,
            facts={"diff.has_device": int((trace.device != MISSING).any()), **_kernels_stated(trace, params)},
            frames={
                "call_tree": call_tree(trace, selection),
                **range_frames(trace),
                **device_frames(trace, selection, params),
            },
            payloads={"devices": Figures("devices", "Devices", "", names), **_idle(trace, params)},
            layout=("call_tree",),
            steps=tuple(trace.steps.label) if trace.steps.recorded else (),
        )

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        """Returns the page, or one table. A single part is compared with itself.

        Raises BadRequest for an invalid parameter, and NotFoundError for an unknown table.
        """
        sides = _sides(parts[0], parts[-1], params)
        # A single table needs no others. For an unknown name all are computed, so that the error can list them.
        tables = (*TABLES, *(each for each in (*BY_TYPE, RANGES) if any(each.name in part.frames for part in parts)))
        wanted = [table for table in tables if table.name == params.table] or tables
        devices = sides.compares_devices
        frames = _device_tables(sides) if devices else {}
        frames |= {
            table.name: join(
                sides.base,
                table,
                sides.exp,
                sides.measure,
                sides.scaling,
                slower=sides.slower,
                by=sides.leading,
                devices=devices,
            )
            for table in wanted
        }
        frames |= modes_frame(sides.base, sides.exp)
        frames["settings"] = settings(sides.base, sides.exp)
        payloads = _payloads(sides) if params.table is None else {}
        whole = Part(
            coverage=_coverage(sides),
            frames=frames,
            payloads=payloads,
            layout=(*payloads, *frames),
        )
        return answer_view(self, whole, params)


def _kernels_stated(trace: TraceTable, params: Params) -> dict[str, float]:
    """Returns the reported mean step time.

    If kernels are missing, also returns the recorded and the reported compute time.
    """
    length, missing = reported_step_length(reported_steps(trace, params.steps)), missing_computation(trace)
    facts = {} if length is None else {REPORTED_STEP: length}
    return facts | ({} if missing is None else dict(zip((RECORDED_COMPUTE, REPORTED_COMPUTE), missing, strict=True)))


def _idle(trace: TraceTable, params: Params) -> dict[str, Payload]:
    devices = list(device_busy(trace))
    if len(devices) != 1 or devices[0] == MISSING:
        return {}
    steps = steps_of(trace, params.steps)
    causes = idle_account(trace, devices[0]).by_cause(steps.start_ns, steps.end_ns)
    times = {cause: int(time.sum()) for cause, time in causes.items()}
    parts = [Slice(metric, word, times[cause]) for cause, (metric, word) in cause_metrics().items()]
    return {IDLE: Breakdown(IDLE, "Idle time by cause", "", "ns", sum(times.values()), parts)}


def _sides(base: Part, exp: Part, params: Params) -> _Sides:
    """Returns the two profiles with options from the request. Raises BadRequest for an unknown measure or scaling."""
    per = params.get("per") or PER_STEP
    if per not in (PER_STEP, TOTAL):
        raise BadRequest(f"per cannot be {per}.", "per", f"Choose {PER_STEP} or {TOTAL}.")
    scaling = Scaling(per, _steps(base), _steps(exp)) if per == PER_STEP else Scaling(per, 1, 1)
    lacking = any(REPORTED_COMPUTE in part.facts for part in (base, exp))
    one, other = (None, None) if lacking else (step_time(base, scaling.base), step_time(exp, scaling.exp))
    leading = _measure(base, exp, one, other)
    measure = params.get("measure") or leading
    if measure not in (*MEASURES, ALL_MEASURES):
        raise BadRequest(f"There is no measure {measure}.", "measure", f"Choose one of {', '.join(MEASURES)}.")
    return _Sides(base, exp, one, other, scaling, measure, leading)


def _measure(base: Part, exp: Part, base_step: StepTime | None, exp_step: StepTime | None) -> str:
    """Returns the default measure: device self time if a device part of the step changed most, otherwise host self
    time.

    If a side has no device, host self time is used. If vendors differ, total device time is used, because nested
    calls differ between vendors.
    """
    if unlike_devices.have_other_makers(base, exp):
        return "device_total_ns"
    on_device = bool(base.facts.get("diff.has_device") and exp.facts.get("diff.has_device"))
    if base_step is not None and exp_step is not None:
        on_device = on_device and leading_part(base_step, exp_step) in ON_DEVICE
    return "device_self_ns" if on_device else "host_self_ns"


def _device_tables(sides: _Sides) -> dict[str, Frame]:
    one, other = sides.base_step, sides.exp_step
    overall = {} if one is None or other is None else {unlike_devices.OVERALL: unlike_devices.step_parts(one, other)}
    return overall | unlike_devices.device_tables(sides.base, sides.exp, sides.scaling, sides.slower)


def _steps(part: Part) -> int:
    """Returns the number of selected steps, or 1 for a recording without steps."""
    chosen = part.coverage.steps
    return max(len(part.steps if chosen is None else chosen), 1)


def _summed(sides: _Sides) -> tuple[int, int] | None:
    """Returns the step counts of both sides if times are totals, or None if times are per step."""
    return (_steps(sides.base), _steps(sides.exp)) if sides.scaling.per != PER_STEP else None


def _coverage(sides: _Sides) -> CoverageInfo:
    one, other = sides.base.coverage, sides.exp.coverage
    return CoverageInfo(
        window_ns=other.window_ns,
        fraction_read=min(one.fraction_read, other.fraction_read),
        complete=one.complete and other.complete,
        steps=other.steps,
        window=other.window or one.window,
    )


def _payloads(sides: _Sides) -> dict[str, Payload]:
    base, exp = sides.base_step, sides.exp_step
    payloads: dict[str, Payload] = {}
    if sides.are_range_traces:
        payloads["headline"] = recording_lengths(sides.base, sides.exp)
    elif base is not None and exp is not None:
        payloads["headline"] = _headline(sides, base, exp)
        payloads["waterfall"] = _waterfall(sides, base, exp)
        if (idle := _idle_waterfall(sides)) is not None:
            payloads["idle_waterfall"] = idle
    elif (stated := reported_headline(sides.base, sides.exp)) is not None:
        payloads["headline"] = stated
    payloads["compared"] = Figures(
        "compared",
        "Compared",
        "",
        [METRICS.figure("measure", sides.measure), METRICS.figure("per", sides.scaling.per)],
    )
    tree = both_trees(sides.base, sides.exp, sides.measure, sides.scaling)
    device_texts = unlike_devices.device_notices(sides.base, sides.exp) if sides.compares_devices else []
    payloads["findings"] = findings(sides.base, sides.exp, [*_leading(sides, tree), *device_texts])
    payloads["call_tree"] = tree
    return payloads


def _leading(sides: _Sides, tree: Tree) -> Sequence[Notice]:
    if sides.are_range_traces:
        return changed_most(sides.base, sides.exp)
    if missing := missing_kernels(sides.base, sides.exp):
        return missing
    if sides.base_step is None or sides.exp_step is None:
        return []
    return [leading_notice(sides.base_step, sides.exp_step, _summed(sides), _changed_most(sides, tree))]


def _changed_most(sides: _Sides, tree: Tree) -> tuple[str, float] | None:
    """Returns the table row with the largest change within the main part of the step: name and change.

    Returns None if no table explains the main part.
    """
    if sides.base_step is None or sides.exp_step is None:
        return None
    part = leading_part(sides.base_step, sides.exp_step)
    if part == "dataloader_ns":
        rows = [row for row, parent in zip(tree.rows, tree.parent, strict=True) if parent != MISSING]
        inside = [row for row in rows if DATALOADER.match(str(row["name"]))]
        sizes = [(float(row["delta_ns"] or 0), str(row["name"])) for row in inside]
    elif (of_devices := _leading_rows(sides, part)) is not None:
        sizes = of_devices
    elif part in NAME_COLUMNS:
        name, measure = NAME_COLUMNS[part]
        table = next(each for each in TABLES if each.name == name)
        data = join(sides.base, table, sides.exp, measure, sides.scaling, slower=sides.slower).data
        if name == "kernels":  # one table contains the rows of both parts
            talks = pc.is_in(data["name"], _communicating(sides))
            data = data.filter(talks if part == "communication_ns" else pc.invert(talks))
        sizes = [(float(row["delta_ns"]), row["name"]) for row in data.slice(0, 1).to_pylist()]
    else:
        return None
    change, name = max(sizes, key=lambda each: each[0] if sides.slower else -each[0], default=(0.0, ""))
    return (name, change) if change and (change > 0) == sides.slower else None


def _leading_rows(sides: _Sides, part: str) -> list[tuple[float, str]] | None:
    """Returns change and name of the row with the largest change, for parts whose kernel names differ between
    vendors.

    Returns None for all other parts.
    """
    if part == "kernel_ns" and unlike_devices.have_other_makers(sides.base, sides.exp):
        name, keys = unlike_devices.COMPUTING, ["family", "pass_direction"]
    elif part == "communication_ns" and sides.compares_devices:
        name, keys = unlike_devices.COMMUNICATION, ["collective"]
    else:
        return None
    frame = _device_tables(sides).get(name)
    rows = frame.data.slice(0, 1).to_pylist() if frame else []
    return [(float(row["delta_ns"]), " ".join(filter(None, (row[key] for key in keys)))) for row in rows]


def _communicating(sides: _Sides) -> pa.Array:
    frames = [side.frames["kernels"].data for side in (sides.base, sides.exp) if "kernels" in side.frames]
    word = word_of(KernelClass.COMMUNICATION)
    found = [frame["name"].filter(pc.equal(frame["class"], word)).to_pylist() for frame in frames]
    return pa.array(sorted({name for names in found for name in names}), pa.string())


def _headline(sides: _Sides, base: StepTime, exp: StepTime) -> Figures:
    change, summed = exp.total_ns - base.total_ns, _summed(sides)
    figures = [
        METRICS.figure("base_step_ns", base.total_ns, "Baseline, all steps" if summed else "", note=_note(sides.base)),
        METRICS.figure("exp_step_ns", exp.total_ns, "Experiment, all steps" if summed else "", note=_note(sides.exp)),
        METRICS.figure("delta_step_ns", change),
        METRICS.figure("step_ratio", exp.total_ns / base.total_ns if base.total_ns else None),
    ]
    return Figures("headline", "Headline", sides.scaling.window, figures, "headline")


def _note(part: Part) -> str:
    if not part.steps:
        return "whole recording, no steps"
    return count_with_noun(_steps(part), "step")


def _waterfall(sides: _Sides, base: StepTime, exp: StepTime) -> Breakdown:
    title = "From the baseline's step to the experiment's" if _summed(sides) is None else "From baseline to experiment"
    return _changes("waterfall", title, f"{sides.scaling.window}; the parts sum exactly", sides, base, exp)


def _idle_waterfall(sides: _Sides) -> Breakdown | None:
    """Returns the change of idle time by cause, or None if idle causes are unknown."""
    base, exp = (idle_time(part, count) for part, count in _counted(sides))
    if base is None or exp is None or not (base.total_ns or exp.total_ns):
        return None
    subtitle = f"{sides.scaling.window}; the parts sum exactly"
    return _changes("idle_waterfall", "Idle time of the device by cause", subtitle, sides, base, exp)


def _counted(sides: _Sides) -> tuple[tuple[Part, int], tuple[Part, int]]:
    return (sides.base, sides.scaling.base), (sides.exp, sides.scaling.exp)


def _changes(name: str, title: str, subtitle: str, sides: _Sides, base: StepTime, exp: StepTime) -> Breakdown:
    slices = [
        Slice(
            Metric(m.key, m.title, m.unit, f"Experiment minus baseline. {m.definition}", sides.scaling.window),
            m.key.removesuffix("_ns"),
            value,
        )
        for m, value in zip(exp.metrics, part_differences(base, exp).values(), strict=True)
        if base.parts[m.key] or exp.parts[m.key]
    ]
    return Breakdown(
        name=name,
        title=title,
        subtitle=subtitle,
        unit="ns",
        total=exp.total_ns - base.total_ns,
        parts=slices,
        style="waterfall",
        start=base.total_ns,
    )
