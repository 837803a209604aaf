"""What is slow in a job, which ranks are a stage, what went over links: by hand."""

from __future__ import annotations

import itertools
import random
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.job_tables.findings import findings, slow_links, slow_ranks
from tb_plugin.analysis.job_tables.links import MOST_DRAWN, Link, counted_links, link_maps
from tb_plugin.analysis.job_tables.stages import connected_stages, stage_rows, stages_of
from tb_plugin.analysis.job_tables.steps import RankTimes, label, rank_means, stage_means, step_bars
from tb_plugin.analysis.outlying_ranks import outlier_rows
from tb_plugin.model.trace.job_tables import GROUPS, LINKS, OPERATIONS, SCHEMAS, STEP_TIMES
from tb_plugin.payloads import Metric
from tb_plugin.views.cluster.payloads import exposed_findings, job_payloads, step_figures

X = Metric("job_rank", "Rank", "count", "")


def table(name: str, *rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), pa.schema(SCHEMAS[name]))


def times(*rows: tuple[int, str, int]) -> pa.Table:
    """Rank, step and computing time."""
    return table(STEP_TIMES, *({"rank": rank, "step": step, "computing_ns": time} for rank, step, time in rows))


def means(*values: int, key: str = "computing_ns") -> list[RankTimes]:
    return [RankTimes((rank,), {key: value}) for rank, value in enumerate(values)]


def every_step(*values: int, key: str = "computing_ns") -> pa.Table:
    """The same times of each rank in four steps."""
    return table(
        STEP_TIMES, *({"rank": r, "step": str(step), key: v} for r, v in enumerate(values) for step in range(4))
    )


def link(source: int, destination: int, moved: int, took: int, **more: Any) -> dict[str, Any]:
    return {"step": "1", "group": "g", "source": source, "destination": destination, "in_group": False,
            "transport": "fast", "bytes": moved, "transit_ns": took, **more}  # fmt: skip


@pytest.mark.parametrize("count", [4, 16, 64])
def test_one_planted_value_is_found_among_any_number(count: int) -> None:
    values = 1_000_000 + np.random.default_rng(count).integers(0, 10_000, (count, 4)).astype(np.float64)
    assert outlier_rows(values) == []
    values[count // 3] += 400_000
    assert outlier_rows(values) == [count // 3]
    assert outlier_rows(-values) == [] and outlier_rows(values[:0]) == []


def test_small_differences_do_not_matter() -> None:
    assert outlier_rows(np.array([[100.0], [100], [100], [105]])) == []
    assert outlier_rows(np.array([[100.0], [100], [100], [106]])) == [3]


def test_ranks_are_compared_with_those_of_their_stage() -> None:
    rows = every_step(100, 101, 100, 150, 300, 301, 300, 302)
    (slow,) = slow_ranks(rows, [(0, 1, 2, 3), (4, 5, 6, 7)], "computing_ns")
    assert (slow.rank, slow.stage, slow.time_ns, slow.median_ns) == (3, (0, 1, 2, 3), 150, 100)
    assert slow_ranks(rows, [], "computing_ns") == [], "without stages eight ranks of two kinds are no outliers"
    assert slow_ranks(rows, [], "free_ns") == []


def test_what_is_said_of_ranks() -> None:
    told = findings(every_step(100, 101, 100, 150), [], [])
    assert [(notice.rule, notice.severity) for notice in told] == [("slow_rank", "high")]
    figures = {figure.metric.key: figure.value for figure in told[0].figures}
    assert figures["job_rank"] == 3 and figures["above_median"] == 0.5 and figures["compared_count"] == 4
    assert [notice.rule for notice in findings(every_step(100, 110), [], [])] == ["uneven_ranks"]
    assert findings(every_step(100, 105), [], []) == findings(table(STEP_TIMES), [], []) == []
    free = findings(every_step(50, 50, 51, 90, key="free_ns"), [], [])
    assert [notice.rule for notice in free] == ["free_rank"]
    (uneven,) = findings(every_step(100, 100, 130, 130), [(0, 1), (2, 3)], [])
    assert uneven.rule == "uneven_stages" and uneven.severity == "medium"
    assert {figure.metric.key: figure.value for figure in uneven.figures}["spread_ratio"] == 0.3


def over(source: int, destination: int, transport: str, moved: int, took: int) -> Link:
    return Link(str(source), str(destination), transport, moved, took)


def test_slow_links_are_those_of_their_kind() -> None:
    """Bandwidth, not time: a link that moves twice as much in twice the time is none. Tiny ones are not compared."""
    links = [over(0, to, "fast", 1000 * to, 10 * to) for to in range(1, 6)]
    assert slow_links(links) == []
    slow = over(1, 2, "fast", 4000, 100)
    tiny = over(2, 1, "fast", 40, 100)
    copy, other = over(0, 0, "fast", 4000, 4000), over(3, 4, "slower", 4000, 400)
    (found,) = slow_links([*links, slow, tiny, copy, other])
    assert found.link == slow and found.bandwidth == 40 * 10**9 and found.count == 6
    (notice,) = findings(table(STEP_TIMES), [], [*links, slow])
    assert notice.rule == "slow_link"
    assert {figure.metric.key: figure.value for figure in notice.figures}["below_median"] == pytest.approx(0.6)


def test_stages_follow_from_messages() -> None:
    pairs = [(rank, rank + 4) for rank in range(4)]
    halves = [(0, 1), (2, 3), (4, 5), (6, 7)]
    across = [(0, 2), (1, 3), (4, 6), (5, 7)]
    everybody = [tuple(range(8)), *pairs]
    assert connected_stages(pairs, [*halves, *across, *everybody]) == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert connected_stages(pairs, halves) == tuple(halves), "nothing joins them"
    assert connected_stages([], halves) == ()
    assert connected_stages([(0, 1), (1, 2)], [(0, 2)], [0, 1, 2, 3]) == ((0,), (1,), (2,), (3,)), "a chain of three"
    assert connected_stages([(0, 1)], [(0, 2), (2, 1)]) == (), "groups join ranks that send to each other"


@given(st.integers(1, 4), st.integers(1, 4), st.integers(2, 4), st.randoms())
def test_any_grid_of_ranks_is_cut_into_its_stages(tensor: int, data: int, pipeline: int, chance: random.Random) -> None:
    size = tensor * data
    ranks = list(range(size * pipeline))
    chains = [[at * size + place for at in range(pipeline)] for place in range(size)]
    messages = [pair for chain in chains for pair in itertools.pairwise(chain)]
    groups: list[list[int]] = [ranks, *chains, *([chain[0], chain[-1]] for chain in chains)]
    for at in range(pipeline):
        grid = [[at * size + d * tensor + t for t in range(tensor)] for d in range(data)]
        groups += [*grid, *map(list, zip(*grid, strict=True))]
    chance.shuffle(groups)
    chance.shuffle(messages)
    wanted = tuple(tuple(ranks[at * size : (at + 1) * size]) for at in range(pipeline))
    assert connected_stages(messages, groups, ranks) == wanted


def test_who_says_which_ranks_are_a_stage() -> None:
    """Stated rows first, then places in the pipeline, then messages over links, then groups of messages."""
    rows = [{"rank": rank, "step": "1", "computing_ns": 10 + rank} for rank in range(4)]
    bare = table(STEP_TIMES, *rows)
    stated = table(STEP_TIMES, *rows, {"stage_ranks": "0, 2", "step": "1"}, {"stage_ranks": "1, 3", "step": "1"})
    placed = table(STEP_TIMES, *({**row, "pp_index": row["rank"] // 3} for row in rows))
    listed = table(GROUPS, {"kind": "stage", "ranks": "0"}, {"kind": "stage", "ranks": "1, 2, 3"})
    of_links = table(LINKS, link(0, 1, 1, 1, kind="p2p"), link(2, 3, 1, 1, kind="p2p"), link(0, 0, 1, 1, kind="p2p"))
    inside = table(LINKS, link(0, 1, 1, 1, kind="p2p", in_group=True))
    groups = table(
        GROUPS, {"group": "a", "ranks": "0, 2"}, {"group": "b", "ranks": "1, 3"}, {"kind": "p2p", "ranks": "0, 1"}
    )
    calls = table(OPERATIONS, {"kind": "p2p", "group": "a"})
    assert stages_of({STEP_TIMES: stated, GROUPS: listed, LINKS: of_links}) == ((0,), (0, 2), (1, 2, 3), (1, 3))
    assert stages_of({STEP_TIMES: stated}) == ((0, 2), (1, 3))
    assert stages_of({STEP_TIMES: placed, LINKS: of_links}) == ((0, 1, 2), (3,))
    assert stages_of({STEP_TIMES: bare, LINKS: of_links, GROUPS: groups.slice(0, 2)}) == ((0, 2), (1, 3))
    assert stages_of({STEP_TIMES: bare, LINKS: inside, GROUPS: groups, OPERATIONS: calls}) == ((0,), (1, 3), (2,))
    assert stages_of({STEP_TIMES: bare}) == stages_of({}) == ()


def test_of_a_stage_each_time_is_the_largest() -> None:
    made = stage_rows(times((0, "1", 5), (1, "1", 7), (0, "2", 9), (1, "2", 1), (2, "1", 100)), [(0, 1)])
    rows = {row["step"]: row for row in made.to_pylist()}
    assert {step: row["computing_ns"] for step, row in rows.items()} == {"1": 7, "2": 9}
    assert rows["1"]["stage_ranks"] == "0, 1" and rows["1"]["free_ns"] is None
    assert [(each.ranks, each.times) for each in stage_means(times((0, "1", 5), (1, "1", 8)), [(0, 1)])] == [
        ((0, 1), {"computing_ns": 8})
    ]


def test_means_are_those_of_the_steps_that_state_a_time() -> None:
    rows = times((1, "1", 10), (1, "2", 20), (0, "1", 5))
    assert [(each.ranks, each.times) for each in rank_means(rows)] == [
        ((0,), {"computing_ns": 5}),
        ((1,), {"computing_ns": 15}),
    ]
    frame = job_payloads({STEP_TIMES: rows}).frames["job_steps"]
    assert [row["job_row"] for row in frame.data.to_pylist()] == ["rank 0", "rank 1", "rank 1"]
    assert "computing_ns" in {column.metric.key for column in frame.columns if not column.hidden}
    assert "tp_index" in {column.metric.key for column in frame.columns if column.hidden}


def test_parts_of_a_step_add_up() -> None:
    stated = {
        "computing_ns": 100,
        "overlapped_ns": 30,
        "exposed_ns": 50,
        "exposed_without_receive_ns": 10,
        "free_ns": 7,
    }
    series = step_bars("x", "X", "", X, [("0", RankTimes((0,), stated)), ("1", RankTimes((1,), {"computing_ns": 5}))])
    parts = {line.metric.key: line.values for line in series.lines}
    assert parts["computing_alone_ns"] == [70, 5] and parts["exposed_receive_ns"] == [40, None]
    assert sum(values[0] or 0 for values in parts.values()) == 100 + 50 + 7
    (line,) = step_bars("x", "", "", X, [("0", RankTimes((0,), {"exposed_ns": 1}))]).lines
    assert line.metric.title == "Exposed communication"


@pytest.mark.parametrize(("ranks", "text"), [((3,), "3"), ((0, 1), "0, 1"), ((0, 1, 2), "0-2"), ((0, 2, 4, 6), "0, 2, 4, 6"),
                                            ((0, 2, 4, 6, 8), "0, 2, 4, ... 8")])  # fmt: skip
def test_names_of_stages(ranks: tuple[int, ...], text: str) -> None:
    assert label(ranks) == text


def moved(*rows: dict[str, Any]) -> int:
    return sum(counted_links(table(LINKS, *rows))["bytes"].to_pylist())


def test_what_went_over_a_link_counts_once() -> None:
    """A sum over all calls counts, else those of each kind of call, else single calls; never the best and the worst."""
    single = [link(0, 1, 10, 1, operation="a"), link(0, 1, 20, 2, operation="b")]
    kinds = [link(0, 1, 7, 1, operation="x", place="total"), link(0, 1, 9, 1, operation="x", place="top1")]
    whole = [link(0, 1, 100, 10, place="total")]
    assert moved(*single) == 30 and moved(*single, *kinds) == 7 and moved(*single, *kinds, *whole) == 100
    other = [link(0, 1, 5, 1, group="h", operation="a"), link(0, 1, 1, 1, step="2", operation="a")]
    assert moved(*whole, *other) == 106
    unknown = table(LINKS, link(0, 1, 1, 1, in_group=True), link(None, 1, 1, 1))  # type: ignore[arg-type]
    assert job_payloads({LINKS: unknown}).frames["job_links"].data.num_rows == 0


def test_maps_of_links() -> None:
    links = [over(0, 1, "a", 100, 10), over(0, 1, "b", 100, 10), over(1, 5, "a", 3, 0), over(0, 0, "c", 9, 1)]
    speed, moved = link_maps(links, int, X)
    assert speed.x == ["0", "1", "5"] and [line.metric.title for line in speed.lines] == ["0", "1"]
    assert [line.values for line in speed.lines] == [[None, 10 * 10**9, None], [None, None, None]], (
        "no time, no bandwidth"
    )
    assert [line.values for line in moved.lines] == [[None, 200, None], [None, None, 3]]
    many, _ = link_maps([over(rank, rank + 1, "a", 1, 1) for rank in range(100)], int, X)
    assert len(many.lines) == MOST_DRAWN and "of 101 ranks" in many.subtitle
    assert link_maps([], int, X) == []


def test_thousands_of_ranks_take_no_time() -> None:
    """Nothing is compared with everything: 8192 ranks in 64 stages, and as many links of as many kinds."""
    count = 8192
    stages = [tuple(range(first, first + 128)) for first in range(0, count, 128)]
    ranks = every_step(*(1_000_000 + rank % 7 + 900_000 * (rank == 77) for rank in range(count)))
    links = [over(rank, rank + 1, f"kind {rank}", 1000, 10) for rank in range(count)]
    begin = time.monotonic()
    found = findings(ranks, stages, links)
    assert time.monotonic() - begin < 5
    assert [notice.rule for notice in found] == ["slow_rank", "uneven_stages"]
    assert slow_ranks(ranks, [], "computing_ns")[0].rank == 77


def test_what_calls_spend_their_time_with() -> None:
    """Sums over calls of a rank, over the steps in which it has any; idle time below 0 is none."""
    call = {"rank": 1, "step": "1", "transit_ns": 10, "wait_ns": 30, "idle_ns": 5}
    rows = [call, {**call, "step": "2"}, {**call, "idle_ns": -20}, {"rank": 0, "transit_ns": 7}, {"transit_ns": 9}]
    (series,) = (each for each in job_payloads({OPERATIONS: table(OPERATIONS, *rows)}).pictures)
    assert series.name == "rank_calls" and series.x == ["0", "1"]
    values = {line.metric.key: line.values for line in series.lines}
    assert values == {"transit_ns": [7, 15], "wait_rest_ns": [None, 45], "call_idle_ns": [None, 0]}
    assert job_payloads({}).pictures == []


def test_exposed_communication_is_told_from_a_third_of_the_step_on() -> None:
    def rank(number: int, exposed: int, bubble: int) -> RankTimes:
        parts = {"computing_ns": 100, "exposed_ns": exposed, "free_ns": 90, "preparing_ns": 10, "bubble_ns": bubble}
        return RankTimes((number,), parts)

    at_most = [rank(0, 100, 0), rank(1, 100, 0)]
    assert [figure.value for figure in step_figures(at_most)] == [300, 1 / 3]
    assert [*exposed_findings(at_most, [])] == [] and step_figures(means(5)) == [] == [*exposed_findings(means(5), [])]
    ranks = [*at_most, rank(2, 200, 150), rank(3, 200, 170)]
    (notice,) = exposed_findings(ranks, [(0, 1), (2, 3)])
    figures = {figure.metric.key: figure.value for figure in notice.figures}
    assert figures == {"exposed_share": 0.5, "exposed_ns": 200, "job_step_ns": 400, "bubble_ns": 160}
    assert "ranks 2, 3" in notice.text and "micro-batches" in notice.todo
    assert [figure.value for figure in step_figures(ranks)] == [350, 600 / 1400, 320 / 1400]


def test_communication_by_rank_says_how_many_ranks_state_calls() -> None:
    call = {"step": "1", "group": "g", "kind": "collective", "elapse_ns": 9, "transit_ns": 4, "wait_ns": 5, "rank": 0}
    found = job_payloads({STEP_TIMES: times((0, "1", 5), (1, "1", 5)), OPERATIONS: table(OPERATIONS, call)})
    (calls,) = (series for series in found.pictures if series.name == "rank_calls")
    assert calls.subtitle.endswith("; 1 of 2 ranks report calls")
