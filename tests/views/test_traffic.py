"""Traffic from rank to rank, and the partners of one call: hand-sized calls whose truth can be read off."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tb_plugin.analysis.base import Params, Part
from tb_plugin.errors import BadRequest
from tb_plugin.payloads import Series, Table
from tb_plugin.views.distributed import traffic
from tb_plugin.views.distributed.traffic import traffic_frame, traffic_map
from tests.conftest import REPO, SAMPLE_FILES, SHARED, loaded, needs_shared, sample
from tests.depth import sampled
from tests.jobs_of_parts import VIEW, Rows, table_of, view_of
from tests.views.test_distributed import call, p2p, part_of, parts_of, synthetic


def sent(parts: Sequence[Part]) -> list[tuple[Any, ...]]:
    keys = ("source_rank", "destination_rank", "traffic_bytes", "messages")
    return [tuple(row[key] for key in keys) for row in table_of(parts, "traffic")]


def pipeline(*ranks: Sequence[Any]) -> list[Part]:
    return [part_of(f"rank{r}", calls, 4) for r, calls in enumerate(ranks)]


def test_a_message_counts_once_though_both_of_its_ends_are_here() -> None:
    """Rank 0 sends 4 and 8 bytes to rank 1, which sends 12 to rank 3, whose trace is not here, and gets 16 from it."""
    parts = pipeline(
        [p2p("send", 0, 1, 0, 1), p2p("send", 0, 1, 50, 2)],
        [p2p("recv", 0, 1, 0, 1), p2p("recv", 0, 1, 50, 2), p2p("send", 1, 3, 70, 3), p2p("recv", 3, 1, 90, 4)],
        [],
    )
    assert sent(parts) == [(3, 1, 16, 1), (0, 1, 12, 2), (1, 3, 12, 1)]
    drawn = view_of(parts).payloads["map_traffic"]
    assert isinstance(drawn, Series) and drawn.x == ["0", "1", "3"]
    assert {line.metric.title: line.values for line in drawn.lines} == {
        "0": [None, 12, None], "1": [None, None, 12], "3": [None, 16, None],
    }  # fmt: skip


def test_what_the_sender_lost_its_receiver_tells() -> None:
    """Three messages of 4, 8 and 12 bytes; the trace of rank 0 lacks the second send, that of rank 1 lacks no receive."""
    sizes = (1, 2, 3)
    received = [p2p("recv", 0, 1, 40 * i, size) for i, size in enumerate(sizes)]
    parts = pipeline([p2p("send", 0, 1, 40 * i, size) for i, size in enumerate(sizes) if i != 1], received)
    assert sent(parts) == [(0, 1, 24, 3)]
    # Two are left of the receiver and one of the sender: two messages at least, as the receiver states them.
    parts = pipeline([p2p("send", 0, 1, 0, 1), p2p("send", 0, 1, 40, 5)], received)
    assert sent(parts) == [(0, 1, 24, 3)]


def test_of_messages_without_a_match_the_sender_counts() -> None:
    parts = pipeline([p2p("send", 0, 1, 0, 5)], [p2p("recv", 0, 1, 0, 7)])
    # Another size is another kind of call, but the only one between both: no match, and one message all the same.
    assert sent(parts) == [(0, 1, 20, 1)]
    # With a receive lost nobody can say which send it was of: what was sent counts.
    parts = pipeline([p2p("send", 0, 1, 0, 5), p2p("send", 0, 1, 9, 6)], [p2p("recv", 0, 1, 0, 7)])
    assert sent(parts) == [(0, 1, 44, 2)]


def test_what_nobody_states_is_not_claimed() -> None:
    assert "map_traffic" not in view_of(synthetic()).payloads
    unsized = [
        dataclasses.replace(p2p("send", 0, 1, 0), elements=-1, bytes=None),
        call("send", 20),
        call("send_recv", 40),
    ]
    assert "map_traffic" not in view_of(pipeline(unsized, [], [])).payloads
    # The receiver may know what the sender does not.
    parts = pipeline(unsized[:1], [p2p("recv", 0, 1, 0, 3)])
    assert sent(parts) == [(0, 1, 12, 1)]


def uneven(rows: Sequence[tuple[int, int, list[int] | None, list[int] | None]]) -> pa.Table:
    """All-to-alls of floats: worker, match, what is sent to each place, what is received from each."""
    count = len(rows)
    return pa.table(
        {
            "worker": pa.array([row[0] for row in rows]), "match": pa.array([row[1] for row in rows]),
            "collective": pa.array(["all_to_allv"] * count), "dtype": pa.array(["Float"] * count),
            "group": pa.array(["ep"] * count), "group_code": pa.array([0] * count),
            "comm_bytes": pa.nulls(count, pa.int64()),
            "sent_splits": pa.array([row[2] for row in rows], pa.list_(pa.int64())),
            "received_splits": pa.array([row[3] for row in rows], pa.list_(pa.int64())),
        }
    )  # fmt: skip


def members(*groups: list[int] | None) -> pa.Table:
    return pa.table({"ranks": pa.array(groups, pa.list_(pa.int64()))})


def rows_of(calls: pa.Table, groups: pa.Table, ranks: list[int | None]) -> list[tuple[Any, ...]]:
    found = traffic_frame(calls, groups, ranks)
    keys = ("source_rank", "destination_rank", "traffic_bytes", "messages")
    return [] if found is None else [tuple(row[key] for key in keys) for row in found.data.to_pylist()]


def test_an_uneven_all_to_all_says_what_each_place_gets() -> None:
    """Ranks 4, 6 and 8; that of 8 is not here: what they got from it 4 and 6 say, the rest senders."""
    calls = uneven([(0, 0, [1, 2, 3], [1, 5, 6]), (1, 0, [5, 0, 7], [2, 0, 9])])
    assert rows_of(calls, members([4, 6, 8]), [4, 6]) == [
        (8, 6, 36, 1), (6, 8, 28, 1), (8, 4, 24, 1), (6, 4, 20, 1), (4, 8, 12, 1), (4, 6, 8, 1),
    ]  # fmt: skip


def test_splits_may_count_rows() -> None:
    """Rows of 8 floats: 6 of them are 192 bytes. Rank 1 does not state what it sends, but its rows are as long."""
    calls = uneven([(0, 0, [4, 2], [4, 3]), (1, 0, None, [2, 5])])
    sized = calls.set_column(calls.column_names.index("comm_bytes"), "comm_bytes", pa.array([192, 160]))
    assert rows_of(sized, members([0, 1]), [0, 1]) == [(1, 0, 96, 1), (0, 1, 64, 1)]
    # What does not come out even are elements.
    odd = calls.set_column(calls.column_names.index("comm_bytes"), "comm_bytes", pa.array([190, 160]))
    assert rows_of(odd, members([0, 1]), [0, 1]) == [(1, 0, 12, 1), (0, 1, 8, 1)]


def test_places_without_known_ranks_claim_nothing() -> None:
    calls = uneven([(0, -1, [1, 2], [1, 2])])
    assert rows_of(calls, members(None), [0, 1]) == []
    assert rows_of(calls, members([0, 1, 2]), [0, 1]) == []
    assert rows_of(calls, members([0, 1]), [None, 1]) == []


def test_an_uneven_all_to_all_that_its_sender_lost_is_told_by_its_receiver() -> None:
    """Rank 0 has three all-to-alls with rank 1, whose trace lacks the second: 2, 3 and 4 floats came from there."""
    lost = [(0, 0, [1, 1], [0, 2]), (0, -1, [1, 1], [0, 3]), (0, 1, [1, 1], [0, 4]), (1, 0, [2, 0], [1, 0])]
    calls = uneven([*lost, (1, 1, [4, 0], [1, 0])])
    assert rows_of(calls, members([0, 1]), [0, 1]) == [(1, 0, 36, 3), (0, 1, 12, 3)]


def test_of_uneven_all_to_alls_that_nothing_tells_to_be_one_none_counts_twice() -> None:
    """One call of each rank without a match: they may be one, and what is sent counts. Two and one are two."""
    mine, its = (0, -1, [0, 1], [0, 2]), (1, -1, [3, 0], [4, 0])
    assert rows_of(uneven([mine, its]), members([0, 1]), [0, 1]) == [(1, 0, 12, 1), (0, 1, 4, 1)]
    assert rows_of(uneven([mine, mine, its]), members([0, 1]), [0, 1]) == [(1, 0, 16, 2), (0, 1, 8, 2)]
    # Ranks 0 and 2 have a match that lacks rank 1; a call of rank 1 that has none may be its part of it.
    three = [(0, 0, [0, 2, 0], None), (2, 0, [0, 0, 0], None), (1, -1, [3, 0, 0], [2, 0, 0])]
    assert rows_of(uneven(three), members([0, 1, 2]), [0, 1, 2]) == [(1, 0, 12, 1), (0, 1, 8, 1)]


def test_a_thousand_ranks_are_cut_to_the_largest_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "MOST_PAIRS", 5000)
    ranks = 100
    calls = uneven([(r, 0, [(r * 7 + i) % 50 + 1 for i in range(ranks)], None) for r in range(ranks)])
    found = traffic_frame(calls, members(list(range(ranks))), list(range(ranks)))
    assert found is not None and found.data.num_rows == 5000
    assert found.title == "Traffic, the 5,000 largest of 9,900 pairs"
    assert found.data["traffic_bytes"].to_pylist() == sorted(found.data["traffic_bytes"].to_pylist(), reverse=True)
    whole = sum(found.data["traffic_bytes"].to_pylist())
    # Blocks of two ranks, or nodes: nothing that the table holds is left out of the map.
    drawn = traffic_map(found)
    assert len(drawn.lines) == 50 and drawn.lines[49].metric.title == "98-99" and "sums of 100 ranks" in drawn.subtitle
    assert sum(value or 0 for line in drawn.lines for value in line.values) == whole
    drawn = traffic_map(found, {rank: f"node{rank // 8}" for rank in range(ranks)})
    assert drawn.x == [f"node{at}" for at in range(13)] and drawn.subtitle.startswith("from node (row) to node")
    assert sum(value or 0 for line in drawn.lines for value in line.values) == whole
    # A node of which not all ranks are known is no row.
    assert traffic_map(found, {0: "a", 1: "b"}).x[0] == "0-1"


# Partners


def partners(parts: Sequence[Part], of: str, **place: int) -> Rows:
    extra = (("of", of), *((key, str(value)) for key, value in place.items()))
    answer = VIEW.answer(parts, Params(table="partners", limit=10, extra=extra))
    assert isinstance(answer, Table)
    return answer.rows


def test_partners_of_a_call_are_the_same_collective_the_latest_first() -> None:
    rows = table_of(synthetic(), "collectives")
    one = next(row for row in rows if row["worker"] == "rank1")
    found = partners(synthetic(), "rank1", start_ns=one["start_ns"])
    assert found == partners(synthetic(), "rank1", call=one["call"])
    assert {row["worker"] for row in found} == {f"rank{r}" for r in range(4)}
    assert found[0]["worker"] == found[0]["last_worker"] == "rank2" and found[0]["wait_ns"] == 0
    assert [row["wait_ns"] for row in found] == sorted(row["wait_ns"] for row in found)
    assert [row["worker"] for row in found if row["is_asked"]] == ["rank1"]
    own = {row["worker"]: row for row in rows if row["match"] == one["match"]}
    for row in found:
        assert {key: own[row["worker"]][key] for key in ("start_ns", "dur_ns", "wait_ns", "match_kind")} == {
            key: row[key] for key in ("start_ns", "dur_ns", "wait_ns", "match_kind")
        }


def test_a_call_alone_has_no_partners_and_what_is_no_call_no_row() -> None:
    parts = pipeline([call("all_reduce", 0, sequence=1), call("broadcast", 50)], [call("all_reduce", 9, sequence=1)])
    (alone,) = partners(parts, "rank0", start_ns=50)
    assert alone["match"] is alone["wait_ns"] is None and alone["is_asked"]
    assert len(partners(parts, "rank1", start_ns=9)) == 2
    assert partners(parts, "rank1", start_ns=8) == partners(parts, "nobody", start_ns=9) == []
    for extra in ((), (("of", "rank0"),), (("start_ns", "9"),), (("of", "rank0"), ("start_ns", "soon"))):
        with pytest.raises(BadRequest):
            VIEW.answer(parts, Params(table="partners", extra=extra))


@pytest.mark.parametrize("ranks", sampled([64, 1024], [64]))
def test_many_partners_are_a_small_answer(ranks: int) -> None:
    parts = [part_of(f"rank{r}", [call("all_reduce", r, 2000 - r, sequence=3)], ranks) for r in range(ranks)]
    found = partners(parts, "rank7", start_ns=7)
    assert [row["worker"] for row in found] == [f"rank{r}" for r in range(ranks - 1, ranks - 11, -1)]
    assert found[0]["matched_workers"] == ranks


def test_partners_of_groups_are_of_the_group() -> None:
    names = [name for name in SAMPLE_FILES if name.startswith("synthetic_groups/")]
    parts = parts_of({name.split("/")[1].split(".")[0]: sample(name) for name in names})
    for row in table_of(parts, "collectives"):
        if row["match"] is not None:
            found = partners(parts, row["worker"], start_ns=row["start_ns"], call=row["call"])
            ranks = [int(rank) for rank in row["group_ranks"].strip("[]").split(", ")]
            assert sorted(one["worker"] for one in found) == [f"rank{rank}" for rank in ranks]
            assert {(one["group"], one["sequence"]) for one in found} == {(row["group"], row["sequence"])}
    shapes = {
        (row["group_description"], row["dimension"], row["group_shape"]) for row in table_of(parts, "process_groups")
    }
    assert shapes == {
        ("default_pg", "", "all ranks"), ("tp", "tensor", "2 neighboring ranks"), ("dp", "data", "2 ranks, every 2nd"),
    }  # fmt: skip


@needs_shared
def test_partners_of_a_real_run_that_numbers_nothing() -> None:
    files = sorted((SHARED / "data/torch213/ddp_gloo2").glob("*.gz"))
    parts = parts_of({f.name.split(".")[0]: loaded(str(f.relative_to(REPO.parent))) for f in files})
    rows = [row for row in table_of(parts, "collectives") if row["match"] is not None]
    assert len(rows) > 5 and {row["match_kind"] for row in rows} == {"order", "ends"}
    for row in rows:
        pair = partners(parts, row["worker"], start_ns=row["start_ns"], call=row["call"])
        assert len(pair) == 2 and {one["match"] for one in pair} == {row["match"]}
        # The latest first by clocks; where these do not tell, who waited least.
        assert pair[0]["worker"] == row["last_arrived"] if row["arrival"] == "known" else pair[0]["wait_ns"] == 0
    assert np.isin(["[0, 1]"], [row["group_ranks"] for row in table_of(parts, "process_groups")]).all()
