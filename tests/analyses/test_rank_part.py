"""What one rank contributes to Distributed: its calls, what came before each, and what it computed."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analyses.base import Params
from tb_plugin.analyses.distributed.before import PARTS
from tb_plugin.analyses.distributed.profile import profile_part
from tb_plugin.trace.table import TraceTable
from tests.builders import TraceBuilder, kernel, memcpy, trace
from tests.depth import examples
from tests.plain_calls import plain_before, plain_calls

Row = dict[str, Any]
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def part_rows(table: TraceTable, name: str = "collectives") -> list[Row]:
    found: list[Row] = profile_part(table, Params()).frames[name].data.to_pylist()
    return found


NAMES = (
    "allreduce",
    "_allgather_base",
    "send",
    "recv",
    "broadcast",
    "barrier",
    "wait",
    "start_coalescing",
    "end_coalescing",
)
TEXTS = ("c10d::allreduce_", "c10d::send", "nccl:all_reduce", "gloo:broadcast", "nccl:coalesced", "record_param_comms",
         "aten::mm", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")  # fmt: skip
RANKS = ("[0, 1]", "[1, 0]", "[0, 1, 2]", "", "[", None)


@st.composite
def statements(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of a collective, any of which may be missing."""
    if draw(st.integers(0, 3)) == 0:
        return {}
    return {
        "Collective name": draw(st.sampled_from(NAMES)),
        "dtype": draw(st.sampled_from(("Float", "BFloat16", None))),
        "In msg nelems": draw(st.sampled_from((0, 4, 1 << 50, None))),
        "Out msg nelems": draw(st.sampled_from((8, None))),
        "Group size": draw(st.sampled_from((2, None))),
        "Process Group Name": draw(st.sampled_from(("0", "1", None))),
        "Process Group Ranks": draw(st.sampled_from(RANKS)),
        "Seq": draw(st.sampled_from((1, 2, None))),
        "Dst Rank": draw(st.sampled_from((1, None))),
        "Src Rank": draw(st.sampled_from((2, None))),
    }


@st.composite
def workers(draw: st.DrawFn) -> TraceBuilder:
    """A worker's trace of a few dozen nanoseconds: host calls, kernels with and without a launch, copies, two steps."""
    builder = trace()
    builder.root["distributedInfo"] = {
        "rank": draw(st.integers(0, 1)),
        "pg_config": [{"pg_name": "0", "pg_size": draw(st.sampled_from((2, 3)))}, {"pg_name": "1", "pg_size": 2}],
    }
    for number in range(draw(st.integers(0, 2))):
        builder.step(number, 0.03 * number, 0.03)
    at = st.integers(0, 55).map(lambda ns: ns / 1000)
    long = st.integers(0, 14).map(lambda ns: ns / 1000)
    for number in range(draw(st.integers(1, 9))):
        name, begin, tid = draw(st.sampled_from(TEXTS)), draw(at), draw(st.integers(1, 2))
        shapes = draw(st.sampled_from(([[3]], [[3], [1 << 40, 1 << 40]], [[2, 2], [5]], [[-5]], None)))
        types = ["float", draw(st.sampled_from(("float", "long int", "Scalar")))]
        category = "user_annotation" if name.startswith(("nccl:", "gloo:", "enumerate")) else "cpu_op"
        more = draw(statements()) if name == "record_param_comms" else {}
        builder.op(
            name, begin, draw(long), number + 1, tid, shapes=shapes, category=category, **{"Input type": types, **more}
        )
        for _ in range(draw(st.sampled_from((0, 0, 1, 2)))):
            own = draw(statements()) if draw(st.booleans()) else {}
            which = draw(st.sampled_from((NCCL, NCCL, "gemm", "ncclDevKernel_SendRecv")))
            stream, at_ns = draw(st.integers(7, 8)), draw(at)
            work = kernel(which, draw(long), at_ns, stream=stream, **(own if which != "gemm" else {}))
            if draw(st.booleans()):
                builder.launches(work, at=begin)
            else:
                builder.on_device(work, ext=draw(st.sampled_from((number + 1, None))))
    if draw(st.booleans()):
        builder.on_device(memcpy(draw(long), draw(at)))
    return builder


@st.composite
def batched(draw: st.DrawFn) -> TraceBuilder:
    """Calls one after the other on two threads: some launch, some do not, some close a batch or await a number."""
    builder = trace()
    kinds = st.sampled_from(("silent", "silent", "launches", "closes", "ends", "wait"))
    calls = draw(st.lists(st.tuples(kinds, st.integers(1, 2), st.integers(1, 3), st.booleans()), max_size=12))
    for place, (kind, tid, sequence, plain) in enumerate(calls):
        begin = place * 0.004
        stated: Any = {
            "Process Group Name": draw(st.sampled_from("01")),
            "Seq": sequence,
            "dtype": "Float",
            "In msg nelems": 4,
        }
        stated["Collective name"] = (
            draw(st.sampled_from(("allreduce", "send", "allreduce"))) if kind != "wait" else "wait"
        )
        if kind == "closes":
            builder.annotation("nccl:coalesced", begin, draw(st.sampled_from((0.003, 0.02))), place + 1, tid)
        elif plain and kind == "silent":
            builder.op("c10d::send", begin, 0.002, place + 1, tid)
        else:
            stated["Collective name"] = "end_coalescing" if kind == "ends" else stated["Collective name"]
            builder.op("record_param_comms", begin, 0.002, place + 1, tid, **stated)
        for _ in range({"silent": 0, "wait": 0}.get(kind, draw(st.sampled_from((1, 1, 2, 0))))):
            own = stated if plain and kind != "ends" else {}
            builder.on_device(kernel(NCCL, 0.003, draw(st.integers(0, 60)) / 1000, **own), ext=place + 1)
    return builder


@given(st.one_of(workers(), batched()))
@examples(60, 3000)
def test_a_plain_recount(builder: TraceBuilder) -> None:
    """Call by call and nanosecond by nanosecond."""
    table = builder.table()
    rows, expected = part_rows(table), plain_calls(table)
    assert [{key: row[key] for key in one} for row, one in zip(rows, expected, strict=True)] == expected
    assert [[row[key] for key in ("before_ns", *PARTS)] for row in rows] == plain_before(table, expected)
