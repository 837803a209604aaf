"""Ranks without a trace: what flight recorders of the same run say about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from tb_plugin.analysis.base import Params, Part
from tb_plugin.payloads import Notice, View
from tb_plugin.views.distributed.matching.keys import texts_of
from tb_plugin.views.distributed.missing_ranks import missing_rank_count, missing_ranks
from tb_plugin.views.distributed.rank.collective_metadata import rank_of
from tb_plugin.views.distributed.rank.profile import CALL, GROUP, table
from tb_plugin.views.ranks_collectives.view import RanksCollectives
from tests.flight import call, flight
from tests.jobs_of_parts import VIEW, notices_of, part_with, table_of

WORLD = dict.fromkeys(GROUP) | {
    "group": "0",
    "group_description": "default_pg",
    "backend": "",
    "group_size": 3,
    "group_ranks": "[0, 1, 2]",
}


def traced(worker: str, numbers: Sequence[int], group: str = "0") -> Part:
    """A rank whose trace holds all_reduces with these numbers."""
    about = {
        "step": "0", "collective": "all_reduce", "dtype": "Float", "elements": 12, "comm_bytes": 48, "on_device": True,
        "group": group, "group_ranks": "[0, 1, 2]", "group_size": 3, "dur_ns": 10,
    }  # fmt: skip
    rows = [
        dict.fromkeys(CALL) | about | {"call": i, "sequence": number, "start_ns": 100 * i}
        for i, number in enumerate(numbers)
    ]
    tables = {"collectives": table(CALL, rows), "process_groups": table(GROUP, [WORLD])}
    return part_with(worker, tables, 3, 10_000)


def dumped(worker: str, numbers: Sequence[int], **more: Any) -> Part:
    calls = [call(number, **more) for number in numbers]
    return replace(RanksCollectives().part(flight(calls, world=3), Params()), worker=worker)


def told(parts: Sequence[Part], dumps: Sequence[Part]) -> tuple[list[dict[str, Any]], Mapping[str, Notice]]:
    joined = [VIEW.join(parts, dumps)]
    return table_of(joined, "recorders"), {notice.rule: notice for notice in notices_of(joined)}


PAIR = [traced("rank0", range(10, 20)), traced("rank1", range(10, 20))]


def test_the_rank_that_stopped_is_named_with_its_last_call() -> None:
    rows, notices = told(PAIR, [dumped("rank2", range(5, 17))])
    (row,) = rows
    assert (row["worker"], row["has_trace"], row["last_sequence"], row["last_collective"]) == (
        "rank2",
        False,
        16,
        "all_reduce",
    )
    # 10 to 16 are in the traces as well, 17, 18 and 19 it did not call.
    assert (row["recorded_calls_count"], row["called_in_traces"], row["not_called"]) == (12, 7, 3)
    figures = {figure.metric.key: figure.value for figure in notices["rank_stopped"].figures}
    assert figures["worker"] == "rank2" and figures["not_called"] == 3 and figures["last_sequence"] == 16
    assert figures["group"] == "default_pg" and notices["rank_stopped"].severity == "high"
    assert "rank_recorded" not in notices


def test_a_rank_that_called_all_is_said_to_have_run() -> None:
    rows, notices = told(PAIR, [dumped("rank2", range(15, 25)), dumped("rank0", range(15, 25))])
    assert [(row["worker"], row["has_trace"], row["called_in_traces"], row["not_called"]) for row in rows] == [
        ("rank2", False, 5, 0),
        ("rank0", True, 5, 0),
    ]
    assert "rank2" in notices["rank_recorded"].text and "rank0" not in notices["rank_recorded"].text
    assert "rank_stopped" not in notices


@pytest.mark.parametrize("more", [{"group": ("1", "tp")}, {"group": ("0", "other")}])
def test_numbers_of_other_groups_say_nothing(more: dict[str, Any]) -> None:
    rows, notices = told(PAIR, [dumped("rank2", range(5, 17), **more)])
    assert [(row["called_in_traces"], row["not_called"]) for row in rows] == [(0, 0)]
    assert not {"rank_stopped", "rank_recorded"} & set(notices)


def test_a_name_of_several_groups_accuses_nobody() -> None:
    """Where ranks number their groups on their own, one name is of several groups, of which each counts by itself."""
    parts = []
    for rank, members in enumerate(("[0, 1]", "[0, 1]", "[2, 3]", "[2, 3]")):
        part = traced(f"rank{rank}", range(10 if rank < 2 else 20))
        calls = part.frames["collectives"]
        data = calls.data.set_column(
            calls.data.column_names.index("group_ranks"),
            "group_ranks",
            pa.array([members] * calls.data.num_rows).dictionary_encode(),
        )
        parts.append(replace(part, frames={**part.frames, "collectives": replace(calls, data=data)}))
    (row,), notices = told(parts, [dumped("rank5", range(12))])
    assert (row["called_in_traces"], row["not_called"]) == (0, 0) and "rank_stopped" not in notices


def test_ranks_without_a_trace_are_named() -> None:
    assert missing_ranks([0, 2, 3], 5) == "ranks 1, 4" and missing_ranks([1, 0, 3], 4) == "rank 2"
    assert missing_ranks([9], 11) == "ranks 0–8, 10"
    assert missing_ranks([1, 4], 6) == "ranks 0, 2, 3, 5"
    assert missing_ranks(range(1, 40, 2), 41) == "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 13 more"
    assert missing_ranks([0], 1 << 24) == "ranks 1–16777215"
    for ranks, size in (([0, 1], 2), ([0, 1, 2], 2), ([0, None], 5), ([0, 0], 2), ([0], None)):
        assert missing_ranks(ranks, size) == "", (ranks, size)
    counts = {
        (0, 2, 3): (5, 2),
        (9,): (11, 10),
        (0, 1): (2, 0),
        (0, None): (5, None),
        (0, 0): (2, None),
        (0,): (None, None),
    }
    assert {ranks: (size, missing_rank_count(ranks, size)) for ranks, (size, _) in counts.items()} == counts


def test_the_page_names_the_rank_that_lacks() -> None:
    facts = [{"distributed.world_size": 3, "distributed.rank": rank} for rank in (0, 2)]
    parts = [replace(traced(f"rank{one['distributed.rank']}", [1, 2]), facts=one) for one in facts]
    (notice,) = (each for each in notices_of(parts) if each.rule == "bounds")
    assert "not loaded: rank 1." in notice.text


@pytest.mark.parametrize(
    "stated",
    [
        {"rank": 2**64 - 1},
        {"rank": 1.5},
        {"world_size": 2**64 - 1},
        {"base_time_ns": 1e300},
        {"base_time_ns": -(2**63)},
    ],
)
def test_numbers_that_nothing_real_has_spoil_no_answer(stated: Mapping[str, Any]) -> None:
    told = {f"distributed.{key}": value for key, value in stated.items()}
    odd = replace(PAIR[1], facts={**PAIR[1].facts, **told})
    assert isinstance(VIEW.answer([VIEW.join([PAIR[0], odd])], Params()), View)


def test_a_rank_is_a_whole_number_from_0_on() -> None:
    for value in (True, -1, 2**40, "3", 1.0, None):
        assert rank_of({"distributedInfo": {"rank": value}}) is None, value
    assert rank_of({"distributedInfo": {"rank": 7}}) == 7


def test_texts_are_told_apart_by_what_they_say() -> None:
    texts = pa.array(["a", "b", "a", None, ""])
    places = pa.array([0, 1, None, 2, 3, 4], pa.int32())
    column = pa.DictionaryArray.from_arrays(places, texts)
    place, names = texts_of(pa.table({"text": column}), "text")
    assert [names[each] for each in place] == ["a", "b", "", "a", "", ""] and len(set(names)) == len(names) == 3
