"""What backward passes compute again: told by frames, by the backward operator that does so, and by what operators note."""

from __future__ import annotations

import gzip
import json
import re

import numpy as np
import pytest
from msgspec.structs import replace

from tb_plugin.analysis.filters import matching
from tb_plugin.analysis.recomputation import Sign, recomputations
from tb_plugin.model.trace.table import TraceTable
from tests.builders import TraceBuilder, kernel, part, row, rows, trace
from tests.conftest import SHARED, loaded, needs_shared
from tests.views.test_backward import node

ENGINE = "autograd::engine::evaluate_function: "
CHECKPOINT = "torch/utils/checkpoint.py(1500): recompute_fn"


def forward() -> TraceBuilder:
    builder = trace().module("Block", 0, 40, number=3).op("aten::mm", 5, 10, sequence=1).launches(kernel("mm", 6, 10))
    return builder.op("aten::relu", 20, 10, sequence=2).launches(kernel("relu", 4, 25)).device(0)


def again(builder: TraceBuilder, at: int) -> TraceBuilder:
    """The same on the thread of the engine, from this time on."""
    builder.op("aten::mm", at, 10, tid=2, sequence=5, forward_thread=0).launches(kernel("mm", 6, at + 5))
    builder.op("aten::empty", at + 11, 2, tid=2)
    return builder.op("aten::relu", at + 15, 10, tid=2, sequence=6, forward_thread=0).launches(
        kernel("relu", 4, at + 20)
    )


def in_a_hook(framed: bool) -> TraceTable:
    """A checkpoint that is not reentrant: the first function that wants a tensor runs the block forward again."""
    builder = node(forward(), "ReluBackward0", 100, 60, sequence=2, forward_thread=1)
    if framed:
        builder.python("torch/utils/checkpoint.py(1111): unpack_hook", 102, 46, tid=2).python(
            CHECKPOINT, 103, 40, tid=2
        )
        builder.module("Block", 104, 38, number=3, tid=2)
    again(builder, 110)
    builder.op("aten::threshold_backward", 150, 5, tid=2).launches(kernel("bw", 7, 151))
    node(builder, "MmBackward0", 165, 20, sequence=1, forward_thread=1).op("aten::mm", 168, 9, tid=2)
    return builder.launches(kernel("bw", 8, 170)).table()


def as_a_function() -> TraceTable:
    """A reentrant checkpoint: a function of autograd runs the block forward, and a backward pass of its own."""
    builder = node(forward(), "CheckpointFunctionBackward", 100, 90, sequence=3, forward_thread=1)
    again(builder, 110)
    node(builder, "ReluBackward0", 140, 10, sequence=6, forward_thread=2)
    builder.op("aten::threshold_backward", 143, 5, tid=2).launches(kernel("bw", 7, 145))
    node(builder, "MmBackward0", 155, 20, sequence=5, forward_thread=2).op("aten::mm", 158, 9, tid=2)
    return builder.launches(kernel("bw", 8, 160)).table()


@pytest.mark.parametrize(
    ("table", "sign", "host_us"),
    [(in_a_hook(True), Sign.FRAME, 40), (in_a_hook(False), Sign.SEQUENCE, 25), (as_a_function(), Sign.FUNCTION, 58)],
    ids=["frame", "sequence", "function"],
)
def test_what_runs_again_is_found_and_the_backward_pass_is_not(table: TraceTable, sign: Sign, host_us: int) -> None:
    found = recomputations(table)
    assert found.sign.tolist() == [sign]
    assert [table.strings[i] for i in table.name[found.operator]] == ["aten::mm", "aten::empty", "aten::relu"]
    assert sorted(table.dur_ns[found.work].tolist()) == [4_000, 6_000]
    told = {key: value for key, value in part(table, "backward").facts.items() if key.startswith("recompute.")}
    assert told == {
        "recompute.calls": 1,
        "recompute.device_ns": 10_000,
        "recompute.host_ns": host_us * 1_000,
    }


def test_what_stages_hand_on_is_not_computed_again_and_gathers_are() -> None:
    builder = node(forward(), "ReluBackward0", 100, 60, sequence=2, forward_thread=1).python(CHECKPOINT, 103, 50, tid=2)
    again(builder, 110)
    builder.op("c10d::recv_", 140, 5, tid=2).launches(
        kernel("ncclDevKernel_SendRecv", 7, 141, **{"Collective name": "recv"})
    )
    builder.op("FSDP::all_gather", 146, 5, tid=2).launches(
        kernel("ncclDevKernel_AllGather", 8, 149, **{"Collective name": "_allgather_base"})
    )
    table = builder.device(0).table()
    found = recomputations(table)
    assert sorted(table.dur_ns[found.work].tolist()) == [4_000, 6_000, 8_000]
    assert [table.strings[i] for i in table.name[found.operator]][-1] == "FSDP::all_gather"
    assert part(table, "backward").facts["recompute.device_ns"] == 18_000


def test_the_modules_say_their_part() -> None:
    table = in_a_hook(True)
    assert row(table, "modules", module="Block_3")["recomputed_device_ns"] == 10_000
    assert rows(table, "backward", "recomputed") == [
        {
            "module": "Block_3",
            "recomputed_by": "frame",
            "recomputations": 1,
            "recomputed_device_ns": 10_000,
            "recomputed_host_ns": 40_000,
        }
    ]


def test_its_events_are_operators_and_modules_of_recomputations() -> None:
    table = in_a_hook(True)
    every = np.ones(len(table), np.bool_)
    found = matching(table, every, (("recomputed_by", "frame"),))
    assert [table.strings[i] for i in table.name[found]] == [
        "nn.Module: Block_3",
        "aten::mm",
        "aten::empty",
        "aten::relu",
    ]
    assert matching(table, every, (("module", "Block_3"), ("recomputed_by", "frame"))).sum() == 1
    assert not matching(table, every, (("recomputed_by", "no such sign"),)).any()


def test_without_any_nothing_is_told() -> None:
    builder = node(forward(), "ReluBackward0", 100, 60, sequence=2, forward_thread=1)
    table = builder.op("aten::threshold_backward", 150, 5, tid=2).launches(kernel("bw", 7, 151)).table()
    assert len(recomputations(table)) == 0
    for view in ("backward", "findings"):
        assert not [key for key in part(table, view).facts if "recomput" in key]
    assert "recomputed_device_ns" not in row(table, "modules", module="Block_3")


def test_a_backward_pass_that_is_gone_through_backwards_computes_nothing_again() -> None:
    """``create_graph=True``: what it notes a second backward pass uses."""
    builder = node(forward(), "ReluBackward0", 100, 60, sequence=2, forward_thread=1)
    again(builder, 110)
    node(builder, "MulBackward0", 200, 20, sequence=5, forward_thread=2)
    assert len(recomputations(builder.table())) == 0


def test_a_checkpoint_inside_of_a_checkpoint_counts_once() -> None:
    """Reentrant: the engine's inner call of the same function is part of the outer one, its backward pass is not."""
    builder = node(forward(), "CheckpointFunctionBackward", 100, 190, sequence=3, forward_thread=1)
    again(builder, 110)
    node(builder, "CheckpointFunctionBackward", 140, 140, sequence=6, forward_thread=2)
    builder.python(CHECKPOINT, 145, 60, tid=2).python(CHECKPOINT, 146, 50, tid=2)
    again(builder, 150)
    found = recomputations(node(builder, "ReluBackward0", 210, 20, sequence=6, forward_thread=2).table())
    assert (found.start.tolist(), found.of.tolist()) == ([101_000], [0, 0, 0, 0])
    assert found.host_ns.tolist() == [(188 - 20) * 1_000]
    assert len(found.operator) == 6


CHECKPOINTED = "shared/data/tracelens/mi300/resnet_act_checkpoint.json.gz"


@needs_shared
def test_a_recorded_training_recounted_from_its_text() -> None:
    """Every kernel whose launch lies inside of a frame ``recompute_fn``, in plain Python over the file's events."""
    content = (SHARED / CHECKPOINTED.removeprefix("shared/")).read_bytes()
    events = json.loads(gzip.decompress(content))["traceEvents"]
    complete = [event for event in events if event.get("ph") == "X"]
    frames = [event for event in complete if re.search(r"checkpoint\.py\(\d+\): recompute_fn$", event["name"])]
    inside = {
        event["args"]["correlation"]
        for event in complete
        if event["cat"] == "cuda_runtime"
        and any(f["tid"] == event["tid"] and f["ts"] <= event["ts"] < f["ts"] + f["dur"] for f in frames)
    }
    work = [
        round(event["dur"] * 1000)
        for event in complete
        if event["cat"] in ("kernel", "gpu_memcpy", "gpu_memset") and event["args"]["correlation"] in inside
    ]
    table = loaded(CHECKPOINTED)
    by_frames = recomputations(table)
    assert len(by_frames) == len(frames) == 12
    assert sorted(table.dur_ns[by_frames.work].tolist()) == sorted(work) and sum(work) == 4_209_958
    assert by_frames.host_ns.sum() == sum(round(frame["dur"] * 1000) for frame in frames)
    # What operators note tells the same where no frame was recorded.
    stages = replace(table.recorder.stages, recomputing="")
    by_sequence = recomputations(replace(table, recorder=replace(table.recorder, stages=stages)))
    assert by_sequence.sign.tolist() == [Sign.SEQUENCE] * 12
    assert by_sequence.work.tolist() == by_frames.work.tolist()
    assert by_sequence.operator.tolist() == by_frames.operator.tolist()
