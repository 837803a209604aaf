"""The page of all ranks at two to a thousand of them: maps of one measure, bands, the worst ten, places and stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tb_plugin.analysis.base import Params, Part
from tb_plugin.errors import BadRequest
from tb_plugin.payloads import Heat, Notice, Notices, Series, Table, View
from tb_plugin.payloads.export import to_json
from tb_plugin.views.distributed.merge import join
from tb_plugin.views.distributed.pictures import heat_map, topology
from tb_plugin.views.distributed.pictures.heat_map import Grid, merge, merged_labels, quantiles
from tb_plugin.views.distributed.pictures.topology import listed_ranks, ranks_short
from tb_plugin.views.distributed.view import Distributed
from tests.conftest import SAMPLES, sample
from tests.depth import DEEP
from tests.many_ranks import LATE_NS, MOVING_NS, TENSOR, many_parts

VIEW = Distributed()
SLOW = 5
MEGABYTE = 1_000_000


def joined(ranks: int, steps: int) -> Part:
    return VIEW.join(many_parts(ranks, steps, SLOW))


@pytest.fixture(scope="module")
def job() -> Part:
    return joined(64, 6)


def view_of(part: Part, **params: Any) -> View:
    answer = VIEW.answer([part], Params(**params))
    assert isinstance(answer, View)
    return answer


def measured(part: Part, key: str, **params: Any) -> tuple[Heat, Series]:
    payloads = view_of(part, extra=(("measure", key),), **params).payloads
    assert [*payloads] == ["heat", "spread"]
    found, spread = payloads["heat"], payloads["spread"]
    assert isinstance(found, Heat) and isinstance(spread, Series)
    return found, spread


def values_of(found: Heat) -> np.ndarray:
    return np.array(found.values, np.float64).reshape(len(found.rows), len(found.x))


def table_of(part: Part, name: str, **params: Any) -> list[dict[str, Any]]:
    answer = VIEW.answer([part], Params(table=name, limit=None, **params))
    assert isinstance(answer, Table)
    return answer.rows


def test_a_map_holds_exactly_what_the_others_wait_for_whom(job: Part) -> None:
    found, spread = measured(job, "caused_wait_ns")
    compute = values_of(measured(job, "compute_ns")[0])
    peers = [rank for rank in range(TENSOR) if rank != SLOW]
    # In its tensor group the others wait as long as it computes longer; then 1 us, and all others LATE_NS more.
    caused = (compute[SLOW] - compute[peers]).sum(axis=0) + 7 * 1000 + (64 - TENSOR) * (LATE_NS + 1000)
    assert values_of(found)[SLOW].tolist() == caused.tolist()
    assert found.means[SLOW] == round(caused.mean()) and found.worst == [SLOW] * 6
    assert found.x == [str(step) for step in range(6)] and found.merged == 1
    assert table_of(job, "workers")[SLOW]["caused_wait_ns"] == caused.sum()
    assert spread.lines[0].values == caused.tolist() and spread.lines[0].metric.key == "rank_max_ns"


def test_chosen_steps_alone_are_drawn(job: Part) -> None:
    whole, few = (measured(job, "wait_ns", steps=steps)[0] for steps in (None, ("1", "4")))
    assert few.x == ["1", "4"]
    assert values_of(few).tolist() == values_of(whole)[:, [1, 4]].tolist()


def test_an_unknown_measure_says_which_there_are(job: Part) -> None:
    with pytest.raises(BadRequest) as told:
        measured(job, "beauty_ns")
    assert "caused_wait_ns" in told.value.do
    assert measured(job, "first")[0].metric.key == "lost_ns"
    keys = [metric.key for metric in measured(job, "wait_ns")[0].choices]
    assert keys[:2] == ["lost_ns", "caused_wait_ns"] and {
        "step_total_ns",
        "compute_ns",
        "exposed_communication_ns",
    } <= set(keys)


def test_one_worker_alone_has_no_waiting() -> None:
    part = VIEW.join(many_parts(1, 3, SLOW))
    found, _ = measured(part, "first")
    assert "wait_ns" not in {metric.key for metric in found.choices}
    assert found.rows == ["rank0"] and found.groupings == [] and len(found.values) == 3
    assert "worst" not in view_of(part).payloads
    assert [row["lost_ns"] for row in table_of(part, "workers")] == [None]


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("measure", ["first", "wait_ns"])
def test_a_run_without_steps_has_an_empty_map(ranks: int, measure: str) -> None:
    """The page asks for it of any run, and draws no map that has no columns."""
    part = VIEW.join([without_steps(part) for part in many_parts(ranks, 3)])
    found, spread = measured(part, measure)
    assert (found.rows, found.x, found.values, found.choices) == ([f"rank{n}" for n in range(ranks)], [], [], [])
    assert found.means == [None] * ranks and spread.x == []
    with pytest.raises(BadRequest) as told:
        measured(part, "beauty_ns")
    assert "wait_ns" in told.value.do


def without_steps(part: Part) -> Part:
    calls, steps = part.frames["collectives"], part.frames["steps"]
    at = calls.data.column_names.index("step")
    data = calls.data.set_column(at, "step", pa.nulls(calls.data.num_rows, calls.data.schema.field("step").type))
    frames = {"collectives": replace(calls, data=data), "steps": replace(steps, data=steps.data.slice(0, 0))}
    return replace(part, frames={**part.frames, **frames}, steps=())


def test_steps_are_merged_where_an_answer_would_be_too_long(job: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = values_of(measured(job, "compute_ns")[0])
    size = len(to_json(view_of(job, extra=(("measure", "compute_ns"),))))
    monkeypatch.setattr(heat_map, "MOST_VALUE_BYTES", whole.size * 10 // 2)
    found, spread = measured(job, "compute_ns")
    assert found.merged == 2 and found.x == ["0-1", "2-3", "4-5"] == spread.x
    assert values_of(found).tolist() == whole.reshape(64, 3, 2).max(axis=2).tolist()
    assert "2 steps" in found.subtitle and "2 steps" in spread.subtitle
    assert len(to_json(view_of(job, extra=(("measure", "compute_ns"),)))) < size
    assert found.means == [round(mean) for mean in whole.mean(axis=1)]


def test_merged_columns_know_the_end_and_what_nobody_knows() -> None:
    values = np.array([[5, -3, 2, -9, 7], [1, 1, 1, 1, 1]])
    known = np.array([[True, True, False, True, True], [True, False, False, False, False]])
    merged = merge(Grid(values, known), 2)
    assert merged.values.tolist() == [[5, -9, 7], [1, 0, 0]]
    assert merged.has_value.tolist() == [[True, True, True], [True, False, False]]
    assert merged_labels(["a", "b", "c"], 2) == ["a-b", "c"]


@given(st.lists(st.lists(st.none() | st.integers(-(10**9), 10**9), min_size=2, max_size=2), min_size=1, max_size=9))
def test_quantiles_are_values_of_ranks(rows: list[list[int | None]]) -> None:
    grid = Grid(
        np.array([[value or 0 for value in row] for row in rows]),
        np.array([[value is not None for value in row] for row in rows]),
    )
    for column, told in enumerate(zip(*quantiles(grid, [0.0, 0.5, 1.0]), strict=True)):
        known = sorted(value for row in rows if (value := row[column]) is not None)
        if not known:
            assert told == (None, None, None)
            continue
        least, middle, most = told
        assert (least, most) == (known[0], known[-1])
        assert middle == known[(len(known) - 1) // 2]


def test_ranks_have_their_places_in_nodes_and_groups(job: Part) -> None:
    groupings = {each.title: each for each in measured(job, "wait_ns")[0].groupings}
    assert [*groupings] == ["Node", "tp", "dp", "pp"]
    tensor, stages, data = groupings["tp"], groupings["pp"], groupings["dp"]
    assert tensor.groups[:2] == ["0-7", "8-15"] and (tensor.of[11], tensor.place[11]) == (1, 3)
    assert stages.groups[0] == "0-48 by 16" and (stages.of[50], stages.place[50]) == (2, 3)
    assert (data.of[9], data.place[9]) == (1, 1) and data.groups[1] == "1, 9"
    assert groupings["Node"].groups[3] == "node3" and groupings["Node"].of[25] == 3


def test_groups_that_no_page_can_draw_are_no_places(job: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "MOST_CELLS", 63)
    assert [each.title for each in measured(job, "wait_ns")[0].groupings] == ["Node"]  # 64 ranks in 8 groups of 8


def test_lists_of_ranks_are_read_whole_or_not_at_all() -> None:
    assert listed_ranks("[0, 8, 16]", 3) == (0, 8, 16)
    assert listed_ranks("[0, 8, ..., 1016]", 128) == () == listed_ranks("0, 1, ...", None)
    assert listed_ranks("[0, 1]", 4) == () == listed_ranks(None, None)
    assert [ranks_short(ranks) for ranks in ((3,), (0, 4), (0, 1, 2), (0, 4, 8), (1, 2, 4))] == [
        "3", "0, 4", "0-2", "0-8 by 4", "1, 2, 4",
    ]  # fmt: skip
    assert ranks_short((9, 1, 5, 2, 7, 8, 3)) == "9, 1, 5, 2, … (7)"


def test_the_worst_rank_stands_first_with_what_stands_out(job: Part) -> None:
    worst = table_of(job, "worst")
    assert len(worst) == 10 and worst[0]["worker"] == f"rank{SLOW}" and worst[0]["node"] == "node0"
    assert worst[0]["caused_step_ns"] == round(worst[0]["caused_wait_ns"] / 6)
    assert worst[0]["lost_ns"] == pytest.approx(LATE_NS, rel=0.05)
    assert worst[0]["lost_ns"] == max(row["lost_ns"] for row in worst)
    mates = {int(row["usual_worker"].removeprefix("rank")) for row in worst[:1]}
    assert mates < {*range(8)} - {SLOW}  # of its group


def test_the_map_of_what_is_lost_is_that_of_the_stragglers(job: Part) -> None:
    lost = values_of(measured(job, "lost_ns")[0])
    assert lost.argmax(axis=0).tolist() == [SLOW] * 6
    assert lost[SLOW].mean() == pytest.approx(table_of(job, "worst")[0]["lost_ns"])
    assert [row["lost_ns"] for row in table_of(job, "workers")] == pytest.approx(lost.mean(axis=1))


def test_where_nobody_is_a_straggler_waits_tell_most() -> None:
    even = VIEW.join(many_parts(8, 3, slow=-1))
    assert measured(even, "first")[0].metric.key != "lost_ns"
    assert "Slowest rank" not in {each.metric.title for each in view_of(even).payloads["headline"].figures}


@pytest.mark.parametrize(("ranks", "bars"), [(32, 32), (64, 12)])
def test_bars_of_many_ranks_are_the_worst_the_median_and_the_best(job: Part, ranks: int, bars: int) -> None:
    payloads = view_of(job if ranks == 64 else joined(ranks, 2)).payloads
    for name in ("overlap", "waiting"):
        series = payloads[name]
        assert isinstance(series, Series) and len(series.x) == bars
        assert {len(line.values) for line in series.lines} == {bars}
    if bars == 12:
        assert series.x[0] == f"rank{SLOW}" and str(series.x[10]).endswith(" (median)")
        assert str(series.x[11]).endswith(" (best)") and "of 64" in series.subtitle
        assert "(median)" in series.subtitle and "(best)" in series.subtitle  # what the words mean


def test_the_headline_names_the_slow_rank_and_its_cost(job: Part) -> None:
    figures = {figure.metric.title: figure.value for figure in view_of(job).payloads["headline"].figures}
    assert next(iter(figures.items())) == ("Slowest rank", f"rank{SLOW}")
    assert figures["Cost per step"] == table_of(job, "worst")[0]["lost_ns"] == pytest.approx(LATE_NS, rel=0.05)
    assert figures["Cost share"] == pytest.approx(table_of(job, "worst")[0]["lost_share"])


def messages(parts: Sequence[Part]) -> list[Part]:
    """The same, but the second call of each step leads to the next stage: stages of 8 ranks."""
    made = []
    for rank, part in enumerate(parts):
        data = part.frames["collectives"].data
        second = np.arange(data.num_rows) % 2 == 1
        first_stage = rank < TENSOR
        source, target = (rank, rank + TENSOR) if first_stage else (rank - TENSOR, rank)
        columns = {
            "collective": ("send" if first_stage else "recv", "all_reduce"), "group": ("pp", "tp"),
            "source_rank": (source, None), "destination_rank": (target, None), "group_size": (2, TENSOR),
        }  # fmt: skip
        for key, (then, otherwise) in columns.items():
            values = pa.array([then if flag else otherwise for flag in second.tolist()], data.schema.field(key).type)
            data = data.set_column(data.column_names.index(key), key, values)
        made.append(
            replace(part, frames={**part.frames, "collectives": replace(part.frames["collectives"], data=data)})
        )
    return made


def test_messages_tell_stages_and_their_bubbles() -> None:
    part = VIEW.join(messages(many_parts(32, 3, SLOW)))
    rows = table_of(part, "stage_bubbles")
    assert [row["stage_ranks"] for row in rows] == ["0-7", "8-15", "16-23", "24-31"]
    assert rows[0]["stage_receiving_ns"] == 0
    # The others' second call begins LATE_NS before that of the slow group, and moves data after it.
    assert {row["stage_receiving_ns"] for row in rows[1:]} == {LATE_NS + MOVING_NS}
    steps = table_of(part, "steps")
    for row, first in zip(rows, range(0, 32, 8), strict=True):
        mine = [step for step in steps if first <= int(step["worker"][4:]) < first + 8]
        total = sum(step["step_total_ns"] for step in mine) / len(mine)
        bubble = row["stage_receiving_ns"] + row["step_other_ns"]
        assert row["stage_bubble_share"] == pytest.approx(bubble / total, rel=1e-6)
        exposed = sum(step["exposed_communication_ns"] for step in mine) // len(mine)
        assert abs(row["stage_receiving_ns"] + row["stage_communication_ns"] - exposed) <= 1
    stages = view_of(part).payloads["stages"]
    assert isinstance(stages, Series) and stages.x == [f"Stage {number}" for number in range(4)]
    assert "stages" not in view_of(joined(32, 2)).payloads


def test_a_send_between_two_of_many_ranks_is_no_pipeline() -> None:
    """Messages of all ranks that go one way are one, half of which may not be recorded; those of two ranks are not."""
    parts = many_parts(16, 2, 0)
    sending = messages(parts)
    assert "stages" in view_of(VIEW.join(sending)).payloads
    one = VIEW.join([sending[at] if at % TENSOR == 0 else part for at, part in enumerate(parts)])
    assert "traffic" in view_of(one).payloads and "stages" not in view_of(one).payloads


@pytest.mark.parametrize("chosen", [("1",), ("0", "2"), ("1", "2")])
def test_bubbles_of_chosen_steps_are_those_of_a_job_that_has_no_others(chosen: tuple[str, ...]) -> None:
    """What the mean step of a stage consists of sums to that step, whichever are chosen."""
    part = VIEW.join(messages(many_parts(32, 3, SLOW)))
    rows, steps = (table_of(part, name, steps=chosen) for name in ("stage_bubbles", "steps"))
    assert {row["step"] for row in steps} == {*chosen}
    for row, first in zip(rows, range(0, 32, 8), strict=True):
        mine = [step for step in steps if first <= int(step["worker"][4:]) < first + 8]
        exposed, other, compute = (
            sum(step[key] for step in mine) / len(mine)
            for key in ("exposed_communication_ns", "step_other_ns", "compute_ns")
        )
        communication = row["stage_receiving_ns"] + row["stage_communication_ns"]
        assert communication == pytest.approx(exposed, abs=2)
        assert (row["step_other_ns"], row["compute_ns"]) == pytest.approx((other, compute), abs=1)


@pytest.mark.parametrize(("ranks", "steps"), [(1024, 100), (4096, 100)] if DEEP else [(1024, 10)])
def test_each_answer_stays_below_a_megabyte(ranks: int, steps: int) -> None:
    part = joined(ranks, steps)
    view = view_of(part)
    assert len(to_json(view)) < MEGABYTE
    rows = table_of(part, "process_groups", search="default")
    assert rows[0]["group_ranks"] == f"0-{ranks - 1}"
    for metric in measured(part, "first")[0].choices:
        found = view_of(part, extra=(("measure", metric.key),))
        assert len(to_json(found)) < MEGABYTE
        assert len(found.payloads["heat"].rows) == ranks


def test_alike_devices_and_groups_are_one_row(job: Part) -> None:
    (device,) = table_of(job, "device_kinds")
    assert device["same_devices"] == 64 == len(table_of(job, "devices"))
    groups = table_of(job, "process_groups")
    kinds = {row["group_description"]: row["same_groups"] for row in table_of(job, "group_kinds")}
    assert kinds == Counter(row["group_description"] for row in groups) and len(groups) > 24
    assert not {"device_kinds", "group_kinds"} & {*view_of(joined(8, 2)).payloads}


def test_who_lost_a_call_is_named_though_its_lists_of_ranks_written_out_fill_gigabytes() -> None:
    parts = [with_long_lists(part) for part in many_parts(4, 600)]
    parts[1] = without_call(parts[1], 5)
    (told,) = (each for each in notices_of(VIEW.join(parts)) if each.rule == "bounds")
    assert told.text.endswith("Calls of rank1 are missing.")


def test_those_who_lost_most_calls_are_named_first_and_only_those_that_others_of_their_group_have() -> None:
    """Calls 0, 2, 4 are of 8 ranks each, 1, 3, 5 of all 16: who lost two, four that lost one, and one that lost none."""
    parts = many_parts(16, 3)
    for rank, lost in ((9, (1, 3)), (2, (1,)), (3, (0,)), (12, (2,)), (15, (5,))):
        for call in sorted(lost, reverse=True):
            parts[rank] = without_call(parts[rank], call)
    (told,) = (each for each in notices_of(VIEW.join(parts)) if each.rule == "bounds")
    assert told.text.endswith("Calls of rank9, rank2, rank3 and 2 more are missing.")


def with_long_lists(part: Part) -> Part:
    """The same with lists of ranks of a megabyte, as of 150,000 ranks; Arrow holds texts of 2 GB in one array."""
    calls = part.frames["collectives"]
    column = calls.data["group_ranks"].combine_chunks()
    lists = pa.array([text.replace("]", " " * 1_000_000 + "]") for text in column.dictionary.to_pylist()])
    at = calls.data.column_names.index("group_ranks")
    data = calls.data.set_column(at, "group_ranks", pa.DictionaryArray.from_arrays(column.indices, lists))
    return replace(part, frames={**part.frames, "collectives": replace(calls, data=data)})


def without_call(part: Part, row: int) -> Part:
    calls = part.frames["collectives"]
    data = pa.concat_tables([calls.data.slice(0, row), calls.data.slice(row + 1)])
    return replace(part, frames={**part.frames, "collectives": replace(calls, data=data)})


def notices_of(part: Part) -> list[Notice]:
    notices = view_of(part).payloads["findings"]
    assert isinstance(notices, Notices)
    return notices.notices


def test_numbers_that_python_refuses_to_read_are_no_ranks(job: Part) -> None:
    digits = "9" * 5000
    assert listed_ranks(f"[0, {digits}]", None) == ()
    frames = dict(job.frames)
    for name, column, text in (("devices", "process", f"rank {digits}"), ("process_groups", "group_ranks", digits)):
        data = frames[name].data
        texts = pa.array([text] * data.num_rows, pa.string())
        frames[name] = replace(frames[name], data=data.set_column(data.column_names.index(column), column, texts))
    assert "workers" in view_of(replace(job, frames=frames)).payloads


def test_what_others_wait_a_step_is_over_all_steps_and_costs_need_all_calls() -> None:
    """Rank 3 of the sample lacks the first of three steps, and others lack calls."""
    files = sorted((SAMPLES / "synthetic_groups").glob("*.trace.json*"))
    parts = [
        replace(VIEW.part(sample(f"synthetic_groups/{f.name}"), Params()), worker=f.name.split(".")[0]) for f in files
    ]
    answer = VIEW.answer([join(parts)], Params(table="worst", limit=None))
    assert isinstance(answer, Table)
    (row,) = [row for row in answer.rows if row["worker"] == "rank3"]
    assert row["caused_step_ns"] == round(row["caused_wait_ns"] / 3)
    assert row["lost_ns"] is None
