"""Slow ranks and slow links of a job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from tb_plugin.analysis.job_tables.metrics import METRICS
from tb_plugin.analysis.job_tables.outliers import FEWEST, LEAST_PERCENT, MANY, outlier_rows, twice_median
from tb_plugin.analysis.job_tables.stages import Stage, ranks_text
from tb_plugin.analysis.job_tables.steps import RankTimes, label
from tb_plugin.analysis.job_tables.traffic import LinkTotal
from tb_plugin.analysis.severity import SEVERE_SHARE, severity_of
from tb_plugin.payloads import Figure, Notice, Severity

# links that moved less than this part (1/n) of the busiest link are dominated by latency
MIN_TRAFFIC_PART = 10
# the tables list the others
MAX_FINDINGS = 5


class SlowRank(msgspec.Struct, frozen=True):
    """A rank with a time that is an outlier among the ranks of its pipeline stage."""

    rank: int
    stage: Stage
    key: str
    time_ns: int
    twice_median_ns: int


class SlowLink(msgspec.Struct, frozen=True):
    """A link whose bandwidth is an outlier among links of the same kind."""

    link: LinkTotal
    bandwidth: int
    twice_median: int
    count: int


def slow_ranks(ranks: Sequence[RankTimes], stages: Sequence[Stage], key: str) -> list[SlowRank]:
    """Returns the ranks whose time ``key`` is an outlier, slowest rank first.

    Each rank is compared with the other ranks of its pipeline stage, because stages do different work. If there are
    no stages, all ranks are compared with each other.
    """
    found = []
    for among in by_stage(ranks, stages):
        mine = [each for each in among if key in each.times]
        values = [each.times[key] for each in mine]
        ids = tuple(each.ranks[0] for each in mine)
        found += [SlowRank(ids[at], ids, key, values[at], twice_median(values)) for at in outlier_rows(values)]
    return sorted(found, key=lambda slow: (-slow.time_ns * 2 + slow.twice_median_ns, slow.rank))


def slow_links(totals: Sequence[LinkTotal]) -> list[SlowLink]:
    """Returns the links whose bandwidth is unusually low for their kind, slowest link first."""
    found = []
    kinds: dict[str, list[LinkTotal]] = defaultdict(list)
    for link in totals:
        if link.source != link.destination and link.bandwidth is not None:
            kinds[link.transport or ""].append(link)
    for mine in kinds.values():
        most = max(link.moved_bytes for link in mine)
        mine = [link for link in mine if link.moved_bytes * MIN_TRAFFIC_PART >= most]
        speeds = [link.bandwidth or 0 for link in mine]
        for at in outlier_rows([-speed for speed in speeds]):
            found.append(SlowLink(mine[at], speeds[at], twice_median(speeds), len(mine)))
    return sorted(
        found, key=lambda slow: (slow.bandwidth * 2 - slow.twice_median, slow.link.source, slow.link.destination)
    )


def findings(
    ranks: Sequence[RankTimes], stages: Sequence[Stage], of_stages: Sequence[RankTimes], totals: Sequence[LinkTotal]
) -> list[Notice]:
    """Returns findings about slow ranks, ranks with a late CPU, uneven stages and slow links."""
    computing = slow_ranks(ranks, stages, "computing_ns")
    waiting = slow_ranks(ranks, stages, "free_ns")
    return [
        *(_slow_rank(slow) for slow in computing[:MAX_FINDINGS]),
        *(_slow_link(slow) for slow in slow_links(totals)[:MAX_FINDINGS]),
        *(_free_rank(slow) for slow in waiting[:MAX_FINDINGS]),
        *([] if computing else _uneven_ranks(ranks, stages)),
        *_uneven_stages(of_stages),
    ]


def by_stage(ranks: Sequence[RankTimes], stages: Sequence[Stage]) -> list[list[RankTimes]]:
    """Returns one list of ranks per pipeline stage. If stages are unknown, one list contains all ranks."""
    if not stages:
        return [list(ranks)]
    by_rank = {each.ranks[0]: each for each in ranks}
    return [[by_rank[rank] for rank in stage if rank in by_rank] for stage in stages]


def _slow_rank(slow: SlowRank) -> Notice:
    figures = [*_compared(slow), METRICS.figure("computing_ns", slow.time_ns)]
    text = "Rank {job_rank} computes for {computing_ns} per step: {above_median} above the median ({median_ns}) of "
    todo = (
        "Check the input of this rank, its device (temperature, clock frequency) and work that only this "
        "rank does. Other ranks wait for this rank."
    )
    severity = severity_of(_above_median(slow))
    return Notice(
        "slow_rank",
        severity,
        f"{text}{{compared_count}} ranks{_test_suffix(slow)}.",
        todo,
        figures,
        "above_median",
        LEAST_PERCENT / 100,
    )


def _free_rank(slow: SlowRank) -> Notice:
    figures = [*_compared(slow), METRICS.figure("device_free_ns", slow.time_ns)]
    text = (
        "The device of rank {job_rank} is idle for {device_free_ns} per step: {above_median} "
        "above the median ({median_ns}) of {compared_count} ranks"
    )
    todo = (
        "The CPU of this rank launches work late. Check its processor, its data loading and other "
        "processes on its machine."
    )
    return Notice(
        "free_rank", "medium", f"{text}{_test_suffix(slow)}.", todo, figures, "above_median", LEAST_PERCENT / 100
    )


def _slow_link(slow: SlowLink) -> Notice:
    link = slow.link
    figures = [
        METRICS.figure("link_source", link.source),
        METRICS.figure("link_destination", link.destination),
        METRICS.figure("link_bandwidth", slow.bandwidth),
        METRICS.figure("link_bytes", link.moved_bytes),
        METRICS.figure("below_median", 1 - 2 * slow.bandwidth / slow.twice_median),
        METRICS.figure("median_bandwidth", slow.twice_median // 2),
        METRICS.figure("compared_count", slow.count),
        METRICS.figure("link_kind", link.transport or ""),
    ]
    text = (
        "The link from rank {link_source} to rank {link_destination} reaches {link_bandwidth}: {below_median} below the "
        "median {median_bandwidth} of {compared_count} links ({link_kind})."
    )
    todo = "Check the cable, port and switch between the two ranks, and other traffic on this link."
    return Notice("slow_link", "medium", text, todo, figures, "below_median", LEAST_PERCENT / 100)


def _uneven_ranks(ranks: Sequence[RankTimes], stages: Sequence[Stage]) -> Iterator[Notice]:
    """Yields a finding about the stage whose ranks differ most in compute time, if the difference is large."""
    worst: tuple[float, list[RankTimes]] = (LEAST_PERCENT / 100, [])
    for among in by_stage(ranks, stages):
        mine = [each for each in among if each.times.get("computing_ns")]
        times = [each.times["computing_ns"] for each in mine]
        if len(times) > 1 and (share := (max(times) - min(times)) / min(times)) > worst[0]:
            worst = share, mine
    share, mine = worst
    if not mine:
        return
    slowest = max(mine, key=lambda each: each.times["computing_ns"])
    figures = [
        METRICS.figure("spread_ratio", share),
        METRICS.figure("compared_count", len(mine)),
        METRICS.figure("job_rank", slowest.ranks[0]),
        METRICS.figure("computing_ns", slowest.times["computing_ns"]),
    ]
    text = "Compute time differs by {spread_ratio} among {compared_count} ranks"
    text += f" of stage {label(tuple(each.ranks[0] for each in mine))}" if len(stages) > 1 else ""
    text += "; no single rank is an outlier. Rank {job_rank} computes longest, {computing_ns} per step."
    yield Notice(
        "uneven_ranks",
        "low",
        text,
        "Compare the work of the ranks.",
        figures,
        "spread_ratio",
        LEAST_PERCENT / 100,
    )


def _uneven_stages(stages: Sequence[RankTimes]) -> Iterator[Notice]:
    """Yields a finding about the slowest pipeline stage, which delays all other stages."""
    known = [each for each in stages if each.times.get("computing_ns")]
    if len(known) < 2:
        return
    longest, shortest = (pick(known, key=lambda each: each.times["computing_ns"]) for pick in (max, min))
    least = shortest.times["computing_ns"]
    share = (longest.times["computing_ns"] - least) / least
    if share <= LEAST_PERCENT / 100:
        return
    figures = [
        METRICS.figure("job_stage", ranks_text(longest.ranks)),
        METRICS.figure("computing_ns", longest.times["computing_ns"]),
        METRICS.figure("spread_ratio", share),
    ]
    text = (
        f"The pipeline stage on ranks {{job_stage}} spends {{computing_ns}} per step on compute, {{spread_ratio}} more than "
        f"the stage on ranks {label(shortest.ranks)}: a pipeline runs at the speed of its slowest stage."
    )
    severity: Severity = "medium" if share >= SEVERE_SHARE else "low"
    yield Notice(
        "uneven_stages",
        severity,
        text,
        "Move layers from the slowest stage to faster stages.",
        figures,
        "spread_ratio",
        LEAST_PERCENT / 100,
    )


def _compared(slow: SlowRank) -> list[Figure]:
    return [
        METRICS.figure("job_rank", slow.rank),
        METRICS.figure("above_median", _above_median(slow)),
        METRICS.figure("median_ns", slow.twice_median_ns // 2),
        METRICS.figure("compared_count", len(slow.stage)),
    ]


def _above_median(slow: SlowRank) -> float:
    return 2 * slow.time_ns / slow.twice_median_ns - 1 if slow.twice_median_ns > 0 else float(slow.time_ns > 0)


def _test_suffix(slow: SlowRank) -> str:
    test = "3 sigma" if len(slow.stage) >= MANY else "Dixon's Q test"
    return f" ({test}, ranks {label(slow.stage)})" if len(slow.stage) >= FEWEST else ""
