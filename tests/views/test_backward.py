"""The backward pass: how its operators are tied, the case of a gather that synchronises, and a recount of all samples."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.backward import Tie, backward_operators
from tb_plugin.analysis.blocking_calls import waits_for_device
from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.filters import matching
from tb_plugin.model.trace.schema import DEVICE_WORK, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Notices
from tests.builders import TraceBuilder, kernel, part, payload_of, row, rows, trace
from tests.conftest import SAMPLE_FILES, UNLIKE, sample
from tests.depth import examples
from tests.views.backward_recount import backward_by_hand

ENGINE = "autograd::engine::evaluate_function: "


def node(builder: TraceBuilder, name: str, at: int, dur: int, **args: Any) -> TraceBuilder:
    """The engine's call of a function, and the function inside of it."""
    builder.op(ENGINE + name, at, dur, tid=2, **args)
    return builder.op(name, at + 1, dur - 2, tid=2, **args)


def gather() -> TraceBuilder:
    """A layer that gathers on line 23, whose backward pass waits for the device for 30 of its 50 us."""
    builder = trace().step(1, 0, 200)
    builder.python("model.py(60): forward", 0, 40).module("Model", 1, 38).module("PatchDropout", 2, 20)
    builder.python("model.py(23): forward", 3, 18).op("aten::gather", 5, 10, sequence=4)
    builder.launches(kernel("gather_kernel", 7, 20)).module("Linear", 25, 10).op("aten::addmm", 26, 5, sequence=5)
    node(builder, "AddmmBackward0", 100, 10, sequence=5, forward_thread=1)
    builder.launches(kernel("gemm", 9, 105))
    node(builder, "torch::autograd::AccumulateGrad", 110, 8).op("aten::add_", 112, 2, tid=2)
    builder.launches(kernel("add", 2, 115), kernel("ncclDevKernel_AllReduce", 11, 120, stream=8))
    node(builder, "GatherBackward0", 120, 50, sequence=4, forward_thread=1).op("aten::scatter_add_", 122, 45, tid=2)
    builder.op("aten::nonzero", 124, 40, tid=2).call(130, 30, tid=2, name="cudaStreamSynchronize")
    return builder.op("aten::index_put_", 165, 1, tid=2).launches(kernel("put", 4, 172)).device(0)


def test_a_gather_that_synchronises_says_layer_line_and_cost() -> None:
    table = gather().table()
    assert row(table, "backward", "backward_operators", backward_operator="GatherBackward0") == {
        "backward_operator": "GatherBackward0",
        "forward_operator": "aten::gather",
        "module": "PatchDropout_0",
        "forward_line": "model.py(23): forward",
        "calls": 1,
        "node_device_ns": 4_000,
        "node_device_share": 4 / 15,
        "node_host_ns": 50_000,
        "node_host_share": 50 / 68,
        "node_wait_ns": 30_000,
        "node_communication_ns": 0,
        "node_max_ns": 50_000,
        "forward_path": "Model_0 > PatchDropout_0",
        "tied_by": "sequence",
    }
    answer = payload_of(part(table, "backward"), "answer", Notices)
    (notice,) = answer.notices
    assert notice.text == (
        "{backward_operator} of {forward_operator} in {module} at {forward_line} takes {node_host_ns}, {node_host_share} of "
        "the CPU time of the backward pass; during {node_wait_ns} of this time, the CPU waits for the GPU."
    )


def test_a_gradient_that_is_added_belongs_to_what_made_it() -> None:
    """The work of the hooks in it that communicate is told apart."""
    added = row(gather().table(), "backward", "backward_operators", backward_operator="AccumulateGrad")
    told = ("forward_operator", "module", "tied_by", "node_device_ns", "node_communication_ns")
    assert [added[key] for key in told] == ["aten::addmm", "Linear_0", "before", 2_000, 11_000]


def test_forward_and_backward_of_a_line_stand_side_by_side() -> None:
    table = gather().table()
    line = row(table, "backward", "backward_lines", forward_line="model.py(23): forward")
    assert {key: line[key] for key in ("forward_device_ns", "forward_host_ns", "node_device_ns", "node_host_ns")} == {
        "forward_device_ns": 7_000,
        "forward_host_ns": 10_000,
        "node_device_ns": 4_000,
        "node_host_ns": 50_000,
    }
    facts = part(table, "backward").facts
    assert (facts["backward.calls"], facts["backward.untied"], facts["backward.tied_before"]) == (3, 0, 1)


def test_what_cannot_be_tied_is_counted() -> None:
    builder = trace().op("aten::mul", 0, 5)
    node(node(builder, "torch::autograd::AccumulateGrad", 10, 5), "MulBackward0", 20, 5)
    builder.op("AddBackward0", 30, 5, tid=2).arrow(0, 30)
    # A backward pass inside of one that is tied, as of a checkpoint: by the operator around it.
    builder.op(ENGINE + "CheckpointFunctionBackward", 40, 20, tid=2).arrow(0, 40)
    builder.op(ENGINE + "SinBackward0", 45, 5, tid=2)
    table = builder.table()
    facts = part(table, "backward").facts
    told = {"tied_arrow": 2, "tied_sequence": 0, "tied_parent": 1, "tied_before": 0, "untied": 2}
    assert {key: facts[f"backward.{key}"] for key in told} == told
    host = {each["backward_operator"]: each["node_host_ns"] for each in rows(table, "backward", "backward_operators")}
    assert (host["CheckpointFunctionBackward"], host["SinBackward0"]) == (15_000, 5_000), "each its own time"
    missing = trace().op("aten::mul", 0, 5).table()
    assert not len(backward_operators(missing).row)


def test_the_recording_of_a_gather_names_its_layer_and_line() -> None:
    """Recorded by PyTorch 2.13 with deterministic algorithms; the custom function is tied as well."""
    table = sample(next(name for name in SAMPLE_FILES if name.startswith("patch_dropout_cpu/")))
    found = {each["backward_operator"]: each for each in rows(table, "backward", "backward_operators")}
    gathered, twice = found["GatherBackward0"], found["TwiceBackward"]
    assert (gathered["forward_operator"], gathered["forward_path"]) == (
        "aten::gather",
        "PatchClassifier_0 > PatchDropout_0",
    )
    assert (gathered["forward_line"], gathered["calls"]) == ("record_patch_dropout_cpu.py(23): forward", 2)
    assert gathered["node_host_share"] > 0.2
    assert (twice["module"], twice["forward_line"]) == ("Scale_0", "record_patch_dropout_cpu.py(45): forward")
    facts = part(table, "backward").facts
    assert (facts["backward.calls"], facts["backward.untied"]) == (42, 0)


def recount(table: TraceTable) -> tuple[Counter[tuple[str, str | None, str | None]], dict[str, int]]:
    """Calls by names and line, and sums, one event after the other, from the definitions in docs/concepts."""
    name = [table.strings[int(i)] for i in table.name]
    around = table.operator.tolist()
    by_hand = backward_by_hand(table)
    label, of, tied = by_hand.label, by_hand.of, by_hand.tied
    lines, texts = code_lines(table).of, code_lines(table).texts.to_pylist()
    calls: Counter[tuple[str, str | None, str | None]] = Counter()
    sums: dict[str, int] = defaultdict(int)
    for event in label:
        source = tied.get(event, -1)
        line = int(lines[source])
        calls[label[event], None if source < 0 else name[source], None if line < 0 else texts[line]] += 1
        sums["untied"] += source < 0
        if around[event] not in of:
            sums["host_ns"] += int(table.dur_ns[event])
    waits = waits_for_device(table) & (table.kind == EventKind.RUNTIME)
    for event in range(len(table)):
        inside = of.get(around[event], -1)
        if inside < 0:
            continue
        dur = int(table.dur_ns[event])
        if table.kind[event] in DEVICE_WORK:
            sums["communication_ns" if table.is_collective[event] else "device_ns"] += dur
        elif waits[event] and not (table.parent[event] >= 0 and waits[table.parent[event]]):
            sums["wait_ns"] += min(dur, int(table.end_ns[inside] - table.start_ns[event]))
    return calls, sums


def same(table: TraceTable) -> None:
    answered = part(table, "backward")
    calls, sums = recount(table)
    found: Counter[tuple[str, str | None, str | None]] = Counter()
    listed = answered.frames["backward_operators"].data.to_pylist()
    for each in listed:
        found[each["backward_operator"], each["forward_operator"], each["forward_line"]] += each["calls"]
    assert found == calls
    told = ("untied", "host_ns", "device_ns", "communication_ns", "wait_ns")
    assert [answered.facts[f"backward.{key}"] for key in told] == [sums[key] for key in told]
    lines = answered.frames["backward_lines"].data
    for key in ("calls", "node_host_ns"):
        assert sum(lines[key].to_pylist()) == sum(each[key] for each in listed)
    ways = sum(answered.facts[f"backward.tied_{each.name.lower()}"] or 0 for each in Tie if each)
    assert ways + sums["untied"] == answered.facts["backward.calls"]


@pytest.mark.parametrize("name", UNLIKE)
def test_a_sample_recounted(name: str) -> None:
    table = sample(name)
    same(table)
    for each in rows(table, "backward", "backward_operators")[:5]:
        where = tuple(
            (key, each[key] or "") for key in ("backward_operator", "forward_operator", "forward_path", "forward_line")
        )
        chosen = matching(table, np.ones(len(table), np.bool_), where)
        assert chosen.sum() == each["calls"], "a row leads to its events"


NAMES = (
    "aten::a",
    "aten::b",
    "ABackward0",
    "BBackward0",
    ENGINE + "ABackward0",
    ENGINE + "torch::autograd::AccumulateGrad",
)
CALLS = st.lists(
    st.tuples(
        st.sampled_from(NAMES), st.integers(0, 40), st.integers(1, 25), st.integers(1, 2),
        st.sampled_from([None, 1, 2, 3]), st.sampled_from([None, 1]), st.sampled_from(["", "kernel", "nccl", "wait"]),
    ),
    max_size=14,
)  # fmt: skip


@given(CALLS, st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=2))
@examples(25, 500)
def test_any_calls_recounted(calls: Any, arrows: Any) -> None:
    builder = trace().op("aten::first", 0, 1, tid=3)
    for name, at, dur, tid, sequence, thread, does in calls:
        builder.op(name, at, dur, tid=tid, sequence=sequence, forward_thread=thread)
        if does == "wait":
            builder.call(at, dur, tid=tid, name="cudaStreamSynchronize")
        elif does:
            builder.launches(kernel("ncclDevKernel_AllReduce" if does == "nccl" else "k", 3, at + 1))
    for forward, backward in arrows:
        builder.arrow(forward, backward)
    same(builder.table())
