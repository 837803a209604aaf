"""Findings about reported times of ranks and reported links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.job_tables.links import Link
from tb_plugin.analysis.job_tables.metrics import METRICS
from tb_plugin.analysis.job_tables.stages import Stage, ranks_text
from tb_plugin.analysis.job_tables.steps import RankTimes, label, rank_means, stage_means
from tb_plugin.analysis.outlying_ranks import MIN_EXCESS, outlier_rows
from tb_plugin.analysis.severity import SEVERE_SHARE, severity_of
from tb_plugin.payloads import Notice, Severity

# links that moved less than this part (1/n) of the busiest link are dominated by latency
MIN_TRAFFIC_PART = 10
# the tables list the others
MAX_FINDINGS = 5


class SlowRank(msgspec.Struct, frozen=True):
    """A rank with a time that is an outlier among the ranks of its pipeline stage."""

    rank: int
    stage: Stage
    time_ns: int
    median_ns: int

    @property
    def above_median(self) -> float:
        return self.time_ns / self.median_ns - 1 if self.median_ns > 0 else float(self.time_ns > 0)


class SlowLink(msgspec.Struct, frozen=True):
    """A link whose bandwidth is an outlier among links of the same kind."""

    link: Link
    bandwidth: int
    median: int
    count: int


def slow_ranks(times: pa.Table, stages: Sequence[Stage], key: str) -> list[SlowRank]:
    """Returns the ranks whose time ``key`` is an outlier in their pipeline stage, slowest rank first.

    ``times`` is the table of step times.
    """
    times = times.filter(pc.and_(pc.is_valid(times["rank"]), pc.is_valid(times[key])))
    every, steps = (times[name].combine_chunks().dictionary_encode() for name in ("rank", "step"))
    matrix = np.full((len(every.dictionary), len(steps.dictionary) + 1), np.nan)
    # null, which profiles without steps report, takes the last column
    matrix[every.indices.to_numpy(), pc.fill_null(steps.indices, len(steps.dictionary)).to_numpy()] = times[
        key
    ].to_numpy()
    matrix = matrix[:, ~np.isnan(matrix).all(axis=0)]
    row_of = {rank: row for row, rank in enumerate(every.dictionary.to_pylist())}
    found = []
    for among in stages or [tuple(sorted(row_of))]:
        ids = tuple(rank for rank in among if rank in row_of)
        values = matrix[[row_of[rank] for rank in ids]]
        if outliers := outlier_rows(values):
            mean = np.nanmean(values, axis=1)
            median = round(np.median(mean))
            found += [SlowRank(ids[at], ids, round(mean[at]), median) for at in outliers]
    return sorted(found, key=lambda slow: (slow.median_ns - slow.time_ns, slow.rank))


def slow_links(links: Sequence[Link]) -> list[SlowLink]:
    """Returns the links whose bandwidth is unusually low for their kind, slowest link first."""
    found = []
    kinds: dict[str, list[tuple[Link, int]]] = defaultdict(list)
    for link in links:
        if link.source != link.destination and (bandwidth := link.bandwidth) is not None:
            kinds[link.transport or ""].append((link, bandwidth))
    for every in kinds.values():
        most = max(link.moved_bytes for link, _ in every)
        mine = [each for each in every if each[0].moved_bytes * MIN_TRAFFIC_PART >= most]
        speeds = np.array([bandwidth for _, bandwidth in mine], np.float64)
        for at in outlier_rows(-speeds[:, None]):
            found.append(SlowLink(*mine[at], round(np.median(speeds)), len(mine)))
    return sorted(found, key=lambda slow: (slow.bandwidth - slow.median, slow.link.source, slow.link.destination))


def findings(times: pa.Table, stages: Sequence[Stage], links: Sequence[Link]) -> list[Notice]:
    """Returns findings about slow ranks, ranks with a late CPU, uneven stages and slow links.

    ``times`` is the table of step times.
    """
    computing = slow_ranks(times, stages, "computing_ns")
    waiting = slow_ranks(times, stages, "free_ns")
    return [
        *(_slow_rank(slow) for slow in computing[:MAX_FINDINGS]),
        *(_slow_link(slow) for slow in slow_links(links)[:MAX_FINDINGS]),
        *(_free_rank(slow) for slow in waiting[:MAX_FINDINGS]),
        *([] if computing else _uneven_ranks(rank_means(times), stages)),
        *_uneven_stages(stage_means(times, stages)),
    ]


def by_stage(ranks: Sequence[RankTimes], stages: Sequence[Stage]) -> list[list[RankTimes]]:
    """Returns one list of ranks per pipeline stage. If stages are unknown, one list contains all ranks."""
    if not stages:
        return [list(ranks)]
    by_rank = {each.ranks[0]: each for each in ranks}
    return [[by_rank[rank] for rank in stage if rank in by_rank] for stage in stages]


def _slow_rank(slow: SlowRank) -> Notice:
    text = (
        "Rank {job_rank} computes for {computing_ns} per step: {above_median} above the median ({median_ns}) of "
        "{compared_count} ranks"
    )
    todo = (
        "Check the input of this rank, its device (temperature, clock frequency) and work that only this rank does. "
        "Other ranks wait for this rank."
    )
    return _rank_notice("slow_rank", severity_of(slow.above_median), text, todo, slow, "computing_ns")


def _free_rank(slow: SlowRank) -> Notice:
    text = (
        "The device of rank {job_rank} is idle for {device_free_ns} per step: {above_median} above the median "
        "({median_ns}) of {compared_count} ranks"
    )
    todo = (
        "The CPU of this rank launches work late. Check its processor, its data loading and other processes on its "
        "machine."
    )
    return _rank_notice("free_rank", "medium", text, todo, slow, "device_free_ns")


def _rank_notice(rule: str, severity: Severity, text: str, todo: str, slow: SlowRank, key: str) -> Notice:
    figures = [
        METRICS.figure("job_rank", slow.rank),
        METRICS.figure("above_median", slow.above_median),
        METRICS.figure("median_ns", slow.median_ns),
        METRICS.figure("compared_count", len(slow.stage)),
        METRICS.figure(key, slow.time_ns),
    ]
    text += f" ({label(slow.stage)})."
    return Notice(rule, severity, text, todo, figures, "above_median", MIN_EXCESS)


def _slow_link(slow: SlowLink) -> Notice:
    link = slow.link
    figures = [
        METRICS.figure("link_source", int(link.source)),
        METRICS.figure("link_destination", int(link.destination)),
        METRICS.figure("link_bandwidth", slow.bandwidth),
        METRICS.figure("link_bytes", link.moved_bytes),
        METRICS.figure("below_median", 1 - slow.bandwidth / slow.median if slow.median else 0.0),
        METRICS.figure("median_bandwidth", slow.median),
        METRICS.figure("compared_count", slow.count),
        METRICS.figure("link_kind", link.transport or ""),
    ]
    text = (
        "The link from rank {link_source} to rank {link_destination} reaches {link_bandwidth}: {below_median} below the "
        "median {median_bandwidth} of {compared_count} links ({link_kind})."
    )
    todo = "Check the cable, port and switch between the two ranks, and other traffic on this link."
    return Notice("slow_link", "medium", text, todo, figures, "below_median", MIN_EXCESS)


def _uneven_ranks(ranks: Sequence[RankTimes], stages: Sequence[Stage]) -> Iterator[Notice]:
    """Yields a finding about the stage whose ranks differ most in compute time, if the difference is large."""
    share, mine = max(map(_spread, by_stage(ranks, stages)), key=lambda each: each[0], default=(0.0, []))
    if share <= MIN_EXCESS:
        return
    slowest = mine[-1]
    figures = [
        METRICS.figure("spread_ratio", share),
        METRICS.figure("compared_count", len(mine)),
        METRICS.figure("job_rank", slowest.ranks[0]),
        METRICS.figure("computing_ns", slowest.times["computing_ns"]),
    ]
    text = "Compute time differs by {spread_ratio} among {compared_count} ranks"
    text += f" of stage {label(tuple(sorted(each.ranks[0] for each in mine)))}" if len(stages) > 1 else ""
    text += "; no single rank is an outlier. Rank {job_rank} computes longest, {computing_ns} per step."
    yield Notice("uneven_ranks", "low", text, "Compare the work of the ranks.", figures, "spread_ratio", MIN_EXCESS)


def _uneven_stages(stages: Sequence[RankTimes]) -> Iterator[Notice]:
    """Yields a finding about the slowest pipeline stage, which delays all other stages."""
    share, known = _spread(stages)
    if share <= MIN_EXCESS:
        return
    figures = [
        METRICS.figure("job_stage", ranks_text(known[-1].ranks)),
        METRICS.figure("computing_ns", known[-1].times["computing_ns"]),
        METRICS.figure("spread_ratio", share),
    ]
    text = (
        "The pipeline stage on ranks {job_stage} spends {computing_ns} per step on compute, {spread_ratio} more than "
        f"the stage on ranks {label(known[0].ranks)}: a pipeline runs at the speed of its slowest stage."
    )
    severity: Severity = "medium" if share >= SEVERE_SHARE else "low"
    todo = "Move layers from the slowest stage to faster stages."
    yield Notice("uneven_stages", severity, text, todo, figures, "spread_ratio", MIN_EXCESS)


def _spread(every: Sequence[RankTimes]) -> tuple[float, list[RankTimes]]:
    """Returns (longest - shortest) / shortest compute time, and the ranks with compute time, longest last."""
    known = sorted(
        (each for each in every if each.times.get("computing_ns")), key=lambda each: each.times["computing_ns"]
    )
    if len(known) < 2:
        return 0.0, known
    shortest, longest = (known[place].times["computing_ns"] for place in (0, -1))
    return (longest - shortest) / shortest, known
