"""Collectives in which chosen workers met: the rows by hand, against a plain loop, and of the synthetic sample."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tb_plugin.analysis.base import Params, Part
from tb_plugin.errors import BadRequest
from tb_plugin.payloads import Table
from tb_plugin.views.distributed.collective_peers import Stretch, collectives_of_workers, stretches_of
from tb_plugin.views.distributed.view import Distributed
from tests.conftest import SAMPLES, loaded

VIEW = Distributed()
Call = tuple[int, int, int, int]
"""worker, match, start, duration"""


def rows_of(calls: list[Call], within: list[tuple[int, int, int]]) -> list[int]:
    columns = np.array(calls, np.int64).reshape(-1, 4).T
    return collectives_of_workers(*columns, within=within).tolist()


def test_a_collective_counts_where_one_of_the_chosen_is_in_sight() -> None:
    calls = [(0, 7, 10, 5), (1, 7, 110, 5), (2, 7, 210, 5), (0, 8, 30, 5), (1, 8, 130, 5), (0, -1, 12, 1)]
    # Each worker counts time in its own way; worker 2 is not chosen.
    assert rows_of(calls, [(0, 0, 20), (1, 100, 120)]) == [0, 1]
    # The end of one of them is in sight, and the call of the other lies outside.
    assert rows_of(calls, [(0, 14, 20), (1, 900, 901)]) == [0, 1]
    assert rows_of(calls, [(0, 0, 20)]) == [] and rows_of(calls, []) == [] and rows_of([], [(0, 0, 9)]) == []
    assert rows_of(calls, [(0, 0, 90), (2, 0, 300)]) == [0, 2]


spans = st.tuples(st.integers(0, 60), st.integers(1, 20)).map(lambda span: (span[0], span[0] + span[1]))


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 4), st.integers(0, 60), st.integers(0, 9)), max_size=16),
    st.dictionaries(st.integers(0, 4), spans, max_size=4),
)
def test_it_says_what_a_loop_says(calls: list[Call], chosen: dict[int, tuple[int, int]]) -> None:
    expected = []
    for match in range(5):
        mine = [i for i, call in enumerate(calls) if call[1] == match and call[0] in chosen]
        seen = any(
            calls[i][2] < chosen[calls[i][0]][1] and calls[i][2] + calls[i][3] >= chosen[calls[i][0]][0] for i in mine
        )
        if seen and len(mine) > 1:
            expected += sorted(mine, key=lambda i: (calls[i][2], calls[i][0], i))
    assert rows_of(calls, [(worker, *span) for worker, span in chosen.items()]) == expected


def test_a_name_may_hold_what_parts_the_numbers() -> None:
    assert stretches_of(("node:0:-5:7", "b:0:1")) == [Stretch("node:0", -5, 7), Stretch("b", 0, 1)]


@pytest.mark.parametrize("text", ["", "a", "a:1", ":1:2", "a:2:2", "a:x:2", "a:0:99999999999999999999"])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        stretches_of((text,))


def test_a_worker_is_named_once() -> None:
    with pytest.raises(BadRequest, match="twice"):
        stretches_of(("a:0:1", "a:2:3"))


@cache
def parts() -> list[Part]:
    files = sorted((SAMPLES / "synthetic_ddp").glob("*.json.gz"))
    return [replace(VIEW.part(loaded(file), Params()), worker=file.name.split(".")[0]) for file in files]


def table_of(name: str, **params: Any) -> list[dict[str, Any]]:
    answer = VIEW.answer(parts(), Params(table=name, limit=None, **params))
    assert isinstance(answer, Table)
    return answer.rows


def test_the_whole_sample_in_sight_shows_all_matched_calls_of_the_chosen() -> None:
    extra = tuple(("within", f"rank{rank}:0:{10**12}") for rank in (0, 2))
    found = table_of("meetings", extra=(*extra, ("within", "stranger:0:9")))
    every = [row for row in table_of("collectives") if row["worker"] in ("rank0", "rank2") and row["match"] is not None]
    assert {(row["worker"], row["call"]) for row in found} == {(row["worker"], row["call"]) for row in every}
    assert len(found) == len(every) > 10
    by_call = {(row["worker"], row["call"]): row for row in every}
    assert all(by_call[row["worker"], row["call"]].items() >= row.items() for row in found)
    for one, other in zip(found[::2], found[1::2], strict=True):
        assert one["match"] == other["match"] and one["collective"] == other["collective"]


def test_a_short_stretch_shows_what_is_in_it() -> None:
    first = next(row for row in table_of("collectives") if row["worker"] == "rank1" and row["match"] is not None)
    start = first["start_ns"]
    extra = (("within", f"rank1:{start}:{start + 1}"), ("within", "rank3:0:1"))
    assert {row["match"] for row in table_of("meetings", extra=extra)} == {first["match"]}
