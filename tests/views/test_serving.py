"""Serving: numbers of planted servers, the steady state, outliers, gaps as a finding, and two servers by mode."""

from __future__ import annotations

import json
import statistics
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.served_steps import is_served, served_steps
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Breakdown, Figures, Notices, Scatter, View
from tb_plugin.rules._ordered_findings import findings_of
from tests.builders import TraceBuilder, analysis, kernel, model, part, payload_of, rows, trace, whole_part
from tests.synthetic import loaded

generator = loaded("synthetic_serving")


@cache
def planted(**config: Any) -> tuple[TraceTable, list[dict[str, Any]]]:
    document, truth = generator.generate(generator.Config(**config))
    return model(json.dumps(document).encode()), truth["steps"]


def decoding(*batches: int, period: int = 100, slow: dict[int, int] | None = None) -> TraceBuilder:
    """Decode steps of 50 us on the host with 30 us of work each, one every ``period`` us; before some the host is held up."""
    builder, at = trace(), 0
    for number, batch in enumerate(batches):
        at += (slow or {}).get(number, 0)
        builder.annotation(f"step[DECODE bs={batch}]", at, 50).launches(kernel(dur=30, at=at + 15), at=at + 10)
        at += period
    return builder


def test_facts_are_counted_from_the_plan() -> None:
    table, plan = planted(seed=31, dialect="vllm", steps=40)
    facts = part(table, "serving").facts
    starts = [step["start_ns"] for step in plan]
    periods = [b - a for a, b in pairwise(starts)]
    for mode in {step["mode"] for step in plan}:
        times = [step["end_ns"] - step["start_ns"] for step in plan if step["mode"] == mode]
        assert facts[f"serving.{mode}.steps"] == len(times)
        assert facts[f"serving.{mode}.step_time_mean_ns"] == pytest.approx(statistics.fmean(times), rel=1e-12)
    made = sum(step["generated"] for step in plan[:-1] if step["mode"] in ("decode", "mixed"))
    assert facts["serving.tokens_per_second"] == pytest.approx(made * 1e9 / sum(periods), rel=1e-12)
    gaps = [step["gap_ns"] for step in plan if step["gap_ns"] is not None]
    assert facts["serving.decode.host_gap_mean_ns"] == pytest.approx(statistics.fmean(gaps), rel=1e-12)


def test_facts_are_about_the_chosen_steps_and_figures_about_the_steady_ones() -> None:
    table = decoding(8, 8, 8, 8, 64).table()
    assert part(table, "serving").facts["serving.decode.steps"] == 5
    assert part(table, "serving", ("2", "5")).facts["serving.decode.steps"] == 2

    def behind(**params: Any) -> Any:
        (notice,) = payload_of(part(table, "serving", **params), "answer", Notices).notices
        return next(each.value for each in notice.figures if each.metric.key == "figure_steps")

    assert behind() == 4 and behind(extra=(("steady", "all"),)) == 5 and behind(steps=("1", "2", "5")) == 3


@pytest.mark.parametrize(
    ("batches", "steady"),
    [
        ((8, 8, 8, 64, 64, 64, 64), (3, 7)),
        ((100, 105, 95, 110, 111), (0, 4)),
        ((1, 1, 1, 1, 1, 32, 32, 32), (5, 8)),
        ((1, 1, 1, 1, 1, 32, 32), (0, 5)),
        ((4, 4, 4, 4, 1, 4, 4, 4, 4), (0, 4)),
        ((8, 8), (0, 0)),
        ((8, 9, 8, 9, 8, 9), (0, 0)),
        ((1, 5, 5, 5, 1), (1, 4)),
    ],
)
def test_the_steady_state_is_the_run_of_like_batches_with_most_new_tokens(
    batches: tuple[int, ...], steady: tuple[int, int]
) -> None:
    assert served_steps(decoding(*batches).table()).steady == steady


def test_a_step_that_is_far_longer_ends_a_steady_run_and_says_why() -> None:
    table = decoding(*(8,) * 9, slow={4: 500}).table()
    numbers = served_steps(table)
    assert np.flatnonzero(numbers.is_unusual).tolist() == [3] and numbers.steady == (4, 9)
    (row,) = [row for row in rows(table, "serving", "serving_steps") if row["is_outlier"]]
    assert (row["step"], row["served_period_ns"], row["outlier_cause"]) == ("4", 600_000, "Python")


def test_steps_whose_batch_nobody_knows_are_compared_with_each_other() -> None:
    table = decoding(*[8] * 9, slow={4: 300}).table()
    unknown = replace(table.steps.served, batch=np.full(9, MISSING, np.int64))
    table = replace(table, steps=replace(table.steps, served=unknown))
    assert np.flatnonzero(served_steps(table).is_unusual).tolist() == [3]


def test_where_nobody_knows_the_tokens_the_steady_state_is_that_with_most_time() -> None:
    builder, at = trace(), 0
    for batch in (8, 8, 8, 64, 64, 64, 64):
        builder.annotation(f"step[TARGET_VERIFY bs={batch}]", at, 50).launches(kernel(dur=30, at=at + 15), at=at + 10)
        at += 100
    assert served_steps(builder.table()).steady == (3, 7)


@pytest.mark.parametrize("seed", range(31, 37))
def test_of_the_last_step_nobody_knows_the_cycle_and_no_rate_counts_it(seed: int) -> None:
    """Rates are those of the plan without its last step, of the trace, of each mode and of each step."""
    table, plan = planted(seed=seed, dialect="vllm", steps=24)
    cycles = [after["start_ns"] - before["start_ns"] for before, after in pairwise(plan)]
    shown = rows(table, "serving", "serving_steps")
    assert [row["served_period_ns"] for row in shown] == [*cycles, None]
    assert shown[-1]["step_tokens_per_second"] is None and not shown[-1]["is_outlier"]
    for row, step, cycle in zip(shown, plan[:-1], cycles, strict=False):
        assert row["step_tokens_per_second"] == pytest.approx(step["generated"] * 1e9 / cycle, rel=1e-12)
    for row in rows(table, "serving", "serving_modes"):
        of = [
            (step["generated"], cycle) for step, cycle in zip(plan, cycles, strict=False) if step["mode"] == row["mode"]
        ]
        wanted = pytest.approx(sum(n for n, _ in of) * 1e9 / sum(t for _, t in of), rel=1e-12) if of else None
        assert row["mode_tokens_per_second"] == wanted


def test_the_cycle_is_work_and_idle_time() -> None:
    table = decoding(8, 8, 8, 8, 8).table()
    told = payload_of(part(table, "serving"), "answer", Notices)
    found = {figure.metric.key: figure.value for figure in told.notices[0].figures}
    assert (found["decode_cycle_ns"], found["decode_work_ns"], found["decode_idle_ns"]) == (100_000, 30_000, 70_000)
    assert found["decode_busy_ratio"] == 0.3 and found["steady_tokens_per_second"] == 80_000
    assert "steady state (steps 1 to 5, batch 8)" in told.notices[0].text
    summary = payload_of(part(table, "serving"), "summary", Figures).figures
    assert [figure.metric.key for figure in summary] == [
        "steady_tokens_per_second", "decode_p50_ns", "decode_busy_ratio", "decode_gap_ns"
    ]  # fmt: skip


def test_one_decode_step_says_little() -> None:
    answer = part(decoding(8).table(), "serving").payloads["answer"]
    assert isinstance(answer, Notices) and "only 1 decode step, which may not be typical" in answer.notices[0].text
    found = {figure.metric.key: figure.value for figure in answer.notices[0].figures}
    assert (found["decode_p50_ns"], found["served_busy_ns"]) == (50_000, 30_000) and "decode_cycle_ns" not in found
    assert found["tokens_per_second"] == 8 * 1e9 / 50_000, "one step is enough"
    payloads = part(decoding(8).table(), "serving").payloads
    assert "times" not in payloads and payload_of(part(decoding(8).table(), "serving"), "classes", Breakdown).total


def test_a_step_with_unrecorded_work_has_the_length_of_the_table() -> None:
    """The only decode step starts its work after 50 ms of work that was launched before the recording."""
    builder = trace().annotation("step[DECODE bs=8]", 0, 50).launches(kernel(dur=30, at=50_000), at=10)
    found = part(builder.table(), "serving")
    (notice,) = payload_of(found, "answer", Notices).notices
    told = {figure.metric.key: figure.value for figure in notice.figures}
    assert "A decode step takes {served_step_ns}, of which {unrecorded_ns} is unrecorded work" in notice.text
    (step,) = found.frames["serving_steps"].data.to_pylist()
    assert told["served_step_ns"] == step["served_step_ns"] == told["unrecorded_ns"] + told["decode_p50_ns"]
    (tile,) = (each for each in payload_of(found, "summary", Figures).figures if each.metric.key == "decode_p50_ns")
    assert tile.note == "without unrecorded work"


def test_step_times_of_both_modes_are_in_the_sentence() -> None:
    builder = decoding(8, 8).annotation("execute_context_1(888_788544)_generation_0(0)", 200, 50)
    builder.launches(kernel(dur=30, at=215), at=210)
    (notice,) = payload_of(part(builder.table(), "serving"), "answer", Notices).notices
    assert (
        "A decode step takes {decode_cycle_ns} from start to start, and a prefill step {prefill_p50_ns}" in notice.text
    )
    assert {figure.metric.key: figure.value for figure in notice.figures}["prefill_p50_ns"] == 50_000


def test_a_gap_is_idle_time_between_neighbours_that_decode() -> None:
    builder = decoding(8, 8)
    builder.annotation("step[EXTEND bs=1 toks=9]", 200, 50).launches(kernel(dur=30, at=215), at=210)
    builder.annotation("step[DECODE bs=9]", 300, 50).launches(kernel(dur=30, at=315), at=310)
    builder.annotation("step[DECODE bs=9]", 400, 50).launches(kernel(dur=30, at=415), at=410)
    # Another stream works in a part of the last gap.
    builder.launches(kernel(dur=10, at=380, stream=9), at=370)
    assert served_steps(builder.table()).gap_ns.tolist() == [-1, 70_000, -1, -1, 60_000]


def test_nobody_knows_the_tokens_of_speculative_decoding() -> None:
    table, _ = planted(seed=3, dialect="vllm", speculative=True, steps=12)
    found = part(table, "serving")
    assert found.facts["serving.tokens_per_second"] is None
    notices = found.payloads["answer"]
    assert isinstance(notices, Notices) and "Tokens per second are unknown" in notices.notices[0].text


def test_scatters_have_a_dot_for_each_step() -> None:
    table, plan = planted(seed=31, dialect="vllm", steps=40)
    picture = payload_of(part(table, "serving"), "by_batch", Scatter)
    dots = {(x, y) for group in picture.groups for x, y in zip(group.x, group.y, strict=True)}
    assert dots == {(step["batch"], step["end_ns"] - step["start_ns"]) for step in plan}
    assert sum(len(group.label) for group in picture.groups) == len(plan)


def test_ordinary_traces_have_no_such_view() -> None:
    table = trace().step(1, 0, 100).launches(kernel(dur=5), at=5).table()
    assert analysis("serving").missing(table) is not None and part(table, "serving").facts == {}
    assert not [fact for fact in part(table, "findings").facts if "decode_gaps" in fact]


@pytest.mark.parametrize(("seed", "gap_ns"), [(31, 60_000), (12, 60_000), (2, 200_000)])
def test_gaps_between_decode_steps_are_a_finding_whose_bounds_hold(seed: int, gap_ns: int) -> None:
    """Planted: host time between steps. What decode steps gain with asynchronous scheduling lies between the bounds."""
    table, plan = planted(seed=seed, dialect="nested", steps=40, gap_ns=gap_ns)
    mended, _ = planted(seed=seed, dialect="nested", steps=40, gap_ns=gap_ns, overlap=True)
    (found,) = [each for each in findings_of(table, None).all if each.rule.id == "decode_gaps"]
    saving = found.notice.saving
    assert saving is not None
    said = {figure.metric.key: figure.value for figure in found.notice.figures}
    assert said["pair_gap_ratio"] == pytest.approx(said["pair_gap_ns"] / said["pair_period_ns"], rel=1e-12)
    pairs = [i for i, step in enumerate(plan) if step["gap_ns"] is not None]
    gained = sum(served_steps(table).gap_ns[pairs].tolist()) - sum(served_steps(mended).gap_ns[pairs].tolist())
    assert 0.65 * gained / len(plan) <= saving.low_ns <= gained / len(plan) <= saving.high_ns
    assert table.strings[int(table.name[found.events[0]])] == "prepare_inputs_kernel"


def test_a_device_that_is_fed_has_no_such_finding() -> None:
    """With overlapping scheduling the device goes from step to step."""
    builder, at = trace(), 0
    for number in range(8):
        builder.annotation("step[DECODE bs=8]", at, 20).launches(kernel(dur=100, at=15 + 101 * number), at=at + 5)
        at += 25 if number < 1 else 101
    assert "decode_gaps" not in {each.rule.id for each in findings_of(builder.table(), None).all}


def test_steps_of_several_modes_are_not_called_slow() -> None:
    builder = decoding(*(8,) * 9)
    builder.annotation("step[EXTEND bs=1 toks=9000]", 900, 2000).launches(kernel(dur=1900, at=915), at=910)
    rules = {each.rule.id for each in findings_of(builder.table(), None).all}
    assert not rules & {"step_outliers", "slow_first_step"}


def replays(*sizes: int, every: int = 100) -> TraceBuilder:
    builder = trace()
    for number, size in enumerate(sizes):
        at = number * every
        works = [kernel(f"k{i}", dur=2, at=at + 20 + 3 * i) for i in range(size)]
        builder.op("aten::copy_", at + 1, 3).launches(*works, at=at + 5, dur=8, name="cudaGraphLaunch")
    return builder


def test_steps_are_inferred_from_graphs_that_repeat() -> None:
    steps = replays(*(12,) * 6).table().steps
    assert (steps.source, steps.label) == ("inferred", ("1", "2", "3", "4", "5"))
    assert steps.host_start_ns.tolist() == [4_000 + 100_000 * n for n in range(5)]
    assert is_served(replays(*(12,) * 6).table())
    answer = part(replays(*(12,) * 6).table(), "serving").payloads["answer"]
    assert isinstance(answer, Notices) and "inferred" in answer.notices[0].text


def test_an_iteration_may_launch_several_graphs() -> None:
    steps = replays(*(12, 9, 15) * 5).table().steps
    assert len(steps.label) == 4 and np.diff(steps.host_start_ns).tolist() == [300_000] * 3


@pytest.mark.parametrize("sizes", [(12, 12, 12), (12, 11, 12, 10, 12), (2,) * 8, ()])
def test_what_is_not_certain_makes_no_steps(sizes: tuple[int, ...]) -> None:
    builder = replays(*sizes).op("aten::mm", 2000, 5)
    assert not builder.table().steps.recorded


def test_two_servers_are_compared_by_mode() -> None:
    base, _ = planted(seed=31, dialect="vllm", steps=40)
    exp, _ = planted(seed=31, dialect="vllm", steps=30)
    diff = analysis("diff")
    view = diff.answer([whole_part(base, "diff"), whole_part(exp, "diff")], Params())
    assert isinstance(view, View)
    table = view.payloads["serving_modes"]
    found = {row["mode"]: row for row in table.rows}  # type: ignore[union-attr]
    facts, others = part(base, "serving").facts, part(exp, "serving").facts
    for mode, row in found.items():
        assert row["base_mode_steps"] == facts.get(f"serving.{mode}.steps")
        assert row["exp_mode_mean_ns"] == others.get(f"serving.{mode}.step_time_mean_ns")
    assert "decode" in found
