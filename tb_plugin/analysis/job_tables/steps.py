"""Mean step times and call times by rank and by pipeline stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.job_tables.metrics import METRICS
from tb_plugin.analysis.job_tables.stages import TIMES, Stage, ranks_in, ranks_text, stage_rows
from tb_plugin.payloads import Line, Metric, Series

_PARTS = (
    ("preparing_ns", "runtime"), ("computing_alone_ns", "compute"), ("overlapped_ns", "overlap"),
    ("exposed_rest_ns", "communication"), ("exposed_receive_ns", "wait"), ("device_free_ns", "idle"),
)  # fmt: skip
_CALL_PARTS = (
    ("transit_ns", "transfer"), ("synchronization_ns", "wait"), ("wait_rest_ns", "sync"), ("call_idle_ns", "idle"),
)  # fmt: skip


class RankTimes(msgspec.Struct, frozen=True):
    """Mean step times of one rank or stage, in nanoseconds. ``times`` contains only reported times."""

    ranks: Stage
    times: dict[str, int]


def rank_means(times: pa.Table) -> list[RankTimes]:
    """Returns the mean step times of each rank, rounded down."""
    found = _means(times.filter(pc.is_valid(times["rank"])), "rank")
    return sorted((RankTimes((rank,), mean) for rank, mean in found), key=lambda each: each.ranks)


def stage_means(times: pa.Table, stages: Sequence[Stage]) -> list[RankTimes]:
    """Returns the mean step times of each stage.

    If the profile does not report stage times, the time of a stage in each step is the maximum over its ranks.
    """
    rows = times.filter(pc.is_valid(times["stage_ranks"]))
    found = _means(rows if rows.num_rows else stage_rows(times, stages), "stage_ranks")
    return sorted((RankTimes(ranks_in(ranks), mean) for ranks, mean in found), key=lambda each: each.ranks)


def _means(rows: pa.Table, key: str) -> list[tuple[Any, dict[str, int]]]:
    sums = rows.group_by(key, use_threads=False).aggregate([(time, how) for time in TIMES for how in ("sum", "count")])
    return [
        (row[key], {time: row[f"{time}_sum"] // count for time in TIMES if (count := row[f"{time}_count"])})
        for row in sums.to_pylist()
    ]


def step_bars(name: str, title: str, subtitle: str, x: Metric, rows: Sequence[tuple[str, RankTimes]]) -> Series:
    """Returns a chart of the mean step time, with one stacked bar per rank or stage."""
    parts = [_parts(row.times) for _, row in rows]
    receives = any(each.get("exposed_receive_ns") for each in parts)
    titles = {} if receives else {"exposed_rest_ns": METRICS["exposed_ns"].title}
    lines = [
        Line(METRICS.metric(part, titles.get(part, "")), category, [each.get(part) for each in parts])
        for part, category in _PARTS
        if any(each.get(part) for each in parts)
    ]
    return Series(name, title, subtitle, x, [row for row, _ in rows], lines, "stacked_bars")


def call_bars(name: str, title: str, subtitle: str, x: Metric, calls: pa.Table, key: str, window: str) -> Series | None:
    """Returns a chart of the mean call time over the steps with calls, with one stacked bar per rank.

    ``key`` is the column of the rank. Returns None without calls.
    """
    sums = ("transit_ns", "wait_ns", "synchronization_ns", "idle_ns")
    found = calls.filter(pc.is_valid(calls[key])).group_by(key, use_threads=False)
    rows = found.aggregate(
        [("step", "count_distinct", pc.CountOptions("all")), *((each, "sum") for each in sums)]
    ).to_pylist()
    if not rows:
        return None
    values: dict[str, list[int | float | None]] = {part: [] for part, _ in _CALL_PARTS}
    for row in rows:
        transit, wait, synchronization, idle = (row[f"{each}_sum"] for each in sums)
        rest = None if wait is None else wait - (synchronization or 0)
        for part, time in zip(values, (transit, synchronization, rest, idle), strict=True):
            values[part].append(None if time is None else max(time, 0) // row["step_count_distinct"])
    lines = [
        Line(METRICS.metric(part, window=window), category, values[part])
        for part, category in _CALL_PARTS
        if any(value is not None for value in values[part])
    ]
    return Series(name, title, subtitle, x, [str(row[key]) for row in rows], lines, "stacked_bars")


def label(ranks: Stage) -> str:
    """Returns a short name for the ranks of a stage, such as "3", "0-7" or "0, 2, 4"."""
    if len(ranks) > 2 and ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"{ranks[0]}-{ranks[-1]}"
    return ranks_text(ranks) if len(ranks) <= 4 else f"{ranks_text(ranks[:3])}, ... {ranks[-1]}"


def _parts(times: dict[str, int]) -> dict[str, int]:
    parts: dict[str, int] = {key: times[key] for key in ("preparing_ns", "overlapped_ns") if key in times}
    if "computing_ns" in times:
        parts["computing_alone_ns"] = max(times["computing_ns"] - times.get("overlapped_ns", 0), 0)
    if "exposed_ns" in times:
        parts["exposed_rest_ns"] = min(
            times.get("exposed_without_receive_ns", times["exposed_ns"]), times["exposed_ns"]
        )
        parts["exposed_receive_ns"] = times["exposed_ns"] - parts["exposed_rest_ns"]
    if "free_ns" in times:
        parts["device_free_ns"] = times["free_ns"]
    return parts
