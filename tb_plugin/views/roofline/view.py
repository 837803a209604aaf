"""Rates of operators compared with the peaks of their devices."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame, Params, Part
from tb_plugin.analysis.critical_path.steps import Part as PathPart
from tb_plugin.analysis.critical_path.steps import critical_time
from tb_plugin.analysis.kernel_classes import class_time, title_of
from tb_plugin.analysis.metrics import CHOSEN, CHOSEN_STEPS, PER_STEP, SHARED, SUM, define
from tb_plugin.analysis.selection import chosen_steps, select_rows
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.analysis.work.operator_work import FORMAT_TITLES, OperatorWork, launched_computation, work_with_replays
from tb_plugin.analysis.work.rates import METRICS as RATES
from tb_plugin.analysis.work.rates import nullable, rates, work_sums
from tb_plugin.lib.groupby import group
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Dots, Figures, Limit, Link, Notice, Notices, Payload, Scatter, Sort
from tb_plugin.settings import PEAKS
from tb_plugin.sql.statements import with_sql
from tb_plugin.views.roofline import VIEW

METRICS = SHARED.adding(
    RATES,
    define(CHOSEN, "ns", {"work_kernel_ns": ("Kernel time", "Kernel time of the calls.", SUM)}),
    define(
        CHOSEN,
        "number",
        {
            "gflops": ("GFLOP", "10^9 floating-point operations.", SUM),
            "intensity": ("FLOP/byte", "FLOPs divided by bytes."),
            "peak_tflops_per_second": ("Peak TFLOP/s", "Peak rate of the format."),
        },
    ),
    define(CHOSEN, "bytes", {"moved_bytes": ("Bytes", "Inputs and outputs, counted once.", SUM)}),
    define(CHOSEN, "count", {"work_calls": ("Calls", "Calls with known FLOPs.", SUM)}),
    define(CHOSEN, "text", {"number_format": ("Format", "Number format of the inputs.")}),
    define(CHOSEN, "ns", {"work_lost_ns": ("Lost time", "Kernel time minus time at peak rates.", SUM)}),
    define(
        CHOSEN,
        "ratio",
        {
            "uncovered_ratio": ("No FLOPs", "Share of kernel time without known FLOPs."),
            "uncovered_class_ratio": ("Class share", "Share of kernel time."),
        },
    ),
    define(CHOSEN, "text", {"uncovered_class": ("Class", "Largest kernel class without known FLOPs.")}),
    define(
        CHOSEN_STEPS,
        "ratio",
        {
            "critical_kernel_ratio": ("Kernels on the path", "Kernels divided by the critical path."),
            "critical_other_ratio": ("Largest other part", "Another part divided by the critical path."),
        },
    ),
)
# Rows with the most kernel time that the chart shows.
MAX_DOTS = 200
MIN_DOT_SHARE = 0.001
# The title of a limit is left of its ridge point.
LABEL_RATIO = 0.1
# With a smaller share of the critical path, faster kernels hardly shorten the steps.
MIN_PATH_SHARE = 0.1
OTHER_PARTS = {
    "on the CPU": (PathPart.LAUNCH, PathPart.DATA_LOADING, PathPart.OPERATOR, PathPart.RUNTIME, PathPart.PYTHON),
    "in communication": (PathPart.COMMUNICATION,),
    "in copies": (PathPart.COPY,),
    "between kernels": (PathPart.BETWEEN_KERNELS,),
    "in unrecorded work": (PathPart.UNRECORDED,),
}
# With a smaller covered share of the kernel time, the largest class without known FLOPs is named.
WELL_COVERED_SHARE = 0.8
# With a smaller covered share, no operator is named as the furthest from the peak.
MIN_COVERED_SHARE = 0.1
_KEY_SEPARATOR = "\u001e"


class Roofline(DeclaredView, entry=VIEW):
    selects = "events"

    def part(self, trace: TraceTable, params: Params) -> Part:
        selection = select_rows(trace, *params.chosen)
        work = work_with_replays(trace, *selection.chosen)
        frame, above = _table(trace, work)
        flops, moved, kernel_ns = float(work.flops.sum()), float(work.bytes.sum()), int(work.kernel_ns.sum())
        ratio = float(work_sums(work).each(lambda values: values.sum(keepdims=True)).peak_ratio[0])
        figures = METRICS.measured(
            covered_ratio=work.covered_ratio,
            tflops_per_second=flops / kernel_ns / 1e3 if kernel_ns else None,
            moved_bandwidth=moved / kernel_ns * 1e9 if kernel_ns else None,
            peak_ratio=None if math.isnan(ratio) else ratio,
        )
        payloads: dict[str, Payload] = {
            "summary": Figures("summary", "Rates of operators with known FLOPs", "", figures)
        }
        if answer := _answers(trace, frame, work, params):
            payloads["answer"] = Notices("answer", "Roofline", "answer", answer)
        if chart := _chart(frame, trace, work):
            payloads["chart"] = chart
        if notes := _notes(trace, above):
            payloads["notes"] = Notices("notes", "About these rates", "data", notes)
        facts = {"roofline.flops": int(flops), "roofline.bytes": int(moved), "roofline.kernel_ns": kernel_ns}
        return Part(selection.coverage, facts, with_sql({"roofline": frame}, params), payloads, (*payloads, "roofline"))


def _table(trace: TraceTable, work: OperatorWork) -> tuple[Frame, int]:
    """Returns the table, and the number of its rows above the peak."""
    name, shape = work.name, work.shape
    groups = group(name, shape, work.number_format)
    sums = work_sums(work).each(groups.sum_real)
    found = rates(sums)
    lost_ns = np.rint(sums.peak_kernel_ns - sums.least_ns).astype(np.int64)
    data = {
        "name": trace.strings.take(name[groups.first]),
        "input_shape": trace.strings.take(shape[groups.first]),
        "number_format": pa.array(FORMAT_TITLES, pa.string()).take(work.number_format[groups.first]),
        "work_calls": pa.array(groups.sum(work.count)),
        "work_kernel_ns": pa.array(groups.sum(work.kernel_ns)),
        "gflops": pa.array(sums.flops / 1e9),
        "moved_bytes": pa.array(np.rint(sums.bytes).astype(np.int64)),
        "tflops_per_second": found["tflops_per_second"],
        "moved_bandwidth": found["moved_bandwidth"],
        "intensity": nullable(
            np.divide(sums.flops, sums.bytes, out=np.full(len(groups), math.nan), where=sums.bytes > 0)
        ),
        "peak_tflops_per_second": nullable(work.peak_flops[groups.first] / 1e3),
        "peak_ratio": found["peak_ratio"],
        "work_lost_ns": pa.array(lost_ns, mask=np.isnan(sums.peak_ratio)),
        "bound": found["bound"],
    }
    table = sorted_by(
        pa.table(data),
        [
            ("work_kernel_ns", "descending"),
            ("name", "ascending"),
            ("input_shape", "ascending"),
            ("number_format", "ascending"),
        ],
    )
    columns = METRICS.columns(
        *data, share=("work_kernel_ns",), hidden=("gflops", "moved_bytes", "peak_tflops_per_second", "work_lost_ns")
    )
    frame = Frame(
        "roofline", "Rates by operator and input shape", columns, table, ("name", "input_shape", "number_format"), "name",
        Sort("work_kernel_ns", True),
    )  # fmt: skip
    return frame, int(sums.is_above_peak.sum())


def _chart(frame: Frame, trace: TraceTable, work: OperatorWork) -> Scatter | None:
    """Returns the rates over the intensity, below the limits of the device; None without any FLOPs."""
    least_ns = MIN_DOT_SHARE * int(work.kernel_ns.sum())
    rows = [row for row in frame.data.slice(0, MAX_DOTS).to_pylist() if row["gflops"] and row["intensity"]]
    rows = [row for row in rows if row["work_kernel_ns"] >= least_ns]
    if not rows:
        return None
    matrix = set(trace.strings.take(np.unique(work.name[work.is_matrix])).to_pylist())
    longest = max(row["work_kernel_ns"] for row in rows)
    kinds = (("Matrix products, convolutions, attention", "matrix", True), ("Other operators", "elementwise", False))
    groups = []
    for title, category, of in kinds:
        some = [row for row in rows if (row["name"] in matrix) == of]
        if some:
            groups.append(
                Dots(
                    title,
                    category,
                    [_KEY_SEPARATOR.join(str(row[key] or "") for key in frame.row_key) for row in some],
                    [row["intensity"] for row in some],
                    [row["tflops_per_second"] for row in some],
                    [row["work_kernel_ns"] / longest for row in some],
                )
            )
    return Scatter(
        "chart",
        "Rate by FLOPs per byte",
        "One dot per operator and input shape; its area is the kernel time. Lines: limits of the device.",
        METRICS["intensity"],
        METRICS["tflops_per_second"],
        groups,
        "roofline",
        is_log=True,
        limits=_limits(work, [row["intensity"] for row in rows]),
        noun="",
    )


def _limits(work: OperatorWork, intensities: Sequence[float]) -> list[Limit]:
    """Returns the limits of the device for each number format, wide enough for all ridge points and intensities."""
    formats: dict[tuple[float, float], set[str]] = {}
    some = group(work.peak_flops.view(np.int64), work.peak_bytes.view(np.int64), work.number_format, work.is_matrix * 1)
    for at in some.first.tolist():
        flops, moved = float(work.peak_flops[at]), float(work.peak_bytes[at])
        if not math.isnan(flops + moved):
            name = FORMAT_TITLES[work.number_format[at]] if work.is_matrix[at] else "other operators"
            formats.setdefault((flops, moved), set()).add(name)
    ridges = [flops / moved for flops, moved in formats]
    low, high = min((*intensities, *(ridge * LABEL_RATIO for ridge in ridges))) / 2, max((*intensities, *ridges)) * 2
    limits = []
    for (flops, moved), names in sorted(formats.items(), reverse=True):
        x = [low, flops / moved, high]
        y = [min(flops, at * moved) / 1e3 for at in x]
        limits.append(Limit(f"{', '.join(sorted(names))}: {flops / 1e3:,.0f} TFLOP/s, {moved / 1e3:.2f} TB/s", x, y))
    return limits


def _answers(trace: TraceTable, frame: Frame, work: OperatorWork, params: Params) -> list[Notice]:
    found = [
        _limit_of_steps(trace, params),
        _uncovered(trace, work, params),
        _furthest_from_peak(frame) if (work.covered_ratio or 0) >= MIN_COVERED_SHARE else None,
    ]
    return [notice for notice in found if notice]


def _furthest_from_peak(frame: Frame) -> Notice | None:
    """Returns the sentence about the operator that would become shorter most at the peak rates."""
    known = frame.data.filter(pc.is_valid(frame.data["peak_ratio"]))
    if not known.num_rows:
        return None
    name, ns, lost_ns = (known[key].to_numpy() for key in ("name", "work_kernel_ns", "work_lost_ns"))
    names, of = np.unique(name.astype(str), return_inverse=True)
    total, lost = np.bincount(of, ns), np.bincount(of, lost_ns)
    most = int(lost.argmax())
    if lost[most] <= 0:
        return None
    text = "{name} loses most time against the peak of the device: {work_lost_ns} of its {work_kernel_ns}" + PER_STEP
    values = {"work_lost_ns": round(lost[most]), "work_kernel_ns": round(total[most])}
    return Notice("roofline", "info", f"{text}.", "", METRICS.measured(name=str(names[most]), **values))


def _uncovered(trace: TraceTable, work: OperatorWork, params: Params) -> Notice | None:
    """Returns the sentence about kernels without known FLOPs, if they take much of the kernel time."""
    if work.covered_ratio is None or work.covered_ratio >= WELL_COVERED_SHARE:
        return None
    kernels = select_rows(trace, *params.chosen).of(trace, EventKind.KERNEL)
    kernels = kernels[launched_computation(trace, kernels)]
    times = class_time(trace, kernels[~np.isin(kernels, work.kernel)])
    largest = max(times, key=lambda each: times[each])
    text = (
        "No FLOPs are known for {uncovered_ratio} of the kernel time. The largest part is {uncovered_class}: "
        "{uncovered_class_ratio} of the kernel time."
    )
    figures = METRICS.measured(
        uncovered_ratio=1 - work.covered_ratio,
        uncovered_class=title_of(largest),
        uncovered_class_ratio=times[largest] / work.kernel_total_ns,
    )
    return Notice("uncovered", "info", text, "", figures)


def _limit_of_steps(trace: TraceTable, params: Params) -> Notice | None:
    """Returns a sentence if something else takes more of the critical path than kernels."""
    at = chosen_steps(trace, params.steps)
    if not at or not trace.report.complete:  # missing kernels are on no path
        return None
    path = critical_time(trace)
    mine = np.isin(path.step, at)
    ns = np.bincount(path.part[mine], path.ns[mine], len(PathPart))
    kernels, total = ns[PathPart.COMPUTE], ns.sum() - ns[PathPart.UNCOVERED]
    others = {words: ns[list(parts)].sum() for words, parts in OTHER_PARTS.items()}
    largest = max(others, key=lambda words: others[words])
    if others[largest] <= kernels:
        return None
    text = f"{{critical_other_ratio}} of the critical path is {largest}, {{critical_kernel_ratio}} is in kernels."
    if kernels < MIN_PATH_SHARE * total:
        text += " Faster kernels hardly shorten the steps."
    figures = METRICS.measured(
        critical_other_ratio=float(others[largest] / total), critical_kernel_ratio=float(kernels / total)
    )
    return Notice(
        "limit_of_steps", "info", text, "", figures, evidence=Link("critical_path", {}, "Show the critical path")
    )


def _notes(trace: TraceTable, above: int) -> list[Notice]:
    used = np.unique(trace.device[(trace.kind == EventKind.KERNEL) & (trace.device != MISSING)]).tolist()
    unknown = {trace.devices[at].name for at in used if not trace.devices[at].peaks}
    found = []
    if named := sorted(filter(None, unknown)):
        found.append(
            Notice(
                "no_peaks",
                "info",
                f"The peak rates of the device {', '.join(named)} are unknown.",
                f"Set {PEAKS.name}.",
            )
        )
    if "" in unknown:
        text = "The name of the device is not recorded, so its peak rates are unknown."
        todo = f"Set {PEAKS.name}, for example to ^$: fp32=67 fp16=989 bandwidth=3350"
        found.append(Notice("no_device_name", "info", text, todo))
    if above:
        text = (
            f"{above} {'row is' if above == 1 else 'rows are'} above 105 % of the peak. The data was in a cache, or a "
            "formula or a clock is wrong. The table shows no share of the peak for them."
        )
        found.append(Notice("above_peak", "info", text, ""))
    return found
