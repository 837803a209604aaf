"""What ranks state of their communication, side by side: numbers that can be worked out by hand."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from tb_plugin.analysis.base import Params, Part
from tb_plugin.analysis.job_tables.links import MOST_DRAWN
from tb_plugin.model.trace.job_tables import (
    BANDS,
    GROUPS,
    LINKS,
    OPERATIONS,
    PACKETS,
    SCHEMAS,
    STEP_TIMES,
    as_reported_table,
)
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Notice, Notices, Series, View
from tb_plugin.views.distributed.findings import causes_first
from tb_plugin.views.distributed.matching.groups import GroupColumns, groups_of
from tb_plugin.views.distributed.matching.keys import kind_codes
from tb_plugin.views.distributed.natural_order import in_order
from tests.builders import kernel, trace
from tests.conftest import SAMPLE_FILES, sample
from tests.jobs_of_parts import VIEW, table_of, view_of


def made(name: str, *rows: dict[str, Any]) -> Any:
    columns = {key: pa.array([row.get(key) for row in rows], kind) for key, kind in SCHEMAS[name].items()}
    return as_reported_table(name, pa.table(columns))


def rank(number: int | None, *stated: Any, calls: int = 2, also: bool = True) -> TraceTable:
    """A rank whose device communicates, and computes unless it does nothing else."""
    built = trace()
    for call in range(calls):
        built.on_device(kernel("ncclDevKernel_AllReduce", 0.1, call + 0.01 * (number or 0)))
    if also:
        built.on_device(kernel("gemm", 0.1, 0.5))
    table = built.table()
    info = {} if number is None else {"distributedInfo": {"rank": number, "world_size": 2}}
    return replace(table, reported_tables=stated, metadata={**table.metadata, **info})


def call(step: str, what: str, **times: Any) -> dict[str, Any]:
    times = {"elapse_ns": 100, "transit_ns": 40, "wait_ns": 50, "synchronization_ns": 30, "idle_ns": 10, **times}
    return {"step": step, "kind": "collective", "operation": what, "group": "g", **times}


def moved(step: str, what: str, band: str, size: int, time: int, part_of: str | None = None, ratio: Any = None) -> Any:
    return {
        **call(step, what),
        "band": band,
        "part_of": part_of,
        "bytes": size,
        "transit_ns": time,
        "large_ratio": ratio,
    }


def parts_of(*tables: TraceTable) -> list[Part]:
    return [replace(VIEW.part(table, Params()), worker=f"rank{place}") for place, table in enumerate(tables)]


def told(view: View) -> dict[str, str]:
    found = view.payloads["findings"]
    assert isinstance(found, Notices)
    return {notice.rule: notice.text for notice in found.notices}


def lines(view: View, name: str) -> dict[str, list[Any]]:
    series = view.payloads[name]
    assert isinstance(series, Series)
    return {line.metric.key: line.values for line in series.lines}


CALLS = (call("1", "allReduce_1"), call("1", "allReduce_2", wait_ns=60, elapse_ns=110), call("2", "broadcast_3"))
MOVED = (
    moved("1", "allReduce_1", "SDMA", 300, 30), moved("1", "allReduce_1", "HCCS", 200, 20, "SDMA", 0.25),
    moved("1", "allReduce_1", "SIO", 100, 10, "SDMA", 1.0), moved("1", "allReduce_2", "RDMA", 7, 7, None, 0.5),
)  # fmt: skip
PACKED = (
    {**call("1", "allReduce_1"), "band": "HCCS", "packet_bytes": 20, "count": 8, "transit_ns": 1},
    {**call("1", "allReduce_1"), "band": "SIO", "packet_bytes": 100, "count": 1, "transit_ns": 1},
    {**call("1", "allReduce_2"), "band": "RDMA", "packet_bytes": 7, "count": 2, "transit_ns": 1},
)  # fmt: skip
STEPS = (
    {"step": "1", "computing_ns": 500, "overlapped_ns": 100, "exposed_ns": 300, "exposed_without_receive_ns": 250,
     "free_ns": 100, "preparing_ns": 20, "bubble_ns": 50, "stage_ns": 850},
    {"step": "2", "computing_ns": 700, "overlapped_ns": 100, "exposed_ns": 100, "exposed_without_receive_ns": 100,
     "free_ns": 300, "preparing_ns": 40, "bubble_ns": 0, "stage_ns": 1100},
)  # fmt: skip


def telling(number: int = 0, **changed: Any) -> TraceTable:
    calls = changed.get("calls", CALLS)
    return rank(number, made(OPERATIONS, *calls), made(BANDS, *MOVED), made(PACKETS, *PACKED), made(STEP_TIMES, *STEPS))


def test_times_of_calls_by_step_and_kind() -> None:
    parts = parts_of(telling(), rank(1))
    first, second = table_of(parts, "rank_steps")
    assert {key: first[key] for key in ("worker", "step", "job_calls", "elapse_ns", "transit_ns", "synchronization_ns")} == {
        "worker": "rank0", "step": "1", "job_calls": 2, "elapse_ns": 210, "transit_ns": 80, "synchronization_ns": 60,
    }  # fmt: skip
    assert (first["wait_rest_ns"], first["call_idle_ns"], first["link_bytes"]) == (50, 20, 307)
    assert (first["computing_ns"], first["device_free_ns"], first["preparing_ns"]) == (500, 100, 20)
    assert (second["job_calls"], second["link_bytes"], second["stage_ns"]) == (1, 0, 1100)
    kinds = {row["collective"]: row for row in table_of(parts, "operation_types")}
    assert (kinds["all_reduce"]["job_calls"], kinds["all_reduce"]["link_bytes"]) == (2, 307)
    assert (kinds["all_reduce"]["mean_elapse_ns"], kinds["all_reduce"]["mean_link_bytes"]) == (105, 153)
    assert kinds["broadcast"]["elapse_ns"] == 100 and kinds["broadcast"]["link_bytes"] == 0


def test_devices_of_a_rank_have_steps_of_their_own() -> None:
    steps = made(STEP_TIMES, {**STEPS[0], "device": 4}, {**STEPS[1], "step": "1", "device": 0})
    rows = table_of(parts_of(rank(0, steps, made(OPERATIONS, *CALLS)), rank(1)), "rank_steps")
    assert [(row["step"], row["device"], row["computing_ns"], row["job_calls"]) for row in rows] == [
        ("1", "0", 700, None), ("1", "4", 500, 2), ("2", None, None, 1),
    ]  # fmt: skip


def test_kinds_of_links_do_not_count_twice() -> None:
    rows = {row["link_kind"]: row for row in table_of(parts_of(telling(), rank(1)), "kinds_of_links")}
    assert [*rows] == ["RDMA", "SDMA", "HCCS", "SIO"], "parts stand below what they are part of"
    assert sum(row["link_bytes"] for row in rows.values() if row["link_part_of"] is None) == 307
    assert rows["SDMA"]["link_bandwidth"] == rows["HCCS"]["link_bandwidth"] == 10_000_000_000
    # 2 of 8 packets, 1 of 1; of both together 3 of 9.
    shares = {kind: (row["packets"], row["large_share"]) for kind, row in rows.items()}
    assert shares == {"RDMA": (2, 0.5), "HCCS": (8, 0.25), "SIO": (1, 1.0), "SDMA": (9, pytest.approx(1 / 3))}


def test_bars_are_of_the_mean_step() -> None:
    view = view_of(parts_of(telling(), rank(1)))
    steps = lines(view, "step_times")
    assert steps == {
        "preparing_ns": [30], "computing_alone_ns": [500], "overlapped_ns": [100], "exposed_rest_ns": [175],
        "exposed_receive_ns": [25], "device_free_ns": [200],
    }  # fmt: skip
    calls = lines(view, "call_times")
    assert calls == {
        "transit_ns": [60], "synchronization_ns": [45], "wait_rest_ns": [35], "call_idle_ns": [15],
    }  # fmt: skip
    assert sum(values[0] for values in calls.values()) == (210 + 100) / 2, "the parts are all of the calls"


def test_chosen_steps_count_alone() -> None:
    parts = parts_of(telling(), rank(1))
    assert [row["step"] for row in table_of(parts, "rank_steps", steps=("2",))] == ["2"]
    assert [row["collective"] for row in table_of(parts, "operation_types", steps=("2",))] == ["broadcast"]
    assert lines(view_of(parts, steps=("2",)), "step_times")["computing_alone_ns"] == [600]
    assert "kinds_of_links" not in view_of(parts, steps=("2",)).payloads


def test_of_no_step_nothing_counts() -> None:
    view = view_of(parts_of(telling(), rank(1)), steps=())
    assert not {"rank_steps", "operation_types", "kinds_of_links"} & {*view.payloads}


def test_the_order_of_calls_says_nothing() -> None:
    shuffled = list(CALLS)
    random.Random(5).shuffle(shuffled)
    for name in ("rank_steps", "operation_types", "kinds_of_links"):
        first, second = (table_of(parts_of(telling(calls=calls), rank(1)), name) for calls in (CALLS, shuffled))
        assert sorted(map(str, first)) == sorted(map(str, second))


def test_a_rank_that_states_nothing_is_named_and_removes_nothing() -> None:
    view = view_of(parts_of(telling(), rank(1)))
    assert "for rank1." in told(view)["communication_unstated"]
    assert len(view.payloads["overlap"].x) == 2 and view.payloads["call_times"].x == ["rank0"]


def test_a_rank_of_communication_alone_has_the_steps_that_it_states() -> None:
    stated = {**STEPS[0], "step": "0"}
    alone = rank(1, made(OPERATIONS, *CALLS), made(STEP_TIMES, stated), also=False)
    view = view_of(parts_of(rank(0), alone))
    assert told(view)["communication_alone"].startswith("Only communication is recorded for rank1. ")
    assert lines(view, "overlap")["compute_alone_ns"] == [100, 400]
    rows = {row["worker"]: row for row in table_of(parts_of(rank(0), alone), "workers")}
    assert (rows["rank1"]["compute_ns"], rows["rank1"]["step_total_ns"]) == (500, 900)
    unknown = rank(1, made(OPERATIONS, *CALLS), also=False)
    assert lines(view_of(parts_of(rank(0), unknown)), "overlap")["compute_alone_ns"] == [100, None]


def test_a_group_has_one_code_whatever_a_worker_knows_of_it() -> None:
    names, listed = ["123586", "…586", "9", "999", "…9", "…777"], ["", "[0, 1]", "[2, 3]"]
    group = np.array([0, 1, 0, 2, 3, 4, 5])
    ranks = np.array([1, 0, 0, 0, 0, 0, 0])
    zero = np.zeros(7, np.int64)
    found = groups_of(GroupColumns(zero, group, names, ranks, listed, zero - 1)).code.tolist()
    assert len({found[0], found[1], found[2]}) == 1, "by the end of its name, and with the ranks that one call states"
    assert len({*found}) == 5, "an end that several names have, or none, is a group of its own"
    columns = GroupColumns(zero[:3], zero[:3], ["tp"], np.array([1, 2, 0]), listed, zero[:3] - 1)
    of_one_name = groups_of(columns).code.tolist()
    assert len({*of_one_name}) == 3, (
        "groups of one name with other ranks are others; nobody knows whose the last call is"
    )


def test_calls_are_of_one_kind_where_a_worker_does_not_know_their_size() -> None:
    worker, zero = np.array([0, 0, 1, 1]), np.zeros(4, np.int64)
    elements = np.array([5, 7, -1, -1])
    assert len({*kind_codes(worker, zero, zero, worker, elements).tolist()}) == 1
    assert len({*kind_codes(worker, worker, zero, zero, elements).tolist()}) == 3, (
        "in another group nobody lacks a size"
    )
    both_know = kind_codes(worker, zero, zero, zero, np.array([5, 7, 5, -1])).tolist()
    assert both_know[0] == both_know[2] and len({*both_know}) == 3


def test_a_bounded_transfer_is_no_advice_where_data_moved_for_less() -> None:
    """Two of three ranks: their calls take 100 ns each, and 100 ns of communication in 1.1 us of a step are worth a word."""
    three = made(LINKS, between(0, 1, 1, in_group=True), between(0, 2, 1, in_group=True))
    for transit, advised in ((10, False), (90, True)):
        calls = [call("0", f"allReduce_{place}", transit_ns=transit) for place in range(2)]
        tables = [rank(number, three, made(OPERATIONS, *calls)) for number in (0, 1)]
        tables = [replace(table, metadata={}) for table in tables]
        assert ("communication_transfer" in told(view_of(parts_of(*tables)))) is advised


def between(source: int, destination: int, size: int, **more: Any) -> dict[str, Any]:
    row = {"step": "1", "group": "123456", "source": source, "destination": destination, "in_group": False,
           "transport": "HCCS", "bytes": size, "transit_ns": size, "place": "total"}  # fmt: skip
    return {**row, **more}


def test_links_count_once_though_both_ends_state_them() -> None:
    first = rank(0, made(LINKS, between(0, 1, 10), between(1, 0, 99), between(0, 0, 5), between(0, 1, 7, place="top1")))
    second = rank(1, made(LINKS, between(0, 1, 55), between(1, 0, 20), between(1, 0, 2, group="other")))
    parts = parts_of(first, second)
    rows = [
        (row["link_from"], row["link_to"], row["link_group"], row["link_bytes"]) for row in table_of(parts, "links")
    ]
    assert rows == [("0", "0", "…456", 5), ("0", "1", "…456", 10), ("1", "0", "…456", 20), ("1", "0", "…her", 2)]
    view = view_of(parts)
    assert view.payloads["map_link_bytes"].x == ["0", "1"]
    assert lines(view, "map_link_bytes") == {"rank_0": [None, 10], "rank_1": [22, None]}
    assert lines(view, "map_link_bandwidth") == {"rank_0": [None, 10**9], "rank_1": [10**9, None]}


def test_places_in_groups_become_ranks_where_a_rank_knows_its_own() -> None:
    own = [made(GROUPS, {"group": "123456", "group_rank": place}) for place in (0, 1)]
    links = made(LINKS, between(0, 1, 10, in_group=True), between(0, 2, 3, in_group=True))
    parts = parts_of(rank(4, links, own[0]), rank(6, own[1]))
    assert [(row["link_from"], row["link_to"]) for row in table_of(parts, "links")] == [("4", "6"), ("4", "2 in …456")]
    every = made(GROUPS, {"group": "123456", "name": "dp", "ranks": "4, 6, 8"})
    parts = parts_of(rank(4, links, every), rank(6))
    assert [(row["link_to"], row["link_group"]) for row in table_of(parts, "links")] == [("6", "dp"), ("8", "dp")]
    assert parts[0].frames["stated_rank"].data["ranks_at_least"].to_pylist() == [3]


@pytest.mark.parametrize("ranks", ["0, 2, ..., 8", "...", f"[{'9' * 5000}]", "a, b", ",", "-"])
def test_a_list_of_ranks_that_is_cut_or_none_names_nobody(ranks: str) -> None:
    links = made(LINKS, between(0, 1, 10, in_group=True))
    parts = parts_of(rank(4, links, made(GROUPS, {"group": "123456"})))
    data = parts[0].frames["stated_groups"].data
    # As a rank summary of somebody else may state it.
    texts = pa.array([ranks], pa.string())
    data = data.set_column(data.column_names.index("ranks"), "ranks", texts)
    frames = {**parts[0].frames, "stated_groups": replace(parts[0].frames["stated_groups"], data=data)}
    [row] = table_of([replace(parts[0], frames=frames)], "links")
    assert row["link_bytes"] == 10
    if "9" not in ranks:
        assert (row["link_from"], row["link_to"]) == ("0 in …456", "1 in …456")


def test_labels_stand_in_order_of_their_numbers_as_far_as_they_are_numbers() -> None:
    digits = "9" * 5000
    assert sorted(["b", "10", digits, "9", None, "a"], key=in_order) == ["9", "10", None, digits, "a", "b"]


def test_a_group_of_more_ranks_than_are_here_bounds_what_is_known() -> None:
    """Nobody states how large the job is; a link leads to a third rank."""
    links = made(LINKS, between(0, 1, 1, in_group=True), between(0, 2, 1, in_group=True))
    tables = [replace(rank(number, links), metadata={}) for number in (0, 1)]
    assert {row["timing"] for row in table_of(parts_of(*tables), "collectives")} == {"bound"}
    whole = [replace(rank(number), metadata={}) for number in (0, 1)]
    assert {row["timing"] for row in table_of(parts_of(*whole), "collectives")} == {"measured"}


def test_a_map_of_many_ranks_is_cut_and_says_so() -> None:
    links = made(LINKS, *(between(0, other, 1) for other in range(1, MOST_DRAWN + 10)))
    series = view_of(parts_of(rank(0, links), rank(1))).payloads["map_link_bytes"]
    assert isinstance(series, Series) and len(series.x) == MOST_DRAWN
    assert f"the first {MOST_DRAWN} of {MOST_DRAWN + 10} ranks" in series.subtitle


def test_profiles_that_state_nothing_have_nothing_of_it() -> None:
    tables = [sample(name) for name in SAMPLE_FILES if name.startswith("synthetic_ddp")][:2]
    view = view_of(parts_of(*tables))
    assert not {"step_times", "call_times", "rank_steps", "links"} & view.payloads.keys()
    assert not {"communication_alone", "communication_unstated"} & told(view).keys()


def test_nothing_is_claimed_of_what_hides_communication_where_kernels_are_missing() -> None:
    """Kernels compute for 100 us; where the profile states ten times that, most of them are not recorded."""
    steps = made(
        STEP_TIMES, {"step": "1", "computing_ns": 1_000_000, "exposed_ns": 1, "free_ns": 1, "overlapped_ns": 0}
    )
    enough = made(STEP_TIMES, {"step": "1", "computing_ns": 100, "exposed_ns": 1, "free_ns": 1, "overlapped_ns": 0})
    cut, whole = (parts_of(*(rank(number, stated) for number in range(2))) for stated in (steps, enough))
    assert "rank0, rank1" in told(view_of(cut))["kernels_missing"] and "kernels_missing" not in told(view_of(whole))
    both = {"communication_waiting", "communication_transfer"}
    assert both & {*told(view_of(whole))} and not both & {*told(view_of(cut))}


def test_the_cause_of_a_wait_stands_before_it() -> None:
    notices = [Notice(rule, severity, "", "") for rule, severity in (
        ("communication_waiting", "high"), ("clocks", "medium"), ("uneven_stages", "low"), ("unmatched", "low"))]  # fmt: skip
    found = [(notice.rule, notice.severity) for notice in causes_first(notices)]
    assert found[:2] == [("uneven_stages", "high"), ("communication_waiting", "high")]
    assert [notice.rule for notice in causes_first(notices[1:])] == ["clocks", "uneven_stages", "unmatched"]


def test_a_job_is_at_least_as_large_as_its_groups() -> None:
    group = made(GROUPS, {"kind": "collective", "group": "g", "name": "dp", "ranks": "0, 1, 2, 3, 4, 5, 6, 7"})
    tables = [replace(rank(None, group), metadata={}) for _ in range(2)]
    view = view_of(parts_of(*tables))
    figures = view.payloads["headline"].figures  # type: ignore[union-attr]
    (size,) = (figure for figure in figures if figure.metric.key == "world_size")
    assert (size.metric.title, size.value) == ("World size (min)", 8)
    assert any("of at least {world_size} ranks are loaded" in text for text in told(view).values())
    assert [row["node"] for row in table_of(parts_of(*tables), "devices")] == ["", ""]


def test_the_stated_chart_says_why_it_differs_from_the_measured_one() -> None:
    stated = made(OPERATIONS, *CALLS)
    series = view_of(parts_of(rank(0, stated), rank(1, stated))).payloads["call_times"]
    assert isinstance(series, Series) and series.subtitle.endswith("; transit is data movement only")
    alone = view_of(parts_of(rank(0, stated))).payloads["call_times"]
    assert isinstance(alone, Series) and alone.subtitle == "mean step, sum over calls"
