"""Charts and tables of all ranks of a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.communication import SEND_LESS
from tb_plugin.analysis.job_tables.metrics import METRICS, REPORTED
from tb_plugin.analysis.job_tables.slow_ranks import by_stage, findings
from tb_plugin.analysis.job_tables.stages import STAGE, Stage, stages_of
from tb_plugin.analysis.job_tables.steps import RankTimes, label, rank_means, stage_means, step_bars, step_frame
from tb_plugin.analysis.job_tables.traffic import band_frame, communication_frame, link_frame, link_maps, link_totals
from tb_plugin.model.trace.job_tables import GROUPS, LINKS, OPERATIONS, SCHEMAS, STEP_TIMES, job_table
from tb_plugin.payloads import Figure, Line, Notice, Series

# reported column, metric, colour
_CALLS = (
    ("transit_ns", "transit_ns", "transfer"), ("wait_ns", "call_wait_ns", "wait"), ("idle_ns", "call_idle_ns", "idle"),
)  # fmt: skip
# maximum number of bars in a chart; the table has all ranks
MOST_DRAWN = 1024


class JobPayloads(msgspec.Struct, frozen=True, eq=False):
    ranks: int
    """Number of ranks that report times."""
    stages: tuple[Stage, ...]
    groups: int
    step: list[Figure]
    """Step time, share of exposed communication, and share of the pipeline bubble."""
    findings: list[Notice]
    pictures: list[Series]
    """Charts by rank and by stage, and matrices of links. Charts are omitted if their data is not reported."""
    frames: dict[str, Frame]


def job_payloads(tables: Mapping[str, pa.Table]) -> JobPayloads:
    """Computes findings, charts and tables from ``trace.job_tables``. A missing table counts as an empty table."""
    every = {name: tables.get(name, job_table(name, {})) for name in SCHEMAS}
    times, stages = every[STEP_TIMES], stages_of(every)
    ranks, of_stages = rank_means(times), stage_means(times, stages)
    totals = link_totals(every[LINKS])
    pictures = []
    if ranks:
        text = (
            f"mean step, the first {MOST_DRAWN:,} of {len(ranks):,} ranks" if len(ranks) > MOST_DRAWN else "mean step"
        )
        pictures.append(step_bars("rank_times", "Step time by rank", text, "job_rank", ranks[:MOST_DRAWN]))
    if of_stages:
        text = "each part: maximum over all ranks; no single rank has this step"
        pictures.append(step_bars("stage_times", "Step time by stage", text, "job_stage", of_stages))
    pictures += _call_bars(every[OPERATIONS], len(ranks))
    frames = (
        step_frame(times, stages),
        communication_frame(every),
        band_frame(every),
        link_frame(totals),
        _groups(every[GROUPS]),
    )
    return JobPayloads(
        len(ranks),
        stages,
        sum(kind != STAGE for kind in every[GROUPS]["kind"].to_pylist()),
        step_figures(ranks),
        [*exposed_findings(ranks, stages), *findings(ranks, stages, of_stages, totals)],
        [*pictures, *link_maps(totals)],
        {frame.name: frame for frame in frames},
    )


def _call_bars(calls: pa.Table, ranks: int) -> list[Series]:
    """Returns a chart of communication calls with one bar per rank.

    Each bar shows the parts of the mean call time, over the steps for which the rank reports calls.
    """
    keys = [key for key, _, _ in _CALLS]
    found = calls.group_by("rank", use_threads=False).aggregate(
        [("step", "count_distinct", pc.CountOptions("all")), *((key, "sum") for key in keys)]
    )
    every = [row for row in found.sort_by("rank").to_pylist() if row["rank"] is not None]
    rows = every[:MOST_DRAWN]
    if not rows:
        return []
    lines = [
        Line(
            METRICS.metric(shown, window=REPORTED),
            category,
            [
                None if row[f"{key}_sum"] is None else max(row[f"{key}_sum"], 0) // row["step_count_distinct"]
                for row in rows
            ],
        )
        for key, shown, category in _CALLS
    ]
    x = METRICS.metric("job_rank")
    title, text = "Communication by rank", "mean step, sum over calls"
    text += f"; {len(every):,} of {ranks:,} ranks report calls" if len(every) < ranks else ""
    return [Series("rank_calls", title, text, x, [str(row["rank"]) for row in rows], lines, "stacked_bars")]


def _groups(table: pa.Table) -> Frame:
    data = {
        "members": table["ranks"],
        "group_name": table["name"],
        "group_kind": table["kind"],
        "group": table["group"],
    }
    empty = tuple(key for key, column in data.items() if column.null_count == len(column))
    columns = METRICS.columns(*data, hidden=empty)
    return Frame("job_groups", "Groups", columns, pa.table(data), ("members", "group"), "members")


# share of the step above which exposed communication is a finding
MAX_EXPOSED_SHARE = 1 / 3
_STEP_PARTS = ("computing_ns", "exposed_ns", "free_ns")


def step_figures(ranks: Sequence[RankTimes]) -> list[Figure]:
    """Returns the step time, and the shares of exposed communication and of the pipeline bubble.

    The list is empty without step times.
    """
    length, exposed, bubble = _sums(ranks)
    if not length:
        return []
    count = len(_with_whole_steps(ranks))
    figures = [METRICS.figure("job_step_ns", length // count), METRICS.figure("exposed_share", exposed / length)]
    return [*figures, *([METRICS.figure("bubble_share", bubble / length)] if bubble else [])]


def exposed_findings(ranks: Sequence[RankTimes], stages: Sequence[Stage]) -> Iterator[Notice]:
    """Yields a finding about the pipeline stage with the largest share of exposed communication.

    The share must exceed ``MAX_EXPOSED_SHARE``. If there are no stages, the finding describes the whole job.
    """
    found = [(_sums(mine), mine) for mine in by_stage(ranks, stages)]
    known = [each for each in found if each[0][0]]
    if not known:
        return
    (length, exposed, bubble), worst = max(known, key=lambda each: each[0][1] / each[0][0])
    if exposed <= MAX_EXPOSED_SHARE * length:
        return
    count = len(_with_whole_steps(worst))
    figures = [
        METRICS.figure("exposed_share", exposed / length),
        METRICS.figure("exposed_ns", exposed // count),
        METRICS.figure("job_step_ns", length // count),
    ]
    whose = f"On ranks {label(tuple(each.ranks[0] for each in worst))}" if len(found) > 1 else "On the average rank"
    text = f"{whose}, exposed communication takes {{exposed_share}} of the step ({{exposed_ns}} of {{job_step_ns}})"
    if bubble:
        figures.append(METRICS.figure("bubble_ns", bubble // count))
        text += "; {bubble_ns} of this is the pipeline bubble, the time in which a stage receives from another stage"
    todo = SEND_LESS[0].upper() + SEND_LESS[1:]
    if 2 * bubble > exposed:
        todo = "Use more micro-batches, or move layers so that no stage waits for another."
    yield Notice("job_exposed", "high", f"{text}.", todo, figures, "exposed_share", MAX_EXPOSED_SHARE)


def _with_whole_steps(ranks: Sequence[RankTimes]) -> list[RankTimes]:
    return [each for each in ranks if all(key in each.times for key in _STEP_PARTS)]


def _sums(ranks: Sequence[RankTimes]) -> tuple[int, int, int]:
    """Returns three sums over the ranks that report a complete step: step time, exposed communication and bubble."""
    times = [each.times for each in _with_whole_steps(ranks)]
    length = sum(each[key] for each in times for key in _STEP_PARTS) + sum(
        each.get("preparing_ns", 0) for each in times
    )
    return length, sum(each["exposed_ns"] for each in times), sum(each.get("bubble_ns", 0) for each in times)
