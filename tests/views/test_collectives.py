"""Collectives of flight recorders: of one rank, and of all: who is missing, who differs, who waits."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.flight_recorder.calls import line_of, ranks_text
from tb_plugin.findings import findings
from tb_plugin.payloads import Notice, Notices, View
from tb_plugin.views.collectives.view import Collectives
from tb_plugin.views.ranks_collectives.view import RanksCollectives
from tests.depth import examples
from tests.flight import call, flight

Calls = list[dict[str, Any]]


def view(*ranks: Calls, world: int = 0, **more: Any) -> View:
    """The page of some ranks, numbered from 0 on; None: that rank left no dump."""
    parts = []
    for number, calls in enumerate(ranks):
        if calls is not None:
            part = RanksCollectives().part(flight(calls, world=world or len(ranks), **more), Params())
            parts.append(replace(part, worker=f"rank{number}"))
    found = RanksCollectives().answer(parts, Params(limit=None))
    assert isinstance(found, View)
    return found


def notices(found: View, name: str) -> list[Notice]:
    payload = found.payloads.get(name)
    return payload.notices if isinstance(payload, Notices) else []


def said(found: View) -> tuple[str, dict[str, Any]]:
    (notice,) = notices(found, "answer")
    return notice.rule, {figure.metric.key: figure.value for figure in notice.figures}


def table(found: View, name: str = "matched_collectives") -> list[dict[str, Any]]:
    return found.payloads[name].rows  # type: ignore[union-attr]


def test_a_rank_that_did_not_call() -> None:
    done = [call(i) for i in range(1, 17)]
    waiting = [*done, call(17, state="started")]
    found = view(*[waiting] * 3, done, *[waiting] * 4)
    rule, figures = said(found)
    assert rule == "flight_missing"
    assert figures == {
        "collective": "all_reduce", "sequence": 17, "group": "default_pg", "ranks_waiting": 7,
        "call_line": "/home/me/train.py(42): step", "missing_names": "rank3",
    }  # fmt: skip
    first, *rest = table(found)
    assert (first["sequence"], first["call_verdict"], first["missing_names"]) == (17, "not called", "rank3")
    assert (first["ranks_called"], first["ranks_finished"], first["ranks_missing"]) == (7, 0, 1)
    assert {row["call_verdict"] for row in rest} == {"finished"} and len(rest) == 16
    behind = {row["worker"]: row["behind_sequences"] for row in table(found, "rank_progress")}
    assert behind == {f"rank{i}": int(i == 3) for i in range(8)}


def test_a_rank_that_called_nothing_at_all() -> None:
    found = view([call(1, state="started")], [], [call(1, state="started")])
    assert said(found)[0] == "flight_missing" and said(found)[1]["missing_names"] == "rank1"
    assert table(found, "rank_progress")[0]["worker"] == "rank1"
    assert [one.rule for one in findings(found.payloads.values())] == ["flight_missing"]
    assert findings(view([call(1)], [call(1)]).payloads.values()) == []
    # Numbers begin at 1: four calls are missing, not five.
    far = table(view([call(i, state="started") for i in range(1, 5)], []), "rank_progress")[0]
    assert (far["worker"], far["behind_sequences"], far["last_sequence"]) == ("rank1", 4, None)


def test_a_rank_whose_ring_has_turned_is_not_said_to_be_missing() -> None:
    found = view([call(i) for i in range(1, 9)], [call(i) for i in range(5, 9)])
    assert said(found)[0] == "flight_alike" and {row["ranks_missing"] for row in table(found)} == {0}
    # Also in a group of which its ring holds nothing any more.
    other = ("1", "dp")
    groups = {"1": {"name": "1", "desc": "dp", "ranks": "[0, 1]"}}
    ranks = [[call(1, group=other), call(9)], [call(9)]]
    assert said(view(*ranks, pg_config=groups))[0] == "flight_alike"


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"op": "broadcast"}, "operation"),
        ({"sizes": ((5, 3),)}, "sizes"),
        ({"dtype": "Half"}, "types"),
        ({"op": "broadcast", "dtype": "Half", "state": "started"}, "operation, types, state"),
    ],
)
def test_a_rank_that_called_something_else(other: dict[str, Any], told: str) -> None:
    found = view([call(1), call(2)], [call(1), call(2, **other)], [call(1), call(2)])
    rule, figures = said(found)
    assert rule == "flight_differs" and figures["differing_names"] == "rank1" and figures["differs_in"] == told
    assert figures["sequence"] == 2 and figures["collective"] == "all_reduce"
    assert table(found)[0]["call_verdict"] == "differs" and table(found)[0]["ranks_differing"] == 1


def test_uneven_sizes_are_no_difference_where_they_are_meant() -> None:
    for op in ("all_to_all", "gather", "scatter", "ALLTOALL_BASE"):
        assert said(view([call(1, op)], [call(1, op, sizes=((9,),))]))[0] == "flight_alike"
    for op in ("reduce_scatter", "_all_gather_base"):
        assert said(view([call(1, op)], [call(1, op, sizes=((9,),))]))[0] == "flight_differs"


def test_what_nobody_finished() -> None:
    found = view(*[[call(1), call(2, state="started")]] * 3)
    rule, figures = said(found)
    assert rule == "flight_unfinished_everywhere" and figures["ranks_waiting"] == 3 and figures["sequence"] == 2
    # What nobody waits for is a dump that was written earlier.
    assert notices(view([call(1), call(2)], [call(1)]), "answer")[0].severity == "info"


def test_the_first_cause_is_told() -> None:
    """A collective that differs, and all that hang behind it."""
    good, bad = call(5, state="started"), call(5, sizes=((1,),), state="started")
    found = view([good, call(6, state="scheduled")], [bad], [good, call(6, state="scheduled")])
    assert said(found)[0] == "flight_differs" and said(found)[1]["sequence"] == 5
    assert [row["sequence"] for row in table(found)] == [5, 6]


def test_what_somebody_waits_in_comes_before_what_is_finished() -> None:
    """Unlike sizes at which nothing hangs, and a later collective that one rank did not call."""
    waits = [call(1), call(2), call(4, state="started")]
    found = view(waits, waits, [call(1), call(2, sizes=((9,),))])
    assert said(found)[0] == "flight_missing" and said(found)[1]["sequence"] == 4
    assert said(view([call(1), call(2)], [call(1), call(2, sizes=((9,),))]))[0] == "flight_differs"


def test_groups_are_apart() -> None:
    tp, dp = ("1", "tp"), ("2", "dp")
    groups = {
        name: {"name": name, "desc": desc, "ranks": ranks} for (name, desc), ranks in ((tp, "[0, 1]"), (dp, "[0, 2]"))
    }
    ranks = [
        [call(1, group=tp), call(1, group=dp, record_id=1, state="started")],
        [call(1, group=tp)],
        [],
    ]
    found = view(*ranks, pg_config=groups)
    assert said(found)[1]["group"] == "dp" and said(found)[1]["missing_names"] == "rank2"
    assert [(row["group"], row["call_verdict"]) for row in table(found)] == [("2", "not called"), ("1", "finished")]


def test_coalesced_calls_share_a_number() -> None:
    calls = [call(1), call(1, "broadcast", record_id=1), call(2, record_id=2)]
    found = view(calls, calls)
    assert said(found)[0] == "flight_alike"
    assert sorted((row["sequence"], row["call_part"]) for row in table(found)) == [(1, 0), (1, 1), (2, 0)]


def test_calls_between_two_ranks_are_told_and_not_matched() -> None:
    send = call(1, "send 1->2", is_p2p=True, p2p_seq_id=9, state="started")
    part = Collectives().part(flight([send, call(2, "recv 3<-?", is_p2p=True, p2p_seq_id=10)]), Params())
    rows = part.frames["recorded_calls"].data.to_pylist()
    assert [(row["collective"], row["source_rank"], row["destination_rank"], row["p2p_number"]) for row in rows] == [
        ("recv", None, 3, 10), ("send", 1, 2, 9),
    ]  # fmt: skip
    assert {row["sequence"] for row in rows} == {None}
    assert part.payloads["answer"].notices[0].rule == "flight_unfinished"  # type: ignore[union-attr]
    assert table(view([send], [send])) == []


def test_ranks_without_a_dump() -> None:
    found = view([call(1)], None, [call(1)], world=6)  # type: ignore[arg-type]
    (note,) = notices(found, "data_quality")
    assert note.rule == "flight_absent" and "1, 3-5" in note.text
    (row,) = table(found)
    assert (row["call_verdict"], row["absent_names"]) == ("finished here", "1, 3-5")


def test_a_rank_without_a_dump_may_be_who_did_not_call() -> None:
    waiting = [call(1), call(2, state="started")]
    found = view(waiting, [call(1)], None, waiting, world=4)  # type: ignore[arg-type]
    rule, figures = said(found)
    assert rule == "flight_missing" and (figures["missing_names"], figures["absent_names"]) == ("rank1", "2")
    assert (
        "no dump of rank {absent_names}, so it is unknown whether this rank called" in notices(found, "answer")[0].text
    )
    headline = {each.metric.key: each.value for each in found.payloads["headline"].figures}  # type: ignore[union-attr]
    assert (headline["unfinished_collectives"], headline["ranks_absent"]) == (1, 1)
    hang = view(waiting, None, waiting, world=3)  # type: ignore[arg-type]
    (notice,) = notices(hang, "answer")
    assert notice.rule == "flight_unfinished_everywhere" and "All loaded ranks" in notice.text
    assert "{absent_names}" in notice.text and "No rank is missing" not in notice.todo


def test_what_tells_that_a_call_is_finished() -> None:
    status = {"0": {"last_enqueued_collective": 3, "last_started_collective": 3, "last_completed_collective": 2}}
    calls = [
        call(1),
        call(2, state="scheduled", retired=True),
        call(2, state="scheduled", record_id=2),
        call(3, state="started", record_id=3),
    ]
    frame = Collectives().part(flight(calls, pg_status=status), Params()).frames["recorded_calls"]
    assert frame.data["call_known_by"].to_pylist() == [None, "later call completed", "removed by the recorder", "state"]
    assert not next(each for each in frame.columns if each.metric.key == "call_known_by").hidden


def test_one_dump_alone() -> None:
    assert [each.rule for each in notices(view([call(1)]), "data_quality")] == ["one_worker"]


def test_one_rank() -> None:
    part = Collectives().part(flight([call(4), call(5, state="started"), call(6, state="scheduled")]), Params())
    (notice,) = part.payloads["answer"].notices  # type: ignore[union-attr]
    assert notice.rule == "flight_unfinished" and notice.evidence and notice.evidence.view == "ranks_collectives"
    assert {f.metric.key: f.value for f in notice.figures}["sequence"] == 5
    assert part.facts == {
        "flight.calls": 3, "flight.unfinished_calls": 2, "flight.groups": 1, "flight.overwritten_calls": 3,
    }  # fmt: skip
    (group,) = part.frames["group_progress"].data.to_pylist()
    assert (group["group_ranks"], group["first_sequence"], group["last_sequence"], group["finished_sequence"]) == (
        "0-1",
        4,
        6,
        4,
    )
    (empty,) = Collectives().part(flight([]), Params()).payloads["answer"].notices  # type: ignore[union-attr]
    assert empty.rule == "flight_empty"


def test_texts() -> None:
    assert ranks_text((0, 1, 2, 5, 7, 8)) == "0-2, 5, 7-8" and ranks_text(()) == ""
    assert ranks_text(tuple(range(0, 1000, 2))).endswith(", ...")
    assert line_of("a/site-packages/torch/x.py(1): f\nmine.py(2): g\n<string>(1): <module>") == "mine.py(2): g"
    assert line_of("/lib/python3.11/threading.py(1): run") == "/lib/python3.11/threading.py(1): run"
    assert line_of("") is None


SOUP = st.lists(
    st.lists(
        st.tuples(st.integers(1, 6), st.sampled_from(["all_reduce", "broadcast"]), st.sampled_from(["started", "completed"])),
        max_size=7,
        unique_by=lambda each: each[0],
    ),
    min_size=1,
    max_size=4,
)  # fmt: skip


@given(SOUP)
@examples(25, 1000)
def test_a_recount(soup: list[list[tuple[int, str, str]]]) -> None:
    ranks = [[call(s, op, state, record_id=i) for i, (s, op, state) in enumerate(sorted(calls))] for calls in soup]
    rows = {row["sequence"]: row for row in table(view(*ranks))}
    calls: dict[int, list[tuple[int, str, str]]] = defaultdict(list)
    for rank, mine in enumerate(soup):
        for sequence, op, state in mine:
            calls[sequence].append((rank, op, state))
    assert rows.keys() == calls.keys()
    for sequence, there in calls.items():
        row = rows[sequence]
        # Of a rank whose first kept number is a later one nobody knows.
        absent = {r for r, mine in enumerate(soup) if not mine or min(mine)[0] <= sequence} - {r for r, _, _ in there}
        often = Counter(op for _, op, _ in there).most_common(1)[0][1]
        assert row["ranks_called"] == len(there) and row["ranks_missing"] == len(absent)
        assert row["ranks_finished"] == sum(state == "completed" for _, _, state in there)
        assert row["ranks_differing"] == len(there) - often
        named = row["missing_names"] or ""
        assert named == ", ".join(f"rank{r}" for r in sorted(absent))


def test_columns_without_any_value_are_hidden() -> None:
    """What only a wrong call has is shown where there is one."""

    def hidden(found: View, name: str = "matched_collectives") -> set[str]:
        return {each.metric.key for each in found.payloads[name].columns if each.hidden}  # type: ignore[union-attr]

    only_wrong = {"differs_in", "missing_names", "differing_names"}
    alike = view([call(1), call(2)], [call(1), call(2)])
    assert only_wrong <= hidden(alike) and not {"call_line", "first_called_ns", "arrival_spread_ns"} & hidden(alike)
    differs = view(*[[call(1), call(2)]] * 2, [call(1), call(2, sizes=[[9]])])
    assert only_wrong & hidden(differs) == {"missing_names"}
    never = view([call(1, state="scheduled", retired=False)], [call(1, state="scheduled", retired=False)])
    assert "finished_sequence" in hidden(never, "rank_progress")
    assert not only_wrong & hidden(view([], []))
    frame = Collectives().part(flight([call(1, "send 1->2", is_p2p=True)]), Params()).frames["recorded_calls"]
    shown = {each.metric.key for each in frame.columns if not each.hidden}
    assert "call_line" in shown and "sequence" not in shown
