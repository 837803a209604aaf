"""Operators of replayed work: as in the step that ran eagerly, and what nothing tells stays without an operator."""

from __future__ import annotations

from typing import Any

import pytest

from tb_plugin.analysis.graphs.origins import Way
from tb_plugin.model.trace.schema import DEVICE_WORK, NO_OPERATOR, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Breakdown
from tests.builders import kernel, part, payload_of, row, rows, trace
from tests.origins import GRAPH, with_origins, with_replays

DEVICE = ("device_self_ns", "device_total_ns", "matrix_self_ratio", "matrix_total_ratio", "matrix_eligible")


@pytest.fixture(scope="module")
def table() -> TraceTable:
    return with_origins(with_replays().table(), "1")


def times(table: TraceTable, step: tuple[str, ...], frame: str, key: tuple[str, ...]) -> dict[tuple[Any, ...], Any]:
    found = rows(table, "operators", frame, steps=step)
    device = [name for name in DEVICE if name in found[0]]
    return {tuple(r[k] for k in key): tuple(r[name] for name in device) for r in found if r["device_total_ns"]}


@pytest.mark.parametrize(
    ("frame", "key"),
    [
        ("operators", ("name",)),
        ("operators_by_shape", ("name", "input_shape")),
        ("operators_outermost", ("name",)),
        ("stacks", ("name", "input_shape", "call_stack")),
    ],
)
def test_a_replay_has_the_device_time_of_the_eager_step(table: TraceTable, frame: str, key: tuple[str, ...]) -> None:
    eager = times(table, ("1",), frame, key)
    assert len(eager) > 2 and times(table, ("2",), frame, key) == eager


def test_calls_and_those_of_replays_are_counted_apart(table: TraceTable) -> None:
    """Two calls of the capture hold work, in each of two replays."""
    found = row(table, "operators", name="aten::mm")
    assert (found["calls"], found["replayed_calls"]) == (2, 4)
    assert found["device_self_ns"] == 3 * 24_000
    assert row(table, "operators", steps=("2", "3"), name="aten::mm")["calls"] == 0
    assert part(table, "operators").facts["operators.calls"] == 8
    outer = row(table, "operators", "operators_outermost", name="aten::linear")
    assert (outer["outer_calls"], outer["replayed_calls"], outer["device_total_ns"]) == (1, 2, 33_000)


def test_a_trace_without_known_replays_has_no_such_column() -> None:
    table = with_replays().table()
    with_origins(table, "1", known=0)
    assert "replayed_calls" not in [c.metric.key for c in part(table, "operators").frames["operators"].columns]
    assert row(table, "operators", name=NO_OPERATOR)["device_self_ns"] == 2 * 39_000


def test_what_nothing_tells_stays_without_an_operator_and_the_bar_says_how_the_rest_is_known() -> None:
    table = with_origins(with_replays().table(), "1", Way.EAGER, known=0.6)
    bar = payload_of(part(table, "operators"), "replayed", Breakdown)
    assert {s.metric.key: s.value for s in bar.parts} == {"way_eager": 2 * 19_000, "way_graph": 2 * 20_000}
    facts = part(table, "operators").facts
    assert facts["operators.no_operator_graph_ns"] == 40_000
    work = of_kind(table.kind, *DEVICE_WORK)
    assert sum(r["device_self_ns"] for r in rows(table, "operators")) == table.dur_ns[work].sum()
    assert {r["name"] for r in rows(table, "operators", "no_operator")} == {
        "Memcpy HtoD (Pinned -> Device)",
        "sgemm_fp16_tensorop",
    }


def test_scopes_that_are_open_around_the_launch_too_are_its_own_calls() -> None:
    """Compiled code is captured, and later replayed, inside of a region of the same name: it is one operator."""
    builder = trace().device(0).step(1, 0, 100)
    builder.op("region", 1, 50).op("compiled", 2, 40).op("aten::mm", 3, 10).launches(kernel("gemm", 5, at=20))
    builder.op("aten::mul", 20, 10).launches(kernel("mul", 3, at=30))
    builder.step(2, 200, 100).op("region", 201, 50).op("compiled", 202, 40)
    builder.launches(kernel("gemm", 5, at=220), kernel("mul", 3, at=230), at=210, name=GRAPH)
    table = with_origins(builder.table(), "1")
    eager, again = ({r["name"]: r for r in rows(table, "operators", steps=(s,))} for s in "12")
    for name, found in eager.items():
        assert (found["device_self_ns"], found["device_total_ns"]) == (
            again[name]["device_self_ns"],
            again[name]["device_total_ns"],
        )
    assert (again["region"]["calls"], again["region"]["replayed_calls"]) == (1, 0)
    (outer,) = rows(table, "operators", "operators_outermost", steps=("2",))
    assert (outer["name"], outer["outer_calls"], outer["device_total_ns"]) == ("region", 1, 8_000)
