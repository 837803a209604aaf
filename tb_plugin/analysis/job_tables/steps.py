"""Step times by rank and by pipeline stage."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.job_tables.metrics import METRICS, STEP_COLUMNS
from tb_plugin.analysis.job_tables.stages import TIMES, Stage, ranks_in, ranks_text, stage_rows
from tb_plugin.payloads import Line, Series

_PARTS = (
    ("preparing_ns", "runtime"), ("computing_alone_ns", "compute"), ("overlapped_ns", "overlap"),
    ("exposed_rest_ns", "communication"), ("exposed_receive_ns", "wait"), ("device_free_ns", "idle"),
)  # fmt: skip
_INDEXES = ("dp_index", "pp_index", "tp_index")


class RankTimes(msgspec.Struct, frozen=True):
    """Mean step times of one rank or stage, in nanoseconds. ``times`` contains only reported times."""

    ranks: Stage
    times: dict[str, int]


def rank_means(times: pa.Table) -> list[RankTimes]:
    """Returns the mean step times of each rank in nanoseconds, rounded down."""
    rows = times.filter(pc.is_valid(times["rank"]))
    found = rows.group_by("rank", use_threads=False).aggregate(
        [(key, how) for key in TIMES for how in ("sum", "count")]
    )
    return sorted((_means(row, (row["rank"],)) for row in found.to_pylist()), key=lambda each: each.ranks)


def stage_means(times: pa.Table, stages: Sequence[Stage]) -> list[RankTimes]:
    """Returns the mean step times of each stage in nanoseconds.

    If the profile does not report stage times, the time of a stage in each step is the maximum over its ranks.
    """
    rows = times.filter(pc.is_valid(times["stage_ranks"]))
    if not rows.num_rows:
        rows = stage_rows(times, stages)
    found = rows.group_by("stage_ranks", use_threads=False).aggregate(
        [(key, how) for key in TIMES for how in ("sum", "count")]
    )
    return sorted((_means(row, ranks_in(row["stage_ranks"])) for row in found.to_pylist()), key=lambda each: each.ranks)


def step_frame(times: pa.Table, stages: Sequence[Stage]) -> Frame:
    """Returns the table of step times: one row per step and rank.

    If there are several stages, the table also has one row per step and stage.
    """
    of_ranks = times.filter(pc.is_valid(times["rank"]))
    of_stages = times.filter(pc.is_valid(times["stage_ranks"]))
    if not of_stages.num_rows and len(stages) > 1:
        of_stages = stage_rows(times, stages)
    rows = pa.concat_tables([of_ranks, of_stages]).sort_by([("step", "ascending"), ("rank", "ascending")])
    place = {rank: ranks_text(stage) for stage in stages for rank in stage}
    ranks = rows["rank"].to_pylist()
    data = {
        "job_row": pa.array(["stage" if rank is None else f"rank {rank}" for rank in ranks], pa.string()),
        "job_rank": rows["rank"],
        "job_stage": pc.coalesce(
            rows["stage_ranks"], pa.chunked_array([pa.array([place.get(r) for r in ranks], pa.string())])
        ),
        "step": rows["step"],
        **{shown: rows[key] for key, shown in STEP_COLUMNS.items()},
        **{key: rows[key] for key in _INDEXES},
    }
    empty = tuple(key for key, column in data.items() if column.null_count == len(column))
    columns = METRICS.columns(*data, hidden=(*empty, "job_rank"))
    return Frame("job_steps", "Steps", columns, pa.table(data), ("job_row", "job_stage", "step"), "job_row")


def step_bars(name: str, title: str, subtitle: str, key: str, rows: Sequence[RankTimes]) -> Series:
    """Returns a chart of the mean step time, with one stacked bar per rank or stage (``key``).

    The parts of a bar are the parts of the step.
    """
    parts = [_parts(row.times) for row in rows]
    receives = any(each.get("exposed_receive_ns") for each in parts)
    titles = {} if receives else {"exposed_rest_ns": METRICS["exposed_ns"].title}
    lines = [
        Line(METRICS.metric(part, titles.get(part, "")), category, [each.get(part) for each in parts])
        for part, category in _PARTS
        if any(each.get(part) for each in parts)
    ]
    return Series(name, title, subtitle, METRICS.metric(key), [label(row.ranks) for row in rows], lines, "stacked_bars")


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


def _means(row: dict[str, int | None], ranks: Stage) -> RankTimes:
    times = {}
    for key in TIMES:
        total, count = row[f"{key}_sum"], row[f"{key}_count"]
        if total is not None and count:
            times[key] = total // count
    return RankTimes(ranks, times)
