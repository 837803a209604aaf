"""Where a trace says that a block was allocated: by its address and its time, or by its time alone, never by a guess."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.memory.owners import owners_of, tracks_of
from tb_plugin.errors import BadRequest
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import TraceTable
from tests.builders import TraceBuilder, named, part, trace
from tests.conftest import UNLIKE, WITH_MEMORY, sample

RECORDED = [name for name in UNLIKE if name in WITH_MEMORY]
Found = tuple[str | None, int | None, list[str]]


def asked(table: TraceTable, at_ns: int, **more: Any) -> tuple[str | None, int | None, list[dict[str, Any]]]:
    """By what an allocation was matched, how far off, and the operators that it may be of."""
    extra = (("at_ns", str(at_ns)), *((key, str(value)) for key, value in more.items()))
    found = part(table, "allocated_in", extra=extra)
    by, apart = (figure.value for figure in found.payloads["matching"].figures)  # type: ignore[union-attr]
    return by, apart, found.frames["allocating_operators"].data.to_pylist()  # type: ignore[return-value]


def names(table: TraceTable, at_us: int, **more: Any) -> Found:
    by, apart, rows = asked(table, 1000 * at_us, **more)
    return by, apart, [row["name"] for row in rows]


def got(builder: TraceBuilder, at: int, address: int, size: int, tid: int = 1) -> None:
    builder.memory(at, size, 1, 0, tid=tid, Addr=address, **{"Total Allocated": 5000, "Total Reserved": 9000})


@pytest.fixture(scope="module")
def training() -> TraceTable:
    builder = trace().python("train.py(5): loop", 0, 900).module("Linear", 0, 150)
    builder.op("aten::linear", 0, 100, sequence=7).op("aten::empty", 20, 10)
    builder.op("AddmmBackward0", 200, 100, tid=2, sequence=7, forward_thread=1).op("aten::sum", 250, 100)
    got(builder, 25, 0x7F20, 512)
    got(builder, 26, 0x7F20, -512)
    got(builder, 60, 0x7F20, 512)
    got(builder, 260, 0x7F40, 1024, tid=2)
    got(builder, 600, 0x7F60, 64)
    return builder.table()


def test_an_allocation_that_the_trace_holds_is_found_by_address_and_time(training: TraceTable) -> None:
    assert names(training, 25, address="0x7f20", bytes=500) == ("address and time", 0, ["aten::empty"])
    assert names(training, 60, address=0x7F20, bytes=512) == ("address and time", 0, ["aten::linear"])
    # Clocks differ: the one within ten microseconds is meant, also where its operator is gone by this one.
    assert names(training, 33, address="0x7f20", bytes=512) == ("address and time", 8_000, ["aten::empty"])
    # Further away it may be either of two.
    assert names(training, 40, address="0x7f20") == ("address and time", 15_000, ["aten::empty", "aten::linear"])
    assert names(training, 320, address="0x7f40") == ("address and time", 60_000, ["AddmmBackward0"])
    assert names(training, 600, address="0x7f60", bytes=64) == ("address and time", 0, ["(no operator)"])


def test_what_the_trace_tells_of_it_stands_beside_the_operator(training: TraceTable) -> None:
    (row,) = asked(training, 260_000, address="0x7f40")[2]
    assert (row["module"], row["allocation_frame"]) == ("Linear_0", "train.py(5): loop"), (
        "those of its forward operator"
    )
    assert (row["event"], row["start_ns"], row["dur_ns"]) == (named(training, "AddmmBackward0"), 200_000, 100_000)
    (row,) = asked(training, 25_000, address="0x7f20")[2]
    assert row["outermost_operator"] == "aten::linear" and row["module"] == "Linear_0"


def test_without_it_by_time_and_nothing_is_guessed(training: TraceTable) -> None:
    assert names(training, 22) == ("time", None, ["aten::empty"])
    for other in ({"address": "0x9999"}, {"address": "0x7f20", "bytes": 4096}):
        assert names(training, 25, **other) == ("time", None, ["aten::empty"]), "another address, and too small a block"
    assert names(training, 161, address="0x7f20") == ("time", None, []), (
        "a hundred microseconds later it is another block"
    )
    # Two threads: either may have asked for it.
    assert names(training, 260) == ("time", None, ["aten::sum", "AddmmBackward0"])
    assert names(training, 240) == ("time", None, ["AddmmBackward0"])
    # An operator that begins or ends within the microsecond may be another one's neighbour.
    assert asked(training, 29_500)[2][0]["name"] == "aten::linear"
    assert names(training, 29)[2] == ["aten::empty"]
    assert names(training, 99)[2] == ["aten::linear"] and asked(training, 99_001)[2] == []
    assert names(training, 5000) == (None, None, []), "after the trace"
    assert part(training, "allocated_in").frames["allocating_operators"].data.num_rows == 0


@pytest.mark.parametrize(
    "bad", [{"address": "7f20"}, {"address": "0x"}, {"address": "-1"}, {"at_ns": "x"}, {"bytes": "1e3"}]
)
def test_what_is_no_number_is_refused(training: TraceTable, bad: dict[str, str]) -> None:
    with pytest.raises(BadRequest):
        part(training, "allocated_in", extra=tuple(bad.items()))


intervals = st.tuples(st.integers(1, 3), st.integers(0, 30), st.integers(0, 20))


@given(st.lists(intervals, max_size=12), st.integers(0, 40))
def test_any_moment_recounted(operators: list[tuple[int, int, int]], at: int) -> None:
    builder = trace().annotation("all", 0, 60)
    for i, (tid, start, dur) in enumerate(operators):
        builder.op(f"op{i}", start, dur, tid=tid)
    table = builder.table()
    rows = [row for row in range(len(table)) if table.kind[row] == EventKind.OPERATOR]
    whole = {
        int(table.track[row]): row  # rows are in order of their begins: the last one of a thread lies inside
        for row in rows
        if table.start_ns[row] <= 1000 * at and table.end_ns[row] >= 1000 * (at + 1)
    }
    by, _, found = asked(table, 1000 * at)
    assert by == "time" and {row["event"] for row in found} == set(whole.values())


@pytest.mark.parametrize("name", RECORDED)
def test_each_allocation_of_a_sample_is_its_owner_s(name: str) -> None:
    """Told as a snapshot tells it, in whole microseconds, an allocation leads to whom the Memory view says it belongs to."""
    table = sample(name)
    memory, owners, tracks = table.memory, owners_of(table), tracks_of(table)
    grew = [i for i in range(len(memory.bytes)) if memory.bytes[i] > 0 and memory.address[i] > 0 and tracks[i] >= 0]
    for i in grew[:: max(1, len(grew) // 20)]:
        at = int(memory.time_ns[i]) // 1000 * 1000
        by, apart, rows = asked(table, at, address=hex(memory.address[i]), bytes=memory.bytes[i])
        own = owners.operator[i]
        expected = int(owners.operators[own]) if own >= 0 else None
        assert (by, apart) == ("address and time", 0) and expected in {row["event"] for row in rows}
