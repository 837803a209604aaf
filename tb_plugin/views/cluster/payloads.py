"""Charts and tables of all ranks of a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.communication import SEND_LESS
from tb_plugin.analysis.job_tables.findings import by_stage, findings
from tb_plugin.analysis.job_tables.links import Link, bytes_per_second, counted_links, link_maps
from tb_plugin.analysis.job_tables.metrics import CALL_COLUMNS, METRICS, REPORTED, STEP_COLUMNS
from tb_plugin.analysis.job_tables.stages import STAGE, Stage, ranks_text, stage_rows, stages_of
from tb_plugin.analysis.job_tables.steps import RankTimes, call_bars, label, rank_means, stage_means, step_bars
from tb_plugin.analysis.job_tables.tables import Columns, job_frame, sum_by_key, with_count
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.job_tables import BANDS, GROUPS, LINKS, OPERATIONS, SCHEMAS, STEP_TIMES, job_table
from tb_plugin.payloads import Figure, Notice, Series

# maximum number of bars in a chart; the table has all ranks
MOST_DRAWN = 1024
# share of the step above which exposed communication is a finding
MAX_EXPOSED_SHARE = 1 / 3
_STEP_PARTS = ("computing_ns", "exposed_ns", "free_ns")
_INDEXES = ("dp_index", "pp_index", "tp_index")


class JobPayloads(msgspec.Struct, frozen=True, eq=False):
    ranks: int
    """Number of ranks that report times."""
    stages: tuple[Stage, ...]
    groups: int
    step: list[Figure]
    """Step time, share of exposed communication, and share of the pipeline bubble."""
    findings: list[Notice]
    pictures: list[Series]
    frames: dict[str, Frame]


def job_payloads(tables: Mapping[str, pa.Table]) -> JobPayloads:
    """Computes findings, charts and tables from ``trace.job_tables``. A missing table counts as an empty table."""
    every = {name: tables.get(name, job_table(name, {})) for name in SCHEMAS}
    times, stages = every[STEP_TIMES], stages_of(every)
    ranks, of_stages = rank_means(times), stage_means(times, stages)
    links = _links(every[LINKS])
    frames = (
        _steps(times, stages),
        _communication(every[OPERATIONS], every[GROUPS]),
        _bands(every[BANDS], every[GROUPS]),
        _links_frame(links),
        _groups(every[GROUPS]),
    )
    return JobPayloads(
        len(ranks),
        stages,
        sum(kind != STAGE for kind in every[GROUPS]["kind"].to_pylist()),
        step_figures(ranks),
        [*exposed_findings(ranks, stages), *findings(times, stages, links)],
        [
            *_pictures(ranks, of_stages, every[OPERATIONS]),
            *link_maps(links, int, METRICS.metric("link_destination", "To")),
        ],
        {frame.name: frame for frame in frames},
    )


def _pictures(ranks: Sequence[RankTimes], stages: Sequence[RankTimes], calls: pa.Table) -> Iterator[Series]:
    x, text = METRICS.metric("job_rank"), "mean step"
    if len(ranks) > MOST_DRAWN:
        text += f", the first {MOST_DRAWN:,} of {len(ranks):,} ranks"
    if ranks:
        rows = [(label(row.ranks), row) for row in ranks[:MOST_DRAWN]]
        yield step_bars("rank_times", "Step time by rank", text, x, rows)
    if stages:
        text = "each part: maximum over all ranks; no single rank has this step"
        rows = [(label(row.ranks), row) for row in stages]
        yield step_bars("stage_times", "Step time by stage", text, METRICS.metric("job_stage"), rows)
    calling = pc.unique(calls["rank"].drop_null()).sort()
    drawn = sorted_by(calls.filter(pc.is_in(calls["rank"], calling[:MOST_DRAWN])), [("rank", "ascending")])
    text = "mean step, sum over calls"
    text += f"; {len(calling):,} of {len(ranks):,} ranks report calls" if len(calling) < len(ranks) else ""
    if (bars := call_bars("rank_calls", "Communication by rank", text, x, drawn, "rank", REPORTED)) is not None:
        yield bars


def _steps(times: pa.Table, stages: Sequence[Stage]) -> Frame:
    """Returns one row per step and rank, and one row per step and stage if there are several stages."""
    of_ranks = times.filter(pc.is_valid(times["rank"]))
    of_stages = times.filter(pc.is_valid(times["stage_ranks"]))
    if not of_stages.num_rows and len(stages) > 1:
        of_stages = stage_rows(times, stages)
    rows = sorted_by(pa.concat_tables([of_ranks, of_stages]), [("step", "ascending"), ("rank", "ascending")])
    place = {rank: ranks_text(stage) for stage in stages for rank in stage}
    ranks = rows["rank"].to_pylist()
    stage = pa.chunked_array([pa.array([place.get(rank) for rank in ranks], pa.string())])
    data = {
        "job_row": pa.array(["stage" if rank is None else f"rank {rank}" for rank in ranks], pa.string()),
        "job_rank": rows["rank"],
        "job_stage": pc.coalesce(rows["stage_ranks"], stage),
        "step": rows["step"],
        **{shown: rows[key] for key, shown in STEP_COLUMNS.items()},
        **{key: rows[key] for key in _INDEXES},
    }
    empty = tuple(key for key, column in data.items() if column.null_count == len(column))
    columns = METRICS.columns(*data, hidden=(*empty, "job_rank"))
    return Frame("job_steps", "Steps", columns, pa.table(data), ("job_row", "job_stage", "step"), "job_row")


def _communication(calls: pa.Table, groups: pa.Table) -> Frame:
    found = _sorted_sums(with_count(calls), ("group", "kind", "rank"), ("calls", *CALL_COLUMNS))
    data = {
        "group": found["group"],
        **_group_columns(found, groups),
        "group_kind": found["kind"],
        "job_rank": found["rank"],
        "job_calls": found["calls"],
        **{shown: found[key] for key, shown in CALL_COLUMNS.items()},
    }
    keys = ("group", "group_kind", "job_rank")
    return job_frame(METRICS, "job_communication", "Communication", data, keys, "group")


def _bands(bands: pa.Table, groups: pa.Table) -> Frame:
    found = _sorted_sums(bands, ("group", "kind", "rank", "band", "part_of"), ("bytes", "transit_ns"))
    moved = zip(found["bytes"].to_pylist(), found["transit_ns"].to_pylist(), strict=True)
    data = {
        "link_kind": found["band"],
        "link_part_of": found["part_of"],
        "group": found["group"],
        **_group_columns(found, groups),
        "group_kind": found["kind"],
        "job_rank": found["rank"],
        "link_bytes": found["bytes"],
        "link_ns": found["transit_ns"],
        "link_bandwidth": pa.array([bytes_per_second(*each) for each in moved], pa.int64()),
    }
    keys = ("group", "group_kind", "job_rank", "link_kind")
    return job_frame(METRICS, "job_bands", "Kinds of links", data, keys, "link_kind")


def _sorted_sums(table: pa.Table, keys: tuple[str, ...], sums: tuple[str, ...]) -> pa.Table:
    return sorted_by(sum_by_key(table, keys, sums), [(key, "ascending") for key in keys])


def _group_columns(found: pa.Table, groups: pa.Table) -> Columns:
    """Returns the name and the ranks of the group of each row."""
    rows = groups.to_pylist()
    texts = {
        shown: {row["group"]: row[key] for row in rows if row["group"] and row[key]}
        for shown, key in (("group_name", "name"), ("members", "ranks"))
    }
    names = found["group"].to_pylist()
    return {shown: pa.array([of.get(name) for name in names], pa.string()) for shown, of in texts.items()}


def _links(links: pa.Table) -> list[Link]:
    """Returns the traffic between ranks. Links whose ends are positions in a group are skipped."""
    known = pc.and_(pc.is_valid(links["source"]), pc.is_valid(links["destination"]))
    rows = counted_links(links.filter(pc.and_(known, pc.invert(pc.fill_null(links["in_group"], False)))))
    sums = _sorted_sums(rows, ("source", "destination", "transport"), ("bytes", "transit_ns"))
    return [
        Link(str(row["source"]), str(row["destination"]), row["transport"], row["bytes"] or 0, row["transit_ns"] or 0)
        for row in sums.to_pylist()
    ]


def _links_frame(links: list[Link]) -> Frame:
    data: Columns = {
        "link_source": pa.array([int(link.source) for link in links], pa.int64()),
        "link_destination": pa.array([int(link.destination) for link in links], pa.int64()),
        "link_kind": pa.array([link.transport for link in links], pa.string()),
        "link_bytes": pa.array([link.moved_bytes for link in links], pa.int64()),
        "link_ns": pa.array([link.link_ns for link in links], pa.int64()),
        "link_bandwidth": pa.array([link.bandwidth for link in links], pa.int64()),
    }
    return job_frame(METRICS, "job_links", "Links", data, ("link_source", "link_destination", "link_kind"), "link_kind")


def _groups(table: pa.Table) -> Frame:
    sources = {"members": "ranks", "group_name": "name", "group_kind": "kind", "group": "group"}
    data = {shown: table[key] for shown, key in sources.items()}
    return job_frame(METRICS, "job_groups", "Groups", data, ("members", "group"), "members")


def step_figures(ranks: Sequence[RankTimes]) -> list[Figure]:
    """Returns the step time, and the shares of exposed communication and of the pipeline bubble.

    The list is empty without step times.
    """
    count, length, exposed, bubble = _sums(ranks)
    if not length:
        return []
    figures = [METRICS.figure("job_step_ns", length // count), METRICS.figure("exposed_share", exposed / length)]
    return [*figures, *([METRICS.figure("bubble_share", bubble / length)] if bubble else [])]


def exposed_findings(ranks: Sequence[RankTimes], stages: Sequence[Stage]) -> Iterator[Notice]:
    """Yields a finding about the pipeline stage with the largest share of exposed communication.

    The share must exceed ``MAX_EXPOSED_SHARE``. If there are no stages, the finding describes the whole job.
    """
    found = [(_sums(mine), mine) for mine in by_stage(ranks, stages)]
    known = [each for each in found if each[0][1]]
    if not known:
        return
    (count, length, exposed, bubble), worst = max(known, key=lambda each: each[0][2] / each[0][1])
    if exposed <= MAX_EXPOSED_SHARE * length:
        return
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


def _sums(ranks: Sequence[RankTimes]) -> tuple[int, int, int, int]:
    """Returns the number of ranks with a complete step, and their step time, exposed communication and bubble."""
    times = [each.times for each in ranks if all(key in each.times for key in _STEP_PARTS)]
    length = sum(each.get(key, 0) for each in times for key in (*_STEP_PARTS, "preparing_ns"))
    return (
        len(times),
        length,
        sum(each["exposed_ns"] for each in times),
        sum(each.get("bubble_ns", 0) for each in times),
    )
