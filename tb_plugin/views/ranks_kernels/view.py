"""Rank kernels view: kernels whose duration differs most between ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import sqrt

import msgspec
import numpy as np
import pyarrow as pa

from tb_plugin.analysis.base import Frame, Params, Part, answer_view, coverage_of
from tb_plugin.analysis.demangle import readable_names
from tb_plugin.analysis.metrics import CHOSEN, SHARED, define
from tb_plugin.analysis.outlying_ranks import outlier_rows
from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.skipped_workers import left_out
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.lib.arrays import Float64, Int32, Int64
from tb_plugin.lib.groupby import group, ratio
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Column, Line, Metric, Notice, Notices, Payload, Series, Sort, Table, View
from tb_plugin.views.ranks_kernels import ACROSS, OF_RANK, VIEW

# maximum number of kernel kinds per rank, most time first; the others are only counted
MOST_GROUPS = 2000
# maximum number of rows of the heat map
MAX_MAP_ROWS = 12
# kernel arguments recorded by some profilers; otherwise those of the launching operator are used
_SHAPES, _TYPES = "Input Shapes", "Input Data Types"
_LEFT_OUT, _LEFT_OUT_NS = "left_out_kernels", "left_out_kernels_ns"
_FACT = "ranks_kernels.{}"
_KEY = ("name", "input_shape", "kernel_types")

_TEXTS = {
    "slowest_worker": ("Slowest rank", "Rank with the largest mean duration."),
    "fastest_worker": ("Fastest rank", "Rank with the smallest mean duration."),
    "longest_worker": ("Most time on", "Rank with the largest time per step."),
    "only_worker": ("Only rank", "The only rank that ran the kernel."),
}
_COUNTS = {
    "kernel_workers": ("Ranks", "Ranks that ran the kernel."),
    "slowest_kinds": ("Slowest at", "Kernels with their largest mean duration on this rank."),
    "shared_kinds": ("On all ranks", "Kernels that all ranks ran with different mean durations."),
    "lone_kinds": ("On one rank only", "Kernels that only one rank ran."),
    "left_out_kernels": ("Not listed", f"Kernels outside the {MOST_GROUPS:,} longest of each rank."),
}
_TIMES = {
    "ranks_deviation_ns": ("Deviation across ranks", "Standard deviation of the mean durations over ranks."),
    "rank_deviation_ns": ("Deviation", "Standard deviation of durations on the rank."),
    "mean_of_ranks_ns": ("Mean", "Mean of the mean durations over ranks."),
    "slowest_mean_ns": ("Slowest mean", "Largest mean duration over ranks."),
    "fastest_mean_ns": ("Fastest mean", "Smallest mean duration over ranks."),
    "total_apart_ns": ("Difference", "Largest minus smallest time per step over ranks."),
    "longest_total_ns": ("Largest total", "Largest time per step over ranks."),
    "shortest_total_ns": ("Smallest total", "Smallest time per step over ranks; 0 if not run."),
    "left_out_kernels_ns": ("Time not listed", "Time of unlisted kernels over all ranks."),
}
METRICS = SHARED.adding(
    define("", "code", {"kernel_types": ("Input types", "Input types of the kernel, else of its operator.")}),
    define("", "text", _TEXTS),
    define(CHOSEN, "count", _COUNTS),
    define(CHOSEN, "ns", _TIMES),
    define(CHOSEN, "ratio", {"slowest_ratio": ("Slower by", "Slowest minus fastest mean, divided by the fastest.")}),
)


class RanksKernels(DeclaredView, entry=VIEW):
    def part_key(self, params: Params) -> tuple[object, ...]:
        return (params.steps,)

    def part(self, trace: TraceTable, params: Params) -> Part:
        """Returns the kinds of kernels with the most time on one worker. Raises BadRequest for unknown steps."""
        selection = select_rows(trace, params.steps)
        data, left_out, left_out_ns = _kinds(trace, selection.of(trace, EventKind.KERNEL))
        frame = Frame(OF_RANK, "Kernels", METRICS.columns(*data.column_names), data, _KEY, "name")
        labels = tuple(trace.steps.label) if trace.steps.recorded else ()
        facts = {_FACT.format(_LEFT_OUT): left_out, _FACT.format(_LEFT_OUT_NS): left_out_ns}
        return Part(selection.coverage, facts, {OF_RANK: frame}, {}, (OF_RANK,), steps=labels)

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        kinds = sorted(_across(parts, params), key=lambda kind: (-kind.variance, kind.key))
        frames = {frame.name: frame for frame in (_frame_across(kinds), _frame_of_ranks(parts))}
        payloads: dict[str, Payload] = {}
        if params.table is None:
            payloads["answer"] = Notices(
                "answer", "Answer", "answer", [*_answer(kinds, [part.worker for part in parts])]
            )
            if drawn := [kind for kind in kinds[:MAX_MAP_ROWS] if len(kind.workers) > 1]:
                payloads["slower_map"] = _map(drawn, [part.worker for part in parts])
            if notes := [*left_out(params, METRICS), *_notes(parts)]:
                payloads["data_quality"] = Notices("data_quality", "About these numbers", "data", notes)
        return answer_view(self, Part(coverage_of(parts, params), {}, frames, payloads, (*payloads, *frames)), params)


class Kind(msgspec.Struct, frozen=True):
    """Kernels with equal name, input shapes and types. Arrays have one value for each worker that ran such a kernel."""

    key: tuple[str, str, str]
    workers: list[str]
    calls: int
    means: Float64
    total_ns: int
    per_step: Float64
    """Total time per step on each worker, ns."""
    shortest_ns: float
    """Smallest total time per step, or 0 if a worker did not run such a kernel."""
    single: str | None = None
    """The only worker that ran such a kernel; None if several did, or if a worker's list of kernels is incomplete."""

    @property
    def variance(self) -> float:
        return float(np.var(self.means))

    @property
    def slowest(self) -> int:
        return int(np.argmax(self.means))

    @property
    def fastest(self) -> int:
        return int(np.argmin(self.means))

    @property
    def longest(self) -> str:
        return self.workers[int(np.argmax(self.per_step))]

    @property
    def spread_ns(self) -> float:
        return float(self.per_step.max()) - self.shortest_ns

    @property
    def slower(self) -> float | None:
        """Returns the slowest mean divided by the fastest mean, minus 1; None if the fastest mean is 0."""
        low = self.means.min()
        return float(self.means.max() / low - 1) if low > 0 else None


def _kinds(trace: TraceTable, rows: Int64) -> tuple[pa.Table, int, int]:
    """Returns the kinds of kernels with the most time, and the number and total time of all other kinds.

    Communication kernels are excluded, because their duration depends on other ranks.
    """
    rows = rows[(trace.kind[rows] == EventKind.KERNEL) & ~trace.is_collective[rows]]
    shapes, types = _facts(trace)
    groups = group(trace.name[rows], shapes[rows], types[rows])
    dur = trace.dur_ns[rows]
    calls, total = groups.count(), groups.sum(dur)
    mean = ratio(total, calls)
    deviation = np.sqrt(ratio(groups.sum_real((dur - mean[groups.of]) ** 2), calls))
    order = np.argsort(-total, kind="stable")
    largest, first = order[:MOST_GROUPS], rows[groups.first[order[:MOST_GROUPS]]]
    data = pa.table(
        {
            "name": trace.strings.take(trace.name[first]),
            "input_shape": trace.strings.take(shapes[first]),
            "kernel_types": trace.strings.take(types[first]),
            "calls": pa.array(calls[largest]),
            "total_ns": pa.array(total[largest]),
            "mean_ns": pa.array(mean[largest]),
            "min_ns": pa.array(groups.min(dur)[largest]),
            "max_ns": pa.array(groups.max(dur)[largest]),
            "rank_deviation_ns": pa.array(deviation[largest]),
        }
    )
    return data, len(order) - len(largest), int(total[order[MOST_GROUPS:]].sum())


def _facts(trace: TraceTable) -> tuple[Int32, Int32]:
    """Returns input shapes and types of each row, from the kernel if recorded, otherwise from the launching
    operator.
    """
    operator = trace.operator
    found = []
    for key, of_operators in ((_SHAPES, trace.operators.shapes), (_TYPES, trace.operators.types)):
        text = np.full(len(trace) + 1, MISSING, np.int32)
        text[trace.operators.row] = of_operators
        own = text[operator]  # -1 (no operator) selects the last entry, which is empty
        for column in trace.others:
            if column.key == key and column.is_text:
                own[column.row] = column.value
        found.append(own)
    return found[0], found[1]


def _across(parts: Sequence[Part], params: Params) -> list[Kind]:
    found: dict[tuple[str, str, str], list[tuple[str, int, int, float]]] = defaultdict(list)
    # Workers without any kernels did not record them, so they are ignored.
    parts = [part for part in parts if part.frames[OF_RANK].data.num_rows]
    for part in parts:
        data, steps = part.frames[OF_RANK].data, max(len({*(params.steps or part.steps)}), 1)
        for *key, calls, total in zip(*(data[name].to_pylist() for name in (*_KEY, "calls", "total_ns")), strict=True):
            name, shape, types = (text or "" for text in key)
            found[name, shape, types].append((part.worker, calls, total, total / steps))
    # A worker with an incomplete list may have run kernels that are not listed.
    incomplete = {part.worker for part in parts if part.facts[_FACT.format(_LEFT_OUT)]}
    kinds = []
    for kind, rows in found.items():
        workers, calls_of, totals, per_step = map(list, zip(*rows, strict=True))
        is_single = len(workers) == 1 < len(parts) and not incomplete - {*workers}
        kinds.append(
            Kind(
                kind,
                workers,
                sum(calls_of),
                np.array(totals) / np.array(calls_of),
                sum(totals),
                np.array(per_step),
                0.0 if len(workers) < len(parts) else min(per_step),
                workers[0] if is_single else None,
            )
        )
    return kinds


def _frame_across(kinds: Sequence[Kind]) -> Frame:
    kinds = sorted(kinds, key=lambda kind: (-kind.spread_ns, -kind.variance, kind.key))
    columns = {
        **_texts([kind.key for kind in kinds]),
        "total_apart_ns": pa.array([kind.spread_ns for kind in kinds], pa.float64()),
        "longest_worker": pa.array([kind.longest for kind in kinds], pa.string()),
        "only_worker": pa.array([kind.single for kind in kinds], pa.string()),
        "ranks_deviation_ns": pa.array([_of_several(kind, sqrt(kind.variance)) for kind in kinds], pa.float64()),
        "slowest_ratio": pa.array([_of_several(kind, kind.slower) for kind in kinds], pa.float64()),
        "slowest_worker": pa.array([kind.workers[kind.slowest] for kind in kinds], pa.string()),
        "slowest_mean_ns": pa.array([kind.means.max() for kind in kinds], pa.float64()),
        "fastest_worker": pa.array([kind.workers[kind.fastest] for kind in kinds], pa.string()),
        "fastest_mean_ns": pa.array([kind.means.min() for kind in kinds], pa.float64()),
        "mean_of_ranks_ns": pa.array([kind.means.mean() for kind in kinds], pa.float64()),
        "kernel_workers": pa.array([len(kind.workers) for kind in kinds], pa.int64()),
        "calls": pa.array([kind.calls for kind in kinds], pa.int64()),
        "total_ns": pa.array([kind.total_ns for kind in kinds], pa.int64()),
    }
    data = _with_readable(pa.table(columns))
    return Frame(ACROSS, "Kernels", _columns(data), data, _KEY, "name", Sort("total_apart_ns", descending=True))


def _of_several(kind: Kind, value: float | None) -> float | None:
    return value if len(kind.workers) > 1 else None


def _frame_of_ranks(parts: Sequence[Part]) -> Frame:
    tables = []
    for part in parts:
        own = part.frames[OF_RANK].data
        tables.append(own.add_column(0, "worker", pa.repeat(pa.scalar(part.worker), own.num_rows)))
    data = _with_readable(pa.concat_tables(tables))
    return Frame(OF_RANK, "Kernels of each worker", _columns(data), data, ("worker", *_KEY), "name")


def _with_readable(data: pa.Table) -> pa.Table:
    return data.append_column("readable", pa.array(readable_names(data["name"].to_pylist()), pa.large_string()))


def _columns(data: pa.Table) -> list[Column]:
    texts = {*_KEY[1:], "only_worker"} & {*data.column_names}
    empty = tuple(key for key in texts if not any(data[key].to_pylist()))
    keys = [key for key in data.column_names if key not in _KEY[1:]]
    return METRICS.columns(*keys, *_KEY[1:], hidden=(*empty, "kernel_types", "readable"))


def _texts(keys: Sequence[tuple[str, str, str]]) -> Mapping[str, pa.Array]:
    columns = zip(*keys, strict=True) if keys else ((),) * len(_KEY)
    named = zip(_KEY, columns, strict=True)
    return {name: pa.array([text or None for text in texts], pa.large_string()) for name, texts in named}


def _answer(kinds: Sequence[Kind], workers: Sequence[str]) -> Iterator[Notice]:
    """Yields findings about the kernels that differ most between workers: by total time, and by mean duration."""
    if len(workers) < 2 or not kinds:
        return
    yield from _total_notice(kinds)
    kind = kinds[0]
    if len(kind.workers) < 2:
        return
    if not kind.variance or kind.slower is None:
        text = "Every kernel takes equally long on all {workers} workers."
        yield Notice("kernels_alike", "info", text, "", [METRICS.figure("workers", len(workers))])
        return
    figures = [
        METRICS.figure("name", kind.key[0]),
        METRICS.figure("slowest_worker", kind.workers[kind.slowest]),
        METRICS.figure("slowest_mean_ns", float(kind.means.max())),
        METRICS.figure("fastest_worker", kind.workers[kind.fastest]),
        METRICS.figure("fastest_mean_ns", float(kind.means.min())),
        METRICS.figure("slowest_ratio", kind.slower),
    ]
    text = "The mean duration of {name} differs most: {slowest_mean_ns} on {slowest_worker}, {slowest_ratio} "
    text += "longer than {fastest_mean_ns} on {fastest_worker}."
    yield Notice("kernels_differ", "info", text, "", figures)
    yield from _slowest_worker_notice(kinds, workers)


def _total_notice(kinds: Sequence[Kind]) -> Iterator[Notice]:
    """Yields findings about the kernel whose total time differs most, and about kernels that only one worker runs."""
    kind = min(kinds, key=lambda kind: (-kind.spread_ns, kind.key))
    if not kind.spread_ns:
        return
    figures = [METRICS.figure("name", kind.key[0]), METRICS.figure("longest_total_ns", float(kind.per_step.max()))]
    if kind.single is not None:
        figures.append(METRICS.figure("only_worker", kind.single))
        text = "Among the workers with kernels, only {only_worker} runs {name}: {longest_total_ns} per step."
    else:
        worker = METRICS.figure("longest_worker", kind.longest)
        figures += [worker, METRICS.figure("shortest_total_ns", kind.shortest_ns)]
        text = (
            "The total time of {name} differs most: {longest_total_ns} per step on {longest_worker}, {shortest_total_ns} "
            "on the worker with the smallest total."
        )
    if (lone := sum(each.single is not None for each in kinds)) > 1:
        figures.append(METRICS.figure("lone_kinds", lone))
        text += " {lone_kinds} kinds of kernels run on one worker only."
    yield Notice("kernels_apart", "info", text, "", figures)


def _slowest_worker_notice(kinds: Sequence[Kind], workers: Sequence[str]) -> Iterator[Notice]:
    """Yields a finding about a worker whose kernels are significantly slower than those of the other workers."""
    shared = [kind for kind in kinds if len(kind.workers) == len(workers) and kind.variance]
    if not shared:
        return
    # The kinds of kernels are the repetitions of the test.
    slowness = np.stack([kind.means / np.median(kind.means) for kind in shared if np.median(kind.means) > 0], axis=1)
    for place in outlier_rows(slowness)[:1]:
        worker = shared[0].workers[place]
        count = sum(kind.workers[kind.slowest] == worker for kind in shared)
        if 2 * count <= len(shared):
            return
        figures = [
            METRICS.figure("slowest_worker", worker),
            METRICS.figure("slowest_kinds", count),
            METRICS.figure("shared_kinds", len(shared)),
        ]
        text = (
            "Kernels on {slowest_worker} are significantly slower than on the other workers: {slowest_worker} is the "
            "slowest for {slowest_kinds} of {shared_kinds} kinds of kernels that all workers ran."
        )
        yield Notice("kernels_slow_rank", "info", text, "", figures)


def _map(kinds: Sequence[Kind], workers: Sequence[str]) -> Series:
    """Returns a heat map of how much longer each kind of kernel takes on each worker than on the fastest worker."""
    lines = []
    for number, kind in enumerate(kinds):
        low = kind.means.min()
        mine = dict(zip(kind.workers, kind.means.tolist(), strict=True))
        values = [float(mine[worker] / low - 1) if worker in mine and low > 0 else None for worker in workers]
        metric = METRICS["slowest_ratio"]
        title = kind.key[0] if not kind.key[1] else f"{kind.key[0]} {kind.key[1]}"
        lines.append(
            Line(Metric(f"kind_{number}", title, metric.unit, metric.definition, metric.window), "compute", values)
        )
    return Series(
        "slower_map",
        "Longer than on the fastest worker",
        f"mean duration, the {len(lines)} kernels that differ most",
        METRICS.metric("worker", " "),
        [*workers],
        lines,
        "lines",
    )


def _notes(parts: Sequence[Part]) -> Iterator[Notice]:
    number, time = (sum(int(part.facts[_FACT.format(key)] or 0) for part in parts) for key in (_LEFT_OUT, _LEFT_OUT_NS))
    if number:
        figures = [METRICS.figure(_LEFT_OUT, number), METRICS.figure(_LEFT_OUT_NS, time)]
        text = f"For each worker, only the {MOST_GROUPS:,} kinds of kernels with most time are listed. "
        text += "{left_out_kernels} kernels with {left_out_kernels_ns} in total are not listed."
        yield Notice("kernels_left_out", "info", text, "", figures)
