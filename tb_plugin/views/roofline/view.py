"""Rates of operators compared with the peaks of their devices."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.base import Frame, Params, Part
from tb_plugin.analysis.critical_path.steps import PHRASES, critical_time
from tb_plugin.analysis.critical_path.steps import Part as PathPart
from tb_plugin.analysis.metrics import CHOSEN, CHOSEN_STEPS, PER_STEP, SHARED, SUM, define
from tb_plugin.analysis.selection import chosen_steps, select_rows
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.analysis.work.operator_work import FORMAT_TITLES, OperatorWork, work_with_replays
from tb_plugin.analysis.work.rates import MAX_PEAK_RATIO, nullable, rates, work_sums
from tb_plugin.analysis.work.rates import METRICS as RATES
from tb_plugin.lib.groupby import group
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Dots, Figures, Limit, Notice, Notices, Payload, Scatter, Sort
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
    define(
        CHOSEN_STEPS,
        "ratio",
        {
            "critical_kernel_ratio": ("Kernels on the path", "Kernels on the critical path divided by step time."),
            "critical_other_ratio": (
                "Longest other part",
                "Longest other part of the critical path divided by step time.",
            ),
        },
    ),
)
# Rows with the most kernel time that the chart shows.
MAX_DOTS = 200
MIN_DOT_SHARE = 0.001
# With a smaller share of the critical path, something else limits the steps more than kernels.
MIN_PATH_SHARE = 0.5
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
        if answer := _answer(frame):
            answer += _off_path(trace, params)
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
        *data, share=("work_kernel_ns",), hidden=("gflops", "moved_bytes", "peak_tflops_per_second")
    )
    frame = Frame(
        "roofline", "Rates by operator and input shape", columns, table, ("name", "input_shape", "number_format"), "name",
        Sort("work_kernel_ns", True),
    )  # fmt: skip
    above = sums.least_ns > MAX_PEAK_RATIO * sums.peak_kernel_ns
    return frame, int(above.sum())


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
    x = [row["intensity"] for row in rows]
    return Scatter(
        "chart",
        "Rate by FLOPs per byte",
        "One dot per operator and input shape; its area is the kernel time. Lines: limits of the device.",
        METRICS["intensity"],
        METRICS["tflops_per_second"],
        groups,
        "roofline",
        is_log=True,
        limits=_limits(work, min(x) / 2, max(x) * 2),
        noun="",
    )


def _limits(work: OperatorWork, low: float, high: float) -> list[Limit]:
    """Returns the limits of the device for each number format, between these intensities."""
    formats: dict[tuple[float, float], set[str]] = {}
    some = group(work.peak_flops.view(np.int64), work.peak_bytes.view(np.int64), work.number_format, work.is_matrix * 1)
    for at in some.first.tolist():
        flops, moved = float(work.peak_flops[at]), float(work.peak_bytes[at])
        if not math.isnan(flops + moved):
            name = FORMAT_TITLES[work.number_format[at]] if work.is_matrix[at] else "other operators"
            formats.setdefault((flops, moved), set()).add(name)
    limits = []
    for (flops, moved), names in sorted(formats.items(), reverse=True):
        ridge = flops / moved
        x = [low, *([ridge] if low < ridge < high else []), high]
        y = [min(flops, at * moved) / 1e3 for at in x]
        limits.append(Limit(f"{', '.join(sorted(names))}: {flops / 1e3:,.0f} TFLOP/s, {moved / 1e3:.2f} TB/s", x, y))
    return limits


def _answer(frame: Frame) -> list[Notice]:
    """Returns the sentence about the row that would become shorter most if it reached its least time."""
    rows = [row for row in frame.data.slice(0, MAX_DOTS).to_pylist() if row["peak_ratio"] is not None]
    row = max(rows, key=lambda each: each["work_kernel_ns"] * (1 - each["peak_ratio"]), default=None)
    if row is None:
        return []
    text = (
        f"{{name}} loses most time against the limit of the device: it takes {{work_kernel_ns}}{PER_STEP} at {{peak_ratio}} "
        "of the peak."
    )
    values = {key: row[key] for key in ("name", "work_kernel_ns", "peak_ratio")}
    return [Notice("roofline", "info", text, "", METRICS.measured(**values))]


def _off_path(trace: TraceTable, params: Params) -> list[Notice]:
    """Returns a sentence if kernels are the smaller part of the critical path."""
    at = chosen_steps(trace, params.steps)
    if not at:
        return []
    path = critical_time(trace)
    mine = np.isin(path.step, at)
    ns = np.bincount(path.part[mine], path.ns[mine], len(PathPart))
    explained = [part for part in PHRASES if part != PathPart.COMPUTE]
    longest = max(explained, key=lambda part: ns[part])
    if not ns[longest] or ns[PathPart.COMPUTE] >= MIN_PATH_SHARE * ns.sum():
        return []
    text = (
        f"Kernels are {{critical_kernel_ratio}} of the critical path; {{critical_other_ratio}} is {PHRASES[longest]}."
    )
    figures = METRICS.measured(
        critical_kernel_ratio=float(ns[PathPart.COMPUTE] / ns.sum()), critical_other_ratio=float(ns[longest] / ns.sum())
    )
    return [Notice("off_critical_path", "info", text, "", figures)]


def _notes(trace: TraceTable, above: int) -> list[Notice]:
    used = np.unique(trace.device[(trace.kind == EventKind.KERNEL) & (trace.device != MISSING)]).tolist()
    unknown = {trace.devices[at].name or "of unknown name" for at in used if not trace.devices[at].peaks}
    found = []
    if unknown:
        text = f"The peak rates of the device {', '.join(sorted(unknown))} are unknown."
        found.append(Notice("no_peaks", "info", text, f"Set {PEAKS.name}."))
    if above:
        text = (
            f"{above} {'row is' if above == 1 else 'rows are'} above 105 % of the peak. The data was in a cache, or a "
            "formula or a clock is wrong. The table shows no share of the peak for them."
        )
        found.append(Notice("above_peak", "info", text, ""))
    return found
