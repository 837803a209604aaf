"""What stands behind (no operator): one reason for each piece of device work, parts that sum to it, where it was launched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.analysis.unattributed_kernels import Reason
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, NO_OPERATOR, CallRole, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Breakdown
from tests.builders import TraceBuilder, kernel, memcpy, part, payload_of, row, rows, trace
from tests.conftest import UNLIKE, sample
from tests.depth import examples

GRAPH = "cudaGraphLaunch"


def launched_in_all_ways() -> TraceBuilder:
    return (
        trace()
        .on_device(kernel("early", 2, at=1), corr=7)
        .op("aten::mm", 10, 5)
        .launches(kernel("owned", 3, at=20))
        .annotation("decode", 100, 50)
        .python("serve.py(3): run", 101, 40, id=1)
        .module("Model", 102, 30, id=2, parent=1)
        .python("graphs.py(139): replay", 103, 20, id=3, parent=2)
        .launches(kernel("node_1", 4, at=110), kernel("node_2", 5, at=120), at=104, name=GRAPH)
        .launches(memcpy(6, at=130), at=106)
        .on_device(kernel("lost", 7, at=200), corr=2_000_000)
    )


def reasons_of(table: TraceTable, **params: object) -> dict[str, int]:
    answer = part(table, "operators", **params)  # type: ignore[arg-type]
    facts = {r.name.lower(): int(answer.facts.get(f"operators.no_operator_{r.name.lower()}_ns") or 0) for r in Reason}
    return {reason: ns for reason, ns in facts.items() if ns}


def test_each_piece_has_its_reason() -> None:
    table = launched_in_all_ways().table()
    assert reasons_of(table) == {"before": 2_000, "graph": 9_000, "bare": 6_000, "unrecorded": 7_000}
    bar = payload_of(part(table, "operators"), "no_operator", Breakdown)
    assert [(s.metric.title, s.value) for s in bar.parts] == [
        ("Graph replay", 9_000),
        ("No launch recorded", 7_000),
        ("Launched outside of operators", 6_000),
        ("Launched before the recording", 2_000),
    ]
    assert bar.total == row(table, "operators", name=NO_OPERATOR)["device_self_ns"] == 24_000


def test_it_is_tied_to_what_was_open_at_the_launch() -> None:
    table = launched_in_all_ways().table()
    found = row(table, "operators", "no_operator", name="node_2")
    assert (found["reason"], found["calls"], found["total_ns"]) == ("graph replay", 1, 5_000)
    assert found["launch_phase"] == "decode"
    assert found["launch_module"] == "Model_0"
    assert found["launch_frame"] == "graphs.py(139): replay"
    alone = row(table, "operators", "no_operator", name="lost")
    assert (alone["launch_phase"], alone["launch_module"], alone["launch_frame"]) == (None, None, None)


def test_steps_are_no_phases() -> None:
    table = trace().step(1, 0, 100).launches(kernel("k", 1, at=20), at=10).table()
    assert row(table, "operators", "no_operator", name="k")["launch_phase"] is None


def test_without_numbers_the_order_of_the_stream_tells() -> None:
    table = (
        trace()
        .on_device(kernel("early", 1, at=1))
        .on_device(kernel("other_stream", 1, at=1, stream=8))
        .op("aten::mm", 10, 5)
        .launches(kernel("owned", 3, at=20))
        .on_device(kernel("late", 1, at=30))
        .table()
    )
    found = {r["name"]: r["reason"] for r in rows(table, "operators", "no_operator")}
    assert found["early"] == "launched before the recording"
    assert found["late"] == found["other_stream"] == "no launch recorded"


def test_an_operator_outside_of_the_chosen_steps() -> None:
    table = (
        trace()
        .op("aten::long", 0, 300)
        .step(1, 10, 90)
        .step(2, 100, 90)
        .op("aten::mm", 110, 5)
        .launches(kernel("k", 3, at=115))
        .call(150, 1, corr=5)
        .on_device(kernel("nested", 4, at=155), corr=5)
        .table()
    )
    assert reasons_of(table) == {}
    assert reasons_of(table, steps=("2",)) == {"outside": 4_000}


def test_no_device_no_row() -> None:
    answer = part(trace().op("aten::mm", 0, 5).table(), "operators")
    assert "no_operator" not in answer.payloads
    assert not any("no_operator" in key for key in answer.facts)


# a recount


def reason(table: TraceTable, event: int) -> str:
    launch = int(table.launch[event])
    if launch != MISSING:
        graphs = {
            table.strings[int(n)]
            for n, r in zip(table.calls.name, table.calls.role, strict=True)
            if r == CallRole.GRAPH
        }
        return "graph" if table.strings[int(table.name[launch])] in graphs else "bare"
    calls = [int(c) for c, k in zip(table.correlation, table.kind, strict=True) if k == EventKind.RUNTIME]
    if table.correlation[event] > 0 and calls:
        return "before" if table.correlation[event] < min((c for c in calls if c > 0), default=2**62) else "unrecorded"
    with_launch = [
        int(table.start_ns[i])
        for i in range(len(table))
        if table.track[i] == table.track[event] and table.launch[i] != MISSING
    ]
    return "before" if table.start_ns[event] < min(with_launch, default=-1) else "unrecorded"


def assert_recounted(table: TraceTable) -> None:
    expected: dict[str, int] = {}
    for event in range(len(table)):
        if (
            table.kind[event] in (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET)
            and table.operator[event] == MISSING
        ):
            why = reason(table, event)
            expected[why] = expected.get(why, 0) + int(table.dur_ns[event])
    found = reasons_of(table)
    assert found == {why: ns for why, ns in expected.items() if ns}
    whole = [r["device_self_ns"] for r in rows(table, "operators") if r["name"] == NO_OPERATOR]
    assert [sum(found.values())] == (whole or [0])
    if whole:
        listed = rows(table, "operators", "no_operator")
        assert sum(r["total_ns"] for r in listed) == whole[0]
        assert sum(r["total_share"] for r in listed) == pytest.approx(1)
    outermost = rows(table, "operators", "operators_outermost")
    assert sum(r["device_total_ns"] for r in outermost) == sum(r["device_self_ns"] for r in rows(table, "operators"))


@pytest.mark.parametrize("name", UNLIKE)
def test_samples_recounted(name: str) -> None:
    table = sample(name)
    if of_kind(table.kind, *DEVICE_WORK).any():
        if (origins_of(table).scope != MISSING).any():
            pytest.skip("operators of a capture stand behind its replays: test_replayed_truth.py")
        assert_recounted(table)
    else:
        assert "synthetic" not in name or "capture_traces" in name


ways = st.sampled_from(["operator", "bare", "graph", "lost", "early", "unnumbered"])


@examples(15, 300)
@given(st.lists(st.tuples(ways, st.integers(0, 5), st.integers(7, 8)), max_size=8))
def test_any_launches_recounted(found: list[tuple[str, int, int]]) -> None:
    builder, at = trace().annotation("work", 0, 1000), 10
    for way, dur, stream in found:
        work = kernel("k", dur, at=at + 3, stream=stream)
        if way == "operator":
            builder.op("aten::mm", at, 5).launches(work)
        elif way in ("bare", "graph"):
            builder.annotation("inner", at, 5).launches(work, name=GRAPH if way == "graph" else "cudaLaunchKernel")
        else:
            builder.on_device(work, corr={"lost": 3_000_000, "early": 5, "unnumbered": None}[way])
        at += 10
    assert_recounted(builder.table())
